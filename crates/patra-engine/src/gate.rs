//! The one way out of this process: every request asks here first. State per key, in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use patra_core::gate::{Bucket, Decision, Rate};
use patra_core::port::Clock;

/// `(provenance, endpoint)`: what a rate belongs to (ING-4.10-04).
pub(crate) type Key = (String, String);

#[derive(Debug)]
pub(crate) struct Gate {
    clock: Arc<dyn Clock>,
    buckets: Mutex<HashMap<Key, Bucket>>,
}

impl Gate {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Gate {
        Gate { clock, buckets: Mutex::default() }
    }

    /// May one request with this key leave now? The newest rate applies.
    pub(crate) fn acquire(&self, key: &Key, rate: Rate) -> Decision {
        self.with(key, rate, Bucket::acquire)
    }

    /// The far side wants silence.
    pub(crate) fn cool_down(&self, key: &Key, rate: Rate, wait: Duration) {
        self.with(key, rate, |bucket, now| bucket.cool_down(now + wait));
    }

    fn with<T>(&self, key: &Key, rate: Rate, act: impl FnOnce(&mut Bucket, patra_core::Ts) -> T) -> T {
        let now = self.clock.steady();
        // A panic while the lock was held cannot have left a bucket half changed: use it on.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = buckets.get_mut(key) {
            bucket.set_rate(rate);
            return act(bucket, now);
        }
        act(buckets.entry(key.clone()).or_insert_with(|| Bucket::new(rate, now)), now)
    }
}
