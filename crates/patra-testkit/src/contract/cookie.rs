//! Cookies: one per name, whose value can be replaced, reactivated and encrypted again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use patra_core::cookie::{COOKIE_LEASE, CookieCounts, CookieLimits, CookieTotals, CookieUsage};
use patra_core::credential::Credential;
use patra_core::port::crawl::{CookieFilter, CookieView};
use patra_core::port::credential::CredentialFilter;
use patra_core::port::query::View;
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, CookieStatus};
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePicked, CookieSaved, LeaseRefresh, MarkCredential, PauseCookie, PickCookie,
    ReactivateCookie, RecordCookieOutcome, RefreshLeased, Reseal, RevokeCredential, SaveCookie, SaveCredential,
    SealedText, StoreToken, TxError, Versions,
};
use patra_core::{CredentialId, Ts};

use super::concurrent::at_once;
use super::credential::{binding, save};
use super::{Fixture, make};

pub(super) const PLATFORM: &str = "xhs";
pub(super) const DAY: Ts = Ts::from_secs(1_772_064_000);

/// Cooling that lasts.
pub(super) const LONG_REST: CookieLimits =
    CookieLimits { max_consecutive_errors: 3, max_total_errors: 10, cooling: Duration::from_secs(3_600) };

fn sealed(text: &str) -> SealedText {
    SealedText { text: text.into(), key_id: "k1".into() }
}

pub(super) fn cookie(name: &str) -> SaveCookie {
    SaveCookie {
        binding: binding(name, PLATFORM, WHOLE),
        version: 1,
        value: Some(sealed(&format!("v1.k1.{name}"))),
        priority: None,
        daily_limit: None,
        expires_at: None,
        max_parallel: None,
    }
}

pub(super) fn unchanged(name: &str) -> SaveCookie {
    SaveCookie { value: None, ..cookie(name) }
}

/// A pick with a name of its own.
pub(super) fn pick() -> PickCookie {
    static USES: AtomicU64 = AtomicU64::new(0);
    PickCookie {
        provenance_code: PLATFORM.into(),
        endpoint_name: "search".into(),
        name: None,
        exclude: Vec::new(),
        day: DAY,
        check: false,
        holder: format!("use {}", USES.fetch_add(1, Ordering::Relaxed)),
        lease: COOKIE_LEASE,
    }
}

pub(super) fn pinned(name: &str) -> PickCookie {
    PickCookie { name: Some(name.into()), ..pick() }
}

pub(super) fn judge(
    credential: CredentialId,
    seen: i64,
    started: Ts,
    error: Option<&str>,
    rules: CookieLimits,
) -> RecordCookieOutcome {
    RecordCookieOutcome { credential, seen_version: seen, started, error: error.map(str::to_owned), rules }
}

fn reactivate(name: &str) -> ReactivateCookie {
    ReactivateCookie { name: name.into() }
}

impl Fixture {
    pub(super) async fn cookies(&self, platform: Option<&str>) -> Vec<CookieView> {
        let filter = CookieFilter { platform: platform.map(str::to_owned), ..CookieFilter::default() };
        self.subject.store.cookies(filter).await.expect("cookies").0
    }

    pub(super) async fn view(&self, name: &str) -> CookieView {
        let filter = CookieFilter { name: Some(name.to_owned()), ..CookieFilter::default() };
        let (found, _) = self.subject.store.cookies(filter).await.expect("cookies");
        found.into_iter().next().expect("the cookie")
    }

    pub(super) async fn usage(&self, name: &str) -> CookieUsage {
        self.view(name).await.usage
    }

    pub(super) async fn stored(&self, name: &str) -> Credential {
        let found = self.subject.store.credentials(CredentialFilter::Alias(name.into())).await.expect("credentials");
        found.into_iter().next_back().expect("the credential")
    }

    /// Picks a cookie, which must exist.
    pub(super) async fn taken(&self, op: PickCookie) -> (Credential, Ts) {
        match self.ok(op).await {
            CookiePicked::Picked { credential, now, .. } => (*credential, now),
            other => panic!("no cookie: {other:?}"),
        }
    }

    pub(super) async fn name_taken(&self, op: PickCookie) -> String {
        self.taken(op).await.0.binding.alias
    }

