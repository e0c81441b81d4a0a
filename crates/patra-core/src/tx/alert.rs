//! Counters that alerts are evaluated on, and the state of alerts.

use std::time::Duration;

use crate::alert::{AlertEvent, AlertState};
use crate::state::AlertLevel;

/// How long counters are kept.
pub const COUNTS_KEPT: Duration = Duration::from_secs(60 * 60);
/// The period of one counter.
pub const A_MINUTE: Duration = Duration::from_secs(60);

/// Adds to the platform's counters of the current minute and deletes its counters that are older than
/// [`COUNTS_KEPT`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountCrawls {
    pub platform: String,
    pub succeeded: u64,
    pub failed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrawlsCounted;

/// Records whether the condition of an alert is met now. The row follows [`AlertState::watched`], on the database's
/// clock. When several processes evaluate the alert, one of them is asked to notify.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchAlert {
    pub alert: String,
    pub subject: String,
    pub level: AlertLevel,
    pub is_met: bool,
    pub value: f64,
    pub threshold: f64,
    /// The subject's name and the last error, for people.
    pub detail: String,
    pub delay: Duration,
    pub repeat: Duration,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AlertWatched {
    pub state: AlertState,
    /// Since when the condition was met, also when it has just ended.
    pub since: Option<crate::time::Ts>,
    pub notify: Option<AlertEvent>,
}
