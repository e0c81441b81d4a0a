//! Reads of the registry, and their number.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_core::state::{JobStatus, TaskStatus};
use patra_engine::{EngineRole, registry};

use crate::support::{MANIFEST, MockApi, World, stop};

// covers: ING-3.1-03, ING-3.5-01, ING-3.8-03, ING-3.10-04, ING-5.1-04, ING-DOD-05, ING-1.2-04, ING-1.3-03, ING-2.2-01
#[tokio::test(start_paused = true)]
async fn an_executor_needs_nothing_of_the_registry() {
    let (world, registry_reads) = World::new(MockApi::with(95)).with_watched_store();
    world.fire("job").await;
    let planner = world.start_as("planner", &[EngineRole::Planner]).await;
    while world.store.lock().tasks.is_empty() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop(planner).await;
    registry::remove(&world.store, "far").await.unwrap();
    registry_reads.store(0, Relaxed);

    let executor = world.start_as("executor", &[EngineRole::Executor]).await;
    let progress = world.finished("job").await;
    stop(executor).await;
    assert_eq!((progress.inserted, progress.tasks_succeeded), (95, 2));
    assert_eq!(registry_reads.load(Relaxed), 0, "the snapshot was enough");
}

/// The number of statements of a compile does not grow with the manifest: each read is one statement of the store.
// covers: ING-3.7-03, ING-2.2-01, ING-2.3-01
#[tokio::test(start_paused = true)]
async fn a_plan_reads_the_registry_once_however_much_is_in_it() {
    for endpoints in [1, 40] {
        let (world, registry_reads) = World::new(MockApi::with(95)).with_watched_store();
        let (head, records) = MANIFEST.split_once("  records:").unwrap();
        let names = (1..endpoints).map(|at| format!("records-{at}")).chain(["records".to_owned()]);
        let all: String = names.map(|name| format!("  {name}:{records}")).collect();
        world.apply(&format!("{head}{all}")).await;
        registry_reads.store(0, Relaxed);
        let engine = world.start("one").await;
        world.ask("job").await;
        engine.nudge();
        assert_eq!(world.finished("job").await.inserted, 95);
        stop(engine).await;
        assert_eq!(registry_reads.load(Relaxed), 1, "{endpoints} endpoints");
    }
}

#[tokio::test(start_paused = true)]
async fn unplannable_manifest_makes_no_plan_and_reports_why() {
    let world = World::new(MockApi::with(95));
    // A sound manifest, but its harvest has no beginning.
    world.apply(&MANIFEST.replace(", initial: 1970-01-01", "")).await;
    let engine = world.start("one").await;
    world.ask("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    stop(engine).await;
    assert_eq!((progress.job_status, progress.tasks()), (JobStatus::Failed, 0));
    let remarks = progress.remarks.unwrap();
    assert!(remarks.contains("HARVEST needs `initial`"), "{remarks}");
    let store = world.store.lock();
    assert!(store.plans.is_empty() && !store.tasks.iter().any(|task| task.status == TaskStatus::Queued));
}

#[tokio::test]
async fn a_manifest_is_checked_for_what_each_endpoint_is_meant_for() {
    let sound = registry::check("far.yaml", MANIFEST).unwrap();
    assert_eq!(sound.manifest.provenance, "far");
    let problems = registry::check("far.yaml", &MANIFEST.replace(", initial: 1970-01-01", "")).unwrap_err();
    assert!(problems[0].message.contains("HARVEST needs `initial`") && problems[0].line > 0, "{problems:?}");

    let (before, rest) = MANIFEST.split_once("    window:").unwrap();
    let unwindowed = format!("{before}{}", rest.split_once('\n').unwrap().1)
        .replace(", from: \"${ window.from | epoch }\", to: \"${ window.to | epoch }\"", "");
    let checked = registry::check("far.yaml", &unwindowed).unwrap();
    assert!(checked.warnings.iter().any(|warning| warning.contains("cannot be harvested")), "{:?}", checked.warnings);
    // A polled endpoint has no window on purpose.
    let polled = registry::check("collector.yaml", patra_engine::sources::BUILT_IN).unwrap();
    assert!(!polled.warnings.iter().any(|warning| warning.contains("cannot be harvested")), "{:?}", polled.warnings);
    // A schedule needs an endpoint that is complete.
    let scheduled = unwindowed.replace("    pagination:", "    schedule: { every: PT1H }\n    pagination:");
    assert!(registry::check("far.yaml", &scheduled).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_registry_that_cannot_be_read_any_more_is_fixed_by_applying() {
    let world = World::new(MockApi::with(1));
    world.apply(MANIFEST).await;
    {
        let mut store = world.store.lock();
        store.sections.get_mut("far").unwrap()[0].config = r#"{"colour":"red"}"#.into();
        store.provenances[0].document_hash = "another".into();
    }
    let broken = registry::manifest(&world.store, None, "far").await.unwrap_err().to_string();
    assert!(broken.contains("colour"), "{broken}");
    let manifest = registry::check("far.yaml", MANIFEST).unwrap().manifest;
    let outcome = registry::apply(&world.store, &manifest).await.unwrap();
    assert_eq!(registry::word(outcome.result), "changed");
    assert_eq!(registry::manifest(&world.store, None, "FAR ").await.unwrap().version(), manifest.version());
}
