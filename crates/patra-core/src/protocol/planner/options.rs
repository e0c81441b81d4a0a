//! Options of the planner.

use std::time::Duration;

use crate::tx::{MAX_PARTITIONS, PartitionKey};

#[derive(Clone, Debug)]
pub struct Options {
    pub owner: String,
    pub lease: Duration,
    /// How long to wait when there is nothing to plan and no wake-up arrives.
    pub idle_poll: Duration,
    /// QUEUED tasks per partition above which no more are emitted (G-07).
    pub inventory: u32,
    /// Maximum time that a job waits for the queue to shrink.
    pub inventory_wait: Duration,
    /// Maximum partitions of one job.
    pub max_partitions: u32,
    /// Plan only jobs of this partition, and fire no schedules.
    pub only: Option<PartitionKey>,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            lease: Duration::from_secs(60),
            idle_poll: Duration::from_secs(1),
            inventory: 1_000,
            inventory_wait: Duration::from_secs(1),
            max_partitions: MAX_PARTITIONS,
            only: None,
        }
    }
}
