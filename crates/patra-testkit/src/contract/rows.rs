//! The rows of trigger, plan, slice, task, run and batch, column by column.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Position;
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{BatchStats, CommitBatch, EndRun, RequestJob, RunEnd, RunStats};
use patra_core::{CredentialId, Ts};
use serde_json::{Value, json};

use super::{Fixture, make};

/// Asserts that the row has these values in these columns.
#[track_caller]
fn check(row: &Value, expected: &Value) {
    for (column, value) in expected.as_object().expect("columns and values") {
        assert_eq!(row.get(column), Some(value), "{column} of {row}");
    }
}

fn text(secs: i64) -> String {
    Ts::from_secs(secs).to_string()
}

/// There is no manifest: the request is stored before one is looked up.
// covers: ING-5.3-01, ING-7.1-01
pub(super) async fn trigger_row_stores_the_whole_request_before_any_read(fx: Fixture) {
    let fire = RequestJob {
        trigger_type: TriggerType::Api,
        window_from: Some(Ts::from_secs(10)),
        window_to: Some(Ts::from_secs(30)),
        priority: -7,
        params: r#"{"user":"7"}"#.into(),
        overrides: r#"{"limits":{"page_depth":3}}"#.into(),
        ..make::fire("a", Operation::Harvest)
    };
    fx.ok(fire.clone()).await;
    let taken = fx.take().await.expect("the trigger");
    assert_eq!((taken.trigger_type, taken.priority, taken.plan.is_some()), (TriggerType::Api, -7, false));
    assert_eq!((taken.window_from, taken.window_to), (fire.window_from, fire.window_to));
    assert_eq!((taken.params.replace(' ', ""), taken.overrides.replace(' ', "")), (fire.params, fire.overrides));
    let plan = fx.ok(Arc::new(make::plan(&taken, 0, &make::windows(10, 2)))).await.plan;
    let lineage = fx.lineage(plan).await;
    check(
        &lineage.job,
        &json!({
            "public_id": "a", "trigger_type_code": "API", "provenance_code": make::PROVENANCE,
            "endpoint_name": make::ENDPOINT, "operation_code": "HARVEST", "params": { "user": "7" },
            "expr_proto_hash": "snapshot", "status_code": "PLANNED",
        }),
    );
}

// covers: ING-5.3-02, ING-5.3-04, ING-5.3-10, ING-5.3-13, ING-7.3-01, ING-7.4-01, ING-7.9-03, ING-2.3-06, ING-4.4-22
// covers: ING-8.5-01
pub(super) async fn plan_slice_and_task_rows_store_the_frozen_plan(fx: Fixture) {
    let windows = make::windows(0, 2);
    let fire = make::fire("a", Operation::Backfill);
    let saved = fx.plan_with(fire, &windows, |plan| plan.credential = Some(CredentialId(7))).await;
    let lineage = fx.lineage(saved.plan).await;
    let source = json!({ "provenance_code": make::PROVENANCE, "endpoint_name": make::ENDPOINT });
    check(&lineage.plan, &source);
    check(
        &lineage.plan,
        &json!({
            "operation_code": "BACKFILL", "window_from": text(0), "window_to": text(20), "plan_strategy": "TIME",
            "expr_proto_hash": "snapshot", "spec_fingerprint": "snapshot", "status_code": "READY",
            "schedule_instance_id": lineage.job["id"],
        }),
    );
    assert_eq!((lineage.slices.len(), lineage.tasks.len()), (2, 2), "one task per slice");
    for (at, window) in windows.into_iter().enumerate() {
        let (made, slice, task) = (make::slice("a", window), &lineage.slices[at], &lineage.tasks[at]);
        let json = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let bounds = json!({ "window_from": window.from, "window_to": window.to, "expr_hash": made.expr_hash });
        for row in [slice, task] {
            check(row, &source);
            check(row, &bounds);
            check(row, &json!({ "plan_id": saved.plan }));
        }
        check(
            slice,
            &json!({
                "slice_spec": json(&made.spec), "slice_signature_hash": made.signature,
                "expr_snapshot": json(&made.expr_snapshot), "status_code": "READY",
            }),
        );
        check(
            task,
            &json!({
                "schedule_instance_id": lineage.job["id"], "slice_id": slice["id"], "operation_code": "BACKFILL",
                "credential_id": 7, "params": json(&made.task_params), "idempotent_key": made.task_key,
                "status_code": "QUEUED", "priority": Operation::Backfill.priority(),
            }),
        );
    }
}

