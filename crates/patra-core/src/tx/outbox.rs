//! The outbox: events for external consumers. An event is written in the transaction of the change that it reports,
//! and delivered afterwards: at least once, with the same id each time (MAP-C-22). Events about one record are
//! delivered in the order in which it was stored (G-01): they share a topic, and an undelivered event blocks the
//! later ones of its topic until it is given up. An event that is retried after that comes out of order
//! ([`RetryEvents`]).

use std::time::Duration;

use serde_json::json;

use super::{CommitBatch, PollEnd};
use crate::hash;
use crate::id::RunId;
use crate::record::Record;
use crate::time::Ts;

/// Event type for new tweets (TWEET-71).
pub const TWEETS_COLLECTED: &str = "tweets.collected";
/// Event type for stored records (ING-2.6-03).
pub const RECORDS_STORED: &str = "records.stored";

/// Maximum records in one event; a page that stores more writes several.
pub const EVENT_RECORDS: usize = 500;
/// Attempts before an event is given up, which takes a day; it stays in the table as FAILED.
pub const MAX_DELIVERY_ATTEMPTS: u32 = 36;
/// How long delivered and failed events are kept.
pub const EVENTS_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// Maximum events that are deleted at a time.
pub const PURGE_BATCH: u32 = 1_000;

/// Maximum events of one [`RetryEvents`].
pub const RETRY_BATCH: u32 = 1_000;

/// Delay before the next attempt after this many failures: one second, doubling, at most an hour.
pub fn retry_delay(tries: u32) -> Duration {
    Duration::from_secs((1_u64 << tries.saturating_sub(1).min(12)).min(3_600))
}

/// An event to be written. An event whose `idempotency_key` exists is not written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    pub project_key: String,
    pub event_type: &'static str,
    /// Events of one topic are delivered one after the other.
    pub topic: String,
    pub idempotency_key: String,
    /// JSON, an object.
    pub payload: String,
}

/// A record that a page has stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoredRecord<'a> {
    pub record: &'a Record,
    /// The record is new; otherwise it has replaced another version.
    pub inserted: bool,
}

