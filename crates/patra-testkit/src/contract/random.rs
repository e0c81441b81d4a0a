//! The differential test: a random sequence of operations runs on the model and on a store, and every
//! result and every final row must be the same.

mod generate;
mod ids;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::port::board::{MAX_ROWS, TopError, WorkCounts, WorkFilter};
use patra_core::port::pool::{PoolUrl, UrlFilter, UrlPage};
use patra_core::port::query::{BatchEvidence, BatchPage, Cell, CellKind, PlanLineage, View, ViewFilter, ViewRow};
use patra_core::project::LibraryScope;
use patra_core::state::{CookieStatus, Direction};
use patra_core::tx::{Captured, CookiePicked, Done, IdRange, PartitionKey, Redriven, RefreshCriteria, Tx, TxError};
use patra_core::{Ts, Window};

use super::{Subject, make};
use crate::memory::MemStore;
use generate::{Generator, Step};
use ids::Ids;

/// Operations per seed.
const STEPS: usize = 500;

/// The seeds to run: as many as the variable says, or this many. `PATRA_TEST_FIRST_SEED` is the first, so that a long run
/// can go on where another has ended.
pub fn seeds(variable: &str, usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("PATRA_TEST_FIRST_SEED").unwrap_or(0);
    first..first + number(variable).unwrap_or(usual)
}

/// Runs one sequence per seed, each on a fresh subject.
pub async fn differential(make: impl AsyncFn() -> Subject, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let mut twins = Twins::new(make().await);
        let mut generator = Generator::new(seed);
        for step in 0..STEPS {
            match generator.next(&twins.model) {
                Step::Pass(span) => twins.pass(span).await,
                Step::Run(tx) => {
                    let answer = twins.run(&tx, &format!("seed {seed}, step {step}")).await;
                    generator.learn(&tx, &answer);
                }
            }
        }
        twins.compare_rows(&format!("seed {seed}")).await;
    }
}

/// The model and the store under test.
struct Twins {
    model: MemStore,
    subject: Subject,
    ids: Ids,
}

impl Twins {
    fn new(subject: Subject) -> Twins {
        Twins { model: MemStore::default(), subject, ids: Ids::default() }
    }

    async fn pass(&self, span: Duration) {
        self.subject.time.pass(span).await;
    }

    fn now(&self) -> Ts {
        self.subject.time.now()
    }

    async fn run(&mut self, tx: &Tx, place: &str) -> Result<Done, TxError> {
        let now = self.now();
        if matches!(tx, Tx::AbandonRecord(_)) {
            let (model, store) = self.lists(View::Quarantine).await;
            self.ids.pair_quarantine(&model, &store);
        }
        if matches!(tx, Tx::CancelWork(_) | Tx::RedriveWork(_) | Tx::PauseWork(_)) {
            // They may name rows that no result has named yet.
            for view in [View::Plans, View::Slices, View::Tasks] {
                let (model, store) = self.lists(view).await;
                self.ids.pair_rows(view, &model, &store);
            }
        }
        let expected = self.model.apply(now, tx);
        let theirs = self.ids.in_tx(tx);
        let mut got = self.subject.store.execute(theirs.clone()).await;
        while got == Err(TxError::Busy) {
            tokio::time::sleep(Duration::from_millis(5)).await;
            got = self.subject.store.execute(theirs.clone()).await;
        }
        let same = match (&expected, &got) {
            (Ok(expected), Ok(got)) => self.same_answer(expected, got),
            (Err(TxError::Refused(_)), Err(TxError::Refused(_))) => true,
            (Err(expected), Err(got)) => expected == got,
            _ => false,
        };
        assert!(same, "{place}: {tx:?}\n  the model answers {expected:?}\n  the store answers {got:?}");
        expected
    }

    fn same_answer(&mut self, expected: &Done, got: &Done) -> bool {
        if !self.ids.pair(expected, got) {
            return false;
        }
        let (mut expected, mut got) = (self.ids.in_done(expected), got.clone());
        if let (Done::RecordExport(expected), Done::RecordExport(got)) = (&mut expected, &mut got) {
            // Nothing refers to an export.
            expected.export = got.export;
        }
        expected == got
    }

    /// The rows of a view, of the model and of the store.
    async fn lists(&self, view: View) -> (Vec<ViewRow>, Vec<ViewRow>) {
        let filter = || ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
        let model = self.model.list(view, &filter()).expect("a list of the model");
        (model, self.subject.store.list(view, filter()).await.expect("a list of the store"))
    }

