//! How many tweets to request: about as many as will be new, judging by the last fetches.

use std::cmp::Ordering;

use super::id::compare;
use crate::time::Ts;

/// Limit without history (TWEET-82).
pub const DEFAULT_LIMIT: u32 = 100;
/// Minimum limit (TWEET-83).
pub const MIN_LIMIT: u32 = 10;
/// Maximum limit (TWEET-84). A person may request more, see [`MAX_REQUESTED`].
pub const MAX_LIMIT: u32 = 300;
/// Weight of the last fetch in the smoothed share of new tweets (TWEET-85).
pub const EMA_ALPHA: f64 = 0.3;
/// Factor on the expected number (TWEET-86).
pub const SAFETY_MARGIN: f64 = 1.2;
/// Consecutive fetches without anything new after which the minimum is requested (TWEET-89).
pub const QUIET_AFTER: u32 = 3;
/// Maximum that a person may request of one user (TWEET-20, TWEET-106); the minimum is 1.
pub const MAX_REQUESTED: u32 = 1_000;

/// Rounding error of products that should be whole numbers (TWEET-90).
const WHOLE: f64 = 1e-9;

/// Statistics of the fetches of one user (TWEET-74..81), so that the next one requests about as many tweets as are
/// new.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FetchStats {
    pub last_fetch_at: Ts,
    pub last_fetched_count: u32,
    pub last_new_count: u32,
    pub total_fetches: u32,
    pub avg_new_rate: f64,
    pub consecutive_empty_fetches: u32,
    /// Id of the newest tweet up to which everything is stored: a scheduled fetch reads only newer ones.
    pub newest_id: Option<String>,
}

/// Newest tweet of a fetch that succeeded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewestTweet {
    pub id: String,
    /// The fetch read everything that it was to read. Otherwise its limit was reached before, and older tweets may be
    /// missing between this one and those of earlier fetches.
    pub complete: bool,
}

impl FetchStats {
    /// The statistics after one more successful fetch; start with the default. A failed fetch changes nothing and is
    /// not recorded (TWEET-92).
    #[must_use]
    pub fn after(&self, fetched: u32, new: u32, now: Ts) -> FetchStats {
        let new = new.min(fetched);
        let rate = f64::from(new) / f64::from(fetched.max(1));
        let avg_new_rate = match (fetched, self.total_fetches) {
            (0, _) => self.avg_new_rate,
            (_, 0) => rate,
            _ => EMA_ALPHA * rate + (1.0 - EMA_ALPHA) * self.avg_new_rate,
        };
        FetchStats {
            last_fetch_at: now,
            last_fetched_count: fetched,
            last_new_count: new,
            total_fetches: self.total_fetches.saturating_add(1),
            avg_new_rate: avg_new_rate.clamp(0.0, 1.0),
            consecutive_empty_fetches: if new == 0 { self.consecutive_empty_fetches.saturating_add(1) } else { 0 },
            newest_id: self.newest_id.clone(),
        }
    }

    /// Moves the newest id forward. A fetch that was cut by its limit moves it only if there is none: tweets before the
    /// first fetch are not missed, but tweets between two fetches would be.
    #[must_use]
    pub fn reaching(self, newest: Option<&NewestTweet>) -> FetchStats {
        let moves = |newest: &&NewestTweet| match &self.newest_id {
            None => true,
            Some(known) => newest.complete && compare(&newest.id, known) == Some(Ordering::Greater),
        };
        match newest.filter(moves) {
            Some(newest) => FetchStats { newest_id: Some(newest.id.clone()), ..self },
            None => self,
        }
    }

    /// Number of tweets that the next fetch requests (TWEET-87..90).
    pub fn limit(&self) -> u32 {
        let FetchStats { last_fetched_count: fetched, last_new_count: new, .. } = self;
        let (fetched, new) = (*fetched, *new);
        if self.total_fetches == 0 {
            return DEFAULT_LIMIT;
        }
        if self.consecutive_empty_fetches >= QUIET_AFTER {
            return MIN_LIMIT;
        }
        if fetched > 0 && new >= fetched {
            return fetched.saturating_mul(2).clamp(MIN_LIMIT, MAX_LIMIT);
        }
        let expected = self.avg_new_rate * f64::from(fetched) * SAFETY_MARGIN;
        (whole(expected) as u32).clamp(MIN_LIMIT, MAX_LIMIT)
    }

    /// Limit of a scheduled fetch, and the extended limit while every tweet is new and there are more, so that a busy
    /// hour loses nothing (TWEET-93).
    pub fn scheduled(&self) -> (u32, u32) {
        (self.limit(), MAX_LIMIT)
    }
}

