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
/// Longest use of a cookie that counts towards its `max_parallel`: the use of a process that died ends then.
pub const COOKIE_LEASE: Duration = Duration::from_secs(5 * 60);

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
    /// From this time on the cookie is not used.
    pub expires_at: Option<Ts>,
    /// Since when a person has paused it.
    pub paused_at: Option<Ts>,
    /// Most uses at the same time; 0: no limit.
    pub max_parallel: u32,
    /// Uses in progress. Counted only for a cookie with `max_parallel`.
    pub in_use: u32,
}

/// Why a cookie may not be picked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CookieObstacle {
    Status(CookieStatus),
    Expired(Ts),
    Paused,
    /// As many uses as its `max_parallel` are in progress.
    InUse(u32),
    /// It was used as often today as its daily limit allows.
    Used(u32),
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
            expires_at: None,
            paused_at: None,
            max_parallel: 0,
            in_use: 0,
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
        self.obstacle(now, day, false).is_none()
    }

    /// Why the cookie may not be picked, if so. For a check by a person, it may be cooling or paused (CRAWL-GAP-06).
    pub fn obstacle(&self, now: Ts, day: Ts, check: bool) -> Option<CookieObstacle> {
        let status = self.after_cooling(now).status;
        if status != CookieStatus::Active && !(check && status == CookieStatus::Cooling) {
            return Some(CookieObstacle::Status(status));
        }
        if let Some(at) = self.expires_at.filter(|at| *at <= now) {
            return Some(CookieObstacle::Expired(at));
        }
        if self.paused_at.is_some() && !check {
            return Some(CookieObstacle::Paused);
        }
        if self.max_parallel > 0 && self.in_use >= self.max_parallel {
            return Some(CookieObstacle::InUse(self.max_parallel));
        }
        (self.used_on(day) >= self.daily_limit).then_some(CookieObstacle::Used(self.daily_limit))
    }

    /// The usage after the cookie is picked for one request.
    #[must_use]
    pub fn used(&self, now: Ts, day: Ts) -> CookieUsage {
        CookieUsage {
            daily_used: self.used_on(day).saturating_add(1),
            day: self.day.max(Some(day)),
            last_used_at: Some(now),
            in_use: self.in_use.saturating_add(u32::from(self.max_parallel > 0)),
            ..self.after_cooling(now)
        }
    }

    /// The usage at `now`, on the day that began at `day`: a cooling that has ended is over, and a cookie at its limit
    /// starts the new day with no use.
    #[must_use]
    pub fn refreshed(&self, now: Ts, day: Ts) -> CookieUsage {
        let rested = self.after_cooling(now);
        let spent = rested.daily_used > 0 && rested.daily_used >= rested.daily_limit;
        if spent && rested.day < Some(day) {
            return CookieUsage { daily_used: 0, day: Some(day), ..rested };
        }
        rested
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
        CookieUsage {
            status: CookieStatus::Active,
            consecutive_errors: 0,
            total_errors: 0,
            cooling_until: None,
            cooling_since: None,
            ..self.clone()
        }
    }
}

/// Number of a platform's cookies by status; a cookie whose cooling has ended counts as active. An active or cooling
/// cookie that has expired or is paused counts only as that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct CookieCounts {
    pub active: u32,
    pub cooling: u32,
    pub invalid: u32,
    pub banned: u32,
    pub paused: u32,
    pub expired: u32,
}

/// The cookies of one platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CookieTotals {
    pub counts: CookieCounts,
    /// When the first cooling cookie becomes usable again.
    pub next_active_at: Option<Ts>,
}

impl CookieTotals {
    pub fn add(&mut self, usage: &CookieUsage, now: Ts) {
        let usage = usage.after_cooling(now);
        let word = match usage.status {
            CookieStatus::Active | CookieStatus::Cooling if usage.expires_at.is_some_and(|at| at <= now) => "expired",
            CookieStatus::Active | CookieStatus::Cooling if usage.paused_at.is_some() => "paused",
            status => status.as_str(),
        };
        self.add_many(word, 1, usage.cooling_until);
    }

    /// Adds so many cookies of one kind. The words are the fields of [`CookieCounts`].
    pub fn add_many(&mut self, word: &str, number: u32, cooling_until: Option<Ts>) {
        let CookieCounts { active, cooling, invalid, banned, paused, expired } = &mut self.counts;
        match word {
            "active" => *active += number,
            "cooling" => {
                *cooling += number;
                self.next_active_at = self.next_active_at.into_iter().chain(cooling_until).min();
            }
            "invalid" => *invalid += number,
            "banned" => *banned += number,
            "paused" => *paused += number,
            _ => *expired += number,
        }
    }
}

impl CookieCounts {
    /// The counts with their names, those of the statuses first.
    pub fn named(&self) -> [(&'static str, u32); 6] {
        let CookieCounts { active, cooling, invalid, banned, paused, expired } = *self;
        [
            ("active", active),
            ("cooling", cooling),
            ("invalid", invalid),
            ("banned", banned),
            ("paused", paused),
            ("expired", expired),
        ]
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

    #[test]
    fn paused_expired_or_full_cookie_is_not_selectable() {
        let fresh = CookieUsage::new(9);
        let obstacle = |usage: &CookieUsage| usage.obstacle(at(10), at(0), false);
        let expired = CookieUsage { expires_at: Some(at(10)), ..fresh.clone() };
        assert_eq!(obstacle(&expired), Some(CookieObstacle::Expired(at(10))));
        assert!(expired.is_selectable(at(9), at(0)));
        let paused = CookieUsage { paused_at: Some(at(1)), ..fresh.clone() };
        assert_eq!(obstacle(&paused), Some(CookieObstacle::Paused));
        assert_eq!(paused.obstacle(at(10), at(0), true), None, "a person may check it");
        let single = CookieUsage { max_parallel: 1, ..fresh.clone() };
        assert_eq!(obstacle(&single.used(at(1), at(0))), Some(CookieObstacle::InUse(1)));
        assert_eq!(fresh.used(at(1), at(0)).in_use, 0, "without a limit nothing is counted");
        let cooling = failing(&fresh, 3);
        assert_eq!(obstacle(&cooling), Some(CookieObstacle::Status(CookieStatus::Cooling)));
        assert_eq!(cooling.obstacle(at(10), at(0), true), None);
        let mut totals = CookieTotals::default();
        for usage in [&fresh, &expired, &paused, &cooling, &CookieUsage { paused_at: Some(at(1)), ..cooling.clone() }] {
            totals.add(usage, at(10));
        }
        let counts = CookieCounts { active: 1, cooling: 1, paused: 2, expired: 1, ..CookieCounts::default() };
        assert_eq!(totals, CookieTotals { counts, next_active_at: cooling.cooling_until });
    }
}
