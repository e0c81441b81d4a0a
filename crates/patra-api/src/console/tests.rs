//! The pages in a browser without scripts, on the in-memory store.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Request, StatusCode};
use tower::ServiceExt as _;

use patra_core::port::CommandsExt as _;
use patra_core::tx::{KeyScope, NewSource, RevokeKey, SaveSources};

use crate::key;
use crate::routes::tests::TestServer;

/// Pages for every key, and pages for administrators only.
const PAGES: &[&str] = &[
    "/",
    "/sources",
    "/jobs",
    "/plans",
    "/slices",
    "/tasks",
    "/runs",
    "/batches",
    "/cursors",
    "/cursor-events",
    "/items",
    "/quarantine",
    "/candidates",
    "/signals",
    "/outbox",
    "/pool",
    "/holds",
    "/gates",
    "/alerts",
    "/endpoints",
    "/schedules",
    "/search?q=nothing",
];
const FOR_ADMINS: &[&str] = &["/keys", "/credentials", "/settings", "/exports", "/try"];
/// Most bytes of a page.
const MAX_PAGE: usize = 100_000;

struct Browser {
    router: Router,
    cookie: String,
    csrf: String,
}

struct PageResponse {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl PageResponse {
    fn location(&self) -> &str {
        self.headers.get(LOCATION).unwrap().to_str().unwrap()
    }
}

impl Browser {
    fn new(server: &TestServer) -> Browser {
        Browser { router: crate::router(server.api.clone()), cookie: String::new(), csrf: String::new() }
    }

    async fn logged_in(server: &TestServer, key: &str) -> Browser {
        let mut browser = Browser::new(server);
        browser.get("/login").await;
        let response = browser.post("/login", &format!("key={key}")).await;
        assert_eq!((response.status, response.location()), (StatusCode::SEE_OTHER, "/"));
        assert_eq!(browser.get("/").await.status, StatusCode::OK);
        browser
    }

    async fn get(&mut self, path: &str) -> PageResponse {
        let response = self.send(Request::get(path).header(COOKIE, &self.cookie).body(Body::empty()).unwrap()).await;
        if let Some(rest) = response.html.split("name=\"csrf\" value=\"").nth(1) {
            self.csrf = rest.split('"').next().unwrap().to_owned();
        }
        response
    }

    async fn post(&mut self, path: &str, form: &str) -> PageResponse {
        let form = format!("{form}&csrf={}", self.csrf);
        self.post_as_it_is(path, form).await
    }

    async fn post_as_it_is(&mut self, path: &str, form: String) -> PageResponse {
        let request = Request::post(path)
            .header(COOKIE, &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(form));
        self.send(request.unwrap()).await
    }

