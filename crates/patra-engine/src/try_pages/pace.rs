//! Rate limit of one try without the shared gate: a bucket of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_core::gate::{Bucket, GateDecision, Rate};
use patra_core::port::{BoxFuture, Clock};

use crate::credentials::PermitSource;
use crate::shared::lock;

#[derive(Debug)]
pub(crate) struct TryPace {
    bucket: Mutex<Bucket>,
    rate: Rate,
    /// The least time between two requests, where a host asks for one.
    least: Mutex<Option<Duration>>,
    clock: Arc<dyn Clock>,
}

impl TryPace {
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> TryPace {
        TryPace { bucket: Mutex::new(Bucket::new(rate, clock.steady())), rate, least: Mutex::default(), clock }
    }

    fn ask(&self) -> GateDecision {
        lock(&self.bucket).acquire(self.clock.steady())
    }
}

impl PermitSource for TryPace {
    fn acquire(&self) -> BoxFuture<'_, GateDecision> {
        Box::pin(async { self.ask() })
    }

    fn space(&self, least: Option<Duration>) {
        let mut known = lock(&self.least);
        if *known != least {
            *known = least;
            let rate = least.map_or(self.rate, |least| self.rate.spaced(least));
            *lock(&self.bucket) = Bucket::new(rate, self.clock.steady());
        }
    }
}
