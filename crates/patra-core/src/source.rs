//! Sources that are polled periodically: when one is due, how it recovers from failures, and when it is paused. Pure:
//! the stores keep the state and call this inside their transactions.

mod arrivals;
mod hosts;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::hash;
use crate::state::{IntervalFrom, PausedReason};
use crate::time::Ts;

pub use arrivals::{ArrivalHabit, MIN_SILENCE};
pub use hosts::{HostSpacing, NetworkStatus};

/// Consecutive failures that pause a source (COLL-51).
pub const MAX_FAILURES: u32 = 5;
/// Interval of a type without one, in minutes (COLL-18).
pub const DEFAULT_MINUTES: u32 = 240;
/// Longest interval, in minutes: a year.
pub const MAX_MINUTES: u32 = 366 * 24 * 60;
/// Delay after the first failure; it doubles with each further one, up to the interval (COLL-52).
const FIRST_BACKOFF: Duration = Duration::from_secs(5 * 60);
/// When a source that was paused by errors is probed again; the last one repeats (COLL-122).
const PROBES_AFTER_DAYS: [u64; 3] = [1, 3, 7];
/// Jitter of an interval (COLL-120).
const JITTER_PERCENT: u64 = 10;
/// Jitter of the delay after a failure.
const BACKOFF_JITTER_PERCENT: u64 = 20;
/// Longest error text that is stored.
pub const MAX_ERROR_BYTES: usize = 500;
/// Concurrent requests to one host, over all processes (COLL-120).
pub const PER_HOST: u32 = 2;
/// Planned time between two polls of one host.
pub const HOST_GAP: Duration = Duration::from_secs(1);

/// Priority of a poll that a person asked for, and of the first poll of a source: both go before the regular polls of
/// their host. Smaller is served first; regular polls have that of [`crate::state::Operation::Harvest`].
pub const FETCH_NOW_PRIORITY: i32 = 10;
pub const FIRST_FETCH_PRIORITY: i32 = 50;
/// Priorities that are claimed in turn before the regular polls.
pub const URGENT_PRIORITIES: [i32; 2] = [FETCH_NOW_PRIORITY, FIRST_FETCH_PRIORITY];

/// The types in the requirements, with their minutes (COLL-05 to COLL-14).
pub const TYPES: &[(&str, u32)] = &[
    ("twitter_feed", 30),
    ("twitter_list", 30),
    ("twitter_bookmarks", 60),
    ("hackernews", 60),
    ("reddit", 60),
    ("rss", 240),
    ("digest_feed", 240),
    ("github_trending", 240),
    ("website", 240),
    ("custom_api", 120),
];

/// The state of a source that polls change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SourceState {
    /// `None` while the source is active.
    pub paused: Option<PausedReason>,
    pub paused_at: Option<Ts>,
    /// Time of the last success.
    pub last_fetched_at: Option<Ts>,
    /// Number of successes.
    pub fetch_count: i64,
    /// Consecutive failures.
    pub fetch_error_count: u32,
    pub last_error: Option<String>,
    pub last_error_at: Option<Ts>,
    /// Failed probes since errors paused the source.
    pub probe_count: u32,
    /// `None`: not scheduled.
    pub next_due_at: Option<Ts>,
    pub arrivals: ArrivalHabit,
}

/// How a poll ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PollOutcome<'a> {
    Fetched {
        /// It brought a new or a changed item.
        news: bool,
        /// Why it was read only in part.
        flaw: Option<&'a str>,
    },
    Failed {
        reason: &'a str,
        /// False when the network as a whole is down (COLL-55).
        counted: bool,
        /// The upstream says that the source is gone for good (410).
        gone: bool,
    },
}

impl SourceState {
    /// A source that was never fetched is due at once (COLL-24).
    pub fn due_now() -> SourceState {
        SourceState { next_due_at: Some(Ts::from_secs(0)), ..SourceState::default() }
    }

