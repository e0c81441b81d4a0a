//! Credentials: versions, revocation, and the refresh of tokens.

use std::time::Duration;

use patra_core::credential::{Binding, Credential, CredentialRuntime};
use patra_core::port::credential::CredentialFilter;
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, CredentialStatus, TokenStatus};
use patra_core::tx::{
    FailRefresh, LeaseRefresh, MarkCredential, RefreshLeased, RevokeCredential, SaveCredential, StoreToken, Sweep,
    TxError, Versions,
};
use patra_core::{CredentialId, Fence, Ts};

use super::{Fixture, make};

const LEASE: Duration = Duration::from_secs(60);

pub(super) fn binding(alias: &str, provenance: &str, endpoint: &str) -> Binding {
    Binding { alias: alias.into(), provenance_code: provenance.into(), endpoint_name: endpoint.into() }
}

pub(super) fn save(binding: Binding, version: i64) -> SaveCredential {
    let sealed = format!("v1.k.{}.{version}", binding.alias);
    SaveCredential { binding, version, auth_type: AuthType::OAuth2, priority: -3, sealed, key_id: "k".into() }
}

fn lease(credential: CredentialId, owner: &str, seen: i64) -> LeaseRefresh {
    LeaseRefresh { credential, owner: owner.into(), lease: LEASE, seen_version: seen }
}

fn token(credential: CredentialId, owner: &str, fence: Fence, sealed: &str) -> StoreToken {
    let expires_at = Some("2026-03-29T01:30:00.123456Z".parse().expect("a time"));
    StoreToken { credential, owner: owner.into(), fence, sealed: sealed.into(), key_id: "k".into(), expires_at }
}

fn revoke(binding: Binding, versions: Versions) -> RevokeCredential {
    RevokeCredential { binding, versions }
}

impl Fixture {
    async fn saved(&self, alias: &str) -> CredentialId {
        self.ok(save(binding(alias, "far", WHOLE), 1)).await.id
    }

    async fn ask(&self, ask: CredentialFilter) -> Vec<Credential> {
        self.subject.store.credentials(ask).await.expect("an answer")
    }

    async fn credential(&self, id: CredentialId) -> Credential {
        self.ask(CredentialFilter::Id(id)).await.pop().expect("the credential")
    }

    async fn leased(&self, id: CredentialId, owner: &str, seen: i64) -> (Fence, CredentialRuntime) {
        match self.ok(lease(id, owner, seen)).await {
            RefreshLeased::Go { fence, state, .. } => (fence, state),
            other => panic!("no lease for {owner}: {other:?}"),
        }
    }
}

// covers: C-59, ING-3.2-04
pub(super) async fn rotation_adds_a_version(fx: Fixture) {
    let one = fx.ok(save(binding("key", "far", WHOLE), 1)).await.id;
    let two = fx.ok(save(binding("key", "far", WHOLE), 2)).await.id;
    let found = fx.ask(CredentialFilter::Alias("key".into())).await;
    assert_eq!(found.iter().map(|one| (one.id, one.version)).collect::<Vec<_>>(), [(one, 1), (two, 2)]);
    let expected = Credential {
        id: two,
        binding: binding("key", "far", WHOLE),
        version: 2,
        auth_type: AuthType::OAuth2,
        priority: -3,
        sealed: "v1.k.key.2".into(),
        status: CredentialStatus::Active,
        state: CredentialRuntime::default(),
    };
    assert_eq!(found[1], expected);
    assert_eq!(fx.credential(two).await, expected);

    // Repeated after a lost result: the same row. Another credential with that version is a conflict.
    assert_eq!(fx.ok(save(binding("key", "far", WHOLE), 2)).await.id, two);
    for wrong in [
        SaveCredential { sealed: "other".into(), ..save(binding("key", "far", WHOLE), 2) },
        save(binding("key", "far", WHOLE), 1),
        save(binding("key", "far", WHOLE), 4),
        save(binding("key", "far", "works"), 2),
    ] {
        assert_eq!(fx.run(wrong).await, Err(TxError::Conflict));
    }
    fx.ok(save(binding("key", "far", "works"), 1)).await;
    assert_eq!(fx.ask(CredentialFilter::Alias("key".into())).await.len(), 3);
    assert!(
        fx.ask(CredentialFilter::Alias("none".into())).await.is_empty()
            && fx.ask(CredentialFilter::Id(CredentialId(99))).await.is_empty()
    );
}

