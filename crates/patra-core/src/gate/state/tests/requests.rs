use super::super::*;
use crate::gate::{Quotas, Rate};

pub(super) fn at(millis: i64) -> Ts {
    Ts::from_micros(1_800_000_000_000_000 + millis * 1000)
}

pub(super) fn limits(per_sec: f64, burst: f64) -> GateLimits {
    GateLimits { rate: Rate { per_sec, burst }, ..GateLimits::default() }
}

pub(super) fn request(member: &str, want: u32) -> GateRequest {
    GateRequest {
        member: member.into(),
        class: "c".into(),
        weight: 1,
        now: want,
        percent: 100,
        deadline: Duration::from_secs(30),
        ..GateRequest::default()
    }
}

/// Slots that were granted at this time and not used.
pub(super) fn unused(slots: &[Slot], granted_at: Ts) -> Vec<ReturnedSlot> {
    slots.iter().map(|slot| ReturnedSlot { slot: *slot, granted_at }).collect()
}

/// One permit after the other, each when its slot comes.
fn drain(state: &mut GateState, limits: GateLimits, millis: std::ops::Range<i64>) -> Vec<i64> {
    let mut sent = Vec::new();
    let mut now = millis.start;
    while now < millis.end {
        let reply = state.request(limits, &request("a", 1), at(now));
        match (reply.slots.first(), reply.refused) {
            (Some(slot), _) => {
                now = now.max((slot.at.micros() - at(0).micros() + 999) / 1000);
                sent.push(now);
            }
            (None, Some((_, until))) => now = ((until.micros() - at(0).micros()) / 1000).max(now + 1),
            (None, None) => now += 1,
        }
    }
    sent
}

// covers: ING-4.10-09, ING-4.10-11
#[test]
fn a_full_bucket_allows_a_burst_and_then_the_rate() {
    let limits = limits(10.0, 5.0);
    let mut state = GateState::new(limits, at(0));
    let sent = drain(&mut state, limits, 0..10_000);
    let burst = sent.iter().filter(|ms| **ms < 50).count();
    assert!((4..=5).contains(&burst), "{burst} at once");
    for (first, start) in sent.iter().enumerate() {
        assert!(sent[first..].iter().take_while(|ms| **ms < start + 1000).count() <= 15);
    }
    assert!((100..=105).contains(&sent.len()), "{}", sent.len());
}

// covers: ING-4.10-12
#[test]
fn a_slot_beyond_the_deadline_is_refused_with_its_time() {
    let limits = limits(0.1, 1.0);
    let mut state = GateState::new(limits, at(0));
    assert_eq!(state.request(limits, &request("a", 1), at(0)).slots.len(), 1);
    let patient = state.request(limits, &request("a", 1), at(10));
    assert_eq!((patient.slots.len(), patient.refused), (1, None), "it waits until its slot comes");
    let hurried = GateRequest { deadline: Duration::from_secs(5), ..request("a", 1) };
    let reply = state.request(limits, &hurried, at(20));
    let Some((GateRefusal::OverDeadline, until)) = reply.refused else { panic!("{reply:?}") };
    assert!(until >= at(20_000) && until <= at(21_000), "{until:?}");
}

// covers: ING-4.10-17
#[test]
fn retry_after_blocks_a_full_bucket_and_is_never_shortened() {
    let limits = limits(10.0, 10.0);
    let mut state = GateState::new(limits, at(0));
    let report = |signal| GateRequest { signals: vec![signal], ..GateRequest::default() };
    state.request(limits, &report(GateSignal::RetryAfter(Duration::from_secs(5))), at(0));
    state.request(limits, &report(GateSignal::RetryAfter(Duration::from_secs(1))), at(0));
    let reply = state.request(limits, &request("a", 1), at(4_999));
    assert_eq!(reply.refused, Some((GateRefusal::Cooldown, at(5_000))));
    let reply = state.request(limits, &request("a", 10), at(5_000));
    assert!(reply.slots[0].at >= at(5_000), "no burst after a cooldown");
}

// covers: ING-4.10-18
#[test]
fn the_upstreams_own_count_wins_and_ends_with_its_window() {
    let limits = limits(100.0, 10.0);
    let mut state = GateState::new(limits, at(0));
    let remaining = |remaining, secs| GateRequest {
        signals: vec![GateSignal::Remaining { remaining, limit: Some(100), resets_in: Duration::from_secs(secs) }],
        ..GateRequest::default()
    };
    state.request(limits, &remaining(3, 60), at(0));
    assert_eq!(state.request(limits, &request("a", 10), at(0)).slots.len(), 3);
    assert_eq!(state.request(limits, &request("a", 1), at(1)).refused, Some((GateRefusal::Provider, at(60_000))));
    state.request(limits, &remaining(50, 59), at(1_000));
    assert_eq!(
        state.request(limits, &request("a", 1), at(1_000)).refused.map(|(reason, _)| reason),
        Some(GateRefusal::Provider),
        "a late response does not return requests granted meanwhile"
    );
    assert!(state.request(limits, &request("a", 1), at(60_001)).refused.is_none());
}