    /// Applies the end of a poll of source `id`. A deleted source, or one that a person paused, stays so.
    pub fn after(&mut self, id: i64, outcome: &PollOutcome<'_>, interval: Duration, now: Ts) {
        match outcome {
            PollOutcome::Fetched { news, flaw } => {
                if *news {
                    self.arrivals.count(now);
                }
                if self.paused != Some(PausedReason::User) {
                    (self.paused, self.paused_at) = (None, None);
                }
                self.last_fetched_at = Some(now);
                self.fetch_count += 1;
                (self.fetch_error_count, self.probe_count) = (0, 0);
                self.last_error = flaw.map(|flaw| crate::text::beginning(flaw, MAX_ERROR_BYTES).to_owned());
                self.last_error_at = flaw.map(|_| now);
                self.next_due_at = Some(now + around(id, self.fetch_count, interval, JITTER_PERCENT));
            }
            PollOutcome::Failed { reason, counted, gone } => {
                self.last_error = Some(crate::text::beginning(reason, MAX_ERROR_BYTES).to_owned());
                self.last_error_at = Some(now);
                self.fetch_error_count = self.fetch_error_count.saturating_add(u32::from(*counted));
                if self.paused.is_some_and(|why| why != PausedReason::User) {
                    self.probe_count = self.probe_count.saturating_add(u32::from(*counted));
                } else if self.paused.is_none() && (*gone || self.fetch_error_count >= MAX_FAILURES) {
                    self.paused = Some(if *gone { PausedReason::Gone } else { PausedReason::Error });
                    (self.paused_at, self.probe_count) = (Some(now), 0);
                }
                self.next_due_at = Some(now + self.retry_in(id, interval));
            }
        }
        if self.paused == Some(PausedReason::User) {
            self.next_due_at = None;
        }
    }

    fn retry_in(&self, id: i64, interval: Duration) -> Duration {
        let round = i64::from(self.fetch_error_count) + i64::from(self.probe_count);
        match self.paused {
            Some(_) => {
                let last = PROBES_AFTER_DAYS.len() - 1;
                let days = PROBES_AFTER_DAYS[(self.probe_count as usize).min(last)];
                around(id, round, Duration::from_secs(days * 86_400), JITTER_PERCENT)
            }
            None => {
                let doublings = self.fetch_error_count.saturating_sub(1).min(20);
                let backoff = interval.min(FIRST_BACKOFF * (1 << doublings));
                around(id, round, backoff, BACKOFF_JITTER_PERCENT)
            }
        }
    }

    /// Pauses the source for a person.
    pub fn pause(&mut self, now: Ts) {
        self.paused = Some(PausedReason::User);
        self.paused_at = Some(now);
        self.next_due_at = None;
    }

    /// Resumes the source for a person: at once, with no failures (COLL-54).
    pub fn resume(&mut self, interval: Duration, now: Ts) {
        (self.paused, self.paused_at) = (None, None);
        (self.fetch_error_count, self.probe_count) = (0, 0);
        self.next_due_at = Some(match self.last_fetched_at {
            // A source that was not due yet does not become due by a pause.
            Some(fetched) if self.last_error.is_none() => fetched + interval,
            Some(_) => now,
            None => Ts::from_secs(0),
        });
    }

    /// Applies a new interval. A source that failed keeps its own time.
    pub fn reschedule(&mut self, id: i64, interval: Duration) {
        if self.paused.is_none() && self.fetch_error_count == 0 {
            self.next_due_at = Some(match self.last_fetched_at {
                Some(fetched) => fetched + around(id, self.fetch_count, interval, JITTER_PERCENT),
                None => Ts::from_secs(0),
            });
        }
    }
}

