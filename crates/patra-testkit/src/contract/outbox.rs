//! Outbox events: delivered at least once, with growing delays.

use std::sync::Arc;
use std::time::Duration;

use patra_core::Fence;
use patra_core::port::load::OutboxLoad;
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::record::RecordStream;
use patra_core::tx::{
    ClaimEvents, CommitBatch, Delivery, EVENTS_KEPT, EventsClaimed, EventsRetried, LeaseRef, MAX_DELIVERY_ATTEMPTS,
    OutboxEvent, RECORDS_STORED, RetryEvents, SettleEvent, TWEETS_COLLECTED, TxError, retry_delay,
};
use serde_json::{Value, json};

use super::concurrent::at_once;
use super::scrape::{tweet, user};
use super::source::PROJECT;
use super::{Fixture, make};

fn take(owner: &str, lease: Duration, limit: u32) -> ClaimEvents {
    ClaimEvents { owner: owner.into(), lease, limit, event_type: TWEETS_COLLECTED.into() }
}

fn take_records(owner: &str, limit: u32) -> ClaimEvents {
    ClaimEvents { event_type: RECORDS_STORED.into(), ..take(owner, make::LONG, limit) }
}

impl Fixture {
    /// Makes this many events, each of its own user.
    pub(super) async fn events(&self, tag: &str, count: usize) {
        let users: Vec<_> = (0..count).map(|no| user(&format!("{tag}{no}"))).collect();
        for (no, id) in self.feeds(&users).await.into_iter().enumerate() {
            self.tweeted(id, vec![tweet(&format!("{tag}-t{no}"), 1, "a")]).await;
        }
    }

    async fn settle(&self, event: &OutboxEvent, owner: &str, error: Option<&str>) {
        let delivery = error.map_or(Delivery::Delivered, |error| Delivery::Failed(error.to_owned()));
        self.ok(SettleEvent { id: event.id, owner: owner.into(), delivery }).await;
    }

    /// Fails every delivery until all events that failed once before, or wait now, are given up.
    async fn give_up(&self, take: ClaimEvents) {
        for failures in 1..=MAX_DELIVERY_ATTEMPTS {
            for event in self.ok(take.clone()).await.events {
                self.settle(&event, &take.owner, Some("status 500")).await;
            }
            self.pass(retry_delay(failures)).await;
        }
    }

    async fn statuses(&self) -> Vec<String> {
        self.rows(View::Outbox).await.texts("status_code").into_iter().rev().collect()
    }
}

pub(super) async fn start_of_the_only_process_frees_the_events_of_dead_ones(fx: Fixture) {
    fx.events("u", 2).await;
    let claimed = fx.ok(take("dead", make::LONG, 10)).await.events;
    assert_eq!(claimed.len(), 2);
    fx.sweep(false).await;
    assert_eq!(fx.ok(take("b", make::LONG, 10)).await.events, []);
    fx.sweep(true).await;
    assert_eq!(fx.ok(take("b", make::LONG, 10)).await.events, claimed);
}

// covers: MAP-C-22
pub(super) async fn event_is_leased_delivered_and_settled(fx: Fixture) {
    assert_eq!(fx.ok(take("x", make::LONG, 10)).await.events, []);
    fx.events("u", 3).await;
    let EventsClaimed { events, now } = fx.ok(take("x", make::LONG, 2)).await;
    assert_eq!(events.len(), 2);
    let OutboxEvent { project_key, event_type, payload, tries, created_at, .. } = &events[0];
    assert_eq!((&**project_key, &**event_type, *tries), (PROJECT, TWEETS_COLLECTED, 0));
    let payload: Value = serde_json::from_str(payload).expect("JSON");
    assert_eq!((&payload["username"], &payload["tweet_ids"]), (&json!("u0"), &json!(["u-t0"])));
    let job = payload["job"].as_str().expect("a job");
    assert_eq!(job, format!("source-{}-0", payload["source_id"]), "a poll of no job is its own");
    assert!(*created_at <= now);
    let rest = fx.ok(take("y", make::LONG, 10)).await;
    assert_eq!(rest.events.len(), 1);
    assert!(rest.events[0].id > events[1].id && events[1].id > events[0].id);
    assert_eq!(fx.ok(take("y", make::LONG, 10)).await.events, []);
    fx.settle(&events[0], "x", None).await;
    fx.settle(&events[1], "somebody else", None).await;
    assert_eq!(fx.statuses().await, ["DELIVERED", "PENDING", "PENDING"]);
    fx.settle(&events[0], "x", Some("too late")).await;
    assert_eq!(fx.statuses().await, ["DELIVERED", "PENDING", "PENDING"]);
    let ended = fx.cell(View::Outbox, events[0].id, "ended_at").await;
    assert!(matches!(ended, Cell::Time(_)));
    let own = ViewFilter { project_key: Some(PROJECT.into()), status: Some("PENDING".into()), ..ViewFilter::default() };
    assert_eq!(fx.filtered(View::Outbox, own).await.len(), 2);
}

