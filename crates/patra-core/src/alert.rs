//! Alerts: a condition that is met for long enough is notified, repeatedly, and so is its end (CRAWL-156..164). All alerts
//! are rows of one table of rules. The store keeps since when a condition is met, so that a restart does not reset the
//! time.

mod rules;
mod settings;

use std::time::Duration;

use serde::Serialize;

use crate::state::AlertLevel;
use crate::time::Ts;

pub use rules::{
    BACKLOG, COOKIES_EXHAUSTED, CREDENTIAL_REFUSED, ENDPOINT_FAILING, EVENTS_BEHIND, LOW_SUCCESS_RATE, PLAN_REFUSED,
    QUEUE_STANDS, RULES, SOURCE_GONE, SOURCE_PAUSED, SOURCE_SILENT, UPSTREAM_REFUSED, UPSTREAM_THROTTLES, WORK_HALTED,
    prometheus_rules,
};
pub use settings::AlertSettings;

/// Minimum crawl requests to evaluate a rate (CRAWL-161).
pub const MIN_REQUESTS: u64 = 10;
/// The window of a rate.
pub const RATE_WINDOW: Duration = Duration::from_secs(10 * 60);
/// The window in which the failures of an endpoint count.
pub const FAILURE_WINDOW: Duration = Duration::from_secs(30 * 60);

/// A kind of alert.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AlertRule {
    pub name: &'static str,
    pub level: AlertLevel,
    /// `ALERT_<NAME>` changes it.
    pub threshold: f64,
    /// How long the condition must be met before the first notification. `ALERT_<NAME>_MINUTES` changes it.
    pub delay: Duration,
    /// Minimum time between two notifications, where it is longer than that of the level.
    pub repeat: Option<Duration>,
    /// What the alert means, for its Prometheus rule; `%s` stands for the subject.
    pub summary: &'static str,
}

impl AlertRule {
    /// Minimum time between two notifications of one alert (CRAWL-163).
    pub fn repeat(&self) -> Duration {
        let of_level = Duration::from_secs(
            60 * match self.level {
                AlertLevel::P0 => 5,
                AlertLevel::P1 => 15,
                AlertLevel::P2 => 60,
            },
        );
        self.repeat.unwrap_or(of_level)
    }
}

/// State of one alert of one subject.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct AlertState {
    /// Since when the condition is met.
    pub since: Option<Ts>,
    pub firing: bool,
    /// Time of the last notification.
    #[serde(rename = "told_at")]
    pub notified_at: Option<Ts>,
}

/// The kind of a notification.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AlertEvent {
    Firing,
    Resolved,
}

impl AlertState {
    /// The next state, and the notification to send, given whether the condition is met.
    #[must_use]
    pub fn watched(
        &self,
        is_met: bool,
        delay: Duration,
        repeat: Duration,
        now: Ts,
    ) -> (AlertState, Option<AlertEvent>) {
        if !is_met {
            return (AlertState::default(), self.firing.then_some(AlertEvent::Resolved));
        }
        let since = self.since.unwrap_or(now);
        if now < since + delay {
            return (AlertState { since: Some(since), ..self.clone() }, None);
        }
        let notify = self.notified_at.is_none_or(|event| now >= event + repeat);
        let notified_at = if notify { Some(now) } else { self.notified_at };
        (AlertState { since: Some(since), firing: true, notified_at }, notify.then_some(AlertEvent::Firing))
    }
}

/// An alert for display.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AlertView {
    pub alert: String,
    /// Subject of the alert: a platform, or empty.
    pub subject: String,
    pub level: AlertLevel,
    pub state: AlertState,
    pub value: f64,
    pub threshold: f64,
    /// The subject's name and the last error, for people.
    pub detail: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Ts {
        Ts::from_secs(minutes * 60)
    }

    // covers: CRAWL-163, CRAWL-164
    #[test]
    fn alert_notifies_after_the_delay_repeats_and_resolves() {
        let watch = |state: &AlertState, is_met, minutes| {
            state.watched(is_met, LOW_SUCCESS_RATE.delay, LOW_SUCCESS_RATE.repeat(), at(minutes))
        };
        let (state, event) = watch(&AlertState::default(), true, 0);
        assert_eq!((state.since, event), (Some(at(0)), None));
        let (early, event) = watch(&state, true, 9);
        assert_eq!(event, None);
        assert_eq!(watch(&early, false, 9), (AlertState::default(), None), "it never fired: nothing to resolve");
        let (state, event) = watch(&early, true, 10);
        assert_eq!(event, Some(AlertEvent::Firing));
        let (state, event) = watch(&state, true, 24);
        assert_eq!((state.since, event), (Some(at(0)), None), "notified 14 minutes ago");
        let (state, event) = watch(&state, true, 25);
        assert_eq!(event, Some(AlertEvent::Firing));
        assert_eq!(watch(&state, false, 26), (AlertState::default(), Some(AlertEvent::Resolved)));
    }

    // covers: CRAWL-163
    #[test]
    fn empty_cookie_pool_alerts_at_once() {
        let (_, event) =
            AlertState::default().watched(true, COOKIES_EXHAUSTED.delay, COOKIES_EXHAUSTED.repeat(), at(0));
        assert_eq!(event, Some(AlertEvent::Firing));
        let repeats = [COOKIES_EXHAUSTED, LOW_SUCCESS_RATE, BACKLOG].map(|rule| rule.repeat().as_secs() / 60);
        assert_eq!(repeats, [5, 15, 60]);
    }
}
