//! The pages, as a browser without script sees them, on the in-memory store.

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_SECURITY_POLICY, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, Request, StatusCode};
use tower::ServiceExt as _;

use patra_core::port::CommandsExt as _;
use patra_core::tx::{KeyScope, NewSource, RevokeKey, SaveSources};

use crate::key;
use crate::routes::tests::Door;

/// Pages that everybody may see, and those that only administrators may.
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
/// Pages stay smaller than this.
const MAX_PAGE: usize = 100_000;

struct Browser {
    router: Router,
    cookie: String,
    csrf: String,
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl Answer {
    fn location(&self) -> &str {
        self.headers.get(LOCATION).unwrap().to_str().unwrap()
    }
}

impl Browser {
    fn new(door: &Door) -> Browser {
        Browser { router: crate::router(door.api.clone()), cookie: String::new(), csrf: String::new() }
    }

    async fn logged_in(door: &Door, key: &str) -> Browser {
        let mut browser = Browser::new(door);
        browser.get("/login").await;
        let answer = browser.post("/login", &format!("key={key}")).await;
        assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/"));
        assert_eq!(browser.get("/").await.status, StatusCode::OK);
        browser
    }

    async fn get(&mut self, path: &str) -> Answer {
        let answer = self.send(Request::get(path).header(COOKIE, &self.cookie).body(Body::empty()).unwrap()).await;
        if let Some(rest) = answer.html.split("name=\"csrf\" value=\"").nth(1) {
            self.csrf = rest.split('"').next().unwrap().to_owned();
        }
        answer
    }

    async fn post(&mut self, path: &str, form: &str) -> Answer {
        let form = format!("{form}&csrf={}", self.csrf);
        self.post_as_it_is(path, form).await
    }

    async fn post_as_it_is(&mut self, path: &str, form: String) -> Answer {
        let request = Request::post(path)
            .header(COOKIE, &self.cookie)
            .header("content-type", "application/x-www-form-urlencoded")
            .body(Body::from(form));
        self.send(request.unwrap()).await
    }

