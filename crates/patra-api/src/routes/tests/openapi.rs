//! The document: equal to what is served, kept in the repository, and what the authorization of every route is held to.

use std::path::Path;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use tower::ServiceExt as _;

use patra_core::port::CommandsExt as _;
use patra_core::tx::{CreateProject, KeyScope};

use super::super::served;
use super::Door;
use crate::openapi::{Needs, Operation, document};
use crate::router;

const SNAPSHOT: &str = "../../docs/openapi.json";

fn operations() -> Vec<Operation> {
    served(&Door::new().api).operations
}

/// A path that could be asked for: parameters are numbers, where words are not known.
pub(super) fn example(operation: &Operation) -> String {
    let path = operation.path.replace("{level}", "plans").replace("{view}", "items");
    let words = path.split('/').map(|word| if word.starts_with('{') { "1" } else { word });
    words.collect::<Vec<_>>().join("/")
}

impl Door {
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
fn the_document_in_the_repository_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(SNAPSHOT);
    let told = serde_json::to_string_pretty(&document(&operations())).unwrap() + "\n";
    if std::env::var_os("PATRA_RENEW").is_some() {
        std::fs::write(&path, &told).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == told, "docs/openapi.json is old: renew it with PATRA_RENEW=1 cargo test -p patra-api openapi");
}

#[tokio::test]
async fn every_operation_is_told_once_and_served() {
    let (door, operations) = (Door::new(), operations());
    let (status, text) = door.ask("GET", "/openapi.json", Some(&door.key(KeyScope::Read).await)).await;
    assert_eq!(status, StatusCode::OK);
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    let methods = told["paths"].as_object().unwrap().values().map(|path| path.as_object().unwrap().len());
    assert_eq!(methods.sum::<usize>(), operations.len(), "an operation is told twice");
    let admin = door.key(KeyScope::Admin).await;
    for operation in &operations {
        let status = door.try_operation(operation, Some(&admin), None).await;
        assert_ne!(status, StatusCode::METHOD_NOT_ALLOWED, "{} {}", operation.method, operation.path);
        let answers = &told["paths"][operation.path][operation.method.to_lowercase()]["responses"];
        assert!(answers[status.as_str()].is_object(), "{} {}: {status}", operation.method, operation.path);
    }
}

#[tokio::test]
async fn the_page_for_people_names_every_operation_and_loads_nothing() {
    let door = Door::new();
    let (status, page) = door.ask("GET", "/docs", Some(&door.key(KeyScope::Read).await)).await;
    assert_eq!(status, StatusCode::OK);
    for operation in operations() {
        assert!(page.contains(&format!("{} {}<", operation.method, operation.path)), "{}", operation.path);
    }
    assert!(!page.contains("<script") && !page.contains("src=") && !page.contains("style"), "{page}");
}

/// Every route with no key, with keys of every scope, and with one of another project.
// covers: CRAWL-58
#[tokio::test]
async fn every_route_lets_in_whom_the_document_says_and_nobody_else() {
    let door = Door::new();
    door.api.store.run(CreateProject { project_key: "mine".into(), name: "mine".into() }).await.unwrap();
    let foreign = door.key_of(KeyScope::Admin, vec!["mine".into()]).await;
    for operation in &operations() {
        let name = format!("{} {}", operation.method, operation.path);
        let Some(needed) = operation.needs.scope() else {
            assert!(!refused(door.try_operation(operation, None, None).await), "{name} is open");
            continue;
        };
        let nobody = door.try_operation(operation, None, None).await;
        assert_eq!(nobody, StatusCode::UNAUTHORIZED, "{name} without a key");
        for scope in [KeyScope::Read, KeyScope::Write, KeyScope::Admin] {
            let key = door.key(scope).await;
            let status = door.try_operation(operation, Some(&key), None).await;
            assert_eq!(refused(status), scope < needed, "{name} with {}: {status}", scope.as_str());
        }
        let status = door.try_operation(operation, Some(&foreign), Some("default")).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{name} in another project");
        let status = door.try_operation(operation, Some(&foreign), None).await;
        let everybodys = matches!(operation.needs, Needs::Operator(_));
        assert_eq!(refused(status), everybodys, "{name} in its own project: {status}");
    }
}

fn refused(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}
