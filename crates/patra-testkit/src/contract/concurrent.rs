//! Concurrent callers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::Fence;
use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{
    self, ArchiveLedger, CancelSubject, CancelWork, ClaimJob, ClaimTasks, Lease, LeaseRef, PauseSubject, RecordAdvance,
    RedriveTarget, RedriveWork, Redriven, RemoveProvenance, RunEnd, RunStarted, SavePlan, SignalRecords, StartRun,
    SyncDictionary, TxError, WorkCancelled,
};

use super::fixture::{int, text};
use super::{Fixture, make};

/// Runs all operations at the same time; returns results in their order.
pub(super) async fn at_once<O>(fx: &Fixture, operations: Vec<O>) -> Vec<Result<O::Done, TxError>>
where
    O: tx::TxOperation + Clone + Send + 'static,
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

// covers: ING-11.9-03, ING-13.3-05
pub(super) async fn fifty_concurrent_claims_of_ten_tasks_share_none(fx: Fixture) {
    fx.plan("a", &make::windows(0, 10)).await;
    let claims = (0..50).map(|at| ClaimTasks { owner: format!("worker {at}"), ..make::claim(3, make::LONG) }).collect();
    let mut claimed = BTreeSet::new();
    for answer in at_once(&fx, claims).await {
        for lease in answer.expect("an answer").leases {
            assert!(claimed.insert(lease.task), "task {} was claimed twice", lease.task);
            assert_eq!(lease.fence.0, 1);
        }
    }
    // A claim that met only rows leased by others may return fewer than there are.
    claimed.extend(fx.claim(10).await.into_iter().map(|lease| lease.task));
    assert_eq!(claimed.len(), 10);
}

// covers: ING-5.6-03, ING-9.7-02, ING-2.7-03
pub(super) async fn concurrent_claims_keep_to_the_limit_of_a_partition(fx: Fixture) {
    let fire = make::fire("a", Operation::Harvest);
    fx.plan_with(fire, &make::windows(0, 30), |plan| plan.c_max = 4).await;
    for round in 0..3 {
        let claims =
            (0..20).map(|at| ClaimTasks { owner: format!("worker {at}"), ..make::claim(3, make::LONG) }).collect();
        let mut leases = Vec::new();
        for answer in at_once(&fx, claims).await {
            leases.extend(answer.expect("an answer").leases);
        }
        leases.extend(fx.claim(9).await);
        assert_eq!(leases.len(), 4, "round {round}: no more, and after all no less");
        for lease in &leases {
            fx.finish(lease, RunEnd::Succeeded).await;
        }
    }
}

pub(super) async fn concurrent_plans_of_one_epoch_save_one(fx: Fixture) {
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

pub(super) async fn plan_saved_twenty_times_concurrently_is_saved_once(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let plan: Arc<SavePlan> = Arc::new(make::plan(&taken, 0, &make::windows(0, 3)));
    let answers = at_once(&fx, vec![plan; 20]).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let lost = |answer: &Result<_, _>| matches!(answer, Err(TxError::Fenced | TxError::Conflict));
    assert!(answers.iter().all(|answer| answer.is_ok() || lost(answer)), "{answers:?}");
    assert_eq!(fx.rows(View::Tasks).await.len(), 3);
}

// covers: ING-10.6-01, ING-10.6-02, ING-7.8-03
pub(super) async fn twenty_recordings_write_one_event(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(0, 2)).await.cursor;
    for lease in fx.claim(2).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    let record = RecordAdvance { cursor, cause: None, observed_max: None };
    for answer in at_once(&fx, vec![record; 20]).await {
        assert_eq!(answer.expect("an answer").target, Some(make::at(20)));
    }
    assert_eq!(fx.rows(View::Events).await.len(), 1);
    let moves = vec![tx::AdvanceCursor { cursor, to: make::at(20), version: 0 }; 20];
    let moved = at_once(&fx, moves).await.into_iter().filter(|answer| answer.as_ref().is_ok_and(|done| done.moved));
    assert_eq!(moved.count(), 1);
}

pub(super) async fn public_id_fired_twenty_times_concurrently_makes_one_trigger(fx: Fixture) {
    let answers = at_once(&fx, vec![make::fire("a", Operation::Harvest); 20]).await;
    let fired: Vec<_> = answers.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(fired.iter().filter(|fired| !fired.existed).count(), 1);
    assert!(fired.iter().all(|one| one.job == fired[0].job));
    assert_eq!(fx.rows(View::Jobs).await.len(), 1);
}

