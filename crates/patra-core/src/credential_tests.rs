//! Which credential is taken, and what is sealed of it.

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
        state: State::default(),
    }
}

fn wanted(pinned: Option<i64>) -> Wanted<'static> {
    let pinned = pinned.map(CredentialId);
    let auth_type = AuthType::ApiKey;
    Wanted { provenance_code: "far", endpoint_name: "works", alias: "key", auth_type, pinned }
}

fn ids(found: Vec<Credential>, pinned: Option<i64>) -> Vec<i64> {
    choose(found, &wanted(pinned)).iter().map(|one| one.id.0).collect()
}

// covers: G-15, ING-3.2-04
#[test]
fn the_endpoints_own_goes_before_the_sources_then_priority_then_id() {
    let found = vec![
        one(1, "key", WHOLE, WHOLE, 1),
        one(2, "key", "far", WHOLE, 1),
        one(3, "key", "far", "works", 900),
        one(4, "other", "far", "works", 1),
        one(5, "third", "far", WHOLE, 2),
        one(6, "third", "far", "works", 2),
        one(7, "spare", "far", WHOLE, 1),
    ];
    assert_eq!(ids(found, None), [3, 2, 1, 4, 6, 7, 5]);
}

// covers: ING-3.8-03
#[test]
fn a_key_does_not_wander() {
    let found = vec![
        one(1, "key", "near", WHOLE, 1),
        one(2, "key", "far", "authors", 1),
        one(3, "other", WHOLE, WHOLE, 1),
        Credential { auth_type: AuthType::Bearer, ..one(4, "key", "far", WHOLE, 1) },
        Credential { status: CredentialStatus::Revoked, ..one(5, "key", "far", WHOLE, 1) },
    ];
    assert!(ids(found, None).is_empty());
}

// covers: C-59, ING-5.9-05
#[test]
fn a_task_keeps_the_version_it_was_planned_with_while_that_one_is_valid() {
    let versions = |first: CredentialStatus| {
        let new = Credential { version: 2, ..one(2, "key", "far", WHOLE, 1) };
        vec![Credential { status: first, ..one(1, "key", "far", WHOLE, 1) }, new]
    };
    assert_eq!(ids(versions(CredentialStatus::Active), None), [2], "new tasks take the newest");
    assert_eq!(ids(versions(CredentialStatus::Active), Some(1)), [1, 2]);
    assert_eq!(ids(versions(CredentialStatus::Revoked), Some(1)), [2], "the newest valid one takes over");
    // What a detail endpoint names is not overridden by the task's own.
    let found = vec![one(1, "other", "far", WHOLE, 1), one(2, "key", "far", WHOLE, 1)];
    assert_eq!(ids(found.clone(), Some(1)), [2, 1]);
    assert_eq!(ids(found[..1].to_vec(), Some(1)), [1]);
}

#[test]
fn what_was_rejected_is_tried_last() {
    let rejected = State { status: TokenStatus::Rejected, ..State::default() };
    let found =
        vec![Credential { state: rejected, ..one(1, "key", "far", "works", 1) }, one(2, "spare", "far", WHOLE, 9)];
    assert_eq!(ids(found.clone(), None), [2, 1]);
    assert_eq!(ids(found, Some(1)), [2, 1]);
}

#[test]
fn secrets_and_tokens_come_back_as_they_were() {
    let secrets =
        Secrets::from([("apiKey".to_owned(), Secret::new("a\"b\\c\n\u{1}ü")), ("user".to_owned(), Secret::new(""))]);
    assert_eq!(from_text(&to_text(&secrets)), Some(secrets));
    for refresh in [None, Some(Secret::new("r"))] {
        let token = Token { access: Secret::new("a"), refresh };
        assert_eq!(Token::from_text(&token.to_text()), Some(token));
    }
    assert_eq!(Token::from_text(&Secret::new("no JSON")), None);
}

#[test]
fn records_are_told_apart_and_words_are_plain() {
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
