use super::*;
use crate::gate::{GateLimits, GateState, Rate};

const LIMITS: GateLimits = GateLimits {
    rate: Rate { per_sec: 10.0, burst: 5.0 },
    quotas: crate::gate::Quotas { hourly: None, daily: None },
    warmup: Duration::ZERO,
    demote: 2.0,
};

const QUOTA: GateLimits = GateLimits { quotas: crate::gate::Quotas { hourly: Some(100), daily: None }, ..LIMITS };

/// The process's clock is far from the store's, in either direction.
struct Scene {
    state: GateState,
    permit_cache: PermitCache,
    skew: i64,
}

impl Scene {
    fn new(skew_secs: i64) -> Scene {
        Scene {
            state: GateState::new(LIMITS, at(0)),
            permit_cache: PermitCache::default(),
            skew: skew_secs * 1_000_000,
        }
    }

    fn local(&self, millis: i64) -> Ts {
        Ts::from_micros(at(millis).micros() + self.skew)
    }

    /// Sends a request at one time; the store replies at once, and the reply arrives later.
    fn request(&mut self, waiting: u32, millis: i64, trip: i64) {
        let Some(mut request) = self.permit_cache.request(waiting, true, self.local(millis)) else { return };
        (request.member, request.percent, request.deadline) = ("m".into(), 100, Duration::from_secs(60));
        let reply = self.state.request(LIMITS, &request, at(millis));
        let (sent, now) = (self.local(millis), self.local(millis + trip));
        self.permit_cache.on_reply(&reply, sent, now, &mut Rng::new(3));
    }
}

fn at(millis: i64) -> Ts {
    Ts::from_micros(1_800_000_000_000_000 + millis * 1000)
}

// covers: ING-4.10-13
#[test]
fn a_slot_is_never_used_before_its_time_nor_after_whatever_the_clock_says() {
    for skew in [-7_200, 0, 86_400] {
        let mut scene = Scene::new(skew);
        scene.request(8, 0, 10);
        let mut sent = Vec::new();
        for millis in 10..1_500 {
            while let PermitResult::Go(permit) = scene.permit_cache.take(true, &LIMITS, scene.local(millis)) {
                assert!(at(millis) >= permit.slot, "not before its time");
                assert!(scene.local(millis) < permit.until);
                sent.push(permit.slot);
            }
        }
        assert_eq!(sent.len(), 8, "skew {skew}");
        sent.dedup();
        assert_eq!(sent.len(), 8, "each once");
    }
}

#[test]
fn returned_permit_is_reused_and_void_permit_goes_back_to_the_quota() {
    let mut scene = Scene::new(60);
    scene.request(2, 0, 1);
    let PermitResult::Go(permit) = scene.permit_cache.take(true, &LIMITS, scene.local(1)) else {
        panic!("there is a burst")
    };
    scene.permit_cache.give_back(permit, scene.local(2));
    assert_eq!(scene.permit_cache.take(true, &LIMITS, scene.local(2)), PermitResult::Go(permit));
    assert!(
        scene.permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(5)), scene.local(2)),
        "others must hear of it"
    );
    assert_eq!(scene.permit_cache.permits(), 0);
    scene.request(1, 3, 1);
    assert!(matches!(
        scene.permit_cache.take(true, &LIMITS, scene.local(4)),
        PermitResult::Closed(GateRefusal::Cooldown, _)
    ));
}

// covers: ING-4.10-19
#[test]
fn end_of_a_cooldown_has_jitter() {
    let ends: std::collections::BTreeSet<i64> = (0..20)
        .map(|seed| {
            let (mut state, mut permit_cache) = (GateState::new(LIMITS, at(0)), PermitCache::default());
            permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(100)), at(0));
            let request = permit_cache.request(1, true, at(0)).expect("it must be reported");
            let reply = state.request(LIMITS, &request, at(0));
            permit_cache.on_reply(&reply, at(0), at(0), &mut Rng::new(seed));
            let Some((GateRefusal::Cooldown, until)) = permit_cache.closed(true, at(0)) else {
                panic!("{permit_cache:?}")
            };
            let late = until.since(at(100_000));
            assert!(late >= Duration::from_secs(5) && late <= Duration::from_secs(15), "5 to 15 %: {late:?}");
            until.micros()
        })
        .collect();
    assert!(ends.len() > 15);
}

#[test]
fn reply_overtaken_by_retry_after_is_not_used() {
    let mut scene = Scene::new(0);
    let request = scene.permit_cache.request(5, true, at(0)).unwrap();
    let reply = scene.state.request(LIMITS, &GateRequest { member: "m".into(), percent: 100, ..request }, at(0));
    assert!(!reply.slots.is_empty());
    scene.permit_cache.empty();
    scene.permit_cache.on_reply(&reply, at(0), at(5), &mut Rng::new(1));
    assert_eq!(scene.permit_cache.take(true, &LIMITS, at(5)), PermitResult::Empty);
}

