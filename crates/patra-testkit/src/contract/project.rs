//! Projects: ownership of all rows, and isolation between projects.

use std::sync::Arc;

use patra_core::port::query::{Cell, RowOwner, StoredApiKey, View, ViewFilter};
use patra_core::record::{CandidateMark, DetailCandidate, RecordStream};
use patra_core::state::Operation;
use patra_core::tx::{
    AdvanceCursor, CommitBatch, CreateKey, CreateProject, KeyScope, ReadCoverage, RequestJob, RunEnd, SignalRecords,
};

use super::fixture::{int, text};
use super::{Fixture, make};

pub(super) const OTHER: &str = "online_lottery";

/// A trigger of another project.
pub(super) fn of(project_key: &str, public_id: &str, operation: Operation) -> RequestJob {
    RequestJob { project_key: project_key.into(), ..make::fire(public_id, operation) }
}

fn stream(project_key: &str) -> Arc<RecordStream> {
    Arc::new(RecordStream { project_key: project_key.into(), ..make::stream() })
}

// covers: MAP-C-19
pub(super) async fn project_is_created_once_and_a_default_one_exists(fx: Fixture) {
    let keys = async || {
        let projects = fx.subject.store.projects().await.expect("projects");
        projects.into_iter().map(|project| (project.project_key, project.name)).collect::<Vec<_>>()
    };
    let named = |key: &str, name: &str| (key.to_owned(), name.to_owned());
    assert_eq!(keys().await, [named("default", "default")]);
    let make = |key: &str, name: &str| CreateProject { project_key: key.into(), name: name.into() };
    assert!(!fx.ok(make(OTHER, "Lottery")).await.existed);
    assert!(fx.ok(make(OTHER, "another name")).await.existed);
    assert!(fx.ok(make("default", "mine")).await.existed);
    assert!(!fx.ok(make("a", "A")).await.existed);
    assert_eq!(keys().await, [named("a", "A"), named("default", "default"), named(OTHER, "Lottery")]);
    let now = fx.now().await;
    let made = fx.subject.store.projects().await.expect("projects").remove(0).created_at;
    assert!(made <= now && now <= made + make::LONG, "{made} is not about {now}");
}

