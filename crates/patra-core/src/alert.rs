//! Alerts: a condition that has held for long enough is told, again from time to time, and so is its end (CRAWL-156..164).
//! Since when it holds is kept in the store, so that a restart begins no time afresh.

use std::time::Duration;

use serde::Serialize;

use crate::state::AlertLevel;
use crate::time::Ts;

/// Crawl requests that a rate is judged on, at least (CRAWL-161).
pub const MIN_REQUESTS: u64 = 10;
/// The window that a rate is judged over.
pub const RATE_WINDOW: Duration = Duration::from_secs(10 * 60);

/// A kind of alert.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rule {
    pub name: &'static str,
    pub level: AlertLevel,
    pub threshold: f64,
    /// For how long the condition holds before it is told.
    pub hold: Duration,
}

impl Rule {
    /// The least time between two tellings of one alert (CRAWL-163).
    pub fn repeat(&self) -> Duration {
        Duration::from_secs(
            60 * match self.level {
                AlertLevel::P0 => 5,
                AlertLevel::P1 => 15,
                AlertLevel::P2 => 60,
            },
        )
    }
}

/// No account of a platform can be used.
pub const COOKIES_EXHAUSTED: Rule =
    Rule { name: "cookies_exhausted", level: AlertLevel::P0, threshold: 1.0, hold: Duration::ZERO };
/// Too many crawl requests of a platform fail.
pub const LOW_SUCCESS_RATE: Rule =
    Rule { name: "low_success_rate", level: AlertLevel::P1, threshold: 0.9, hold: Duration::from_secs(10 * 60) };
/// Too many notes wait.
pub const BACKLOG: Rule =
    Rule { name: "backlog", level: AlertLevel::P2, threshold: 500.0, hold: Duration::from_secs(30 * 60) };

/// A far side refuses our key, or the balance is used up: nothing more is asked of it.
pub const UPSTREAM_REFUSED: Rule =
    Rule { name: "upstream_refused", level: AlertLevel::P0, threshold: 1.0, hold: Duration::ZERO };
/// A far side still asks for silence after the last try.
pub const UPSTREAM_THROTTLES: Rule =
    Rule { name: "upstream_throttles", level: AlertLevel::P1, threshold: 1.0, hold: Duration::ZERO };

/// One alert of one subject.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct State {
    /// Since when the condition holds.
    pub since: Option<Ts>,
    pub firing: bool,
    /// When it was last told.
    pub told_at: Option<Ts>,
}

/// What is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Event {
    Firing,
    Resolved,
}

impl State {
    /// What becomes of it now that the condition holds, or does not.
    #[must_use]
    pub fn watched(&self, holds: bool, hold: Duration, repeat: Duration, now: Ts) -> (State, Option<Event>) {
        if !holds {
            return (State::default(), self.firing.then_some(Event::Resolved));
        }
        let since = self.since.unwrap_or(now);
        if now < since + hold {
            return (State { since: Some(since), ..self.clone() }, None);
        }
        let tell = self.told_at.is_none_or(|told| now >= told + repeat);
        let told_at = if tell { Some(now) } else { self.told_at };
        (State { since: Some(since), firing: true, told_at }, tell.then_some(Event::Firing))
    }
}

/// An alert as it is shown.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct View {
    pub alert: String,
    /// What it is about: a platform, or empty.
    pub subject: String,
    pub level: AlertLevel,
    pub state: State,
    pub value: f64,
    pub threshold: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Ts {
        Ts::from_secs(minutes * 60)
    }

    // covers: CRAWL-157, CRAWL-158, CRAWL-162, CRAWL-163, CRAWL-164
    #[test]
    fn a_condition_is_told_when_it_has_held_and_again_and_when_it_ends() {
        let watch = |state: &State, holds, minutes| {
            state.watched(holds, LOW_SUCCESS_RATE.hold, LOW_SUCCESS_RATE.repeat(), at(minutes))
        };
        let (state, told) = watch(&State::default(), true, 0);
        assert_eq!((state.since, told), (Some(at(0)), None));
        let (early, told) = watch(&state, true, 9);
        assert_eq!(told, None);
        assert_eq!(watch(&early, false, 9), (State::default(), None), "it never fired: no end to tell");
        let (state, told) = watch(&early, true, 10);
        assert_eq!(told, Some(Event::Firing));
        let (state, told) = watch(&state, true, 24);
        assert_eq!((state.since, told), (Some(at(0)), None), "told 14 minutes ago");
        let (state, told) = watch(&state, true, 25);
        assert_eq!(told, Some(Event::Firing));
        assert_eq!(watch(&state, false, 26), (State::default(), Some(Event::Resolved)));
    }

    // covers: CRAWL-156
    #[test]
    fn an_empty_pool_is_told_at_once() {
        let (_, told) = State::default().watched(true, COOKIES_EXHAUSTED.hold, COOKIES_EXHAUSTED.repeat(), at(0));
        assert_eq!(told, Some(Event::Firing));
        let repeats = [COOKIES_EXHAUSTED, LOW_SUCCESS_RATE, BACKLOG].map(|rule| rule.repeat().as_secs() / 60);
        assert_eq!(repeats, [5, 15, 60]);
    }
}