/// Adds deterministic jitter: the result differs by source and round by up to this many percent, and is the same
/// whenever it is computed again.
fn around(id: i64, round: i64, span: Duration, percent: u64) -> Duration {
    let seed = hash::id_hash(format!("{id} {round}").as_bytes());
    let drawn = u64::from_le_bytes(seed[..8].try_into().unwrap_or_default()) % 2_001;
    // From -1000 to 1000 thousandths of the percentage.
    let micros = crate::time::micros(span);
    let shift = i128::from(micros) * (i128::from(drawn) - 1_000) * i128::from(percent) / 100_000;
    let moved = i128::from(micros) + shift;
    Duration::from_micros(u64::try_from(moved).unwrap_or(0))
}

/// Validators of an unchanged body, and the URL that they are for.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Validators {
    /// The validators are for this URL and no other.
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_modified: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_hash: Option<String>,
    /// The feed that a page led to: the next poll starts there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feed_url: Option<String>,
    /// Ids that several entries of the feed have had, and which of them keeps the id as its key; both hashed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub shared_ids: BTreeMap<String, String>,
}

impl Validators {
    /// Without anything that would make the next response count as unchanged.
    #[must_use]
    pub fn unread(self) -> Validators {
        Validators { etag: None, last_modified: None, body_hash: None, ..self }
    }
}

/// Identity of a source within a project: type and address, or else type and all of its config except the interval.
pub fn key(r#type: &str, config: &serde_json::Value) -> String {
    if let Some(url) = config.get("url").and_then(serde_json::Value::as_str) {
        return format!("{type} {url}");
    }
    let mut config = config.clone();
    if let Some(map) = config.as_object_mut() {
        map.remove("fetch_interval_minutes");
    }
    format!("{type} {}", hash::canonical(&config))
}

/// An interval with its origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    pub minutes: u32,
    pub from: IntervalFrom,
}

impl Interval {
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.minutes) * 60)
    }
}

/// The effective intervals: defaults, then environment, then the configuration table (COLL-20).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Intervals {
    types: BTreeMap<String, Interval>,
}

impl Default for Intervals {
    fn default() -> Intervals {
        let of = |&(name, minutes): &(&str, u32)| (name.to_owned(), Interval { minutes, from: IntervalFrom::Default });
        Intervals { types: TYPES.iter().map(of).collect() }
    }
}

impl Intervals {
    /// Applies `FETCH_INTERVAL_<TYPE>` of an environment, whatever the case of the name. Returns the values that are
    /// not a number of minutes, which are ignored (COLL-16).
    pub fn environment(&mut self, variables: impl Iterator<Item = (String, String)>) -> Vec<String> {
        let mut ignored = Vec::new();
        for (name, value) in variables {
            let lower = name.to_ascii_lowercase();
            let Some(of) = lower.strip_prefix("fetch_interval_").filter(|of| !of.is_empty()) else { continue };
            match minutes(&value) {
                Some(minutes) => self.set(of, minutes, IntervalFrom::Environment),
                None => ignored.push(format!("{name}={value}")),
            }
        }
        ignored
    }

    /// Applies `fetch_interval.<type>` of the configuration table; values that are not numbers are ignored.
    pub fn config<'a>(&mut self, settings: impl Iterator<Item = (&'a str, &'a str)>) {
        for (key, value) in settings {
            if let (Some(of), Some(minutes)) = (key.strip_prefix("fetch_interval."), minutes(value)) {
                self.set(of, minutes, IntervalFrom::Config);
            }
        }
    }

    fn set(&mut self, of: &str, minutes: u32, from: IntervalFrom) {
        self.types.insert(of.to_owned(), Interval { minutes, from });
    }

    pub fn of(&self, r#type: &str) -> Interval {
        let default = Interval { minutes: DEFAULT_MINUTES, from: IntervalFrom::Default };
        self.types.get(r#type).copied().unwrap_or(default)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, Interval)> {
        self.types.iter().map(|(name, interval)| (name.as_str(), *interval))
    }
}