// covers: MAP-C-20
pub(super) async fn api_key_names_its_projects(fx: Fixture) {
    let key = |prefix: &str, projects: &[&str], shared| CreateKey {
        prefix: prefix.into(),
        hash: format!("hash of {prefix}"),
        name: "n".into(),
        scope: KeyScope::Write,
        projects: projects.iter().map(|project| (*project).to_owned()).collect(),
        shared,
        only_first: false,
    };
    for op in [key("all", &[], true), key("some", &["b", "a"], false)] {
        assert!(fx.ok(op).await.created);
    }
    assert!(!fx.ok(key("some", &[], true)).await.created, "what is there stays as it is");
    let read = async |prefix: &str| fx.subject.store.key(prefix).await.expect("an answer").expect("a key");
    let found = StoredApiKey {
        prefix: "some".into(),
        hash: "hash of some".into(),
        scope: KeyScope::Write,
        projects: vec!["b".into(), "a".into()],
        shared: false,
        revoked: false,
    };
    assert_eq!(read("some").await, found);
    let all = read("all").await;
    assert_eq!((all.projects, all.shared), (Vec::new(), true));
    let rows = fx.rows(View::Keys).await;
    assert_eq!(rows.column("shared"), [Cell::Int(0), Cell::Int(1)]);
    let projects: Vec<_> = rows.texts("projects").iter().map(|text| text.replace(' ', "")).collect();
    assert_eq!(projects, [r#"["b","a"]"#, "[]"]);
}

/// Makes a row of the project in every view with an owner, except the outbox.
async fn fill(fx: &Fixture, project_key: &str) {
    let fire = of(project_key, &format!("of {project_key}"), Operation::Harvest);
    let cursor = fx.plan_with(fire, &make::windows(0, 1), |_| ()).await.cursor;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let candidate = DetailCandidate { id: "c".into(), version: "1".into() };
    let page = CommitBatch {
        stream: stream(project_key),
        rejected: vec![make::rejected(3)],
        marks: vec![CandidateMark { candidate, bad: None }],
        ..make::page(&lease, run, 1, vec![make::record("k", 1)], false)
    };
    fx.ok(Arc::new(page)).await;
    fx.end(&lease, run, RunEnd::Succeeded).await;
    let advance = fx.advance(cursor).await;
    let (to, version) = (advance.target.expect("a target"), advance.version);
    assert!(fx.ok(AdvanceCursor { cursor, to, version }).await.moved);
}

// covers: POOL-08
pub(super) async fn list_shows_rows_of_the_project_only(fx: Fixture) {
    fill(&fx, "default").await;
    fill(&fx, OTHER).await;
    for view in View::ALL {
        let of = |project: &str| ViewFilter { project_key: Some(project.into()), ..ViewFilter::default() };
        assert!(fx.filtered(*view, of("nobody")).await.is_empty(), "{}", view.as_str());
        if matches!(view, View::Outbox) {
            continue;
        }
        let (all, own, other) =
            (fx.rows(*view).await, fx.filtered(*view, of("default")).await, fx.filtered(*view, of(OTHER)).await);
        if view.owner().is_none() {
            assert!(own.is_empty() && other.is_empty(), "{} are of no project", view.as_str());
            continue;
        }
        assert_eq!((own.len(), other.len(), all.len()), (1, 1, 2), "{}", view.as_str());
        assert_ne!(own.at(0, "id"), other.at(0, "id"), "{}", view.as_str());
        if view.owner() == Some(RowOwner::Own) {
            assert_eq!(
                (text(&own.at(0, "project_key")), text(&other.at(0, "project_key"))),
                ("default".into(), OTHER.into())
            );
        }
        // One row by its number, if it is of the project.
        let id = int(&other.at(0, "id"));
        let one = |project: Option<&str>| ViewFilter {
            id: Some(id),
            project_key: project.map(str::to_owned),
            ..ViewFilter::default()
        };
        assert_eq!(fx.filtered(*view, one(None)).await.ids(), [id], "{}", view.as_str());
        assert_eq!(fx.filtered(*view, one(Some(OTHER))).await.ids(), [id]);
        assert!(fx.filtered(*view, one(Some("default"))).await.is_empty());
        let before = ViewFilter { before_id: Some(id), ..of(OTHER) };
        assert!(fx.filtered(*view, before).await.is_empty());
    }
}

pub(super) async fn projects_share_no_cursor_no_coverage_and_no_signal(fx: Fixture) {
    let name = |project: &str, operation| patra_core::cursor::CursorName {
        project_key: project.into(),
        ..make::namespace(operation, "ns")
    };
    let read = async |project: &str, operation| fx.ok(ReadCoverage { cursor: name(project, operation) }).await;
    fill(&fx, "default").await;
    let untouched = read(OTHER, Operation::Harvest).await;
    assert_eq!((untouched.cursor, untouched.epoch, untouched.value), (None, 0, None));
    assert_eq!(read("default", Operation::Backfill).await.harvested, Some(patra_core::Ts::from_secs(10)));
    assert_eq!(read(OTHER, Operation::Backfill).await.harvested, None);
    // The same windows are planned for both, by independent plans.
    let saved = fx.plan_with(of(OTHER, "other", Operation::Harvest), &make::windows(0, 2), |_| ()).await;
    assert_eq!((saved.created, saved.existing), (2, 0));
    let (own, other) = (read("default", Operation::Harvest).await, read(OTHER, Operation::Harvest).await);
    assert_ne!(own.cursor, other.cursor);
    assert_eq!((own.epoch, other.epoch), (1, 1));
    assert_eq!((own.covered, other.covered), (vec![], make::windows(0, 2)));
    // A signal of one project's quarantine does not appear in the other.
    let ask = |project: &str| SignalRecords {
        project_key: project.into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        keys: vec!["bad-3".into()],
        reason: "r".into(),
        by: "b".into(),
    };
    assert_eq!(fx.ok(ask("default")).await.existing, 1);
    assert_eq!(fx.ok(ask(OTHER)).await.existing, 0);
}

// covers: MAP-C-05
pub(super) async fn job_has_a_type_and_a_project(fx: Fixture) {
    fx.ok(of(OTHER, "plain", Operation::Harvest)).await;
    let polls = RequestJob {
        provenance_code: "collector".into(),
        endpoint_name: "rss".into(),
        ..make::fire("poll", Operation::Harvest)
    };
    fx.ok(polls).await;
    let taken = fx.take().await.expect("a trigger");
    fx.ok(Arc::new(make::fan(&taken, &["ann"], true))).await;
    let jobs = fx.rows(View::Jobs).await;
    assert_eq!(jobs.texts("job_type"), [make::PROVENANCE, "rss", make::PROVENANCE]);
    assert_eq!(jobs.texts("project_key"), [OTHER, "default", OTHER]);
    let types = async |project| fx.subject.store.job_types(project).await.expect("types");
    assert_eq!(types(OTHER).await, [make::PROVENANCE]);
    assert_eq!(types("default").await, ["rss"]);
    let progress = fx.progress("poll").await;
    assert_eq!((&*progress.project_key, &*progress.job_type, progress.in_progress), ("default", "rss", false));
    assert_eq!(
        (progress.started_at, progress.finished_at, progress.result, progress.request_id),
        (None, None, None, None)
    );
}

pub(super) async fn job_begins_with_its_first_task_and_ends_with_its_last(fx: Fixture) {
    fx.plan("a", &make::windows(0, 2)).await;
    let times = async || {
        let progress = fx.progress("a").await;
        (progress.started_at, progress.finished_at)
    };
    assert_eq!(times().await, (None, None));
    let first = fx.next().await;
    let run = fx.start(&first).await;
    let (started, none) = times().await;
    assert!(started.is_some() && none.is_none());
    fx.pass(make::BEYOND).await;
    fx.end(&first, run, RunEnd::Succeeded).await;
    assert_eq!(times().await, (started, None), "one task is left");
    fx.pass(make::BEYOND).await;
    let second = fx.next().await;
    fx.finish(&second, RunEnd::Succeeded).await;
    let (begun, ended) = times().await;
    assert_eq!(begun, started);
    let last = fx.cell(View::Tasks, second.task.0, "finished_at").await;
    assert_eq!(ended.map(Cell::Time), Some(last));
}
