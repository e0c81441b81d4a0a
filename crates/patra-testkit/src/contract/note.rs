//! Stored notes: each is stored once, and completes its candidate.

use std::sync::Arc;

use patra_core::Ts;
use patra_core::crawl::CrawlNote;
use patra_core::hash::content_hash;
use patra_core::port::crawl::CrawlFilter;
use patra_core::port::query::{Cell, View};
use patra_core::record::RecordStream;
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::{Captured, NewCandidate, NewNote, NoteWritten, ReadParents, WriteNote};
use serde_json::json;

use super::concurrent::at_once;
use super::crawl::{PLATFORM, add, claim, note, parsed, tried, wanted};
use super::lock::{PROJECT, end};
use super::{Fixture, fixture};

const FIELDS: &str = r#"{"title":"A","content":"…","author":"someone","published_at":"2026-02-25T08:00:00Z"}"#;
const RESULT: &str = r#"{ "title": "A", "likes": 3 }"#;

pub(super) fn write(id: &str) -> WriteNote {
    WriteNote {
        project_key: PROJECT.into(),
        platform: PLATFORM.into(),
        note: NewNote {
            note_id: id.into(),
            note_url: None,
            fields: FIELDS.into(),
            payload: RESULT.into(),
            content_hash: content_hash(RESULT.as_bytes()),
            published_at: "2026-02-25T08:00:00Z".parse().ok(),
        },
        attempt: tried("wf-1-a-write"),
        capture: None,
    }
}

impl Fixture {
    async fn notes(&self, wanted: CrawlFilter) -> Vec<CrawlNote> {
        self.subject.store.notes(wanted).await.expect("notes")
    }

    async fn write(&self, id: &str) -> NoteWritten {
        self.ok(Arc::new(write(id))).await
    }
}

// covers: CRAWL-RULE-2, CRAWL-36, CRAWL-52, CRAWL-53, CRAWL-54, CRAWL-55, CRAWL-56, CRAWL-57, CRAWL-89, CRAWL-123
// covers: CRAWL-124, CRAWL-125, CRAWL-194, CRAWL-DAY2-3
pub(super) async fn note_is_stored_once(fx: Fixture) {
    fx.ok(add(vec![note("note_001")])).await;
    fx.locked("main", "one").await;
    fx.claimed(claim("one", 1)).await;
    let NoteWritten { id, created, .. } = fx.write("note_001").await;
    assert!(created);
    let collected = fx.candidate("note_001").await;
    assert_eq!((collected.status, &collected.processing_lock), (CandidateStatus::Collected, &None));
    assert_eq!((collected.locked_at, collected.retry_count), (None, 0));
    let meta = json!({
        "request_id": "wf-1-a-write", "workflow_trace_id": "wf-1-a", "latency_ms": 1234, "retry_count": 0,
        "source_keyword": "foundation", "crawled_at": Ts::from_secs(1_772_100_000).to_string(),
    });
    assert_eq!(parsed(&collected.exec_meta), meta);
    let found = fx.notes(wanted()).await;
    let stored = found.first().expect("the note");
    let expected = CrawlNote {
        id,
        platform: PLATFORM.into(),
        note_id: "note_001".into(),
        note_url: Some("https://platform.example/note_001".into()),
        idempotency_key: "note_001_v1".into(),
        title: Some("A".into()),
        content: Some("…".into()),
        author: Some("someone".into()),
        published_at: "2026-02-25T08:00:00Z".parse().ok(),
        fetched_at: collected.updated_at,
        crawl_result: RESULT.into(),
        processing_lock: None,
        locked_at: None,
        retry_count: 0,
        last_error_code: None,
        exec_meta: stored.exec_meta.clone(),
    };
    assert_eq!((stored, parsed(&stored.exec_meta)), (&expected, meta));

    // Another write of a note keeps the first.
    let mut other = write("note_001");
    (other.note.payload, other.note.fields) = ("{}".into(), "{}".into());
    assert_eq!(fx.ok(Arc::new(other)).await, NoteWritten { id, created: false, captured: Captured::None });
    assert_eq!((fx.notes(wanted()).await, fx.candidate("note_001").await), (vec![expected], collected));
    assert_eq!(fx.rows(View::Items).await.len(), 1);
}

// covers: CRAWL-126, CRAWL-127, CRAWL-128, CRAWL-GAP-05
pub(super) async fn stored_note_completes_its_candidate(fx: Fixture) {
    fx.ok(add(["waits", "held", "failed", "known"].map(note).to_vec())).await;
    fx.locked("main", "one").await;
    let before = fx.failed("one", "failed").await;
    // The end of an execution frees its candidates; its notes may still arrive.
    fx.ok(end("one", ExecutionStatus::Failed)).await;
    assert_eq!(fx.candidate("held").await.status, CandidateStatus::Pending);
    for id in ["waits", "held", "failed", "unheard"] {
        assert!(fx.write(id).await.created, "{id}");
    }
    for id in ["waits", "held", "failed"] {
        let candidate = fx.candidate(id).await;
        assert_eq!((candidate.status, candidate.processing_lock), (CandidateStatus::Collected, None), "{id}");
        assert_eq!(parsed(&candidate.exec_meta)["retry_count"], candidate.retry_count);
    }
    assert_eq!(fx.candidate("failed").await.retry_count, before.retry_count);
    let unheard = fx.notes(CrawlFilter { note_id: Some("unheard".into()), ..wanted() }).await;
    assert_eq!((unheard.len(), &unheard[0].note_url), (1, &None));
    assert_eq!(parsed(&unheard[0].exec_meta)["source_keyword"], json!(null));
    // A candidate that is added after its note is completed when the note is written again.
    fx.ok(add(vec![note("unheard")])).await;
    assert!(!fx.write("unheard").await.created);
    let late = fx.candidate("unheard").await;
    assert_eq!(
        (late.status, &parsed(&late.exec_meta)["request_id"]),
        (CandidateStatus::Collected, &json!("wf-1-a-write"))
    );
    assert_eq!(fx.notes(CrawlFilter { note_id: Some("unheard".into()), ..wanted() }).await, unheard);
}

