//! Cookies: a pool of accounts with limited usage; which one may be used, and the effect of an error (CRAWL-05..22).
//! A cookie is a credential; this is its runtime half.

use std::time::Duration;

use serde::Serialize;

use crate::state::CookieStatus;
use crate::time::Ts;

/// Larger is preferred (CRAWL-06).
pub const DEFAULT_PRIORITY: i32 = 1;
/// Requests a day (CRAWL-08).
pub const DEFAULT_DAILY_LIMIT: u32 = 100;

/// When errors invalidate a cookie, and how long it cools down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieLimits {
    pub max_consecutive_errors: u32,
    pub max_total_errors: u32,
    pub cooling: Duration,
}

impl Default for CookieLimits {
    fn default() -> CookieLimits {
        CookieLimits { max_consecutive_errors: 3, max_total_errors: 10, cooling: Duration::from_secs(30 * 60) }
    }
}

/// Usage and status of one cookie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieUsage {
    pub status: CookieStatus,
    /// Uses since `day` began.
    pub daily_used: u32,
    /// When the day of `daily_used` began; `None` before the first use.
    pub day: Option<Ts>,
    pub daily_limit: u32,
    pub consecutive_errors: u32,
    pub total_errors: u32,
    /// Set exactly while it is cooling.
    pub cooling_until: Option<Ts>,
    /// When the current cooling began: errors of requests that were sent before do not ban (CRAWL-18).
    pub cooling_since: Option<Ts>,
    pub last_used_at: Option<Ts>,
}

impl CookieUsage {
    pub fn new(daily_limit: u32) -> CookieUsage {
        CookieUsage {
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

    /// Uses on the day that began at `day`. A process whose clock lags counts in the newer day that another has
    /// begun.
    pub fn used_on(&self, day: Ts) -> u32 {
        if self.day >= Some(day) { self.daily_used } else { 0 }
    }

    /// The usage after cooling has ended, if it has (CRAWL-16).
    #[must_use]
    pub fn after_cooling(&self, now: Ts) -> CookieUsage {
        if self.status == CookieStatus::Cooling && self.cooling_until.is_none_or(|until| until <= now) {
            return CookieUsage {
                status: CookieStatus::Active,
                cooling_until: None,
                cooling_since: None,
                ..self.clone()
            };
        }
        self.clone()
    }

    /// Whether the cookie may be picked (CRAWL-22).
    pub fn is_selectable(&self, now: Ts, day: Ts) -> bool {
        self.after_cooling(now).status == CookieStatus::Active && self.used_on(day) < self.daily_limit
    }

    /// The usage after the cookie is picked for one request.
    #[must_use]
    pub fn used(&self, now: Ts, day: Ts) -> CookieUsage {
        CookieUsage {
            daily_used: self.used_on(day).saturating_add(1),
            day: self.day.max(Some(day)),
            last_used_at: Some(now),
            ..self.after_cooling(now)
        }
    }

    /// The usage after a request succeeded.
    #[must_use]
    pub fn succeeded(&self, now: Ts) -> CookieUsage {
        CookieUsage { consecutive_errors: 0, ..self.after_cooling(now) }
    }

    /// The usage after a request that was sent at `started` failed because of the cookie (CRAWL-14..21).
    #[must_use]
    pub fn failed(&self, started: Ts, now: Ts, rules: &CookieLimits) -> CookieUsage {
        let current = self.after_cooling(now);
        let total_errors = current.total_errors.saturating_add(1);
        let counted = CookieUsage { total_errors, ..current };
        let ended = |status| CookieUsage { status, cooling_until: None, cooling_since: None, ..counted.clone() };
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
                    return CookieUsage { consecutive_errors, ..counted };
                }
                CookieUsage {
                    status: CookieStatus::Cooling,
                    consecutive_errors: 0,
                    cooling_until: Some(now + rules.cooling),
                    cooling_since: Some(now),
                    ..counted
                }
            }
        }
    }

    /// The usage after a person reactivated the cookie: errors are cleared, today's uses are not (CRAWL-10).
    #[must_use]
    pub fn reactivated(&self) -> CookieUsage {
        let CookieUsage { daily_used, day, daily_limit, last_used_at, .. } = *self;
        CookieUsage { daily_used, day, last_used_at, ..CookieUsage::new(daily_limit) }
    }
}

