//! Random operations: mostly sensible, sometimes stale, repeated or too late.

mod control;
mod cookie;
mod page;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::rng::Rng;
use patra_core::state::{Operation, TaskStatus, UpdateReason};
use patra_core::tx::{
    AdvanceCause, AdvanceCursor, ClaimTasks, ClaimedJob, CreateKey, Done, EndpointSchedule, FireDue, JobSettlement,
    KeyScope, Lease, LeaseRef, NewSlice, PartitionKey, PlanTarget, ReadCoverage, ReadParents, RecordAdvance,
    Recurrence, RemoveProvenance, Renew, RequestJob, RevokeKey, RunStarted, SavePlan, SettleJob, StartRun, Sweep,
    SyncDictionary, Tx, TxError,
};
use patra_core::{Fence, RunId, Ts, Window};

use crate::contract::make;
use crate::memory::{Cursor, MemStore, Task};

/// Where backfills begin.
const ORIGIN: i64 = 1_000;

#[derive(Debug)]
pub(super) enum Step {
    Run(Tx),
    /// Let time pass.
    Pass(Duration),
}

/// Remembers results, so that later operations can refer to them, in time or too late. All ids are those of the model.
#[derive(Debug)]
pub(super) struct Generator {
    rng: Rng,
    taken: Vec<ClaimedJob>,
    leases: Vec<Lease>,
    runs: Vec<(Lease, RunId)>,
    done: Vec<Tx>,
    /// Number of uses of cookies so far. The name of a use is unique.
    uses: u64,
    /// Decides on cookies alone, so that the other operations stay those of earlier versions of this test.
    cookies: Rng,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Generator {
        let (rng, cookies) = (Rng::new(seed), Rng::new(!seed));
        Generator { rng, cookies, taken: vec![], leases: vec![], runs: vec![], done: vec![], uses: 0 }
    }

