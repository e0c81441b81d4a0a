//! The values behind the gauges.

use std::time::Duration;

use patra_core::Ts;
use patra_core::cursor::CursorScope;
use patra_core::port::load::{FORGOTTEN, ScopeProgress, StoreLoad};
use patra_core::state::Operation;
use patra_core::tx::{AdvanceCursor, PartitionKey, RunEnd};

use super::{Fixture, make};

fn partition(operation: Operation) -> PartitionKey {
    PartitionKey { provenance_code: make::PROVENANCE.into(), endpoint_name: make::ENDPOINT.into(), operation }
}

impl Fixture {
    pub(super) async fn load(&self) -> StoreLoad {
        self.subject.store.load().await.expect("the load")
    }
}

// covers: ING-14.4-05
pub(super) async fn load_counts_waiting_and_paused_tasks_by_partition(fx: Fixture) {
    let nothing = fx.load().await;
    assert_eq!((&nothing.queues, &nothing.reached, &nothing.scheduled), (&vec![], &vec![], &vec![]));
    let before = nothing.now;
    fx.plan("a", &make::windows(0, 3)).await;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let held = fx.next().await;
    let load = fx.load().await;
    let counts: Vec<_> =
        load.queues.iter().map(|queue| (queue.partition.operation, queue.queued, queue.active)).collect();
    assert_eq!(counts, [(Operation::Harvest, 2, 1), (Operation::Backfill, 1, 0)]);
    let oldest = load.queues[0].oldest.expect("a time");
    assert!(oldest >= before && oldest <= load.now, "{oldest:?}");
    assert_eq!((held.scheduled_at, held.priority), (oldest, 100), "what a lease says of its place in the queue");
    fx.finish(&held, RunEnd::Succeeded).await;
    for lease in fx.claim(3).await {
        fx.finish(&lease, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.load().await.queues, []);
}

// covers: ING-14.4-06
pub(super) async fn cursor_positions_are_reported_until_they_are_outdated(fx: Fixture) {
    let cursor = fx.plan("a", &make::windows(100, 2)).await.cursor;
    fx.plan_of("b", Operation::Backfill, &make::windows(0, 1)).await;
    let reached = |secs| {
        [ScopeProgress {
            partition: partition(Operation::Harvest),
            scope: CursorScope::Expr,
            instant: Ts::from_secs(secs),
        }]
    };
    let began = fx.load().await.reached;
    assert_eq!(began.len(), 1, "one that moves into the past is behind nothing: {began:?}");
    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Succeeded).await;
    let advance = fx.advance(cursor).await;
    let to = advance.target.expect("an event");
    assert!(fx.ok(AdvanceCursor { cursor, to, version: advance.version }).await.moved);
    assert_eq!(fx.load().await.reached, reached(110));
    fx.pass(FORGOTTEN).await;
    assert_eq!(fx.load().await.reached, reached(110));
    fx.pass(Duration::from_secs(1)).await;
    assert_eq!(fx.load().await.reached, []);
}

pub(super) async fn load_names_partitions_with_a_schedule(fx: Fixture) {
    fx.ok(make::provenance("h", &[(make::ENDPOINT, Some(make::LONG)), ("other", None)])).await;
    assert_eq!(fx.load().await.scheduled, [partition(Operation::Harvest)]);
}
