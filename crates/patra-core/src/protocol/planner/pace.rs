//! How quickly inventories are used up, and so when one that is full is worth another look: before the executors run dry, and not
//! long before.

use std::time::Duration;

use crate::time::Ts;
use crate::tx::Inventory;

/// After this time the first look at how quickly it goes; no look comes sooner.
pub(super) const SOON: Duration = Duration::from_millis(100);
/// Looks that are remembered.
const MAX_LOOKS: usize = 64;
/// So many of the longest waits later a look says nothing any more.
const STALE: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct Pace {
    looks: Vec<Look>,
}

#[derive(Debug)]
struct Look {
    of: Inventory,
    at: Ts,
    /// How many were left waiting.
    left: u32,
}

impl Pace {
    /// When to look again at an inventory of which `queued` wait now and that may hold `limit`: when half of that is used up at the
    /// pace since the last look.
    pub(super) fn wait(&self, of: &Inventory, queued: u32, limit: u32, now: Ts, longest: Duration) -> Duration {
        let last = self.looks.iter().find(|look| look.of == *of && now.since(look.at) <= longest * STALE);
        let wait = match last {
            Some(last) => {
                let used = last.left.saturating_sub(queued);
                (now.since(last.at) * (limit / 2)).checked_div(used).unwrap_or(longest)
            }
            // What cannot be remembered has no pace.
            None if self.looks.len() >= MAX_LOOKS => longest,
            None => SOON,
        };
        wait.max(SOON).min(longest)
    }

    /// So many of an inventory were left waiting, and it will be looked at again.
    pub(super) fn left(&mut self, of: Inventory, left: u32, now: Ts, longest: Duration) {
        self.looks.retain(|look| look.of != of && now.since(look.at) <= longest * STALE);
        if self.looks.len() < MAX_LOOKS {
            self.looks.push(Look { of, at: now, left });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Operation;

    const LONGEST: Duration = Duration::from_secs(1);

    fn of(endpoint: &str) -> Inventory {
        Inventory { provenance_code: "p".into(), endpoint_name: endpoint.into(), operation: Operation::Harvest }
    }

    #[test]
    fn an_inventory_is_looked_at_when_half_of_it_is_used_up() {
        let (mut pace, start) = (Pace::default(), Ts::from_secs(100));
        let mut look = |queued, left, millis| {
            let now = start + Duration::from_millis(millis);
            let wait = pace.wait(&of("a"), queued, 1_000, now, LONGEST);
            pace.left(of("a"), left, now, LONGEST);
            wait
        };
        assert_eq!(look(0, 1_000, 0), SOON, "how quickly it goes is not known yet");
        assert_eq!(look(800, 1_000, 100), Duration::from_millis(250), "200 in 100 ms: 500 in 250");
        assert_eq!(look(0, 1_000, 350), Duration::from_millis(125), "it ran dry");
        assert_eq!(look(100, 1_000, 360), SOON, "not without end");
        assert_eq!(look(990, 1_000, 460), LONGEST, "ten in 100 ms");
        assert_eq!(look(1_000, 1_000, 1_460), LONGEST, "none at all");
        assert_eq!(look(1_200, 1_200, 2_460), LONGEST, "others have added some");
        assert_eq!(look(1_200, 300, 3_460), LONGEST, "a quota lets no more in than 300");
        assert_eq!(look(300, 300, 4_460), LONGEST, "and those are not used");
    }

    #[test]
    fn inventories_have_their_own_pace_and_what_is_long_ago_is_forgotten() {
        let (mut pace, now) = (Pace::default(), Ts::from_secs(100));
        pace.left(of("a"), 10, now, LONGEST);
        assert_eq!(pace.wait(&of("b"), 0, 10, now + LONGEST, LONGEST), SOON);
        assert_eq!(pace.wait(&of("a"), 9, 10, now + LONGEST, LONGEST), LONGEST);
        assert_eq!(pace.wait(&of("a"), 9, 10, now + LONGEST * 11, LONGEST), SOON);
        for n in 0..2 * MAX_LOOKS {
            pace.left(of(&n.to_string()), 10, now + LONGEST * 11, LONGEST);
        }
        assert_eq!(pace.looks.len(), MAX_LOOKS);
        assert_eq!(pace.wait(&of("a"), 9, 10, now + LONGEST * 11, LONGEST), LONGEST, "there is no room to remember it");
    }
}
