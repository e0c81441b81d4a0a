//! State that a key keeps, and input that it must not trust.

use super::requests::{at, limits, request, unused};
use super::*;
use crate::gate::Quotas;

const MONTH: i64 = 30 * 86_400_000;

fn report(signal: GateSignal) -> GateRequest {
    GateRequest { signals: vec![signal], ..GateRequest::default() }
}

fn remaining(remaining: u64, secs: u64) -> GateRequest {
    report(GateSignal::Remaining { remaining, limit: Some(100), resets_in: Duration::from_secs(secs) })
}

// covers: ING-4.10-22
#[test]
fn quota_counts_requests_sent_before_it_was_declared() {
    let plain = limits(100.0, 100.0);
    let quotas = GateLimits { quotas: Quotas { hourly: Some(20), daily: Some(30) }, ..plain };
    let mut state = GateState::new(plain, at(0));
    assert_eq!(state.request(plain, &request("a", 15), at(0)).slots.len(), 15);
    let view = state.request(quotas, &GateRequest::default(), at(10_000)).view;
    assert_eq!((view.hourly.unwrap().remaining, view.daily.unwrap().remaining), (5, 15));
    // Nor does it forget while those who declare the limit are idle.
    assert_eq!(state.request(plain, &request("a", 5), at(20_000)).slots.len(), 5);
    let hasty = GateRequest { first: true, ..request("b", 1) };
    assert!(matches!(state.request(quotas, &hasty, at(30_000)).refused, Some((GateRefusal::QuotaHard, _))));
}

#[test]
fn clock_set_back_blocks_nothing() {
    let calm = limits(10.0, 5.0);
    let quotas = GateLimits { quotas: Quotas { hourly: Some(5), daily: None }, ..calm };
    let set_back = |limits: GateLimits, prepare: &GateRequest, later: i64| {
        let mut state = GateState::new(limits, at(MONTH));
        state.request(limits, prepare, at(MONTH));
        let reply = state.request(limits, &GateRequest { first: true, ..request("a", 1) }, at(0));
        (reply, state.request(limits, &GateRequest { first: true, ..request("a", 1) }, at(later)))
    };
    let (at_once, later) = set_back(quotas, &GateRequest { first: true, ..request("m", 5) }, 3_700_000);
    assert!(matches!(at_once.refused, Some((GateRefusal::QuotaHard, until)) if until <= at(3_700_000)), "{at_once:?}");
    assert_eq!(later.refused, None, "an hour is an hour");
    let (at_once, later) = set_back(calm, &remaining(0, 60), 60_001);
    assert_eq!(at_once.refused, Some((GateRefusal::Provider, at(60_000))));
    assert_eq!(later.refused, None);
    let (at_once, later) = set_back(calm, &report(GateSignal::RetryAfter(Duration::from_secs(60))), 60_001);
    assert_eq!(at_once.refused, Some((GateRefusal::Cooldown, at(60_000))));
    assert_eq!(later.refused, None);
    let (at_once, later) = set_back(calm, &report(GateSignal::Refused { sent: at(MONTH) }), 600_000);
    assert_eq!((at_once.view.rate, later.view.rate), (5.0, 10.0), "the rate rises again");
    let warm = GateLimits { warmup: Duration::from_secs(20), ..calm };
    let (at_once, _) = set_back(warm, &request("a", 1), 10);
    assert!(at_once.view.rate < 4.0, "still cold: {}", at_once.view.rate);

    // A member that declared less and is gone.
    let mut state = GateState::new(calm, at(MONTH));
    state.request(limits(1.0, 1.0), &request("gone", 1), at(MONTH));
    assert!(state.request(calm, &request("a", 1), at(0)).view.rate <= 1.0);
    assert_eq!(state.request(calm, &request("a", 1), at(4_000)).view.rate, 10.0);
}

// covers: ING-4.10-17, ING-4.10-19
#[test]
fn cooldown_never_ends_in_a_burst() {
    for (secs, late) in [(5, 700), (61, 3_000), (100, 15_000), (3_600, 60_000)] {
        let limits = limits(10.0, 30.0);
        let mut state = GateState::new(limits, at(0));
        state.request(limits, &report(GateSignal::RetryAfter(Duration::from_secs(secs))), at(0));
        assert!(state.request(limits, &request("a", 30), at(1_000)).refused.is_some());
        let now = at(secs as i64 * 1_000 + late);
        let slots = state.request(limits, &request("a", 30), now).slots;
        let at_once = slots.iter().filter(|slot| slot.at < now).count();
        assert_eq!(at_once, 0, "after {secs} s of cooldown: {slots:?}");
    }
}

