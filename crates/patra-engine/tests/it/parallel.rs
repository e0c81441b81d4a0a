//! A harvest, a backfill and an update of one endpoint at the same time.

use std::time::Duration;

use patra_core::cursor::CursorValue;
use patra_core::port::{CommandsExt, Queries};
use patra_core::state::{Operation, UpdateReason};
use patra_core::tx::RequestJob;
use patra_core::{Ts, Window};

use crate::support::{END, MANIFEST, MockApi, World, fire, stop};

const DETAIL: &str = r#"    update: { detail: one, stale_after: PT1S, segment_size: 10 }
    batching: { id_batch_size: 5 }
  one:
    role: detail
    http: { base_url: "http://far.example", path: /one }
    query: { ids: "${ ids | join(',') }" }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

/// The value of an operation's cursor. Also checks that every value is allowed by an event.
fn value(world: &World, operation: Operation) -> Option<CursorValue> {
    let store = world.store.lock();
    let cursor = store.cursors.iter().find(|cursor| cursor.name.operation == operation)?;
    let value = cursor.value.clone()?;
    let recorded = store.events.iter().any(|event| event.cursor == cursor.id && event.value == value);
    assert!(recorded, "{operation}: {value:?} has no event");
    Some(value)
}

// covers: ING-DOD-03, ING-1.2-06
// covers: ING-0.3-01, ING-2.6-02
#[tokio::test(start_paused = true)]
async fn three_operations_side_by_side_move_their_own_cursors_and_no_other() {
    let world = World::new(MockApi { latency: Duration::from_millis(500), ..MockApi::with(120) });
    // The harvest begins after one minute; the backfill reads the time before.
    let fine = MANIFEST.replace("initial: 1970-01-01", "initial: 1970-01-01T00:01:00Z");
    world.apply(&(fine.replace("max_window: PT1M", "max_window: PT5S") + DETAIL)).await;
    let engine = world.start("one").await;
    let at = |secs| CursorValue::At(Ts::from_secs(secs));
    world.store.run(RequestJob { window_to: Some(Ts::from_secs(90)), ..fire("first") }).await.unwrap();
    engine.nudge();
    world.finished("first").await;
    assert_eq!((value(&world, Operation::Harvest), world.items()), (Some(at(90)), 30));
    // Waits until all of them are stale.
    tokio::time::sleep(Duration::from_secs(2)).await;

    let past = Window { from: Ts::from_secs(0), to: Ts::from_secs(60) };
    let jobs = [
        fire("harvest"),
        RequestJob {
            operation: Operation::Backfill,
            window_from: Some(past.from),
            window_to: Some(past.to),
            ..fire("backfill")
        },
        RequestJob {
            operation: Operation::Update,
            reason: Some(UpdateReason::Staleness),
            window_to: None,
            ..fire("update")
        },
    ];
    for job in &jobs {
        world.store.run(job.clone()).await.unwrap();
    }
    engine.nudge();
    let (mut before, mut together) = (Ts::from_secs(90), 0);
    loop {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = value(&world, Operation::Harvest).and_then(|value| value.instant()).unwrap();
        assert!(before <= now && now <= END, "{before} to {now}");
        before = now;
        for operation in [Operation::Backfill, Operation::Update] {
            value(&world, operation);
        }
        let mut open = 0;
        for job in &jobs {
            open += usize::from(!world.store.progress(&job.public_id).await.unwrap().unwrap().is_finished());
        }
        together += usize::from(open == 3);
        if open == 0 {
            break;
        }
    }
    assert!(together > 10, "they ran at the same time");
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop(engine).await;
    assert_eq!(value(&world, Operation::Harvest), Some(CursorValue::At(END)));
    assert_eq!(value(&world, Operation::Backfill), Some(at(0)), "down to its beginning");
    assert!(
        matches!(value(&world, Operation::Update), Some(CursorValue::Nth { ordinal: 3, .. })),
        "thirty records, ten each"
    );
    assert_eq!(world.items(), 120);
}
