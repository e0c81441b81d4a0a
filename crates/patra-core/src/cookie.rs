//! Cookies as a pool of accounts that wear out: which may be used, what an error does to one (CRAWL-05..22). A cookie is a
//! credential; this is its runtime half.

use std::time::Duration;

use serde::Serialize;

use crate::state::CookieStatus;
use crate::time::Ts;

/// Larger is preferred (CRAWL-06).
pub const DEFAULT_PRIORITY: i32 = 1;
/// Requests a day (CRAWL-08).
pub const DEFAULT_DAILY_LIMIT: u32 = 100;

/// What wears a cookie out, and for how long it rests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    pub max_consecutive_errors: u32,
    pub max_total_errors: u32,
    pub cooling: Duration,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { max_consecutive_errors: 3, max_total_errors: 10, cooling: Duration::from_secs(30 * 60) }
    }
}

/// The wear of one cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wear {
    pub status: CookieStatus,
    /// Uses since `day` began.
    pub daily_used: u32,
    /// When the day of `daily_used` began; `None` before the first use.
    pub day: Option<Ts>,
    pub daily_limit: u32,
    pub consecutive_errors: u32,
    pub total_errors: u32,
    /// Not null exactly while it is cooling.
    pub cooling_until: Option<Ts>,
    /// When the present cooling began: errors of requests that had left before do not ban (CRAWL-18).
    pub cooling_since: Option<Ts>,
    pub last_used_at: Option<Ts>,
}

impl Wear {
    pub fn new(daily_limit: u32) -> Wear {
        Wear {
            status: CookieStatus::Active,
            daily_used: 0,
            day: None,
            daily_limit,
            consecutive_errors: 0,
            total_errors: 0,
            cooling_until: None,
            cooling_since: None,
            last_used_at: None,
        }
    }

    /// Uses on the day that began at `day`. Whose clock lags counts on in the day that another has begun.
    pub fn used_on(&self, day: Ts) -> u32 {
        if self.day >= Some(day) { self.daily_used } else { 0 }
    }

    /// Cooling ends by itself, whoever looks first (CRAWL-16).
    #[must_use]
    pub fn rested(&self, now: Ts) -> Wear {
        if self.status == CookieStatus::Cooling && self.cooling_until.is_none_or(|until| until <= now) {
            return Wear { status: CookieStatus::Active, cooling_until: None, cooling_since: None, ..self.clone() };
        }
        self.clone()
    }

    /// Whether it may be taken (CRAWL-22).
    pub fn is_selectable(&self, now: Ts, day: Ts) -> bool {
        self.rested(now).status == CookieStatus::Active && self.used_on(day) < self.daily_limit
    }

    /// Taken for one request.
    #[must_use]
    pub fn used(&self, now: Ts, day: Ts) -> Wear {
        Wear {
            daily_used: self.used_on(day).saturating_add(1),
            day: self.day.max(Some(day)),
            last_used_at: Some(now),
            ..self.rested(now)
        }
    }

    /// A request that left at `started` worked.
    #[must_use]
    pub fn worked(&self, now: Ts) -> Wear {
        Wear { consecutive_errors: 0, ..self.rested(now) }
    }

    /// A request that left at `started` failed, and the cookie is to blame (CRAWL-14..21).
    #[must_use]
    pub fn failed(&self, started: Ts, now: Ts, rules: &Rules) -> Wear {
        let seen = self.rested(now);
        let total_errors = seen.total_errors.saturating_add(1);
        let counted = Wear { total_errors, ..seen };
        let ended = |status| Wear { status, cooling_until: None, cooling_since: None, ..counted.clone() };
        match counted.status {
            CookieStatus::Invalid | CookieStatus::Banned => counted,
            CookieStatus::Cooling if counted.cooling_since.is_some_and(|since| started >= since) => {
                ended(CookieStatus::Banned)
            }
            _ if total_errors >= rules.max_total_errors => ended(CookieStatus::Invalid),
            CookieStatus::Cooling => counted,
            CookieStatus::Active => {
                let consecutive_errors = counted.consecutive_errors.saturating_add(1);
                if consecutive_errors < rules.max_consecutive_errors {
                    return Wear { consecutive_errors, ..counted };
                }
                Wear {
                    status: CookieStatus::Cooling,
                    consecutive_errors: 0,
                    cooling_until: Some(now + rules.cooling),
                    cooling_since: Some(now),
                    ..counted
                }
            }
        }
    }

    /// A person has looked: its errors are forgotten, its uses of today are not (CRAWL-10).
    #[must_use]
    pub fn trusted(&self) -> Wear {
        let Wear { daily_used, day, daily_limit, last_used_at, .. } = *self;
        Wear { daily_used, day, last_used_at, ..Wear::new(daily_limit) }
    }
}

