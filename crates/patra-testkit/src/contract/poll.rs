//! Polls: their rows, their order, and the effects of their ends on the source.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{Cell, View};
use patra_core::port::source::SourceFilter;
use patra_core::source::{FETCH_NOW_PRIORITY, FIRST_FETCH_PRIORITY, MAX_FAILURES, Validators};
use patra_core::state::{Operation, PauseKind, PausedReason, TaskStatus};
use patra_core::tx::{
    ChangeSource, ClaimPolls, HurryPoll, NewPoll, NewSource, NewSourceConfig, PauseSubject, PollEnd, QueuePolls,
    RedriveTarget, RedriveWork, RunEnd, Sweep, TxError, UnfitPoll,
};
use patra_core::{CursorId, SourceId, TaskId};

use super::source::{PROJECT, at, failed, feed, is_after, poll_end};
use super::{Fixture, make};

const MINUTE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(240 * 60);

fn tasks(leases: &[patra_core::tx::Lease]) -> Vec<TaskId> {
    leases.iter().map(|lease| lease.task).collect()
}

pub(super) async fn poll_is_a_plan_of_one_slice_with_one_task(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    let task = fx.queue(&ids).await[0];
    let job = fx.rows(View::Jobs).await;
    assert_eq!(job.texts("public_id"), [format!("source-{}-0", ids[0])]);
    assert_eq!(
        (job.texts("status_code"), job.texts("trigger_type_code")),
        (vec!["PLANNED".into()], vec!["SCHEDULE".into()])
    );
    let plan = fx.rows(View::Plans).await;
    assert_eq!((plan.texts("plan_strategy"), plan.texts("status_code")), (vec!["SINGLE".into()], vec!["READY".into()]));
    assert_eq!((plan.at(0, "window_from"), plan.texts("spec_fingerprint")), (Cell::Null, vec!["spec".into()]));
    let slices = fx.rows(View::Slices).await;
    let spec: serde_json::Value = serde_json::from_str(&slices.texts("slice_spec")[0]).expect("JSON");
    assert_eq!(spec, serde_json::json!({ "strategy": "SINGLE", "source": ids[0] }));
    assert_eq!(fx.subject.store.snapshot("spec").await, Ok(Some(r#"{"spec":1}"#.into())));
    let lineage = fx.lineage(patra_core::PlanId(plan.ids()[0])).await;
    assert_eq!((lineage.slices.len(), lineage.tasks.len()), (1, 1));
    assert_eq!(lineage.job["scheduler_code"], "collector");
    assert_eq!(lineage.job["scheduler_job_id"], format!("source-{}", ids[0]));
    let lease = fx.claim_polls("me", 5, 2).await.remove(0);
    assert_eq!((lease.task, lease.source, lease.cursor), (task, Some(ids[0]), CursorId(0)));
    assert_eq!((lease.attempts, lease.fence.0, lease.window, lease.credential), (1, 1, None, None));
    assert_eq!((&*lease.project_key, &*lease.provenance_code), (PROJECT, make::PROVENANCE));
    assert_eq!((&*lease.expr_hash, &*lease.params), (&*format!("expr {}", ids[0]), r#"{"url":"x"}"#));
    let row = fx.rows(View::Tasks).await;
    assert_eq!(row.text_of(task.0, "lease_owner"), "me");
    // From here on the poll is like any other task.
    let (run, _) = fx.start_poll(&lease).await;
    assert_eq!(fx.commit(&lease, run, 1, vec![make::record("x", 1)], false).await.stats.inserted, 1);
    assert_eq!(fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(ids[0])).await, TaskStatus::Succeeded);
    let progress = fx.progress(&format!("source-{}-0", ids[0])).await;
    assert_eq!((progress.tasks_succeeded, progress.batches, progress.inserted), (1, 1, 1));
}

pub(super) async fn source_that_changed_meanwhile_is_not_polled(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b"), feed("c"), feed("d")]).await;
    let seen = fx.new_poll(ids[0]).await;
    let mut gone = Vec::new();
    for id in [ids[2], ids[3]] {
        gone.push(fx.new_poll(id).await);
    }
    fx.change(ids[2], ChangeSource { delete: true, ..ChangeSource::default() }).await.expect("a deletion");
    let stale = NewPoll { poll_count: 1, ..fx.new_poll(ids[1]).await };
    let unknown = NewPoll { source: SourceId(ids[3].0 + 1_000), ..seen.clone() };
    let answer = fx.poll(vec![seen.clone(), stale, gone[0].clone(), unknown, gone[1].clone(), seen.clone()]).await;
    let queued: Vec<_> = answer.iter().map(Option::is_some).collect();
    assert_eq!(queued, [true, false, false, false, true, false]);
    let source = fx.source(ids[0]).await;
    assert_eq!(source.poll_count, 1);
    assert!(source.polling.is_some());
    // While the poll has not ended, there is no other one of the source.
    let next = fx.new_poll(ids[0]).await;
    assert_eq!(fx.poll(vec![next.clone(), seen.clone()]).await, [None, None]);
    let leases = fx.claim_polls("me", 9, 9).await;
    assert_eq!(fx.poll(vec![next.clone()]).await, [None]);
    let (run, _) = fx.start_poll(&leases[0]).await;
    assert_eq!(fx.poll(vec![next.clone()]).await, [None]);
    fx.end_poll(&leases[0], run, RunEnd::Succeeded, poll_end(ids[0])).await;
    assert_eq!(fx.poll(vec![seen, next.clone()]).await.iter().map(Option::is_some).collect::<Vec<_>>(), [false, true]);
    assert_eq!(fx.poll(vec![next]).await, [None]);
    // A source that was paused by hand can be polled by hand.
    let paused = fx.feeds(&[NewSource { is_active: false, ..feed("e") }]).await;
    fx.queue(&paused).await;
    assert_eq!(fx.state(paused[0]).await.next_due_at, None);
    assert_eq!(fx.poll(Vec::new()).await, []);
    let broken = NewPoll { params: "{".into(), ..fx.new_poll(ids[1]).await };
    let answer =
        fx.run(Arc::new(QueuePolls { polls: vec![broken], unfit: Vec::new(), snapshots: Vec::new(), job: None })).await;
    assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    assert_eq!(fx.source(ids[1]).await.poll_count, 0, "what is refused leaves nothing behind");
}

// covers: COLL-48
pub(super) async fn crash_does_not_repeat_a_poll_endlessly(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    let now = fx.now().await;
    fx.queue(&ids).await;
    is_after(fx.state(ids[0]).await.next_due_at, now, INTERVAL, 0);
    assert_eq!(fx.due().await.sources, []);
    let dead = fx.ok(ClaimPolls { owner: "dead".into(), limit: 1, lease: make::SHORT, per_host: 1 }).await;
    fx.pass(make::BEYOND).await;
    let swept = fx.ok(Sweep { limit: 10, max_attempts: 1, all_owners: false, longest_lease: make::LONG }).await;
    assert_eq!(swept.failed, tasks(&dead.leases));
    let state = fx.state(ids[0]).await;
    assert_eq!((state.fetch_error_count, state.last_error), (0, None));
    is_after(state.next_due_at, now, INTERVAL, 0);
}

pub(super) async fn polls_are_queued_together_in_order(fx: Fixture) {
    let sources: Vec<_> = (0..500).map(|no| feed(&format!("s{no}"))).collect();
    let ids = fx.feeds(&sources).await;
    let mut polls = Vec::new();
    for source in fx.subject.store.sources(Default::default()).await.expect("sources") {
        polls.push(super::source::poll_of(&source));
    }
    polls.reverse();
    let order: Vec<_> = polls.iter().map(|poll| poll.source).collect();
    let made: Vec<_> = fx.poll(polls).await.into_iter().flatten().collect();
    assert_eq!((ids.len(), made.len()), (500, 500));
    let leases = fx.claim_polls("me", 500, 1).await;
    assert_eq!(leases.iter().filter_map(|lease| lease.source).collect::<Vec<_>>(), order);
    assert_eq!(tasks(&leases), made);
    assert_eq!((fx.due().await.sources, fx.claim_polls("me", 500, 1).await), (Vec::new(), Vec::new()));
}

// covers: COLL-120
pub(super) async fn polls_are_claimed_by_time_within_the_limit_of_a_host(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d", "e"].map(feed)).await;
    let now = fx.now().await;
    let mut polls = Vec::new();
    for (id, host) in ids.iter().zip(["one", "one", "one", "two", "one"]) {
        polls.push(NewPoll { host: host.into(), ..fx.new_poll(*id).await });
    }
    polls[4].at = now + make::LONG;
    let made: Vec<_> = fx.poll(polls).await.into_iter().flatten().collect();
    let first = fx.claim_polls("x", 1, 2).await;
    assert_eq!(tasks(&first), made[..1]);
    // The limit applies across owners.
    assert_eq!(tasks(&fx.claim_polls("y", 9, 2).await), [made[1], made[3]]);
    assert_eq!(fx.claim_polls("x", 9, 2).await, []);
    assert_eq!(fx.claim_polls("x", 9, 0).await, []);
    let (run, _) = fx.start_poll(&first[0]).await;
    assert_eq!(fx.claim_polls("x", 9, 2).await, [], "one that is executed counts too");
    fx.end_poll(&first[0], run, RunEnd::Succeeded, poll_end(ids[0])).await;
    assert_eq!(tasks(&fx.claim_polls("x", 9, 2).await), [made[2]]);
    assert_eq!(fx.claim_polls("x", 9, 9).await, [], "the last one's time has not come");
    assert_eq!(fx.ok(HurryPoll { source: ids[4] }).await.task, Some(made[4]));
    assert_eq!(tasks(&fx.claim_polls("x", 9, 9).await), [made[4]]);
    // Hurrying changes nothing for a poll in progress, or without a poll.
    assert_eq!(fx.ok(HurryPoll { source: ids[4] }).await.task, Some(made[4]));
    assert_eq!(fx.ok(HurryPoll { source: ids[0] }).await.task, None);
}

// covers: COLL-33, COLL-120
pub(super) async fn concurrent_collectors_keep_to_the_limit_of_a_host(fx: Fixture) {
    let names: Vec<_> = (0..30).map(|no| feed(&format!("s{no}"))).collect();
    let ids = fx.feeds(&names).await;
    let mut polls = Vec::new();
    for (no, id) in ids.iter().enumerate() {
        polls.push(NewPoll { host: format!("host {}", no % 3), ..fx.new_poll(*id).await });
    }
    fx.poll(polls).await;
    let claims = (0..20).map(|no| {
        let fx = fx.clone();
        tokio::spawn(async move { fx.claim_polls(&format!("c{no}"), 3, 2).await })
    });
    let mut taken = Vec::new();
    for claim in claims.collect::<Vec<_>>() {
        taken.extend(tasks(&claim.await.expect("a claim")));
    }
    taken.sort_unstable();
    let all = taken.len();
    taken.dedup();
    assert_eq!((taken.len(), all), (6, 6), "two of each host, and none twice");
}

pub(super) async fn concurrent_polls_of_a_source_make_one(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(feed)).await;
    let mut polls = Vec::new();
    for id in &ids {
        polls.push(fx.new_poll(*id).await);
    }
    let asked = (0..20).map(|no| {
        let (fx, mut polls) = (fx.clone(), polls.clone());
        // Each caller uses another order.
        polls.rotate_left(no % 3);
        tokio::spawn(async move { fx.poll(polls).await.into_iter().flatten().count() })
    });
    let mut queued = 0;
    for asked in asked.collect::<Vec<_>>() {
        queued += asked.await.expect("an answer");
    }
    assert_eq!((queued, fx.rows(View::Tasks).await.len()), (3, 3));
}

pub(super) async fn paused_poll_is_not_claimed(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(feed)).await;
    let made = fx.queue(&ids).await;
    fx.ok(make::hold(PauseKind::Pause, PauseSubject { task: Some(made[0]), ..PauseSubject::default() })).await;
    let advice = make::hold(PauseKind::Advisory, make::partition(Operation::Harvest));
    fx.ok(advice).await;
    assert_eq!(tasks(&fx.claim_polls("x", 1, 9).await), [made[1]]);
    let all = fx.ok(make::hold(PauseKind::Break, make::partition(Operation::Harvest))).await;
    assert_eq!(fx.claim_polls("x", 9, 9).await, []);
    let release = patra_core::tx::ResumeWork { target: patra_core::tx::PauseSelector::Id(all.pause), by: "me".into() };
    fx.ok(release).await;
    assert_eq!(tasks(&fx.claim_polls("x", 9, 9).await), [made[2]]);
}

pub(super) async fn polls_are_not_claimed_by_other_executors(fx: Fixture) {
    let ids = fx.feeds(&["a", "b"].map(feed)).await;
    fx.plan("plan", &make::windows(0, 1)).await;
    let made = fx.queue(&ids).await;
    assert_eq!(fx.coverage().await.queued, 1, "they are not in the inventory");
    let claimed = fx.claim(9).await;
    assert_eq!((claimed.len(), claimed[0].source), (1, None));
    assert_eq!(tasks(&fx.claim_polls("x", 9, 9).await), made);
    // A poll whose lease is swept is a poll again.
    fx.sweep(true).await;
    assert_eq!(fx.claim(9).await.iter().filter(|lease| lease.source.is_some()).count(), 0);
    assert_eq!(tasks(&fx.claim_polls("x", 9, 9).await), made);
}

pub(super) async fn change_cancels_only_a_waiting_poll(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d", "e"].map(feed)).await;
    let running = fx.polled(ids[4]).await;
    let made = fx.queue(&ids[..4]).await;
    let NewSource { config, source_key, .. } = feed("z");
    let config = Some(NewSourceConfig { config, source_key, minutes: None });
    let plain = ChangeSource::default;
    for (id, change) in [
        (ids[0], ChangeSource { is_active: Some(false), ..plain() }),
        (ids[1], ChangeSource { config, ..plain() }),
        (ids[2], ChangeSource { delete: true, ..plain() }),
        (ids[3], ChangeSource { name: Some("D".into()), is_active: Some(true), ..plain() }),
        (ids[4], ChangeSource { is_active: Some(false), ..plain() }),
    ] {
        fx.change(id, change).await.expect("a change");
    }
    let rows = fx.rows(View::Tasks).await;
    let states: Vec<_> = made.iter().map(|task| rows.text_of(task.0, "status_code")).collect();
    assert_eq!(states, ["CANCELLED", "CANCELLED", "CANCELLED", "QUEUED"]);
    assert!(matches!(rows.of(made[0].0, "finished_at"), Cell::Time(_)));
    assert_eq!(fx.task_status(&running).await, "DISPATCHED");
    // With another config it is due at once, and can be polled.
    assert_eq!((fx.due().await.sources, fx.source(ids[1]).await.polling), (vec![ids[1]], None));
    fx.queue(&[ids[1]]).await;
}

// covers: COLL-49, COLL-89
pub(super) async fn success_is_counted_and_the_next_poll_is_an_interval_later(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    fx.fetch(ids[0], failed("no"), poll_end(ids[0])).await;
    let now = fx.now().await;
    let partial = RunEnd::Partial { error: make::fault("half") };
    for (no, end) in [RunEnd::Succeeded, partial].into_iter().enumerate() {
        fx.fetch(ids[0], end, poll_end(ids[0])).await;
        let state = fx.state(ids[0]).await;
        assert_eq!((state.fetch_count, state.fetch_error_count), (no as i64 + 1, 0));
        assert_eq!((state.last_error, state.last_error_at, state.paused), (None, None, None));
        is_after(state.last_fetched_at, now, Duration::ZERO, 0);
        is_after(state.next_due_at, now, INTERVAL, 10);
    }
    assert_eq!(fx.source(ids[0]).await.polling, None);
}

// covers: COLL-50, COLL-51, COLL-52, COLL-122
pub(super) async fn failures_back_off_and_the_fifth_pauses_the_source(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    let id = ids[0];
    for failure in 1..=MAX_FAILURES {
        let now = fx.now().await;
        assert_eq!(fx.fetch(id, failed(&format!("no {failure}")), poll_end(id)).await, TaskStatus::Failed);
        let state = fx.state(id).await;
        assert_eq!((state.fetch_error_count, state.last_error), (failure, Some(format!("no {failure}"))));
        assert_eq!((state.last_fetched_at, state.fetch_count), (None, 0));
        if failure < MAX_FAILURES {
            assert_eq!(state.paused, None);
            is_after(state.next_due_at, now, 5 * MINUTE * (1 << (failure - 1)), 20);
        } else {
            assert_eq!((state.paused, state.probe_count), (Some(PausedReason::Error), 0));
            is_after(state.paused_at, now, Duration::ZERO, 0);
            is_after(state.next_due_at, now, Duration::from_secs(86_400), 10);
        }
    }
    assert_eq!(fx.state(ids[1]).await, patra_core::source::SourceState::due_now(), "the other one has not failed");
    // A further failure keeps the pause, and a success ends it.
    fx.fetch(id, failed("still"), poll_end(id)).await;
    assert_eq!((fx.state(id).await.probe_count, fx.state(id).await.paused), (1, Some(PausedReason::Error)));
    fx.fetch(id, RunEnd::Succeeded, poll_end(id)).await;
    let state = fx.state(id).await;
    assert_eq!((state.paused, state.paused_at, state.fetch_error_count, state.probe_count), (None, None, 0, 0));
    // A source that was paused by errors is due at once when resumed by hand.
    for _ in 0..MAX_FAILURES {
        fx.fetch(id, failed("no"), poll_end(id)).await;
    }
    fx.change(id, ChangeSource { is_active: Some(true), ..ChangeSource::default() }).await.expect("a resumption");
    let state = fx.state(id).await;
    assert_eq!((state.paused, state.fetch_error_count), (None, 0));
    assert!(fx.due().await.sources.contains(&id));
}

// covers: COLL-55
pub(super) async fn gone_source_is_paused_and_an_offline_failure_is_not_counted(fx: Fixture) {
    let ids = fx.feeds(&[feed("gone"), feed("offline"), feed("later")]).await;
    fx.fetch(ids[0], failed("410"), PollEnd { gone: true, ..poll_end(ids[0]) }).await;
    let gone = fx.state(ids[0]).await;
    assert_eq!((gone.paused, gone.fetch_error_count), (Some(PausedReason::Gone), 1));
    for _ in 0..=MAX_FAILURES {
        fx.fetch(ids[1], failed("no network"), PollEnd { offline: true, ..poll_end(ids[1]) }).await;
    }
    let offline = fx.state(ids[1]).await;
    assert_eq!((offline.paused, offline.fetch_error_count), (None, 0));
    assert_eq!(offline.last_error.as_deref(), Some("no network"));
    // A poll that waits to be tried again has not ended.
    let lease = fx.polled(ids[2]).await;
    let before = fx.state(ids[2]).await;
    let (run, _) = fx.start_poll(&lease).await;
    let requeue = |counted| RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted };
    let known = Some(Validators { url: "u".into(), ..Validators::default() });
    let end = PollEnd { validators: known, moved_to: Some("https://x.example/".into()), ..poll_end(ids[2]) };
    assert_eq!(fx.end_poll(&lease, run, requeue(false), end).await, TaskStatus::Queued);
    assert_eq!(fx.state(ids[2]).await, before);
    let lease = fx.claim_polls("x", 1, 1).await.remove(0);
    let (run, known) = fx.start_poll(&lease).await;
    assert_eq!(known, None);
    // A counted requeue without attempts left is a failure.
    assert_eq!(fx.end_poll(&lease, run, requeue(true), poll_end(ids[2])).await, TaskStatus::Failed);
    let state = fx.state(ids[2]).await;
    assert_eq!((state.fetch_error_count, state.last_error.as_deref()), (1, Some("later")));
    // A repeated end changes nothing.
    fx.end_poll(&lease, run, requeue(true), poll_end(ids[2])).await;
    assert_eq!(fx.state(ids[2]).await, state);
}

pub(super) async fn validators_are_returned_to_the_next_run(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    let known = |etag: &str| Validators {
        url: "https://a.example/feed".into(),
        etag: Some(etag.into()),
        feed_url: Some("https://a.example/\"ü".into()),
        ..Validators::default()
    };
    let mut expected = None;
    for (given, after) in [(Some("1"), Some("1")), (None, Some("1")), (Some("2"), Some("2"))] {
        let lease = fx.polled(ids[0]).await;
        let (run, found) = fx.start_poll(&lease).await;
        assert_eq!(found, expected.map(known));
        assert_eq!(fx.start_poll(&lease).await.1, found, "a repeated start returns the same");
        let end = PollEnd { validators: given.map(known), ..poll_end(ids[0]) };
        fx.end_poll(&lease, run, RunEnd::Succeeded, end).await;
        expected = after;
    }
    // A failure may clear the validators.
    let end = PollEnd { validators: Some(Validators::default()), ..poll_end(ids[0]) };
    fx.fetch(ids[0], failed("no"), end).await;
    let lease = fx.polled(ids[0]).await;
    assert_eq!(fx.start_poll(&lease).await.1, Some(Validators::default()));
}

pub(super) async fn source_moves_with_its_key_unless_another_has_it(fx: Fixture) {
    let odd = NewSource { config: r#"{"list":"7"}"#.into(), source_key: "rss list".into(), ..feed("odd") };
    let ids = fx.feeds(&[feed("a"), feed("b"), odd]).await;
    let moved = |id, url: &str| PollEnd { moved_to: Some(url.into()), ..poll_end(id) };
    fx.fetch(ids[0], RunEnd::Succeeded, moved(ids[0], "https://new.example/\"ü")).await;
    let new = at("new", "https://new.example/\"ü");
    assert_eq!(fx.source(ids[0]).await.config, new.config);
    assert_eq!(fx.feeds(&[new]).await, [ids[0]]);
    // The old address is free for another source.
    let other = fx.feeds(&[feed("a")]).await[0];
    assert_ne!(other, ids[0]);
    for (id, url) in
        [(ids[1], "https://a.example/feed"), (ids[1], "https://b.example/feed"), (ids[2], "https://x.example/")]
    {
        let before = fx.source(id).await.config;
        assert_eq!(fx.fetch(id, RunEnd::Succeeded, moved(id, url)).await, TaskStatus::Succeeded);
        assert_eq!(fx.source(id).await.config, before);
    }
    fx.fetch(ids[1], failed("no"), moved(ids[1], "https://free.example/")).await;
    assert_eq!(fx.source(ids[1]).await.config, feed("b").config, "a failure proves no move");
}

pub(super) async fn concurrent_moves_to_one_address_give_it_to_one(fx: Fixture) {
    let names: Vec<_> = (0..8).map(|no| feed(&format!("s{no}"))).collect();
    let ids = fx.feeds(&names).await;
    fx.queue(&ids).await;
    let leases = fx.claim_polls("x", 8, 1).await;
    let ends = leases.into_iter().map(|lease| {
        let fx = fx.clone();
        tokio::spawn(async move {
            let id = lease.source.expect("a source");
            let (run, _) = fx.start_poll(&lease).await;
            let end = PollEnd { moved_to: Some("https://one.example/".into()), ..poll_end(id) };
            fx.end_poll(&lease, run, RunEnd::Succeeded, end).await
        })
    });
    for end in ends.collect::<Vec<_>>() {
        assert_eq!(end.await.expect("an end"), TaskStatus::Succeeded);
    }
    let sources = fx.subject.store.sources(Default::default()).await.expect("sources");
    let there = at("one", "https://one.example/").config;
    assert_eq!(sources.iter().filter(|source| source.config == there).count(), 1);
    assert_eq!(sources.iter().filter(|source| source.state.fetch_count == 1).count(), 8);
}

pub(super) async fn poll_is_not_redriven(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    fx.fetch(ids[0], failed("no"), poll_end(ids[0])).await;
    let task = TaskId(fx.rows(View::Tasks).await.ids()[0]);
    let redrive = RedriveWork { request: "r".into(), target: RedriveTarget::Task(task), by: "me".into() };
    let answer = fx.run(redrive).await;
    assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    assert_eq!(fx.rows(View::Tasks).await.len(), 1);
}

// covers: COLL-50
pub(super) async fn source_that_cannot_be_polled_has_failed(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d"].map(feed)).await;
    let unfit = |id: SourceId, poll_count| UnfitPoll { source: id, poll_count, reason: "no manifest".into() };
    let running = fx.queue(&ids[1..2]).await;
    fx.change(ids[2], ChangeSource { delete: true, ..ChangeSource::default() }).await.expect("a deletion");
    let (before, now) = (fx.state(ids[1]).await, fx.now().await);
    let given = vec![unfit(ids[0], 0), unfit(ids[1], 1), unfit(ids[2], 0), unfit(ids[0], 0), unfit(SourceId(999), 0)];
    let polls = vec![fx.new_poll(ids[3]).await];
    let snapshots = vec![("spec".to_owned(), "{}".to_owned())];
    let polled = fx.ok(Arc::new(QueuePolls { polls, unfit: given.clone(), snapshots, job: None })).await;
    assert!(polled.tasks[0].is_some(), "the others do not wait for it");
    let failed = fx.source(ids[0]).await;
    assert_eq!((failed.state.fetch_error_count, failed.state.last_error.as_deref()), (1, Some("no manifest")));
    assert_eq!((failed.poll_count, failed.polling), (1, None));
    is_after(failed.state.next_due_at, now, 5 * MINUTE, 20);
    assert_eq!(fx.state(ids[1]).await, before, "a poll of it is in progress: {running:?}");
    let polling = SourceFilter { polling_only: true, ..SourceFilter::default() };
    let polling = fx.subject.store.sources(polling).await.expect("sources");
    assert_eq!(polling.iter().map(|source| source.id).collect::<Vec<_>>(), [ids[1], ids[3]]);
    // A repetition with old poll counts changes nothing.
    fx.ok(Arc::new(QueuePolls { polls: Vec::new(), unfit: given, snapshots: Vec::new(), job: None })).await;
    assert_eq!(fx.state(ids[0]).await, failed.state);
    for no in 1..i64::from(MAX_FAILURES) {
        let again = vec![unfit(ids[0], no)];
        fx.ok(Arc::new(QueuePolls { polls: Vec::new(), unfit: again, snapshots: Vec::new(), job: None })).await;
    }
    assert_eq!(fx.state(ids[0]).await.paused, Some(PausedReason::Error));
}

// covers: COLL-120
pub(super) async fn urgent_polls_go_before_the_backlog_of_their_host(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d", "e"].map(feed)).await;
    let mut polls = Vec::new();
    for (id, priority) in ids.iter().zip([100, 100, 100, FIRST_FETCH_PRIORITY, FETCH_NOW_PRIORITY]) {
        polls.push(NewPoll { priority, host: "h.example".into(), ..fx.new_poll(*id).await });
    }
    fx.poll(polls).await;
    fx.ok(HurryPoll { source: ids[2] }).await;
    let sources =
        |leases: Vec<patra_core::tx::Lease>| leases.iter().filter_map(|lease| lease.source).collect::<Vec<_>>();
    assert_eq!(sources(fx.claim_polls("me", 9, 2).await), [ids[2], ids[4]], "the limit of the host stays");
    assert_eq!(sources(fx.claim_polls("me", 1, 9).await), [ids[3]]);
    assert_eq!(sources(fx.claim_polls("me", 9, 9).await), [ids[0], ids[1]]);
}
