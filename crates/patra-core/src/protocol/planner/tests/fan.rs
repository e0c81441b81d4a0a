//! Jobs that cover many partitions, and full queues.

use super::*;
use crate::tx::{ClaimJob, FannedOut};

/// A planner that has this job and waits for its compilation.
fn compiling(options: Options) -> Driver {
    let mut driver = Driver(Planner::new(options, Rng::new(1), HERE));
    driver.0.poll(HERE, &mut Vec::new());
    driver.ok(Done::FireDue(FiredDue { fired: 1, next_due: None, now: DB_NOW }));
    driver.ok(Done::ClaimJob(Some(Box::new(claimed()))));
    driver
}

fn fan(users: &[&str], complete: bool) -> PlannerInput {
    let partitions = users.iter().map(|user| Params::from([("user".into(), (*user).into())])).collect();
    PlannerInput::Compiled(Ok(CompiledJob::Fan(PartitionBatch {
        partitions,
        position: r#"{"item":"b"}"#.into(),
        skipped: 2,
        complete,
    })))
}

fn claiming(wants: &[Want]) -> &ClaimJob {
    match wants {
        [Want::Tx(Tx::ClaimJob(take))] => take,
        other => panic!("expected to claim the next job: {other:?}"),
    }
}

// covers: ING-15-08
#[test]
fn job_with_open_partitions_becomes_one_child_per_partition() {
    let options = Options { max_partitions: 7, ..Options::new("me") };
    let mut driver = compiling(options.clone());
    let wants = driver.on(fan(&["a", "b"], false));
    let [Want::Tx(Tx::FanOut(fan))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!((fan.job, fan.fence), (JobId(1), Fence(2)));
    assert_eq!((fan.limit, fan.wait, fan.complete, fan.skipped), (7, options.inventory_wait, false, 2));
    assert_eq!(fan.position, r#"{"item":"b"}"#);
    let params: Vec<_> = fan.children.iter().map(|child| child.params.as_str()).collect();
    assert_eq!(params, [r#"{"user":"a"}"#, r#"{"user":"b"}"#]);
    assert!(fan.children.iter().all(|child| child.public_id.starts_with("t-1/")));
    assert_ne!(fan.children[0].public_id, fan.children[1].public_id);
    let wants = driver.ok(Done::FanOut(FannedOut { created: 2, existing: 0, children: 2 }));
    assert_eq!(claiming(&wants).owner, "me", "the rest, or the first of the partitions, is claimed like any job");
}

#[test]
fn job_with_too_many_partitions_is_refused_with_the_reason() {
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], false));
    let wants = driver.err(TxError::Refused("more than 7 partitions".into()));
    let [Want::Tx(Tx::SettleJob(settle))] = &wants[..] else { panic!("{wants:?}") };
    assert_eq!(settle.settlement, JobSettlement::Refused { error: "more than 7 partitions".into() });
}

#[test]
fn planner_that_lost_its_job_leaves_its_partitions_to_others() {
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], true));
    claiming(&driver.err(TxError::Fenced));
    // A planner that does not know whether they were made defers the job, if it still has it.
    let mut driver = compiling(Options::new("me"));
    driver.on(fan(&["a"], true));
    let outcome = outcome(&driver.err(TxError::Unknown(String::new())));
    assert!(matches!(outcome, Err(JobSettlement::Later { .. })), "{outcome:?}");
    claiming(&driver.err(TxError::Fenced));
}

// covers: ING-5.2-04
#[test]
fn jobs_of_a_full_partition_are_not_claimed() {
    let options = Options { inventory: 5, idle_poll: Duration::from_secs(10), ..Options::new("me") };
    let mut driver = Driver::reading(options.clone(), claimed());
    let wants = driver.covered(&Coverage { queued: 5, ..fresh() });
    assert!(matches!(&wants[..], [Want::Tx(Tx::SettleJob(_))]), "{wants:?}");
    let wants = driver.ok(Done::SettleJob(JobSettled));
    assert_eq!(claiming(&wants).full, [claimed().inventory()]);
    assert!(driver.ok(Done::ClaimJob(None)).is_empty());
    let mut wants = Vec::new();
    driver.0.poll(HERE + options.inventory_wait * 2, &mut wants);
    assert_eq!(claiming(&wants).full, [], "after the wait it is looked at again");
}
