//! Fan-out of triggers into one trigger per partition, and the records that name partitions.

use std::sync::Arc;
use std::time::Duration;

use patra_core::params::{self, Params};
use patra_core::port::query::{Cell, View};
use patra_core::state::{JobStatus, Operation, TriggerType};
use patra_core::tx::{
    ChildJob, ClaimJob, ClaimedJob, FanOut, FannedOut, FireDue, MAX_CHILDREN, MAX_WAITING, ParentRecord, PartitionKey,
    ReadParents, RequestJob, RunEnd, SavePlan, TxError,
};
use patra_core::{CredentialId, Fence, Ts};

use super::{Fixture, make};

fn partition(user: &str) -> Params {
    Params::from([("user".into(), user.into())])
}

fn fan(taken: &ClaimedJob, users: &[&str], complete: bool) -> FanOut {
    make::fan(taken, users, complete)
}

async fn users(fx: &Fixture) -> Vec<(String, ClaimedJob)> {
    let mut found = Vec::new();
    while let Some(taken) = fx.take().await {
        let user = params::from_text(&taken.params).expect("params").remove("user").unwrap_or_default();
        found.push((user, taken));
    }
    found
}

// covers: ING-15-08, ING-3.3-01
pub(super) async fn fan_out_makes_one_trigger_per_partition(fx: Fixture) {
    let fire = RequestJob {
        trigger_type: TriggerType::Api,
        window_from: Some(Ts::from_secs(5)),
        window_to: Some(Ts::from_secs(90)),
        priority: -7,
        params: r#"{"lang":"en"}"#.into(),
        overrides: r#"{"pagination":{"page_size":5}}"#.into(),
        ..make::fire("job", Operation::Backfill)
    };
    fx.ok(fire.clone()).await;
    let taken = fx.take().await.expect("a trigger");
    assert_eq!((taken.params.as_str(), taken.overrides.as_str()), (r#"{"lang":"en"}"#, fire.overrides.as_str()));
    assert_eq!((taken.priority, taken.position.as_deref()), (-7, None));

    let made = fx.ok(Arc::new(fan(&taken, &["a", "b"], true))).await;
    assert_eq!(made, FannedOut { created: 2, existing: 0, children: 2 });
    let progress = fx.progress("job").await;
    assert_eq!((progress.job_status, progress.is_finished()), (JobStatus::Planned, false));
    let remarks: serde_json::Value = serde_json::from_str(&progress.remarks.expect("remarks")).expect("JSON");
    assert_eq!((&remarks["remark"], &remarks["partitions"]), (&"2 partitions".into(), &2.into()));

    let children = users(&fx).await;
    assert_eq!(children.iter().map(|(user, _)| user.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    for (user, child) in &children {
        assert_eq!(child.public_id, ChildJob::of("job", &partition(user)).public_id);
        assert_eq!(child.params, params::to_text(&partition(user)));
        assert_eq!((child.overrides.as_str(), child.priority), (fire.overrides.as_str(), -7));
        assert_eq!((child.trigger_type, child.operation), (TriggerType::Api, Operation::Backfill));
        assert_eq!((child.window_from, child.window_to), (fire.window_from, fire.window_to));
        assert_eq!((child.position.as_deref(), child.fence), (None, Fence(1)));
    }
    let jobs = fx.rows(View::Jobs).await;
    let parent = Cell::Int(taken.job.0);
    assert_eq!(jobs.column("parent_id"), [parent.clone(), parent, Cell::Null]);
    assert_eq!(jobs.texts("params"), [r#"{"user":"b"}"#, r#"{"user":"a"}"#, r#"{"lang":"en"}"#]);
}

pub(super) async fn fan_out_continues_where_it_stopped_and_makes_nothing_twice(fx: Fixture) {
    let taken = fx.trigger("job").await;
    let page = FanOut { position: r#"{"item":"b"}"#.into(), ..fan(&taken, &["a", "b"], false) };
    let made = fx.ok(Arc::new(page.clone())).await;
    assert_eq!((made.created, made.children), (2, 2));
    assert_eq!(fx.progress("job").await.job_status, JobStatus::Requested);
    // The lease was given back, so a repetition after a lost result writes nothing.
    assert_eq!(fx.run(Arc::new(page)).await, Err(TxError::Fenced));

    let again = fx.take().await.expect("the same trigger, before its children");
    assert_eq!((again.job, again.fence), (taken.job, Fence(taken.fence.0 + 1)));
    assert_eq!(again.position.as_deref(), Some(r#"{"item":"b"}"#));
    let made = fx.ok(Arc::new(fan(&again, &["b", "c"], true))).await;
    assert_eq!(made, FannedOut { created: 1, existing: 1, children: 3 });
    let names: Vec<_> = users(&fx).await.into_iter().map(|(user, _)| user).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

pub(super) async fn only_the_holder_of_a_trigger_makes_its_children(fx: Fixture) {
    let taken = fx.trigger("job").await;
    let foreign = FanOut { fence: Fence(taken.fence.0 + 1), ..fan(&taken, &["a"], true) };
    assert_eq!(fx.run(Arc::new(foreign)).await, Err(TxError::Fenced));
    assert_eq!(fx.rows(View::Jobs).await.len(), 1);
    fx.ok(Arc::new(fan(&taken, &["a"], true))).await;
    assert_eq!(fx.run(Arc::new(fan(&taken, &["b"], true))).await, Err(TxError::Fenced));
    assert_eq!(fx.rows(View::Jobs).await.len(), 2);
}

pub(super) async fn fan_out_over_the_partition_limit_is_refused_and_makes_none(fx: Fixture) {
    let taken = fx.trigger("job").await;
    fx.ok(Arc::new(FanOut { limit: 3, ..fan(&taken, &["a", "b"], false) })).await;
    let taken = fx.take().await.expect("the trigger");
    let more = FanOut { limit: 3, ..fan(&taken, &["b", "c", "d"], true) };
    let Err(TxError::Refused(reason)) = fx.run(Arc::new(more)).await else { panic!("four are too many") };
    assert!(reason.contains("more than 3 partitions"), "{reason}");
    assert_eq!(fx.rows(View::Jobs).await.len(), 3);
    // The lease is still valid, and a fan-out within the limit succeeds.
    let enough = FanOut { limit: 3, ..fan(&taken, &["b", "c"], true) };
    assert_eq!(fx.ok(Arc::new(enough)).await.children, 3);
}

pub(super) async fn trigger_without_a_partition_ends_with_a_remark(fx: Fixture) {
    let taken = fx.trigger("job").await;
    fx.ok(Arc::new(FanOut { skipped: 4, ..fan(&taken, &[], true) })).await;
    let progress = fx.progress("job").await;
    assert!(progress.is_finished());
    let remarks = progress.remarks.expect("remarks");
    assert!(remarks.contains("no partition to read") && remarks.contains("4 values fit no partition"), "{remarks}");
}

/// Waiting children delay their trigger, so that it does not fill the table.
pub(super) async fn trigger_waits_while_too_many_of_its_children_wait(fx: Fixture) {
    let wait = Duration::from_millis(400);
    let taken = fx.trigger("job").await;
    let mut next = Some(taken.clone());
    for page in 0..MAX_WAITING as usize / MAX_CHILDREN {
        let trigger = next.take().expect("the trigger comes first as long as few of its children wait");
        assert_eq!(trigger.job, taken.job);
        let names: Vec<_> = (0..MAX_CHILDREN).map(|at| format!("{page}-{at}")).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        fx.ok(Arc::new(FanOut { wait, ..fan(&trigger, &names, false) })).await;
        if page + 1 < MAX_WAITING as usize / MAX_CHILDREN {
            next = fx.take().await;
        }
    }
    let child = fx.take().await.expect("a child");
    assert_ne!(child.job, taken.job, "its trigger waits");
    fx.pass(wait + Duration::from_millis(50)).await;
    assert_eq!(fx.take().await.map(|trigger| trigger.job), Some(taken.job));
}

// covers: ING-5.2-04
pub(super) async fn triggers_of_a_full_inventory_are_not_claimed(fx: Fixture) {
    let (first, second) = (fx.fire("a").await, fx.fire("b").await);
    let other = fx.ok(make::fire("c", Operation::Backfill)).await.job;
    let full = make::key;
    let take = |full: Vec<PartitionKey>| ClaimJob { full, ..make::take(make::LONG) };
    assert_eq!(fx.ok(take(vec![full(Operation::Harvest), full(Operation::Backfill)])).await, None);
    let taken = fx.ok(take(vec![full(Operation::Update), full(Operation::Harvest)])).await;
    assert_eq!(taken.map(|taken| taken.job), Some(other));
    let elsewhere = PartitionKey { endpoint_name: "authors".into(), ..full(Operation::Harvest) };
    assert_eq!(fx.ok(take(vec![elsewhere])).await.map(|taken| taken.job), Some(first));
    assert_eq!(fx.take().await.map(|taken| taken.job), Some(second));
}

pub(super) async fn jobs_of_other_partitions_are_not_claimed_for_one(fx: Fixture) {
    let first = fx.fire("a").await;
    let second = fx.ok(make::fire("b", Operation::Backfill)).await.job;
    let only = |operation| ClaimJob { only: Some(make::key(operation)), ..make::take(make::LONG) };
    assert_eq!(fx.ok(only(Operation::Update)).await, None);
    assert_eq!(fx.ok(only(Operation::Backfill)).await.map(|taken| taken.job), Some(second));
    assert_eq!(fx.ok(only(Operation::Backfill)).await, None);
    assert_eq!(fx.take().await.map(|taken| taken.job), Some(first));
}

pub(super) async fn schedule_does_not_fire_while_its_partitions_wait(fx: Fixture) {
    let every = Duration::from_millis(300);
    fx.ok(make::provenance("h1", &[(make::ENDPOINT, Some(every))])).await;
    fx.pass(every + Duration::from_millis(20)).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
    let taken = fx.take().await.expect("the scheduled trigger");
    assert_eq!((taken.params.as_str(), taken.overrides.as_str()), ("{}", "{}"), "a schedule binds nothing");
    fx.ok(Arc::new(fan(&taken, &["a"], true))).await;
    fx.pass(every + Duration::from_millis(20)).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 0, "one partition still waits");
    let child = fx.take().await.expect("the partition");
    assert_eq!(child.trigger_type, TriggerType::Schedule);
    fx.ok(Arc::new(make::plan(&child, 0, &make::windows(0, 1)))).await;
    fx.pass(every + Duration::from_millis(20)).await;
    assert_eq!(fx.ok(FireDue { limit: 10 }).await.fired, 1);
}

pub(super) async fn progress_sums_up_a_trigger_and_all_its_partitions(fx: Fixture) {
    let taken = fx.trigger("job").await;
    fx.ok(Arc::new(fan(&taken, &["a", "b", "c", "d"], true))).await;
    let children = users(&fx).await;
    for (at, (user, child)) in children.iter().enumerate().take(2) {
        let plan = SavePlan {
            cursor: make::namespace(Operation::Harvest, user),
            ..make::plan(child, 0, &make::windows(100 * at as i64, 2))
        };
        fx.ok(Arc::new(plan)).await;
    }
    let refuse = patra_core::tx::JobSettlement::Refused { error: "no".into() };
    let (instance, fence) = children[2].1.lease();
    fx.ok(patra_core::tx::SettleJob { job: instance, fence, settlement: refuse }).await;

    // All of the first partition is done, half of the second.
    for _ in 0..3 {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, vec![make::record(&format!("r{}", lease.task), 1)], false).await;
        fx.end(&lease, run, RunEnd::Succeeded).await;
    }
    let progress = fx.progress("job").await;
    assert_eq!((progress.partitions, progress.partitions_waiting), (4, 1));
    assert_eq!((progress.partitions_failed, progress.partitions_open, progress.partitions_ended()), (1, 1, 2));
    assert_eq!((progress.tasks(), progress.tasks_succeeded, progress.tasks_queued), (4, 3, 1));
    assert_eq!((progress.batches, progress.inserted), (3, 3));
    assert!(!progress.is_finished());
    let child = fx.progress(&children[0].1.public_id).await;
    assert_eq!((child.partitions, child.tasks(), child.inserted, child.is_finished()), (0, 2, 2, true));

    let lease = fx.next().await;
    fx.finish(&lease, RunEnd::Succeeded).await;
    assert!(!fx.progress("job").await.is_finished(), "one partition is not even planned");
    let (instance, fence) = children[3].1.lease();
    let nothing = patra_core::tx::JobSettlement::Nothing { remark: "nothing".into() };
    fx.ok(patra_core::tx::SettleJob { job: instance, fence, settlement: nothing }).await;
    let progress = fx.progress("job").await;
    assert_eq!((progress.is_finished(), progress.partitions_ended()), (true, 4));
}

pub(super) async fn parents_are_listed_by_key_with_their_partition(fx: Fixture) {
    let ask = |after: Option<&str>, limit| ReadParents {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        dedup_scope: make::ENDPOINT.into(),
        after: after.map(str::to_owned),
        limit,
        payload: true,
    };
    assert_eq!(fx.ok(ask(None, 10)).await, []);
    fx.plan("a", &make::windows(0, 2)).await;
    let mut params = Vec::new();
    for keys in [["k2", "k1"], ["ü", "k3"]] {
        let lease = fx.next().await;
        let run = fx.start(&lease).await;
        fx.commit(&lease, run, 1, keys.map(|key| make::record(key, 1)).into(), false).await;
        params.push(lease.params);
    }
    let parent = |key: &str, task: usize| ParentRecord {
        key: key.into(),
        payload: format!(r#"{{"id":"{key}","at":1}}"#),
        task_params: Some(params[task].clone()),
    };
    let all = [parent("k1", 0), parent("k2", 0), parent("k3", 1), parent("ü", 1)];
    assert_eq!(fx.ok(ask(None, 10)).await, all);
    assert_eq!(fx.ok(ask(None, 2)).await, all[..2]);
    assert_eq!(fx.ok(ask(Some("k2"), 2)).await, all[2..]);
    assert_eq!(fx.ok(ask(Some("ü"), 2)).await, []);
    let bare = fx.ok(ReadParents { payload: false, ..ask(Some("k3"), 1) }).await;
    assert_eq!(bare, [ParentRecord { payload: String::new(), ..parent("ü", 1) }]);
    for elsewhere in [
        ReadParents { project_key: "mine".into(), ..ask(None, 10) },
        ReadParents { provenance_code: "other".into(), ..ask(None, 10) },
        ReadParents { endpoint_name: "authors".into(), ..ask(None, 10) },
        ReadParents { dedup_scope: "authors".into(), ..ask(None, 10) },
    ] {
        assert_eq!(fx.ok(elsewhere).await, []);
    }
}

pub(super) async fn params_that_are_not_json_are_refused(fx: Fixture) {
    for fire in [
        RequestJob { params: "{".into(), ..make::fire("a", Operation::Harvest) },
        RequestJob { overrides: "no".into(), ..make::fire("a", Operation::Harvest) },
    ] {
        assert!(matches!(fx.run(fire).await, Err(TxError::Refused(_))));
    }
    assert!(fx.rows(View::Jobs).await.is_empty());
    let taken = fx.trigger("a").await;
    let mut broken = fan(&taken, &["x"], true);
    broken.children[0].params = "{".into();
    assert!(matches!(fx.run(Arc::new(broken)).await, Err(TxError::Refused(_))));
    let nowhere = FanOut { position: "here".into(), ..fan(&taken, &["x"], false) };
    assert!(matches!(fx.run(Arc::new(nowhere)).await, Err(TxError::Refused(_))));
    assert_eq!(fx.rows(View::Jobs).await.len(), 1);
}

// covers: ING-3.10-03
pub(super) async fn task_names_the_credential_that_it_uses(fx: Fixture) {
    let taken = fx.trigger("a").await;
    let credential = Some(CredentialId(7));
    fx.ok(Arc::new(SavePlan { credential, ..make::plan(&taken, 0, &make::windows(0, 1)) })).await;
    assert_eq!(fx.rows(View::Tasks).await.column("credential_id"), [Cell::Int(7)]);
}