// covers: ING-4.10-17
#[test]
fn permits_from_before_a_cooldown_are_void() {
    let mut scene = Scene::new(0);
    scene.request(3, 0, 1);
    let take = |scene: &mut Scene| match scene.permit_cache.take(true, &LIMITS, at(1)) {
        PermitResult::Go(permit) => vec![permit],
        other => panic!("{other:?}"),
    };
    let (mut sent, mut kept, mut dropped) = (take(&mut scene), take(&mut scene), take(&mut scene));
    assert!(scene.permit_cache.spend(&mut sent, at(2)));
    scene.permit_cache.empty();
    assert!(!scene.permit_cache.spend(&mut kept, at(3)), "the upstream asked for a pause");
    dropped.drain(..).for_each(|permit| scene.permit_cache.give_back(permit, at(3)));
    assert_eq!(scene.permit_cache.take(true, &LIMITS, at(4)), PermitResult::Empty);
    let request = scene.permit_cache.request(1, true, at(4)).unwrap();
    assert_eq!(request.returned.len(), 2, "they were never sent");
}

#[test]
fn cooldown_is_never_shortened_nor_extended_by_a_store_outage() {
    let mut permit_cache = PermitCache::default();
    permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(60)), at(0));
    permit_cache.record_signal(GateSignal::RetryAfter(Duration::from_secs(5)), at(10));
    assert_eq!(permit_cache.closed(true, at(30_000)), Some((GateRefusal::Cooldown, at(60_000))));
    assert_eq!(
        permit_cache.request(0, true, at(10)).unwrap().signals,
        [GateSignal::RetryAfter(Duration::from_millis(59_990))]
    );
    permit_cache.on_failure(at(1_000));
    for nth in 0..100 {
        permit_cache.record_signal(GateSignal::Refused { sent: at(nth) }, at(1_000));
    }
    let signals = permit_cache.request(0, true, at(40_000)).unwrap().signals;
    assert_eq!(signals, [GateSignal::Refused { sent: at(99) }, GateSignal::RetryAfter(Duration::from_secs(20))]);
}

// covers: ING-4.10-38
#[test]
fn without_a_store_declared_limits_apply() {
    let slow = GateLimits { rate: Rate { per_sec: 0.1, burst: 1.0 }, ..LIMITS };
    for (limits, expected) in [(LIMITS, 60), (slow, 6), (QUOTA, 0)] {
        let mut permit_cache = PermitCache::default();
        assert!(permit_cache.request(1, true, at(0)).is_some());
        permit_cache.on_failure(at(0));
        let sent = (2_000..62_000)
            .filter(|ms| matches!(permit_cache.take(true, &limits, at(*ms)), PermitResult::Go(_)))
            .count();
        assert_eq!(sent, expected, "{limits:?}");
    }
}

#[test]
fn waiting_for_a_slow_key_sends_few_requests() {
    let slow = GateLimits { rate: Rate { per_sec: 0.2, burst: 1.0 }, ..LIMITS };
    let (mut state, mut permit_cache, mut requests, mut sent) =
        (GateState::new(slow, at(0)), PermitCache::default(), 0, 0);
    for ms in 0..60_000 {
        if let Some(mut request) = permit_cache.request(6, true, at(ms)) {
            (request.member, request.percent, request.deadline) = ("m".into(), 100, Duration::from_secs(60));
            requests += 1;
            permit_cache.on_reply(&state.request(slow, &request, at(ms)), at(ms), at(ms), &mut Rng::new(1));
        }
        sent += u32::from(matches!(permit_cache.take(true, &slow, at(ms)), PermitResult::Go(_)));
    }
    assert!(sent >= 11, "{sent}");
    assert!(requests <= 2 * sent + 2, "{requests} questions for {sent} permits");
}

// covers: ING-4.10-18
#[test]
fn upstream_count_is_reported_periodically_and_at_once_when_exhausted() {
    let mut scene = Scene::new(0);
    let count = |remaining| GateSignal::Remaining { remaining, limit: None, resets_in: Duration::from_secs(60) };
    scene.request(4, 0, 1);
    let cached = scene.permit_cache.permits();
    assert!(cached > 3, "{cached}");
    assert!(!scene.permit_cache.record_signal(count(1_000), at(10)));
    assert_eq!(scene.permit_cache.request(0, true, at(20)), None, "no hurry");
    assert_eq!(scene.permit_cache.request(0, true, at(1_020)).unwrap().signals.len(), 1);
    scene.permit_cache.on_failure(at(1_030));
    assert!(
        !scene
            .permit_cache
            .record_signal(GateSignal::Remaining { remaining: 0, limit: None, resets_in: Duration::ZERO }, at(1_030))
    );
    assert!(scene.permit_cache.record_signal(count(2), at(1_040)), "there is less than is cached");
    assert_eq!(scene.permit_cache.permits(), 2, "permits within the count stay");
    let request = scene.permit_cache.request(0, true, at(1_041)).unwrap();
    assert_eq!(request.returned.len() as u32, cached - 2);
    assert!(matches!(request.signals[..], [GateSignal::Remaining { remaining: 2, .. }]), "{:?}", request.signals);
    scene.permit_cache.on_failure(at(1_042));
    assert!(scene.permit_cache.record_signal(count(0), at(1_043)));
    assert_eq!(scene.permit_cache.permits(), 0);
}