    async fn compare_rows(&mut self, place: &str) {
        // A job of a schedule has the schedule's number in its public id, and each store counts schedules in its own
        // way.
        let mut public_ids = BTreeMap::new();
        for view in View::ALL {
            let (expected, got) = self.lists(*view).await;
            assert_eq!(expected.len(), got.len(), "{place}: rows of {}", view.as_str());
            assert!(self.ids.pair_rows(*view, &expected, &got), "{place}: ids of {}", view.as_str());
            let mut expected: Vec<_> = expected.into_iter().map(|row| self.ids.in_row(*view, row)).collect();
            let mut got = got;
            if *view == View::Jobs {
                let id = |row: &ViewRow| public_id(row).to_owned();
                public_ids = expected.iter().map(id).zip(got.iter().map(id)).collect();
            }
            for row in expected.iter_mut().chain(&mut got) {
                self.normalise(*view, row);
            }
            if !ids::has_own_ids(*view) {
                // Such rows are compared by content, because nobody stores their number.
                expected.sort_by_cached_key(|row| format!("{row:?}"));
                got.sort_by_cached_key(|row| format!("{row:?}"));
            }
            for (expected, got) in expected.iter().zip(&got) {
                assert_eq!(expected, got, "{place}: {} (left the model, right the store)", view.as_str());
            }
        }
        let store = &self.subject.store;
        assert_eq!(store.registry(make::PROVENANCE).await, Ok(self.model.registry(make::PROVENANCE)), "{place}");
        assert_eq!(store.dictionary().await.as_ref(), Ok(&self.model.dictionary), "{place}: the dictionary");
        let now = self.now();
        for job in &self.model.instances {
            let expected = self.model.progress(&job.public_id, now).map(|progress| self.ids.in_progress(progress));
            let public_id = public_ids.get(&job.public_id).unwrap_or(&job.public_id);
            let got = self.subject.store.progress(public_id).await.expect("progress");
            assert_eq!(expected, got, "{place}: progress of {}", job.public_id);
        }
        self.compare_lineage(place).await;
        self.compare_evidence(place).await;
        self.compare_wanted(place).await;
        self.compare_pool(place).await;
        self.compare_counts(place).await;
    }

    /// Compares the incremental counts with those of the ledger.
    async fn compare_counts(&self, place: &str) {
        let (always, about) = (Window { from: Ts::from_secs(0), to: Ts::NEVER }, WorkFilter::default());
        let counts = self.subject.store.counts(about.clone(), always).await.expect("counts");
        let by_name = |counts: Vec<(PartitionKey, WorkCounts)>| counts.into_iter().collect::<BTreeMap<_, _>>();
        assert_eq!(by_name(counts), by_name(self.model.counts(&about, always)), "{place}: what was done");
        let kinds = |errors: Vec<TopError>| -> BTreeSet<_> {
            errors.into_iter().map(|error| (error.partition, error.level, error.code.as_str(), error.errors)).collect()
        };
        let errors = self.subject.store.errors(about.clone(), None, always, MAX_ROWS).await.expect("errors");
        let expected = self.model.top_errors(&about, None, always, MAX_ROWS);
        assert_eq!(kinds(errors), kinds(expected), "{place}: what went wrong");
    }

    /// Compares the number of rows in the lineage of each plan; `compare` checks the rows themselves.
    async fn compare_lineage(&self, place: &str) {
        let counts = |lineage: &PlanLineage| {
            let PlanLineage { slices, tasks, runs, batches, batches_left_out, .. } = lineage;
            (slices.len(), tasks.len(), runs.len(), batches.len(), *batches_left_out)
        };
        for plan in &self.model.plans {
            let expected = self.model.lineage(plan.id, BatchPage::default()).expect("a plan of the model");
            let got = self
                .subject
                .store
                .lineage(self.ids.plan(plan.id), BatchPage::default())
                .await
                .expect("an answer")
                .expect("a plan");
            assert_eq!(counts(&expected), counts(&got), "{place}: what came of plan {}", plan.id);
        }
    }

