//! Credentials by HTTP: stored, listed without secrets, revoked.

use super::*;

const CANARY: &str = "canary-4711";

async fn stored(server: &TestServer) -> Vec<patra_core::credential::Credential> {
    server.api.store.credentials(patra_core::port::credential::CredentialFilter::Alias("far".into())).await.unwrap()
}

// covers: ING-3.8-01, ING-2.7-01, C-59
#[tokio::test]
async fn credential_is_stored_and_its_secrets_are_never_returned() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
    let post = |body: String| {
        let (server, key) = (&server, &key);
        async move { server.send("POST", "/api/v1/credentials", Some(key), body).await }
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
    let rows = stored(&server).await;
    assert_eq!(rows.iter().map(|row| row.status.as_str()).collect::<Vec<_>>(), ["REVOKED", "ACTIVE"]);
    let opened = server.api.vault.get().unwrap().open(&rows[1]).unwrap();
    assert_eq!(opened["apiKey"].expose(), format!("{CANARY}2"));

    for view in ["credentials", "credential-states"] {
        let (status, body) = server.request("GET", &format!("/api/v1/{view}"), Some(&key)).await;
        assert_eq!(status, StatusCode::OK);
        assert!(!body.contains("canary") && !body.contains("sealed") && !body.contains("v1."), "{body}");
    }
    let (status, body) = server.request("DELETE", "/api/v1/credentials/far?version=2", Some(&key)).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(stored(&server).await.iter().all(|row| row.sealed.is_empty()));
    assert_eq!(server.request("DELETE", "/api/v1/credentials/far", Some(&key)).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn invalid_credential_is_refused_without_repeating_secrets() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Admin).await;
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
        format!(r#"{{"alias":"Two Words","type":"bearer","secret":"{CANARY}"}}"#),
        format!(r#"{{"alias":"far","endpoint":"e","type":"bearer","secret":"{CANARY}"}}"#),
        r#"{"alias":"far","type":"bearer","secret":""}"#.to_owned(),
        r#"{"alias":"far","type":"bearer","secret":"a\u0000b"}"#.to_owned(),
        r#"{"alias":"far","type":"custom","secrets":{}}"#.to_owned(),
    ] {
        let (status, response) = server.send("POST", "/api/v1/credentials", Some(&key), body.clone()).await;
        assert!(status.is_client_error(), "{body}: {status} {response}");
        assert!(!response.contains(CANARY), "{response}");
    }
    assert!(stored(&server).await.is_empty());
}

#[tokio::test]
async fn credential_needs_a_master_key() {
    let mut server = TestServer::new();
    server.api.make_vault = Arc::new(|| Err("no master key is given".to_owned()));
    let key = server.key(KeyScope::Admin).await;
    let body = format!(r#"{{"alias":"far","type":"bearer","secret":"{CANARY}"}}"#);
    let (status, response) = server.send("POST", "/api/v1/credentials", Some(&key), body).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.contains("NOT_CONFIGURED") && response.contains("PATRA_MASTER_KEY"), "{response}");
}
