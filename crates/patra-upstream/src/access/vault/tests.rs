//! Lives, uses and families.

use super::*;

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

#[test]
fn a_token_lives_as_long_as_it_was_said_to() {
    let (mut vault, now) = (Vault::default(), Instant::now());
    let granted = vault.grant(now, &OAuth { expires_in_secs: 5, ..OAuth::default() });
    assert_eq!(granted.refresh_token, None);
    assert!(vault.use_token(now, &granted.access_token));
    assert!(vault.use_token(now + secs(4), &granted.access_token));
    assert!(!vault.use_token(now + secs(5), &granted.access_token));
    assert!(!vault.use_token(now, "made up"));
    vault.revoke_tokens();
    assert!(!vault.use_token(now, &granted.access_token));
}

#[test]
fn a_token_and_a_session_may_have_so_many_uses() {
    let (mut vault, now) = (Vault::default(), Instant::now());
    let token = vault.grant(now, &OAuth { max_uses: 2, ..OAuth::default() }).access_token;
    assert_eq!([1, 2, 3].map(|_| vault.use_token(now, &token)), [true, true, false]);
    let session = vault.log_in(now, &Login { max_uses: 1, ..Login::default() });
    assert!(!vault.use_token(now, &session), "a session is no token");
    assert_eq!([1, 2].map(|_| vault.use_session(now, &session)), [true, false]);
}

#[test]
fn a_refresh_token_works_once_and_a_second_use_ends_its_family() {
    let (mut vault, now, oauth) = (Vault::default(), Instant::now(), OAuth::default());
    let first = vault.refresh(now, &oauth, &oauth.refresh_token).unwrap();
    let second = vault.refresh(now, &oauth, first.refresh_token.as_deref().unwrap()).unwrap();
    let other = vault.grant(now, &oauth).access_token;
    assert_ne!(first, second);
    assert!(vault.use_token(now, &second.access_token));

    assert_eq!(vault.refresh(now, &oauth, &oauth.refresh_token), None);
    assert!(!vault.use_token(now, &first.access_token) && !vault.use_token(now, &second.access_token));
    assert_eq!(vault.refresh(now, &oauth, second.refresh_token.as_deref().unwrap()), None);
    assert!(vault.use_token(now, &other), "another family is not touched");
    assert_eq!((vault.stats.refreshes, vault.stats.refresh_reuses, vault.stats.tokens_issued), (2, 1, 3));
    assert_eq!(vault.refresh(now, &oauth, "made up"), None);
}

#[test]
fn without_rotation_a_refresh_token_stays() {
    let (mut vault, now) = (Vault::default(), Instant::now());
    let oauth = OAuth { rotate: false, ..OAuth::default() };
    for _ in 0..3 {
        let granted = vault.refresh(now, &oauth, &oauth.refresh_token).unwrap();
        assert_eq!(granted.refresh_token.as_ref(), Some(&oauth.refresh_token));
    }
    assert_eq!((vault.stats.refreshes, vault.stats.refresh_reuses), (3, 0));
}

#[test]
fn a_grant_may_begin_a_family() {
    let (mut vault, now) = (Vault::default(), Instant::now());
    let oauth = OAuth { issue_refresh: true, ..OAuth::default() };
    let granted = vault.grant(now, &oauth);
    assert!(vault.refresh(now, &oauth, granted.refresh_token.as_deref().unwrap()).is_some());
}

#[test]
fn the_oldest_are_forgotten() {
    let (mut vault, now) = (Vault::default(), Instant::now());
    let first = vault.log_in(now, &Login::default());
    for _ in 0..2 * MAX_KEPT {
        vault.log_in(now, &Login::default());
    }
    assert!(vault.sessions.len() as u64 <= MAX_KEPT);
    assert!(!vault.use_session(now, &first));
    let last = vault.log_in(now, &Login::default());
    assert!(vault.use_session(now, &last));
}
