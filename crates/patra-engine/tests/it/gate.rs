//! The gate of a process: fairness, quotas, and a store that is down.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_core::gate::{GateLimits, GateRefusal, Quotas, Rate};
use patra_core::port::Clock as _;
use patra_engine::gate::{GateFeedback, PermitRequester, RateGate, RateLane};

use crate::support::{MANIFEST, MockApi, World, stop};

fn lane(per_sec: f64, burst: f64) -> RateLane {
    RateLane {
        key: "far/records".into(),
        class: "far/records".into(),
        weight: 1,
        cost: 1,
        limits: GateLimits { rate: Rate { per_sec, burst }, ..GateLimits::default() },
    }
}

fn requester(lane: &RateLane) -> PermitRequester<'_> {
    PermitRequester { lane, first: true, percent: 100, deadline: Duration::from_secs(15) }
}

/// Sends as often as the gate allows within a time; returns the number of requests.
async fn send_for(gate: &Arc<RateGate>, lane: &RateLane, span: Duration) -> u32 {
    let (began, mut sent) = (tokio::time::Instant::now(), 0);
    while began.elapsed() < span {
        match gate.acquire(requester(lane)).await {
            Ok(token) => sent += u32::from(token.spend()),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
    sent
}

// covers: ING-4.10-30, ING-5.4-05, ING-5.1-05
#[tokio::test(start_paused = true)]
async fn requests_leave_at_the_declared_rate_and_what_is_not_sent_comes_back() {
    let world = World::new(MockApi::with(0));
    let (gate, lane) = (world.gate("me"), lane(50.0, 5.0));
    let sent = send_for(&gate, &lane, Duration::from_secs(20)).await;
    assert!((950..=1_005).contains(&sent), "{sent}");
    // An unused permit goes to the next request.
    let unused = gate.acquire(requester(&lane)).await.unwrap();
    drop(unused);
    assert!(gate.acquire(requester(&lane)).await.unwrap().spend());
}

// covers: ING-4.10-14
#[tokio::test(start_paused = true)]
async fn tasks_take_turns() {
    let world = World::new(MockApi::with(0));
    let (gate, lane) = (world.gate("me"), Arc::new(lane(10.0, 1.0)));
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let tasks = (0..3).map(|task| {
        let (gate, lane, order) = (Arc::clone(&gate), Arc::clone(&lane), Arc::clone(&order));
        tokio::spawn(async move {
            for _ in 0..20 {
                assert!(gate.acquire(requester(&lane)).await.unwrap().spend());
                order.lock().unwrap().push(task);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let order = order.lock().unwrap();
    for three in order[..57].chunks(3) {
        let mut three = three.to_vec();
        three.sort_unstable();
        assert_eq!(three, [0, 1, 2], "{order:?}");
    }
}

// covers: ING-4.10-38, ING-0.4-04
#[tokio::test(start_paused = true)]
async fn without_a_store_requests_go_on_slowly_and_with_a_quota_not_at_all() {
    let (world, switch) = World::new(MockApi::with(0)).with_switch();
    let away = &switch.away;
    let (gate, mut lane) = (world.gate("me"), lane(50.0, 5.0));
    assert!(send_for(&gate, &lane, Duration::from_secs(10)).await > 450);
    away.store(true, Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let alone = send_for(&gate, &lane, Duration::from_secs(60)).await;
    assert!((30..=62).contains(&alone), "{alone} in a minute");
    away.store(false, Relaxed);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(send_for(&gate, &lane, Duration::from_secs(10)).await > 400, "and back");

    lane.key = "with/quota".into();
    lane.limits.quotas = Quotas { hourly: Some(1_000), daily: None };
    assert!(send_for(&gate, &lane, Duration::from_secs(2)).await > 50);
    away.store(true, Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(send_for(&gate, &lane, Duration::from_secs(60)).await, 0, "nobody knows what is left");
}

// covers: ING-4.10-31
#[tokio::test(start_paused = true)]
async fn feedback_applies_to_every_process_of_the_store() {
    let world = World::new(MockApi::with(0));
    let (one, two, lane) = (world.gate("one"), world.gate("two"), lane(50.0, 5.0));
    assert!(one.acquire(requester(&lane)).await.unwrap().spend());
    let feedback = GateFeedback { refused: true, retry_after: Some(Duration::from_secs(60)), remaining: None };
    one.feedback(&lane, patra_core::Ts::from_secs(1_000_001), &feedback);
    tokio::time::sleep(Duration::from_millis(10)).await;
    for gate in [&one, &two] {
        let Err((why, _)) = gate.acquire(requester(&lane)).await else { panic!("silence was asked for") };
        assert_eq!(why, GateRefusal::Cooldown);
    }
    tokio::time::sleep(Duration::from_secs(70)).await;
    let sent = send_for(&two, &lane, Duration::from_secs(10)).await;
    assert!((200..=320).contains(&sent), "half the rate, and a little more each half minute: {sent}");
}

// covers: ING-4.10-24, ING-4.10-32, ING-4.10-33, ING-4.10-34, ING-0.2-08, ING-2.4-04
#[tokio::test(start_paused = true)]
async fn a_quota_that_is_used_up_sends_tasks_back_and_the_work_goes_on_later() {
    let world = World::new(MockApi::with(95));
    world.apply(&MANIFEST.replace("burst: 1000", "burst: 1000, quota_hourly: 7")).await;
    let engine = world.start("one").await;
    let began = tokio::time::Instant::now();
    world.ask("job").await;
    engine.nudge();
    let progress = world.finished("job").await;
    assert_eq!((progress.inserted, progress.tasks_failed), (95, 0));
    let asked = world.transport.requests.load(Relaxed);
    // The first slice waits before its last page is read for the second time, and then reads it twice more.
    assert_eq!(asked, 14, "nothing is asked for twice, the ends of two slices apart");
    assert!(began.elapsed() > Duration::from_secs(3_600), "seven an hour: {:?}", began.elapsed());
    stop(engine).await;
    let mem = world.store.lock();
    assert!(mem.tasks.iter().all(|task| task.attempts == 0), "waiting is no failure");
    let digest: serde_json::Value = serde_json::from_str(&mem.batches[0].response_digest).unwrap();
    assert_eq!(digest["rate"]["limitKey"], "far/records");
    assert_eq!(digest["rate"]["permitCost"], 1);
    let rates = || mem.runs.iter().filter_map(|run| Some(run.stats.as_ref()?.rate));
    let (hits, permits): (u32, u32) =
        (rates().map(|rate| rate.quota_hard_hits).sum(), rates().map(|rate| rate.permits_total).sum());
    assert!(hits > 0, "{hits}");
    assert_eq!(permits, 14);
}

/// Sends with four tasks per gate, at a pace that changes, until the quota is used up for good. Returns the number of
/// requests.
async fn use_up(world: &World, gates: &[Arc<RateGate>], lane: &RateLane) -> u32 {
    let sent = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let tasks = gates.iter().flat_map(|gate| (0..4).map(move |task| (Arc::clone(gate), task)));
    let tasks = tasks.map(|(gate, task)| {
        let (lane, sent, clock) = (lane.clone(), Arc::clone(&sent), Arc::clone(&world.clock));
        tokio::spawn(async move {
            for request in 0_u64.. {
                match gate.acquire(requester(&lane)).await {
                    // A permit that a cancelled request does not use.
                    Ok(_) if (request + task) % 7 == 6 => {}
                    Ok(token) => {
                        sent.fetch_add(u32::from(token.spend()), Relaxed);
                    }
                    Err((GateRefusal::QuotaHard, until)) => {
                        let wait = until.since(clock.steady());
                        if wait > Duration::from_secs(600) {
                            return;
                        }
                        tokio::time::sleep(wait).await;
                    }
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
                let pause = if request % 10 == 9 { 3_000 } else { 20 + 40 * task };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    sent.load(Relaxed)
}

// covers: ING-4.10-22
#[tokio::test(start_paused = true)]
async fn quota_is_used_up_by_requests_that_were_sent() {
    for processes in [1, 2] {
        let world = World::new(MockApi::with(0));
        let mut lane = lane(50.0, 50.0);
        lane.limits.quotas = Quotas { hourly: Some(100), daily: None };
        let gates: Vec<_> = (0..processes).map(|nth| world.gate(&format!("p{nth}"))).collect();
        for gate in &gates {
            tokio::spawn(Arc::clone(gate).listen());
        }
        let sent = use_up(&world, &gates, &lane).await;
        assert!((98..=100).contains(&sent), "{processes} processes: {sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn process_that_ends_returns_its_permits() {
    let world = World::new(MockApi::with(0));
    let mut lane = lane(50.0, 50.0);
    lane.limits.quotas = Quotas { hourly: Some(1_000), daily: None };
    let gate = world.gate("me");
    let mut sent = send_for(&gate, &lane, Duration::from_secs(5)).await;
    let left = |view: &patra_core::gate::GateView| view.remaining().unwrap();
    gate.close().await;
    let other = world.gate("other");
    let token = other.acquire(requester(&lane)).await.unwrap();
    let view = token.view.clone().unwrap();
    sent += u32::from(token.spend());
    assert_eq!(left(&view), 1_000 - u64::from(sent), "the other one asked for one permit");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_never_answered_or_kills_its_bearer_is_asked_again() {
    let (world, switch) = World::new(MockApi::with(0)).with_switch();
    let (gate, lane) = (world.gate("me"), lane(50.0, 5.0));
    for trouble in [&switch.mute, &switch.deadly] {
        trouble.store(true, Relaxed);
        let alone = send_for(&gate, &lane, Duration::from_secs(30)).await;
        assert!((5..=35).contains(&alone), "by itself, slowly: {alone}");
        trouble.store(false, Relaxed);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(send_for(&gate, &lane, Duration::from_secs(10)).await > 400, "as if nothing had been");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
}

// covers: ING-4.10-17, ING-4.10-31
#[tokio::test(start_paused = true)]
async fn silence_holds_at_once_for_every_class_of_the_key_and_for_what_was_about_to_leave() {
    let world = World::new(MockApi::with(0));
    let (gate, one) = (world.gate("me"), lane(50.0, 5.0));
    let two = RateLane { class: "far/others".into(), ..one.clone() };
    let elsewhere = RateLane { key: "other".into(), ..one.clone() };
    let lanes = [&one, &two, &elsewhere];
    let mut tokens = Vec::new();
    for lane in lanes {
        tokens.push(gate.acquire(requester(lane)).await.unwrap());
    }
    let feedback = GateFeedback { refused: false, retry_after: Some(Duration::from_secs(60)), remaining: None };
    gate.feedback(&one, patra_core::Ts::from_secs(1_000_001), &feedback);
    let spent: Vec<bool> = tokens.into_iter().map(patra_engine::gate::PermitToken::spend).collect();
    assert_eq!(spent, [false, false, true], "a permit from before the feedback is void");
    for lane in [&one, &two] {
        let Err((why, _)) = gate.acquire(requester(lane)).await else { panic!("silence was asked for") };
        assert_eq!(why, GateRefusal::Cooldown);
    }
    assert!(gate.acquire(requester(&elsewhere)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_for_a_slow_key_do_not_wear_out_the_store() {
    let (world, switch) = World::new(MockApi::with(0)).with_switch();
    let (gate, lane) = (world.gate("me"), Arc::new(lane(0.2, 1.0)));
    let tasks = (0..8).map(|_| {
        let (gate, lane) = (Arc::clone(&gate), Arc::clone(&lane));
        tokio::spawn(async move {
            let patient = PermitRequester { deadline: Duration::from_secs(600), ..requester(&lane) };
            assert!(gate.acquire(patient).await.unwrap().spend());
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    let asked = switch.asked.load(Relaxed);
    assert!(asked <= 24, "{asked} questions for eight permits in forty seconds");
}

// covers: ING-4.10-16
#[tokio::test(start_paused = true)]
async fn one_refusal_does_not_silence_its_key() {
    let world = World::new(MockApi::with(0));
    let (gate, lane) = (world.gate("me"), lane(50.0, 5.0));
    // Long enough to prefetch permits for the next two seconds.
    assert!(send_for(&gate, &lane, Duration::from_secs(10)).await > 400);
    let (sent, refused_at) = (world.clock.steady(), tokio::time::Instant::now());
    gate.feedback(&lane, sent, &GateFeedback { refused: true, retry_after: None, remaining: None });
    while !gate.acquire(requester(&lane)).await.unwrap().spend() {}
    let silence = refused_at.elapsed();
    assert!(silence < Duration::from_millis(100), "one step at half the rate is 40 ms: {silence:?}");
    let sent = send_for(&gate, &lane, Duration::from_secs(10)).await;
    assert!((230..=260).contains(&sent), "half the rate: {sent}");
}

// covers: ING-4.10-16, ING-4.10-31
#[tokio::test(start_paused = true)]
async fn refusal_reaches_the_store_once() {
    let (world, switch) = World::new(MockApi { throttle_every: 4, ..MockApi::with(95) }).with_switch();
    world.fire("job").await;
    let engine = world.start("one").await;
    engine.nudge();
    assert_eq!(world.finished("job").await.inserted, 95);
    stop(engine).await;
    let refused = world.transport.requests.load(Relaxed) / 4;
    let signalled = switch.signalled.load(Relaxed);
    assert!(refused >= 3, "{refused}");
    assert!(signalled >= 1 && signalled <= refused, "{signalled} signals for {refused} refusals");
}
