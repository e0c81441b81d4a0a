//! Lists that are read as a whole, and records that they no longer have.

use std::sync::Arc;

use patra_core::port::query::{Cell, View};
use patra_core::record::RejectedRecord;
use patra_core::tx::{
    CommitBatch, Lease, LeaseRef, MarkMissing, MissingMarked, PassPage, ReadParents, RunEnd, TxError,
};
use patra_core::{Fence, RunId};

use super::{Fixture, make};

/// A page of a pass over a list, with these records.
fn page(list: &str, lease: &Lease, run: RunId, no: u32, keys: &[&str]) -> CommitBatch {
    let records = keys.iter().map(|key| make::record(key, 5)).collect();
    let pass = PassPage { undated: false, list: Some(list.into()), excluded: Vec::new() };
    CommitBatch { pass: Some(pass), ..make::page(lease, run, no, records, true) }
}

fn check(list: &str, lease: &Lease) -> MarkMissing {
    MarkMissing {
        lease: LeaseRef::from(lease),
        lineage: lease.lineage,
        stream: Arc::new(make::stream()),
        list: list.into(),
        after: None,
        limit: 100,
        only_count: false,
    }
}

async fn mark(fx: &Fixture, list: &str, lease: &Lease) -> (u32, u32, u32) {
    let MissingMarked { known, gone, missing, .. } = fx.ok(check(list, lease)).await;
    (known, gone, missing)
}

/// A run of its own slice, the `no`th of the case.
async fn slice(fx: &Fixture, no: i64) -> (Lease, RunId) {
    fx.plan(&format!("slice {no}"), &[make::window(no * 10, no * 10 + 10)]).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    (lease, run)
}

/// Keys of the records that are marked.
async fn missing(fx: &Fixture) -> Vec<String> {
    let items = fx.rows(View::Items).await;
    let marked = items.column("missing_since").into_iter().zip(items.texts("dedup_key"));
    let mut keys: Vec<_> = marked.filter(|(since, _)| *since != Cell::Null).map(|(_, key)| key).collect();
    keys.sort();
    keys
}

pub(super) async fn record_that_no_pass_of_its_list_sees_is_marked_until_it_is_seen_again(fx: Fixture) {
    let (first, run) = slice(&fx, 0).await;
    fx.ok(Arc::new(page("", &first, run, 1, &["a", "b", "c"]))).await;
    fx.ok(Arc::new(page("", &first, run, 2, &["d"]))).await;
    assert_eq!(mark(&fx, "", &first).await, (4, 0, 0));
    fx.end(&first, run, RunEnd::Succeeded).await;
    let (second, run) = slice(&fx, 1).await;
    // `a` is unchanged, `c` cannot be stored in its new form, and the filter excludes `d`: all of them are there.
    let mut seen = page("", &second, run, 1, &["a"]);
    seen.rejected = vec![RejectedRecord { key: Some("c".into()), ..make::rejected(0) }];
    seen.pass.as_mut().expect("a pass").excluded = vec!["d".into(), "never stored".into()];
    fx.ok(Arc::new(seen)).await;
    let counted = fx.ok(MarkMissing { only_count: true, ..check("", &second) }).await;
    assert_eq!((counted.known, counted.gone, counted.missing), (4, 1, 0));
    assert!(missing(&fx).await.is_empty(), "only counted");
    assert_eq!(mark(&fx, "", &second).await, (4, 1, 1));
    assert_eq!(mark(&fx, "", &second).await, (4, 1, 1), "repeated, it counts the same");
    assert_eq!(missing(&fx).await, ["b"]);
    let parents = ReadParents {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        dedup_scope: make::ENDPOINT.into(),
        after: None,
        limit: 10,
        payload: false,
    };
    let keys: Vec<_> = fx.ok(parents).await.into_iter().map(|parent| parent.key).collect();
    assert_eq!(keys, ["a", "c", "d"], "a missing record names no partition");
    fx.end(&second, run, RunEnd::Succeeded).await;
    let (third, run) = slice(&fx, 2).await;
    fx.ok(Arc::new(page("", &third, run, 1, &["b"]))).await;
    assert!(missing(&fx).await.is_empty(), "seen again, although unchanged");
    assert_eq!(mark(&fx, "", &third).await, (4, 3, 3));
    assert_eq!(missing(&fx).await, ["a", "c", "d"]);
}