pub(super) async fn event_of_a_dead_relay_is_delivered_by_another(fx: Fixture) {
    fx.events("u", 1).await;
    let first = fx.ok(take("dead", make::SHORT, 10)).await.events.remove(0);
    fx.pass(make::BEYOND).await;
    let second = fx.ok(take("next", make::LONG, 10)).await.events.remove(0);
    assert_eq!(second, first, "the same event under the same number");
    fx.settle(&first, "dead", Some("no")).await;
    assert_eq!(fx.rows(View::Outbox).await.column("tries"), [Cell::Int(0)]);
    fx.settle(&second, "next", None).await;
    assert_eq!(fx.statuses().await, ["DELIVERED"]);
}

pub(super) async fn undeliverable_event_is_retried_with_growing_delays_and_given_up(fx: Fixture) {
    fx.events("u", 1).await;
    let event = fx.ok(take("x", make::LONG, 10)).await.events.remove(0);
    fx.settle(&event, "x", Some("status 500")).await;
    let rows = fx.rows(View::Outbox).await;
    assert_eq!((rows.column("tries"), rows.texts("last_error")), (vec![Cell::Int(1)], vec!["status 500".into()]));
    assert_eq!(fx.ok(take("x", make::LONG, 10)).await.events, []);
    for failures in 2..=MAX_DELIVERY_ATTEMPTS {
        fx.pass(retry_delay(failures - 1) - Duration::from_millis(1)).await;
        assert_eq!(fx.ok(take("x", make::LONG, 10)).await.events, [], "after {failures}");
        fx.pass(Duration::from_millis(1)).await;
        let again = fx.ok(take("x", make::LONG, 10)).await.events.remove(0);
        assert_eq!((again.id, again.tries), (event.id, failures - 1));
        fx.settle(&again, "x", Some("status 500")).await;
    }
    assert_eq!(fx.statuses().await, ["FAILED"]);
    assert_eq!(fx.rows(View::Outbox).await.column("tries"), [Cell::Int(i64::from(MAX_DELIVERY_ATTEMPTS))]);
    fx.pass(EVENTS_KEPT).await;
    fx.ok(take("x", make::LONG, 10)).await;
    assert_eq!(fx.statuses().await, ["FAILED"], "it is kept for a while");
    fx.pass(Duration::from_millis(1)).await;
    fx.ok(take("x", make::LONG, 10)).await;
    assert!(fx.rows(View::Outbox).await.is_empty());
    // A number is never used again.
    fx.events("later", 1).await;
    let later = fx.ok(take("x", make::LONG, 10)).await.events.remove(0);
    assert!(later.id > event.id, "{} after {}", later.id, event.id);
}