// covers: ING-4.10-23, ING-4.10-24, ING-4.10-25, ING-4.10-26, ING-4.15-04
#[test]
fn quota_reserve_is_for_first_class_requests() {
    let limits = GateLimits { quotas: Quotas { hourly: Some(20), daily: None }, ..limits(100.0, 100.0) };
    let mut state = GateState::new(limits, at(0));
    let first = |want| GateRequest { first: true, ..request("h", want) };
    assert_eq!(state.request(limits, &request("b", 18), at(0)).slots.len(), 18);
    let reply = state.request(limits, &request("b", 1), at(10));
    let Some((GateRefusal::QuotaSoft, until)) = reply.refused else { panic!("{reply:?}") };
    assert!(until < at(10_000), "unused permits may come back soon: {until:?}");
    assert!(reply.view.is_soft());
    let reply = state.request(limits, &first(5), at(10));
    assert_eq!(reply.slots.len(), 2, "not more than there is");
    assert_eq!(reply.view.remaining(), Some(0));
    assert!(matches!(state.request(limits, &first(1), at(10)).refused, Some((GateRefusal::QuotaHard, _))));
    // Unused slots come back, once.
    let returned = unused(&reply.slots, at(10));
    let reply = state.request(limits, &GateRequest { returned, ..first(5) }, at(20));
    assert_eq!(reply.slots.len(), 2);
    let refused = state.request(limits, &first(1), at(10_000)).refused;
    let Some((GateRefusal::QuotaHard, until)) = refused else { panic!("{refused:?}") };
    assert!(until > at(3_600_000), "nobody holds any more: {until:?}");
    assert!(state.request(limits, &first(1), until).refused.is_none());
}

// covers: ING-4.10-16, ING-4.10-19
#[test]
fn a_refusal_halves_the_rate_and_takes_back_the_burst() {
    let limits = limits(10.0, 20.0);
    let mut state = GateState::new(limits, at(0));
    let refused = GateRequest { signals: vec![GateSignal::Refused { sent: at(0) }], ..GateRequest::default() };
    let view = state.request(limits, &refused, at(100)).view;
    assert_eq!((view.rate, view.lowered), (5.0, 1));
    let sent = drain(&mut state, limits, 100..2_100);
    assert!((9..=11).contains(&sent.len()), "{}", sent.len());
}

#[test]
fn a_refusal_slows_the_key_down_and_does_not_silence_it() {
    for per_sec in [5.0, 20.0, 100.0] {
        let limits = limits(per_sec, per_sec);
        let mut state = GateState::new(limits, at(0));
        let ahead = state.request(limits, &GateRequest { prefetch: 500, ..request("a", 1) }, at(0)).slots;
        assert!(ahead.last().is_some_and(|slot| slot.at > at(1_500)), "{ahead:?}");
        let signals = vec![GateSignal::Refused { sent: at(0) }];
        // The first slot was used; the process voids the others.
        let returned = unused(&ahead[1..], at(0));
        let reply = state.request(limits, &GateRequest { returned, signals, ..request("a", 4) }, at(50));
        let step = (2_000.0 / per_sec) as i64;
        let first = reply.slots.first().map(|slot| slot.at);
        assert!(first.is_some_and(|first| first >= at(50) && first <= at(60 + step)), "{per_sec}/s: {reply:?}");
        let sent = drain(&mut state, limits, 60..5_060).len() + reply.slots.len();
        let half = 5.0 * per_sec / 2.0;
        assert!(sent as f64 >= 0.9 * half - 1.0 && sent as f64 <= half + 2.0, "{per_sec}/s: {sent} in 5 s");
    }
}