    pub(super) fn learn(&mut self, tx: &Tx, answer: &Result<Done, TxError>) {
        if !matches!(tx, Tx::PickCookie(_)) {
            self.done.push(tx.clone());
        }
        match answer {
            Ok(Done::ClaimJob(Some(taken))) => self.taken.push((**taken).clone()),
            Ok(Done::ClaimTasks(claimed)) => self.leases.extend(claimed.leases.iter().cloned()),
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
        if self.cookies.chance(80) {
            return Step::Run(self.cookie());
        }
        loop {
            let tx = match self.rng.below(140) {
                0..3 => Some(self.apply()),
                3..8 => Some(self.fire()),
                8..10 => Some(FireDue { limit: 1 + self.rng.below(2) as u32 }.into()),
                10..17 => Some(make::take(self.lease()).into()),
                17..18 => self.settle(),
                18..20 => self.fan_out(store),
                20..21 => Some(self.parents()),
                21..22 => Some(ReadCoverage { cursor: self.name() }.into()),
                22..30 => self.save_plan(store),
                30..39 => Some(self.claim()),
                39..42 => Some(self.renew()),
                42..54 => self.start(store),
                54..68 => self.commit(store),
                68..83 => self.end(store),
                83..87 => self.record(store),
                87..91 => self.advance(store),
                91..93 => Some(self.sweep()),
                93..94 => Some(self.key()),
                94..97 => self.hold(store),
                97..105 => self.release(store),
                105..107 => self.cancel(store),
                107..112 => self.redrive(store),
                112..114 => Some(self.signal()),
                114..117 => self.abandon(store),
                117..120 => Some(self.archive(store)),
                120..121 => self.export(),
                121..124 => Some(self.segments(store)),
                124..132 => return Step::Pass(self.short()),
                132..136 => self.mark_missing(store),
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
        if self.rng.chance(500) { make::LONG } else { make::SHORT }
    }

    fn delay(&mut self) -> Duration {
        self.short()
    }

    fn operation(&mut self) -> Operation {
        Operation::ALL[self.rng.below(Operation::ALL.len() as u64) as usize]
    }

    fn name(&mut self) -> patra_core::cursor::CursorName {
        let operation = self.operation();
        patra_core::cursor::CursorName { project_key: self.project(), ..make::namespace(operation, "ns") }
    }

    fn project(&mut self) -> String {
        if self.rng.chance(150) { "other".into() } else { "default".into() }
    }

    fn endpoint(&mut self) -> String {
        if self.rng.chance(100) { "authors".into() } else { make::ENDPOINT.into() }
    }

    /// One of the last few, so that most are still alive and some are not.
    fn recent<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let from = all.len().saturating_sub(3);
        let at = from + self.rng.below((all.len() - from) as u64) as usize;
        all.get(at).cloned()
    }

    /// Mostly a valid one; otherwise a recent one.
    fn pick<T: Clone>(&mut self, all: &[T], good: impl Fn(&T) -> bool) -> Option<T> {
        let good: Vec<_> = all.iter().filter(|one| good(one)).collect();
        if good.is_empty() || self.rng.chance(200) {
            return self.recent(all);
        }
        Some(good[self.rng.below(good.len() as u64) as usize].clone())
    }

    fn pick_taken(&mut self, store: &MemStore) -> Option<ClaimedJob> {
        let good = |taken: &ClaimedJob| {
            let row = store.instances.iter().find(|row| row.id == taken.job);
            row.is_some_and(|row| row.fence == taken.fence && row.lease.is_some())
        };
        self.pick(&self.taken.clone(), good)
    }

    fn pick_lease(&mut self, store: &MemStore) -> Option<Lease> {
        let good = |lease: &Lease| held(store, lease).is_some_and(|task| task.status == TaskStatus::Dispatched);
        self.pick(&self.leases.clone(), good)
    }

    fn pick_run(&mut self, store: &MemStore) -> Option<(Lease, RunId)> {
        let good = |(lease, run): &(Lease, RunId)| held(store, lease).is_some_and(|task| task.runs.last() == Some(run));
        self.pick(&self.runs.clone(), good)
    }

    fn apply(&mut self) -> Tx {
        match self.rng.below(10) {
            0 => return RemoveProvenance { provenance_code: make::PROVENANCE.into() }.into(),
            1 => return SyncDictionary { types: make::dictionary(self.rng.below(4)) }.into(),
            _ => {}
        }
        let millis = 300 + 200 * self.rng.below(2);
        let every = Some(Duration::from_millis(millis));
        let all = [(make::ENDPOINT, every), ("authors", None), ("grants", None)];
        let count = 1 + self.rng.below(3) as usize;
        let mut apply = make::provenance(&format!("h{}", self.rng.below(4)), &all[..count]);
        if self.rng.chance(500) {
            let (operation, reason) = (Operation::Update, Some(self.reason()));
            let when = Recurrence::Cron(["0 3 * * *", "0 0 30 2 *"][self.rng.below(2) as usize].into());
            apply.endpoints[0].schedules.push(EndpointSchedule { operation, reason, recurrence: when });
        }
        apply.into()
    }

    fn reason(&mut self) -> UpdateReason {
        UpdateReason::ALL[self.rng.below(UpdateReason::ALL.len() as u64) as usize]
    }

    fn fire(&mut self) -> Tx {
        let operation = self.operation();
        let fire = make::fire(&format!("job-{}", self.rng.below(60)), operation);
        RequestJob {
            project_key: self.project(),
            endpoint_name: self.endpoint(),
            reason: (operation == Operation::Update).then(|| self.reason()),
            activity: self.rng.chance(300).then(|| "activity".into()),
            priority: self.rng.below(3) as i32 - 1,
            ..fire
        }
        .into()
    }

    fn fan_out(&mut self, store: &MemStore) -> Option<Tx> {
        let half_done = self.taken.iter().rev().find(|taken| taken.position.is_some() && self.rng.chance(300)).cloned();
        let taken = half_done.or_else(|| self.pick_taken(store))?;
        let users: BTreeSet<_> = (0..self.rng.below(4)).map(|_| ["a", "b", "c"][self.rng.below(3) as usize]).collect();
        let mut fan = make::fan(&taken, &users.into_iter().collect::<Vec<_>>(), self.rng.chance(300));
        fan.skipped = self.rng.below(3) as u32;
        fan.limit = 1 + self.rng.below(5) as u32;
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
            0 => JobSettlement::Nothing { remark: "nothing".into() },
            1 => JobSettlement::Refused { error: "impossible".into() },
            _ => JobSettlement::Later { delay: self.delay() },
        };
        Some(SettleJob { job: taken.job, fence: taken.fence, settlement }.into())
    }

    fn save_plan(&mut self, store: &MemStore) -> Option<Tx> {
        let taken = self.pick_taken(store)?;
        let name = make::namespace_of(&taken);
        let cursor = store.cursors.iter().find(|cursor| cursor.name == name);
        let epoch = cursor.map_or(0, |cursor| cursor.epoch) + i64::from(self.rng.chance(100));
        // Few tags, so that existing tasks are derived again; enough that gaps are filled.
        let tag = format!("tag {}", self.rng.below(8));
        let mut plan = match taken.operation {
            Operation::Update => self.id_plan(store, &taken, cursor, &tag),
            _ => self.time_plan(&taken, cursor, &tag),
        };
        plan.c_max = [1, 3, make::C_MAX][self.rng.below(8).min(2) as usize];
        let target = match &taken.plan {
            Some(open) if self.rng.chance(900) => PlanTarget::Existing(open.plan),
            _ => plan.target.clone(),
        };
        let (complete, resume_delay) = (self.rng.chance(650), self.delay());
        Some(Arc::new(SavePlan { epoch, target, complete, resume_delay, ..plan }).into())
    }

    /// A window near the cursor, so that prefixes grow; not always at it, so that there are gaps.
    fn time_plan(&mut self, taken: &ClaimedJob, cursor: Option<&Cursor>, tag: &str) -> SavePlan {
        let past = taken.operation == Operation::Backfill;
        let origin = if past { ORIGIN } else { 0 };
        let start = cursor.and_then(Cursor::start).map_or(origin, |start| start.micros() / 10_000_000 * 10);
        let off = if self.rng.chance(600) { 0 } else { 10 * self.rng.below(5) as i64 };
        let count = 1 + self.rng.below(4) as i64;
        let windows = match past {
            false => make::windows(start + off, count),
            true => make::windows(start - off - 10 * count, count).into_iter().rev().collect(),
        };
        let mut plan = make::plan(taken, 0, &windows);
        plan.origin = Some(Ts::from_secs(origin));
        plan.slices = windows.iter().flat_map(|window| self.slices(tag, *window)).collect();
        plan
    }

    /// A window as one slice, or in ranges of pages.
    fn slices(&mut self, tag: &str, window: Window) -> Vec<NewSlice> {
        match self.rng.below(5) {
            0 => (0..2).map(|at| make::pages(tag, window, at)).collect(),
            _ => vec![make::slice(tag, window)],
        }
    }

    fn id_plan(&mut self, store: &MemStore, taken: &ClaimedJob, cursor: Option<&Cursor>, tag: &str) -> SavePlan {
        let own = store.tasks.iter().filter(|task| cursor.is_some_and(|cursor| task.cursor == cursor.id));
        let ordinals = own.filter_map(|task| task.what.segment.as_ref()).map(|segment| segment.ordinal);
        let first = ordinals.max().map_or(0, |last| last + 1);
        let last_ids: Vec<_> = (0..1 + self.rng.below(3)).map(|_| format!("key {}", self.rng.below(8))).collect();
        let mut plan = make::id_plan(taken, 0, first, &[]);
        plan.slices = (first..).zip(&last_ids).map(|(ordinal, id)| make::segment(tag, ordinal, id)).collect();
        plan
    }

    fn claim(&mut self) -> Tx {
        let of = PartitionKey {
            provenance_code: make::PROVENANCE.into(),
            endpoint_name: self.endpoint(),
            operation: self.operation(),
        };
        let only = self.rng.chance(200).then(|| of.clone());
        let caps = if self.rng.chance(300) { vec![(of, self.rng.below(3) as u32)] } else { Vec::new() };
        let claim = make::claim(1 + self.rng.below(3) as u32, self.lease());
        ClaimTasks { caps, reverse_priority: self.rng.chance(200), only, ..claim }.into()
    }

    fn renew(&mut self) -> Tx {
        let from = self.leases.len().saturating_sub(5);
        let leases = self.leases[from..].iter().map(LeaseRef::from).collect();
        let owner = if self.rng.chance(100) { "thief" } else { "worker" };
        Renew { owner: owner.into(), leases, lease: self.lease() }.into()
    }

    fn start(&mut self, store: &MemStore) -> Option<Tx> {
        let lease = self.pick_lease(store)?;
        let mut lease = LeaseRef::from(&lease);
        if self.rng.chance(50) {
            lease.fence = Fence(lease.fence.0 + 1);
        }
        Some(StartRun { lease }.into())
    }

    fn record(&mut self, store: &MemStore) -> Option<Tx> {
        let cursor = store.cursors.get(self.rng.below(5) as usize)?.id;
        let cause = self.recent(&self.runs.clone()).map(|(lease, run)| AdvanceCause {
            task: lease.task,
            run,
            batch_no: 1,
            late: 2,
        });
        let observed_max = self.rng.chance(500).then_some(Ts::from_micros(1_234_567));
        Some(RecordAdvance { cursor, cause, observed_max }.into())
    }

    fn advance(&mut self, store: &MemStore) -> Option<Tx> {
        let cursor = store.cursors.get(self.rng.below(5) as usize)?;
        let version = cursor.version + i64::from(self.rng.chance(150));
        let off = 5 * self.rng.below(30) as i64;
        let somewhere = match cursor.name.operation {
            Operation::Harvest => make::at(off),
            Operation::Backfill => make::at(ORIGIN - off),
            Operation::Update => CursorValue::Nth { ordinal: off / 10, last: "somewhere".into() },
        };
        let to = if self.rng.chance(700) { cursor.target.clone().unwrap_or(somewhere) } else { somewhere };
        Some(AdvanceCursor { cursor: cursor.id, to, version }.into())
    }

    fn sweep(&mut self) -> Tx {
        Sweep { limit: 1_000, max_attempts: 1, all_owners: self.rng.chance(200), longest_lease: make::LONG }.into()
    }

    fn key(&mut self) -> Tx {
        let prefix = format!("k{}", self.rng.below(4));
        if self.rng.chance(400) {
            return RevokeKey { prefix }.into();
        }
        let (hash, name) = (format!("hash {prefix}"), format!("name {prefix}"));
        let (projects, shared) = (vec!["one".to_owned()], self.rng.chance(500));
        CreateKey { prefix, hash, name, scope: KeyScope::Read, projects, shared, only_first: self.rng.chance(300) }
            .into()
    }

    /// Repeats an operation, as after a lost result.
    fn again(&mut self) -> Option<Tx> {
        self.recent(&self.done.clone())
    }
}

/// The task of a valid lease.
fn held<'a>(store: &'a MemStore, lease: &Lease) -> Option<&'a Task> {
    store.tasks.iter().find(|task| task.id == lease.task && task.fence == lease.fence && task.lease.is_some())
}

fn next_batch(store: &MemStore, run: RunId) -> u32 {
    store.runs.iter().find(|row| row.id == run).map_or(1, |row| row.batches.len() as u32 + 1)
}