    /// Records this many failed requests that begin now.
    pub(super) async fn fails(&self, name: &str, times: u32, rules: CookieLimits) -> Vec<CookieStatus> {
        let (id, seen) = (self.view(name).await.id, self.stored(name).await.state.version);
        let mut after = Vec::new();
        for _ in 0..times {
            let started = self.now().await;
            after.extend(self.ok(judge(id, seen, started, Some("login lost"), rules)).await.after);
        }
        after
    }
}

// covers: CRAWL-01, CRAWL-03, CRAWL-04, CRAWL-05, CRAWL-06, CRAWL-08, CRAWL-12, CRAWL-193
pub(super) async fn cookie_is_stored_once_per_name(fx: Fixture) {
    let CookieSaved { id, created } = fx.ok(cookie("a")).await;
    assert!(created);
    let new = fx.view("a").await;
    assert_eq!((new.id, &*new.cookie_name, &*new.platform, new.priority), (id, "a", PLATFORM, 1));
    assert_eq!((new.usage, &*new.encryption_key_id), (CookieUsage::new(100), "k1"));
    assert_eq!(new.created_at, new.updated_at);
    let stored = fx.stored("a").await;
    assert_eq!((stored.id, stored.version, stored.auth_type, &*stored.sealed), (id, 1, AuthType::Cookie, "v1.k1.a"));

    // A repetition, and a change without another value, keep the row.
    fx.pass(Duration::from_millis(5)).await;
    assert_eq!(fx.ok(cookie("a")).await, CookieSaved { id, created: false });
    assert_eq!(fx.stored("a").await.state.version, 0, "the same text is the same value");
    let change = SaveCookie { priority: Some(10), daily_limit: Some(7), ..unchanged("a") };
    assert_eq!(fx.ok(change).await, CookieSaved { id, created: false });
    fx.ok(unchanged("a")).await;
    let changed = fx.view("a").await;
    assert_eq!(
        (changed.priority, changed.usage, fx.stored("a").await),
        (10, CookieUsage::new(7), Credential { priority: 10, ..stored })
    );
    assert_eq!(changed.created_at, new.created_at);
    assert!(changed.updated_at > new.updated_at);
    assert_eq!(fx.rows(View::Credentials).await.len(), 1);
}

// covers: CRAWL-25
pub(super) async fn name_belongs_to_one_cookie(fx: Fixture) {
    fx.ok(cookie("a")).await;
    let elsewhere =
        |provenance: &str, endpoint: &str| SaveCookie { binding: binding("a", provenance, endpoint), ..cookie("a") };
    for wrong in [
        SaveCookie { version: 2, ..cookie("a") },
        elsewhere("dy", WHOLE),
        elsewhere(PLATFORM, "search"),
        // A new cookie needs a value, and version 1.
        unchanged("b"),
        SaveCookie { version: 2, ..cookie("b") },
    ] {
        assert_eq!(fx.run(wrong.clone()).await, Err(TxError::Conflict), "{wrong:?}");
    }
    // Saving it as a credential does not make a second cookie of this name.
    let credential = |version, auth_type| SaveCredential { auth_type, ..save(binding("a", PLATFORM, WHOLE), version) };
    assert_eq!(fx.run(credential(2, AuthType::Cookie)).await, Err(TxError::Conflict));
    let other = SaveCredential { auth_type: AuthType::Cookie, ..save(binding("a", "dy", WHOLE), 1) };
    assert_eq!(fx.run(other.clone()).await, Err(TxError::Conflict));
    assert_eq!(fx.rows(View::Credentials).await.len(), 1);

    // A revoked cookie loses its name, and the versions continue.
    let revoke = || RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All };
    fx.ok(revoke()).await;
    assert_eq!(fx.cookies(None).await, []);
    assert_eq!(fx.run(cookie("a")).await, Err(TxError::Conflict));
    let again = fx.ok(SaveCookie { version: 2, value: Some(sealed("v1.k1.again")), ..cookie("a") }).await;
    assert!(again.created);
    fx.ok(revoke()).await;
    fx.ok(credential(3, AuthType::Bearer)).await;
    fx.ok(other).await;
    assert_eq!(fx.view("a").await.platform, "dy");
}

