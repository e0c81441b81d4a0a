//! Many callers at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use patra_core::port::query::View;
use patra_core::state::Operation;
use patra_core::tx::{
    self, Claim, RecordAdvance, RemoveProvenance, RunEnd, SavePlan, SyncDictionary, TakeTrigger, TxError,
};

use super::{Fixture, make};

/// Runs all operations at the same time; answers in their order.
async fn at_once<O>(fx: &Fixture, operations: Vec<O>) -> Vec<Result<O::Done, TxError>>
where
    O: tx::Operation + Clone + Send + 'static,
    O::Done: Send + 'static,
{
    let spawn = |operation| {
        let fx = fx.clone();
        tokio::spawn(async move { fx.run(operation).await })
    };
    let running: Vec<_> = operations.into_iter().map(spawn).collect();
    let mut answers = Vec::with_capacity(running.len());
    for task in running {
        answers.push(task.await.expect("no panic"));
    }
    answers
}

// covers: ING-11.9-03
pub(super) async fn fifty_claims_of_ten_tasks_share_nothing(fx: Fixture) {
    fx.plan("a", &make::windows(0, 10)).await;
    let claims = (0..50).map(|at| Claim { owner: format!("worker {at}"), limit: 3, lease: make::LONG }).collect();
    let mut claimed = BTreeSet::new();
    for answer in at_once(&fx, claims).await {
        for lease in answer.expect("an answer").leases {
            assert!(claimed.insert(lease.task), "task {} was claimed twice", lease.task);
            assert_eq!(lease.fence.0, 1);
        }
    }
    // A claim that met only rows of others may come back with less than there is.
    claimed.extend(fx.claim(10).await.into_iter().map(|lease| lease.task));
    assert_eq!(claimed.len(), 10);
}

pub(super) async fn of_plans_made_at_one_epoch_exactly_one_is_saved(fx: Fixture) {
    let mut plans = Vec::new();
    for at in 0..20 {
        let taken = fx.trigger(&format!("job {at}")).await;
        plans.push(Arc::new(make::plan(&taken, 0, &make::windows(0, 3))));
    }
    let answers = at_once(&fx, plans).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    assert!(answers.iter().all(|answer| matches!(answer, Ok(_) | Err(TxError::Conflict))), "{answers:?}");
    assert_eq!((fx.rows(View::Plans).await.len(), fx.rows(View::Tasks).await.len()), (1, 3));
    assert_eq!((fx.rows(View::Cursors).await.len(), fx.coverage().await.epoch), (1, 1));
}

pub(super) async fn one_plan_saved_by_twenty_is_saved_once(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let plan: Arc<SavePlan> = Arc::new(make::plan(&taken, 0, &make::windows(0, 3)));
    let answers = at_once(&fx, vec![plan; 20]).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let lost = |answer: &Result<_, _>| matches!(answer, Err(TxError::Fenced | TxError::Conflict));
    assert!(answers.iter().all(|answer| answer.is_ok() || lost(answer)), "{answers:?}");
    assert_eq!(fx.rows(View::Tasks).await.len(), 3);
}

// covers: ING-10.6-01, ING-7.8-03
pub(super) async fn twenty_recordings_write_one_event(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(0, 2)).await.cursor;
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    let record = RecordAdvance { cursor, cause: None, observed_max: None };
    for answer in at_once(&fx, vec![record; 20]).await {
        assert_eq!(answer.expect("an answer").target, Some(patra_core::Ts::from_secs(20)));
    }
    assert_eq!(fx.rows(View::Events).await.len(), 1);
    let moves = vec![tx::AdvanceCursor { cursor, to: patra_core::Ts::from_secs(20), version: 0 }; 20];
    let moved = at_once(&fx, moves).await.into_iter().filter(|answer| answer.as_ref().is_ok_and(|done| done.moved));
    assert_eq!(moved.count(), 1);
}

pub(super) async fn one_public_id_fired_by_twenty_is_one_trigger(fx: Fixture) {
    let answers = at_once(&fx, vec![make::fire("a", Operation::Harvest); 20]).await;
    let fired: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(fired.iter().filter(|fired| !fired.existed).count(), 1);
    assert!(fired.iter().all(|one| one.instance == fired[0].instance));
    assert_eq!(fx.rows(View::Jobs).await.len(), 1);
}

pub(super) async fn a_trigger_is_taken_by_one_of_twenty(fx: Fixture) {
    fx.fire("a").await;
    fx.fire("b").await;
    let takes = (0..20).map(|at| TakeTrigger { owner: format!("planner {at}"), ..make::take(make::LONG) }).collect();
    let answers = at_once(&fx, takes).await;
    let mut taken: Vec<_> = answers.into_iter().filter_map(|answer| answer.expect("an answer")).collect();
    taken.extend(fx.take().await.map(Box::new));
    let distinct: BTreeSet<_> = taken.iter().map(|taken| taken.instance).collect();
    assert_eq!((taken.len(), distinct.len()), (2, 2));
    assert!(taken.iter().all(|taken| taken.fence.0 == 1));
}

// covers: ING-11.9-01
pub(super) async fn the_newest_of_concurrent_pages_wins(fx: Fixture) {
    fx.plan("a", &make::windows(0, 8)).await;
    let mut pages = Vec::new();
    for (at, lease) in (1..).zip(fx.claim(8).await) {
        let run = fx.start(&lease).await;
        let records = (0..20).map(|key| make::record(&format!("key {key:02}"), at)).collect();
        pages.push(Arc::new(make::page(&lease, run, 1, records, false)));
    }
    let answers = at_once(&fx, pages).await;
    let stats: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer").stats).collect();
    assert_eq!(stats.iter().map(|stats| stats.inserted).sum::<u32>(), 20);
    assert!(stats.iter().all(|stats| stats.inserted + stats.updated + stats.skipped == 20), "{stats:?}");
    let items = fx.rows(View::Items).await;
    assert_eq!(items.len(), 20);
    assert!(items.texts("fields").iter().all(|fields| fields == r#"{"at":8}"#));
}

pub(super) async fn a_provenance_that_many_write_is_that_of_one_of_them(fx: Fixture) {
    let all = [("a", None), ("b", None), ("c", None), ("d", None)];
    let manifest = |at: usize| make::provenance(&format!("h{at}"), &all[..at % all.len() + 1]);
    let remove = RemoveProvenance { provenance_code: make::PROVENANCE.into() };
    let writing = at_once(&fx, (0..20).map(manifest).collect());
    let removing = at_once(&fx, vec![remove; 20]);
    let (written, removed) = tokio::join!(writing, removing);
    assert!(written.iter().all(Result::is_ok) && removed.iter().all(Result::is_ok), "{written:?} {removed:?}");
    if let Some(stored) = fx.subject.store.registry(make::PROVENANCE).await.expect("an answer") {
        let found = (0..20).map(manifest).find(|one| one.document_hash == stored.document_hash);
        assert_eq!(stored.rows, found.expect("one of the twenty").rows);
    }
}

pub(super) async fn one_dictionary_written_by_twenty_is_written_once(fx: Fixture) {
    let sync = SyncDictionary { types: make::dictionary(1) };
    let answers = at_once(&fx, vec![sync.clone(); 20]).await;
    let changed = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|done| done.changed)).count();
    assert_eq!((changed, answers.iter().all(Result::is_ok)), (1, true), "{answers:?}");
    assert_eq!(fx.subject.store.dictionary().await, Ok(sync.types));
}
