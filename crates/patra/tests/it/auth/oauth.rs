//! Tokens that expire: fetched when needed, renewed before they expire and when they are refused, by one process at a
//! time.

use super::*;

const AUTH: &str = "{ type: oauth2, oauth2: { token_url: \"FAR/oauth/token\", grant: GRANT, refresh_ahead: PT1S } }";
const SECRETS: &str = r#"{"clientId": "client", "clientSecret": "canary-secret", "refreshToken": "canary-refresh-0", "unused": "canary"}"#;

fn oauth() -> TokenEndpoint {
    TokenEndpoint {
        client_secret: "canary-secret".into(),
        refresh_token: "canary-refresh-0".into(),
        ..TokenEndpoint::default()
    }
}

fn auth(server: &MockApi, grant: &str) -> String {
    AUTH.replace("FAR", server.base_url()).replace("GRANT", grant)
}

// covers: G-12, ING-4.2-01, C-38, ING-2.3-03
#[tokio::test(flavor = "multi_thread")]
async fn client_credentials_fetch_and_replace_tokens() {
    for max_uses in [0, 3] {
        let (server, place) = (upstream(refresh_script(TokenEndpoint { max_uses, ..oauth() })), Workspace::sqlite());
        place.apply(&manifest(&server, &auth(&server, "client_credentials")));
        add(&place, "oauth2", SECRETS);
        collects_all(&place, &server, &[]);
        let stats = server.stats();
        assert_eq!(stats.access.tokens_refused, 0);
        match max_uses {
            0 => assert_eq!((stats.access.tokens_issued, stats.r401), (1, 0)),
            _ => assert!(stats.access.tokens_issued > 4 && stats.r401 > 0, "{stats:?}"),
        }
        // Another process finds the token in the database.
        if max_uses == 0 {
            succeeds(&place.run(&["run", "far", "records", "--to", "2024-01-03"]));
            assert_eq!(server.stats().access.tokens_issued, 1);
        }
        let states = place.list(&["credential-states"]);
        assert!(states[0]["expires_at"].is_string() && states[0]["status_code"] == "ACTIVE", "{states:?}");
        assert!(states[0].get("sealed").is_none());
    }
}

// covers: G-12, MAP-X-03
#[tokio::test(flavor = "multi_thread")]
async fn refresh_token_is_used_once_by_concurrent_runs() {
    // Tokens expire after three uses, so that the runs of a process compete to replace them.
    let script = refresh_script(TokenEndpoint { max_uses: 3, ..oauth() });
    let (server, place) = (upstream(script), Workspace::sqlite());
    place.apply(&manifest(&server, &auth(&server, "refresh_token")));
    add(&place, "oauth2", SECRETS);
    collects_all(&place, &server, &[]);
    let access = server.stats().access;
    assert!(access.refreshes > 4, "{access:?}");
    assert_eq!((access.refresh_reuses, access.tokens_refused), (0, 0), "{access:?}");
}