// covers: CRAWL-10, CRAWL-20
pub(super) async fn changed_value_reactivates_a_cookie(fx: Fixture) {
    let id = fx.ok(SaveCookie { daily_limit: Some(9), ..cookie("a") }).await.id;
    fx.taken(pick()).await;
    assert_eq!(fx.fails("a", 1, CookieLimits { max_total_errors: 1, ..LONG_REST }).await, [CookieStatus::Invalid]);
    fx.ok(MarkCredential { credential: id, seen_version: 0, rejected: Some("401".into()) }).await;
    fx.ok(SaveCookie { priority: Some(5), ..unchanged("a") }).await;
    assert_eq!(fx.usage("a").await.status, CookieStatus::Invalid, "another priority is no other value");
    let new = SealedText { text: "v2.k2.a".into(), key_id: "k2".into() };
    assert_eq!(fx.ok(SaveCookie { value: Some(new), ..cookie("a") }).await, CookieSaved { id, created: false });
    let view = fx.view("a").await;
    assert_eq!((view.priority, &*view.encryption_key_id), (5, "k2"));
    let CookieUsage { daily_used, day, last_used_at, .. } = view.usage;
    assert_eq!((daily_used, day, last_used_at.is_some()), (1, Some(DAY), true), "what was used stays used");
    assert_eq!(view.usage, CookieUsage { daily_used, day, last_used_at, ..CookieUsage::new(9) });
    let stored = fx.stored("a").await;
    assert_eq!((&*stored.sealed, stored.version, stored.state.version), ("v2.k2.a", 1, 1));
    assert_eq!((stored.state.fail_count, stored.state.last_error), (0, None));
    // An outcome of the old value does not count.
    let late = fx.ok(judge(id, 0, DAY, Some("late"), LONG_REST)).await;
    assert_eq!(late, CookieOutcomeRecorded { before: None, after: None });
    assert_eq!(fx.usage("a").await.total_errors, 0);
}

// covers: CRAWL-10, CRAWL-20
pub(super) async fn cookie_can_be_reactivated_by_hand(fx: Fixture) {
    let id = fx.ok(cookie("a")).await.id;
    assert_eq!(fx.ok(reactivate("a")).await.id, Some(id), "it was never used");
    fx.taken(pick()).await;
    fx.fails("a", 1, CookieLimits { max_total_errors: 1, ..LONG_REST }).await;
    let counts = CookieCounts { invalid: 1, ..CookieCounts::default() };
    assert_eq!(fx.ok(pick()).await, CookiePicked::Exhausted { counts, next_active_at: None, in_use: false });
    fx.pass(Duration::from_millis(5)).await;
    let before = fx.view("a").await;
    assert_eq!(fx.ok(reactivate("a")).await.id, Some(id));
    let trusted = fx.view("a").await;
    assert_eq!(trusted.usage, before.usage.reactivated());
    assert!(trusted.updated_at > before.updated_at);
    let state = fx.stored("a").await.state;
    assert_eq!((state.version, state.last_error), (0, None), "the value is the same");
    fx.pass(Duration::from_millis(5)).await;
    fx.ok(reactivate("a")).await;
    assert_eq!(fx.view("a").await, trusted, "once is enough");
    assert_eq!(fx.name_taken(pick()).await, "a");
    assert_eq!(fx.ok(reactivate("none")).await.id, None);
    fx.ok(save(binding("key", PLATFORM, WHOLE), 1)).await;
    assert_eq!(fx.ok(reactivate("key")).await.id, None, "no cookie");
    fx.ok(RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All }).await;
    assert_eq!(fx.ok(reactivate("a")).await.id, None);
}

pub(super) async fn cookie_saved_as_a_plain_credential_joins_the_pool(fx: Fixture) {
    let old = SaveCredential { auth_type: AuthType::Cookie, ..save(binding("old", PLATFORM, WHOLE), 1) };
    let id = fx.ok(old).await.id;
    assert_eq!((fx.view("old").await.usage, fx.view("old").await.priority), (CookieUsage::new(100), -3));
    fx.ok(SaveCookie { priority: Some(-4), ..cookie("new") }).await;
    assert_eq!(fx.name_taken(pick()).await, "old");
    fx.fails("old", 3, LONG_REST).await;
    assert_eq!(fx.name_taken(pick()).await, "new");
    assert_eq!(fx.ok(reactivate("old")).await.id, Some(id));
    assert_eq!(
        fx.ok(SaveCookie { daily_limit: Some(1), ..unchanged("old") }).await,
        CookieSaved { id, created: false }
    );
    let CookiePicked::Unusable { usage, .. } = fx.ok(pinned("old")).await else { panic!("used once already") };
    assert_eq!((usage.daily_used, usage.daily_limit), (1, 1));
}

