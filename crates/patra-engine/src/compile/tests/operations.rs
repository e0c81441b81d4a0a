//! HARVEST, BACKFILL and UPDATE of one endpoint, side by side.

use patra_core::cursor::CursorScope;
use patra_core::protocol::planner::SliceContext;
use patra_core::state::{Direction, UpdateReason};

use super::*;

const ORDERS: &str = r#"  orders:
    http: { base_url: "https://far.example", path: /orders }
    update: { detail: order, stale_after: P7D, segment_size: 50 }
    batching: { id_batch_size: 20 }
    COMMON
  order:
    role: detail
    http: { base_url: "https://far.example", path: /order }
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

fn asked(operation: Operation) -> ClaimedJob {
    let reason = (operation == Operation::Update).then_some(UpdateReason::Staleness);
    ClaimedJob { operation, reason, activity: Some("spring".into()), ..trigger("orders") }
}

/// Parts of a draft that are the same for every operation.
fn common(draft: &PlanDraft) -> SliceContext {
    SliceContext {
        operation: Operation::Harvest,
        snapshot_hash: String::new(),
        first: patra_core::paging::Position::Time,
        phase: Default::default(),
        priority: 0,
        ..draft.context.clone()
    }
}

// covers: ING-5.4-14, ING-6.0-01, ING-6.1-06, ING-6.3-07, ING-6.4-01
#[tokio::test]
async fn the_operations_differ_in_cursor_span_and_priority_and_in_nothing_else() {
    let store = store(ORDERS).await;
    let harvest = plan(&store, &asked(Operation::Harvest)).await;
    let backfill = plan(&store, &asked(Operation::Backfill)).await;
    let update = plan(&store, &asked(Operation::Update)).await;

    let cursor = |draft: &PlanDraft| {
        let name = &draft.cursor;
        (name.cursor_key.clone(), name.scope, name.operation.direction())
    };
    assert_eq!(cursor(&harvest), ("updated_at".into(), CursorScope::Expr, Direction::Forward));
    assert_eq!(cursor(&backfill), ("updated_at".into(), CursorScope::Custom, Direction::Backfill));
    assert_eq!(cursor(&update), ("item_id".into(), CursorScope::Custom, Direction::Forward));
    assert_ne!(harvest.cursor.namespace_key, backfill.cursor.namespace_key);

    // Slices are windows of time, or ids of stored records, which are fetched in the second phase alone.
    let PlanSpan::Time { cut, initial, .. } = &harvest.span else { panic!("{:?}", harvest.span) };
    let PlanSpan::Time { cut: same_cut, initial: same, .. } = &backfill.span else { panic!("{:?}", backfill.span) };
    assert_eq!((cut, initial), (same_cut, same));
    let PlanSpan::Ids { refresh, .. } = &update.span else { panic!("{:?}", update.span) };
    assert_eq!((refresh.reason, refresh.size), (UpdateReason::Staleness, 50));
    let two_phase = [&harvest, &backfill, &update].map(|draft| draft.context.phase.two_phase);
    assert_eq!(two_phase, [false, false, true]);

    let priority = [&harvest, &update, &backfill].map(|draft| draft.context.priority);
    assert_eq!(priority, [100, 200, 300], "smaller goes first");
    let urgent = ClaimedJob { priority: -250, ..asked(Operation::Backfill) };
    assert_eq!(plan(&store, &urgent).await.context.priority, 50, "and a trigger may say otherwise");

    for other in [&backfill, &update] {
        assert_eq!((other.c_max, other.inventory), (harvest.c_max, harvest.inventory));
        assert_eq!(common(other), common(&harvest));
    }
}