#[test]
fn unused_permits_free_the_quota_and_a_refusal_waits_for_them() {
    let quotas = Quotas { hourly: Some(100), daily: None };
    let limits = GateLimits { quotas, ..limits(50.0, 50.0) };
    let first = |want| GateRequest { first: true, ..request("a", want) };
    let mut state = GateState::new(limits, at(0));
    let prefetched = state.request(limits, &GateRequest { prefetch: 100, ..first(4) }, at(0)).slots;
    assert_eq!(prefetched.len(), 8, "four wait, and a twentieth of the rest is prefetched");
    let rest = state.request(limits, &first(200), at(1_000)).slots;
    let reply = state.request(limits, &first(200), at(1_010));
    let Some((GateRefusal::QuotaHard, until)) = reply.refused else { panic!("{reply:?}") };
    assert_eq!(rest.len(), 92);
    assert!(until < at(9_000), "{until:?}");
    // One minute later, from two parts of the window.
    let returned = [unused(&prefetched[1..], at(0)), unused(&rest[90..], at(1_000))].concat();
    let reply = state.request(limits, &GateRequest { returned, ..first(200) }, at(60_000));
    assert_eq!(reply.slots.len(), 9);
    let last = state.request(limits, &first(1), at(80_000)).refused;
    assert!(last.is_some_and(|(_, until)| until > at(3_600_000)), "{last:?}");
}

#[test]
fn a_cold_key_warms_up() {
    let limits = GateLimits { warmup: Duration::from_secs(10), ..limits(30.0, 30.0) };
    let mut state = GateState::new(limits, at(0));
    let sent = drain(&mut state, limits, 0..20_000);
    let during = |from, to| sent.iter().filter(|ms| (from..to).contains(*ms)).count();
    assert!((9..=14).contains(&during(0, 1_000)), "{} in the first second", during(0, 1_000));
    assert!((28..=31).contains(&during(15_000, 16_000)), "{}", during(15_000, 16_000));
    let view = state.request(limits, &request("a", 1), at(100_000)).view;
    assert!(view.rate < 11.0, "cold again after a rest: {}", view.rate);
}

// covers: ING-4.10-39
#[test]
fn classes_share_by_weight_and_members_of_a_class_evenly() {
    let limits = limits(100.0, 1.0);
    let mut state = GateState::new(limits, at(0));
    let members = [("a1", "a", 3), ("a2", "a", 3), ("b1", "b", 1)];
    let (mut got, mut granted) = ([0; 3], [const { Vec::<Ts>::new() }; 3]);
    for millis in (0..60_000).step_by(500) {
        for (nth, (member, class, weight)) in members.iter().enumerate() {
            let now = at(millis + nth as i64 * 100);
            granted[nth].retain(|slot| *slot > now);
            let granted_now = granted[nth].len() as u32;
            let request = GateRequest {
                class: (*class).into(),
                weight: *weight,
                cached: granted_now,
                prefetch: 1_000,
                ..request(member, 0)
            };
            let slots = state.request(limits, &request, now).slots;
            got[nth] += if millis >= 5_000 { slots.len() } else { 0 };
            granted[nth].extend(slots.iter().map(|slot| slot.at));
        }
    }
    let all: usize = got.iter().sum();
    let share = |nth: usize| got[nth] as f64 / all as f64;
    assert!(all > 5_000, "{all}");
    assert!((share(0) - 0.375).abs() < 0.02 && (share(1) - 0.375).abs() < 0.02, "{got:?}");
    assert!((share(2) - 0.25).abs() < 0.0125, "{got:?}");
}

#[test]
fn strictest_declared_limits_apply() {
    let (fast, slow) = (limits(100.0, 10.0), limits(2.0, 1.0));
    let mut state = GateState::new(fast, at(0));
    state.request(fast, &request("a", 1), at(0));
    assert!(state.request(slow, &request("b", 1), at(10)).view.rate <= 2.0);
    assert!(state.request(fast, &request("a", 1), at(20)).view.rate <= 2.0);
    assert!(state.request(fast, &request("a", 1), at(20_000)).view.rate > 90.0, "when nobody declares less any more");
}

#[test]
fn a_clock_that_was_set_back_neither_grants_nor_blocks() {
    let limits = limits(10.0, 5.0);
    let mut state = GateState::new(limits, at(10_000_000));
    let before = drain(&mut state, limits, 10_000_000..10_005_000);
    let after = drain(&mut state, limits, 0..20_000);
    assert!(before.len() + after.len() <= 5 + 250, "{} + {}", before.len(), after.len());
    assert!(after[0] <= 200, "{after:?}");
    let gap = after[0] + 10_005_000 - before.last().unwrap();
    assert!(gap >= 90, "the line goes on where it was: {gap}");
}

#[test]
fn gate_state_round_trips() {
    let limits = GateLimits { quotas: Quotas { hourly: Some(9), daily: Some(10) }, ..limits(3.0, 7.0) };
    let mut state = GateState::new(limits, at(0));
    state.request(limits, &request("a", 3), at(0));
    let text = serde_json::to_string(&state).unwrap();
    assert_eq!(serde_json::from_str::<GateState>(&text).unwrap(), state);
}

