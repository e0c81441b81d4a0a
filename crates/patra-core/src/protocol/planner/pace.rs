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
    queued: u32,
}

impl Pace {
    /// When to look again at an inventory that holds `queued` tasks and is filled up to `limit` now: when half of that is used
    /// up at the pace since the last look.
    pub(super) fn look(&mut self, of: Inventory, queued: u32, limit: u32, now: Ts, longest: Duration) -> Duration {
        self.looks.retain(|look| now.since(look.at) <= longest * STALE);
        let last = self.looks.iter().position(|look| look.of == of).map(|at| self.looks.swap_remove(at));
        let wait = match last {
            None => SOON,
            Some(last) => {
                let used = last.queued.saturating_sub(queued);
                (now.since(last.at) * (limit / 2)).checked_div(used).unwrap_or(longest)
            }
        };
        if self.looks.len() < MAX_LOOKS {
            self.looks.push(Look { of, at: now, queued: queued.max(limit) });
        }
        wait.max(SOON).min(longest)
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
        let (mut pace, now) = (Pace::default(), Ts::from_secs(100));
        let mut look = |queued, millis| pace.look(of("a"), queued, 1_000, now + Duration::from_millis(millis), LONGEST);
        assert_eq!(look(0, 0), SOON, "how quickly it goes is not known yet");
        assert_eq!(look(800, 100), Duration::from_millis(250), "200 in 100 ms: 500 in 250");
        assert_eq!(look(0, 350), Duration::from_millis(125), "it ran dry");
        assert_eq!(look(100, 360), SOON, "not without end");
        assert_eq!(look(990, 460), LONGEST, "ten in 100 ms");
        assert_eq!(look(1_000, 1_460), LONGEST, "none at all");
        assert_eq!(look(1_200, 2_460), LONGEST, "others have added some");
    }

    #[test]
    fn inventories_have_their_own_pace_and_what_is_long_ago_is_forgotten() {
        let (mut pace, now) = (Pace::default(), Ts::from_secs(100));
        assert_eq!(pace.look(of("a"), 0, 10, now, LONGEST), SOON);
        assert_eq!(pace.look(of("b"), 0, 10, now + LONGEST, LONGEST), SOON);
        assert_eq!(pace.look(of("a"), 9, 10, now + LONGEST, LONGEST), LONGEST);
        assert_eq!(pace.look(of("a"), 10, 10, now + LONGEST * 12, LONGEST), SOON);
        for n in 0..2 * MAX_LOOKS {
            pace.look(of(&n.to_string()), 0, 10, now + LONGEST * 12, LONGEST);
        }
        assert_eq!(pace.looks.len(), MAX_LOOKS);
    }
}
