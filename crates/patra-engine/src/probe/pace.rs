//! The gate of one look: nobody else asks this far side on its account, so a bucket of its own is enough.

use std::sync::{Arc, Mutex};

use patra_core::gate::{Bucket, Decision, Rate};
use patra_core::port::{Boxed, Clock};

use crate::credentials::Permits;
use crate::shared::lock;

#[derive(Debug)]
pub(crate) struct Pace {
    bucket: Mutex<Bucket>,
    clock: Arc<dyn Clock>,
}

impl Pace {
    pub(crate) fn new(rate: Rate, clock: Arc<dyn Clock>) -> Pace {
        Pace { bucket: Mutex::new(Bucket::new(rate, clock.steady())), clock }
    }

    fn ask(&self) -> Decision {
        lock(&self.bucket).acquire(self.clock.steady())
    }
}

impl Permits for Pace {
    fn acquire(&self) -> Boxed<'_, Decision> {
        Box::pin(async { self.ask() })
    }
}
