//! The pool of cookies: the pick, the limits, and the effects of errors.

use std::time::Duration;

use patra_core::cookie::{CookieCounts, CookieLimits, CookieObstacle};
use patra_core::port::query::{Cell, View};
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, CookieStatus};
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePicked, PauseCookie, PickCookie, ReactivateCookie, Recover, ReleaseCookie,
    RevokeCredential, SaveCookie, SaveCredential, SealedText, Versions,
};
use patra_core::{CredentialId, Ts};

use super::concurrent::at_once;
use super::cookie::{DAY, LONG_REST, PLATFORM, cookie, judge, pick, pinned, unchanged};
use super::credential::{binding, save};
use super::{Fixture, make};

const NEXT_DAY: Ts = Ts::from_secs(1_772_150_400);
/// Cooling that ends at once.
const NO_REST: CookieLimits = CookieLimits { cooling: Duration::ZERO, max_total_errors: 99, ..LONG_REST };

// covers: CRAWL-13, CRAWL-22
pub(super) async fn pick_takes_the_best_cookie_and_alternates_between_equals(fx: Fixture) {
    let prior = |name: &str, priority| SaveCookie { priority: Some(priority), ..cookie(name) };
    for op in [prior("low", 1), prior("b", 7), prior("a", 7)] {
        fx.ok(op).await;
    }
    let bound = |name: &str, provenance: &str, endpoint: &str| SaveCookie {
        binding: binding(name, provenance, endpoint),
        ..prior(name, 99)
    };
    fx.ok(bound("elsewhere", "dy", WHOLE)).await;
    fx.ok(bound("detail", PLATFORM, "detail")).await;
    fx.ok(bound("anywhere", WHOLE, WHOLE)).await;
    fx.ok(SaveCredential { auth_type: AuthType::Bearer, priority: 99, ..save(binding("key", PLATFORM, WHOLE), 1) })
        .await;
    let mut turns = Vec::new();
    for _ in 0..4 {
        turns.push(fx.name_taken(pick()).await);
        fx.pass(Duration::from_millis(2)).await;
    }
    assert_eq!(turns, ["b", "a", "b", "a"], "the older first, then the longest unused");
    let without =
        |names: &[&str]| PickCookie { exclude: names.iter().map(|name| (*name).to_owned()).collect(), ..pick() };
    assert_eq!(fx.name_taken(without(&["b"])).await, "a");
    assert_eq!(fx.name_taken(without(&["a", "b"])).await, "low");
    let detail = PickCookie { endpoint_name: "detail".into(), ..pick() };
    assert_eq!(fx.name_taken(detail).await, "detail");
    fx.ok(RevokeCredential { binding: binding("b", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.name_taken(without(&["a"])).await, "low");
    assert_eq!((fx.usage("a").await.daily_used, fx.usage("low").await.daily_used), (3, 2));
}

pub(super) async fn pick_returns_the_cookie_unchanged(fx: Fixture) {
    let id = fx.ok(cookie("a")).await.id;
    let before = fx.view("a").await;
    fx.pass(Duration::from_millis(5)).await;
    let (credential, now) = fx.taken(pick()).await;
    assert_eq!((credential.id, credential.version, &*credential.sealed), (id, 1, "v1.k1.a"));
    assert_eq!(credential, fx.stored("a").await);
    let view = fx.view("a").await;
    assert_eq!((view.usage.last_used_at, view.updated_at), (Some(now), now));
    assert!(now > before.updated_at && view.created_at == before.created_at);
    assert_eq!(fx.rows(View::CredentialStates).await.column("credential_id"), [Cell::Int(id.0)]);
}

// covers: CRAWL-07, CRAWL-08, CRAWL-22, CRAWL-23
pub(super) async fn daily_limit_lasts_for_a_day(fx: Fixture) {
    fx.ok(SaveCookie { daily_limit: Some(2), ..cookie("a") }).await;
    fx.taken(pick()).await;
    fx.taken(pick()).await;
    let counts = CookieCounts { active: 1, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None, in_use: false });
    let usage = fx.usage("a").await;
    assert_eq!((usage.status, usage.daily_used, usage.day), (CookieStatus::Active, 2, Some(DAY)));
    fx.taken(PickCookie { day: NEXT_DAY, ..pick() }).await;
    assert_eq!((fx.usage("a").await.daily_used, fx.usage("a").await.day), (1, Some(NEXT_DAY)));
    // A caller whose clock lags uses the limit of the new day.
    fx.taken(pick()).await;
    assert!(matches!(fx.ok(pick()).await, CookiePicked::Exhausted { .. }));
    fx.ok(SaveCookie { daily_limit: Some(3), ..unchanged("a") }).await;
    fx.taken(PickCookie { day: NEXT_DAY, ..pick() }).await;
    assert_eq!(
        fx.ok(PickCookie { provenance_code: "none".into(), ..pick() }).await,
        CookiePicked::Exhausted { counts: CookieCounts::default(), next_active_at: None, in_use: false }
    );
}

// covers: CRAWL-24
pub(super) async fn pick_by_name_returns_only_that_cookie(fx: Fixture) {
    fx.ok(SaveCookie { priority: Some(9), ..cookie("best") }).await;
    fx.ok(SaveCookie { daily_limit: Some(2), ..cookie("a") }).await;
    fx.ok(SaveCookie { binding: binding("far", "dy", WHOLE), ..cookie("far") }).await;
    assert_eq!(fx.name_taken(pinned("a")).await, "a");
    assert_eq!(fx.name_taken(PickCookie { exclude: vec!["a".into()], ..pinned("a") }).await, "a");
    for name in ["none", "far"] {
        assert_eq!(fx.ok(pinned(name)).await, CookiePicked::Unknown, "{name}");
    }
    let CookiePicked::Unusable { usage, .. } = fx.ok(pinned("a")).await else { panic!("past its limit") };
    assert_eq!(*usage, fx.usage("a").await);
    assert_eq!((usage.status, usage.daily_used), (CookieStatus::Active, 2));
    fx.fails("best", 3, LONG_REST).await;
    let CookiePicked::Unusable { usage, .. } = fx.ok(pinned("best")).await else { panic!("it cools") };
    assert_eq!(usage.status, CookieStatus::Cooling);
    fx.ok(RevokeCredential { binding: binding("best", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(pinned("best")).await, CookiePicked::Unknown);
}

// covers: CRAWL-09, CRAWL-11, CRAWL-14, CRAWL-15, CRAWL-18, CRAWL-23
pub(super) async fn errors_cool_a_cookie_and_more_of_them_disable_it(fx: Fixture) {
    let a = fx.ok(cookie("a")).await.id;
    let b = fx.ok(cookie("b")).await.id;
    let before = fx.now().await;
    fx.pass(Duration::from_millis(2)).await;
    assert_eq!(fx.fails("a", 2, LONG_REST).await, [CookieStatus::Active; 2]);
    assert_eq!(fx.usage("a").await.consecutive_errors, 2);
    let worked = fx.ok(judge(a, 0, before, None, LONG_REST)).await;
    assert_eq!(worked, CookieOutcomeRecorded { before: Some(CookieStatus::Active), after: Some(CookieStatus::Active) });
    assert_eq!((fx.usage("a").await.consecutive_errors, fx.usage("a").await.total_errors), (0, 2));
    assert_eq!(fx.stored("a").await.state.last_error, None, "it works again");
    let three = fx.fails("a", 3, LONG_REST).await;
    assert_eq!(three, [CookieStatus::Active, CookieStatus::Active, CookieStatus::Cooling]);
    let usage = fx.usage("a").await;
    assert_eq!((usage.status, usage.consecutive_errors, usage.total_errors), (CookieStatus::Cooling, 0, 5));
    let until = usage.cooling_until.expect("an end");
    assert_eq!(usage.cooling_since.map(|since| since + LONG_REST.cooling), Some(until));
    assert_eq!(fx.stored("a").await.state.last_error.as_deref(), Some("login lost"));
    assert_eq!(fx.name_taken(pick()).await, "b");

    // An error of a request from before the cooling is counted; one of a later request disables the cookie.
    let late = fx.ok(judge(a, 0, before, Some("late"), LONG_REST)).await;
    assert_eq!((late.before, late.after), (Some(CookieStatus::Cooling), Some(CookieStatus::Cooling)));
    assert_eq!((fx.usage("a").await.total_errors, fx.usage("a").await.cooling_until), (6, Some(until)));
    fx.fails("b", 3, LONG_REST).await;
    let ends = fx.usage("b").await.cooling_until;
    let counts = CookieCounts { cooling: 2, ..CookieCounts::default() };
    assert_eq!(
        fx.ok(pick()).await,
        CookiePicked::Exhausted { counts, next_active_at: Some(until).min(ends), in_use: false }
    );
    assert_eq!(fx.fails("b", 1, LONG_REST).await, [CookieStatus::Banned]);
    assert_eq!(fx.usage("b").await.cooling_until, None);
    assert_eq!(fx.fails("a", 1, CookieLimits { max_total_errors: 7, ..LONG_REST }).await, [CookieStatus::Banned]);
    let counts = CookieCounts { banned: 2, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None, in_use: false });
    // A disabled cookie stays disabled, and keeps its reason.
    let late = fx.ok(judge(b, 0, before, None, LONG_REST)).await;
    assert_eq!(late.after, Some(CookieStatus::Banned));
    assert_eq!(fx.stored("b").await.state.last_error.as_deref(), Some("login lost"));
}

// covers: CRAWL-16, CRAWL-17, CRAWL-19
pub(super) async fn cooling_ends_after_its_time(fx: Fixture) {
    fx.ok(cookie("a")).await;
    fx.fails("a", 3, NO_REST).await;
    assert_eq!(fx.usage("a").await.status, CookieStatus::Cooling, "no one has reactivated it yet");
    let started = fx.taken(pick()).await.1;
    let usage = fx.usage("a").await;
    assert_eq!((usage.status, usage.cooling_until, usage.cooling_since), (CookieStatus::Active, None, None));
    fx.fails("a", 3, NO_REST).await;
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 1);
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 0);
    assert_eq!(fx.usage("a").await.status, CookieStatus::Active);
    // An error after the cooling counts as the first of the next three.
    fx.fails("a", 3, NO_REST).await;
    let id = fx.view("a").await.id;
    let judged = fx.ok(judge(id, 0, started, Some("no"), NO_REST)).await;
    assert_eq!((judged.before, judged.after), (Some(CookieStatus::Cooling), Some(CookieStatus::Active)));
    let both = CookieLimits { max_consecutive_errors: 2, max_total_errors: 11, ..NO_REST };
    assert_eq!(fx.fails("a", 1, both).await, [CookieStatus::Invalid], "the end goes before a rest");
    // A revoked cookie is not reactivated.
    fx.ok(cookie("b")).await;
    fx.fails("b", 3, NO_REST).await;
    fx.ok(RevokeCredential { binding: binding("b", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 0);
}

pub(super) async fn outcome_is_recorded_for_cookies_only(fx: Fixture) {
    let none = CookieOutcomeRecorded { before: None, after: None };
    let id = fx.ok(cookie("a")).await.id;
    let key = fx.ok(SaveCredential { auth_type: AuthType::Bearer, ..save(binding("key", "far", WHOLE), 1) }).await.id;
    assert_eq!(fx.ok(judge(id, 1, DAY, Some("no"), LONG_REST)).await, none, "another value");
    assert_eq!(fx.ok(judge(key, 0, DAY, Some("no"), LONG_REST)).await, none);
    assert_eq!(fx.ok(judge(CredentialId(99), 0, DAY, None, LONG_REST)).await, none);
    fx.ok(RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(judge(id, 0, DAY, Some("no"), LONG_REST)).await, none);
    assert_eq!(fx.stored("key").await.state, patra_core::credential::CredentialRuntime::default());
}

// covers: CRAWL-18, CRAWL-GAP-06
pub(super) async fn check_uses_a_cooling_cookie_and_its_error_bans_it(fx: Fixture) {
    fx.ok(cookie("a")).await;
    fx.fails("a", 3, LONG_REST).await;
    let CookiePicked::Unusable { obstacle, .. } = fx.ok(pinned("a")).await else { panic!("it cools") };
    assert_eq!(obstacle, CookieObstacle::Status(CookieStatus::Cooling));
    let check = || PickCookie { check: true, ..pinned("a") };
    let (credential, started) = fx.taken(check()).await;
    assert_eq!((fx.usage("a").await.status, fx.usage("a").await.daily_used), (CookieStatus::Cooling, 1));
    // A check that succeeds does not end the cooling.
    let good = fx.ok(judge(credential.id, 0, started, None, LONG_REST)).await;
    assert_eq!(good.after, Some(CookieStatus::Cooling));
    let (credential, started) = fx.taken(check()).await;
    let bad = fx.ok(judge(credential.id, 0, started, Some("login lost"), LONG_REST)).await;
    assert_eq!((bad.before, bad.after), (Some(CookieStatus::Cooling), Some(CookieStatus::Banned)));
    let CookiePicked::Unusable { obstacle, .. } = fx.ok(check()).await else { panic!("it is banned") };
    assert_eq!(obstacle, CookieObstacle::Status(CookieStatus::Banned));
    fx.ok(ReactivateCookie { name: "a".into() }).await;
    assert_eq!(fx.name_taken(pick()).await, "a");
}

pub(super) async fn paused_or_expired_cookie_is_not_picked(fx: Fixture) {
    let id = fx.ok(cookie("a")).await.id;
    let pause = |paused| PauseCookie { name: "a".into(), paused };
    assert_eq!(fx.ok(pause(true)).await.id, Some(id));
    let since = fx.usage("a").await.paused_at;
    assert!(since.is_some());
    fx.pass(Duration::from_millis(5)).await;
    fx.ok(pause(true)).await;
    assert_eq!(fx.usage("a").await.paused_at, since, "once is enough");
    let counts = CookieCounts { paused: 1, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None, in_use: false });
    let CookiePicked::Unusable { obstacle, .. } = fx.ok(pinned("a")).await else { panic!("it is paused") };
    assert_eq!(obstacle, CookieObstacle::Paused);
    fx.taken(PickCookie { check: true, ..pinned("a") }).await;
    fx.ok(ReactivateCookie { name: "a".into() }).await;
    assert_eq!(fx.usage("a").await.paused_at, since, "only a person resumes it");
    fx.ok(pause(false)).await;
    assert_eq!(fx.name_taken(pick()).await, "a");
    assert_eq!(fx.ok(PauseCookie { name: "none".into(), paused: true }).await.id, None);
    fx.ok(RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All }).await;
    expired_cookie_is_not_picked(&fx).await;
}