    async fn send(&mut self, request: Request<Body>) -> Answer {
        let answer = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        if let Some(set) = headers.get(SET_COOKIE).map(|value| value.to_str().unwrap()) {
            assert!(set.contains("HttpOnly; SameSite=Strict"), "{set}");
            self.cookie = set.split(';').next().unwrap().to_owned();
        }
        let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        Answer { status, headers, html: String::from_utf8(bytes.to_vec()).unwrap() }
    }
}

/// Adds a source and tells its id.
async fn source(door: &Door, project_key: &str, name: &str) -> i64 {
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
    door.api.store.run(Arc::new(save)).await.unwrap().sources[0].id.0
}

#[tokio::test]
async fn every_page_has_a_frame_a_strict_policy_and_little_weight() {
    let door = Door::new();
    let mut browser = Browser::logged_in(&door, &door.key(KeyScope::Admin).await).await;
    for path in PAGES.iter().chain(FOR_ADMINS) {
        let answer = browser.get(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        let policy = answer.headers.get(CONTENT_SECURITY_POLICY).unwrap().to_str().unwrap();
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert!(answer.html.starts_with("<!doctype html>") && answer.html.contains("<h1>"), "{path}");
        for inline in ["<script>", "<style", " style=", " onclick=", "javascript:"] {
            assert!(!answer.html.contains(inline), "{path} holds {inline}");
        }
        assert!(answer.html.len() < MAX_PAGE, "{path}: {} bytes", answer.html.len());
        // Every form that changes something carries the token.
        let forms = answer.html.matches("method=\"post\"").count();
        assert_eq!(answer.html.matches("name=\"csrf\"").count(), forms, "{path}");
    }
}

#[tokio::test]
async fn nobody_comes_in_without_a_good_key_and_every_way_out_works() {
    let door = Door::new();
    let mut browser = Browser::new(&door);
    let answer = browser.get("/plans?status=FAILED").await;
    assert_eq!((answer.status, answer.location()), (StatusCode::SEE_OTHER, "/login?next=%2Fplans%3Fstatus%3DFAILED"));
    browser.get("/login").await;
    let wrong = "key=patra_00000000_000000000000000000000000000000000000000000000000";
    let answer = browser.post("/login", wrong).await;
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
    assert!(answer.html.contains("the API key is not valid"));

    let key = door.key(KeyScope::Read).await;
    let mut browser = Browser::logged_in(&door, &key).await;
    assert!(!browser.get("/").await.html.contains(&key), "a page holds the key");
    let old = browser.cookie.clone();
    assert_eq!(browser.post("/logout", "").await.location(), "/login");
    browser.cookie = old;
    assert_eq!(
        browser.get("/").await.status,
        StatusCode::SEE_OTHER,
        "the session has ended, whatever the browser holds"
    );

    let mut browser = Browser::logged_in(&door, &key).await;
    let prefix = key::prefix(&key).unwrap().to_owned();
    door.api.store.run(RevokeKey { prefix }).await.unwrap();
    assert_eq!(browser.get("/").await.status, StatusCode::SEE_OTHER, "a revoked key ends its sessions");
}

#[tokio::test]
async fn a_login_leads_to_pages_of_ours_only() {
    let door = Door::new();
    let key = door.key(KeyScope::Read).await;
    for (next, expected) in
        [("%2Fplans", "/plans"), ("%2F%2Fevil.example", "/"), ("https%3A%2F%2Fevil.example", "/"), ("%2F%5Cevil", "/")]
    {
        let mut browser = Browser::new(&door);
        browser.get("/login").await;
        assert_eq!(browser.post("/login", &format!("key={key}&next={next}")).await.location(), expected);
    }
}

#[tokio::test]
async fn a_form_without_the_token_of_the_session_changes_nothing() {
    let door = Door::new();
    let id = source(&door, "default", "kept").await;
    let key = door.key(KeyScope::Admin).await;
    let mut browser = Browser::logged_in(&door, &key).await;
    let foreign = Browser::logged_in(&door, &key).await.csrf;
    for token in ["", "csrf=", "csrf=00", &format!("csrf={foreign}")] {
        let answer = browser.post_as_it_is(&format!("/sources/{id}/remove"), token.to_owned()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{token}");
    }
    assert_eq!(browser.get(&format!("/sources/{id}")).await.status, StatusCode::OK);
    // Nor can another site log somebody in.
    let mut stranger = Browser::new(&door);
    assert_eq!(stranger.post("/login", &format!("key={key}")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn buttons_do_what_they_say_and_only_for_who_may() {
    let door = Door::new();
    let id = source(&door, "default", "feed").await;
    let mut reader = Browser::logged_in(&door, &door.key(KeyScope::Read).await).await;
    let page = reader.get(&format!("/sources/{id}")).await.html;
    assert!(!page.contains("Pause") && !page.contains("Remove"), "what somebody may not do is not offered");
    assert_eq!(reader.post(&format!("/sources/{id}/pause"), "").await.status, StatusCode::FORBIDDEN);

    let mut writer = Browser::logged_in(&door, &door.key(KeyScope::Write).await).await;
    assert!(
        writer.get("/sources").await.html.contains(&format!("patra source pause {id}")),
        "a button names its command"
    );
    let answer = writer.post(&format!("/sources/{id}/pause"), "").await;
    assert_eq!(answer.location(), format!("/sources/{id}"));
    let page = writer.get(answer.location()).await.html;
    assert!(page.contains("feed is paused.") && page.contains("Resume"), "{page}");
    assert!(!writer.get(&format!("/sources/{id}")).await.html.contains("feed is paused."), "it is told once");
    for path in FOR_ADMINS {
        assert_eq!(writer.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
    assert_eq!(writer.post("/keys", "name=more&scope=admin").await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_new_key_is_shown_once_and_can_be_revoked() {
    let door = Door::new();
    let mut admin = Browser::logged_in(&door, &door.key(KeyScope::Admin).await).await;
    let page = admin.post("/keys", "name=robot&scope=read&project=").await.html;
    let text: String = page.split("<p>patra_").nth(1).unwrap().chars().take_while(|c| *c != '<').collect();
    let text = format!("patra_{text}");
    let mut robot = Browser::logged_in(&door, &text).await;
    assert!(!admin.get("/keys").await.html.contains(&text));
    let prefix = key::prefix(&text).unwrap();
    assert_eq!(admin.post(&format!("/keys/{prefix}/revoke"), "").await.location(), "/keys");
    assert_eq!(robot.get("/").await.status, StatusCode::SEE_OTHER);
}

#[tokio::test]
async fn hostile_data_stays_data() {
    let door = Door::new();
    let name = r#"<script>alert(1)</script>"'><img src=x onerror=alert(2)>"#;
    let id = source(&door, "default", name).await;
    let mut browser = Browser::logged_in(&door, &door.key(KeyScope::Admin).await).await;
    for path in ["/sources".to_owned(), format!("/sources/{id}"), "/search?q=%3Cscript%3Ealert(3)".to_owned()] {
        let html = browser.get(&path).await.html;
        assert!(
            !html.contains("<script>") && !html.contains("<img src=x") && !html.contains("<b>feed"),
            "{path}: {html}"
        );
    }
}

#[tokio::test]
async fn what_is_of_another_project_is_not_there() {
    let door = Door::new();
    for project_key in ["mine", "theirs"] {
        door.project(project_key).await;
    }
    let (mine, theirs) = (source(&door, "mine", "my feed").await, source(&door, "theirs", "their feed").await);
    let mut browser = Browser::logged_in(&door, &door.key_of(KeyScope::Admin, vec!["mine".into()]).await).await;
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
async fn one_project_of_many_can_be_looked_at() {
    let door = Door::new();
    door.project("other").await;
    source(&door, "other", "other feed").await;
    let here = source(&door, "default", "default feed").await;
    let mut browser = Browser::logged_in(&door, &door.key(KeyScope::Write).await).await;
    let all = browser.get("/sources").await.html;
    assert!(all.contains("other feed") && all.contains("default feed"));
    browser.post("/project", "project=other").await;
    let one = browser.get("/sources").await.html;
    assert!(one.contains("other feed") && !one.contains("default feed"));
    assert_eq!(browser.get(&format!("/sources/{here}")).await.status, StatusCode::NOT_FOUND);
}
