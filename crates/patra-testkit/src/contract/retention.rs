//! Archived and deleted rows, and the evidence of a batch and the lineage of a plan.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{BatchPage, Cell, View};
use patra_core::state::PauseKind;
use patra_core::tx::{
    AdvanceCause, AdvanceCursor, ArchiveLedger, CommitBatch, FireDue, Lease, LedgerArchived, PauseSelector,
    PauseSubject, PlanTarget, RecordAdvance, RecordExport, RedriveTarget, RedriveWork, Redriven, ResumeWork, RunEnd,
    SavePlan, SignalRecords,
};
use patra_core::{PlanId, RunId, Ts};

use super::fixture::{int, text, time};
use super::{Fixture, make};

const TICK: Duration = Duration::from_millis(5);

pub(super) fn export(run: RunId) -> RecordExport {
    RecordExport {
        run: run.0,
        batch_no: 1,
        by: "somebody".into(),
        reason: "for the upstream".into(),
        package_hash: "p1".into(),
        expires_at: Ts::from_secs(2_000_000_000),
    }
}

/// Deletes everything that is older than now.
async fn archive(fx: &Fixture, limit: u32) -> LedgerArchived {
    fx.pass(TICK).await;
    fx.ok(ArchiveLedger { before: fx.now().await, limit }).await
}

/// Two tasks, one of which has ended; a page and an event of each of two windows.
async fn ended(fx: &Fixture) -> (Vec<Lease>, Vec<RunId>) {
    let cursor = fx.plan("a", &make::windows(0, 2)).await.cursor;
    let leases = fx.claim(2).await;
    let mut runs = Vec::new();
    for (at, lease) in leases.iter().enumerate() {
        let run = fx.start(lease).await;
        let mut page = make::page(lease, run, 1, vec![make::record(&format!("key {at}"), 1)], false);
        page.rejected = vec![make::rejected(3)];
        fx.ok(Arc::new(page)).await;
        fx.end(lease, run, RunEnd::Succeeded).await;
        let cause = AdvanceCause { task: lease.task, run, batch_no: 1, late: 0 };
        fx.ok(RecordAdvance { cursor, cause: Some(cause), observed_max: None }).await;
        runs.push(run);
    }
    (leases, runs)
}

// covers: ING-13.5-01, ING-13.5-03
pub(super) async fn old_pages_of_ended_tasks_are_archived_with_their_lineage(fx: Fixture) {
    let (leases, runs) = ended(&fx).await;
    fx.plan("open", &make::windows(20, 1)).await;
    let open = fx.next().await;
    let open_run = fx.start(&open).await;
    fx.commit(&open, open_run, 1, vec![], true).await;
    let batches = fx.rows(View::Batches).await;
    let before = ArchiveLedger { before: Ts::from_secs(0), limit: 9 };
    assert_eq!(fx.ok(before).await, LedgerArchived::default(), "nothing is that old");
    assert_eq!(archive(&fx, 9).await, LedgerArchived { batches: 2, events: 1, ..LedgerArchived::default() });
    assert_eq!(archive(&fx, 9).await, LedgerArchived::default(), "once is enough");

    assert_eq!(fx.rows(View::Batches).await.column("run_id"), [Cell::Int(open_run.0)], "its task goes on");
    let rows = fx.rows(View::Archive).await;
    let mut kept = Vec::new();
    for at in (0..rows.len()).filter(|at| text(&rows.at(*at, "kind_code")) == "BATCH") {
        let [row, plan, task, run, batch_no] =
            ["row_id", "plan_id", "task_id", "run_id", "batch_no"].map(|column| int(&rows.at(at, column)));
        assert_eq!((plan, batch_no), (leases[0].lineage.plan.0, 1));
        assert_eq!(rows.at(at, "created_at"), batches.of(row, "created_at"));
        assert!(time(&rows.at(at, "archived_at")) > time(&rows.at(at, "created_at")));
        let body: serde_json::Value = serde_json::from_str(&text(&rows.at(at, "body"))).expect("JSON");
        assert_eq!(
            (&body["id"], &body["run_id"], &body["status_code"]),
            (&row.into(), &run.into(), &"SUCCEEDED".into())
        );
        assert_eq!(
            (&body["request_digest"]["url"], &body["stats"]["inserted"]),
            (&"http://demo/works".into(), &1.into())
        );
        kept.push((task, run));
    }
    kept.sort_unstable();
    assert_eq!(kept, [(leases[0].task.0, runs[0].0), (leases[1].task.0, runs[1].0)]);
}

