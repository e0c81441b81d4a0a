//! The pool of cookies: which one is taken, and what wears one out.

use std::time::Duration;

use patra_core::cookie::{CookieCounts, CookieLimits};
use patra_core::port::query::{Cell, View};
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, CookieStatus};
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePicked, PickCookie, Recover, RevokeCredential, SaveCookie, SaveCredential, Versions,
};
use patra_core::{CredentialId, Ts};

use super::concurrent::at_once;
use super::cookie::{DAY, LONG_REST, PLATFORM, cookie, judge, pick, pinned, unchanged};
use super::credential::{binding, save};
use super::{Fixture, make};

const NEXT_DAY: Ts = Ts::from_secs(1_772_150_400);
/// Cooling that has ended when it begins.
const NO_REST: CookieLimits = CookieLimits { cooling: Duration::ZERO, max_total_errors: 99, ..LONG_REST };

// covers: CRAWL-13, CRAWL-22
pub(super) async fn the_best_is_taken_and_equals_take_turns(fx: Fixture) {
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
    assert_eq!(turns, ["b", "a", "b", "a"], "the older first, then whoever has waited longer");
    let without =
        |names: &[&str]| PickCookie { exclude: names.iter().map(|name| (*name).to_owned()).collect(), ..pick() };
    assert_eq!(fx.name_taken(without(&["b"])).await, "a");
    assert_eq!(fx.name_taken(without(&["a", "b"])).await, "low");
    let detail = PickCookie { endpoint_name: "detail".into(), ..pick() };
    assert_eq!(fx.name_taken(detail).await, "detail");
    fx.ok(RevokeCredential { binding: binding("b", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.name_taken(without(&["a"])).await, "low");
    assert_eq!((fx.wear("a").await.daily_used, fx.wear("low").await.daily_used), (3, 2));
}

pub(super) async fn a_pick_hands_out_the_cookie_as_it_is(fx: Fixture) {
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
pub(super) async fn a_limit_lasts_for_a_day(fx: Fixture) {
    fx.ok(SaveCookie { daily_limit: Some(2), ..cookie("a") }).await;
    fx.taken(pick()).await;
    fx.taken(pick()).await;
    let counts = CookieCounts { active: 1, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None });
    let wear = fx.wear("a").await;
    assert_eq!((wear.status, wear.daily_used, wear.day), (CookieStatus::Active, 2, Some(DAY)));
    fx.taken(PickCookie { day: NEXT_DAY, ..pick() }).await;
    assert_eq!((fx.wear("a").await.daily_used, fx.wear("a").await.day), (1, Some(NEXT_DAY)));
    // Whose clock lags takes from the new day.
    fx.taken(pick()).await;
    assert!(matches!(fx.ok(pick()).await, CookiePicked::Exhausted { .. }));
    fx.ok(SaveCookie { daily_limit: Some(3), ..unchanged("a") }).await;
    fx.taken(PickCookie { day: NEXT_DAY, ..pick() }).await;
    assert_eq!(
        fx.ok(PickCookie { provenance_code: "none".into(), ..pick() }).await,
        CookiePicked::Exhausted { counts: CookieCounts::default(), next_active_at: None }
    );
}

// covers: CRAWL-24
pub(super) async fn a_name_picks_only_that_one(fx: Fixture) {
    fx.ok(SaveCookie { priority: Some(9), ..cookie("best") }).await;
    fx.ok(SaveCookie { daily_limit: Some(2), ..cookie("a") }).await;
    fx.ok(SaveCookie { binding: binding("far", "dy", WHOLE), ..cookie("far") }).await;
    assert_eq!(fx.name_taken(pinned("a")).await, "a");
    assert_eq!(fx.name_taken(PickCookie { exclude: vec!["a".into()], ..pinned("a") }).await, "a");
    for name in ["none", "far"] {
        assert_eq!(fx.ok(pinned(name)).await, CookiePicked::Unknown, "{name}");
    }
    let CookiePicked::Unusable { usage: wear } = fx.ok(pinned("a")).await else { panic!("past its limit") };
    assert_eq!(*wear, fx.wear("a").await);
    assert_eq!((wear.status, wear.daily_used), (CookieStatus::Active, 2));
    fx.fails("best", 3, LONG_REST).await;
    let CookiePicked::Unusable { usage: wear } = fx.ok(pinned("best")).await else { panic!("it cools") };
    assert_eq!(wear.status, CookieStatus::Cooling);
    fx.ok(RevokeCredential { binding: binding("best", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(pinned("best")).await, CookiePicked::Unknown);
}

// covers: CRAWL-09, CRAWL-11, CRAWL-14, CRAWL-15, CRAWL-18, CRAWL-23
pub(super) async fn errors_rest_a_cookie_and_more_of_them_end_it(fx: Fixture) {
    let a = fx.ok(cookie("a")).await.id;
    let b = fx.ok(cookie("b")).await.id;
    let before = fx.now().await;
    fx.pass(Duration::from_millis(2)).await;
    assert_eq!(fx.fails("a", 2, LONG_REST).await, [CookieStatus::Active; 2]);
    assert_eq!(fx.wear("a").await.consecutive_errors, 2);
    let worked = fx.ok(judge(a, 0, before, None, LONG_REST)).await;
    assert_eq!(worked, CookieOutcomeRecorded { before: Some(CookieStatus::Active), after: Some(CookieStatus::Active) });
    assert_eq!((fx.wear("a").await.consecutive_errors, fx.wear("a").await.total_errors), (0, 2));
    assert_eq!(fx.stored("a").await.state.last_error, None, "it works again");
    let three = fx.fails("a", 3, LONG_REST).await;
    assert_eq!(three, [CookieStatus::Active, CookieStatus::Active, CookieStatus::Cooling]);
    let wear = fx.wear("a").await;
    assert_eq!((wear.status, wear.consecutive_errors, wear.total_errors), (CookieStatus::Cooling, 0, 5));
    let until = wear.cooling_until.expect("an end");
    assert_eq!(wear.cooling_since.map(|since| since + LONG_REST.cooling), Some(until));
    assert_eq!(fx.stored("a").await.state.last_error.as_deref(), Some("login lost"));
    assert_eq!(fx.name_taken(pick()).await, "b");

    // An error of a request that had left before it cooled is counted, one of a later request ends it.
    let late = fx.ok(judge(a, 0, before, Some("late"), LONG_REST)).await;
    assert_eq!((late.before, late.after), (Some(CookieStatus::Cooling), Some(CookieStatus::Cooling)));
    assert_eq!((fx.wear("a").await.total_errors, fx.wear("a").await.cooling_until), (6, Some(until)));
    fx.fails("b", 3, LONG_REST).await;
    let ends = fx.wear("b").await.cooling_until;
    let counts = CookieCounts { cooling: 2, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: Some(until).min(ends) });
    assert_eq!(fx.fails("b", 1, LONG_REST).await, [CookieStatus::Banned]);
    assert_eq!(fx.wear("b").await.cooling_until, None);
    assert_eq!(fx.fails("a", 1, CookieLimits { max_total_errors: 7, ..LONG_REST }).await, [CookieStatus::Banned]);
    let counts = CookieCounts { banned: 2, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None });
    // Worn out it stays, whatever comes, and so does the reason.
    let late = fx.ok(judge(b, 0, before, None, LONG_REST)).await;
    assert_eq!(late.after, Some(CookieStatus::Banned));
    assert_eq!(fx.stored("b").await.state.last_error.as_deref(), Some("login lost"));
}

// covers: CRAWL-16, CRAWL-17, CRAWL-19
pub(super) async fn cooling_ends_by_itself(fx: Fixture) {
    fx.ok(cookie("a")).await;
    fx.fails("a", 3, NO_REST).await;
    assert_eq!(fx.wear("a").await.status, CookieStatus::Cooling, "nobody has looked yet");
    let started = fx.taken(pick()).await.1;
    let wear = fx.wear("a").await;
    assert_eq!((wear.status, wear.cooling_until, wear.cooling_since), (CookieStatus::Active, None, None));
    fx.fails("a", 3, NO_REST).await;
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 1);
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 0);
    assert_eq!(fx.wear("a").await.status, CookieStatus::Active);
    // An error after it: no ban, but the first of the next three.
    fx.fails("a", 3, NO_REST).await;
    let id = fx.view("a").await.id;
    let judged = fx.ok(judge(id, 0, started, Some("no"), NO_REST)).await;
    assert_eq!((judged.before, judged.after), (Some(CookieStatus::Cooling), Some(CookieStatus::Active)));
    let both = CookieLimits { max_consecutive_errors: 2, max_total_errors: 11, ..NO_REST };
    assert_eq!(fx.fails("a", 1, both).await, [CookieStatus::Invalid], "the end goes before a rest");
    // Of a cookie that is gone nothing is taken back.
    fx.ok(cookie("b")).await;
    fx.fails("b", 3, NO_REST).await;
    fx.ok(RevokeCredential { binding: binding("b", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(Recover { timeout: make::LONG }).await.cookies_reactivated, 0);
}

pub(super) async fn nothing_is_judged_that_is_no_cookie(fx: Fixture) {
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

// covers: CRAWL-22
pub(super) async fn fifty_callers_use_a_cookie_no_more_than_they_may(fx: Fixture) {
    fx.ok(SaveCookie { daily_limit: Some(20), ..cookie("a") }).await;
    let picked = async || {
        let answers = at_once(&fx, vec![pick(); 50]).await;
        let picked = answers.iter().filter(|answer| matches!(answer, Ok(CookiePicked::Picked { .. }))).count();
        let counts = CookieCounts { active: 1, ..CookieCounts::default() };
        let none = Ok(CookiePicked::Exhausted { counts, next_active_at: None });
        assert!(answers.iter().all(|answer| matches!(answer, Ok(CookiePicked::Picked { .. })) || *answer == none));
        picked
    };
    assert_eq!(picked().await, 20);
    assert_eq!(fx.wear("a").await.daily_used, 20);
    assert_eq!(picked().await, 0);
}

// covers: CRAWL-22, CRAWL-23
pub(super) async fn fifty_callers_find_what_is_left_of_three(fx: Fixture) {
    for (name, limit) in [("a", 20), ("b", 25), ("c", 5)] {
        fx.ok(SaveCookie { daily_limit: Some(limit), ..cookie(name) }).await;
    }
    // Meanwhile the upstream finds fault with one of them, in vain.
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
    let wear = fx.wear("b").await;
    assert_eq!((wear.daily_used, wear.total_errors, wear.consecutive_errors), (25, 20, 20));
    assert_eq!(fx.wear("a").await.daily_used + fx.wear("c").await.daily_used, 25);
}
