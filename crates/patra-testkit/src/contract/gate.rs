//! The rate gate. Its arithmetic is tested in the core; these cases check that no slot is granted twice and no state is
//! lost.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::{
    GateLimits, GateRefusal, GateReply, GateRequest, GateSignal, GateState, Quotas, Rate, ReturnedSlot, Slot,
};
use patra_core::port::query::View;
use patra_core::tx::RequestPermits;

use super::Fixture;

const FAST: GateLimits = GateLimits {
    rate: Rate { per_sec: 100.0, burst: 50.0 },
    quotas: Quotas { hourly: None, daily: None },
    warmup: Duration::ZERO,
    demote: 2.0,
};

async fn ask(fx: &Fixture, key: &str, limits: GateLimits, ask: GateRequest) -> GateReply {
    fx.ok(Arc::new(RequestPermits { key: key.into(), limits, request: ask })).await
}

fn want(member: &str, now: u32) -> GateRequest {
    GateRequest {
        member: member.into(),
        class: "c".into(),
        weight: 1,
        now,
        percent: 100,
        deadline: Duration::from_secs(30),
        ..GateRequest::default()
    }
}

fn times(answer: &GateReply) -> Vec<Ts> {
    answer.slots.iter().map(|slot| slot.at).collect()
}

// covers: ING-4.10-07, ING-4.10-11, ING-4.10-12
pub(super) async fn slots_are_handed_out_once_and_survive(fx: Fixture) {
    let first = ask(&fx, "p/e", FAST, want("a", 10)).await;
    let second = ask(&fx, "p/e", FAST, want("b", 10)).await;
    assert_eq!((first.slots.len(), second.slots.len()), (10, 10));
    let all: BTreeSet<Ts> = times(&first).into_iter().chain(times(&second)).collect();
    assert_eq!(all.len(), 20, "{first:?} {second:?}");
    assert!(second.now >= first.now);
    let rows = fx.rows(View::Gates).await;
    assert_eq!(rows.texts("rate_key"), ["p/e"]);
    assert_eq!(GateState::read(&rows.texts("state")[0]).expect("a state").view(second.now).permits, 20);
}

// covers: ING-4.10-02, ING-4.10-42, ING-13.1-03
pub(super) async fn concurrent_requests_never_share_a_slot(fx: Fixture) {
    let asks = (0..8).map(|nth| {
        let fx = fx.clone();
        tokio::spawn(async move {
            let mut times = Vec::new();
            for _ in 0..5 {
                let answer = ask(&fx, "p/e", FAST, want(&format!("m{nth}"), 3)).await;
                times.extend(answer.slots.iter().map(|slot| slot.at));
            }
            times
        })
    });
    let mut all = Vec::new();
    for times in asks.collect::<Vec<_>>() {
        all.extend(times.await.expect("no panic"));
    }
    let distinct: BTreeSet<Ts> = all.iter().copied().collect();
    assert!(all.len() >= 60, "{}", all.len());
    assert_eq!(distinct.len(), all.len());
}

// covers: ING-4.10-17, ING-4.10-22, ING-4.10-24
pub(super) async fn quotas_and_silence_apply_to_all_members(fx: Fixture) {
    let limits = GateLimits { quotas: Quotas { hourly: Some(10), daily: Some(1_000) }, ..FAST };
    let answer = ask(&fx, "q", limits, GateRequest { first: true, ..want("a", 20) }).await;
    assert_eq!(answer.slots.len(), 10);
    let refused = ask(&fx, "q", limits, GateRequest { first: true, ..want("b", 1) }).await;
    let Some((GateRefusal::QuotaHard, until)) = refused.refused else { panic!("{refused:?}") };
    assert!(until.since(refused.now) < Duration::from_secs(10), "permits may come back unused: {refused:?}");
    let back = |slot: &Slot| ReturnedSlot { slot: *slot, granted_at: answer.now };
    let returned = answer.slots[7..].iter().map(back).collect();
    ask(&fx, "q", limits, GateRequest { returned, ..GateRequest::default() }).await;
    let again = ask(&fx, "q", limits, GateRequest { first: true, ..want("b", 20) }).await;
    assert_eq!(again.slots.len(), 3, "{again:?}");
    let silence =
        GateRequest { signals: vec![GateSignal::RetryAfter(Duration::from_secs(60))], ..GateRequest::default() };
    assert!(ask(&fx, "s", FAST, silence.clone()).await.notify_others, "the others must be notified");
    let refused = ask(&fx, "s", FAST, want("a", 1)).await;
    assert!(matches!(refused.refused, Some((GateRefusal::Cooldown, _))), "{refused:?}");
}

pub(super) async fn gate_keys_are_independent(fx: Fixture) {
    let silence =
        GateRequest { signals: vec![GateSignal::RetryAfter(Duration::from_secs(60))], ..GateRequest::default() };
    ask(&fx, "p/a", FAST, silence).await;
    assert_eq!(ask(&fx, "p/b", FAST, want("a", 1)).await.slots.len(), 1);
    assert_eq!(fx.rows(View::Gates).await.len(), 2);
}