// covers: ING-5.4-04, ING-5.4-11, ING-9.8-02, ING-2.3-06
pub(super) async fn run_row_repeats_source_and_window_and_stores_counts_and_error(fx: Fixture) {
    fx.plan("a", &make::windows(10, 1)).await;
    let first = fx.next().await;
    let run = fx.start(&first).await;
    fx.commit(&first, run, 1, Vec::new(), true).await;
    let evidence = async |run| fx.subject.store.evidence(run, 1).await.expect("an answer").expect("the batch");
    let opened = json!({
        "task_id": first.task, "provenance_code": make::PROVENANCE, "endpoint_name": make::ENDPOINT,
        "operation_code": "HARVEST", "window_from": text(10), "window_to": text(20), "attempt_no": first.fence,
    });
    let before = evidence(run).await.run;
    check(&before, &opened);
    check(&before, &json!({ "status_code": "RUNNING", "stats": null, "error": null, "finished_at": null }));
    let stats = RunStats { req_count: 9, retry_count: 2, inserted: 5, pages_visited: 1, ..RunStats::default() };
    let requeue = RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("no answer"), counted: true };
    fx.ok(Arc::new(EndRun { stats, ..make::end(&first, run, requeue) })).await;
    let after = evidence(run).await.run;
    check(&after, &opened);
    check(&after, &json!({ "status_code": "FAILED" }));
    assert_eq!((&after["stats"]["reqCount"], &after["stats"]["retryCount"]), (&9.into(), &2.into()), "{after}");
    assert_eq!(after["error"]["message"], "no answer");

    fx.pass(Duration::from_millis(2)).await;
    let second = fx.next().await;
    let again = fx.start(&second).await;
    fx.commit(&second, again, 1, Vec::new(), false).await;
    fx.end(&second, again, RunEnd::Succeeded).await;
    let (old, new) = (evidence(run).await.run, evidence(again).await.run);
    assert_eq!(old, after, "another attempt is another row");
    assert!(new["attempt_no"].as_i64() > old["attempt_no"].as_i64());
    check(&new, &json!({ "task_id": first.task, "status_code": "SUCCEEDED", "error": null }));
}

// covers: ING-5.4-07, ING-5.4-09, ING-9.3-01, ING-9.3-03, ING-9.8-01
pub(super) async fn batch_row_stores_its_paging_position_before_and_after(fx: Fixture) {
    let token = |text: &str| Position::Token(Some(text.into()));
    let url = |page: &str| Position::Url(Some(format!("https://far.example/{page}")));
    let key = |position: &Position| json!(position.token_key());
    let steps = [
        (Position::Offset(20), Position::Offset(30), json!({ "page_no": 20, "before_token": null })),
        (Position::Page(3), Position::Page(4), json!({ "page_no": 3, "after_token": null })),
        (token("b"), token("c"), json!({ "page_no": null, "before_token": "b", "after_token": "c" })),
        (
            url("2"),
            url("3"),
            json!({
                "before_url": "https://far.example/2", "next_url": "https://far.example/3",
                "before_token": key(&url("2")), "after_token": key(&url("3")),
            }),
        ),
        (Position::Time, Position::Time, json!({ "page_no": null, "before_url": null, "next_url": null })),
    ];
    fx.plan("a", &make::windows(10, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    for (no, (position, next, columns)) in (1..).zip(steps) {
        let stats = BatchStats {
            items_count: 2,
            latency_ms: 40,
            retry_count: 3,
            throttled_count: 1,
            has_next: true,
            ..BatchStats::default()
        };
        let page = CommitBatch {
            before_token: position.token_key(),
            next: Some(next.clone()),
            stats,
            ..CommitBatch { position: position.clone(), ..make::page(&lease, run, no, Vec::new(), true) }
        };
        fx.ok(Arc::new(page)).await;
        let batch = fx.subject.store.evidence(run, no).await.expect("an answer").expect("the batch").batch;
        check(&batch, &columns);
        check(
            &batch,
            &json!({
                "run_id": run, "task_id": lease.task, "slice_id": lease.lineage.slice, "plan_id": lease.lineage.plan,
                "expr_hash": lease.expr_hash, "batch_no": no, "page_size": 10, "has_next": 1, "latency_ms": 40,
                "window_from": text(10), "window_to": text(20), "position": position, "next_position": next,
                "request_digest": { "url": "http://demo/works" }, "response_digest": { "items": 1 },
            }),
        );
        let stats = &batch["stats"];
        assert_eq!((&stats["itemsCount"], &stats["retryCount"], &stats["429Count"]), (&json!(2), &json!(3), &json!(1)));
    }
}
