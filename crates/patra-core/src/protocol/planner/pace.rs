//! How quickly queues are used up, and so when a full one should be checked again: before the executors run dry, and
//! not long before.

use std::time::Duration;

use crate::time::Ts;
use crate::tx::PartitionKey;

/// Delay of the first sample; no check comes sooner.
pub(super) const SOON: Duration = Duration::from_millis(100);
/// Maximum samples that are remembered.
const MAX_SAMPLES: usize = 64;
/// A sample is stale after this many of the longest waits.
const STALE: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct InventoryPace {
    samples: Vec<InventorySample>,
}

#[derive(Debug)]
struct InventorySample {
    partition: PartitionKey,
    at: Ts,
    /// Tasks that were left in the queue.
    left: u32,
}

impl InventoryPace {
    /// When to check a queue again that has `queued` of at most `limit` tasks: when half of the limit is used up at
    /// the pace since the last sample.
    pub(super) fn wait(
        &self,
        partition: &PartitionKey,
        queued: u32,
        limit: u32,
        now: Ts,
        longest: Duration,
    ) -> Duration {
        let last = self
            .samples
            .iter()
            .find(|sample| sample.partition == *partition && now.since(sample.at) <= longest * STALE);
        let wait = match last {
            Some(last) => {
                let used = last.left.saturating_sub(queued);
                (now.since(last.at) * (limit / 2)).checked_div(used).unwrap_or(longest)
            }
            // A partition that cannot be remembered has no pace.
            None if self.samples.len() >= MAX_SAMPLES => longest,
            None => SOON,
        };
        wait.max(SOON).min(longest)
    }

    /// Records that this many tasks were left in the queue, which will be checked again.
    pub(super) fn left(&mut self, partition: PartitionKey, left: u32, now: Ts, longest: Duration) {
        self.samples.retain(|sample| sample.partition != partition && now.since(sample.at) <= longest * STALE);
        if self.samples.len() < MAX_SAMPLES {
            self.samples.push(InventorySample { partition, at: now, left });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Operation;

    const LONGEST: Duration = Duration::from_secs(1);

    fn partition(endpoint: &str) -> PartitionKey {
        PartitionKey { provenance_code: "p".into(), endpoint_name: endpoint.into(), operation: Operation::Harvest }
    }

    #[test]
    fn queue_is_checked_when_half_of_it_is_used_up() {
        let (mut pace, start) = (InventoryPace::default(), Ts::from_secs(100));
        let mut sample = |queued, left, millis| {
            let now = start + Duration::from_millis(millis);
            let wait = pace.wait(&partition("a"), queued, 1_000, now, LONGEST);
            pace.left(partition("a"), left, now, LONGEST);
            wait
        };
        assert_eq!(sample(0, 1_000, 0), SOON, "how quickly it goes is not known yet");
        assert_eq!(sample(800, 1_000, 100), Duration::from_millis(250), "200 in 100 ms: 500 in 250");
        assert_eq!(sample(0, 1_000, 350), Duration::from_millis(125), "it ran dry");
        assert_eq!(sample(100, 1_000, 360), SOON, "not without end");
        assert_eq!(sample(990, 1_000, 460), LONGEST, "ten in 100 ms");
        assert_eq!(sample(1_000, 1_000, 1_460), LONGEST, "none at all");
        assert_eq!(sample(1_200, 1_200, 2_460), LONGEST, "others have added some");
        assert_eq!(sample(1_200, 300, 3_460), LONGEST, "a quota lets no more in than 300");
        assert_eq!(sample(300, 300, 4_460), LONGEST, "and those are not used");
    }

    #[test]
    fn partitions_have_their_own_pace_and_stale_samples_are_dropped() {
        let (mut pace, now) = (InventoryPace::default(), Ts::from_secs(100));
        pace.left(partition("a"), 10, now, LONGEST);
        assert_eq!(pace.wait(&partition("b"), 0, 10, now + LONGEST, LONGEST), SOON);
        assert_eq!(pace.wait(&partition("a"), 9, 10, now + LONGEST, LONGEST), LONGEST);
        assert_eq!(pace.wait(&partition("a"), 9, 10, now + LONGEST * 11, LONGEST), SOON);
        for n in 0..2 * MAX_SAMPLES {
            pace.left(partition(&n.to_string()), 10, now + LONGEST * 11, LONGEST);
        }
        assert_eq!(pace.samples.len(), MAX_SAMPLES);
        assert_eq!(
            pace.wait(&partition("a"), 9, 10, now + LONGEST * 11, LONGEST),
            LONGEST,
            "there is no room to remember it"
        );
    }
}