pub(super) async fn archive_stops_at_its_limit_and_continues_the_next_time(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(0, 4)).await.cursor;
    for lease in fx.claim(4).await {
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, vec![], false).await;
        fx.end(&lease, run, RunEnd::Succeeded).await;
        fx.advance(cursor).await;
        fx.pass(Duration::from_millis(2)).await;
    }
    let oldest = fx.rows(View::Batches).await.ids().into_iter().min();
    assert_eq!(archive(&fx, 1).await, LedgerArchived { batches: 1, events: 1, ..LedgerArchived::default() });
    assert!(!fx.rows(View::Batches).await.ids().contains(&oldest.expect("a batch")), "the oldest first");
    assert_eq!(archive(&fx, 2).await, LedgerArchived { batches: 2, events: 2, ..LedgerArchived::default() });
    assert_eq!(archive(&fx, 2).await, LedgerArchived { batches: 1, ..LedgerArchived::default() });
    assert_eq!((fx.rows(View::Batches).await.len(), fx.rows(View::Events).await.len()), (0, 1));
}

// covers: ING-7.8-05, ING-10.7-02
pub(super) async fn newest_event_stays_and_the_cursor_still_follows_it(fx: Fixture) {
    let (leases, runs) = ended(&fx).await;
    let cursor = leases[0].cursor;
    assert_eq!(archive(&fx, 9).await.events, 1);
    let events = fx.rows(View::Events).await;
    assert_eq!((events.len(), time(&events.at(0, "new_instant"))), (1, Ts::from_secs(20)));
    let rows = fx.rows(View::Archive).await;
    let at = rows.texts("kind_code").iter().position(|kind| kind == "EVENT").expect("the event");
    let lineage = ["plan_id", "task_id", "run_id", "batch_no"].map(|column| int(&rows.at(at, column)));
    assert_eq!(lineage, [leases[0].lineage.plan.0, leases[0].task.0, runs[0].0, 1]);
    let advance = fx.advance(cursor).await;
    assert_eq!((advance.value, advance.target), (None, Some(make::at(20))));
    assert!(fx.ok(AdvanceCursor { cursor, to: make::at(10), version: 0 }).await.moved);
    assert!(fx.ok(AdvanceCursor { cursor, to: make::at(20), version: 1 }).await.moved);
    assert_eq!(fx.rows(View::Events).await.len(), 1);
}

pub(super) async fn retention_deletes_ended_rows_and_keeps_lasting_ones(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    for (no, keep) in [(1, make::SHORT), (2, make::LONG)] {
        let raw = Some(make::raw("body", keep));
        fx.ok(Arc::new(CommitBatch { raw, ..make::page(&lease, run, no, vec![], true) })).await;
    }
    let hold = |code: &str| make::hold(PauseKind::Pause, PauseSubject::source(code));
    let released = fx.ok(hold("released")).await.pause;
    fx.ok(hold("lasting")).await;
    fx.ok(ResumeWork { target: PauseSelector::Id(released), by: "somebody".into() }).await;
    let signal = |key: &str| SignalRecords {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        keys: vec![key.into()],
        reason: "wrong".into(),
        by: "reader".into(),
    };
    fx.ok(signal("settled")).await;
    fx.ok(signal("open")).await;
    let mut page = make::page(&lease, run, 3, vec![], true);
    page.checked = vec![patra_core::tx::CheckedRecord { key: "settled".into(), failed: None, looked_at: true }];
    fx.ok(Arc::new(page)).await;
    fx.pass(make::BEYOND).await;
    // A raw body expires by its own time.
    let old = ArchiveLedger { before: Ts::from_secs(0), limit: 9 };
    assert_eq!(fx.ok(old).await, LedgerArchived { raw: 1, ..LedgerArchived::default() });
    assert_eq!(archive(&fx, 9).await, LedgerArchived { settled: 2, ..LedgerArchived::default() });
    assert_eq!(fx.rows(View::Holds).await.texts("provenance_code"), ["lasting"]);
    assert_eq!(fx.rows(View::Signals).await.texts("item_key"), ["open"]);
    let store = &fx.subject.store;
    assert!(store.raw(run, 1).await.expect("an answer").is_none());
    assert!(store.raw(run, 2).await.expect("an answer").is_some());
    // A signal that is made again after it was settled is new.
    assert_eq!(fx.ok(signal("settled")).await.added, 1);
    assert!(!fx.ok(hold("released")).await.existed);
}

