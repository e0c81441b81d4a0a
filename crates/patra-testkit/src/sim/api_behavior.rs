//! The paging and order of the upstream in a world, the limits of a run, and the advice while the upstream seems to be
//! in trouble.

use std::time::Duration;

use patra_core::gate::GateDecision;
use patra_core::health::Advice;
use patra_core::paging::{PagingKind, PagingRule, Position, Verify};
use patra_core::protocol::run::{RecordOrder, SliceLimits};
use patra_core::rng::Rng;
use patra_core::{CredentialId, Ts};

use super::world::World;

#[derive(Clone, Copy, Debug)]
pub(super) struct ApiBehavior {
    pub(super) pages: Pages,
    /// Pages of one slice, where pages are read side by side.
    pub(super) range: Option<u32>,
    /// Order by update time, which the upstream declares and keeps.
    pub(super) order: Option<RecordOrder>,
    /// Maximum number of requests of one run.
    pub(super) budget: Option<u32>,
    pub(super) trouble: Trouble,
    /// How the completeness of a list is checked.
    pub(super) verify: Verify,
    /// Permille of the pages with a wrong total.
    pub(super) lies: u64,
    /// Permille of the pages that are empty although more follow.
    pub(super) empty: u64,
    /// Windows are extended backwards by this much, for late records.
    pub(super) lookback: Option<Duration>,
    /// Triggers alternate between two credentials.
    pub(super) credentials: bool,
}

/// Paging style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pages {
    Tokens,
    Offsets,
    Numbers {
        base: u64,
    },
    /// URLs that contain an offset.
    Urls,
}

/// Frequency of each advice, in permille of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Trouble {
    narrower: u64,
    smaller: u64,
    circuit: u64,
}

impl ApiBehavior {
    /// With `plain`, draws nothing that needs a window without a ceiling, or pages of records.
    pub(super) fn draw(rng: &mut Rng, plain: bool) -> ApiBehavior {
        let pages = match rng.below(1_000) {
            _ if plain => Pages::Tokens,
            0..80 => Pages::Offsets,
            80..150 => Pages::Numbers { base: rng.below(2) },
            150..200 => Pages::Urls,
            _ => Pages::Tokens,
        };
        let verify = match pages {
            Pages::Offsets if rng.chance(800) => Verify::Seams,
            Pages::Tokens => Verify::Total,
            _ if rng.chance(500) => Verify::Twice,
            _ => Verify::Total,
        };
        let ranged =
            matches!(pages, Pages::Offsets | Pages::Numbers { .. }) && verify != Verify::Twice && rng.chance(400);
        let trouble = if rng.chance(120) { Trouble::draw(rng) } else { Trouble::default() };
        let ordered = !plain && (trouble != Trouble::default() || rng.chance(100));
        ApiBehavior {
            pages,
            range: ranged.then(|| 1 + rng.below(2) as u32),
            order: (ordered && rng.chance(700))
                .then(|| if rng.chance(600) { RecordOrder::Ascending } else { RecordOrder::Descending }),
            budget: rng.chance(60).then(|| 1 + rng.below(4) as u32),
            trouble,
            verify,
            lies: if !plain && rng.chance(200) { 1 + rng.below(300) } else { 0 },
            empty: if !plain && rng.chance(200) { 1 + rng.below(300) } else { 0 },
            lookback: (!plain
                && rng.chance(if pages == Pages::Tokens {
                    70
                } else if verify == Verify::Twice {
                    700
                } else {
                    250
                }))
            .then(|| Duration::from_secs(1 + rng.below(20))),
            credentials: rng.chance(150),
        }
    }

    pub(super) fn kind(&self) -> PagingKind {
        match self.pages {
            Pages::Tokens => PagingKind::Token { initial: None },
            Pages::Offsets => PagingKind::Offset,
            Pages::Numbers { base } => PagingKind::Page { base },
            Pages::Urls => PagingKind::Url,
        }
    }

    /// A record that appears hides from the total one that disappears, and a wrong total hides anything. Slices that only
    /// a total checks are unverified then, and may miss records.
    pub(super) fn hides_moves(&self) -> bool {
        let hidden = self.lookback.is_some() || self.lies > 0;
        hidden && self.pages != Pages::Tokens && (self.verify == Verify::Total || self.range.is_some())
    }

    pub(super) fn rule(&self, page_size: u32) -> PagingRule {
        PagingRule { verify: self.verify, ..PagingRule::new(self.kind(), page_size) }
    }

    pub(super) fn limits(&self) -> SliceLimits {
        let usual = SliceLimits::default();
        SliceLimits { page_range: self.range, max_requests: self.budget.unwrap_or(usual.max_requests), ..usual }
    }

    /// Whether windows can be split.
    pub(super) fn cuts(&self) -> bool {
        self.range.is_some() || self.trouble.narrower > 0 || self.order.is_some() && self.budget.is_some()
    }

    pub(super) fn credential(&self, turn: i64) -> Option<CredentialId> {
        self.credentials.then(|| CredentialId(1 + turn % 2))
    }
}

impl Pages {
    /// Number of records before this position; `None` if pages are not numbered.
    pub(super) fn before(self, position: &Position, size: usize) -> Option<usize> {
        match (self, position) {
            (_, Position::Offset(at)) => Some(*at as usize),
            (Pages::Numbers { base }, Position::Page(page)) => Some(page.saturating_sub(base) as usize * size),
            (Pages::Urls, Position::Url(url)) => url.as_deref().map_or(Some(0), |url| url.parse().ok()),
            _ => None,
        }
    }
}

impl Trouble {
    fn draw(rng: &mut Rng) -> Trouble {
        let mut upto = |most: u64| if rng.chance(600) { 1 + rng.below(most) } else { 0 };
        Trouble { narrower: upto(400), smaller: upto(600), circuit: upto(150) }
    }
}

impl World {
    /// The decision of the gate, and the advice from this process's view of the upstream's health.
    pub(super) fn permit(&mut self, process: usize) -> (GateDecision, Advice) {
        let now: Ts = self.processes[process].local(self.now);
        let Trouble { narrower, smaller, circuit } = self.profile.api.trouble;
        if self.calm || narrower + smaller + circuit == 0 {
            return (self.processes[process].machines.gate.acquire(now), Advice::default());
        }
        let advice = Advice {
            narrower: self.rng.chance(narrower),
            page_percent: if self.rng.chance(smaller) { 30 + self.rng.below(70) as u32 } else { 100 },
            circuit_open: self.rng.chance(circuit),
            ..Advice::default()
        };
        if advice.circuit_open {
            return (GateDecision::WaitUntil(now + Duration::from_micros(1 + self.rng.below(9_000_000))), advice);
        }
        (self.processes[process].machines.gate.acquire(now), advice)
    }
}