// covers: CRAWL-105, CRAWL-193
pub(super) async fn cookies_are_listed_by_name_without_their_values(fx: Fixture) {
    for name in ["b", "a", "c"] {
        fx.ok(cookie(name)).await;
    }
    fx.ok(SaveCookie { binding: binding("bb", "dy", WHOLE), ..cookie("bb") }).await;
    fx.ok(save(binding("key", PLATFORM, WHOLE), 1)).await;
    fx.ok(RevokeCredential { binding: binding("c", PLATFORM, WHOLE), versions: Versions::All }).await;
    let names =
        async |platform| fx.cookies(platform).await.into_iter().map(|view| view.cookie_name).collect::<Vec<_>>();
    assert_eq!(names(None).await, ["a", "b", "bb"]);
    assert_eq!(names(Some(PLATFORM)).await, ["a", "b"]);
    assert_eq!(names(Some("none")).await, [""; 0]);
    let (views, now) = fx.subject.store.cookies(CookieFilter::default()).await.expect("cookies");
    assert!(views.iter().all(|view| view.updated_at <= now) && !format!("{views:?}").contains("v1.k1"));
}

// covers: CRAWL-105
pub(super) async fn cookies_are_listed_in_pages_and_counted(fx: Fixture) {
    for name in ["b", "a", "d", "c"] {
        fx.ok(cookie(name)).await;
    }
    fx.ok(SaveCookie { binding: binding("bb", "dy", "search"), ..cookie("bb") }).await;
    let names = async |filter: CookieFilter| {
        let (page, _) = fx.subject.store.cookies(filter).await.expect("cookies");
        page.into_iter().map(|view| view.cookie_name).collect::<Vec<_>>()
    };
    let page = |platform: Option<&str>, after: &str| CookieFilter {
        platform: platform.map(str::to_owned),
        after: after.to_owned(),
        limit: 2,
        ..CookieFilter::default()
    };
    assert_eq!(names(page(None, "")).await, ["a", "b"]);
    assert_eq!(names(page(None, "b")).await, ["bb", "c"]);
    assert_eq!(names(page(None, "d")).await, [""; 0]);
    assert_eq!(names(page(Some(PLATFORM), "b")).await, ["c", "d"]);
    let named = |name: &str, platform: Option<&str>| CookieFilter {
        name: Some(name.to_owned()),
        platform: platform.map(str::to_owned),
        ..CookieFilter::default()
    };
    assert_eq!(names(named("bb", None)).await, ["bb"]);
    assert_eq!(names(named("bb", Some(PLATFORM))).await, [""; 0]);

    fx.fails("a", 3, LONG_REST).await;
    fx.fails("b", 1, CookieLimits { max_total_errors: 1, ..LONG_REST }).await;
    fx.ok(PauseCookie { name: "c".into(), paused: true }).await;
    let expires_at = Some(fx.now().await);
    fx.ok(SaveCookie { expires_at, ..unchanged("d") }).await;
    let until = fx.usage("a").await.cooling_until;
    let (all, _) = fx.subject.store.cookie_totals(None).await.expect("totals");
    let counts = CookieCounts { cooling: 1, invalid: 1, paused: 1, expired: 1, ..CookieCounts::default() };
    let xhs = CookieTotals { counts, next_active_at: until };
    let counts = CookieCounts { active: 1, ..CookieCounts::default() };
    let dy = CookieTotals { counts, next_active_at: None };
    assert_eq!(all, [("dy".to_owned(), dy), (PLATFORM.to_owned(), xhs)]);
    let (one, _) = fx.subject.store.cookie_totals(Some("dy".into())).await.expect("totals");
    assert_eq!(one, [("dy".to_owned(), dy)]);
    assert_eq!(
        fx.ok(pick()).await,
        CookiePicked::Exhausted { counts: xhs.counts, next_active_at: until, in_use: false }
    );
    fx.ok(RevokeCredential { binding: binding("a", PLATFORM, WHOLE), versions: Versions::All }).await;
    let (left, _) = fx.subject.store.cookie_totals(Some(PLATFORM.into())).await.expect("totals");
    assert_eq!(left[0].1.counts, CookieCounts { cooling: 0, ..xhs.counts });
}

