//! Locks of executions without a heartbeat are taken back on time.

use std::time::Duration;

use patra_core::port::CommandsExt as _;
use patra_core::port::CrawlQueries as _;
use patra_core::port::crawl::CrawlFilter;
use patra_core::state::ExecutionStatus;
use patra_core::tx::{AcquireExecution, AddCandidates, CandidatesClaimed, ClaimCandidates, NewCandidate};
use patra_engine::EngineRole;

use crate::support::{MockApi, World, stop};

const LOCK_TIMEOUT: Duration = Duration::from_secs(30 * 60);

fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

/// Recovery runs every quarter of an hour from the start of the process on, for executions silent for half an hour.
// covers: CRAWL-129, CRAWL-DAY2-5, CRAWL-RULE-5
#[tokio::test(start_paused = true)]
async fn recovery_runs_every_15_minutes() {
    let world = World::new(MockApi::with(0));
    let engine = world.start_as("one", &[EngineRole::Maintenance]).await;
    tokio::time::sleep(minutes(1)).await;
    let (project_key, execution_id) = ("default".to_owned(), "exec-1-a".to_owned());
    let acquire = AcquireExecution {
        project_key: project_key.clone(),
        workflow_name: "w".into(),
        execution_id: execution_id.clone(),
        timeout: LOCK_TIMEOUT,
    };
    world.store.run(acquire).await.unwrap();
    let candidate =
        NewCandidate { note_id: "n".into(), note_url: String::new(), source_keyword: None, tokens: String::from("{}") };
    let add = AddCandidates { project_key: project_key.clone(), platform: "xhs".into(), candidates: vec![candidate] };
    world.store.run(std::sync::Arc::new(add)).await.unwrap();
    let claim = ClaimCandidates { project_key: None, execution_id, limit: 1, platform: None, timeout: LOCK_TIMEOUT };
    let claimed = world.store.run(claim).await.unwrap();
    assert!(matches!(&claimed, CandidatesClaimed::Claimed(records) if records.len() == 1), "{claimed:?}");

    let wanted = || CrawlFilter { project_key: project_key.clone(), limit: 10, ..CrawlFilter::default() };
    let state = async || {
        let execution = world.store.executions(wanted()).await.unwrap().remove(0).1;
        let candidate = world.store.candidates(wanted()).await.unwrap().remove(0);
        (execution.status, candidate.processing_lock.is_some())
    };
    // Silent for half an hour after 31 minutes; recovery runs at 15, 30 and 45.
    tokio::time::sleep(minutes(43)).await;
    assert_eq!(state().await, (ExecutionStatus::Running, true));
    tokio::time::sleep(minutes(2)).await;
    assert_eq!(state().await, (ExecutionStatus::Timeout, false));
    stop(engine).await;
}