async fn expired_cookie_is_not_picked(fx: &Fixture) {
    let soon = fx.now().await + Duration::from_millis(400);
    fx.ok(SaveCookie { expires_at: Some(soon), priority: Some(9), ..cookie("e") }).await;
    fx.ok(cookie("b")).await;
    assert_eq!(fx.name_taken(pick()).await, "e");
    fx.pass(Duration::from_millis(500)).await;
    assert_eq!(fx.name_taken(pick()).await, "b");
    let CookiePicked::Unusable { obstacle, .. } = fx.ok(pinned("e")).await else { panic!("it has expired") };
    assert_eq!(obstacle, CookieObstacle::Expired(soon));
    assert_eq!(fx.usage("e").await.status, CookieStatus::Active, "the account may be fine");
    // A later expiry, or another value, brings it back.
    let later = Some(soon + Duration::from_secs(3_600));
    fx.ok(SaveCookie { expires_at: later, ..unchanged("e") }).await;
    assert_eq!(fx.name_taken(pick()).await, "e");
    fx.ok(unchanged("e")).await;
    assert_eq!(fx.usage("e").await.expires_at, later);
    let value = Some(SealedText { text: "v1.k1.new".into(), key_id: "k1".into() });
    fx.ok(SaveCookie { value, ..cookie("e") }).await;
    assert_eq!(fx.usage("e").await.expires_at, None);
}