#[test]
fn very_slow_reply_keeps_slots_within_reach() {
    let limits = limits(10.0, 5.0);
    let mut state = GateState::new(limits, at(0));
    let far = GateRequest { lead: Duration::from_secs(600), ..request("far", 1) };
    let slots = state.request(limits, &far, at(0)).slots;
    assert!(slots[0].at <= at(2_000), "{slots:?}");
}

// covers: ING-4.10-18
#[test]
fn upstream_window_ends_as_last_reported() {
    let limits = limits(100.0, 10.0);
    let mut state = GateState::new(limits, at(0));
    state.request(limits, &remaining(5, 86_400), at(0));
    state.request(limits, &remaining(2, 12), at(100));
    assert_eq!(state.request(limits, &request("a", 10), at(100)).slots.len(), 2);
    assert_eq!(state.request(limits, &request("a", 1), at(200)).refused, Some((GateRefusal::Provider, at(12_100))));
    assert_eq!(state.request(limits, &request("a", 1), at(12_101)).refused, None);
    // A window that has ended says nothing.
    let over = state.request(limits, &remaining(0, 0), at(13_000));
    assert!(!over.notify_others);
    assert_eq!(state.request(limits, &request("a", 1), at(13_000)).refused, None);
}

// covers: ING-4.10-13, ING-4.10-18
#[test]
fn returned_prefetched_slots_are_granted_again() {
    let limits = limits(100.0, 10.0);
    let mut state = GateState::new(limits, at(0));
    state.request(limits, &request("a", 10), at(0));
    state.request(limits, &remaining(40, 60), at(200));
    let ahead = state.request(limits, &GateRequest { prefetch: 100, ..request("a", 0) }, at(200)).slots;
    assert!((39..=40).contains(&ahead.len()), "{ahead:?}");
    let rest = state.request(limits, &GateRequest::default(), at(210)).view.remaining().unwrap();
    let back = unused(&ahead.iter().copied().filter(|slot| slot.at > at(300)).collect::<Vec<_>>(), at(200));
    let left = state
        .request(limits, &GateRequest { returned: back.clone(), ..GateRequest::default() }, at(220))
        .view
        .remaining();
    assert_eq!(left, Some(back.len() as u64 + rest));
    // The upstream has meanwhile counted what left: no more than it reported is ever granted.
    state.request(limits, &remaining(3, 60), at(230));
    state.request(limits, &GateRequest { returned: back, ..GateRequest::default() }, at(240));
    assert!(state.request(limits, &GateRequest::default(), at(250)).view.remaining() <= Some(3));
}

#[test]
fn unreadable_state_grants_nothing_and_recovers() {
    let limits = GateLimits { quotas: Quotas { hourly: Some(100), daily: None }, ..limits(10.0, 30.0) };
    let hasty = GateRequest { first: true, ..request("a", 30) };
    let (mut state, error) = GateState::read_or_spent("{\"limits\": 7", limits, at(0));
    assert!(error.is_some());
    let Some((GateRefusal::QuotaHard, until)) = state.request(limits, &hasty, at(0)).refused else {
        panic!("{state:?}")
    };
    assert!(until <= at(3_700_000), "{until:?}");
    assert_eq!(state.request(limits, &hasty, until).refused, None);
    let plain = GateLimits { quotas: Quotas::default(), ..limits };
    let (mut state, _) = GateState::read_or_spent("", plain, at(0));
    let slots = state.request(plain, &hasty, at(0)).slots;
    assert!(slots.iter().all(|slot| slot.at >= at(4_000)), "no burst, and granted slots come first: {slots:?}");

    // A state written by an older or newer version is read as far as possible.
    let mut text: serde_json::Value = serde_json::from_str(&state.write()).unwrap();
    for key in ["hourly", "daily", "provider", "members", "permits", "lowered"] {
        text.as_object_mut().unwrap().remove(key);
    }
    text["somethingNew"] = 1.into();
    assert!(GateState::read(&text.to_string()).is_ok());
}

#[test]
fn quota_status_reports_when_requests_are_free() {
    let limits = GateLimits { quotas: Quotas { hourly: Some(100), daily: None }, ..limits(10.0, 30.0) };
    let mut state = GateState::new(limits, at(0));
    assert_eq!(state.request(limits, &GateRequest::default(), at(0)).view.hourly.unwrap().frees_at, None);
    state.request(limits, &request("a", 3), at(0));
    let frees = state.request(limits, &GateRequest::default(), at(600_000)).view.hourly.unwrap().frees_at.unwrap();
    assert!(frees > at(3_600_000) && frees <= at(3_690_000), "{frees:?}");
    assert_eq!(state.request(limits, &GateRequest::default(), frees).view.hourly.unwrap().remaining, 100);
}
