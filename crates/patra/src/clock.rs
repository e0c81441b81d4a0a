//! The wall clock, read here and nowhere else.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

use patra_core::Ts;
use patra_core::port::Clock;

#[derive(Debug)]
pub(crate) struct SystemClock;

/// The first reading of both clocks.
static START: LazyLock<(Ts, Instant)> = LazyLock::new(|| (SystemClock.now(), instant()));

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only place that reads the wall clock")]
    fn now(&self) -> Ts {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ts::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn steady(&self) -> Ts {
        let (at, since) = *START;
        at + instant().duration_since(since)
    }
}

#[expect(clippy::disallowed_methods, reason = "the only place that reads the monotonic clock")]
fn instant() -> Instant {
    Instant::now()
}