// covers: G-12
#[tokio::test(flavor = "multi_thread")]
async fn processes_on_one_database_never_use_a_refresh_token_twice() {
    let Some(place) = Workspace::postgres() else { return };
    let script = Script { latency_ms: 60, auth_latency_ms: 30, ..refresh_script(oauth()) };
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 1_400), script).unwrap();
    let narrow = manifest(&server, &auth(&server, "refresh_token")).replace("PT12H", "PT2H");
    place.apply(&narrow.replace("page_size: 20", "page_size: 2"));
    let key = "c".repeat(64);
    let add = ["credential", "add", "far", "--type", "oauth2", "--provenance", "far"];
    let mut command = place.patra();
    command.env("PATRA_MASTER_KEY", &key).args(add).args(["--from-env", "clientId=ID"]);
    command.args(["--from-env", "clientSecret=SECRET", "--from-env", "refreshToken=REFRESH"]);
    command.env("ID", "client").env("SECRET", "canary-secret").env("REFRESH", "canary-refresh-0");
    succeeds(&command.output().unwrap());

    // Into files: a pipe that nobody reads would stop its writer.
    let log = |number: usize| place.folder.path().join(format!("log-{number}"));
    let start = |number: usize| {
        let file = std::fs::File::create(log(number)).unwrap();
        let mut command = place.patra();
        command.env("PATRA_MASTER_KEY", &key).env("RUST_LOG", "trace").arg("run").args(ALL);
        command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap()
    };
    let mut children: Vec<_> = (0..3).map(start).collect();
    // Every 60 requests all of them find their token revoked at once. By requests and not by time: on a busy machine a
    // request could otherwise meet two revocations in a row, which is a rejected credential.
    let (mut ended, mut served) = (Vec::new(), 0);
    while ended.len() < children.len() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        let now = server.stats().data_requests;
        if now >= served + 60 {
            served = now;
            server.revoke_tokens();
        }
        ended = children.iter_mut().filter_map(|child| child.try_wait().unwrap()).collect();
    }
    for (number, status) in ended.iter().enumerate() {
        let text = std::fs::read_to_string(log(number)).unwrap();
        assert!(status.success(), "{}", &text[text.len().saturating_sub(5_000)..]);
        assert!(!text.contains(CANARY), "a secret is in log {number}");
    }
    assert_eq!(place.list(&["items"]).len(), server.dataset().len());
    let access = server.stats().access;
    assert!(access.refreshes >= 3, "{access:?}");
    assert_eq!((access.refresh_reuses, access.tokens_refused), (0, 0), "{access:?}");
    shows_nothing(&place);
}

// covers: G-12, ING-3.6-03, ING-4.2-10
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_refresh_stops_the_source_and_says_what_to_do() {
    let (server, place) = (upstream(refresh_script(oauth())), Workspace::sqlite());
    place.apply(&manifest(&server, &auth(&server, "refresh_token")));
    add(&place, "oauth2", &SECRETS.replace("canary-refresh-0", "canary-stale"));
    let output = collect(&place, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(!text(&output).contains(CANARY), "{}", text(&output));
    let task = &place.list(&["tasks"])[0];
    let message = task["error"]["message"].as_str().unwrap();
    assert_eq!((&task["error"]["code"], &task["error"]["level"]), (&"UPSTREAM_AUTH_FAILED".into(), &"L4".into()));
    assert!(message.contains("400: invalid_grant") && message.contains("patra credential rotate far"), "{message}");
    // A dead credential is tried once, not by every slice.
    assert_eq!((server.stats().access.tokens_refused, server.stats().data_requests), (1, 0));
    let listed = succeeds(&place.run(&["credential", "list"]));
    assert!(listed.contains("REJECTED") && listed.contains("invalid_grant"), "{listed}");

    succeeds(&fed(&place, &["credential", "rotate", "far", "--revoke-old"], SECRETS));
    collects_all(&place, &server, &[]);
    let listed = succeeds(&place.run(&["credential", "list", "-o", "ndjson"]));
    assert!(listed.contains("REVOKED"), "{listed}");
}

// covers: G-12
#[tokio::test(flavor = "multi_thread")]
async fn check_gets_a_token_or_says_why_not() {
    let (server, place) = (upstream(refresh_script(oauth())), Workspace::sqlite());
    place.apply(&manifest(&server, &auth(&server, "client_credentials")));
    add(&place, "oauth2", SECRETS);
    let checked = succeeds(&place.run(&["credential", "check", "far"]));
    assert!(checked.contains("far works: got a token that expires at 2"), "{checked}");
    assert_eq!(server.stats().access.tokens_issued, 1);

    succeeds(&fed(&place, &["credential", "rotate", "far"], &SECRETS.replace("canary-secret", "canary-wrong")));
    let output = place.run(&["credential", "check", "far"]);
    assert_eq!(output.status.code(), Some(78), "{}", text(&output));
    assert!(text(&output).contains("401: invalid_client") && !text(&output).contains(CANARY), "{}", text(&output));
    shows_nothing(&place);
}
