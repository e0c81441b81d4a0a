//! Credentials, end to end: each kind collects, no secret is stored or shown, and errors say what to do.

mod oauth;
mod rules;

use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};

use patra_upstream::{
    Dataset, LoginEndpoint, MockApi, MockAuth, RequestSigning, Script, SessionLocation, SignatureLocation,
    TokenEndpoint,
};

use crate::support::Workspace;

/// Part of every secret of these tests. It must not be in the database, in any output or in any log.
const CANARY: &str = "canary";
/// All records of the upstream.
const ALL: [&str; 4] = ["far", "records", "--to", "2024-01-02"];

fn upstream(script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 300), script).unwrap()
}

fn with(auth: MockAuth) -> Script {
    Script { auth, ..Script::default() }
}

/// The cursor endpoint with this `auth`, in two slices.
fn manifest(server: &MockApi, auth: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults: {{ rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }} }}
endpoints:
  records:
    http: {{ base_url: "{0}", path: /cursor }}
    auth: {auth}
    query: {{ cursor: "${{ page.token }}", rows: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: token, next_token_path: "$.message['next-cursor']", page_size: 20 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT12H, align: hour, initial: 2024-01-01 }}
    retry: {{ min_delay: PT0.01S, max_delay: PT0.05S }}
    response: {{ items_path: "$.message.items", id_path: "$.id", updated_at_path: "$.updated_at", version_path: "$.rev" }}
"#,
        server.base_url()
    )
}

fn text(output: &Output) -> String {
    format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the program with this stdin, at the most verbose log level.
fn fed(place: &Workspace, args: &[&str], stdin: &str) -> Output {
    let mut command = place.patra();
    command.env("RUST_LOG", "trace").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn succeeds(output: &Output) -> String {
    let text = text(output);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains(CANARY), "a secret is shown: {text}");
    text
}

fn add(place: &Workspace, kind: &str, secret: &str) {
    succeeds(&fed(place, &["credential", "add", "far", "--type", kind, "--provenance", "far"], secret));
}

/// Collects everything, with all log lines.
fn collect(place: &Workspace, options: &[&str]) -> Output {
    place.patra().env("RUST_LOG", "trace").args(options).arg("run").args(ALL).args(["-o", "json"]).output().unwrap()
}

#[track_caller]
fn collects_all(place: &Workspace, server: &MockApi, options: &[&str]) {
    let output = collect(place, options);
    succeeds(&output);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["inserted"], server.dataset().len(), "{}", text(&output));
    shows_nothing(place);
}

