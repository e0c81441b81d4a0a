//! Schedules: several per endpoint, by interval or by pattern.

use std::time::Duration;

use patra_core::Ts;
use patra_core::port::query::{Cell, View};
use patra_core::state::{Operation, UpdateReason};
use patra_core::tx::{ApplyProvenance, EndpointSchedule, FireDue, ProvenanceApplied, Recurrence, TxError};

use super::fixture::{text, time};
use super::{Fixture, make};

const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Duration = Duration::from_millis(100);

fn schedule(operation: Operation, reason: Option<UpdateReason>, when: Recurrence) -> EndpointSchedule {
    EndpointSchedule { operation, reason, recurrence: when }
}

fn manifest(hash: &str, schedules: Vec<EndpointSchedule>) -> ApplyProvenance {
    let mut apply = make::provenance(hash, &[("works", None)]);
    apply.endpoints[0].schedules = schedules;
    apply
}

/// Operation, reason and time of each, sorted.
async fn known(fx: &Fixture) -> Vec<(String, String, String)> {
    let rows = fx.rows(View::Schedules).await;
    let [operations, reasons, times] = ["operation_code", "reason_code", "when_text"].map(|column| rows.texts(column));
    let mut all: Vec<_> = operations.into_iter().zip(reasons).zip(times).map(|((a, b), c)| (a, b, c)).collect();
    all.sort();
    all
}

fn owned(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter().map(|(a, b, c)| ((*a).to_owned(), (*b).to_owned(), (*c).to_owned())).collect()
}

// covers: POOL-95, MAP-C-01
pub(super) async fn schedule_belongs_to_the_project_of_its_manifest(fx: Fixture) {
    let every = || vec![schedule(Operation::Harvest, None, Recurrence::Every(STEP))];
    let bound = ApplyProvenance { project_key: Some("other".into()), ..manifest("h1", every()) };
    let free = ApplyProvenance { provenance_code: "free".into(), ..manifest("f1", every()) };
    fx.ok(bound.clone()).await;
    fx.ok(free).await;
    let known = fx.rows(View::Provenances).await;
    assert_eq!(known.column("project_key"), [Cell::Null, Cell::Text("other".into())]);
    fx.pass(2 * STEP).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 2);
    let mut fired = Vec::new();
    while let Some(taken) = fx.take().await {
        fired.push((taken.provenance_code, taken.project_key));
    }
    fired.sort();
    let expected = [("free", "default"), (&bound.provenance_code, "other")];
    let mut expected = expected.map(|(code, project)| (code.to_owned(), project.to_owned()));
    expected.sort();
    assert_eq!(fired, expected);
    // A manifest that changes its project, or becomes shared.
    fx.ok(ApplyProvenance { project_key: None, document_hash: "h2".into(), ..bound }).await;
    assert_eq!(fx.rows(View::Provenances).await.column("project_key"), [Cell::Null, Cell::Null]);
}

pub(super) async fn endpoint_has_a_schedule_per_operation_and_reason(fx: Fixture) {
    let (stale, signals) = (Some(UpdateReason::Staleness), Some(UpdateReason::Signals));
    let daily = || Recurrence::Cron("0 3 * * *".into());
    let all = vec![
        schedule(Operation::Harvest, None, Recurrence::Every(HOUR)),
        schedule(Operation::Update, stale, daily()),
        schedule(Operation::Update, signals, Recurrence::Every(2 * HOUR)),
    ];
    fx.ok(manifest("h1", all.clone())).await;
    let expected = [
        ("HARVEST", "", "every 3600000000"),
        ("UPDATE", "SIGNALS", "every 7200000000"),
        ("UPDATE", "STALENESS", "cron 0 3 * * *"),
    ];
    assert_eq!(known(&fx).await, owned(&expected));
    let due = |rows: &super::fixture::Rows, reason: &str| {
        let at = rows.texts("reason_code").iter().position(|known| known == reason).expect("the schedule");
        (rows.at(at, "id"), time(&rows.at(at, "next_due_at")))
    };
    let before = fx.rows(View::Schedules).await;
    let (_, at) = due(&before, "STALENESS");
    let now = fx.now().await;
    assert_eq!(at.micros().rem_euclid(86_400_000_000), 3 * 3_600_000_000, "{at} is at three");
    assert!(at > now && at <= now + 24 * HOUR);

    // One is removed, one changes, one stays.
    fx.pass(Duration::from_millis(5)).await;
    let changed = vec![all[1].clone(), schedule(Operation::Update, signals, Recurrence::Every(HOUR))];
    assert_eq!(fx.ok(manifest("h2", changed)).await, ProvenanceApplied::Changed);
    let after = fx.rows(View::Schedules).await;
    let expected = [("UPDATE", "SIGNALS", "every 3600000000"), ("UPDATE", "STALENESS", "cron 0 3 * * *")];
    assert_eq!(known(&fx).await, owned(&expected));
    assert_eq!(due(&after, "STALENESS"), due(&before, "STALENESS"));
    let applied = time(&fx.rows(View::Provenances).await.at(0, "updated_at"));
    assert_eq!(due(&after, "SIGNALS"), (due(&before, "SIGNALS").0, applied + HOUR), "from now on");
}