/// Number of a platform's cookies by status; a cookie whose cooling has ended counts as active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CookieCounts {
    pub active: u32,
    pub cooling: u32,
    pub invalid: u32,
    pub banned: u32,
}

impl CookieCounts {
    pub fn add(&mut self, status: CookieStatus) {
        let count = match status {
            CookieStatus::Active => &mut self.active,
            CookieStatus::Cooling => &mut self.cooling,
            CookieStatus::Invalid => &mut self.invalid,
            CookieStatus::Banned => &mut self.banned,
        };
        *count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: CookieLimits =
        CookieLimits { max_consecutive_errors: 3, max_total_errors: 10, cooling: Duration::from_secs(30 * 60) };

    fn at(secs: i64) -> Ts {
        Ts::from_secs(1_000_000 + secs)
    }

    fn failing(usage: &CookieUsage, times: i64) -> CookieUsage {
        (0..times).fold(usage.clone(), |usage, n| usage.failed(at(n), at(n), &RULES))
    }

    // covers: CRAWL-05, CRAWL-09, CRAWL-11, CRAWL-14, CRAWL-15, CRAWL-16, CRAWL-167, CRAWL-168
    #[test]
    fn three_consecutive_errors_cool_a_cookie_for_half_an_hour() {
        assert_eq!(RULES, CookieLimits::default());
        let fresh = CookieUsage::new(DEFAULT_DAILY_LIMIT);
        let two = failing(&fresh, 2);
        assert_eq!((two.status, two.consecutive_errors), (CookieStatus::Active, 2));
        assert_eq!(two.succeeded(at(2)).consecutive_errors, 0, "a success forgets them");
        let cooling = failing(&fresh, 3);
        assert_eq!((cooling.status, cooling.consecutive_errors, cooling.total_errors), (CookieStatus::Cooling, 0, 3));
        assert_eq!(cooling.cooling_until, Some(at(2) + RULES.cooling));
        assert!(!cooling.is_selectable(at(1_801), at(0)));
        assert!(cooling.is_selectable(at(1_802), at(0)), "exactly half an hour later");
        assert_eq!(cooling.after_cooling(at(1_802)).cooling_until, None);
    }

    // covers: CRAWL-18, CRAWL-GAP-06
    #[test]
    fn error_of_a_request_started_while_cooling_bans_the_cookie() {
        let cooling = failing(&CookieUsage::new(9), 3);
        let late = cooling.failed(at(1), at(10), &RULES);
        assert_eq!((late.status, late.total_errors), (CookieStatus::Cooling, 4), "it had left before");
        let banned = cooling.failed(at(5), at(10), &RULES);
        assert_eq!((banned.status, banned.cooling_until), (CookieStatus::Banned, None));
        assert_eq!(banned.failed(at(20), at(20), &RULES).status, CookieStatus::Banned);
        assert!(!banned.is_selectable(at(999_999), at(0)));
    }

    // covers: CRAWL-10, CRAWL-17, CRAWL-19, CRAWL-20, CRAWL-169
    #[test]
    fn ten_errors_make_a_cookie_invalid_until_it_is_reactivated() {
        let mut usage = CookieUsage::new(9).used(at(0), at(0));
        for n in 0..9 {
            usage = usage.succeeded(at(n)).failed(at(n), at(n), &RULES);
        }
        assert_eq!((usage.status, usage.total_errors), (CookieStatus::Active, 9));
        // The tenth is also the third in a row: invalid wins.
        let invalid = CookieUsage { consecutive_errors: 2, ..usage }.failed(at(9), at(9), &RULES);
        assert_eq!(invalid.status, CookieStatus::Invalid);
        assert_eq!(invalid.succeeded(at(10)).status, CookieStatus::Invalid);
        assert_eq!(invalid.after_cooling(at(1_000_000)).status, CookieStatus::Invalid);
        let reactivated_usage = invalid.reactivated();
        assert_eq!(
            (reactivated_usage.status, reactivated_usage.total_errors, reactivated_usage.daily_used),
            (CookieStatus::Active, 0, 1)
        );
    }

    // covers: CRAWL-07, CRAWL-08, CRAWL-GAP-12
    #[test]
    fn daily_uses_reset_with_the_day() {
        let used = CookieUsage::new(2).used(at(0), at(0)).used(at(1), at(0));
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