// covers: CRAWL-52, CRAWL-GAP-09
pub(super) async fn notes_are_identified_by_project_and_platform(fx: Fixture) {
    let other = NewCandidate { note_url: "https://other.example".into(), ..note("a") };
    fx.ok(add(vec![other])).await;
    let own = fx.write("a").await;
    let elsewhere = WriteNote { platform: "dy".into(), ..write("a") };
    let far = fx.ok(Arc::new(elsewhere)).await;
    let project = fx.ok(Arc::new(WriteNote { project_key: "other".into(), ..write("a") })).await;
    assert!(own.created && far.created && project.created);
    let mut with_url = write("b");
    with_url.note.note_url = Some("https://said.example".into());
    fx.ok(Arc::new(with_url)).await;
    let found = async |wanted: CrawlFilter| {
        let found = fx.notes(wanted).await;
        assert!(found.is_sorted_by_key(|note| note.id));
        found.into_iter().map(|note| (note.platform, note.note_id, note.note_url)).collect::<Vec<_>>()
    };
    let row =
        |platform: &str, id: &str, url: Option<&str>| (platform.to_owned(), id.to_owned(), url.map(str::to_owned));
    let (a, far_a, b) = (
        row(PLATFORM, "a", Some("https://other.example")),
        row("dy", "a", None),
        row(PLATFORM, "b", Some("https://said.example")),
    );
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found(wanted()).await, [a.clone(), far_a.clone(), b.clone()]);
    assert_eq!(found(CrawlFilter { platform: some("dy"), ..wanted() }).await, [far_a.clone()].as_slice());
    assert_eq!(found(CrawlFilter { note_id: some("a"), ..wanted() }).await, [a.clone(), far_a.clone()]);
    let one = CrawlFilter { platform: some(PLATFORM), note_id: some("a"), ..wanted() };
    assert_eq!(found(one.clone()).await, [a].as_slice());
    assert_eq!(found(CrawlFilter { after: own.id, ..one }).await, []);
    assert_eq!(found(CrawlFilter { after: own.id, limit: 1, ..wanted() }).await, [far_a].as_slice());
    assert_eq!(found(CrawlFilter { project_key: "other".into(), ..wanted() }).await.len(), 1);
    assert_eq!(found(CrawlFilter { after: far.id, ..wanted() }).await, [b].as_slice());
}

/// A note has no run, and queries of items allow that.
pub(super) async fn note_is_listed_as_an_item(fx: Fixture) {
    let id = fx.write("a").await.id;
    let items = fx.rows(View::Items).await;
    for (column, text) in [
        ("project_key", PROJECT),
        ("provenance_code", PLATFORM),
        ("endpoint_name", "note"),
        ("kind", "note"),
        ("dedup_key", "a_v1"),
        ("mapping_generation", ""),
        ("fields", FIELDS),
        ("payload", RESULT),
    ] {
        assert_eq!(fixture::text(&items.of(id, column)), text, "{column}");
    }
    assert_eq!(items.of(id, "run_id"), Cell::Int(0));
    let stream = RecordStream {
        project_key: PROJECT.into(),
        provenance_code: PLATFORM.into(),
        endpoint_name: "note".into(),
        dedup_scope: "note".into(),
        kind: "note".into(),
    };
    let stored = fx.subject.store.stored(&stream, &["a_v1".into(), "b_v1".into()]).await.expect("versions");
    assert_eq!(stored.len(), 1);
    assert_eq!((stored[0].content_hash, stored[0].version.source_version), (content_hash(RESULT.as_bytes()), 0));
    assert_eq!(stored[0].version.updated_at, fixture::time(&items.of(id, "stored_at")));
    let parents = ReadParents {
        project_key: PROJECT.into(),
        provenance_code: PLATFORM.into(),
        dedup_scope: "note".into(),
        endpoint_name: "note".into(),
        after: None,
        payload: true,
        limit: 10,
    };
    let parents = fx.ok(parents).await;
    assert_eq!((parents.len(), &*parents[0].payload, &parents[0].task_params), (1, RESULT, &None));
}

// covers: CRAWL-RULE-2, CRAWL-127
pub(super) async fn note_written_twenty_times_concurrently_is_created_once(fx: Fixture) {
    fx.ok(add(vec![note("a")])).await;
    for id in ["a", "without a candidate"] {
        let written = at_once(&fx, (0..20).map(|_| Arc::new(write(id))).collect()).await;
        let written: Vec<_> = written.into_iter().map(|answer| answer.expect("an answer")).collect();
        assert_eq!(written.iter().filter(|one| one.created).count(), 1);
        assert!(written.iter().all(|one| one.id == written[0].id));
    }
    assert_eq!((fx.notes(wanted()).await.len(), fx.rows(View::Items).await.len()), (2, 2));
    assert_eq!(fx.candidate("a").await.status, CandidateStatus::Collected);
}