// covers: ING-14.9-01, ING-14.9-05, ING-14.9-06
pub(super) async fn evidence_of_a_batch_is_found_by_its_key(fx: Fixture) {
    let (leases, runs) = ended(&fx).await;
    let store = &fx.subject.store;
    let found = store.evidence(runs[0], 1).await.expect("an answer").expect("the batch");
    let lineage = leases[0].lineage;
    assert_eq!((&found.batch["run_id"], &found.batch["batch_no"]), (&runs[0].0.into(), &1.into()));
    assert_eq!(found.batch["request_digest"]["url"], "http://demo/works");
    assert_eq!((&found.batch["stats"]["inserted"], &found.batch["position"]["offset"]), (&1.into(), &0.into()));
    assert_eq!((&found.run["id"], &found.run["status_code"]), (&runs[0].0.into(), &"SUCCEEDED".into()));
    assert_eq!(
        (&found.task["id"], &found.task["expr_hash"]),
        (&leases[0].task.0.into(), &leases[0].expr_hash.as_str().into())
    );
    let slice = make::slice("a", make::window(0, 10));
    assert_eq!(
        (&found.slice["id"], &found.slice["slice_signature_hash"]),
        (&lineage.slice.0.into(), &slice.signature.as_str().into())
    );
    assert!(found.slice["expr_snapshot"]["expr"].is_string(), "{}", found.slice);
    assert_eq!((&found.plan["id"], &found.plan["spec_fingerprint"]), (&lineage.plan.0.into(), &"snapshot".into()));
    let created = found.batch["created_at"].as_str().and_then(|text| text.parse::<Ts>().ok());
    assert_eq!(created, Some(time(&fx.rows(View::Batches).await.at(1, "created_at"))), "times as text");
    assert_eq!(found.events.len(), 1);
    assert_eq!(
        (&found.events[0]["run_id"], &found.events[0]["record_remarks"]["batchNo"]),
        (&runs[0].0.into(), &1.into())
    );
    assert_eq!(found.quarantine.len(), 1);
    assert_eq!(found.quarantine[0]["dedup_key"], "bad-3");
    assert_eq!(store.evidence(runs[0], 2).await, Ok(None));
    assert_eq!(store.evidence(RunId(999_999), 1).await, Ok(None));

    archive(&fx, 9).await;
    assert!(fx.rows(View::Batches).await.is_empty());
    let again = store.evidence(runs[0], 1).await.expect("an answer").expect("the batch, from the archive");
    assert_eq!((&again.batch["id"], &again.batch["stats"]), (&found.batch["id"], &found.batch["stats"]));
    assert_eq!(again.batch["request_digest"], found.batch["request_digest"]);
    assert_eq!((again.run, again.task, again.quarantine), (found.run, found.task, found.quarantine));
    assert_eq!(again.events.len(), 1, "the event is in the archive too");
    assert_eq!(again.events[0]["id"], found.events[0]["id"]);
}

pub(super) async fn archived_batch_is_found_too(fx: Fixture) {
    let (_, runs) = ended(&fx).await;
    let redrive =
        RedriveWork { request: "r".into(), target: RedriveTarget::Batch { run: runs[1], batch_no: 1 }, by: "x".into() };
    let before = fx.ok(redrive.clone()).await;
    assert!(matches!(before, Redriven::ReadBack { .. }));
    archive(&fx, 9).await;
    assert_eq!(fx.ok(redrive).await, before);
    assert_eq!(fx.rows(View::Tasks).await.len(), 2);
}