    async fn compare_evidence(&self, place: &str) {
        for batch in &self.model.batches {
            let (run, no) = (self.ids.run(batch.run), batch.batch_no);
            let expected = self.model.evidence(batch.run, no).expect("a batch of the model");
            let got = self.subject.store.evidence(run, no).await.expect("an answer").expect("a batch");
            let summary = |evidence: &BatchEvidence| {
                let BatchEvidence { batch, events, quarantine, .. } = evidence;
                (batch["stats"].clone(), batch["status_code"].clone(), events.len(), quarantine.len())
            };
            assert_eq!(summary(&expected), summary(&got), "{place}: batch {no} of run {}", batch.run);
            // Bodies expire at once or much later, so any clock gives the same result.
            let expected = self.model.kept(Ts::from_secs(0), batch.run, no).map(|kept| kept.body);
            let got = self.subject.store.raw(run, no).await.expect("an answer").map(|kept| kept.body);
            let over = self.model.raw.get(&(batch.run, no)).is_some_and(|row| row.expires_at == row.created_at);
            assert_eq!(expected.filter(|_| !over), got, "{place}: the response of batch {no} of run {}", batch.run);
        }
    }

    /// Compares the URLs, their first sightings, and their number.
    async fn compare_pool(&self, place: &str) {
        let contents = |page: &UrlPage| {
            let url = |url: &PoolUrl| {
                let found: serde_json::Value = serde_json::from_str(&url.source_ref).unwrap_or_default();
                (url.url.clone(), url.library, patra_core::hash::canonical(&found))
            };
            let mut urls: Vec<_> = page.items.iter().map(url).collect();
            urls.sort_unstable();
            (urls, page.total)
        };
        for (sight, project) in
            [(LibraryScope::Effective, "default"), (LibraryScope::Project, "default"), (LibraryScope::Shared, "")]
        {
            let ask = UrlFilter { project_key: project.into(), scope: sight, limit: 1_000, ..UrlFilter::default() };
            let got = self.subject.store.pool_urls(ask.clone()).await.expect("URLs");
            assert_eq!(contents(&self.model.pool_urls(&ask)), contents(&got), "{place}: {sight:?}");
        }
    }

    async fn compare_wanted(&self, place: &str) {
        let (stream, range) = (make::stream(), IdRange { after: None, through: "z".into() });
        let mapped = RefreshCriteria::MappedOtherThan { generation: "generation 1".into() };
        for wanted in [RefreshCriteria::Signalled, mapped] {
            let got = self.subject.store.ids_to_refresh(&stream, &wanted, &range, Some("key 1"), 5).await;
            let expected = self.model.wanted(&stream, &wanted, &range, Some("key 1"), 5);
            assert_eq!(Ok(expected), got, "{place}: {wanted:?}");
        }
        let keys: Vec<_> = (0..9).rev().map(|key| format!("key {key}")).collect();
        let got = self.subject.store.stored(&stream, &keys).await;
        assert_eq!(Ok(self.model.stored(&stream, &keys)), got, "{place}: what is stored");
    }

    /// Removes legitimate differences: ids of rows that nothing refers to, and the format of JSON.
    fn normalise(&self, view: View, row: &mut ViewRow) {
        for (cell, column) in row.iter_mut().zip(view.columns()) {
            let kept_as_text = matches!(column.name, "payload" | "fields");
            match cell {
                Cell::Int(_) if column.name == "id" && !ids::has_own_ids(view) => *cell = Cell::Null,
                // Each store formats whole rows, and numbers its events and failed batches, which no result
                // names, in its own way. A batch is identified by its run and its number there.
                Cell::Json(_) if (view, column.name) == (View::Archive, "body") => *cell = Cell::Null,
                Cell::Int(_) if (view, column.name) == (View::Archive, "row_id") => *cell = Cell::Null,
                Cell::Text(id) if (view, column.name) == (View::Jobs, "public_id") && id.starts_with("schedule-") => {
                    *id = format!("schedule-{}", id.rsplit('-').next().unwrap_or_default());
                }
                // The time of a cursor's last update may differ.
                Cell::Time(at) if (view, column.name) == (View::Cursors, "updated_at") => *at = Ts::from_secs(0),
                // An event names tasks and runs by the numbers that its store gave them.
                Cell::Json(text) if (view, column.name) == (View::Outbox, "payload") => {
                    if let Ok(serde_json::Value::Object(mut event)) = serde_json::from_str(text) {
                        event.retain(|name, _| !matches!(name.as_str(), "task_id" | "run_id"));
                        *text = patra_core::hash::canonical(&event.into());
                    }
                }
                Cell::Json(text) if column.kind == CellKind::Json && !kept_as_text => {
                    if let Ok(value) = serde_json::from_str(text) {
                        *text = patra_core::hash::canonical(&value);
                    }
                }
                _ => {}
            }
        }
    }
}

