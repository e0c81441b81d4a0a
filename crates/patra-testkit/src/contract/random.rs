//! The differential test: a random sequence of operations runs on the model and on a store side by side, and every
//! answer and every row in the end must be the same.

mod generate;
mod ids;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patra_core::port::Clock;
use patra_core::port::board::{About, Counts, MAX_ROWS, TopError};
use patra_core::port::pool::{PoolUrl, UrlFilter, UrlPage};
use patra_core::port::query::{BatchPage, Cell, CellKind, Evidence, Filter, Lineage, Progress, Row, View};
use patra_core::project::Sight;
use patra_core::tx::{Done, IdRange, Inventory, Tx, TxError, Wanted};
use patra_core::{Ts, Window};

use super::{Subject, Time, make};
use crate::memory::MemStore;
use generate::{Generator, Step};
use ids::Ids;

/// Operations per seed.
const STEPS: usize = 500;

/// Runs one sequence per seed, each on a fresh subject. On a store with its own clock only such operations are used
/// whose outcome does not depend on the moment, and times are not compared.
pub async fn differential(make: impl AsyncFn() -> Subject, seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        let mut twins = Twins::new(make().await);
        let mut generator = Generator::new(seed, twins.subject.is_real());
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
    /// The model's time where the store has its own clock: it only has to rise.
    steps: i64,
}

impl Twins {
    fn new(subject: Subject) -> Twins {
        Twins { model: MemStore::default(), subject, ids: Ids::default(), steps: 0 }
    }

    async fn pass(&self, span: Duration) {
        self.subject.pass(span).await;
    }

    fn now(&mut self) -> Ts {
        self.steps += 1;
        match &self.subject.time {
            Time::Manual(clock) => clock.now(),
            Time::Real => Ts::from_secs(1_767_225_600 + self.steps),
        }
    }

