//! Ids whose details are fetched separately, and the split of a slice.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Position;
use patra_core::port::query::{Cell, View};
use patra_core::record::{CandidateMark, DetailCandidate, Record, bad_id_pause};
use patra_core::state::TaskStatus;
use patra_core::tx::{CommitBatch, RunEnd, TxError};
use patra_core::{Ts, Window};

use super::fixture::{int, time};
use super::{Fixture, make};

fn candidate(id: &str, version: &str) -> DetailCandidate {
    DetailCandidate { id: id.into(), version: version.into() }
}

fn mark(id: &str, version: &str, bad: Option<&str>) -> CandidateMark {
    CandidateMark { candidate: candidate(id, version), bad: bad.map(str::to_owned) }
}

/// The ids among these that must still be fetched.
async fn wanted(fx: &Fixture, asked: &[(&str, &str)]) -> Vec<String> {
    let asked: Vec<_> = asked.iter().map(|(id, version)| candidate(id, version)).collect();
    let stream = make::stream();
    let left = fx.subject.store.screen(&stream, &asked).await.expect("an answer");
    left.into_iter().map(|candidate| format!("{}@{}", candidate.id, candidate.version)).collect()
}

// covers: ING-15-06, ING-4.6-05, ING-11.6-02
pub(super) async fn detail_candidate_is_added_once_per_version(fx: Fixture) {
    assert_eq!(wanted(&fx, &[("b", "1"), ("a", "1")]).await, ["b@1", "a@1"], "in the order given");
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let page = CommitBatch {
        marks: vec![mark("a", "1", None), mark("b", "1", Some("404: no such id"))],
        ..make::page(&lease, run, 1, vec![make::record("a", 1)], true)
    };
    fx.ok(Arc::new(page.clone())).await;
    assert!(fx.ok(Arc::new(page)).await.replayed, "marks go with their batch, once");
    assert_eq!(wanted(&fx, &[("a", "1"), ("b", "1"), ("c", "1")]).await, ["c@1"]);
    assert_eq!(wanted(&fx, &[("a", "2"), ("b", "2")]).await, ["a@2", "b@2"], "a new version is wanted");
    let rows = fx.rows(View::Candidates).await;
    assert_eq!(rows.texts("candidate_id"), ["b", "a"]);
    assert_eq!(rows.texts("status_code"), ["BAD", "FETCHED"]);
    assert_eq!((int(&rows.at(0, "tries")), rows.at(1, "reason")), (1, Cell::Null));

    let stranger = patra_core::record::RecordStream { endpoint_name: "other".into(), ..make::stream() };
    let left = fx.subject.store.screen(&stranger, &[candidate("a", "1")]).await.expect("an answer");
    assert_eq!(left.len(), 1, "endpoints do not share candidates");
}