    async fn send(&mut self, request: Request<Body>) -> PageResponse {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        if let Some(set) = headers.get(SET_COOKIE).map(|value| value.to_str().unwrap()) {
            assert!(set.contains("HttpOnly; SameSite=Strict"), "{set}");
            self.cookie = set.split(';').next().unwrap().to_owned();
        }
        let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
        PageResponse { status, headers, html: String::from_utf8(bytes.to_vec()).unwrap() }
    }
}

/// Adds a source and returns its id.
async fn source(server: &TestServer, project_key: &str, name: &str) -> i64 {
    let source = NewSource {
        r#type: "rss".into(),
        name: name.into(),
        config: r#"{"url":"https://example.com/<b>feed</b>"}"#.into(),
        source_key: name.into(),
        minutes: None,
        is_public: false,
        is_active: true,
        last_fetched_at: None,
    };
    let save = SaveSources { project_key: project_key.into(), sources: vec![source] };
    server.api.store.run(Arc::new(save)).await.unwrap().sources[0].id.0
}

#[tokio::test]
async fn every_page_has_a_frame_a_strict_policy_and_a_size_limit() {
    let server = TestServer::new();
    let mut browser = Browser::logged_in(&server, &server.key(KeyScope::Admin).await).await;
    for path in PAGES.iter().chain(FOR_ADMINS) {
        let response = browser.get(path).await;
        assert_eq!(response.status, StatusCode::OK, "{path}");
        let policy = response.headers.get(CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(response.html.starts_with("<!doctype html>") && response.html.contains("<h1>"), "{path}");
        for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
            assert!(!response.html.contains(inline), "{path} holds {inline}");
        }
        assert!(response.html.len() < MAX_PAGE, "{path}: {} bytes", response.html.len());
        // Every form that changes data carries the token.
        let forms = response.html.matches("method=\"post\"").count();
        assert_eq!(response.html.matches("name=\"csrf\"").count(), forms, "{path}");
    }
}

#[tokio::test]
async fn login_needs_a_valid_key_and_sessions_end() {
    let server = TestServer::new();
    let mut browser = Browser::new(&server);
    let response = browser.get("/plans?status=FAILED").await;
    assert_eq!(
        (response.status, response.location()),
        (StatusCode::SEE_OTHER, "/login?next=%2Fplans%3Fstatus%3DFAILED")
    );
    browser.get("/login").await;
    let wrong = "key=patra_00000000_000000000000000000000000000000000000000000000000";
    let response = browser.post("/login", wrong).await;
    assert_eq!(response.status, StatusCode::UNAUTHORIZED);
    assert!(response.html.contains("the API key is not valid"));

    let key = server.key(KeyScope::Read).await;
    let mut browser = Browser::logged_in(&server, &key).await;
    assert!(!browser.get("/").await.html.contains(&key), "a page holds the key");
    let old = browser.cookie.clone();
    assert_eq!(browser.post("/logout", "").await.location(), "/login");
    browser.cookie = old;
    assert_eq!(
        browser.get("/").await.status,
        StatusCode::SEE_OTHER,
        "the session has ended, although the browser has its cookie"
    );

    let mut browser = Browser::logged_in(&server, &key).await;
    let prefix = key::prefix(&key).unwrap().to_owned();
    server.api.store.run(RevokeKey { prefix }).await.unwrap();
    assert_eq!(browser.get("/").await.status, StatusCode::SEE_OTHER, "a revoked key ends its sessions");
}

#[tokio::test]
async fn login_redirects_to_local_pages_only() {
    let server = TestServer::new();
    let key = server.key(KeyScope::Read).await;
    for (next, expected) in
        [("%2Fplans", "/plans"), ("%2F%2Fevil.example", "/"), ("https%3A%2F%2Fevil.example", "/"), ("%2F%5Cevil", "/")]
    {
        let mut browser = Browser::new(&server);
        browser.get("/login").await;
        assert_eq!(browser.post("/login", &format!("key={key}&next={next}")).await.location(), expected);
    }
}

#[tokio::test]
async fn form_without_the_session_token_is_refused() {
    let server = TestServer::new();
    let id = source(&server, "default", "kept").await;
    let key = server.key(KeyScope::Admin).await;
    let mut browser = Browser::logged_in(&server, &key).await;
    let foreign = Browser::logged_in(&server, &key).await.csrf;
    for token in ["", "csrf=", "csrf=00", &format!("csrf={foreign}")] {
        let response = browser.post_as_it_is(&format!("/sources/{id}/remove"), token.to_owned()).await;
        assert_eq!(response.status, StatusCode::FORBIDDEN, "{token}");
    }
    assert_eq!(browser.get(&format!("/sources/{id}")).await.status, StatusCode::OK);
    // Another site cannot log a user in.
    let mut stranger = Browser::new(&server);
    assert_eq!(stranger.post("/login", &format!("key={key}")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn buttons_act_and_need_their_scope() {
    let server = TestServer::new();
    let id = source(&server, "default", "feed").await;
    let mut reader = Browser::logged_in(&server, &server.key(KeyScope::Read).await).await;
    let page = reader.get(&format!("/sources/{id}")).await.html;
    let offers = |page: &str, path: &str| page.contains(&format!("action=\"/sources/{id}/{path}\""));
    assert!(!offers(&page, "pause") && !offers(&page, "remove"), "forbidden actions are not offered");
    assert_eq!(reader.post(&format!("/sources/{id}/pause"), "").await.status, StatusCode::FORBIDDEN);

    let mut writer = Browser::logged_in(&server, &server.key(KeyScope::Write).await).await;
    let page = writer.get(&format!("/sources/{id}")).await.html;
    assert!(offers(&page, "pause") && offers(&page, "remove"), "{page}");
    assert!(
        writer.get("/sources").await.html.contains(&format!("patra source pause {id}")),
        "a button names its command"
    );
    let response = writer.post(&format!("/sources/{id}/pause"), "").await;
    assert_eq!(response.location(), format!("/sources/{id}"));
    let page = writer.get(response.location()).await.html;
    assert!(page.contains("feed is paused.") && page.contains("Resume"), "{page}");
    assert!(!writer.get(&format!("/sources/{id}")).await.html.contains("feed is paused."), "the notice is shown once");
    for path in FOR_ADMINS {
        assert_eq!(writer.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(writer.post("/keys", "name=more&scope=admin").await.status, StatusCode::FORBIDDEN);
}

// covers: COLL-94
#[tokio::test]
async fn only_an_administrator_lets_a_source_into_a_private_network() {
    let server = TestServer::new();
    let config = "%7B%22allow_net%22%3A%5B%2210.0.0.0%2F8%22%5D%7D";
    let form = |name: &str| format!("type=rss&name={name}&url=http%3A%2F%2F10.0.0.1%2F{name}&config={config}");
    let mut writer = Browser::logged_in(&server, &server.key(KeyScope::Write).await).await;
    let refused = writer.post("/sources", &form("inner")).await;
    assert!(refused.status != StatusCode::OK && !refused.html.contains("inner was added"), "{}", refused.html);
    assert!(!writer.get("/sources").await.html.contains("10.0.0.1/inner"));
    server.project("bound").await;
    let bound = server.key_of(KeyScope::Admin, vec!["bound".into()]).await;
    let mut bound = Browser::logged_in(&server, &bound).await;
    bound.post("/sources", &form("inner")).await;
    let mut admin = Browser::logged_in(&server, &server.key(KeyScope::Admin).await).await;
    assert!(!admin.get("/sources").await.html.contains("inner"));
    let added = admin.post("/sources", &form("inner")).await;
    assert_eq!(added.status, StatusCode::SEE_OTHER, "{}", added.html);
    assert!(admin.get("/sources").await.html.contains("inner"));
}

#[tokio::test]
async fn new_key_is_shown_once_and_can_be_revoked() {
    let server = TestServer::new();
    let mut admin = Browser::logged_in(&server, &server.key(KeyScope::Admin).await).await;
    let page = admin.post("/keys", "name=robot&scope=read&project=").await.html;
    let text: String = page.split("<p>patra_").nth(1).unwrap().chars().take_while(|c| *c != '<').collect();
    let text = format!("patra_{text}");
    let mut robot = Browser::logged_in(&server, &text).await;
    assert!(!admin.get("/keys").await.html.contains(&text));
    let prefix = key::prefix(&text).unwrap();
    assert_eq!(admin.post(&format!("/keys/{prefix}/revoke"), "").await.location(), "/keys");
    assert_eq!(robot.get("/").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn hostile_data_is_escaped() {
    let server = TestServer::new();
    let name = r#"<script>alert(1)</script>"'><img src=x onerror=alert(2)>"#;
    let id = source(&server, "default", name).await;
    let mut browser = Browser::logged_in(&server, &server.key(KeyScope::Admin).await).await;
    for path in ["/sources".to_owned(), format!("/sources/{id}"), "/search?q=%3Cscript%3Ealert(3)".to_owned()] {
        let html = browser.get(&path).await.html;
        assert!(
            !html.contains("<script>") && !html.contains("<img src=x") && !html.contains("<b>feed"),
            "{path}: {html}"
        );
    }
}

#[tokio::test]
async fn other_projects_are_invisible() {
    let server = TestServer::new();
    for project_key in ["mine", "theirs"] {
        server.project(project_key).await;
    }
    let (mine, theirs) = (source(&server, "mine", "my feed").await, source(&server, "theirs", "their feed").await);
    let mut browser = Browser::logged_in(&server, &server.key_of(KeyScope::Admin, vec!["mine".into()]).await).await;
    let list = browser.get("/sources").await.html;
    assert!(list.contains("my feed") && !list.contains("their feed"));
    assert_eq!(browser.get(&format!("/sources/{mine}")).await.status, StatusCode::OK);
    assert_eq!(browser.get(&format!("/sources/{theirs}")).await.status, StatusCode::NOT_FOUND);
    assert_eq!(browser.post(&format!("/sources/{theirs}/pause"), "").await.status, StatusCode::NOT_FOUND);
    assert!(browser.get(&format!("/search?q={theirs}")).await.html.contains("Nothing has the id"));
    assert_eq!(browser.post("/project", "project=theirs").await.status, StatusCode::NOT_FOUND);
    for path in ["/holds", "/alerts", "/keys", "/settings", "/credentials"] {
        assert_eq!(browser.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
        assert!(!list.contains(&format!("href=\"{path}\"")), "{path} is offered");
    }
}

#[tokio::test]
async fn one_of_several_projects_can_be_selected() {
    let server = TestServer::new();
    server.project("other").await;
    source(&server, "other", "other feed").await;
    let here = source(&server, "default", "default feed").await;
    let mut browser = Browser::logged_in(&server, &server.key(KeyScope::Write).await).await;
    let all = browser.get("/sources").await.html;
    assert!(all.contains("other feed") && all.contains("default feed"));
    browser.post("/project", "project=other").await;
    let one = browser.get("/sources").await.html;
    assert!(one.contains("other feed") && !one.contains("default feed"));
    assert_eq!(browser.get(&format!("/sources/{here}")).await.status, StatusCode::NOT_FOUND);
}
