//! What to do next: mostly sensible, sometimes stale, repeated or too late.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Position;
use patra_core::record::{Record, Version};
use patra_core::rng::Rng;
use patra_core::state::Operation;
use patra_core::tx::{
    AdvanceCursor, Claim, CreateKey, Done, Fire, FireDue, Lease, LeaseRef, PlanTarget, ReadCoverage, ReadParents,
    RecordAdvance, RemoveProvenance, Renew, RevokeKey, RunEnd, RunStarted, SavePlan, Scope, SettleTrigger, Settlement,
    StartRun, Sweep, SyncDictionary, TriggerTaken, Tx, TxError,
};
use patra_core::{Fence, RunId, Ts};

use crate::contract::make;
use crate::memory::MemStore;

#[derive(Debug)]
pub(super) enum Step {
    Run(Tx),
    /// Let time pass.
    Pass(Duration),
}

/// Remembers what was answered, so that it can ask for more of it, in time or too late. All ids are the model's.
#[derive(Debug)]
pub(super) struct Generator {
    rng: Rng,
    /// The store has its own clock: nothing may depend on the moment.
    real: bool,
    taken: Vec<TriggerTaken>,
    leases: Vec<Lease>,
    runs: Vec<(Lease, RunId)>,
    done: Vec<Tx>,
}

impl Generator {
    pub(super) fn new(seed: u64, real: bool) -> Generator {
        Generator { rng: Rng::new(seed), real, taken: vec![], leases: vec![], runs: vec![], done: vec![] }
    }

    pub(super) fn learn(&mut self, tx: &Tx, answer: &Result<Done, TxError>) {
        self.done.push(tx.clone());
        match answer {
            Ok(Done::TakeTrigger(Some(taken))) => self.taken.push((**taken).clone()),
            Ok(Done::Claim(claimed)) => self.leases.extend(claimed.leases.iter().cloned()),
            Ok(Done::StartRun(RunStarted::Go { run, .. })) => {
                let Tx::StartRun(StartRun { lease }) = tx else { return };
                if let Some(lease) = self.leases.iter().find(|known| LeaseRef::from(*known) == *lease) {
                    self.runs.push((lease.clone(), *run));
                }
            }
            _ => {}
        }
    }

    pub(super) fn next(&mut self, store: &MemStore) -> Step {
        loop {
            let tx = match self.rng.below(110) {
                0..3 => Some(self.apply()),
                3..8 => Some(self.fire()),
                8..10 => Some(FireDue { limit: 1 + self.rng.below(2) as u32 }.into()),
                10..17 => Some(make::take(self.lease()).into()),
                17..19 => self.settle(),
                19..22 => self.fan_out(),
                22..23 => Some(self.parents()),
                23..24 => Some(ReadCoverage { cursor: self.name() }.into()),
                24..32 => self.save_plan(store),
                32..42 => Some(self.claim()),
                42..46 => Some(self.renew()),
                46..57 => self.start(),
                57..71 => self.commit(store),
                71..80 => self.end(store),
                80..84 => self.record(store),
                84..88 => self.advance(store),
                88..92 => Some(self.sweep()),
                92..94 => Some(self.key()),
                94..102 if !self.real => return Step::Pass(self.short()),
                _ => self.again(),
            };
            if let Some(tx) = tx {
                return Step::Run(tx);
            }
        }
    }

    fn short(&mut self) -> Duration {
        Duration::from_micros(self.rng.below(150_000))
    }

    fn lease(&mut self) -> Duration {
        if self.real || self.rng.chance(500) { make::LONG } else { make::SHORT }
    }

    fn delay(&mut self) -> Duration {
        if self.real { Duration::ZERO } else { self.short() }
    }

    fn operation(&mut self) -> Operation {
        Operation::ALL[self.rng.below(Operation::ALL.len() as u64) as usize]
    }

    fn name(&mut self) -> patra_core::cursor::Name {
        let operation = self.operation();
        make::namespace(operation, "ns")
    }

