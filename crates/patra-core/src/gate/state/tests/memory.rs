//! What a key must keep in mind, and what it must not take for true.

use super::asking::{ask, at, limits};
use super::*;
use crate::gate::Quotas;

const MONTH: i64 = 30 * 86_400_000;

fn tell(signal: Signal) -> Ask {
    Ask { signals: vec![signal], ..Ask::default() }
}

fn remaining(remaining: u64, secs: u64) -> Ask {
    tell(Signal::Remaining { remaining, limit: Some(100), resets_in: Duration::from_secs(secs) })
}

// covers: ING-4.10-22
#[test]
fn a_quota_counts_what_left_before_anybody_declared_it() {
    let plain = limits(100.0, 100.0);
    let quotas = Limits { quotas: Quotas { hourly: Some(20), daily: Some(30) }, ..plain };
    let mut state = State::new(plain, at(0));
    assert_eq!(state.ask(plain, &ask("a", 15), at(0)).slots.len(), 15);
    let view = state.ask(quotas, &Ask::default(), at(10_000)).view;
    assert_eq!((view.hourly.unwrap().remaining, view.daily.unwrap().remaining), (5, 15));
    // Nor does it forget while those who declare it rest.
    assert_eq!(state.ask(plain, &ask("a", 5), at(20_000)).slots.len(), 5);
    let hasty = Ask { first: true, ..ask("b", 1) };
    assert!(matches!(state.ask(quotas, &hasty, at(30_000)).refused, Some((Why::QuotaHard, _))));
}

#[test]
fn a_clock_that_was_set_back_holds_up_nothing() {
    let calm = limits(10.0, 5.0);
    let quotas = Limits { quotas: Quotas { hourly: Some(5), daily: None }, ..calm };
    let set_back = |limits: Limits, prepare: &Ask, later: i64| {
        let mut state = State::new(limits, at(MONTH));
        state.ask(limits, prepare, at(MONTH));
        let answer = state.ask(limits, &Ask { first: true, ..ask("a", 1) }, at(0));
        (answer, state.ask(limits, &Ask { first: true, ..ask("a", 1) }, at(later)))
    };
    let (at_once, later) = set_back(quotas, &Ask { first: true, ..ask("m", 5) }, 3_700_000);
    assert!(matches!(at_once.refused, Some((Why::QuotaHard, until)) if until <= at(3_700_000)), "{at_once:?}");
    assert_eq!(later.refused, None, "an hour is an hour");
    let (at_once, later) = set_back(calm, &remaining(0, 60), 60_001);
    assert_eq!(at_once.refused, Some((Why::Provider, at(60_000))));
    assert_eq!(later.refused, None);
    let (at_once, later) = set_back(calm, &tell(Signal::RetryAfter(Duration::from_secs(60))), 60_001);
    assert_eq!(at_once.refused, Some((Why::Cooldown, at(60_000))));
    assert_eq!(later.refused, None);
    let (at_once, later) = set_back(calm, &tell(Signal::Refused { sent: at(MONTH) }), 600_000);
    assert_eq!((at_once.view.rate, later.view.rate), (5.0, 10.0), "the rate rises again");
    let warm = Limits { warmup: Duration::from_secs(20), ..calm };
    let (at_once, _) = set_back(warm, &ask("a", 1), 10);
    assert!(at_once.view.rate < 4.0, "still cold: {}", at_once.view.rate);

    // Somebody who declared less and is gone.
    let mut state = State::new(calm, at(MONTH));
    state.ask(limits(1.0, 1.0), &ask("gone", 1), at(MONTH));
    assert!(state.ask(calm, &ask("a", 1), at(0)).view.rate <= 1.0);
    assert_eq!(state.ask(calm, &ask("a", 1), at(4_000)).view.rate, 10.0);
}

// covers: ING-4.10-17, ING-4.10-19
#[test]
fn no_silence_however_long_ends_in_a_burst() {
    for (secs, late) in [(5, 700), (61, 3_000), (100, 15_000), (3_600, 60_000)] {
        let limits = limits(10.0, 30.0);
        let mut state = State::new(limits, at(0));
        state.ask(limits, &tell(Signal::RetryAfter(Duration::from_secs(secs))), at(0));
        assert!(state.ask(limits, &ask("a", 30), at(1_000)).refused.is_some());
        let now = at(secs as i64 * 1_000 + late);
        let slots = state.ask(limits, &ask("a", 30), now).slots;
        let at_once = slots.iter().filter(|slot| slot.at < now).count();
        assert_eq!(at_once, 0, "after {secs} s of silence: {slots:?}");
    }
}