pub(super) async fn shared_record_is_missing_when_no_list_has_it(fx: Fixture) {
    for (no, list) in [(0, "x"), (1, "y")] {
        let (lease, run) = slice(&fx, no).await;
        fx.ok(Arc::new(page(list, &lease, run, 1, &["shared", list]))).await;
        fx.end(&lease, run, RunEnd::Succeeded).await;
    }
    let (lease, run) = slice(&fx, 2).await;
    fx.ok(Arc::new(page("x", &lease, run, 1, &["x"]))).await;
    assert_eq!(mark(&fx, "x", &lease).await, (2, 1, 0), "the other list has it");
    fx.end(&lease, run, RunEnd::Succeeded).await;
    let (lease, run) = slice(&fx, 3).await;
    assert_eq!(mark(&fx, "no such list", &lease).await, (0, 0, 0));
    assert_eq!(mark(&fx, "y", &lease).await, (2, 2, 2));
    assert_eq!(missing(&fx).await, ["shared", "y"]);
    fx.ok(Arc::new(page("x", &lease, run, 1, &["shared"]))).await;
    assert_eq!(missing(&fx).await, ["y"]);
}

pub(super) async fn marks_are_made_part_by_part_under_the_lease_and_never_by_an_older_pass(fx: Fixture) {
    let (first, run) = slice(&fx, 0).await;
    fx.ok(Arc::new(page("", &first, run, 1, &["a", "b", "c", "d", "e"]))).await;
    let (second, other) = slice(&fx, 1).await;
    fx.ok(Arc::new(page("", &second, other, 1, &["c"]))).await;
    let lost = LeaseRef { fence: Fence(second.fence.0 + 1), ..LeaseRef::from(&second) };
    assert_eq!(fx.run(MarkMissing { lease: lost, ..check("", &second) }).await, Err(TxError::Fenced));
    let (mut after, mut parts, mut gone) = (None, 0, 0);
    loop {
        let part = fx.ok(MarkMissing { after, limit: 2, ..check("", &second) }).await;
        (parts, gone) = (parts + 1, gone + part.gone);
        assert!(part.known <= 2);
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!((parts, gone), (3, 4));
    assert_eq!(missing(&fx).await, ["a", "b", "d", "e"]);
    // The older pass goes on: what it sees is there, and what the newer one has settled stays.
    fx.ok(Arc::new(page("", &first, run, 2, &["a"]))).await;
    assert_eq!(mark(&fx, "", &first).await, (2, 0, 0));
    assert_eq!(missing(&fx).await, ["b", "d", "e"]);
    fx.end(&second, other, RunEnd::Succeeded).await;
    assert_eq!(fx.run(check("", &second)).await, Err(TxError::Fenced), "the run is closed");
}

pub(super) async fn undated_record_replaces_the_stored_one_only_if_it_differs(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let at = |no: u32, at: i64, payload: u8| {
        let record = patra_core::record::Record { content_hash: [payload; 16], ..make::record("a", at) };
        let pass = Some(PassPage { undated: true, ..PassPage::default() });
        Arc::new(CommitBatch { pass, refresh: true, ..make::page(&lease, run, no, vec![record], true) })
    };
    let counts = |done: patra_core::tx::BatchCommitted| (done.stats.inserted, done.stats.updated, done.stats.skipped);
    assert_eq!(counts(fx.ok(at(1, 10, 1)).await), (1, 0, 0));
    assert_eq!(counts(fx.ok(at(2, 20, 1)).await), (0, 0, 1), "found again, unchanged");
    assert_eq!(counts(fx.ok(at(3, 20, 2)).await), (0, 1, 0), "changed");
    assert_eq!(counts(fx.ok(at(4, 15, 3)).await), (0, 0, 1), "an older pass replaces nothing");
    assert_eq!(fx.rows(View::Items).await.at(0, "updated_at"), Cell::Time(patra_core::Ts::from_secs(20)));
}