impl CommitBatch {
    /// Events about the stored records, in the order of the page; none unless the endpoint emits.
    pub fn events(&self, stored: &[StoredRecord<'_>]) -> Vec<NewEvent> {
        let chunks = if self.emit { stored.chunks(EVENT_RECORDS) } else { [].chunks(1) };
        chunks.enumerate().map(|(no, stored)| self.event(no, stored)).collect()
    }

    fn event(&self, no: usize, stored: &[StoredRecord<'_>]) -> NewEvent {
        let stream = &*self.stream;
        let records: Vec<_> = stored
            .iter()
            .map(|&StoredRecord { record, inserted }| {
                json!({
                    "id": record.key,
                    "change": if inserted { "inserted" } else { "updated" },
                    "updated_at": record.version.updated_at,
                    "source_version": record.version.source_version,
                    "idempotency_key": self.record_key(record),
                })
            })
            .collect();
        NewEvent {
            project_key: stream.project_key.clone(),
            event_type: RECORDS_STORED,
            topic: format!("{}/{}/{}", stream.project_key, stream.provenance_code, stream.dedup_scope),
            idempotency_key: format!("{RECORDS_STORED}:{}:{no}", self.idempotent_key),
            payload: json!({
                "provenance_code": stream.provenance_code,
                "endpoint_name": stream.endpoint_name,
                "dedup_scope": stream.dedup_scope,
                "kind": stream.kind,
                "task_id": self.lease.task,
                "run_id": self.run,
                "batch_no": self.batch_no,
                "mapping_generation": &*self.generation,
                "records": records,
            })
            .to_string(),
        }
    }

    /// The idempotency key of one version of a record, the same in every delivery: unique key, version, mapping
    /// generation, and content, because an UPDATE also replaces a record whose content changed under an equal version
    /// (C-33).
    fn record_key(&self, record: &Record) -> String {
        let stream = &*self.stream;
        hash::digest(&[
            &stream.project_key,
            &stream.provenance_code,
            &stream.dedup_scope,
            &record.key,
            &record.version.updated_at.micros().to_string(),
            &record.version.source_version.to_string(),
            &self.generation,
            &hash::hex(&record.content_hash),
        ])
    }
}

impl PollEnd {
    /// The event about new tweets, see [`PollEnd::emit`].
    pub fn event(
        &self,
        run: RunId,
        project_key: &str,
        job: &str,
        username: Option<&str>,
        tweet_ids: &[String],
    ) -> NewEvent {
        let source_id = self.source;
        NewEvent {
            project_key: project_key.to_owned(),
            event_type: TWEETS_COLLECTED,
            topic: format!("{project_key}/source-{source_id}"),
            idempotency_key: format!("{TWEETS_COLLECTED}:{run}"),
            payload: json!({ "job": job, "source_id": source_id, "username": username, "tweet_ids": tweet_ids })
                .to_string(),
        }
    }
}

/// Leases PENDING events of a type whose `not_before` has come and whose lease is free or expired, oldest first, at
/// most `limit`. Skips topics that have a leased event, and events behind a PENDING event of their topic that is
/// deferred. Deletes events that ended before now - [`EVENTS_KEPT`], at most [`PURGE_BATCH`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClaimEvents {
    pub owner: String,
    pub lease: Duration,
    pub limit: u32,
    pub event_type: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsClaimed {
    pub events: Vec<OutboxEvent>,
    pub now: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OutboxEvent {
    pub id: i64,
    pub project_key: String,
    /// For example `tweets.collected`.
    pub event_type: String,
    pub topic: String,
    pub idempotency_key: String,
    /// JSON, an object.
    pub payload: String,
    pub tries: u32,
    pub created_at: Ts,
}

/// Records the outcome of a delivery. Nothing is written when `owner` does not hold the lease any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettleEvent {
    pub id: i64,
    pub owner: String,
    pub delivery: Delivery,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Delivery {
    /// The event becomes DELIVERED.
    Delivered,
    /// The attempt failed with this error: PENDING again after [`retry_delay`], FAILED at [`MAX_DELIVERY_ATTEMPTS`].
    Failed(String),
    /// Not attempted: PENDING as before, free to be claimed.
    Returned,
}

impl Delivery {
    /// The event's new columns, given its failed attempts so far.
    pub fn settle(&self, failed: u32) -> EventUpdate<'_> {
        let (status, tries, error, again) = match self {
            Delivery::Delivered => ("DELIVERED", failed, None, None),
            Delivery::Returned => ("PENDING", failed, None, Some(Duration::ZERO)),
            Delivery::Failed(error) => match failed.saturating_add(1) {
                tries if tries >= MAX_DELIVERY_ATTEMPTS => ("FAILED", tries, Some(error.as_str()), None),
                tries => ("PENDING", tries, Some(error.as_str()), Some(retry_delay(tries))),
            },
        };
        EventUpdate { status, tries, error, retry_in: again }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventUpdate<'a> {
    /// `status_code`.
    pub status: &'static str,
    pub tries: u32,
    /// The new last error; `None` keeps the stored one.
    pub error: Option<&'a str>,
    /// How long until it may be claimed again; `None`: it has ended.
    pub retry_in: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSettled;

/// Makes FAILED events PENDING again with no attempts; the error stays until the next one. Selects one event, those
/// of a project, or all; oldest first, at most [`RETRY_BATCH`]. They keep their position: later events of their topic
/// that are not claimed yet are delivered after them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RetryEvents {
    pub project_key: Option<String>,
    pub event: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventsRetried {
    pub events: u32,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytestring::ByteString;
    use serde_json::Value;

    use super::*;
    use crate::id::{Fence, JobId, PlanId, SliceId, TaskId};
    use crate::record::{HeldMemory, RecordStream, RecordVersion};
    use crate::tx::{BatchStats, LeaseRef, TaskLineage};

    fn record(key: &str, at: i64, content: u8) -> Record {
        Record {
            key: key.into(),
            version: RecordVersion { updated_at: Ts::from_secs(at), source_version: 0 },
            fields: String::new(),
            payload: ByteString::from_static("{}"),
            content_hash: [content; 16],
        }
    }

    fn page(emit: bool) -> CommitBatch {
        let stream = RecordStream {
            project_key: "p".into(),
            provenance_code: "openalex".into(),
            endpoint_name: "works".into(),
            dedup_scope: "works".into(),
            kind: "work".into(),
        };
        CommitBatch {
            lease: LeaseRef { task: TaskId(1), fence: Fence(1) },
            lineage: TaskLineage { job: JobId(1), plan: PlanId(1), slice: SliceId(1) },
            run: RunId(2),
            batch_no: 3,
            expr_hash: String::new(),
            idempotent_key: "v1:batch".into(),
            before_token: None,
            position: crate::paging::Position::Offset(0),
            next: None,
            page_size: 100,
            stream: Arc::new(stream),
            source: None,
            records: Vec::new(),
            rejected: Vec::new(),
            marks: Vec::new(),
            progress: true,
            checked: Vec::new(),
            generation: "g1".into(),
            emit,
            refresh: false,
            pass: None,
            raw: None,
            stats: BatchStats::default(),
            request_digest: "{}".into(),
            response_digest: "{}".into(),
            capture: None,
            memory: HeldMemory::default(),
        }
    }

    fn key_of(page: &CommitBatch, record: &Record) -> String {
        let events = page.events(&[StoredRecord { record, inserted: true }]);
        let payload: Value = serde_json::from_str(&events[0].payload).unwrap();
        payload["records"][0]["idempotency_key"].as_str().unwrap().to_owned()
    }

    // covers: ING-4.9-03, ING-9.4-02, ING-11.4-01
    #[test]
    fn a_version_of_a_record_has_one_key_and_every_other_another() {
        let first = key_of(&page(true), &record("a", 1, 1));
        let later = CommitBatch { run: RunId(9), batch_no: 8, idempotent_key: "v1:other".into(), ..page(true) };
        assert_eq!(key_of(&later, &record("a", 1, 1)), first, "however often it is delivered");
        let mapped = CommitBatch { generation: "g2".into(), ..page(true) };
        let mut other = vec![first, key_of(&mapped, &record("a", 1, 1))];
        other.extend(
            [record("b", 1, 1), record("a", 2, 1), record("a", 1, 2)].iter().map(|row| key_of(&page(true), row)),
        );
        other.sort();
        other.dedup();
        assert_eq!(other.len(), 5);
    }

    #[test]
    fn large_page_emits_several_events_and_a_silent_one_none() {
        let records: Vec<_> = (0..=EVENT_RECORDS).map(|no| record(&format!("{no:04}"), 1, 1)).collect();
        let stored: Vec<_> = records.iter().map(|record| StoredRecord { record, inserted: false }).collect();
        let events = page(true).events(&stored);
        let keys: Vec<_> = events.iter().map(|event| event.idempotency_key.as_str()).collect();
        assert_eq!(keys, ["records.stored:v1:batch:0", "records.stored:v1:batch:1"]);
        let last: Value = serde_json::from_str(&events[1].payload).unwrap();
        assert_eq!((&last["records"][0]["id"], &last["records"][0]["change"]), (&json!("0500"), &json!("updated")));
        assert_eq!(page(false).events(&stored), []);
        assert_eq!(page(true).events(&[]), []);
    }
}
