//! Events for the world outside. One is written in the transaction of what it tells, and delivered afterwards: at least once,
//! with the same id each time (MAP-C-22). What is told of one record is told in the order in which it was stored (G-01): it is in one
//! topic, and behind an event that was not told the others of its topic wait, until it is given up. Told again later, it comes
//! after them ([`Retell`]).

use std::time::Duration;

use serde_json::json;

use super::{CommitBatch, PollEnd};
use crate::hash;
use crate::id::RunId;
use crate::record::Record;
use crate::time::Ts;

/// The event that new tweets are told by (TWEET-71).
pub const TWEETS_COLLECTED: &str = "tweets.collected";
/// The event that stored records are told by (ING-2.6-03).
pub const RECORDS_STORED: &str = "records.stored";

/// Records of one event; a page that stores more has several.
pub const EVENT_RECORDS: usize = 500;
/// Tries before an event is given up, which takes a day; it stays in the table as FAILED.
pub const MAX_TELLS: u32 = 36;
/// How long ago an event that was delivered or given up is forgotten.
pub const EVENTS_KEPT: Duration = Duration::from_secs(7 * 86_400);
/// Events that are forgotten in one go: what is more goes the next time.
pub const FORGOTTEN_AT_ONCE: u32 = 1_000;

/// Events that are told again in one go, see [`Retell`].
pub const RETOLD_AT_ONCE: u32 = 1_000;

/// When an event is tried again after so many failures: a second, doubling, at most an hour.
pub fn tell_again(tries: u32) -> Duration {
    Duration::from_secs((1_u64 << tries.saturating_sub(1).min(12)).min(3_600))
}

/// An event as it is written. One whose `idempotency_key` is there already is not written again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    pub project_key: String,
    pub event_type: &'static str,
    /// Events of one topic are told one after the other.
    pub topic: String,
    pub idempotency_key: String,
    /// JSON, an object.
    pub payload: String,
}

/// A record that a page has stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stored<'a> {
    pub record: &'a Record,
    /// It was not there; otherwise it has replaced another version.
    pub inserted: bool,
}