pub(super) async fn schedule_fires_its_own_operation(fx: Fixture) {
    let all = vec![
        schedule(Operation::Harvest, None, Recurrence::Every(STEP)),
        schedule(Operation::Update, Some(UpdateReason::ExprChange), Recurrence::Every(STEP + STEP / 2)),
        schedule(Operation::Backfill, None, Recurrence::Every(HOUR)),
    ];
    fx.ok(manifest("h1", all)).await;
    fx.pass(2 * STEP).await;
    assert_eq!(fx.ok(FireDue { limit: 9 }).await.fired, 2);
    let jobs = fx.rows(View::Jobs).await;
    assert_eq!(jobs.texts("operation_code"), ["UPDATE", "HARVEST"]);
    assert_eq!((text(&jobs.at(0, "reason_code")), jobs.at(1, "reason_code")), ("EXPR_CHANGE".into(), Cell::Null));
    assert_eq!(jobs.column("activity"), [Cell::Null, Cell::Null]);
    // Each schedule waits for its own trigger only.
    let first = fx.take().await.expect("the harvest");
    assert_eq!((first.operation, first.reason), (Operation::Harvest, None));
    let second = fx.take().await.expect("the update");
    assert_eq!((second.operation, second.reason), (Operation::Update, Some(UpdateReason::ExprChange)));
}

pub(super) async fn pattern_that_never_matches_is_never_due(fx: Fixture) {
    let never = || Recurrence::Cron("0 0 30 2 *".into());
    fx.ok(manifest("h1", vec![make::harvest(never())])).await;
    assert_eq!(time(&fx.rows(View::Schedules).await.at(0, "next_due_at")), Ts::NEVER);
    let done = fx.ok(FireDue { limit: 9 }).await;
    assert_eq!((done.fired, done.next_due), (0, Some(Ts::NEVER)));
}

pub(super) async fn pattern_continues_from_now_after_a_pause(fx: Fixture) {
    fx.ok(manifest("h1", vec![make::harvest(Recurrence::Cron("*/10 * * * *".into()))])).await;
    let due = time(&fx.rows(View::Schedules).await.at(0, "next_due_at"));
    fx.pass(5 * HOUR).await;
    let done = fx.ok(FireDue { limit: 9 }).await;
    assert_eq!(done.fired, 1, "one firing for all that was missed");
    let next = done.next_due.expect("a schedule");
    assert!(next > done.now && next <= done.now + Duration::from_secs(600));
    assert_eq!(next.micros() % 600_000_000, 0);
    let id = fx.rows(View::Schedules).await.ids()[0];
    assert_eq!(fx.rows(View::Jobs).await.texts("public_id"), [format!("schedule-{id}-{}", due.micros())]);
}

pub(super) async fn schedule_without_a_time_is_refused(fx: Fixture) {
    let twice = vec![make::harvest(Recurrence::Every(HOUR)), make::harvest(Recurrence::Every(2 * HOUR))];
    let flawed = [
        vec![make::harvest(Recurrence::Every(Duration::ZERO))],
        vec![make::harvest(Recurrence::Cron("every day".into()))],
        twice,
    ];
    for schedules in flawed {
        let answer = fx.run(manifest("h1", schedules.clone())).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{schedules:?}: {answer:?}");
    }
    assert!(fx.rows(View::Schedules).await.is_empty() && fx.rows(View::Provenances).await.is_empty());
}