#[test]
fn an_answer_that_takes_for_ever_does_not_move_slots_out_of_reach() {
    let limits = limits(10.0, 5.0);
    let mut state = State::new(limits, at(0));
    let far = Ask { lead: Duration::from_secs(600), ..ask("far", 1) };
    let slots = state.ask(limits, &far, at(0)).slots;
    assert!(slots[0].at <= at(2_000), "{slots:?}");
}

// covers: ING-4.10-18
#[test]
fn a_window_of_the_far_side_ends_when_it_says_even_if_a_longer_one_was_told_before() {
    let limits = limits(100.0, 10.0);
    let mut state = State::new(limits, at(0));
    state.ask(limits, &remaining(5, 86_400), at(0));
    state.ask(limits, &remaining(2, 12), at(100));
    assert_eq!(state.ask(limits, &ask("a", 10), at(100)).slots.len(), 2);
    assert_eq!(state.ask(limits, &ask("a", 1), at(200)).refused, Some((Why::Provider, at(12_100))));
    assert_eq!(state.ask(limits, &ask("a", 1), at(12_101)).refused, None);
    // A window that is over says nothing.
    let over = state.ask(limits, &remaining(0, 0), at(13_000));
    assert!(!over.news);
    assert_eq!(state.ask(limits, &ask("a", 1), at(13_000)).refused, None);
}

// covers: ING-4.10-13, ING-4.10-18
#[test]
fn what_was_fetched_ahead_and_came_back_is_there_for_others() {
    let limits = limits(100.0, 10.0);
    let mut state = State::new(limits, at(0));
    state.ask(limits, &ask("a", 10), at(0));
    state.ask(limits, &remaining(40, 60), at(200));
    let ahead = state.ask(limits, &Ask { ahead: 100, ..ask("a", 0) }, at(200)).slots;
    assert!((39..=40).contains(&ahead.len()), "{ahead:?}");
    let rest = state.ask(limits, &Ask::default(), at(210)).view.remaining().unwrap();
    let back: Vec<_> = ahead.iter().copied().filter(|slot| slot.at > at(300)).collect();
    let left = state.ask(limits, &Ask { returned: back.clone(), ..Ask::default() }, at(220)).view.remaining();
    assert_eq!(left, Some(back.len() as u64 + rest));
    // The far side has meanwhile counted what left: no more than it said is ever handed out.
    state.ask(limits, &remaining(3, 60), at(230));
    state.ask(limits, &Ask { returned: back, ..Ask::default() }, at(240));
    assert!(state.ask(limits, &Ask::default(), at(250)).view.remaining() <= Some(3));
}

#[test]
fn a_state_that_nobody_can_read_grants_nothing_and_heals() {
    let limits = Limits { quotas: Quotas { hourly: Some(100), daily: None }, ..limits(10.0, 30.0) };
    let hasty = Ask { first: true, ..ask("a", 30) };
    let (mut state, error) = State::read_or_spent("{\"limits\": 7", limits, at(0));
    assert!(error.is_some());
    let Some((Why::QuotaHard, until)) = state.ask(limits, &hasty, at(0)).refused else { panic!("{state:?}") };
    assert!(until <= at(3_700_000), "{until:?}");
    assert_eq!(state.ask(limits, &hasty, until).refused, None);
    let plain = Limits { quotas: Quotas::default(), ..limits };
    let (mut state, _) = State::read_or_spent("", plain, at(0));
    let slots = state.ask(plain, &hasty, at(0)).slots;
    assert!(slots.iter().all(|slot| slot.at >= at(4_000)), "no burst, and those who hold a slot come first: {slots:?}");

    // What an older or a newer program wrote is read as far as it goes.
    let mut text: serde_json::Value = serde_json::from_str(&state.write()).unwrap();
    for key in ["hourly", "daily", "provider", "members", "permits", "lowered"] {
        text.as_object_mut().unwrap().remove(key);
    }
    text["somethingNew"] = 1.into();
    assert!(State::read(&text.to_string()).is_ok());
}

#[test]
fn a_standing_tells_when_something_frees() {
    let limits = Limits { quotas: Quotas { hourly: Some(100), daily: None }, ..limits(10.0, 30.0) };
    let mut state = State::new(limits, at(0));
    assert_eq!(state.ask(limits, &Ask::default(), at(0)).view.hourly.unwrap().frees_at, None);
    state.ask(limits, &ask("a", 3), at(0));
    let frees = state.ask(limits, &Ask::default(), at(600_000)).view.hourly.unwrap().frees_at.unwrap();
    assert!(frees > at(3_600_000) && frees <= at(3_690_000), "{frees:?}");
    assert_eq!(state.ask(limits, &Ask::default(), frees).view.hourly.unwrap().remaining, 100);
}
