//! The differential test: a random sequence of operations runs on the model and on a store side by side, and every
//! answer and every row in the end must be the same.

mod generate;
mod ids;

use std::time::Duration;

use patra_core::Ts;
use patra_core::port::Clock;
use patra_core::port::query::{Cell, CellKind, Filter, Row, View};
use patra_core::tx::{Done, Tx, TxError};

use super::{Subject, Time, make};
use crate::memory::MemStore;
use generate::{Generator, Step};
use ids::Ids;

/// Operations per seed.
const STEPS: usize = 300;

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
        let expected = self.ids.in_done(expected);
        if self.subject.is_real() { without_times(expected) == without_times(got.clone()) } else { expected == *got }
    }

    async fn compare_rows(&mut self, place: &str) {
        for view in View::ALL {
            let filter = || Filter { limit: Filter::MAX_LIMIT, ..Filter::default() };
            let expected = self.model.list(*view, &filter()).expect("a list of the model");
            let got = self.subject.store.list(*view, filter()).await.expect("a list of the store");
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
        for job in &self.model.instances {
            let expected = self.model.progress(&job.public_id).map(|progress| self.ids.in_progress(progress));
            let got = self.subject.store.progress(&job.public_id).await.expect("progress");
            assert_eq!(expected, got, "{place}: progress of {}", job.public_id);
        }
    }

    /// Takes away what may differ: numbers of rows that nothing refers to, the spelling of JSON, and the store's times.
    fn normalise(&self, view: View, row: &mut Row) {
        for (cell, column) in row.iter_mut().zip(view.columns()) {
            let kept_as_text = matches!(column.name, "payload" | "fields");
            match cell {
                Cell::Int(_) if column.name == "id" && !ids::has_own_ids(view) => *cell = Cell::Null,
                Cell::Time(at) if !is_data(view, column.name) => {
                    // When a cursor row was touched last is nobody's business but its own.
                    let masked = self.subject.is_real() || (view == View::Cursors && column.name == "updated_at");
                    if masked {
                        *at = Ts::from_secs(0);
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
    let from_data = ["window_from", "window_to", "normalized_instant", "prev_instant", "new_instant"];
    from_data.contains(&column) || (view == View::Items && column == "updated_at")
}

fn without_times(mut done: Done) -> Done {
    const NONE: Ts = Ts::from_secs(0);
    match &mut done {
        Done::FireDue(done) => (done.now, done.next_due) = (NONE, done.next_due.map(|_| NONE)),
        Done::TakeTrigger(Some(done)) => done.now = NONE,
        Done::ReadCoverage(done) => done.now = NONE,
        Done::Renew(done) => done.now = NONE,
        Done::Sweep(done) => done.now = NONE,
        Done::Claim(done) => {
            done.now = NONE;
            for lease in &mut done.leases {
                lease.until = NONE;
            }
        }
        _ => {}
    }
    done
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            Ok(Done::SavePlan(saved)) if saved.existing > 0 => "existing",
            Ok(Done::FanOut(made)) if made.existing > 0 => "existing",
            Ok(Done::ReadParents(parents)) if !parents.is_empty() => "some",
            Ok(Done::EndRun(ended)) => ended.task_status.as_str(),
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
        "StartRun ok",
        "StartRun fenced",
        "CommitBatch ok",
        "CommitBatch replayed",
        "CommitBatch fenced",
        "CommitBatch refused",
        "EndRun SUCCEEDED",
        "EndRun PARTIAL",
        "EndRun FAILED",
        "EndRun QUEUED",
        "EndRun fenced",
        "RecordAdvance ok",
        "AdvanceCursor ok",
        "AdvanceCursor moved",
        "Sweep requeued",
        "Sweep failed",
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