pub(super) async fn trigger_is_claimed_by_one_of_twenty(fx: Fixture) {
    fx.fire("a").await;
    fx.fire("b").await;
    let takes = (0..20).map(|at| ClaimJob { owner: format!("planner {at}"), ..make::take(make::LONG) }).collect();
    let answers = at_once(&fx, takes).await;
    let mut taken: Vec<_> = answers.into_iter().filter_map(|answer| answer.expect("an answer")).collect();
    taken.extend(fx.take().await.map(Box::new));
    let distinct: BTreeSet<_> = taken.iter().map(|taken| taken.job).collect();
    assert_eq!((taken.len(), distinct.len()), (2, 2));
    assert!(taken.iter().all(|taken| taken.fence.0 == 1));
}

// covers: ING-11.9-01
pub(super) async fn newest_of_concurrent_pages_wins(fx: Fixture) {
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

pub(super) async fn provenance_written_concurrently_is_that_of_one_writer(fx: Fixture) {
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

pub(super) async fn dictionary_written_twenty_times_concurrently_is_written_once(fx: Fixture) {
    let sync = SyncDictionary { types: make::dictionary(1) };
    let answers = at_once(&fx, vec![sync.clone(); 20]).await;
    let changed = answers.iter().filter(|answer| answer.as_ref().is_ok_and(|done| done.changed)).count();
    assert_eq!((changed, answers.iter().all(Result::is_ok)), (1, true), "{answers:?}");
    assert_eq!(fx.subject.store.dictionary().await, Ok(sync.types));
}

async fn failed(fx: &Fixture) -> Lease {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Failed { error: make::fault("gone") }).await;
    lease
}

fn again(request: &str, lease: &Lease) -> RedriveWork {
    RedriveWork { request: request.into(), target: RedriveTarget::Task(lease.task), by: "somebody".into() }
}

pub(super) async fn redrive_requested_twenty_times_makes_one_task(fx: Fixture) {
    let lease = failed(&fx).await;
    let answers = at_once(&fx, vec![again("r", &lease); 20]).await;
    let mut made = BTreeSet::new();
    let mut new = 0;
    for answer in answers {
        let Ok(Redriven::Queued { task, existed }) = answer else { panic!("{answer:?}") };
        made.insert(task);
        new += usize::from(!existed);
    }
    assert_eq!((made.len(), new, fx.rows(View::Tasks).await.len()), (1, 1, 2));
}

// covers: ING-8.3-02
pub(super) async fn concurrent_redrives_of_a_task_accept_one(fx: Fixture) {
    let lease = failed(&fx).await;
    let answers = at_once(&fx, (0..20).map(|at| again(&format!("request {at}"), &lease)).collect()).await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 1, "{answers:?}");
    let late = |answer: &Result<_, _>| matches!(answer, Err(TxError::Refused(_)));
    assert!(answers.iter().all(|answer| answer.is_ok() || late(answer)), "{answers:?}");
    assert_eq!(fx.claim(9).await.len(), 1, "a slice has one running task");
}

pub(super) async fn pause_or_signal_made_by_twenty_exists_once(fx: Fixture) {
    let holds = at_once(&fx, vec![make::hold(PauseKind::Pause, PauseSubject::source("p")); 20]).await;
    let holds: Vec<_> = holds.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(holds.iter().filter(|hold| !hold.existed).count(), 1);
    assert!(holds.iter().all(|hold| hold.pause == holds[0].pause));
    assert_eq!(fx.rows(View::Holds).await.len(), 1);

    let signal = SignalRecords {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        keys: (0..5).map(|key| format!("key {key}")).collect(),
        reason: "wrong".into(),
        by: "reader".into(),
    };
    let signals = at_once(&fx, vec![signal; 20]).await;
    let signals: Vec<_> = signals.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(signals.iter().map(|done| done.added).sum::<u32>(), 5);
    assert!(signals.iter().all(|done| done.added + done.existing == 5), "{signals:?}");
    assert_eq!(fx.rows(View::Signals).await.len(), 5);
}

pub(super) async fn plan_cancelled_by_twenty_is_cancelled_once(fx: Fixture) {
    let plan = fx.plan("a", &make::windows(0, 5)).await.plan;
    fx.start(&fx.next().await).await;
    let cancel = CancelWork { target: CancelSubject::Plan(plan), reason: "wrong".into(), by: "somebody".into() };
    let mut sum = WorkCancelled { found: true, ..WorkCancelled::default() };
    for answer in at_once(&fx, vec![cancel; 20]).await {
        let done = answer.expect("an answer");
        sum.jobs += done.jobs;
        sum.plans += done.plans;
        sum.slices += done.slices;
        sum.tasks += done.tasks;
    }
    assert_eq!(sum, WorkCancelled { found: true, jobs: 0, plans: 1, slices: 5, tasks: 5 });
    assert!(fx.claim(9).await.is_empty());
}

