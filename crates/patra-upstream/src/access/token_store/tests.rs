//! Expiry, number of uses, and token families.

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn token_expires_after_its_lifetime() {
    let (mut store, now) = (TokenStore::default(), Instant::now());
    let granted = store.grant(now, &TokenEndpoint { expires_in_secs: 5, ..TokenEndpoint::default() });
    assert_eq!(granted.refresh_token, None);
    assert!(store.use_token(now, &granted.access_token));
    assert!(store.use_token(now + secs(4), &granted.access_token));
    assert!(!store.use_token(now + secs(5), &granted.access_token));
    assert!(!store.use_token(now, "made up"));
    store.revoke_tokens();
    assert!(!store.use_token(now, &granted.access_token));
}

#[test]
fn tokens_and_sessions_have_a_use_limit() {
    let (mut store, now) = (TokenStore::default(), Instant::now());
    let token = store.grant(now, &TokenEndpoint { max_uses: 2, ..TokenEndpoint::default() }).access_token;
    assert_eq!([1, 2, 3].map(|_| store.use_token(now, &token)), [true, true, false]);
    let session = store.log_in(now, &LoginEndpoint { max_uses: 1, ..LoginEndpoint::default() });
    assert!(!store.use_token(now, &session), "a session is not a token");
    assert_eq!([1, 2].map(|_| store.use_session(now, &session)), [true, false]);
}

#[test]
fn refresh_token_reuse_revokes_the_family() {
    let (mut store, now, oauth) = (TokenStore::default(), Instant::now(), TokenEndpoint::default());
    let first = store.refresh(now, &oauth, &oauth.refresh_token).unwrap();
    let second = store.refresh(now, &oauth, first.refresh_token.as_deref().unwrap()).unwrap();
    let other = store.grant(now, &oauth).access_token;
    assert_ne!(first, second);
    assert!(store.use_token(now, &second.access_token));

    assert_eq!(store.refresh(now, &oauth, &oauth.refresh_token), None);
    assert!(!store.use_token(now, &first.access_token) && !store.use_token(now, &second.access_token));
    assert_eq!(store.refresh(now, &oauth, second.refresh_token.as_deref().unwrap()), None);
    assert!(store.use_token(now, &other), "another family is not touched");
    assert_eq!((store.stats.refreshes, store.stats.refresh_reuses, store.stats.tokens_issued), (2, 1, 3));
    assert_eq!(store.refresh(now, &oauth, "made up"), None);
}

#[test]
fn without_rotation_a_refresh_token_stays() {
    let (mut store, now) = (TokenStore::default(), Instant::now());
    let oauth = TokenEndpoint { rotate: false, ..TokenEndpoint::default() };
    for _ in 0..3 {
        let granted = store.refresh(now, &oauth, &oauth.refresh_token).unwrap();
        assert_eq!(granted.refresh_token.as_ref(), Some(&oauth.refresh_token));
    }
    assert_eq!((store.stats.refreshes, store.stats.refresh_reuses), (3, 0));
}

#[test]
fn grant_may_issue_a_refresh_token() {
    let (mut store, now) = (TokenStore::default(), Instant::now());
    let oauth = TokenEndpoint { issue_refresh: true, ..TokenEndpoint::default() };
    let granted = store.grant(now, &oauth);
    assert!(store.refresh(now, &oauth, granted.refresh_token.as_deref().unwrap()).is_some());
}

#[test]
fn oldest_tokens_are_dropped() {
    let (mut store, now) = (TokenStore::default(), Instant::now());
    let first = store.log_in(now, &LoginEndpoint::default());
    for _ in 0..2 * MAX_KEPT {
        store.log_in(now, &LoginEndpoint::default());
    }
    assert!(store.sessions.len() as u64 <= MAX_KEPT);
    assert!(!store.use_session(now, &first));
    let last = store.log_in(now, &LoginEndpoint::default());
    assert!(store.use_session(now, &last));
}
