//! Credentials by HTTP: in, listed without their secrets, out.

use super::*;

const CANARY: &str = "canary-4711";

async fn stored(door: &Door) -> Vec<patra_core::credential::Credential> {
    door.api.store.credentials(patra_core::port::credential::CredentialFilter::Alias("far".into())).await.unwrap()
}

// covers: ING-3.8-01, ING-2.7-01, C-59
#[tokio::test]
async fn a_credential_goes_in_and_its_secrets_never_come_out() {
    let door = Door::new();
    let key = door.key(KeyScope::Admin).await;
    let post = |body: String| {
        let (door, key) = (&door, &key);
        async move { door.send("POST", "/api/v1/credentials", Some(key), body).await }
    };
    let add = format!(r#"{{"alias":"far","provenance":"p","type":"api_key","secret":"{CANARY}"}}"#);
    let (status, body) = post(add.clone()).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    assert!(body.contains(r#""version":1"#) && !body.contains(CANARY), "{body}");
    let (status, body) = post(add).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert!(body.contains("rotate"), "{body}");

    let rotate = format!(r#"{{"alias":"far","rotate":true,"revoke_old":true,"secrets":{{"api_key":"{CANARY}2"}}}}"#);
    let (status, body) = post(rotate).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let rows = stored(&door).await;
    assert_eq!(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>(), ["REVOKED", "ACTIVE"]);
    let opened = door.api.vault.get().unwrap().open(&rows[1]).unwrap();
    assert_eq!(opened["apiKey"].expose(), format!("{CANARY}2"));

    for view in ["credentials", "credential-states"] {
        let (status, body) = door.ask("GET", &format!("/api/v1/{view}"), Some(&key)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(!body.contains("canary") && !body.contains("sealed") && !body.contains("v1."), "{body}");
    }
    let (status, body) = door.ask("DELETE", "/api/v1/credentials/far?version=2", Some(&key)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(stored(&door).await.iter().all(|row| row.sealed.is_empty()));
    assert_eq!(door.ask("DELETE", "/api/v1/credentials/far", Some(&key)).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_is_wrong_is_told_without_repeating_it() {
    let door = Door::new();
    let key = door.key(KeyScope::Admin).await;
    for body in [
        format!(r#"{{"alias":"far","type":"api_key","secrets":"{CANARY}"}}"#),
        format!(r#"{{"alias":"far","type":"api_key","secret":["{CANARY}"]}}"#),
        format!(r#"{{"alias":"far","type":"api_key","{CANARY}":1}}"#),
        format!(r#"{{"alias":"far","type":"api_key","secret":"{CANARY}""#),
        format!(r#"{{"alias":"far","secret":"{CANARY}"}}"#),
        format!(r#"{{"alias":"far","type":"{CANARY}","secret":"x"}}"#),
        format!(r#"{{"alias":"far","type":"oauth2","secret":"{CANARY}"}}"#),
        format!(r#"{{"alias":"far","type":"basic","secrets":{{"username":"{CANARY}"}}}}"#),
        format!(r#"{{"alias":"far","type":"bearer","secrets":{{"token":"{CANARY}","a b":"{CANARY}"}}}}"#),
        format!(r#"{{"alias":"far","type":"bearer","secrets":{{"token":"{CANARY}"}},"secret":"{CANARY}"}}"#),
        format!(r#"{{"alias":"Far Side","type":"bearer","secret":"{CANARY}"}}"#),
        format!(r#"{{"alias":"far","endpoint":"e","type":"bearer","secret":"{CANARY}"}}"#),
        r#"{"alias":"far","type":"bearer","secret":""}"#.to_owned(),
        r#"{"alias":"far","type":"bearer","secret":"a\u0000b"}"#.to_owned(),
        r#"{"alias":"far","type":"custom","secrets":{}}"#.to_owned(),
    ] {
        let (status, answer) = door.send("POST", "/api/v1/credentials", Some(&key), body.clone()).await;
        assert!(status.is_client_error(), "{body}: {status} {answer}");
        assert!(!answer.contains(CANARY), "{answer}");
    }
    assert!(stored(&door).await.is_empty());
}

#[tokio::test]
async fn without_a_master_key_nothing_is_sealed() {
    let mut door = Door::new();
    door.api.make_vault = Arc::new(|| Err("no master key is given".to_owned()));
    let key = door.key(KeyScope::Admin).await;
    let body = format!(r#"{{"alias":"far","type":"bearer","secret":"{CANARY}"}}"#);
    let (status, answer) = door.send("POST", "/api/v1/credentials", Some(&key), body).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(answer.contains("NOT_CONFIGURED") && answer.contains("PATRA_MASTER_KEY"), "{answer}");
}