// covers: ING-13.5-03, ING-14.7-07
pub(super) async fn lineage_of_a_plan_includes_archived_batches(fx: Fixture) {
    let (leases, runs) = ended(&fx).await;
    fx.plan("other", &make::windows(20, 1)).await;
    let plan = leases[0].lineage.plan;
    let ids = |rows: &[serde_json::Value]| rows.iter().map(|row| row["id"].as_i64()).collect::<Vec<_>>();
    for round in ["in the ledger", "in the archive"] {
        let lineage = fx.lineage(plan).await;
        assert_eq!((&lineage.job["public_id"], &lineage.plan["id"]), (&"a".into(), &plan.0.into()), "{round}");
        assert_eq!(ids(&lineage.slices), leases.iter().map(|lease| Some(lease.lineage.slice.0)).collect::<Vec<_>>());
        assert_eq!(ids(&lineage.tasks), leases.iter().map(|lease| Some(lease.task.0)).collect::<Vec<_>>());
        assert_eq!(ids(&lineage.runs), runs.iter().map(|run| Some(run.0)).collect::<Vec<_>>());
        let of: Vec<_> = lineage.batches.iter().map(|row| row["run_id"].as_i64()).collect();
        assert_eq!(of, runs.iter().map(|run| Some(run.0)).collect::<Vec<_>>(), "{round}");
        for batch in &lineage.batches {
            assert!(batch.get("request_digest").is_none() && batch.get("response_digest").is_none(), "{batch}");
            assert_eq!(batch["stats"]["inserted"], 1);
        }
        assert_eq!(lineage.batches_left_out, 0);
        // One of the two is archived first.
        archive(&fx, 1).await;
        assert_eq!(ids(&fx.lineage(plan).await.batches), ids(&lineage.batches), "half and half");
        // The batches can be read page by page.
        let (mut pages, mut after) = (Vec::new(), Some(0));
        while let Some(last) = after {
            let page = fx.subject.store.lineage(plan, BatchPage { after: last, limit: 1 }).await;
            let page = page.expect("an answer").expect("the plan");
            assert_eq!((page.batches.len(), page.tasks.len()), (1, lineage.tasks.len()));
            pages.extend(ids(&page.batches));
            assert_eq!(page.batches_left_out as usize, lineage.batches.len() - pages.len());
            after = page.next_after();
        }
        assert_eq!(pages, ids(&lineage.batches));
        archive(&fx, 9).await;
    }
    assert_eq!(fx.subject.store.lineage(PlanId(999_999), BatchPage::default()).await, Ok(None));
}

// covers: ING-7.1-02, ING-7.1-01
pub(super) async fn lineage_describes_the_job_in_scheduler_terms(fx: Fixture) {
    let job = async |plan| fx.lineage(plan).await.job;
    let taken = fx.trigger("by hand").await;
    let part = make::part(&taken, 0, make::window(0, 30), &make::windows(0, 1));
    let plan = fx.ok(Arc::new(part)).await.plan;
    let again = fx.take().await.expect("the trigger that goes on");
    let rest = SavePlan { target: PlanTarget::Existing(plan), ..make::plan(&again, 1, &make::windows(10, 1)) };
    fx.ok(Arc::new(rest)).await;
    let described = job(plan).await;
    let words = ["scheduler_code", "scheduler_job_id", "scheduler_log_id", "expr_proto_hash"];
    let said = |job: &serde_json::Value| words.map(|word| job[word].as_str().unwrap_or_default().to_owned());
    assert_eq!(said(&described), ["patra", "by hand", "by hand", "snapshot"]);
    assert_eq!((&described["trigger_type_code"], &described["provenance_code"]), (&"MANUAL".into(), &"demo".into()));

    let step = Duration::from_millis(100);
    fx.ok(make::provenance("h1", &[("works", Some(step))])).await;
    let schedule = fx.rows(View::Schedules).await.ids()[0];
    fx.pass(2 * step).await;
    fx.ok(FireDue { limit: 1 }).await;
    let taken = fx.take().await.expect("the scheduled trigger");
    let plan = fx.ok(Arc::new(make::plan(&taken, 2, &make::windows(20, 1)))).await.plan;
    let name = taken.public_id.as_str();
    assert_eq!(said(&job(plan).await), ["patra", &schedule.to_string(), name, "snapshot"]);
}

pub(super) async fn export_is_recorded(fx: Fixture) {
    let (_, runs) = ended(&fx).await;
    let first = fx.ok(export(runs[0])).await.export;
    let second = fx.ok(RecordExport { reason: "again".into(), ..export(runs[0]) }).await.export;
    assert_ne!(first, second, "each time is one");
    let rows = fx.rows(View::Exports).await;
    assert_eq!(rows.ids(), [second, first]);
    assert_eq!((int(&rows.at(1, "run_id")), int(&rows.at(1, "batch_no"))), (runs[0].0, 1));
    let texts = ["created_by", "reason", "package_hash"].map(|column| text(&rows.at(1, column)));
    assert_eq!(texts, ["somebody", "for the upstream", "p1"]);
    assert_eq!(time(&rows.at(1, "expires_at")), Ts::from_secs(2_000_000_000));
}

pub(super) async fn run_does_not_resume_from_archived_pages(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![], true).await;
    fx.end(&lease, run, RunEnd::Failed { error: make::fault("gone") }).await;
    archive(&fx, 9).await;
    fx.ok(RedriveWork { request: "r".into(), target: RedriveTarget::Task(lease.task), by: "x".into() }).await;
    let (_, resume) = fx.start_fully(&fx.next().await).await;
    assert_eq!(resume, None, "it begins at the beginning");
}
