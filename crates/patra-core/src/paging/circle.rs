//! Ways to notice that an upstream leads in a circle.

use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

/// A page that later pages are compared with (Brent's algorithm): every circle is noticed after at most three times its
/// length, in constant memory. Stored with each batch, so that a circle longer than a run is noticed too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Landmark {
    /// The hash of the page's content, folded to half of its length.
    page: u64,
    /// Pages read since.
    since: u32,
    /// Pages after which the landmark moves to the current page.
    limit: u32,
}

impl Landmark {
    pub(super) fn is_unset(&self) -> bool {
        self.limit == 0
    }

    /// True when this page is the landmark. The landmark moves after 1, 2, 4, 8, … pages.
    pub(super) fn comes_again(&mut self, content: [u8; 16]) -> bool {
        let content = u128::from_be_bytes(content);
        let page = ((content >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ content as u64;
        if self.limit > 0 && self.page == page {
            return true;
        }
        self.since += 1;
        if self.since >= self.limit {
            *self = Landmark { page, since: 0, limit: self.limit.saturating_mul(2).max(1) };
        }
        false
    }
}

/// Detects an upstream that serves the same page for ever (ING-15-01). Remembers a bounded number of page hashes: the
/// run's budget stops longer loops.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopGuard {
    seen: VecDeque<[u8; 16]>,
}

impl LoopGuard {
    const REMEMBERED: usize = 1_024;

    /// True when a page with this content has been read before in this run. An empty page is never a loop.
    pub(super) fn repeats(&mut self, content: [u8; 16]) -> bool {
        if self.seen.contains(&content) {
            return true;
        }
        if self.seen.len() == Self::REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(content);
        false
    }
}

/// A bounded set of hashes.
#[derive(Debug)]
pub(super) struct SeenHashes {
    pub(super) hashes: BTreeSet<[u8; 16]>,
    most: usize,
}

impl SeenHashes {
    pub(super) fn of(most: usize) -> SeenHashes {
        SeenHashes { hashes: BTreeSet::new(), most }
    }

    /// True when the hash is new, or cannot be remembered.
    pub(super) fn add(&mut self, hash: [u8; 16]) -> bool {
        if self.is_full() { !self.has(&hash) } else { self.hashes.insert(hash) }
    }

    pub(super) fn is_full(&self) -> bool {
        self.hashes.len() >= self.most
    }

    pub(super) fn has(&self, hash: &[u8; 16]) -> bool {
        self.hashes.contains(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{content_hash, id_hash};

    #[test]
    fn the_loop_guard_knows_a_page_again_and_stays_small() {
        let mut guard = LoopGuard::default();
        for round in 0..2_000_u16 {
            assert!(!guard.repeats(id_hash(&round.to_be_bytes())));
        }
        assert!(guard.repeats(id_hash(&1_999_u16.to_be_bytes())));
        assert!(guard.seen.len() <= LoopGuard::REMEMBERED);
    }

    // covers: ING-15-01
    #[test]
    fn circle_of_any_length_is_noticed_across_runs() {
        for (before, length) in [(0, 1), (0, 7), (5, 100), (1_000, 3_000), (3_000, 5)] {
            let (mut landmark, mut pages) = (Landmark::default(), 0_u64);
            loop {
                let page = if pages < before { pages } else { before + (pages - before) % length };
                pages += 1;
                // A landmark is stored and read back between two runs.
                landmark = serde_json::from_str(&serde_json::to_string(&landmark).unwrap()).unwrap();
                if landmark.comes_again(content_hash(&page.to_be_bytes())) {
                    break;
                }
                assert!(pages < 3 * (before + length) + 2, "{before} pages, then a circle of {length}");
            }
            assert!(pages > before + length, "{before} pages, then a circle of {length}");
        }
    }
}