    async fn run(&mut self, tx: &Tx, place: &str) -> Result<Done, TxError> {
        let now = self.now();
        if matches!(tx, Tx::Abandon(_)) {
            let (model, store) = self.lists(View::Quarantine).await;
            self.ids.pair_quarantine(&model, &store);
        }
        if matches!(tx, Tx::Cancel(_) | Tx::Redrive(_) | Tx::Hold(_)) {
            // They may name what no answer has named yet.
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
        if self.subject.is_real() { without_times(expected) == without_times(got) } else { expected == got }
    }

    /// The rows of a view, of the model and of the store.
    async fn lists(&self, view: View) -> (Vec<Row>, Vec<Row>) {
        let filter = || Filter { limit: Filter::MAX_LIMIT, ..Filter::default() };
        let model = self.model.list(view, &filter()).expect("a list of the model");
        (model, self.subject.store.list(view, filter()).await.expect("a list of the store"))
    }

    async fn compare_rows(&mut self, place: &str) {
        for view in View::ALL {
            let (expected, got) = self.lists(*view).await;
            assert_eq!(expected.len(), got.len(), "{place}: rows of {}", view.as_str());
            assert!(self.ids.pair_rows(*view, &expected, &got), "{place}: ids of {}", view.as_str());
            let mut expected: Vec<_> = expected.into_iter().map(|row| self.ids.in_row(*view, row)).collect();
            let mut got = got;
            for row in expected.iter_mut().chain(&mut got) {
                self.normalise(*view, row);
            }
            if !ids::has_own_ids(*view) {
                // Such rows are known by what they say, not by a number that anyone keeps.
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
        let (now, real) = (self.now(), self.subject.is_real());
        for job in &self.model.instances {
            let expected = self.model.progress(&job.public_id, now).map(|progress| self.ids.in_progress(progress));
            let got = self.subject.store.progress(&job.public_id).await.expect("progress");
            let seen = |progress: Option<Progress>| if real { progress.map(timeless) } else { progress };
            let (expected, got) = (seen(expected), seen(got));
            assert_eq!(expected, got, "{place}: progress of {}", job.public_id);
        }
        self.compare_lineage(place).await;
        self.compare_evidence(place).await;
        self.compare_wanted(place).await;
        self.compare_pool(place).await;
        self.compare_counts(place).await;
    }

    /// What is counted as it is done is what the ledger says in the end.
    async fn compare_counts(&self, place: &str) {
        let (always, about) = (Window { from: Ts::from_secs(0), to: Ts::NEVER }, About::default());
        let counts = self.subject.store.counts(about.clone(), always).await.expect("counts");
        let by_name = |counts: Vec<(Inventory, Counts)>| counts.into_iter().collect::<BTreeMap<_, _>>();
        assert_eq!(by_name(counts), by_name(self.model.counts(&about, always)), "{place}: what was done");
        let kinds = |errors: Vec<TopError>| -> BTreeSet<_> {
            errors.into_iter().map(|error| (error.of, error.level, error.code.as_str(), error.errors)).collect()
        };
        let errors = self.subject.store.errors(about.clone(), None, always, MAX_ROWS).await.expect("errors");
        let expected = self.model.top_errors(&about, None, always, MAX_ROWS);
        assert_eq!(kinds(errors), kinds(expected), "{place}: what went wrong");
    }

    /// How much is told of each plan; which rows they are is compared above.
    async fn compare_lineage(&self, place: &str) {
        let counts = |told: &Lineage| {
            let Lineage { slices, tasks, runs, batches, batches_left_out, .. } = told;
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
            let told = |evidence: &Evidence| {
                let Evidence { batch, events, quarantine, .. } = evidence;
                (batch["stats"].clone(), batch["status_code"].clone(), events.len(), quarantine.len())
            };
            assert_eq!(told(&expected), told(&got), "{place}: batch {no} of run {}", batch.run);
            // Bodies are kept for nothing or for long, so any clock says the same of them.
            let expected = self.model.kept(Ts::from_secs(0), batch.run, no).map(|kept| kept.body);
            let got = self.subject.store.raw(run, no).await.expect("an answer").map(|kept| kept.body);
            let over = self.model.raw.get(&(batch.run, no)).is_some_and(|row| row.expires_at == row.created_at);
            assert_eq!(expected.filter(|_| !over), got, "{place}: the answer of batch {no} of run {}", batch.run);
        }
    }

    /// Which URLs there are, where each was found first, and how many.
    async fn compare_pool(&self, place: &str) {
        let told = |page: &UrlPage| {
            let url = |url: &PoolUrl| {
                let found: serde_json::Value = serde_json::from_str(&url.source_ref).unwrap_or_default();
                (url.url.clone(), url.library, patra_core::hash::canonical(&found))
            };
            let mut urls: Vec<_> = page.items.iter().map(url).collect();
            urls.sort_unstable();
            (urls, page.total)
        };
        for (sight, project) in [(Sight::Effective, "default"), (Sight::Project, "default"), (Sight::Shared, "")] {
            let ask = UrlFilter { project_key: project.into(), sight, limit: 1_000, ..UrlFilter::default() };
            let got = self.subject.store.pool_urls(ask.clone()).await.expect("URLs");
            assert_eq!(told(&self.model.pool_urls(&ask)), told(&got), "{place}: {sight:?}");
        }
    }

    async fn compare_wanted(&self, place: &str) {
        let (stream, range) = (make::stream(), IdRange { after: None, through: "z".into() });
        let mapped = Wanted::MappedOtherThan { generation: "generation 1".into() };
        for wanted in [Wanted::Signalled, mapped] {
            let got = self.subject.store.wanted(&stream, &wanted, &range, Some("key 1"), 5).await;
            let expected = self.model.wanted(&stream, &wanted, &range, Some("key 1"), 5);
            assert_eq!(Ok(expected), got, "{place}: {wanted:?}");
        }
        let keys: Vec<_> = (0..9).rev().map(|key| format!("key {key}")).collect();
        let got = self.subject.store.stored(&stream, &keys).await;
        assert_eq!(Ok(self.model.stored(&stream, &keys)), got, "{place}: what is stored");
    }

    /// Takes away what may differ: numbers of rows that nothing refers to, the spelling of JSON, and the store's times.
    fn normalise(&self, view: View, row: &mut Row) {
        for (cell, column) in row.iter_mut().zip(view.columns()) {
            let kept_as_text = matches!(column.name, "payload" | "fields");
            match cell {
                Cell::Int(_) if column.name == "id" && !ids::has_own_ids(view) => *cell = Cell::Null,
                // Each store writes whole rows in its own way, and numbers its events and failed batches, which no answer
                // names, in its own way. A batch is known by its run and its place there.
                Cell::Json(_) if (view, column.name) == (View::Archive, "body") => *cell = Cell::Null,
                Cell::Int(_) if (view, column.name) == (View::Archive, "row_id") => *cell = Cell::Null,
                Cell::Time(at) if !is_data(view, column.name) => {
                    // When a cursor row was touched last is nobody's business but its own.
                    let masked = self.subject.is_real() || (view == View::Cursors && column.name == "updated_at");
                    if masked {
                        *at = Ts::from_secs(0);
                    }
                }
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

/// Whether a time comes from the data rather than from a clock.
fn is_data(view: View, column: &str) -> bool {
    let from_data =
        ["window_from", "window_to", "done_from", "done_to", "normalized_instant", "prev_instant", "new_instant"];
    let own = [(View::Items, "updated_at"), (View::Exports, "expires_at")];
    from_data.contains(&column) || own.contains(&(view, column))
}

/// Whether something has begun or ended stays, when does not.
fn timeless(progress: Progress) -> Progress {
    const NONE: Ts = Ts::from_secs(0);
    let (started_at, finished_at) = (progress.started_at.map(|_| NONE), progress.finished_at.map(|_| NONE));
    Progress { created_at: NONE, started_at, finished_at, ..progress }
}

fn without_times(mut done: Done) -> Done {
    const NONE: Ts = Ts::from_secs(0);
    match &mut done {
        Done::FireDue(done) => (done.now, done.next_due) = (NONE, done.next_due.map(|_| NONE)),
        Done::TakeTrigger(Some(done)) => done.now = NONE,
        Done::ReadCoverage(done) => done.now = NONE,
        Done::ReadSegments(done) => done.now = NONE,
        Done::Renew(done) => done.now = NONE,
        Done::Sweep(done) => done.now = NONE,
        Done::Claim(done) => {
            done.now = NONE;
            for lease in &mut done.leases {
                (lease.until, lease.scheduled_at) = (NONE, NONE);
            }
        }
        _ => {}
    }
    done
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use patra_core::cursor::Mark;
    use patra_core::state::Direction;
    use patra_core::tx::{Captured, Redriven};

    use super::*;

    /// The kind of an answer, as far as a sequence should have met it.
    fn kind(tx: &Tx, answer: &Result<Done, TxError>) -> String {
        let what = match answer {
            Ok(Done::TakeTrigger(taken)) => match taken {
                None => "none",
                Some(taken) if taken.plan.is_some() => "open plan",
                Some(taken) if taken.place.is_some() => "half fanned out",
                Some(_) => "some",
            },
            Ok(Done::FireDue(due)) if due.fired > 0 => "fired",
            Ok(Done::Claim(claimed)) if !claimed.leases.is_empty() => "some",
            Ok(Done::CommitBatch(done)) if done.replayed => "replayed",
            Ok(Done::CommitBatch(done)) if done.captured == Captured::Failed => "not captured",
            Ok(Done::CommitBatch(done)) if done.captured != Captured::None => "captured",
            Ok(Done::SavePlan(saved)) if saved.existing > 0 => "existing",
            Ok(Done::FanOut(made)) if made.existing > 0 => "existing",
            Ok(Done::ReadParents(parents)) if !parents.is_empty() => "some",
            Ok(Done::EndRun(ended)) => ended.task_status.as_str(),
            Ok(Done::RecordAdvance(at)) => match &at.target {
                None => "none",
                Some(Mark::Nth { .. }) => "ids",
                Some(Mark::At(_)) if at.direction == Direction::Backfill => "past",
                Some(Mark::At(_)) => "ok",
            },
            Ok(Done::Renew(renewed)) if !renewed.paused.is_empty() => "paused",
            Ok(Done::Hold(done)) if done.existed => "existing",
            Ok(Done::Cancel(done)) if done.triggers + done.plans > 0 => "plan",
            Ok(Done::Cancel(done)) if done.tasks > 0 => "task",
            Ok(Done::Redrive(Redriven::ReadBack { .. })) => "read back",
            Ok(Done::Redrive(Redriven::Queued { existed: true, .. })) => "existing",
            Ok(Done::Signal(done)) if done.existing > 0 => "existing",
            Ok(Done::Abandon(done)) if done.abandoned => "abandoned",
            Ok(Done::Archive(done)) if done.raw > 0 && done.settled > 0 => "settled",
            Ok(Done::Archive(done)) if done.events > 0 => "events",
            Ok(Done::Archive(done)) if done.batches > 0 => "batches",
            Ok(Done::ReadSegments(done)) if done.more => "more",
            Ok(Done::AdvanceCursor(done)) if done.moved => "moved",
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

    /// A generator that stays on the surface would find every store equal to every other.
    fn reaches(real: bool, wanted: &[&str]) {
        let mut met = BTreeSet::new();
        for seed in 0..50 {
            let (mut model, mut generator) = (MemStore::default(), Generator::new(seed, real));
            let mut now = Ts::from_secs(1_767_225_600);
            for _ in 0..STEPS {
                now = now + Duration::from_micros(1);
                match generator.next(&model) {
                    Step::Pass(span) => now = now + span,
                    Step::Run(tx) => {
                        let answer = model.apply(now, &tx);
                        met.insert(kind(&tx, &answer));
                        generator.learn(&tx, &answer);
                    }
                }
            }
        }
        let missed: Vec<_> = wanted.iter().filter(|kind| !met.contains(**kind)).collect();
        assert!(missed.is_empty(), "never met {missed:?}; met {met:#?}");
    }

    const ALWAYS: &[&str] = &[
        "ApplyProvenance ok",
        "RemoveProvenance ok",
        "SyncDictionary ok",
        "SyncDictionary refused",
        "Fire ok",
        "TakeTrigger none",
        "TakeTrigger some",
        "TakeTrigger open plan",
        "TakeTrigger half fanned out",
        "SettleTrigger ok",
        "SettleTrigger fenced",
        "FanOut ok",
        "FanOut existing",
        "FanOut fenced",
        "FanOut refused",
        "ReadParents some",
        "ReadCoverage ok",
        "SavePlan ok",
        "SavePlan existing",
        "SavePlan fenced",
        "SavePlan conflict",
        "Claim some",
        "Renew ok",
        "Renew paused",
        "StartRun ok",
        "StartRun fenced",
        "CommitBatch ok",
        "CommitBatch replayed",
        "CommitBatch captured",
        "CommitBatch not captured",
        "CommitBatch fenced",
        "CommitBatch refused",
        "CommitBatches ok",
        "CommitBatches fenced",
        "CommitBatches refused",
        "EndRun SUCCEEDED",
        "EndRun PARTIAL",
        "EndRun FAILED",
        "EndRun QUEUED",
        "EndRun fenced",
        "RecordAdvance ok",
        "RecordAdvance past",
        "RecordAdvance ids",
        "AdvanceCursor ok",
        "AdvanceCursor moved",
        "Sweep requeued",
        "Sweep failed",
        "Hold ok",
        "Hold existing",
        "Hold refused",
        "Release ok",
        "Cancel plan",
        "Cancel task",
        "Redrive ok",
        "Redrive existing",
        "Redrive read back",
        "Redrive conflict",
        "Redrive refused",
        "Signal ok",
        "Signal existing",
        "Abandon ok",
        "Abandon abandoned",
        "Archive ok",
        "Archive batches",
        "Archive events",
        "Archive settled",
        "RecordExport ok",
        "ReadSegments ok",
        "ReadSegments more",
        "EndRun CANCELLED",
        "CreateKey ok",
        "RevokeKey ok",
    ];

    #[test]
    fn the_sequences_reach_every_kind_of_answer() {
        reaches(true, ALWAYS);
        reaches(false, ALWAYS);
        reaches(false, &["FireDue fired"]);
    }
}