// covers: ING-11.6-03
pub(super) async fn detail_that_is_not_newer_replaces_nothing(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![make::record("equal", 50), make::record("older", 50)], true).await;
    let ids = ["equal", "older", "newer"];
    let position = Position::Ids { at: Box::new(Position::Offset(0)), ids: ids.map(str::to_owned).to_vec() };
    let equal = Record { payload: r#"{"other":"text"}"#.into(), ..make::record("equal", 50) };
    let details = CommitBatch {
        position,
        marks: ids.map(|id| mark(id, "1", None)).to_vec(),
        ..make::page(&lease, run, 2, vec![equal, make::record("newer", 9), make::record("older", 49)], true)
    };
    let stats = fx.ok(Arc::new(details)).await.stats;
    assert_eq!((stats.inserted, stats.updated, stats.skipped), (1, 0, 2));
    let mut payloads = fx.rows(View::Items).await.texts("payload");
    payloads.sort();
    assert_eq!(payloads, [r#"{"id":"equal","at":50}"#, r#"{"id":"newer","at":9}"#, r#"{"id":"older","at":50}"#]);
    assert!(wanted(&fx, &[("equal", "1"), ("older", "1")]).await.is_empty(), "they were fetched all the same");
}

// covers: ING-4.6-05
pub(super) async fn failing_id_is_retried_after_growing_delays(fx: Fixture) {
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let bad = |no: u32, version: &str| CommitBatch {
        marks: vec![mark("x", version, Some("refused"))],
        ..make::page(&lease, run, no, Vec::new(), true)
    };
    for (no, version, tries) in [(1, "1", 1), (2, "1", 2), (3, "1", 3), (4, "2", 1)] {
        fx.ok(Arc::new(bad(no, version))).await;
        let rows = fx.rows(View::Candidates).await;
        let pause = time(&rows.at(0, "expires_at")).since(time(&rows.at(0, "updated_at")));
        assert_eq!((int(&rows.at(0, "tries")), pause), (tries, bad_id_pause(tries as u32)), "batch {no}");
    }
    fx.ok(Arc::new(CommitBatch { marks: vec![mark("x", "2", None)], ..make::page(&lease, run, 5, Vec::new(), true) }))
        .await;
    let rows = fx.rows(View::Candidates).await;
    assert_eq!((rows.texts("status_code"), rows.at(0, "expires_at")), (vec!["FETCHED".to_owned()], Cell::Null));
    fx.ok(Arc::new(bad(6, "3"))).await;
    assert!(wanted(&fx, &[("x", "3")]).await.is_empty());
    fx.pass(bad_id_pause(1)).await;
    assert_eq!(wanted(&fx, &[("x", "3")]).await, ["x@3"], "after its pause it is tried again");
}

// covers: ING-4.4-24, ING-8.4-02, ING-8.4-03, ING-15-02, ING-2.5-07
pub(super) async fn split_replaces_a_slice_with_narrower_slices(fx: Fixture) {
    let whole = Window { from: Ts::from_secs(0), to: Ts::from_secs(100) };
    let saved = fx.plan("a", &[whole]).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.commit(&lease, run, 1, vec![make::record("a", 1)], true).await;
    let parts = whole.split(4, Duration::from_secs(1));
    let split = RunEnd::Split {
        error: make::fault("too many"),
        slices: parts.iter().map(|part| make::slice("split", *part)).collect(),
    };
    assert_eq!(fx.end(&lease, run, split.clone()).await, TaskStatus::Partial);
    assert_eq!(fx.end(&lease, run, split).await, TaskStatus::Partial, "repeated: the same result, nothing twice");
    let slices = fx.rows(View::Slices).await;
    assert_eq!(slices.texts("status_code"), ["READY", "READY", "READY", "READY", "PARTIAL"]);
    assert_eq!(slices.column("plan_id"), vec![Cell::Int(saved.plan.0); 5]);
    assert_eq!(fx.coverage().await.covered, parts, "what is split is still in progress");
    let progress = fx.progress("a").await;
    assert_eq!((progress.tasks_split, progress.tasks_partial, progress.tasks()), (1, 0, 4));

    let leases = fx.claim(9).await;
    let windows: Vec<_> = leases.iter().filter_map(|lease| lease.window).collect();
    assert_eq!(windows, parts);
    for child in &leases {
        assert_eq!((child.lineage.plan, child.lineage.job), (lease.lineage.plan, lease.lineage.job));
        assert_eq!((child.cursor, child.operation), (lease.cursor, lease.operation));
        fx.finish(child, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.advance(lease.cursor).await.target, Some(make::at(100)), "the parts count as the whole");
}

pub(super) async fn split_under_a_lost_lease_changes_nothing(fx: Fixture) {
    let whole = Window { from: Ts::from_secs(0), to: Ts::from_secs(100) };
    fx.plan("a", &[whole]).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    fx.sweep(true).await;
    let split = RunEnd::Split { error: make::fault("too many"), slices: vec![make::slice("split", whole)] };
    // The sweep has closed the run under this fence, so the result is the task's state; no slice appears.
    let answer = fx.run(Arc::new(make::end(&lease, run, split))).await;
    assert!(matches!(answer, Ok(_) | Err(TxError::Fenced)), "{answer:?}");
    assert_eq!(fx.rows(View::Slices).await.len(), 1);
    assert_eq!(fx.claim(9).await.len(), 1);
}