    /// One of the last few, so that most are still alive and some are not.
    fn recent<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let from = all.len().saturating_sub(3);
        let at = from + self.rng.below((all.len() - from) as u64) as usize;
        all.get(at).cloned()
    }

    fn apply(&mut self) -> Tx {
        match self.rng.below(10) {
            0 => return RemoveProvenance { provenance_code: make::PROVENANCE.into() }.into(),
            1 => return SyncDictionary { types: make::dictionary(self.rng.below(4)) }.into(),
            _ => {}
        }
        let millis = if self.real { 3_600_000 } else { 300 + 200 * self.rng.below(2) };
        let every = Some(Duration::from_millis(millis));
        let all = [(make::ENDPOINT, every), ("authors", None), ("grants", None)];
        let count = 1 + self.rng.below(3) as usize;
        make::provenance(&format!("h{}", self.rng.below(4)), &all[..count]).into()
    }

    fn fire(&mut self) -> Tx {
        let operation = self.operation();
        let fire = make::fire(&format!("job-{}", self.rng.below(60)), operation);
        Fire { priority: self.rng.below(3) as i32 - 1, ..fire }.into()
    }

    fn fan_out(&mut self) -> Option<Tx> {
        let half_done = self.taken.iter().rev().find(|taken| taken.place.is_some() && self.rng.chance(300)).cloned();
        let taken = half_done.or_else(|| self.recent(&self.taken.clone()))?;
        let users: BTreeSet<_> = (0..self.rng.below(4)).map(|_| ["a", "b", "c"][self.rng.below(3) as usize]).collect();
        let mut fan = make::fan(&taken, &users.into_iter().collect::<Vec<_>>(), self.rng.chance(300));
        fan.skipped = self.rng.below(3) as u32;
        fan.limit = 2 + self.rng.below(5) as u32;
        Some(Arc::new(fan).into())
    }

    fn parents(&mut self) -> Tx {
        let after = self.rng.chance(500).then(|| format!("key {}", self.rng.below(8)));
        ReadParents {
            project_key: "default".into(),
            provenance_code: make::PROVENANCE.into(),
            endpoint_name: make::ENDPOINT.into(),
            dedup_scope: make::ENDPOINT.into(),
            after,
            limit: 1 + self.rng.below(4) as u32,
            payload: self.rng.chance(500),
        }
        .into()
    }

    fn settle(&mut self) -> Option<Tx> {
        let taken = self.recent(&self.taken.clone())?;
        let settlement = match self.rng.below(4) {
            0 => Settlement::Nothing { remark: "nothing".into() },
            1 => Settlement::Refused { error: "impossible".into() },
            _ => Settlement::Later { delay: self.delay() },
        };
        Some(SettleTrigger { instance: taken.instance, fence: taken.fence, settlement }.into())
    }

    fn save_plan(&mut self, store: &MemStore) -> Option<Tx> {
        let taken = self.recent(&self.taken.clone())?;
        let name = make::namespace(taken.operation, "ns");
        let cursor = store.cursors.iter().find(|cursor| cursor.name == name);
        let epoch = cursor.map_or(0, |cursor| cursor.epoch) + i64::from(self.rng.chance(100));
        // Near the cursor, so that prefixes grow; not always at it, so that there are holes.
        let value = cursor.and_then(|cursor| cursor.value).map_or(0, |value| value.micros() / 10_000_000 * 10);
        let from = if self.rng.chance(600) { value } else { value + 10 * self.rng.below(5) as i64 };
        let windows = make::windows(from, 1 + self.rng.below(4) as i64);
        let mut plan = make::plan(&taken, epoch, &windows);
        plan.origin = Ts::from_secs(0);
        // Few tags, so that tasks which exist are derived again; not so few that a hole is never filled.
        let tag = format!("tag {}", self.rng.below(8));
        plan.slices = windows.iter().map(|window| make::slice(&tag, *window)).collect();
        let target = match &taken.plan {
            Some(open) if self.rng.chance(900) => PlanTarget::Existing(open.plan),
            _ => plan.target.clone(),
        };
        Some(Arc::new(SavePlan { target, complete: self.rng.chance(650), resume_delay: self.delay(), ..plan }).into())
    }

    fn claim(&mut self) -> Tx {
        Claim { owner: "worker".into(), limit: 1 + self.rng.below(3) as u32, lease: self.lease() }.into()
    }

    fn renew(&mut self) -> Tx {
        let from = self.leases.len().saturating_sub(5);
        let leases = self.leases[from..].iter().map(LeaseRef::from).collect();
        let owner = if self.rng.chance(100) { "thief" } else { "worker" };
        Renew { owner: owner.into(), leases, lease: self.lease() }.into()
    }

    fn start(&mut self) -> Option<Tx> {
        let lease = self.recent(&self.leases.clone())?;
        let mut lease = LeaseRef::from(&lease);
        if self.rng.chance(50) {
            lease.fence = Fence(lease.fence.0 + 1);
        }
        Some(StartRun { lease }.into())
    }

    fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for key in 0..8 {
            if self.rng.chance(400) {
                let (at, source_version) = (self.rng.below(6) as i64, self.rng.below(2) as i64);
                let version = Version { updated_at: Ts::from_secs(at), source_version };
                records.push(Record { version, ..make::record(&format!("key {key}"), at) });
            }
        }
        records
    }

    fn commit(&mut self, store: &MemStore) -> Option<Tx> {
        let (lease, run) = self.recent(&self.runs.clone())?;
        let written = next_batch(store, run);
        let batch_no = if self.rng.chance(150) { written.saturating_sub(1).max(1) } else { written };
        let more = self.rng.chance(700);
        let mut page = make::page(&lease, run, batch_no, self.records(), more);
        if self.rng.chance(300) {
            page.rejected = vec![make::rejected(0), make::rejected(3)];
            page.stats.failed = 2;
        }
        if self.rng.chance(300) {
            // A token seldom comes again within a run; then the page is refused.
            let token = if self.rng.chance(250) { "again".to_owned() } else { format!("token {batch_no}") };
            page.before_token = Some(token.clone());
            page.position = Position::Token(Some(token));
            page.next = more.then(|| Position::Token(Some(format!("token {}", batch_no + 1))));
        }
        Some(Arc::new(page).into())
    }

    fn end(&mut self, store: &MemStore) -> Option<Tx> {
        let (lease, run) = self.recent(&self.runs.clone())?;
        let error = make::fault("trouble");
        let end = match self.rng.below(8) {
            0..4 => RunEnd::Succeeded,
            4 => RunEnd::Partial { error },
            5 => RunEnd::Failed { error },
            _ => RunEnd::Requeue { delay: self.delay(), error, counted: self.rng.chance(500) },
        };
        let mut end = make::end(&lease, run, end);
        if self.rng.chance(50) {
            end.lease.fence = Fence(lease.fence.0 + 100);
        }
        if self.rng.chance(250) {
            end.failure = Some(make::failure(&lease, run, next_batch(store, run)));
        }
        Some(Arc::new(end).into())
    }

    fn record(&mut self, store: &MemStore) -> Option<Tx> {
        let cursor = store.cursors.get(self.rng.below(3) as usize)?.id;
        let cause = self.recent(&self.runs.clone()).map(|(lease, run)| (lease.task, run));
        let observed_max = self.rng.chance(500).then_some(Ts::from_micros(1_234_567));
        Some(RecordAdvance { cursor, cause, observed_max }.into())
    }

    fn advance(&mut self, store: &MemStore) -> Option<Tx> {
        let cursor = store.cursors.get(self.rng.below(3) as usize)?;
        let version = cursor.version + i64::from(self.rng.chance(150));
        let somewhere = Ts::from_secs(5 * self.rng.below(30) as i64);
        let to = if self.rng.chance(700) { cursor.target.unwrap_or(somewhere) } else { somewhere };
        Some(AdvanceCursor { cursor: cursor.id, to, version }.into())
    }

    fn sweep(&mut self) -> Tx {
        Sweep { limit: 1_000, max_attempts: 3, everyone: self.real || self.rng.chance(200) }.into()
    }

    fn key(&mut self) -> Tx {
        let prefix = format!("k{}", self.rng.below(4));
        if self.rng.chance(400) {
            return RevokeKey { prefix }.into();
        }
        let (hash, name) = (format!("hash {prefix}"), format!("name {prefix}"));
        CreateKey { prefix, hash, name, scope: Scope::Read, only_first: self.rng.chance(300) }.into()
    }

    /// As after an answer that was lost.
    fn again(&mut self) -> Option<Tx> {
        self.recent(&self.done.clone())
    }
}

fn next_batch(store: &MemStore, run: RunId) -> u32 {
    store.runs.iter().find(|row| row.id == run).map_or(1, |row| row.batches.len() as u32 + 1)
}