pub(super) async fn cookie_is_used_by_at_most_its_max_parallel(fx: Fixture) {
    fx.ok(SaveCookie { max_parallel: Some(2), ..cookie("a") }).await;
    let leased = async |op: PickCookie| match fx.ok(op).await {
        CookiePicked::Picked { leased, .. } => Some(leased),
        _ => None,
    };
    let first = pick();
    assert_eq!(leased(first.clone()).await, Some(true));
    let second = PickCookie { lease: Duration::from_millis(300), ..pinned("a") };
    assert_eq!(leased(second).await, Some(true));
    assert_eq!(fx.usage("a").await.in_use, 2);
    assert_eq!(leased(pick()).await, None);
    let CookiePicked::Unusable { obstacle, .. } = fx.ok(pinned("a")).await else { panic!("it is in use") };
    assert_eq!(obstacle, CookieObstacle::InUse(2));
    // A released use is free at once, and only once.
    let release = || ReleaseCookie { holder: first.holder.clone() };
    assert!(fx.ok(release()).await.released);
    assert!(!fx.ok(release()).await.released);
    assert_eq!(fx.usage("a").await.in_use, 1);
    assert_eq!(leased(pick()).await, Some(true));
    assert_eq!(leased(pick()).await, None);
    // A use that is never released ends with its lease.
    fx.pass(Duration::from_millis(400)).await;
    assert_eq!(leased(pick()).await, Some(true));
    assert_eq!((leased(pinned("a")).await, fx.usage("a").await.in_use), (None, 2));
    fx.ok(SaveCookie { max_parallel: Some(0), ..unchanged("a") }).await;
    assert_eq!(leased(pick()).await, Some(false), "there is no limit any more");

    // Concurrent picks keep to it as well.
    fx.ok(RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All }).await;
    for name in ["b", "c"] {
        fx.ok(SaveCookie { max_parallel: Some(3), ..cookie(name) }).await;
    }
    let picks: Vec<_> = (0..50).map(|_| pick()).collect();
    let answers = at_once(&fx, picks.clone()).await;
    let picked: Vec<_> = std::iter::zip(&picks, &answers)
        .filter_map(|(pick, answer)| match answer {
            Ok(CookiePicked::Picked { credential, .. }) => Some((&pick.holder, credential.binding.alias.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(picked.len(), 6, "{answers:?}");
    let in_use = async || (fx.usage("b").await.in_use, fx.usage("c").await.in_use);
    assert_eq!(in_use().await, (3, 3));
    // Each use belongs to the cookie that its holder got.
    let (mut b, mut c) = (3, 3);
    for (holder, name) in picked {
        assert!(fx.ok(ReleaseCookie { holder: holder.clone() }).await.released);
        *(if name == "b" { &mut b } else { &mut c }) -= 1;
        assert_eq!(in_use().await, (b, c));
    }
}

/// Picks that run at the same time share the load among equals.
pub(super) async fn concurrent_picks_use_equal_cookies_equally_often(fx: Fixture) {
    for at in 0..10 {
        fx.ok(cookie(&format!("c{at}"))).await;
    }
    fx.ok(SaveCookie { priority: Some(0), ..cookie("low") }).await;
    // As many picks at once as there are cookies: with a clock that stands still, all uses have one time.
    for _ in 0..5 {
        let answers = at_once(&fx, (0..10).map(|_| pick()).collect()).await;
        assert!(answers.iter().all(|answer| matches!(answer, Ok(CookiePicked::Picked { .. }))), "{answers:?}");
        fx.pass(Duration::from_millis(2)).await;
    }
    for view in fx.cookies(None).await {
        let expected = if view.cookie_name == "low" { 0 } else { 5 };
        assert_eq!(view.usage.daily_used, expected, "{}", view.cookie_name);
    }
}

// covers: CRAWL-22
pub(super) async fn fifty_concurrent_picks_keep_to_the_limit_of_a_cookie(fx: Fixture) {
    fx.ok(SaveCookie { daily_limit: Some(20), ..cookie("a") }).await;
    let picked = async || {
        let answers = at_once(&fx, vec![pick(); 50]).await;
        let picked = answers.iter().filter(|answer| matches!(answer, Ok(CookiePicked::Picked { .. }))).count();
        let counts = CookieCounts { active: 1, ..CookieCounts::default() };
        let none = Ok(CookiePicked::Exhausted { counts, next_active_at: None, in_use: false });
        assert!(answers.iter().all(|answer| matches!(answer, Ok(CookiePicked::Picked { .. })) || *answer == none));
        picked
    };
    assert_eq!(picked().await, 20);
    assert_eq!(fx.usage("a").await.daily_used, 20);
    assert_eq!(picked().await, 0);
}

// covers: CRAWL-22, CRAWL-23
pub(super) async fn fifty_concurrent_picks_use_up_three_cookies(fx: Fixture) {
    for (name, limit) in [("a", 20), ("b", 25), ("c", 5)] {
        fx.ok(SaveCookie { daily_limit: Some(limit), ..cookie(name) }).await;
    }
    // Meanwhile errors of one of them are recorded.
    let id = fx.view("b").await.id;
    let errors = vec![
        judge(
            id,
            0,
            DAY,
            Some("no"),
            CookieLimits { max_consecutive_errors: 99, max_total_errors: 99, ..LONG_REST }
        );
        20
    ];
    let (picked, judged) = tokio::join!(at_once(&fx, vec![pick(); 50]), at_once(&fx, errors));
    let taken = picked.iter().filter(|answer| matches!(answer, Ok(CookiePicked::Picked { .. }))).count();
    assert_eq!(taken, 50, "{picked:?}");
    assert!(judged.iter().all(Result::is_ok), "{judged:?}");
    let usage = fx.usage("b").await;
    assert_eq!((usage.daily_used, usage.total_errors, usage.consecutive_errors), (25, 20, 20));
    assert_eq!(fx.usage("a").await.daily_used + fx.usage("c").await.daily_used, 25);
}
