//! Resources for external orchestrators: named locks, notes to fetch and fetched notes (CRAWL-26..57).

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::state::{CandidateStatus, ExecutionStatus};
use crate::time::Ts;

/// A lock without a heartbeat for this long has expired (CRAWL-165).
pub const LOCK_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// Time between two searches for expired locks (CRAWL-166).
pub const RECOVERY_INTERVAL: Duration = Duration::from_secs(15 * 60);
/// Default number of records in one claim (CRAWL-174).
pub const BATCH_SIZE: u32 = 10;
/// Retries of a record after the first attempt (CRAWL-40).
pub const MAX_RETRIES: u32 = 3;
/// Longest name of a workflow, and longest id of a note.
pub const MAX_NAME: usize = 200;
/// Longest `exec_meta`, in bytes of JSON.
pub const MAX_META: usize = 16 << 10;

/// One holder of a named lock, current or past.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Execution {
    pub execution_id: String,
    pub workflow_name: String,
    pub status: ExecutionStatus,
    pub started_at: Ts,
    pub heartbeat_at: Ts,
    pub completed_at: Option<Ts>,
    pub items_processed: u64,
    pub items_failed: u64,
}

/// The id of a new execution (CRAWL-45).
pub fn execution_id(now: Ts, random: &str) -> String {
    format!("exec-{}-{random}", now.micros() / 1_000)
}

/// Whether a lock or a record that was last renewed at `renewed` is still held (CRAWL-50).
pub fn is_alive(renewed: Ts, now: Ts, timeout: Duration) -> bool {
    now < renewed + timeout
}

/// A note that is known: to be fetched, or done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrawlCandidate {
    pub id: i64,
    pub platform: String,
    pub note_id: String,
    pub note_url: String,
    pub status: CandidateStatus,
    /// The execution that holds it.
    pub processing_lock: Option<String>,
    pub locked_at: Option<Ts>,
    pub retry_count: u32,
    pub source_keyword: Option<String>,
    /// Tokens that the platform requires for the details: a JSON object, or the same sealed.
    pub tokens: String,
    pub last_error_code: Option<String>,
    /// A JSON object.
    pub exec_meta: String,
    pub created_at: Ts,
    pub updated_at: Ts,
}

/// Status and retries of a record after it failed or its holder died (CRAWL-37..39).
pub fn after_failure(retry_count: u32) -> (CandidateStatus, u32) {
    if retry_count >= MAX_RETRIES {
        (CandidateStatus::Failed, retry_count)
    } else {
        (CandidateStatus::Pending, retry_count + 1)
    }
}

/// Status and retries of a record whose holder released its lock. A holder that completed has not tried the record; one
/// that failed may have failed because of it, so that counts as a try (CRAWL-40).
pub fn after_release(status: ExecutionStatus, retry_count: u32) -> (CandidateStatus, u32) {
    match status {
        ExecutionStatus::Completed => (CandidateStatus::Pending, retry_count),
        _ => after_failure(retry_count),
    }
}

/// The idempotency key of a note (CRAWL-52).
pub fn idempotency_key(note_id: &str) -> String {
    format!("{note_id}_v1")
}

/// The part of a request id that all steps of one workflow share: `wf-{epoch}-{random}` of `wf-{epoch}-{random}-{step}`
/// (CRAWL-88).
pub fn trace_id(request_id: &str) -> Option<&str> {
    let mut dashes = request_id.match_indices('-').map(|(at, _)| at);
    let third = dashes.nth(2);
    let trace = third.map_or(request_id, |at| &request_id[..at]);
    (request_id.starts_with("wf-") && trace.matches('-').count() == 2).then_some(trace)
}

/// One attempt to fetch a note, as reported by the caller.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CandidateAttempt {
    /// The caller's own fields: a JSON object.
    pub meta: String,
    pub request_id: Option<String>,
    pub crawled_at: Ts,
}

impl CandidateAttempt {
    /// `exec_meta` after an attempt (CRAWL-34): the caller's fields replace stored ones, and fields known here
    /// replace both.
    pub fn exec_meta(&self, before: &str, source_keyword: Option<&str>, retry_count: u32) -> String {
        let object = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let mut meta = object(before);
        meta.insert("crawled_at".to_owned(), self.crawled_at.to_string().into());
        meta.extend(object(&self.meta));
        if let Some(request_id) = &self.request_id {
            meta.insert("request_id".to_owned(), request_id.clone().into());
            if let Some(trace) = trace_id(request_id) {
                meta.entry("workflow_trace_id").or_insert_with(|| trace.into());
            }
        }
        for name in ["request_id", "workflow_trace_id", "latency_ms"] {
            meta.entry(name).or_insert(Value::Null);
        }
        meta.insert("source_keyword".to_owned(), source_keyword.into());
        meta.insert("retry_count".to_owned(), retry_count.into());
        Value::Object(meta).to_string()
    }
}

