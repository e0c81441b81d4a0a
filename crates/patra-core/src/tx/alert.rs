//! What alerts are judged by, and what they have told.

use std::time::Duration;

use crate::alert::{Event, State};
use crate::state::AlertLevel;

/// How long the counters of a minute are kept.
pub const COUNTS_KEPT: Duration = Duration::from_secs(60 * 60);
/// What counters are kept for.
pub const A_MINUTE: Duration = Duration::from_secs(60);

/// Adds to the counters of the present minute of a platform, and forgets those of it that are older than [`COUNTS_KEPT`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CountCrawls {
    pub platform: String,
    pub succeeded: u64,
    pub failed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CrawlsCounted;

/// Says whether the condition of an alert holds now; the row follows [`State::watched`], on the database's clock. Of
/// several that watch, one is told to speak.
#[derive(Clone, PartialEq, Debug)]
pub struct WatchAlert {
    pub alert: String,
    pub subject: String,
    pub level: AlertLevel,
    pub holds: bool,
    pub value: f64,
    pub threshold: f64,
    pub hold: Duration,
    pub repeat: Duration,
}

#[derive(Clone, PartialEq, Debug)]
pub struct AlertWatched {
    pub state: State,
    /// Since when the condition held, also when it has just ended.
    pub since: Option<crate::time::Ts>,
    pub tell: Option<Event>,
}