// covers: ING-3.8-03, ING-3.2-04
pub(super) async fn lookup_finds_only_bound_credentials(fx: Fixture) {
    let mut ids = Vec::new();
    for (provenance, endpoint) in
        [(WHOLE, WHOLE), ("far", WHOLE), ("far", "works"), ("far", "authors"), ("near", WHOLE), (WHOLE, "works")]
    {
        ids.push(fx.ok(save(binding("key", provenance, endpoint), 1)).await.id);
    }
    let bound = |provenance: &str, endpoint: &str| {
        let ask = CredentialFilter::Bound { provenance_code: provenance.into(), endpoint_name: endpoint.into() };
        let fx = &fx;
        async move { fx.ask(ask).await.into_iter().map(|one| one.id).collect::<Vec<_>>() }
    };
    assert_eq!(bound("far", "works").await, [ids[0], ids[1], ids[2], ids[5]]);
    assert_eq!(bound("far", "other").await, [ids[0], ids[1]]);
    fx.ok(revoke(binding("key", "far", WHOLE), Versions::All)).await;
    assert_eq!(bound("far", "other").await, [ids[0]]);
}

// covers: C-59
pub(super) async fn revoking_erases_the_secret_and_the_token(fx: Fixture) {
    let key = || binding("key", "far", WHOLE);
    let mut ids = Vec::new();
    for version in 1..=3 {
        ids.push(fx.ok(save(key(), version)).await.id);
    }
    let (fence, _) = fx.leased(ids[0], "a", 0).await;
    fx.ok(token(ids[0], "a", fence, "sealed token")).await;
    let (fence, _) = fx.leased(ids[0], "a", 1).await;
    assert_eq!(fx.ok(revoke(key(), Versions::Before(3))).await.revoked, 2);
    assert_eq!(fx.ok(revoke(key(), Versions::Before(3))).await.revoked, 0, "once is enough");
    let gone = fx.credential(ids[0]).await;
    assert_eq!((gone.status, gone.sealed.as_str(), gone.state.sealed), (CredentialStatus::Revoked, "", None));
    // The refresh in progress stores nothing.
    assert_eq!(fx.run(token(ids[0], "a", fence, "late")).await, Err(TxError::Fenced));
    assert_eq!(fx.ok(lease(ids[0], "a", 1)).await, RefreshLeased::Gone);
    assert!(!fx.ok(MarkCredential { credential: ids[0], seen_version: 1, rejected: None }).await.marked);

    assert_eq!(fx.ok(revoke(key(), Versions::One(2))).await.revoked, 0);
    assert_eq!(fx.ok(revoke(key(), Versions::One(3))).await.revoked, 1);
    assert_eq!(fx.ok(revoke(binding("none", "far", WHOLE), Versions::All)).await.revoked, 0);
    let rows = fx.rows(View::Credentials).await;
    assert!(rows.column("revoked_at").iter().all(|cell| *cell != Cell::Null));
    // The versions continue after the last one; a revoked number is not reused.
    assert_eq!(fx.run(save(key(), 3)).await, Err(TxError::Conflict));
    fx.ok(save(key(), 4)).await;
}

// covers: G-12
pub(super) async fn one_caller_refreshes_and_the_others_wait_or_take_the_newer_token(fx: Fixture) {
    let id = fx.saved("key").await;
    let (fence, state) = fx.leased(id, "a", 0).await;
    assert_eq!((state.version, &state.sealed), (0, &None));
    let RefreshLeased::Busy { until, now } = fx.ok(lease(id, "b", 0)).await else { panic!("two refresh at once") };
    assert!(until > now && until.since(now) <= LEASE);
    // The owner may repeat its request, as after a lost result, and keeps its fence.
    assert_eq!(fx.leased(id, "a", 0).await.0, fence);

    let stored = fx.ok(token(id, "a", fence, "sealed 1")).await;
    assert_eq!(stored.version, 1);
    let RefreshLeased::Newer { state, .. } = fx.ok(lease(id, "b", 0)).await else { panic!("the token is there") };
    assert_eq!((state.version, state.sealed.as_deref()), (1, Some("sealed 1")));
    assert_eq!(state.expires_at, "2026-03-29T01:30:00.123456Z".parse::<Ts>().ok());
    assert_eq!(fx.credential(id).await.state, state);

    // A caller that has that token gets the next lease, under a higher fence.
    let (next, state) = fx.leased(id, "b", 1).await;
    assert!(next > fence);
    assert_eq!(state.sealed.as_deref(), Some("sealed 1"), "the refresh token is in it");
    assert_eq!(fx.ok(lease(CredentialId(99), "b", 0)).await, RefreshLeased::Gone);
}

