//! Fairness between partitions, and their concurrency limits.

use std::time::Duration;

use patra_core::state::Operation;
use patra_core::tx::{ClaimTasks, Lease, PartitionKey, RequestJob, RunEnd};

use super::{Fixture, make};

const TICK: Duration = Duration::from_millis(5);

fn at(endpoint: &str) -> RequestJob {
    RequestJob { endpoint_name: endpoint.into(), ..make::fire(&format!("for {endpoint}"), Operation::Harvest) }
}

/// A plan of `count` windows of an endpoint.
async fn plan(fx: &Fixture, endpoint: &str, count: i64) {
    fx.plan_with(at(endpoint), &make::windows(0, count), |_| {}).await;
    fx.pass(TICK).await;
}

/// Endpoint and window number of each lease.
fn names(leases: &[Lease]) -> Vec<String> {
    let number = |lease: &Lease| lease.window.map_or(-1, |window| window.from.micros() / 10_000_000);
    leases.iter().map(|lease| format!("{} {}", lease.endpoint_name, number(lease))).collect()
}

fn capped(limit: u32, endpoint: &str, cap: u32) -> ClaimTasks {
    let partition = PartitionKey {
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: endpoint.into(),
        operation: Operation::Harvest,
    };
    ClaimTasks { caps: vec![(partition, cap)], ..make::claim(limit, make::LONG) }
}

// covers: ING-5.2-06, ING-5.6-01, ING-9.7-01
pub(super) async fn partitions_alternate_however_long_one_has_waited(fx: Fixture) {
    plan(&fx, "works", 6).await;
    plan(&fx, "authors", 2).await;
    plan(&fx, "grants", 3).await;
    assert_eq!(names(&fx.claim(4).await), ["works 0", "authors 0", "grants 0", "works 1"]);
    // Leased tasks count: the other partitions come first until they have as many.
    let next = fx.claim(5).await;
    assert_eq!(names(&next), ["authors 1", "grants 1", "works 2", "grants 2", "works 3"]);
    for lease in next.iter().filter(|lease| lease.endpoint_name == "works") {
        fx.finish(lease, RunEnd::Succeeded).await;
    }
    plan(&fx, "late", 3).await;
    // `works` has two leased tasks, `late` has none.
    assert_eq!(names(&fx.claim(9).await), ["late 0", "late 1", "works 4", "late 2", "works 5"]);
}

// covers: ING-5.6-01
pub(super) async fn operations_of_an_endpoint_and_endpoints_of_two_sources_are_partitions(fx: Fixture) {
    plan(&fx, "works", 3).await;
    let other = RequestJob { provenance_code: "other".into(), ..make::fire("other", Operation::Harvest) };
    fx.plan_with(other, &make::windows(100, 1), |plan| plan.cursor.provenance_code = "other".into()).await;
    // The same priority, so that they differ in the partition only.
    let update = make::fire("update", Operation::Update);
    fx.plan_with(update, &make::windows(200, 1), |plan| plan.priority = Operation::Harvest.priority()).await;
    let first = fx.claim(3).await;
    let partitions: Vec<_> = first.iter().map(|lease| (&*lease.provenance_code, lease.operation)).collect();
    let harvest = Operation::Harvest;
    assert_eq!(partitions, [("demo", harvest), ("other", harvest), ("demo", Operation::Update)]);
}

pub(super) async fn priority_goes_before_fairness(fx: Fixture) {
    plan(&fx, "authors", 1).await;
    let urgent = |plan: &mut patra_core::tx::SavePlan| plan.priority = 50;
    fx.plan_with(at("works"), &make::windows(0, 3), urgent).await;
    assert_eq!(names(&fx.claim(9).await), ["works 0", "works 1", "works 2", "authors 0"]);
}

// covers: ING-5.6-03, ING-8.3-02, ING-9.7-02
pub(super) async fn partition_gets_at_most_its_limit(fx: Fixture) {
    fx.plan_with(at("works"), &make::windows(0, 5), |plan| plan.c_max = 2).await;
    plan(&fx, "authors", 1).await;
    let first = fx.claim(9).await;
    assert_eq!(names(&first), ["works 0", "authors 0", "works 1"]);
    // Leases count for every owner, dispatched or executing.
    let other = ClaimTasks { owner: "another".into(), ..make::claim(9, make::LONG) };
    assert!(fx.ok(other.clone()).await.leases.is_empty());
    let run = fx.start(&first[0]).await;
    assert!(fx.ok(other.clone()).await.leases.is_empty());
    fx.end(&first[0], run, RunEnd::Succeeded).await;
    assert_eq!(names(&fx.ok(other.clone()).await.leases), ["works 2"]);
    // A task that returns to the queue frees its slot.
    let again = RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: false };
    fx.finish(&first[2], again).await;
    fx.pass(TICK).await;
    assert_eq!(fx.claim(9).await.len(), 1);
    fx.sweep(true).await;
    assert_eq!(fx.ok(other).await.leases.len(), 3, "swept tasks take no slot");
}