/// Whichever is first, a page is stored as a whole or not at all, and the task ends.
pub(super) async fn page_commit_and_cancellation_of_its_task_are_atomic(fx: Fixture) {
    fx.plan("a", &make::windows(0, 10)).await;
    let (mut pages, mut cancels) = (Vec::new(), Vec::new());
    for lease in fx.claim(10).await {
        let run = fx.start(&lease).await;
        let records = (0..20).map(|key| make::record(&format!("{} {key:02}", lease.task), 1)).collect();
        pages.push(Arc::new(make::page(&lease, run, 1, records, true)));
        cancels.push(CancelWork {
            target: CancelSubject::Task(lease.task),
            reason: "wrong".into(),
            by: "somebody".into(),
        });
    }
    let (pages, cancels) = tokio::join!(at_once(&fx, pages), at_once(&fx, cancels));
    assert!(cancels.iter().all(|answer| answer.as_ref().is_ok_and(|done| done.tasks == 1)), "{cancels:?}");
    let stored = pages.iter().filter(|answer| answer.is_ok()).count();
    assert!(pages.iter().all(|answer| matches!(answer, Ok(_) | Err(TxError::Fenced))), "{pages:?}");
    assert_eq!((fx.rows(View::Batches).await.len(), fx.rows(View::Items).await.len()), (stored, 20 * stored));
    assert_eq!(fx.rows(View::Tasks).await.texts("status_code"), vec!["CANCELLED".to_owned(); 10]);
    assert_eq!(fx.rows(View::Runs).await.texts("status_code"), vec!["CANCELLED".to_owned(); 10]);
}

pub(super) async fn rows_archived_by_twenty_are_archived_once(fx: Fixture) {
    fx.plan("a", &make::windows(0, 12)).await;
    for lease in fx.claim(12).await {
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, vec![], false).await;
        fx.end(&lease, run, RunEnd::Succeeded).await;
    }
    fx.pass(Duration::from_millis(5)).await;
    let archive = ArchiveLedger { before: fx.now().await, limit: 5 };
    let mut moved = 0;
    for answer in at_once(&fx, vec![archive; 20]).await {
        moved += answer.expect("an answer").batches;
    }
    // A claim that met only rows leased by others may return fewer than there are.
    for _ in 0..3 {
        moved += fx.ok(archive).await.batches;
    }
    assert_eq!(moved, 12);
    assert!(fx.rows(View::Batches).await.is_empty());
    assert_eq!(fx.rows(View::Archive).await.len(), 12);
}

/// An outdated lease of the same task.
fn stale(lease: &Lease) -> Lease {
    Lease { fence: Fence(lease.fence.0 + 1), ..lease.clone() }
}

pub(super) async fn concurrent_starts_get_their_own_results(fx: Fixture) {
    fx.plan("a", &make::windows(0, 12)).await;
    let mut leases = fx.claim(12).await;
    // One resumes where its first run stopped, one has been opened before, one has ended.
    let run = fx.start(&leases[0]).await;
    fx.commit(&leases[0], run, 1, vec![make::record("first", 1)], true).await;
    let later = RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: false };
    fx.end(&leases[0], run, later).await;
    fx.pass(Duration::from_millis(2)).await;
    let gone = std::mem::replace(&mut leases[0], fx.next().await);
    let opened = fx.start(&leases[1]).await;
    fx.finish(&leases[2], RunEnd::Succeeded).await;
    leases[3] = stale(&leases[3]);

    // The first lease, and the one that replaced it.
    let starts = leases.iter().chain([&gone]).map(|lease| StartRun { lease: LeaseRef::from(lease) }).collect();
    let mut runs = BTreeSet::new();
    for (at, answer) in at_once(&fx, starts).await.into_iter().enumerate() {
        match (at, answer) {
            (2 | 3 | 12, answer) => assert_eq!(answer, Err(TxError::Fenced), "task {at}"),
            (_, Ok(RunStarted::Go { run, resume, attempt_no, .. })) => {
                assert!(runs.insert(run), "run {run} was opened for two tasks");
                assert_eq!(attempt_no, leases[at].fence.0);
                assert_eq!(resume.map(|resume| resume.batch_no), (at == 0).then_some(1), "task {at}");
                assert!(at != 1 || run == opened);
                let task = int(&fx.cell(View::Runs, run.0, "task_id").await);
                assert_eq!(task, leases[at].task.0);
            }
            (_, answer) => panic!("task {at}: {answer:?}"),
        }
    }
    assert_eq!(runs.len(), 10);
    assert_eq!(fx.rows(View::Runs).await.len(), 12);
    let statuses = fx.rows(View::Tasks).await.texts("status_code");
    let executing = statuses.iter().filter(|status| *status == "EXECUTING").count();
    assert_eq!(executing, 10, "{statuses:?}");
}