/// The public id in a row of [`View::Jobs`].
fn public_id(row: &ViewRow) -> &str {
    let at = View::Jobs.columns().iter().position(|column| column.name == "public_id");
    match at.and_then(|at| row.get(at)) {
        Some(Cell::Text(id)) => id,
        _ => "",
    }
}

/// Kinds of results that these seeds produce on the reference model.
pub fn result_kinds(seeds: impl IntoIterator<Item = u64>) -> BTreeSet<String> {
    let mut met = BTreeSet::new();
    for seed in seeds {
        let (mut model, mut generator) = (MemStore::default(), Generator::new(seed));
        let mut now = Ts::from_secs(1_767_225_600);
        for _ in 0..STEPS {
            now = now + Duration::from_micros(1);
            match generator.next(&model) {
                Step::Pass(span) => now = now + span,
                Step::Run(tx) => {
                    let result = model.apply(now, &tx);
                    met.insert(kind(&tx, &result));
                    generator.learn(&tx, &result);
                }
            }
        }
    }
    met
}

/// The transaction and the kind of its result.
fn kind(tx: &Tx, result: &Result<Done, TxError>) -> String {
    let what = match result {
        Ok(Done::ClaimJob(taken)) => match taken {
            None => "none",
            Some(taken) if taken.plan.is_some() => "open plan",
            Some(taken) if taken.position.is_some() => "half fanned out",
            Some(_) => "some",
        },
        Ok(Done::FireDue(due)) if due.fired > 0 => "fired",
        Ok(Done::ClaimTasks(claimed)) if !claimed.leases.is_empty() => "some",
        Ok(Done::CommitBatch(done)) if done.replayed => "replayed",
        Ok(Done::CommitBatch(done)) if done.captured == Captured::Failed => "not captured",
        Ok(Done::CommitBatch(done)) if done.captured != Captured::None => "captured",
        Ok(Done::SavePlan(saved)) if saved.existing > 0 => "existing",
        Ok(Done::FanOut(made)) if made.existing > 0 => "existing",
        Ok(Done::ReadParents(parents)) if !parents.is_empty() => "some",
        Ok(Done::EndRun(ended)) => ended.task_status.as_str(),
        Ok(Done::RecordAdvance(at)) => match &at.target {
            None => "none",
            Some(CursorValue::Nth { .. }) => "ids",
            Some(CursorValue::At(_)) if at.direction == Direction::Backfill => "past",
            Some(CursorValue::At(_)) => "ok",
        },
        Ok(Done::Renew(renewed)) if !renewed.paused.is_empty() => "paused",
        Ok(Done::PauseWork(done)) if done.existed => "existing",
        Ok(Done::CancelWork(done)) if done.jobs + done.plans > 0 => "plan",
        Ok(Done::CancelWork(done)) if done.tasks > 0 => "task",
        Ok(Done::RedriveWork(Redriven::ReadBack { .. })) => "read back",
        Ok(Done::RedriveWork(Redriven::Queued { existed: true, .. })) => "existing",
        Ok(Done::SignalRecords(done)) if done.existing > 0 => "existing",
        Ok(Done::AbandonRecord(done)) if done.abandoned => "abandoned",
        Ok(Done::ArchiveLedger(done)) if done.raw > 0 && done.settled > 0 => "settled",
        Ok(Done::ArchiveLedger(done)) if done.events > 0 => "events",
        Ok(Done::ArchiveLedger(done)) if done.batches > 0 => "batches",
        Ok(Done::ReadSegments(done)) if done.more => "more",
        Ok(Done::AdvanceCursor(done)) if done.moved => "moved",
        Ok(Done::PickCookie(picked)) => match picked {
            CookiePicked::Picked { leased: true, .. } => "leased",
            CookiePicked::Picked { .. } => "picked",
            CookiePicked::Unknown => "unknown",
            CookiePicked::Unusable { .. } => "unusable",
            CookiePicked::Exhausted { .. } => "exhausted",
        },
        Ok(Done::RecordCookieOutcome(done)) if done.after == Some(CookieStatus::Cooling) => "cooling",
        Ok(Done::ReleaseCookie(done)) if done.released => "released",
        Ok(Done::Sweep(swept)) if !swept.failed.is_empty() => "failed",
        Ok(Done::Sweep(swept)) if !swept.requeued.is_empty() => "requeued",
        Ok(_) => "ok",
        Err(TxError::Fenced) => "fenced",
        Err(TxError::Conflict) => "conflict",
        Err(TxError::Refused(_)) => "refused",
        Err(_) => "other",
    };
    format!("{} {what}", tx.name())
}
