//! The OpenAPI document matches the routes, the file in the repository, and the authorization of every route.

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use patra_core::port::CommandsExt as _;
use patra_core::tx::{CreateProject, KeyScope};

use super::super::served;
use super::TestServer;
use crate::openapi::{Needs, Operation, document};
use crate::router;

const SNAPSHOT: &str = "../../docs/openapi.json";

fn operations() -> Vec<Operation> {
    served(&TestServer::new().api).operations
}

/// A path of the operation: parameters are numbers, except for known words.
pub(super) fn example(operation: &Operation) -> String {
    let path = operation.path.replace("{level}", "plans").replace("{view}", "items");
    let words = path.split('/').map(|word| if word.starts_with('{') { "1" } else { word });
    words.collect::<Vec<_>>().join("/")
}

impl TestServer {
    async fn try_operation(&self, operation: &Operation, key: Option<&str>, project: Option<&str>) -> StatusCode {
        let mut request = Request::builder().method(operation.method).uri(example(operation));
        request = request.header("content-type", "application/json");
        if let Some(key) = key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(project) = project {
            request = request.header("x-project-key", project);
        }
        router(self.api.clone()).oneshot(request.body(Body::from("{}")).unwrap()).await.unwrap().status()
    }
}

#[test]
fn document_in_the_repository_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOT);
    let document = serde_json::to_string_pretty(&document(&operations())).unwrap() + "\n";
    if std::env::var_os("PATRA_RENEW").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == document, "docs/openapi.json is old: renew it with PATRA_RENEW=1 cargo test -p patra-api openapi");
}

#[tokio::test]
async fn every_operation_is_described_once_and_served() {
    let (server, operations) = (TestServer::new(), operations());
    let (status, text) = server.request("GET", "/openapi.json", Some(&server.key(KeyScope::Read).await)).await;
    assert_eq!(status, StatusCode::OK);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let methods = document["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len());
    assert_eq!(methods.sum::<usize>(), operations.len(), "an operation is described twice");
    let admin = server.key(KeyScope::Admin).await;
    for operation in &operations {
        let status = server.try_operation(operation, Some(&admin), None).await;
        assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{} {}", operation.method, operation.path);
        let responses = &document["paths"][operation.path][operation.method.to_lowercase()]["responses"];
        assert!(responses[status.as_str()].is_object(), "{} {}: {status}", operation.method, operation.path);
    }
}

#[tokio::test]
async fn docs_page_names_every_operation_and_loads_nothing() {
    let server = TestServer::new();
    let (status, page) = server.request("GET", "/docs", Some(&server.key(KeyScope::Read).await)).await;
    assert_eq!(status, StatusCode::OK);
    for operation in operations() {
        assert!(page.contains(&format!("{} {}<", operation.method, operation.path)), "{}", operation.path);
    }
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("style"), "{page}");
}

/// Calls every route without a key, with keys of every scope, and with a key of another project.
// covers: CRAWL-58
#[tokio::test]
async fn every_route_needs_the_key_that_the_document_names() {
    let server = TestServer::new();
    server.api.store.run(CreateProject { project_key: "mine".into(), name: "mine".into() }).await.unwrap();
    let foreign = server.key_of(KeyScope::Admin, vec!["mine".into()]).await;
    for operation in &operations() {
        let name = format!("{} {}", operation.method, operation.path);
        let Some(needed) = operation.needs.scope() else {
            assert!(!refused(server.try_operation(operation, None, None).await), "{name} is open");
            continue;
        };
        let nobody = server.try_operation(operation, None, None).await;
        assert_eq!(nobody, StatusCode::UNAUTHORIZED, "{name} without a key");
        for scope in [KeyScope::Read, KeyScope::Write, KeyScope::Admin] {
            let key = server.key(scope).await;
            let status = server.try_operation(operation, Some(&key), None).await;
            assert_eq!(refused(status), scope < needed, "{name} with {}: {status}", scope.as_str());
        }
        let status = server.try_operation(operation, Some(&foreign), Some("default")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{name} in another project");
        let status = server.try_operation(operation, Some(&foreign), None).await;
        let everybodys = matches!(operation.needs, Needs::Operator(_));
        assert_eq!(refused(status), everybodys, "{name} in its own project: {status}");
    }
}

fn refused(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