// covers: CRAWL-144, CRAWL-146
pub(super) async fn ciphertext_is_replaced_in_place(fx: Fixture) {
    let id = fx.ok(cookie("a")).await.id;
    let key = fx.ok(SaveCredential { key_id: "k1".into(), ..save(binding("key", "far", WHOLE), 1) }).await.id;
    let RefreshLeased::Go { fence, .. } =
        fx.ok(LeaseRefresh { credential: key, owner: "o".into(), lease: make::LONG, seen_version: 0 }).await
    else {
        panic!("no lease")
    };
    let token = StoreToken {
        credential: key,
        owner: "o".into(),
        fence,
        sealed: "token".into(),
        key_id: "k1".into(),
        expires_at: None,
    };
    fx.ok(token).await;
    let gone = fx.ok(cookie("gone")).await.id;
    fx.ok(RevokeCredential { binding: binding("gone", PLATFORM, WHOLE), versions: Versions::All }).await;
    let without = async |key_id: &str, after| {
        let ask = CredentialFilter::SealedWithoutKey { key_id: key_id.into(), after: CredentialId(after) };
        let found = fx.subject.store.credentials(ask).await.expect("credentials");
        found.into_iter().map(|one| one.id).collect::<Vec<_>>()
    };
    assert_eq!(without("k1", 0).await, []);
    assert_eq!(without("k2", 0).await, [id, key]);
    assert_eq!(without("k2", id.0).await, [key]);
    let before = fx.view("a").await;
    fx.pass(Duration::from_millis(5)).await;
    let reseal = |credential, token, old: &str| Reseal {
        credential,
        token,
        old: old.into(),
        new: SealedText { text: "again".into(), key_id: "k2".into() },
    };
    for wrong in [
        reseal(id, false, "other"),
        reseal(id, true, "v1.k1.a"),
        reseal(key, true, "v1.k.key.1"),
        reseal(gone, false, ""),
        reseal(CredentialId(99), false, "v1.k1.a"),
    ] {
        assert!(!fx.ok(wrong.clone()).await.resealed, "{wrong:?}");
    }
    assert!(fx.ok(reseal(id, false, "v1.k1.a")).await.resealed);
    assert!(!fx.ok(reseal(id, false, "v1.k1.a")).await.resealed, "it is gone");
    let after = fx.view("a").await;
    assert_eq!((&*fx.stored("a").await.sealed, &*after.encryption_key_id), ("again", "k2"));
    assert_eq!((after.usage, fx.stored("a").await.state.version), (before.usage, 0), "the secret is the same");
    assert!(after.updated_at > before.updated_at);
    assert_eq!(without("k2", 0).await, [key]);
    assert!(fx.ok(reseal(key, false, "v1.k.key.1")).await.resealed);
    assert_eq!(without("k2", 0).await, [key], "its token is left");
    assert!(fx.ok(reseal(key, true, "token")).await.resealed);
    let state = fx.stored("key").await.state;
    assert_eq!((state.sealed.as_deref(), state.version), (Some("again"), 1));
    assert_eq!(without("k2", 0).await, []);
}

pub(super) async fn twenty_concurrent_saves_make_one_cookie(fx: Fixture) {
    let saves = (0..20).map(|at| SaveCookie { value: Some(sealed(&format!("value {at}"))), ..cookie("a") });
    let saved = at_once(&fx, saves.collect()).await;
    let saved: Vec<_> = saved.into_iter().map(|answer| answer.expect("an answer")).collect();
    assert_eq!(saved.iter().filter(|saved| saved.created).count(), 1);
    assert!(saved.iter().all(|one| one.id == saved[0].id));
    assert_eq!(fx.stored("a").await.state.version, 19);
    let elsewhere = |at: usize| SaveCookie { binding: binding("b", &format!("platform-{at}"), WHOLE), ..cookie("b") };
    let saved = at_once(&fx, (0..20).map(elsewhere).collect()).await;
    assert_eq!(saved.iter().filter(|answer| answer.is_ok()).count(), 1, "{saved:?}");
    assert!(saved.iter().all(|answer| matches!(answer, Ok(_) | Err(TxError::Conflict))), "{saved:?}");
    assert_eq!(fx.cookies(None).await.len(), 2);
}
