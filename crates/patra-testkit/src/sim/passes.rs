//! Worlds in which every slice of the partitioned endpoint reads its whole list, records join and leave the lists while
//! they are read, and those that are gone are marked.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::{PageFacts, Position};
use patra_core::protocol::planner::{CompileError, PlanDraft, PlanSpan};
use patra_core::protocol::run::{FetchedPage, MissingRule, PassRule, RunPolicy};
use patra_core::rng::Rng;
use patra_core::state::Operation;
use patra_core::tx::{ClaimedJob, CommitBatch, Done, RunEnd, Tx};
use patra_core::{SliceId, Ts};

use super::Mutant;
use super::api::{ApiRecord, MockApi, blank_page, number};
use super::check::Broken;
use super::partition::{self, Partitions};
use super::profile::Profile;
use super::store::Store;
use super::world::World;
use crate::memory::{Item, Listed};

#[derive(Clone, Copy, Debug)]
pub(super) struct Passes {
    /// Permille of the responses that lack their end.
    cut: u64,
    /// Permille of the first pages that are empty by mistake.
    emptied: u64,
    /// The lists report totals, and a pass that finds nothing marks only if the total is 0.
    guarded: bool,
}

impl Profile {
    /// Some worlds have passes. Drawn from a source of its own, so that other worlds stay as they are.
    pub(super) fn draw_passes(&mut self, seed: u64) -> Rng {
        let mut rng = Rng::new(seed ^ 0x7061_7373_6573);
        if rng.chance(150) {
            let guarded = rng.chance(500);
            // A mark is made by one pass and taken away by another.
            self.triggers = self.triggers.max(5);
            self.partitions.get_or_insert_with(|| Partitions::draw(&mut rng));
            self.passes = Some(Passes {
                cut: if rng.chance(400) { 1 + rng.below(300) } else { 0 },
                emptied: if guarded && rng.chance(600) { 1 + rng.below(400) } else { 0 },
                guarded,
            });
        }
        rng
    }
}

impl MockApi {
    /// Most records of the partitions are away for a while, or from some time on.
    pub(super) fn add_absences(&mut self, rng: &mut Rng, profile: &Profile, start: Ts) {
        let Some(passes) = profile.passes else { return };
        (self.whole_lists, self.empties) = (Some(passes.guarded), passes.emptied > 0);
        for record in self.records.iter_mut().filter(|record| record.partition.is_some()) {
            if !rng.chance(600) {
                continue;
            }
            let mut at = start;
            for _ in 0..1 + rng.below(3) {
                at = at + Duration::from_micros(rng.below(profile.rough.as_micros() as u64 / 2));
                let until = at + Duration::from_secs(1 + rng.below(40));
                let until = if rng.chance(400) { Ts::MAX } else { until.min(start + profile.rough) };
                if at < start + profile.rough && at < until {
                    record.away.push((at, until));
                }
                at = until.min(start + profile.rough);
            }
        }
    }
}

impl ApiRecord {
    /// Whether the lists have it at `now`.
    pub(super) fn is_there(&self, now: Ts) -> bool {
        self.shown(now).is_some() && !self.away.iter().any(|(from, until)| *from <= now && now < *until)
    }

    /// Whether its list was without it at some moment of `[from, to]`.
    pub(super) fn was_away(&self, from: Ts, to: Ts) -> bool {
        !self.is_there(from) || self.away.iter().any(|(left, _)| from <= *left && *left <= to)
    }
}

/// The draft of a pass, where the world has passes. They have no past.
pub(super) fn draft(trigger: &ClaimedJob, draft: PlanDraft, passes: Option<Passes>) -> Result<PlanDraft, CompileError> {
    match passes {
        Some(_) if trigger.operation == Operation::Backfill => Err("a list that is read as a whole has no past".into()),
        Some(_) => Ok(PlanDraft { span: PlanSpan::Whole, ..draft }),
        None => Ok(draft),
    }
}

/// The policy of one list.
pub(super) fn policy(profile: &Profile, policy: &Arc<RunPolicy>, partition: usize) -> Arc<RunPolicy> {
    let Some(passes) = profile.passes else { return Arc::clone(policy) };
    let ratio = if passes.guarded { 0.5 } else { 1.0 };
    let missing = Some(MissingRule { list: partition.to_string().into(), ratio });
    Arc::new(RunPolicy { pass: Some(PassRule { undated: false, missing }), ..(**policy).clone() })
}

