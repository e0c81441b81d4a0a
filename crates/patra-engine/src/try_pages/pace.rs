//! Rate limit of one try without the shared gate: a bucket of its own.

use std::sync::{Arc, Mutex};

use patra_core::gate::{Bucket, GateDecision, Rate};
use patra_core::port::{BoxFuture, Clock};

use crate::credentials::PermitSource;
use crate::shared::lock;

#[derive(Debug)]
pub(crate) struct TryPace {
    bucket: Mutex<Bucket>,
    clock: Arc<dyn Clock>,
}

impl TryPace {
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> TryPace {
        TryPace { bucket: Mutex::new(Bucket::new(rate, clock.steady())), clock }
    }

    fn ask(&self) -> GateDecision {
        lock(&self.bucket).acquire(self.clock.steady())
    }
}

impl PermitSource for TryPace {
    fn acquire(&self) -> BoxFuture<'_, GateDecision> {
        Box::pin(async { self.ask() })
    }
}