// covers: G-12
pub(super) async fn token_is_stored_once_and_only_by_the_lease_owner(fx: Fixture) {
    let id = fx.saved("key").await;
    let (fence, _) = fx.leased(id, "a", 0).await;
    for wrong in [
        token(id, "b", fence, "stolen"),
        token(id, "a", Fence(fence.0 - 1), "old"),
        token(id, "a", Fence(fence.0 + 1), "early"),
        token(CredentialId(99), "a", fence, "nobody"),
    ] {
        assert_eq!(fx.run(wrong).await, Err(TxError::Fenced));
    }
    fx.ok(token(id, "a", fence, "sealed 1")).await;
    // Repeated after a lost result: returned again, not written again.
    assert_eq!(fx.ok(token(id, "a", fence, "sealed 1")).await.version, 1);
    assert_eq!(fx.credential(id).await.state.version, 1);
    let (next, _) = fx.leased(id, "b", 1).await;
    assert_eq!(fx.run(token(id, "a", fence, "sealed 1")).await, Err(TxError::Fenced), "another has the lease");
    fx.ok(token(id, "b", next, "sealed 2")).await;
    assert_eq!(fx.run(token(id, "a", fence, "stale")).await, Err(TxError::Fenced));
    assert_eq!(fx.credential(id).await.state.sealed.as_deref(), Some("sealed 2"));
}

pub(super) async fn refresh_of_a_dead_owner_is_taken_over_after_its_lease(fx: Fixture) {
    let id = fx.saved("key").await;
    let short = LeaseRefresh { lease: Duration::from_millis(200), ..lease(id, "dead", 0) };
    let RefreshLeased::Go { fence, .. } = fx.ok(short).await else { panic!("no lease") };
    fx.pass(Duration::from_millis(300)).await;
    // Expiry alone fences nobody; a new owner does.
    let (next, state) = fx.leased(id, "b", 0).await;
    assert!(next > fence && state.version == 0);
    assert_eq!(fx.run(token(id, "dead", fence, "late")).await, Err(TxError::Fenced));
    fx.ok(token(id, "b", next, "sealed 1")).await;

    let short = LeaseRefresh { lease: Duration::from_millis(200), ..lease(id, "slow", 1) };
    let RefreshLeased::Go { fence, .. } = fx.ok(short).await else { panic!("no lease") };
    fx.pass(Duration::from_millis(300)).await;
    assert_eq!(fx.ok(token(id, "slow", fence, "sealed 2")).await.version, 2, "slow, but no other refresh started");
}

pub(super) async fn start_of_the_only_process_clears_running_refreshes(fx: Fixture) {
    let id = fx.saved("key").await;
    let (fence, _) = fx.leased(id, "dead", 0).await;
    fx.ok(Sweep { limit: 10, max_attempts: 3, all_owners: false, longest_lease: make::LONG }).await;
    assert!(matches!(fx.ok(lease(id, "b", 0)).await, RefreshLeased::Busy { .. }));
    fx.ok(Sweep { limit: 10, max_attempts: 3, all_owners: true, longest_lease: make::LONG }).await;
    assert!(fx.leased(id, "b", 0).await.0 > fence);
}