/// How many of a platform's cookies are in which state, cooling that has ended counted as active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Counts {
    pub active: u32,
    pub cooling: u32,
    pub invalid: u32,
    pub banned: u32,
}

impl Counts {
    pub fn add(&mut self, status: CookieStatus) {
        let place = match status {
            CookieStatus::Active => &mut self.active,
            CookieStatus::Cooling => &mut self.cooling,
            CookieStatus::Invalid => &mut self.invalid,
            CookieStatus::Banned => &mut self.banned,
        };
        *place += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: Rules =
        Rules { max_consecutive_errors: 3, max_total_errors: 10, cooling: Duration::from_secs(30 * 60) };

    fn at(secs: i64) -> Ts {
        Ts::from_secs(1_000_000 + secs)
    }

    fn failing(wear: &Wear, times: i64) -> Wear {
        (0..times).fold(wear.clone(), |wear, n| wear.failed(at(n), at(n), &RULES))
    }

    // covers: CRAWL-05, CRAWL-09, CRAWL-11, CRAWL-14, CRAWL-15, CRAWL-16, CRAWL-167, CRAWL-168
    #[test]
    fn three_errors_in_a_row_rest_a_cookie_for_half_an_hour() {
        assert_eq!(RULES, Rules::default());
        let fresh = Wear::new(DEFAULT_DAILY_LIMIT);
        let two = failing(&fresh, 2);
        assert_eq!((two.status, two.consecutive_errors), (CookieStatus::Active, 2));
        assert_eq!(two.worked(at(2)).consecutive_errors, 0, "a success forgets them");
        let cooling = failing(&fresh, 3);
        assert_eq!((cooling.status, cooling.consecutive_errors, cooling.total_errors), (CookieStatus::Cooling, 0, 3));
        assert_eq!(cooling.cooling_until, Some(at(2) + RULES.cooling));
        assert!(!cooling.is_selectable(at(1_801), at(0)));
        assert!(cooling.is_selectable(at(1_802), at(0)), "exactly half an hour later");
        assert_eq!(cooling.rested(at(1_802)).cooling_until, None);
    }

    // covers: CRAWL-18, CRAWL-GAP-06
    #[test]
    fn an_error_of_a_request_that_began_while_it_cooled_bans_it() {
        let cooling = failing(&Wear::new(9), 3);
        let late = cooling.failed(at(1), at(10), &RULES);
        assert_eq!((late.status, late.total_errors), (CookieStatus::Cooling, 4), "it had left before");
        let banned = cooling.failed(at(5), at(10), &RULES);
        assert_eq!((banned.status, banned.cooling_until), (CookieStatus::Banned, None));
        assert_eq!(banned.failed(at(20), at(20), &RULES).status, CookieStatus::Banned);
        assert!(!banned.is_selectable(at(999_999), at(0)));
    }

    // covers: CRAWL-10, CRAWL-17, CRAWL-19, CRAWL-20, CRAWL-169
    #[test]
    fn ten_errors_in_all_make_it_invalid_and_a_person_leads_out() {
        let mut wear = Wear::new(9).used(at(0), at(0));
        for n in 0..9 {
            wear = wear.worked(at(n)).failed(at(n), at(n), &RULES);
        }
        assert_eq!((wear.status, wear.total_errors), (CookieStatus::Active, 9));
        // The tenth is also the third in a row: invalid wins.
        let worn = Wear { consecutive_errors: 2, ..wear }.failed(at(9), at(9), &RULES);
        assert_eq!(worn.status, CookieStatus::Invalid);
        assert_eq!(worn.worked(at(10)).status, CookieStatus::Invalid);
        assert_eq!(worn.rested(at(1_000_000)).status, CookieStatus::Invalid);
        let trusted = worn.trusted();
        assert_eq!((trusted.status, trusted.total_errors, trusted.daily_used), (CookieStatus::Active, 0, 1));
    }

    // covers: CRAWL-07, CRAWL-08, CRAWL-GAP-12
    #[test]
    fn a_days_uses_end_with_the_day() {
        let used = Wear::new(2).used(at(0), at(0)).used(at(1), at(0));
        assert_eq!(used.daily_used, 2);
        assert!(!used.is_selectable(at(2), at(0)), "at its limit");
        assert_eq!(used.status, CookieStatus::Active);
        assert!(used.is_selectable(at(86_400), at(86_400)));
        let next = used.used(at(86_400), at(86_400));
        assert_eq!(next.daily_used, 1);
        let late = next.used(at(86_400), at(0));
        assert_eq!((late.daily_used, late.day), (2, Some(at(86_400))), "no second helping for a clock that lags");
    }
}
