use std::sync::Arc;

use patra_core::cursor::CursorValue;
use patra_core::protocol::run::ExchangeEvidence;
use patra_core::state::{Direction, Operation, TaskStatus};
use patra_core::tx::{AdvanceRecorded, PlanSaved, RunStats, TaskLineage};
use patra_core::{Code, CursorId, Fence, JobId, PlanId, SliceId, TaskId};
use patra_testkit::ManualClock;
use patra_testkit::memory::SharedMem;

use super::super::*;
use crate::gate::RateGate;

struct Desk {
    metrics: Metrics,
    store: Arc<SharedMem>,
}

impl Desk {
    fn new() -> Desk {
        let clock = Arc::new(ManualClock::new(Ts::from_secs(1_000)));
        let store = Arc::new(SharedMem::new(clock.clone()));
        let gate = RateGate::new(store.clone(), clock, "test", 0);
        Desk { metrics: Metrics::new(gate), store }
    }

    fn on(&self, event: &RunEvent<'_>) {
        self.metrics.on(event, Ts::from_secs(1_000));
    }

    async fn check(&self, expected: &[&str]) {
        let text = self.metrics.text(&*self.store).await.unwrap();
        for line in expected {
            assert!(text.lines().any(|found| found == *line), "{line} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

fn lease(source: &str) -> Lease {
    Lease {
        task: TaskId(1),
        fence: Fence(1),
        until: Ts::from_secs(60),
        attempts: 1,
        suspect: false,
        lineage: TaskLineage { job: JobId(1), plan: PlanId(1), slice: SliceId(1) },
        cursor: CursorId(1),
        project_key: "default".into(),
        provenance_code: source.into(),
        endpoint_name: "works".into(),
        operation: Operation::Harvest,
        expr_hash: String::new(),
        window: None,
        params: "{}".into(),
        credential: None,
        source: None,
        priority: 0,
        scheduled_at: Ts::from_secs(998),
    }
}

fn refusal(level: Level, throttled: bool) -> PageFailure {
    let fault = Fault::new(Code::UpstreamAuthFailed, level, "no");
    let evidence = ExchangeEvidence { latency_ms: 30, ..ExchangeEvidence::default() };
    PageFailure { fault, throttled, retry_after: None, evidence, offline: false }
}

// covers: ING-14.4-01, ING-14.4-02, ING-14.4-03, ING-11.10-02, ING-11.10-03, ING-11.10-04
#[tokio::test]
async fn a_batch_counts_its_records_and_its_time() {
    let (desk, lease) = (Desk::new(), lease("p"));
    let stats =
        BatchStats { inserted: 5, updated: 3, skipped: 2, failed: 1, late: 2, latency_ms: 80, ..Default::default() };
    desk.on(&RunEvent::Committed { lease: &lease, stats: &stats, stored_in: Duration::from_millis(40) });
    desk.check(&[
        r#"patra_ingest_batches_total{source="p",endpoint="works",op="HARVEST"} 1"#,
        r#"patra_ingest_items_total{source="p",endpoint="works",op="HARVEST",action="insert"} 5"#,
        r#"patra_ingest_items_total{source="p",endpoint="works",op="HARVEST",action="update"} 3"#,
        r#"patra_ingest_items_total{source="p",endpoint="works",op="HARVEST",action="skip"} 2"#,
        r#"patra_ingest_items_total{source="p",endpoint="works",op="HARVEST",action="fail"} 1"#,
        r#"patra_ingest_late_items_total{source="p",endpoint="works",op="HARVEST"} 2"#,
        r#"patra_ingest_errors_total{source="p",endpoint="works",op="HARVEST",level="L3"} 1"#,
        r#"patra_ingest_batch_latency_ms_bucket{le="100.0",source="p",endpoint="works",op="HARVEST"} 0"#,
        r#"patra_ingest_batch_latency_ms_bucket{le="250.0",source="p",endpoint="works",op="HARVEST"} 1"#,
    ])
    .await;
}

// covers: ING-14.4-04
#[tokio::test]
async fn errors_are_counted_by_level_and_what_is_fatal_keeps_its_reason() {
    let (desk, lease) = (Desk::new(), lease("p"));
    for (level, throttled) in [(Level::L1, true), (Level::L1, false), (Level::L4, false)] {
        let refusal = refusal(level, throttled);
        desk.on(&RunEvent::Answered { lease: &lease, answer: Err(&refusal) });
    }
    desk.on(&RunEvent::Retried { lease: &lease });
    desk.check(&[
        r#"patra_ingest_errors_total{source="p",endpoint="works",op="HARVEST",level="L1"} 2"#,
        r#"patra_ingest_errors_total{source="p",endpoint="works",op="HARVEST",level="L4"} 1"#,
        r#"patra_ingest_429_total{source="p",endpoint="works",op="HARVEST"} 1"#,
        r#"patra_ingest_retries_total{source="p",endpoint="works",op="HARVEST"} 1"#,
        r#"patra_ingest_consecutive_failures{source="p",endpoint="works",op="HARVEST"} 2"#,
        r#"patra_ingest_last_fatal_timestamp_seconds{source="p",endpoint="works",op="HARVEST",code="UPSTREAM_AUTH_FAILED"} 1000"#,
        r#"patra_ingest_http_latency_ms_count{source="p",endpoint="works",op="HARVEST"} 3"#,
    ])
    .await;
    desk.on(&RunEvent::Answered { lease: &lease, answer: Ok(&FetchedPage::default()) });
    desk.check(&[r#"patra_ingest_consecutive_failures{source="p",endpoint="works",op="HARVEST"} 0"#]).await;
}

// covers: ING-14.4-04, ING-14.4-06, ING-11.10-01, ING-13.3-10, TWEET-148
#[tokio::test]
async fn healing_advances_idempotency_claims_waits_and_ends_are_counted() {
    let (desk, lease) = (Desk::new(), lease("p"));
    desk.metrics.healed(&HealthAction::RateDown { percent: 70 });
    desk.metrics.healed(&HealthAction::CircuitOpened { until: Ts::from_secs(1) });
    let ended = |outcome| RunSummary { outcome, stats: RunStats::default(), cursor: None };
    for outcome in [RunOutcome::Split(2), RunOutcome::Closed(TaskStatus::Failed, None)] {
        let duration = Duration::from_secs(2);
        desk.on(&RunEvent::Ended { lease: &lease, ended: &ended(outcome), duration, is_news: false });
    }
    desk.on(&RunEvent::Admitted { lease: &lease, admitted: Ok(Duration::from_millis(20)) });
    desk.on(&RunEvent::Admitted { lease: &lease, admitted: Err(GateRefusal::QuotaHard) });
    desk.metrics.claimed(&Ok(ClaimedTasks { leases: vec![lease.clone()], now: Ts::from_secs(1_000) }));
    desk.metrics.claimed(&Ok(ClaimedTasks { leases: vec![], now: Ts::from_secs(1_000) }));
    desk.metrics.claimed(&Err(TxError::Busy));
    let mark = |secs| Some(CursorValue::At(Ts::from_secs(secs)));
    let advance =
        |value| AdvanceRecorded { direction: Direction::Forward, value, target: mark(9), by: None, version: 1 };
    desk.metrics.stored(&Done::RecordAdvance(advance(mark(5))));
    desk.metrics.stored(&Done::RecordAdvance(advance(mark(9))));
    desk.metrics.stored(&Done::SavePlan(PlanSaved { plan: PlanId(1), cursor: CursorId(1), created: 3, existing: 1 }));
    desk.check(&[
        r#"patra_ingest_self_heal_events_total{type="qpsDownshift"} 1"#,
        r#"patra_ingest_self_heal_events_total{type="circuitOpen"} 1"#,
        r#"patra_ingest_self_heal_events_total{type="reslice"} 1"#,
        r#"patra_ingest_task_runs_total{source="p",endpoint="works",op="HARVEST",status="FAILED"} 1"#,
        r#"patra_ingest_run_duration_ms_sum{source="p",endpoint="works",op="HARVEST"} 4000.0"#,
        r#"patra_ingest_gate_wait_ms_sum{source="p",endpoint="works",op="HARVEST"} 20.0"#,
        r#"patra_ingest_quota_hits_total{source="p",endpoint="works",op="HARVEST",kind="hard"} 1"#,
        r#"patra_ingest_claims_total{outcome="success"} 1"#,
        r#"patra_ingest_claims_total{outcome="empty"} 1"#,
        r#"patra_ingest_claims_total{outcome="failure"} 1"#,
        r#"patra_ingest_queue_wait_ms_sum{source="p",endpoint="works",op="HARVEST"} 2000.0"#,
        r#"patra_ingest_cursor_advance_events_total{direction="FORWARD"} 1"#,
        r#"patra_ingest_idempotent_total{kind="task",result="hit"} 1"#,
        r#"patra_ingest_idempotent_total{kind="task",result="new"} 3"#,
    ])
    .await;
}

// covers: ING-14.1-02
#[tokio::test]
async fn more_partitions_than_are_shown_are_counted_together() {
    let desk = Desk::new();
    for at in 0..MAX_PARTITIONS + 3 {
        desk.metrics.plan_refused(&lease(&format!("p{at}")).inventory());
    }
    desk.check(&[
        r#"patra_ingest_plans_refused_total{source="p499",endpoint="works",op="HARVEST"} 1"#,
        r#"patra_ingest_plans_refused_total{source="other",endpoint="other",op="HARVEST"} 3"#,
        "patra_metrics_overflow_total 3",
    ])
    .await;
}

#[tokio::test]
async fn labels_are_escaped() {
    let desk = Desk::new();
    desk.metrics.plan_refused(&lease("q\"b\\n\n").inventory());
    desk.check(&[r#"patra_ingest_plans_refused_total{source="q\"b\\n\n",endpoint="works",op="HARVEST"} 1"#]).await;
}
