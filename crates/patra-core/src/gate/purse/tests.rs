use super::*;
use crate::gate::{Limits, Rate, State};

const LIMITS: Limits = Limits {
    rate: Rate { per_sec: 10.0, burst: 5.0 },
    quotas: crate::gate::Quotas { hourly: None, daily: None },
    warmup: Duration::ZERO,
    demote: 2.0,
};

const QUOTA: Limits = Limits { quotas: crate::gate::Quotas { hourly: Some(100), daily: None }, ..LIMITS };

/// The process is far from the store's time, in either direction.
struct Scene {
    state: State,
    purse: Purse,
    skew: i64,
}

impl Scene {
    fn new(skew_secs: i64) -> Scene {
        Scene { state: State::new(LIMITS, at(0)), purse: Purse::default(), skew: skew_secs * 1_000_000 }
    }

    fn local(&self, millis: i64) -> Ts {
        Ts::from_micros(at(millis).micros() + self.skew)
    }

    /// Asks at one time; the store answers at once, and the answer arrives later.
    fn ask(&mut self, waiting: u32, millis: i64, trip: i64) {
        let Some(mut ask) = self.purse.ask(waiting, true, self.local(millis)) else { return };
        (ask.member, ask.percent, ask.deadline) = ("m".into(), 100, Duration::from_secs(60));
        let answer = self.state.ask(LIMITS, &ask, at(millis));
        let (sent, now) = (self.local(millis), self.local(millis + trip));
        self.purse.on_answer(&answer, sent, now, &mut Rng::new(3));
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
        scene.ask(8, 0, 10);
        let mut sent = Vec::new();
        for millis in 10..1_500 {
            while let Try::Go(permit) = scene.purse.take(true, &LIMITS, scene.local(millis)) {
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
fn what_is_given_back_is_the_next_ones_and_what_is_void_goes_back() {
    let mut scene = Scene::new(60);
    scene.ask(2, 0, 1);
    let Try::Go(permit) = scene.purse.take(true, &LIMITS, scene.local(1)) else { panic!("there is a burst") };
    scene.purse.give_back(permit, scene.local(2));
    assert_eq!(scene.purse.take(true, &LIMITS, scene.local(2)), Try::Go(permit));
    assert!(scene.purse.hear(Signal::RetryAfter(Duration::from_secs(5)), scene.local(2)), "others must hear of it");
    assert_eq!(scene.purse.permits(), 0);
    scene.ask(1, 3, 1);
    assert!(matches!(scene.purse.take(true, &LIMITS, scene.local(4)), Try::Closed(Why::Cooldown, _)));
}

// covers: ING-4.10-19
#[test]
fn the_end_of_a_silence_is_not_the_same_for_all() {
    let ends: std::collections::BTreeSet<i64> = (0..20)
        .map(|seed| {
            let (mut state, mut purse) = (State::new(LIMITS, at(0)), Purse::default());
            purse.hear(Signal::RetryAfter(Duration::from_secs(100)), at(0));
            let ask = purse.ask(1, true, at(0)).expect("it must be told");
            let answer = state.ask(LIMITS, &ask, at(0));
            purse.on_answer(&answer, at(0), at(0), &mut Rng::new(seed));
            let Some((Why::Cooldown, until)) = purse.closed(true, at(0)) else { panic!("{purse:?}") };
            let late = until.since(at(100_000));
            assert!(late >= Duration::from_secs(5) && late <= Duration::from_secs(15), "5 to 15 %: {late:?}");
            until.micros()
        })
        .collect();
    assert!(ends.len() > 15);
}

#[test]
fn an_answer_that_was_overtaken_by_a_wish_for_silence_is_not_used() {
    let mut scene = Scene::new(0);
    let ask = scene.purse.ask(5, true, at(0)).unwrap();
    let answer = scene.state.ask(LIMITS, &Ask { member: "m".into(), percent: 100, ..ask }, at(0));
    assert!(!answer.slots.is_empty());
    scene.purse.empty();
    scene.purse.on_answer(&answer, at(0), at(5), &mut Rng::new(1));
    assert_eq!(scene.purse.take(true, &LIMITS, at(5)), Try::Empty);
}

// covers: ING-4.10-17
#[test]
fn what_was_given_out_before_a_silence_is_neither_used_nor_given_to_others() {
    let mut scene = Scene::new(0);
    scene.ask(3, 0, 1);
    let take = |scene: &mut Scene| match scene.purse.take(true, &LIMITS, at(1)) {
        Try::Go(permit) => vec![permit],
        other => panic!("{other:?}"),
    };
    let (mut sent, mut kept, mut dropped) = (take(&mut scene), take(&mut scene), take(&mut scene));
    assert!(scene.purse.spend(&mut sent, at(2)));
    scene.purse.empty();
    assert!(!scene.purse.spend(&mut kept, at(3)), "the far side wants silence");
    dropped.drain(..).for_each(|permit| scene.purse.give_back(permit, at(3)));
    assert_eq!(scene.purse.take(true, &LIMITS, at(4)), Try::Empty);
    let ask = scene.purse.ask(1, true, at(4)).unwrap();
    assert_eq!(ask.returned.len(), 2, "they were never sent");
}

#[test]
fn a_silence_is_never_shortened_and_lasts_no_longer_because_the_store_was_away() {
    let mut purse = Purse::default();
    purse.hear(Signal::RetryAfter(Duration::from_secs(60)), at(0));
    purse.hear(Signal::RetryAfter(Duration::from_secs(5)), at(10));
    assert_eq!(purse.closed(true, at(30_000)), Some((Why::Cooldown, at(60_000))));
    assert_eq!(purse.ask(0, true, at(10)).unwrap().signals, [Signal::RetryAfter(Duration::from_millis(59_990))]);
    purse.on_failure(at(1_000));
    for nth in 0..100 {
        purse.hear(Signal::Refused { sent: at(nth) }, at(1_000));
    }
    let told = purse.ask(0, true, at(40_000)).unwrap().signals;
    assert_eq!(told, [Signal::Refused { sent: at(99) }, Signal::RetryAfter(Duration::from_secs(20))]);
}

// covers: ING-4.10-38
#[test]
fn without_a_store_the_declaration_holds_even_if_it_never_answered() {
    let slow = Limits { rate: Rate { per_sec: 0.1, burst: 1.0 }, ..LIMITS };
    for (limits, expected) in [(LIMITS, 60), (slow, 6), (QUOTA, 0)] {
        let mut purse = Purse::default();
        assert!(purse.ask(1, true, at(0)).is_some());
        purse.on_failure(at(0));
        let sent = (2_000..62_000).filter(|ms| matches!(purse.take(true, &limits, at(*ms)), Try::Go(_))).count();
        assert_eq!(sent, expected, "{limits:?}");
    }
}

#[test]
fn those_who_wait_for_a_slow_key_do_not_ask_again_and_again() {
    let slow = Limits { rate: Rate { per_sec: 0.2, burst: 1.0 }, ..LIMITS };
    let (mut state, mut purse, mut asks, mut sent) = (State::new(slow, at(0)), Purse::default(), 0, 0);
    for ms in 0..60_000 {
        if let Some(mut ask) = purse.ask(6, true, at(ms)) {
            (ask.member, ask.percent, ask.deadline) = ("m".into(), 100, Duration::from_secs(60));
            asks += 1;
            purse.on_answer(&state.ask(slow, &ask, at(ms)), at(ms), at(ms), &mut Rng::new(1));
        }
        sent += u32::from(matches!(purse.take(true, &slow, at(ms)), Try::Go(_)));
    }
    assert!(sent >= 11, "{sent}");
    assert!(asks <= 2 * sent + 2, "{asks} questions for {sent} permits");
}

// covers: ING-4.10-18
#[test]
fn the_far_sides_count_is_told_now_and_then_and_at_once_when_it_runs_out() {
    let mut scene = Scene::new(0);
    let count = |remaining| Signal::Remaining { remaining, limit: None, resets_in: Duration::from_secs(60) };
    scene.ask(4, 0, 1);
    let held = scene.purse.permits();
    assert!(held > 3, "{held}");
    assert!(!scene.purse.hear(count(1_000), at(10)));
    assert_eq!(scene.purse.ask(0, true, at(20)), None, "no hurry");
    assert_eq!(scene.purse.ask(0, true, at(1_020)).unwrap().signals.len(), 1);
    scene.purse.on_failure(at(1_030));
    assert!(!scene.purse.hear(Signal::Remaining { remaining: 0, limit: None, resets_in: Duration::ZERO }, at(1_030)));
    assert!(scene.purse.hear(count(2), at(1_040)), "there is less than we hold");
    assert_eq!(scene.purse.permits(), 2, "what the far side takes may go on");
    let ask = scene.purse.ask(0, true, at(1_041)).unwrap();
    assert_eq!(ask.returned.len() as u32, held - 2);
    assert!(matches!(ask.signals[..], [Signal::Remaining { remaining: 2, .. }]), "{:?}", ask.signals);
    scene.purse.on_failure(at(1_042));
    assert!(scene.purse.hear(count(0), at(1_043)));
    assert_eq!(scene.purse.permits(), 0);
}