/// A stored note, with the fields for later steps (CRAWL-52..57).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CrawlNote {
    /// Id of the item.
    pub id: i64,
    pub platform: String,
    pub note_id: String,
    pub note_url: Option<String>,
    pub idempotency_key: String,
    pub title: Option<String>,
    pub content: Option<String>,
    pub author: Option<String>,
    pub published_at: Option<Ts>,
    pub fetched_at: Ts,
    /// The whole result, as JSON.
    pub crawl_result: String,
    pub processing_lock: Option<String>,
    pub locked_at: Option<Ts>,
    pub retry_count: u32,
    pub last_error_code: Option<String>,
    pub exec_meta: String,
}

/// The common fields of a note that are texts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NoteFields {
    pub title: Option<String>,
    pub content: Option<String>,
    pub author: Option<String>,
}

impl NoteFields {
    pub fn read(fields: &str) -> NoteFields {
        let fields = serde_json::from_str::<Map<String, Value>>(fields).unwrap_or_default();
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        NoteFields { title: text("title"), content: text("content"), author: text("author") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CRAWL-37, CRAWL-38, CRAWL-39, CRAWL-40
    #[test]
    fn a_record_is_tried_four_times() {
        let (mut status, mut retries, mut tries) = (CandidateStatus::Pending, 0, 0);
        while status == CandidateStatus::Pending {
            (status, retries) = after_failure(retries);
            tries += 1;
        }
        assert_eq!((status, retries, tries), (CandidateStatus::Failed, 3, 4));
    }

    // covers: CRAWL-50, CRAWL-165, CRAWL-166, CRAWL-174, CRAWL-FIX-2, CRAWL-GAP-19
    #[test]
    fn a_lock_of_exactly_half_an_hour_is_over() {
        let now = Ts::from_secs(10_000);
        assert!(is_alive(now, now + Duration::from_secs(1_799), LOCK_TIMEOUT));
        assert!(!is_alive(now, now + Duration::from_secs(1_800), LOCK_TIMEOUT));
        assert_eq!((LOCK_TIMEOUT.as_secs(), RECOVERY_INTERVAL.as_secs(), BATCH_SIZE), (30 * 60, 15 * 60, 10));
    }

    // covers: CRAWL-52, CRAWL-FIX-4
    #[test]
    fn the_version_of_a_key_is_fixed() {
        assert_eq!(idempotency_key("note_001"), "note_001_v1");
    }

    // covers: CRAWL-88, CRAWL-89
    #[test]
    fn the_steps_of_a_workflow_share_a_prefix() {
        assert_eq!(trace_id("wf-1702728000-abc123-detail"), Some("wf-1702728000-abc123"));
        assert_eq!(trace_id("wf-1702728000-abc123-retry-2"), Some("wf-1702728000-abc123"));
        assert_eq!(trace_id("wf-1702728000-abc123"), Some("wf-1702728000-abc123"));
        for other in ["req-1-2-3", "wf-1", "", "wf"] {
            assert_eq!(trace_id(other), None, "{other}");
        }
    }

    #[test]
    fn note_fields_that_are_not_texts_are_skipped() {
        let read = NoteFields::read(r#"{"title":"A","author":{"name":"x"},"content":null}"#);
        assert_eq!(read, NoteFields { title: Some("A".into()), ..NoteFields::default() });
        assert_eq!(NoteFields::read("[]"), NoteFields::default());
    }

    // covers: CRAWL-34
    #[test]
    fn exec_meta_keeps_all_fields_of_an_attempt() {
        let tried = CandidateAttempt {
            meta: r#"{"latency_ms":1234,"mine":true,"retry_count":99}"#.into(),
            request_id: Some("wf-1-a-write".into()),
            crawled_at: Ts::from_secs(0),
        };
        let meta: Value = serde_json::from_str(&tried.exec_meta(r#"{"old":1}"#, Some("k"), 2)).unwrap();
        assert_eq!(meta["workflow_trace_id"], "wf-1-a");
        assert_eq!((&meta["latency_ms"], &meta["mine"], &meta["old"]), (&1234.into(), &true.into(), &1.into()));
        assert_eq!((&meta["source_keyword"], &meta["retry_count"]), (&"k".into(), &2.into()));
        let bare: Value = serde_json::from_str(&CandidateAttempt::default().exec_meta("", None, 0)).unwrap();
        for name in ["request_id", "workflow_trace_id", "crawled_at", "source_keyword", "latency_ms", "retry_count"] {
            assert!(bare.get(name).is_some(), "{name}");
        }
    }
}