pub(super) async fn event_that_was_given_up_can_be_redelivered(fx: Fixture) {
    let all = || RetryEvents { project_key: None, event: None };
    fx.events("u", 3).await;
    let events = fx.ok(take("x", make::LONG, 2)).await.events;
    fx.settle(&events[0], "x", None).await;
    assert_eq!(
        fx.ok(all()).await,
        EventsRetried { events: 0 },
        "neither what waits, nor what is on its way, nor what was heard"
    );
    assert_eq!(fx.statuses().await, ["DELIVERED", "PENDING", "PENDING"]);
    assert_eq!(fx.load().await.outbox, OutboxLoad { oldest: Some(events[1].created_at), failed: 0 });
    let last = fx.ok(take("x", make::LONG, 10)).await.events.remove(0);
    for event in [&events[1], &last] {
        fx.settle(event, "x", Some("status 500")).await;
    }
    fx.give_up(take("x", make::LONG, 10)).await;
    assert_eq!(fx.statuses().await, ["DELIVERED", "FAILED", "FAILED"]);
    assert_eq!(fx.load().await.outbox, OutboxLoad { oldest: None, failed: 2 });
    for nobody in [
        RetryEvents { project_key: Some("another".into()), ..all() },
        RetryEvents { event: Some(events[0].id), ..all() },
    ] {
        assert_eq!(fx.ok(nobody).await, EventsRetried { events: 0 });
    }
    let one = RetryEvents { project_key: Some(PROJECT.into()), event: Some(last.id) };
    assert_eq!(fx.ok(one.clone()).await, EventsRetried { events: 1 });
    assert_eq!(fx.ok(one).await, EventsRetried { events: 0 });
    assert_eq!(fx.statuses().await, ["DELIVERED", "FAILED", "PENDING"]);
    assert_eq!(fx.ok(all()).await, EventsRetried { events: 1 });
    let again = fx.ok(take("y", make::LONG, 10)).await.events;
    let retried: Vec<_> = again.iter().map(|event| (event.id, event.tries)).collect();
    assert_eq!(retried, [(events[1].id, 0), (last.id, 0)], "under the same number, as if never tried");
    for event in &again {
        fx.settle(event, "y", None).await;
    }
    assert_eq!(fx.statuses().await, ["DELIVERED"; 3]);
}

// covers: G-01
pub(super) async fn topic_delivers_one_event_at_a_time(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    for no in 1..=2 {
        let records = vec![make::record(&format!("r{no}"), 1)];
        fx.ok(Arc::new(CommitBatch { emit: true, ..make::page(&lease, run, no, records, true) })).await;
    }
    let first = fx.ok(take_records("x", 1)).await.events.remove(0);
    fx.settle(&first, "x", Some("status 500")).await;
    fx.give_up(take_records("x", 1)).await;
    assert_eq!(fx.statuses().await, ["FAILED", "PENDING"], "the first was tried, and no other");
    let second = fx.ok(take_records("x", 1)).await.events.remove(0);
    assert!(second.id > first.id, "an event that was given up blocks no other");
    fx.ok(RetryEvents { project_key: None, event: Some(first.id) }).await;
    assert_eq!(fx.ok(take_records("y", 10)).await.events, [], "a later one of its topic is on its way");
    fx.settle(&second, "x", None).await;
    assert_eq!(fx.ok(take_records("y", 10)).await.events, [first]);
}

/// `[id, change]` of each record, and the numbers of the page.
fn changes_of(event: &OutboxEvent) -> (Vec<(String, String)>, Value) {
    let mut payload: Value = serde_json::from_str(&event.payload).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let records = payload["records"].as_array().expect("records").iter();
    let changes = records.map(|record| (text(&record["id"]), text(&record["change"]))).collect();
    (changes, payload["batch_no"].take())
}

// covers: ING-2.6-03, ING-5.4-08, ING-6.1-08, ING-2.3-05, ING-0.2-10, G-01, ING-2.2-02
pub(super) async fn page_writes_its_events_once(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    let emitted = |no, records, more| CommitBatch { emit: true, ..make::page(&lease, run, no, records, more) };
    let first = Arc::new(emitted(1, vec![make::record("a", 1), make::record("b", 1)], true));
    fx.ok(Arc::clone(&first)).await;
    assert!(fx.ok(first).await.replayed, "read old, do not rewrite");
    // The second page has one known, one newer and one new record.
    fx.ok(Arc::new(emitted(2, vec![make::record("a", 1), make::record("b", 2), make::record("c", 1)], true))).await;
    fx.ok(Arc::new(emitted(3, vec![make::record("a", 1)], true))).await;
    fx.ok(Arc::new(make::page(&lease, run, 4, vec![make::record("d", 1)], false))).await;
    let events = fx.ok(take_records("x", 10)).await.events;
    let stored: Vec<_> = events.iter().map(changes_of).collect();
    let changes =
        |pairs: &[(&str, &str)]| pairs.iter().map(|(id, is)| ((*id).into(), (*is).into())).collect::<Vec<_>>();
    assert_eq!(
        stored,
        [
            (changes(&[("a", "inserted"), ("b", "inserted")]), json!(1)),
            (changes(&[("b", "updated"), ("c", "inserted")]), json!(2))
        ],
        "a page that stores nothing, or does not emit, writes no event"
    );
    let stream = make::stream();
    let topic = format!("{}/{}/{}", stream.project_key, stream.provenance_code, stream.dedup_scope);
    for (event, no) in events.iter().zip(1..) {
        assert_eq!((&*event.event_type, &event.topic), (RECORDS_STORED, &topic));
        assert_eq!(event.idempotency_key, format!("records.stored:{run}:{no}:0"));
    }
    // A page under a lost lease writes no event.
    let late = CommitBatch {
        lease: LeaseRef { fence: Fence(0), ..LeaseRef::from(&lease) },
        ..emitted(5, vec![make::record("z", 1)], false)
    };
    assert_eq!(fx.run(Arc::new(late)).await, Err(TxError::Fenced));
    assert_eq!(fx.rows(View::Outbox).await.len(), 2);
}