/// A whole number of minutes from 1 to a year.
pub fn minutes(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|minutes| (1..=MAX_MINUTES).contains(minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const FETCHED: PollOutcome<'_> = PollOutcome::Fetched { news: false, flaw: None };
    const NOW: Ts = Ts::from_secs(1_000_000);

    fn failed(state: &mut SourceState, now: Ts) {
        state.after(7, &PollOutcome::Failed { reason: "HTTP 500", counted: true, gone: false }, 4 * HOUR, now);
    }

    fn wait(state: &SourceState, since: Ts) -> Duration {
        state.next_due_at.unwrap().since(since)
    }

    fn within(span: Duration, nominal: Duration, percent: u32) -> bool {
        span >= nominal * (100 - percent) / 100 && span <= nominal * (100 + percent) / 100
    }

    // covers: COLL-49
    #[test]
    fn a_success_clears_the_failures_and_comes_again_after_about_an_interval() {
        let mut state = SourceState {
            fetch_error_count: 3,
            last_error: Some("x".into()),
            fetch_count: 4,
            ..SourceState::due_now()
        };
        state.after(7, &FETCHED, 4 * HOUR, NOW);
        assert_eq!((state.fetch_count, state.fetch_error_count, &state.last_error), (5, 0, &None));
        assert_eq!(state.last_fetched_at, Some(NOW));
        assert!(within(wait(&state, NOW), 4 * HOUR, 10));
        let other = |id| {
            let mut state = SourceState::due_now();
            state.after(id, &FETCHED, 4 * HOUR, NOW);
            state.next_due_at
        };
        assert_ne!(other(1), other(2));
        assert_eq!(other(1), other(1));
    }

    // covers: COLL-50, COLL-51, COLL-52, COLL-122
    #[test]
    fn failures_wait_longer_and_longer_then_pause_then_probe() {
        let mut state = SourceState { last_fetched_at: Some(Ts::from_secs(5)), ..SourceState::due_now() };
        for minutes in [5, 10, 20, 40] {
            failed(&mut state, NOW);
            assert!(within(wait(&state, NOW), Duration::from_secs(minutes * 60), 20), "{minutes}");
            assert_eq!(state.paused, None);
        }
        failed(&mut state, NOW);
        assert_eq!((state.paused, state.paused_at), (Some(PausedReason::Error), Some(NOW)));
        assert_eq!(state.last_fetched_at, Some(Ts::from_secs(5)), "a failure is no fetch");
        for days in [1, 3, 7, 7] {
            assert!(within(wait(&state, NOW), 24 * HOUR * days, 10), "{days}");
            failed(&mut state, NOW);
        }
        state.after(7, &FETCHED, 4 * HOUR, NOW);
        assert_eq!((state.paused, state.fetch_error_count, state.probe_count), (None, 0, 0));
    }

    #[test]
    fn a_wait_is_never_longer_than_the_interval() {
        let mut state = SourceState { fetch_error_count: 3, ..SourceState::due_now() };
        state.after(7, &PollOutcome::Failed { reason: "r", counted: true, gone: false }, Duration::from_secs(600), NOW);
        assert!(within(wait(&state, NOW), Duration::from_secs(600), 20));
    }

    // covers: COLL-55
    #[test]
    fn network_failure_is_recorded_but_not_counted() {
        let mut state = SourceState { fetch_error_count: 4, ..SourceState::due_now() };
        state.after(7, &PollOutcome::Failed { reason: "no route", counted: false, gone: false }, 4 * HOUR, NOW);
        assert_eq!((state.fetch_error_count, state.paused), (4, None));
        assert_eq!(state.last_error.as_deref(), Some("no route"));
    }

    // covers: COLL-121
    #[test]
    fn gone_source_is_paused_at_once() {
        let mut state = SourceState::due_now();
        state.after(7, &PollOutcome::Failed { reason: "HTTP 410", counted: true, gone: true }, 4 * HOUR, NOW);
        assert_eq!(state.paused, Some(PausedReason::Gone));
    }

    #[test]
    fn a_person_pauses_and_resumes() {
        let mut state =
            SourceState { fetch_error_count: 5, paused: Some(PausedReason::Error), ..SourceState::due_now() };
        state.pause(NOW);
        assert_eq!((state.paused, state.next_due_at), (Some(PausedReason::User), None));
        // A poll that was in progress does not make it due again.
        state.after(7, &FETCHED, HOUR, NOW);
        assert_eq!((state.paused, state.next_due_at), (Some(PausedReason::User), None));
        state.resume(HOUR, NOW);
        assert_eq!((state.paused, state.fetch_error_count), (None, 0));
        assert_eq!(state.next_due_at, Some(NOW + HOUR));
    }

    // covers: COLL-GOAL-1, COLL-15, COLL-16, COLL-17, COLL-18, COLL-20
    #[test]
    fn intervals_come_from_the_strongest_that_makes_sense() {
        let mut intervals = Intervals::default();
        let variables = [
            ("FETCH_INTERVAL_RSS", "60"),
            ("fetch_interval_hackernews", "30"),
            ("FETCH_INTERVAL_REDDIT", "0"),
            ("FETCH_INTERVAL_WEBSITE", "-5"),
            ("FETCH_INTERVAL_CUSTOM_API", "soon"),
            ("FETCH_INTERVAL_PODCAST", "15"),
            ("FETCH_INTERVAL_", "15"),
            ("PATH", "/bin"),
        ];
        let ignored =
            intervals.environment(variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter());
        assert_eq!(ignored, ["FETCH_INTERVAL_REDDIT=0", "FETCH_INTERVAL_WEBSITE=-5", "FETCH_INTERVAL_CUSTOM_API=soon"]);
        intervals.config([("fetch_interval.rss", "20"), ("fetch_interval.reddit", "x"), ("other", "1")].into_iter());
        let of = |name| (intervals.of(name).minutes, intervals.of(name).from);
        assert_eq!(of("rss"), (20, IntervalFrom::Config));
        assert_eq!(of("hackernews"), (30, IntervalFrom::Environment));
        assert_eq!(of("reddit"), (60, IntervalFrom::Default));
        assert_eq!(of("podcast"), (15, IntervalFrom::Environment));
        assert_eq!(of("unheard"), (240, IntervalFrom::Default));
    }

    // covers: COLL-05, COLL-06, COLL-07, COLL-08, COLL-09, COLL-10, COLL-11, COLL-12, COLL-13, COLL-14
    #[test]
    fn the_defaults_are_those_of_the_requirements() {
        let intervals = Intervals::default();
        let minutes = [
            ("twitter_feed", 30),
            ("twitter_list", 30),
            ("twitter_bookmarks", 60),
            ("hackernews", 60),
            ("reddit", 60),
            ("rss", 240),
            ("digest_feed", 240),
            ("github_trending", 240),
            ("website", 240),
            ("custom_api", 120),
        ];
        for (name, expected) in minutes {
            assert_eq!(intervals.of(name).minutes, expected, "{name}");
        }
        assert_eq!(intervals.iter().count(), minutes.len());
    }

    #[test]
    fn polls_of_one_host_are_spread_and_others_do_not_wait() {
        let mut turns = HostSpacing::default();
        let at: Vec<_> = ["a", "a", "b", "a"].iter().map(|host| turns.take(host, NOW).since(NOW).as_secs()).collect();
        assert_eq!(at, [0, 1, 0, 2]);
        assert_eq!(turns.take("a", NOW + HOUR), NOW + HOUR);
    }

    #[test]
    fn three_unreachable_hosts_mean_the_network_is_down() {
        let mut network = NetworkStatus::default();
        assert!(!network.on_no_connection("a"));
        assert!(!network.on_no_connection("a"));
        assert!(!network.on_no_connection("b"));
        assert!(network.on_no_connection("c"));
        network.on_response();
        assert!(!network.on_no_connection("c"));
    }
}