fn whole(value: f64) -> f64 {
    let nearest = value.round();
    if (value - nearest).abs() < WHOLE { nearest } else { value.ceil() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ts = Ts::from_secs(1_700_000_000);

    fn stats(fetched: u32, new: u32, rate: f64, empty: u32) -> FetchStats {
        FetchStats {
            last_fetch_at: NOW,
            last_fetched_count: fetched,
            last_new_count: new,
            total_fetches: 9,
            avg_new_rate: rate,
            consecutive_empty_fetches: empty,
            newest_id: None,
        }
    }

    // covers: TWEET-26
    #[test]
    fn newest_id_moves_only_by_a_complete_fetch_and_never_back() {
        let found = |id: &str, complete| NewestTweet { id: id.to_owned(), complete };
        let stats = FetchStats::default().reaching(None);
        assert_eq!(stats.newest_id, None);
        let stats = stats.reaching(Some(&found("99", false)));
        assert_eq!(stats.newest_id.as_deref(), Some("99"), "the first fetch sets it");
        let stats = stats.reaching(Some(&found("200", false)));
        assert_eq!(stats.newest_id.as_deref(), Some("99"), "tweets between 99 and 200 may be missing");
        let stats = stats.reaching(Some(&found("200", true)));
        assert_eq!(stats.newest_id.as_deref(), Some("200"), "compared as numbers");
        let stats = stats.after(10, 3, NOW).reaching(Some(&found("99", true)));
        assert_eq!(stats.newest_id.as_deref(), Some("200"));
    }

    // covers: TWEET-82, TWEET-83, TWEET-84, TWEET-86, TWEET-87, TWEET-88, TWEET-89, TWEET-90, TWEET-LIM-1, TWEET-LIM-2, TWEET-LIM-3, TWEET-LIM-4, TWEET-LIM-5, TWEET-LIM-6, TWEET-LIM-7, TWEET-LIM-8, TWEET-LIM-9
    #[test]
    fn the_limit_follows_what_was_new() {
        for (name, state, limit) in [
            ("no row", FetchStats::default(), 100),
            ("all of 100 new", stats(100, 100, 1.0, 0), 200),
            ("all of 200 new", stats(200, 200, 1.0, 0), 300),
            ("all of 5 new", stats(5, 5, 1.0, 0), 10),
            ("half of 40", stats(40, 20, 0.5, 0), 24),
            ("hardly any", stats(20, 1, 0.01, 0), 10),
            ("three empty ones", stats(100, 0, 0.4, 3), 10),
            ("two empty ones", stats(100, 0, 0.4, 2), 48),
            ("nothing fetched", stats(0, 0, 0.0, 1), 10),
            ("never more than the most", stats(1_000, 999, 0.999, 0), 300),
        ] {
            assert_eq!(state.limit(), limit, "{name}");
        }
    }

    // covers: TWEET-90
    #[test]
    fn a_product_that_is_whole_but_for_rounding_is_not_rounded_up() {
        // In doubles 0.7 × 50 × 1.2 is a little less than 42, and 0.55 × 100 × 1.2 a little more than 66.
        for (fetched, rate, limit) in [(50, 0.7, 42), (100, 0.55, 66), (100, 0.55 + 1e-6, 67)] {
            assert_eq!(stats(fetched, 1, rate, 0).limit(), limit, "{rate}");
        }
    }

    // covers: TWEET-79, TWEET-85, TWEET-91
    #[test]
    fn statistics_are_smoothed_and_count_what_is_empty() {
        let first = FetchStats::default().after(40, 20, NOW);
        assert_eq!(first, FetchStats { total_fetches: 1, ..stats(40, 20, 0.5, 0) }, "the first sets the rate");
        let second = first.after(10, 10, NOW);
        assert!((second.avg_new_rate - 0.65).abs() < 1e-12, "0.3 of 1 and 0.7 of 0.5");
        let nothing = second.after(0, 0, NOW);
        assert_eq!(nothing.avg_new_rate, second.avg_new_rate, "nothing fetched says nothing about the rate");
        let empty = nothing.after(20, 0, NOW);
        assert_eq!((empty.consecutive_empty_fetches, empty.total_fetches), (2, 4));
        assert_eq!(empty.after(20, 1, NOW).consecutive_empty_fetches, 0);
        let odd = first.after(3, 9, NOW);
        assert_eq!((odd.last_new_count, odd.avg_new_rate <= 1.0), (3, true), "no more can be new than was fetched");
    }

    // covers: TWEET-93
    #[test]
    fn a_busy_hour_may_be_read_on_up_to_the_most() {
        assert_eq!(stats(100, 10, 0.1, 0).scheduled(), (12, 300));
        assert_eq!(stats(300, 300, 1.0, 0).scheduled(), (300, 300), "no further than that");
    }
}