// covers: G-12
pub(super) async fn failed_refresh_is_counted_and_ends_the_lease(fx: Fixture) {
    let id = fx.saved("key").await;
    let fail = |owner: &str, fence, rejected| FailRefresh {
        credential: id,
        owner: owner.into(),
        fence,
        error: "invalid_grant".into(),
        rejected,
    };
    let (fence, _) = fx.leased(id, "a", 0).await;
    assert!(!fx.ok(fail("b", fence, true)).await.recorded, "not the holder");
    assert!(fx.ok(fail("a", fence, false)).await.recorded);
    assert!(!fx.ok(fail("a", fence, false)).await.recorded, "counted once");
    let state = fx.credential(id).await.state;
    assert_eq!((state.status, state.fail_count), (TokenStatus::Active, 1));
    assert_eq!(fx.run(token(id, "a", fence, "late")).await, Err(TxError::Fenced), "the lease is over");

    let (fence, _) = fx.leased(id, "b", 0).await;
    fx.ok(fail("b", fence, true)).await;
    let state = fx.credential(id).await.state;
    assert_eq!((state.status, state.fail_count), (TokenStatus::Rejected, 2));
    assert_eq!(state.last_error.as_deref(), Some("invalid_grant"));
    let (fence, _) = fx.leased(id, "b", 0).await;
    fx.ok(token(id, "b", fence, "sealed 1")).await;
    let state = fx.credential(id).await.state;
    assert_eq!((state.status, state.fail_count, state.last_error), (TokenStatus::Active, 0, None));
}

// covers: MAP-X-03
pub(super) async fn upstream_verdict_applies_to_the_token_it_received(fx: Fixture) {
    let id = fx.saved("key").await;
    let mark = |seen, rejected: Option<&str>| MarkCredential {
        credential: id,
        seen_version: seen,
        rejected: rejected.map(Into::into),
    };
    assert!(fx.ok(mark(0, Some("401"))).await.marked);
    let before = fx.credential(id).await;
    assert_eq!((before.state.status, before.state.fail_count), (TokenStatus::Rejected, 1));
    assert_eq!(before.status, CredentialStatus::Active, "the definition does not change");
    assert!(fx.ok(mark(0, None)).await.marked);
    assert_eq!(fx.credential(id).await.state.status, TokenStatus::Active);

    let (fence, _) = fx.leased(id, "a", 0).await;
    fx.ok(token(id, "a", fence, "sealed 1")).await;
    assert!(!fx.ok(mark(0, Some("401"))).await.marked, "said of the token before");
    assert_eq!(fx.credential(id).await.state.status, TokenStatus::Active);
    assert!(!fx.ok(MarkCredential { credential: CredentialId(99), seen_version: 0, rejected: None }).await.marked);
}

// covers: ING-3.8-01, ING-2.7-01
pub(super) async fn credential_list_contains_no_ciphertext(fx: Fixture) {
    let id = fx.saved("key").await;
    let (fence, _) = fx.leased(id, "a", 0).await;
    fx.ok(token(id, "a", fence, "v1.k.sealed")).await;
    fx.leased(id, "b", 1).await;
    for view in View::ALL {
        let rows = fx.filtered(*view, ViewFilter::default()).await;
        for row in &rows.rows {
            let text = view.to_json_text(row);
            assert!(!text.contains("v1.k."), "{}: {text}", view.as_str());
        }
    }
    let rows = fx.rows(View::CredentialStates).await;
    assert_eq!(rows.at(0, "credential_id"), Cell::Int(id.0));
    assert_eq!(rows.at(0, "refresh_owner"), Cell::Text("b".into()));
}

// covers: G-12
pub(super) async fn twenty_concurrent_refreshes_run_once(fx: Fixture) {
    let id = fx.saved("key").await;
    let asked = (0..20).map(|number| {
        let fx = fx.clone();
        tokio::spawn(async move { fx.ok(lease(id, &format!("owner {number}"), 0)).await })
    });
    let mut go = 0;
    for answer in asked.collect::<Vec<_>>() {
        match answer.await.expect("no panic") {
            RefreshLeased::Go { .. } => go += 1,
            RefreshLeased::Busy { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(go, 1);
    let saves = (0..10).map(|number| {
        let fx = fx.clone();
        let save = SaveCredential { sealed: format!("s{number}"), ..save(binding("race", "far", WHOLE), 1) };
        tokio::spawn(async move { fx.run(save).await })
    });
    let mut saved = 0;
    for answer in saves.collect::<Vec<_>>() {
        match answer.await.expect("no panic") {
            Ok(_) => saved += 1,
            Err(error) => assert_eq!(error, TxError::Conflict),
        }
    }
    assert_eq!(saved, 1, "one writes version 1");
}