pub(super) async fn concurrent_pages_get_their_own_results(fx: Fixture) {
    fx.plan("a", &make::windows(0, 8)).await;
    let (leases, mut runs) = (fx.claim(8).await, Vec::new());
    for lease in &leases {
        runs.push(fx.start(lease).await);
    }
    let before = fx.commit(&leases[0], runs[0], 1, vec![make::record("0", 1)], false).await;
    let mut pages = Vec::new();
    for (at, (lease, run)) in leases.iter().zip(&runs).enumerate() {
        // Each page has its own record, and one that all pages share.
        let records = vec![make::record(&at.to_string(), 1), make::record("shared", 1)];
        pages.push(match at {
            1 => make::page(&stale(lease), *run, 1, records, false),
            2 => make::page(lease, runs[3], 2, records, false),
            _ => make::page(lease, *run, 1, records, false),
        });
    }
    let answers = at_once(&fx, pages.into_iter().map(Arc::new).collect()).await;
    let mut shared = 0;
    for (at, answer) in answers.into_iter().enumerate() {
        match (at, answer) {
            (0, Ok(done)) => assert_eq!((done.batch, done.replayed, done.stats), (before.batch, true, before.stats)),
            (1, answer) => assert_eq!(answer, Err(TxError::Fenced)),
            (2, answer) => assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}"),
            (_, Ok(done)) => {
                assert_eq!(int(&fx.cell(View::Batches, done.batch.0, "run_id").await), runs[at].0, "page {at}");
                assert_eq!((done.replayed, done.stats.inserted + done.stats.skipped), (false, 2));
                shared += done.stats.inserted - 1;
            }
            (_, answer) => panic!("page {at}: {answer:?}"),
        }
    }
    assert_eq!(shared, 1, "the one that all bring is inserted once");
    assert_eq!((fx.rows(View::Batches).await.len(), fx.rows(View::Items).await.len()), (6, 7));
}

pub(super) async fn concurrent_ends_get_their_own_results(fx: Fixture) {
    fx.plan("a", &make::windows(0, 8)).await;
    let (leases, mut runs) = (fx.claim(8).await, Vec::new());
    for lease in &leases {
        runs.push(fx.start(lease).await);
    }
    fx.end(&leases[0], runs[0], RunEnd::Succeeded).await;
    let mut ends = Vec::new();
    for (at, (lease, run)) in leases.iter().zip(&runs).enumerate() {
        ends.push(match at {
            1 => make::end(&stale(lease), *run, RunEnd::Succeeded),
            4 => make::end(lease, runs[5], RunEnd::Succeeded),
            2 => make::end(lease, *run, RunEnd::Failed { error: make::fault("no more") }),
            3 => {
                let delay = Duration::from_secs(60);
                make::end(lease, *run, RunEnd::Requeue { delay, error: make::fault("later"), counted: true })
            }
            _ => make::end(lease, *run, RunEnd::Succeeded),
        });
        ends[at].stats.ret_count = 10 + at as u32;
    }
    let answers = at_once(&fx, ends.into_iter().map(Arc::new).collect()).await;
    let expected = ["SUCCEEDED", "EXECUTING", "FAILED", "QUEUED", "EXECUTING", "SUCCEEDED", "SUCCEEDED", "SUCCEEDED"];
    let (tasks, closed) = (fx.rows(View::Tasks).await, fx.rows(View::Runs).await);
    for (at, (answer, status)) in answers.into_iter().zip(expected).enumerate() {
        match answer {
            Ok(done) => assert_eq!(done.task_status.as_str(), status, "task {at}"),
            Err(error) => assert!(matches!(at, 1 | 4) && error == TxError::Fenced, "task {at}: {error}"),
        }
        let (task, run) = (leases[at].task.0, runs[at].0);
        assert_eq!(tasks.text_of(task, "status_code"), status, "task {at}");
        let items = if matches!(at, 0 | 1 | 4) { 0 } else { 10 + at as i64 };
        assert_eq!(int(&tasks.of(task, "items")), items, "task {at}: counted once, and its own");
        let run_status = closed.text_of(run, "status_code");
        assert_eq!(
            run_status,
            match status {
                "EXECUTING" => "RUNNING",
                "QUEUED" => "FAILED",
                status => status,
            }
        );
        let error = if matches!(at, 2 | 3) { Some(["no more", "later"][at - 2]) } else { None };
        for cell in [tasks.of(task, "error"), closed.of(run, "error")] {
            assert_eq!(cell == Cell::Null, error.is_none(), "task {at}");
            assert!(error.is_none_or(|message| text(&cell).contains(message)), "task {at}: {cell:?}");
        }
    }
}
