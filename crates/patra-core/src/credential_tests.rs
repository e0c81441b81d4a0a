//! Choice of credentials, and their sealed texts.

use super::*;

fn one(id: i64, alias: &str, provenance: &str, endpoint: &str, priority: i32) -> Credential {
    Credential {
        id: CredentialId(id),
        binding: Binding { alias: alias.into(), provenance_code: provenance.into(), endpoint_name: endpoint.into() },
        version: 1,
        auth_type: AuthType::ApiKey,
        priority,
        sealed: "s".into(),
        status: CredentialStatus::Active,
        state: CredentialRuntime::default(),
    }
}

fn query(pinned: Option<i64>) -> CredentialQuery<'static> {
    let pinned = pinned.map(CredentialId);
    let auth_type = AuthType::ApiKey;
    CredentialQuery { provenance_code: "demo", endpoint_name: "works", alias: "key", auth_type, pinned }
}

fn ids(found: Vec<Credential>, pinned: Option<i64>) -> Vec<i64> {
    choose(found, &query(pinned)).iter().map(|one| one.id.0).collect()
}

// covers: G-15, ING-3.2-04
#[test]
fn the_endpoints_own_goes_before_the_sources_then_priority_then_id() {
    let found = vec![
        one(1, "key", WHOLE, WHOLE, 1),
        one(2, "key", "demo", WHOLE, 1),
        one(3, "key", "demo", "works", 900),
        one(4, "other", "demo", "works", 1),
        one(5, "third", "demo", WHOLE, 2),
        one(6, "third", "demo", "works", 2),
        one(7, "spare", "demo", WHOLE, 1),
    ];
    assert_eq!(ids(found, None), [3, 2, 1, 4, 6, 7, 5]);
}

// covers: ING-3.8-03
#[test]
fn unbound_credential_serves_only_where_its_alias_is_named() {
    let found = vec![
        one(1, "key", "near", WHOLE, 1),
        one(2, "key", "demo", "authors", 1),
        one(3, "other", WHOLE, WHOLE, 1),
        Credential { auth_type: AuthType::Bearer, ..one(4, "key", "demo", WHOLE, 1) },
        Credential { status: CredentialStatus::Revoked, ..one(5, "key", "demo", WHOLE, 1) },
    ];
    assert!(ids(found, None).is_empty());
}

// covers: C-59, ING-5.9-05
#[test]
fn a_task_keeps_the_version_it_was_planned_with_while_that_one_is_valid() {
    let versions = |first: CredentialStatus| {
        let new = Credential { version: 2, ..one(2, "key", "demo", WHOLE, 1) };
        vec![Credential { status: first, ..one(1, "key", "demo", WHOLE, 1) }, new]
    };
    assert_eq!(ids(versions(CredentialStatus::Active), None), [2], "new tasks take the newest");
    assert_eq!(ids(versions(CredentialStatus::Active), Some(1)), [1, 2]);
    assert_eq!(ids(versions(CredentialStatus::Revoked), Some(1)), [2], "the newest valid one takes over");
    // The alias of a detail endpoint is not overridden by the task's pinned credential.
    let found = vec![one(1, "other", "demo", WHOLE, 1), one(2, "key", "demo", WHOLE, 1)];
    assert_eq!(ids(found.clone(), Some(1)), [2, 1]);
    assert_eq!(ids(found[..1].to_vec(), Some(1)), [1]);
}

#[test]
fn rejected_credential_is_tried_last() {
    let rejected = CredentialRuntime { status: TokenStatus::Rejected, ..CredentialRuntime::default() };
    let found =
        vec![Credential { state: rejected, ..one(1, "key", "demo", "works", 1) }, one(2, "spare", "demo", WHOLE, 9)];
    assert_eq!(ids(found.clone(), None), [2, 1]);
    assert_eq!(ids(found, Some(1)), [2, 1]);
}

#[test]
fn secrets_and_tokens_round_trip() {
    let secrets =
        Secrets::from([("apiKey".to_owned(), Secret::new("a\"b\\c\n\u{1}ü")), ("user".to_owned(), Secret::new(""))]);
    assert_eq!(from_text(&to_text(&secrets)), Some(secrets));
    for refresh in [None, Some(Secret::new("r"))] {
        let token = AccessToken { access: Secret::new("a"), refresh };
        assert_eq!(AccessToken::from_text(&token.to_text()), Some(token));
    }
    assert_eq!(AccessToken::from_text(&Secret::new("no JSON")), None);
}

#[test]
fn sealed_records_differ_and_names_are_validated() {
    let a = one(1, "a", "b", "c", 1).binding;
    let b = Binding { alias: "a\",\"b".into(), ..a.clone() };
    assert_ne!(a.record(1), b.record(1));
    assert_ne!(a.record(1), a.record(2));
    for (word, alias, name) in [
        ("pubmed", true, true),
        ("pubmed-2", true, false),
        ("apiKey", false, true),
        ("2a", true, false),
        ("", false, false),
        ("a b", false, false),
        ("ü", false, false),
        (&"a".repeat(65), false, false),
    ] {
        assert_eq!((is_alias(word), is_name(word)), (alias, name), "{word}");
    }
}