/// Checks that no file of the place and no view has a secret.
#[track_caller]
fn shows_nothing(place: &Workspace) {
    let mut folders = vec![place.folder.path().join("data")];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
                assert!(!found, "{} holds a secret", path.display());
            }
        }
    }
    if let Some(url) = place.database_url() {
        let dump = std::process::Command::new("pg_dump").args(["--data-only", &url]).output().unwrap();
        assert!(dump.status.success(), "{}", text(&dump));
        assert!(!text(&dump).contains(CANARY), "the database holds a secret");
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[track_caller]
fn check(script: Script, auth: &str, kind: &str, secret: &str, options: &[&str]) -> MockApi {
    let (server, place) = (upstream(script), Workspace::sqlite());
    let options: Vec<_> = options.iter().map(|option| option.replace("FAR", server.base_url())).collect();
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    place.apply(&manifest(&server, auth));
    add(&place, kind, secret);
    collects_all(&place, &server, &options);
    assert_eq!(server.stats().r401, 0, "{auth}");
    server
}

// covers: ING-3.4-01, ING-4.2-01, ING-4.2-03, ING-3.8-01, ING-3.9-03, ING-2.7-01, ING-2.7-02, ING-4.2-10, C-20, MAP-X-20
#[tokio::test(flavor = "multi_thread")]
async fn keys_tokens_passwords_and_cookies_collect_and_leave_no_trace() {
    let (name, value) = pair("X-Key", "canary-key");
    check(with(MockAuth::Header { name, value }), "{ type: api_key, name: X-Key }", "api_key", "canary-key\n", &[]);
    let (name, value) = pair("api_key", "canary key&1");
    let script = with(MockAuth::Query { name, value });
    check(script.clone(), "{ type: api_key, location: query, name: api_key }", "api_key", "canary key&1", &[]);
    let token = "canary-token".to_owned();
    check(with(MockAuth::Bearer { token }), "{ type: bearer }", "bearer", "canary-token", &[]);
    let (user, password) = pair("user", "canary:password");
    check(with(MockAuth::Basic { user, password }), "{ type: basic }", "basic", "user:canary:password", &[]);
    let (name, value) = pair("sid", "canary-cookie");
    check(with(MockAuth::Cookie { name, value }), "{ type: cookie }", "cookie", "sid=canary-cookie; a=b", &[]);

    // The manifest's own template sends the key.
    let (server, place) = (upstream(script), Workspace::sqlite());
    let by_template = manifest(&server, "{ type: api_key, name: X-Unused }")
        .replace("query: {", "query: { api_key: \"${ credential.apiKey }\",");
    place.apply(&by_template);
    add(&place, "api_key", "canary key&1");
    collects_all(&place, &server, &[]);
    let digest = &place.list(&["batches"])[0]["request_digest"];
    assert!(digest["query"]["api_key"] == "${credential.apiKey}" && digest["credentialId"] == 1, "{digest}");
}

// covers: ING-4.2-03
#[tokio::test(flavor = "multi_thread")]
async fn a_key_in_the_body_collects() {
    let (name, value) = pair("key", "canary\"key");
    let (server, place) = (upstream(with(MockAuth::Body { name, value })), Workspace::sqlite());
    let graphql = format!(
        r#"
provenance: far
allow_http: true
defaults: {{ rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }} }}
endpoints:
  records:
    http: {{ base_url: "{0}", path: /graphql, method: post }}
    auth: {{ type: api_key, location: body, name: key }}
    body:
      json:
        query: "query($a: String, $n: Int, $f: String, $t: String) {{ works(first: $n, after: $a, from: $f, to: $t) {{ totalCount }} }}"
        variables: {{ a: "${{ page.token }}", n: "${{ page.size }}", f: "${{ window.from | iso }}", t: "${{ window.to | iso }}" }}
    pagination: {{ type: token, next_token_path: "$.data.works.pageInfo.endCursor", page_size: 50 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT12H, align: hour, initial: 2024-01-01 }}
    response: {{ items_path: "$.data.works.edges", id_path: "$.node.id", updated_at_path: "$.node.updated_at", has_more_path: "$.data.works.pageInfo.hasNextPage" }}
"#,
        server.base_url()
    );
    place.apply(&graphql);
    add(&place, "api_key", "canary\"key");
    collects_all(&place, &server, &[]);
}

// covers: ING-3.4-01
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_opened_once_and_again_when_it_ends() {
    let session = "session: { url: /login, body: { json: { user: \"${ credential.username }\", password: \"${ credential.password }\" } }";
    for (answer, place_of_token, more) in [
        (SessionLocation::Body, "token_path: $.token", ""),
        (SessionLocation::Header, "token_header: X-Session-Token", ", name: X-Session-Token, prefix: \"\""),
        (SessionLocation::Cookie, "cookie: session", ""),
    ] {
        let login = LoginEndpoint { password: "canary-password".into(), location: answer, ..LoginEndpoint::default() };
        let auth = format!("{{ type: session, {session}, {place_of_token} }}{more} }}");
        let secret = r#"{"username": "user", "password": "canary-password"}"#;
        let script = Script { login: login.clone(), ..with(MockAuth::Session) };
        let server = check(script, &auth, "session", secret, &[]);
        assert_eq!(server.stats().access.logins, 1, "{answer:?}");

        // A session that the upstream ends is opened again, and the page is requested again.
        let (server, place) = (
            upstream(Script { login: LoginEndpoint { max_uses: 4, ..login }, ..with(MockAuth::Session) }),
            Workspace::sqlite(),
        );
        place.apply(&manifest(&server, &auth));
        add(&place, "session", secret);
        collects_all(&place, &server, &[]);
        let stats = server.stats();
        assert!(stats.access.logins > 3 && stats.r401 > 0, "{stats:?}");
    }
}

// covers: ING-4.2-04, ING-3.8-02, CRAWL-198
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_signs_every_request() {
    for place in [SignatureLocation::Headers, SignatureLocation::Query] {
        let signing = RequestSigning { location: place, secret: "canary-signing".into(), ..RequestSigning::default() };
        let script = Script { signing, ..with(MockAuth::Signed) };
        let auth = "{ type: custom, signing_hook: far-hmac }";
        let server =
            check(script, auth, "custom", r#"{"account": "canary-account"}"#, &["--signer", "far-hmac=FAR/sign"]);
        let stats = server.stats();
        assert_eq!(stats.access.signatures, stats.data_requests);
    }
}

fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777 == 0o600
}

fn refresh_script(oauth: TokenEndpoint) -> Script {
    Script { oauth, ..with(MockAuth::OAuth) }
}