impl CommitBatch {
    /// What is told of the records that were stored, in the order of the page: nothing, unless the endpoint emits.
    pub fn events(&self, stored: &[Stored<'_>]) -> Vec<NewEvent> {
        let chunks = if self.emit { stored.chunks(EVENT_RECORDS) } else { [].chunks(1) };
        chunks.enumerate().map(|(no, stored)| self.event(no, stored)).collect()
    }

    fn event(&self, no: usize, stored: &[Stored<'_>]) -> NewEvent {
        let stream = &*self.stream;
        let records: Vec<_> = stored
            .iter()
            .map(|&Stored { record, inserted }| {
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

    /// The same for the same version of a record, however often it is told: its unique key, its version, which mapping made it, and
    /// its content, because an UPDATE also replaces what has changed under an equal version (C-33).
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
    /// What is told of new tweets, see [`PollEnd::tell`].
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

/// Leases PENDING events of a type whose `not_before` has come and whose lease is free or expired, oldest first, at most
/// `limit`; none of a topic of which another is leased, and none behind another of its topic that is PENDING and put off. Forgets those that ended before
/// now - [`EVENTS_KEPT`], at most [`FORGOTTEN_AT_ONCE`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TakeEvents {
    pub owner: String,
    pub lease: Duration,
    pub limit: u32,
    pub event_type: String,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EventsTaken {
    pub events: Vec<Event>,
    pub now: Ts,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    pub id: i64,
    pub project_key: String,
    /// Such as `tweets.collected`.
    pub event_type: String,
    pub topic: String,
    pub idempotency_key: String,
    /// JSON, an object.
    pub payload: String,
    pub tries: u32,
    pub created_at: Ts,
}

/// Says what became of telling an event. Nothing when `owner` does not hold it any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettleEvent {
    pub id: i64,
    pub owner: String,
    pub told: Told,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Told {
    /// DELIVERED.
    Delivered,
    /// With this error: one try more, PENDING again after [`tell_again`], FAILED once the tries have reached [`MAX_TELLS`].
    Failed(String),
    /// Not tried: PENDING as before, for anybody.
    GivenBack,
}

impl Told {
    /// What becomes of an event that has failed so often before.
    pub fn settle(&self, failed: u32) -> Settled<'_> {
        let (status, tries, error, again) = match self {
            Told::Delivered => ("DELIVERED", failed, None, None),
            Told::GivenBack => ("PENDING", failed, None, Some(Duration::ZERO)),
            Told::Failed(error) => match failed.saturating_add(1) {
                tries if tries >= MAX_TELLS => ("FAILED", tries, Some(error.as_str()), None),
                tries => ("PENDING", tries, Some(error.as_str()), Some(tell_again(tries))),
            },
        };
        Settled { status, tries, error, again }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settled<'a> {
    /// `status_code`.
    pub status: &'static str,
    pub tries: u32,
    /// In the place of the last one; `None` leaves that.
    pub error: Option<&'a str>,
    /// How long until it may be taken again; `None`: it has ended.
    pub again: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSettled;

/// Lets events that are FAILED be told again, as if they had never been tried: PENDING from now on, the error stays until the
/// next. Those of a project, one of them, or all; the oldest first, at most [`RETOLD_AT_ONCE`]. They keep their place: those
/// behind them in their topic that nobody has taken yet are told after them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Retell {
    pub project_key: Option<String>,
    pub event: Option<i64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retold {
    pub events: u32,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytestring::ByteString;
    use serde_json::Value;

    use super::*;
    use crate::id::{Fence, InstanceId, PlanId, SliceId, TaskId};
    use crate::record::{Stream, Version};
    use crate::tx::{BatchStats, LeaseRef, Lineage};

    fn record(key: &str, at: i64, content: u8) -> Record {
        Record {
            key: key.into(),
            version: Version { updated_at: Ts::from_secs(at), source_version: 0 },
            fields: String::new(),
            payload: ByteString::from_static("{}"),
            content_hash: [content; 16],
        }
    }

    fn page(emit: bool) -> CommitBatch {
        let stream = Stream {
            project_key: "p".into(),
            provenance_code: "openalex".into(),
            endpoint_name: "works".into(),
            dedup_scope: "works".into(),
            kind: "work".into(),
        };
        CommitBatch {
            lease: LeaseRef { task: TaskId(1), fence: Fence(1) },
            lineage: Lineage { instance: InstanceId(1), plan: PlanId(1), slice: SliceId(1) },
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
            raw: None,
            stats: BatchStats::default(),
            request_digest: "{}".into(),
            response_digest: "{}".into(),
            capture: None,
        }
    }

    fn key_of(page: &CommitBatch, record: &Record) -> String {
        let events = page.events(&[Stored { record, inserted: true }]);
        let payload: Value = serde_json::from_str(&events[0].payload).unwrap();
        payload["records"][0]["idempotency_key"].as_str().unwrap().to_owned()
    }

    // covers: ING-4.9-03, ING-9.4-02, ING-11.4-01
    #[test]
    fn a_version_of_a_record_has_one_key_and_every_other_another() {
        let first = key_of(&page(true), &record("a", 1, 1));
        let later = CommitBatch { run: RunId(9), batch_no: 8, idempotent_key: "v1:other".into(), ..page(true) };
        assert_eq!(key_of(&later, &record("a", 1, 1)), first, "however often it is told");
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
    fn a_large_page_is_told_in_parts_and_a_silent_one_not_at_all() {
        let records: Vec<_> = (0..=EVENT_RECORDS).map(|no| record(&format!("{no:04}"), 1, 1)).collect();
        let stored: Vec<_> = records.iter().map(|record| Stored { record, inserted: false }).collect();
        let events = page(true).events(&stored);
        let keys: Vec<_> = events.iter().map(|event| event.idempotency_key.as_str()).collect();
        assert_eq!(keys, ["records.stored:v1:batch:0", "records.stored:v1:batch:1"]);
        let last: Value = serde_json::from_str(&events[1].payload).unwrap();
        assert_eq!((&last["records"][0]["id"], &last["records"][0]["change"]), (&json!("0500"), &json!("updated")));
        assert_eq!(page(false).events(&stored), []);
        assert_eq!(page(true).events(&[]), []);
    }
}