#[test]
fn single_member_can_use_every_rate_and_burst() {
    for (per_sec, burst) in
        [(1.0, 10.0), (10.0, 100.0), (50.0, 1_000.0), (3.0, 10.0), (0.05, 1.0), (10_000.0, 1e6), (1.0, 5_000.0)]
    {
        for trip in [1, 20, 80] {
            let limits = limits(per_sec, burst);
            let (mut state, mut permit_cache) = (GateState::new(limits, at(0)), crate::gate::PermitCache::default());
            let (mut sent, mut requests, mut now) = (0, 0, 0);
            while now < 30_000 {
                if let Some(mut request) = permit_cache.request(1, true, at(now)) {
                    (request.member, request.percent, request.deadline) = ("m".into(), 100, Duration::from_secs(60));
                    requests += 1;
                    let reply = state.request(limits, &request, at(now + trip / 2));
                    permit_cache.on_reply(&reply, at(now), at(now + trip), &mut crate::rng::Rng::new(1));
                    now += trip;
                }
                match permit_cache.take(true, &limits, at(now)) {
                    crate::gate::PermitResult::Go(_) => sent += 1,
                    crate::gate::PermitResult::At(when) => now = now.max((when.micros() - at(0).micros()) / 1000),
                    _ => {}
                }
                now += 1;
            }
            let least = (per_sec * 30.0 * 0.6).clamp(1.0, 25.0) as u32;
            assert!(sent >= least, "{per_sec}/s, burst {burst}, trip {trip} ms: {sent} sent, {requests} requests");
            assert!(
                requests <= 2 * sent + 700,
                "{per_sec}/s, burst {burst}, trip {trip} ms: {requests} requests for {sent}"
            );
        }
    }
}

#[test]
fn idle_key_grants_at_once_then_one_step_later() {
    for (trip, burst) in [(1, 1.0), (20, 1.0), (80, 1.0), (20, 3.0)] {
        let limits = limits(1.0, burst);
        let mut state = GateState::new(limits, at(0));
        // After an idle period as well as at the beginning.
        for start in [0, 3_600_000] {
            let (mut permit_cache, mut sent, mut now) =
                (crate::gate::PermitCache::expecting(at(trip).since(at(0))), Vec::new(), start);
            while now < start + 10_000 {
                if let Some(mut request) = permit_cache.request(1, true, at(now)) {
                    (request.member, request.percent, request.deadline) = ("m".into(), 100, Duration::from_secs(60));
                    let reply = state.request(limits, &request, at(now + trip / 2));
                    permit_cache.on_reply(&reply, at(now), at(now + trip), &mut crate::rng::Rng::new(1));
                    now += trip;
                }
                match permit_cache.take(true, &limits, at(now)) {
                    crate::gate::PermitResult::Go(_) => sent.push(now - start),
                    crate::gate::PermitResult::At(when) => now = now.max((when.micros() - at(0).micros()) / 1000),
                    _ => {}
                }
                now += 1;
            }
            assert!(sent[0] <= 2 * trip + 10, "trip {trip} ms, burst {burst}: {sent:?}");
            let close = sent.windows(2).filter(|pair| pair[1] - pair[0] < 1_000).count();
            assert!(close < burst as usize, "trip {trip} ms, burst {burst}: {sent:?}");
        }
    }
}

#[test]
fn waiting_requests_get_the_slots_that_expire_first() {
    for (per_sec, burst) in [(5_000.0, 5_000.0), (10.0, 20.0), (2.0, 5.0)] {
        let limits = limits(per_sec, burst);
        let mut state = GateState::new(limits, at(0));
        let lead = Duration::from_millis(10);
        let reply = state.request(limits, &GateRequest { prefetch: 3, lead, ..request("a", 1) }, at(0));
        let good_until = |slot: &Slot| slot.at + reply.good_for;
        let (waits, ahead) = reply.slots.split_first().expect("a slot");
        assert!(good_until(waits) >= at(0) + lead, "{per_sec}: {reply:?}");
        assert!(!ahead.is_empty() || waits.permits >= 4, "{per_sec}: {reply:?}");
        for slot in ahead {
            assert!(slot.at <= at(0), "usable at once: {per_sec}: {reply:?}");
            assert!(good_until(slot) >= at(250), "{per_sec}: {reply:?}");
        }
        // The oldest are left for waiting callers, where there are any.
        let next = state.request(limits, &request("b", 1), at(0)).slots[0];
        assert!(next.at > at(0) || ahead.iter().all(|slot| next.at < slot.at), "{per_sec}: {next:?} {reply:?}");
    }
}