// covers: G-01
pub(super) async fn events_of_a_topic_are_delivered_in_order(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    for no in 1..=3 {
        let records = vec![make::record(&format!("r{no}"), 1)];
        fx.ok(Arc::new(CommitBatch { emit: true, ..make::page(&lease, run, no, records, true) })).await;
    }
    let stream = Arc::new(RecordStream { dedup_scope: "another".into(), ..make::stream() });
    let another = make::page(&lease, run, 4, vec![make::record("r", 1)], true);
    fx.ok(Arc::new(CommitBatch { emit: true, stream, ..another })).await;
    fx.events("u", 1).await;
    let unknown = ClaimEvents { event_type: "nobody".into(), ..take("x", make::LONG, 10) };
    assert_eq!(fx.ok(unknown).await.events, []);
    assert_eq!(fx.ok(take("x", make::LONG, 10)).await.events.len(), 1, "of its own type only");
    let first = fx.ok(take_records("x", 1)).await.events.remove(0);
    // The first is leased, so the others of its topic wait, and other topics do not.
    let others = fx.ok(take_records("y", 10)).await.events;
    let topics: Vec<_> = others.iter().map(|event| event.topic.clone()).collect();
    assert_eq!(topics, [format!("default/{}/another", make::PROVENANCE)]);
    fx.settle(&first, "x", Some("status 500")).await;
    assert_eq!(fx.ok(take_records("y", 10)).await.events, [], "nor while it waits for its retry");
    fx.pass(retry_delay(1)).await;
    let all = fx.ok(take_records("z", 10)).await.events;
    assert_eq!(all.iter().map(|event| event.tries).collect::<Vec<_>>(), [1, 0, 0]);
    assert!(all.is_sorted_by_key(|event| event.id) && all[0].id == first.id);
    // An event that is given back can be claimed at once.
    fx.settle(&all[0], "z", None).await;
    for event in &all[1..] {
        fx.ok(SettleEvent { id: event.id, owner: "z".into(), delivery: Delivery::Returned }).await;
    }
    let again = fx.ok(take_records("z", 10)).await.events;
    assert_eq!(again, all[1..]);
}

pub(super) async fn concurrent_relays_share_no_event(fx: Fixture) {
    fx.events("u", 6).await;
    let takes = (0..12).map(|no| take(&format!("t{no}"), make::LONG, 2)).collect();
    let mut ids = Vec::new();
    for answer in at_once(&fx, takes).await {
        ids.extend(answer.expect("an answer").events.into_iter().map(|event| event.id));
    }
    ids.extend(fx.ok(take("last", make::LONG, 9)).await.events.into_iter().map(|event| event.id));
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), all), (6, 6));
}

// covers: G-01
pub(super) async fn concurrent_relays_lease_a_topic_one_at_a_time(fx: Fixture) {
    let (lease, run) = fx.running(2).await;
    for no in 1..=6 {
        let records = vec![make::record(&format!("r{no}"), 1)];
        fx.ok(Arc::new(CommitBatch { emit: true, ..make::page(&lease, run, no, records, true) })).await;
    }
    let mut delivered = Vec::new();
    while delivered.len() < 6 {
        let takes = (0..12).map(|no| take_records(&format!("t{no}"), 1)).collect();
        let answers = at_once(&fx, takes).await.into_iter().map(|answer| answer.expect("an answer").events);
        let taken: Vec<_> = answers.enumerate().filter(|(_, events)| !events.is_empty()).collect();
        assert_eq!(taken.len(), 1, "one has the first, the others nothing");
        for (relay, events) in taken {
            fx.settle(&events[0], &format!("t{relay}"), None).await;
            delivered.push(events[0].id);
        }
    }
    assert!(delivered.is_sorted(), "{delivered:?}");
}