impl World {
    /// A list without its end, or without anything.
    pub(super) fn truncate(&mut self, page: &mut FetchedPage, position: &Position) {
        let Some(passes) = self.profile.passes else { return };
        if self.rng.chance(passes.cut) {
            page.facts.next_token = None;
            page.cut = Some("the end is missing".to_owned());
        }
        if matches!(position, Position::Token(None)) && self.rng.chance(passes.emptied) {
            *page = FetchedPage { facts: PageFacts::default(), ..blank_page() };
        }
    }

    /// After a calm pass, what is gone is marked and what is there is not.
    pub(super) fn check_marks(&self, partitions: impl Fn(usize) -> bool) -> Result<(), Broken> {
        let Some(passes) = self.profile.passes else { return Ok(()) };
        let own = self.store.mem.items.iter().filter(|item| item.endpoint_name == partition::ENDPOINT);
        let with_records: Vec<_> = own
            .filter_map(|item| Some((item, self.api.records.get(number(&item.key)?)?)))
            .filter(|(_, record)| record.partition.is_some_and(&partitions))
            .collect();
        let is_there = |record: &ApiRecord| record.is_there(self.now);
        for (item, record) in &with_records {
            let in_list = |other: &ApiRecord| other.partition == record.partition && is_there(other);
            // A list that has only records that cannot be stored has lost all that are known.
            let lost_all =
                !with_records.iter().any(|(_, other)| in_list(other)) && self.api.records.iter().any(in_list);
            if passes.guarded && lost_all {
                continue;
            }
            if record.is_there(self.now) == item.missing_since.is_some() {
                let there = if record.is_there(self.now) { "there" } else { "gone" };
                return Err(format!("marks: {} is {there}, and its mark is {:?}", item.key, item.missing_since));
            }
        }
        Ok(())
    }
}

impl Store {
    /// Bugs around the commit of a page or the end of a run, after it was applied.
    pub(super) fn spoil_marks(&mut self, mutant: Mutant, now: Ts, tx: &Tx, before: &[Item], listed: &ListedBefore) {
        match (mutant, tx) {
            (Mutant::PartialPassMarks, Tx::EndRun(op)) if !matches!(op.end, RunEnd::Succeeded) => {
                let slice = op.lineage.slice;
                let Some(list) = self.mem.listed.iter().find(|(_, row)| row.slice == slice).map(|(at, _)| at.0) else {
                    return;
                };
                for ((of, item), row) in &mut self.mem.listed {
                    if *of == list && row.slice < slice && row.missing_since.is_none() {
                        *row = Listed { slice, missing_since: Some(now) };
                        self.mem.items[*item as usize - 1].missing_since = Some(now);
                    }
                }
            }
            (Mutant::MarkStays, Tx::CommitBatch(_)) => {
                for (old, item) in before.iter().zip(&mut self.mem.items) {
                    item.missing_since = old.missing_since.or(item.missing_since);
                }
            }
            (Mutant::UnchangedUnseen, Tx::CommitBatch(op)) => self.forget_unchanged(op, listed),
            (Mutant::RequeueForgetsSeen, Tx::StartRun(op)) => {
                let slice = self.mem.tasks[op.lease.task.0 as usize - 1].lineage.slice;
                for row in self.mem.listed.values_mut().filter(|row| row.slice == slice) {
                    row.slice = SliceId(0);
                }
            }
            _ => {}
        }
    }

    fn forget_unchanged(&mut self, op: &CommitBatch, listed: &ListedBefore) {
        for (at, row) in &mut self.mem.listed {
            let item = &self.mem.items[at.1 as usize - 1];
            let stored = item.run == op.run && item.batch_no == op.batch_no;
            if let (false, Some(old)) = (stored, listed.get(at)) {
                *row = *old;
            }
        }
    }

    /// Applies a transaction with one of these bugs.
    pub(super) fn apply_with_marks(
        &mut self,
        mutant: Mutant,
        now: Ts,
        tx: &Tx,
    ) -> Option<Result<Done, patra_core::tx::TxError>> {
        let concerned = matches!(
            mutant,
            Mutant::PartialPassMarks | Mutant::MarkStays | Mutant::UnchangedUnseen | Mutant::RequeueForgetsSeen
        );
        if !concerned || matches!(tx, Tx::CommitBatches(_)) {
            return None;
        }
        let (before, listed) = (self.mem.items.clone(), self.mem.listed.clone());
        let done = self.mem.apply(now, tx);
        if done.is_ok() {
            self.spoil_marks(mutant, now, tx, &before, &listed);
        }
        Some(done)
    }
}

type ListedBefore = std::collections::BTreeMap<(usize, i64), Listed>;