pub(super) async fn cap_lowers_the_limit_of_a_partition_and_never_raises_it(fx: Fixture) {
    fx.plan_with(at("works"), &make::windows(0, 5), |plan| plan.c_max = 3).await;
    plan(&fx, "authors", 3).await;
    assert_eq!(names(&fx.ok(capped(4, "works", 1)).await.leases), ["works 0", "authors 0", "authors 1", "authors 2"]);
    assert!(fx.ok(capped(9, "works", 1)).await.leases.is_empty());
    assert!(fx.ok(capped(9, "works", 0)).await.leases.is_empty());
    assert_eq!(names(&fx.ok(capped(1, "works", 9)).await.leases), ["works 1"]);
    assert_eq!(names(&fx.ok(capped(9, "works", 9)).await.leases), ["works 2"], "its own limit stands");
    assert!(fx.ok(capped(9, "elsewhere", 9)).await.leases.is_empty());
}

/// Plans of different times may have different limits.
pub(super) async fn task_limit_applies_to_each_task(fx: Fixture) {
    fx.plan_with(at("works"), &make::windows(0, 3), |plan| plan.c_max = 1).await;
    fx.pass(TICK).await;
    let second = RequestJob { public_id: "second".into(), ..at("works") };
    fx.plan_with(second, &make::windows(30, 3), |plan| plan.c_max = 5).await;
    // The tasks have positions 0 to 5.
    let leases = fx.claim(9).await;
    assert_eq!(names(&leases), ["works 0", "works 3", "works 4"]);
    assert!(fx.claim(9).await.is_empty());
    for lease in &leases {
        fx.finish(lease, RunEnd::Succeeded).await;
    }
    assert_eq!(names(&fx.claim(9).await), ["works 1", "works 5"]);
}

pub(super) async fn reversed_claim_takes_the_last_priority_first(fx: Fixture) {
    fx.plan_of("backfill", Operation::Backfill, &make::windows(300, 2)).await;
    fx.plan("harvest", &make::windows(100, 2)).await;
    fx.plan_of("update", Operation::Update, &make::windows(200, 1)).await;
    let turned = |limit| ClaimTasks { reverse_priority: true, ..make::claim(limit, make::LONG) };
    assert_eq!(names(&fx.ok(turned(1)).await.leases), ["works 30"]);
    assert_eq!(names(&fx.claim(1).await), ["works 10"]);
    assert_eq!(names(&fx.ok(turned(9)).await.leases), ["works 31", "works 20", "works 11"]);
}

/// The order is reversed within a partition too: the least urgent task is first.
pub(super) async fn reversed_claim_of_a_full_partition_takes_its_last_task(fx: Fixture) {
    fx.plan_with(at("works"), &make::windows(0, 2), |plan| plan.c_max = 1).await;
    fx.pass(TICK).await;
    let late = RequestJob { public_id: "late".into(), ..at("works") };
    fx.plan_with(late, &make::windows(20, 2), |plan| (plan.c_max, plan.priority) = (1, 900)).await;
    let turned = ClaimTasks { reverse_priority: true, ..make::claim(9, make::LONG) };
    assert_eq!(names(&fx.ok(turned).await.leases), ["works 2"]);
    assert!(fx.claim(9).await.is_empty());
}

/// A task that is not due takes no position.
pub(super) async fn task_that_is_not_due_blocks_no_other(fx: Fixture) {
    fx.plan_with(at("works"), &make::windows(0, 3), |plan| plan.c_max = 1).await;
    for expected in ["works 0", "works 1", "works 2"] {
        let leases = fx.claim(9).await;
        assert_eq!(names(&leases), [expected]);
        let later = RunEnd::Requeue { delay: make::LONG, error: make::fault("later"), counted: true };
        fx.finish(&leases[0], later).await;
    }
    assert!(fx.claim(9).await.is_empty());
}

pub(super) async fn claim_for_one_partition_leaves_all_others(fx: Fixture) {
    plan(&fx, "works", 2).await;
    plan(&fx, "authors", 2).await;
    fx.plan_of("backfill", Operation::Backfill, &make::windows(300, 1)).await;
    let only = |endpoint: &str, operation| PartitionKey {
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: endpoint.into(),
        operation,
    };
    let claim = |only| ClaimTasks { only: Some(only), ..make::claim(9, make::LONG) };
    let claimed = fx.ok(claim(only("authors", Operation::Harvest))).await;
    assert_eq!(names(&claimed.leases), ["authors 0", "authors 1"]);
    assert!(fx.ok(claim(only("authors", Operation::Backfill))).await.leases.is_empty());
    assert!(fx.ok(claim(only("nothing", Operation::Harvest))).await.leases.is_empty());
    let claimed = fx.ok(claim(only(make::ENDPOINT, Operation::Backfill))).await;
    assert_eq!(claimed.leases.iter().map(|lease| lease.operation).collect::<Vec<_>>(), [Operation::Backfill]);
    assert_eq!(names(&fx.claim(9).await), ["works 0", "works 1"]);
}
