//! Refreshed records, signals, the quarantine, late records and stored responses.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{Cell, StoredVersion, View};
use patra_core::record::{Record, RejectedRecord};
use patra_core::tx::{
    AbandonRecord, AdvanceCursor, CheckedRecord, CommitBatch, EndRun, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES,
    RecordsSignalled, RunEnd, SignalRecords, TxError,
};
use patra_core::{RunId, Ts};

use super::fixture::{int, text, time};
use super::{Fixture, make};

const TICK: Duration = Duration::from_millis(5);

fn signal(keys: &[&str]) -> SignalRecords {
    SignalRecords {
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        reason: "a field is missing".into(),
        by: "reader".into(),
    }
}

fn checked(key: &str, failed: Option<&str>) -> CheckedRecord {
    CheckedRecord { key: key.into(), failed: failed.map(str::to_owned), looked_at: true }
}

fn rejected(index: u32, key: &str) -> RejectedRecord {
    RejectedRecord { key: Some(key.into()), ..make::rejected(index) }
}

fn other_content(key: &str, at: i64) -> Record {
    let payload = bytestring::ByteString::from(format!(r#"{{"id":"{key}","again":{at}}}"#));
    Record { content_hash: patra_core::hash::content_hash(payload.as_bytes()), payload, ..make::record(key, at) }
}

/// Key and status of every signal, oldest first.
async fn signals(fx: &Fixture) -> Vec<(String, String)> {
    let rows = fx.rows(View::Signals).await;
    let mut all: Vec<_> = rows.texts("item_key").into_iter().zip(rows.texts("status_code")).collect();
    all.reverse();
    all
}

async fn quarantine(fx: &Fixture) -> Vec<String> {
    let mut all = fx.rows(View::Quarantine).await.texts("status_code");
    all.reverse();
    all
}

fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|(key, status)| ((*key).to_owned(), (*status).to_owned())).collect()
}

fn counts(done: &patra_core::tx::BatchCommitted) -> (u32, u32, u32) {
    (done.stats.inserted, done.stats.updated, done.stats.skipped)
}

// covers: ING-6.3-08
pub(super) async fn refresh_replaces_a_different_record_of_equal_time(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let keys = ["content", "generation", "older", "same"];
    fx.commit(&lease, run, 1, keys.map(|key| make::record(key, 50)).to_vec(), true).await;
    let again = || vec![other_content("content", 50), make::record("same", 50), other_content("older", 49)];
    let plain = fx.commit(&lease, run, 2, again(), true).await;
    assert_eq!(counts(&plain), (0, 0, 3), "an ordinary page replaces only by newer");
    let refresh = CommitBatch { refresh: true, ..make::page(&lease, run, 3, again(), true) };
    assert_eq!(counts(&fx.ok(Arc::new(refresh)).await), (0, 1, 2));
    let mapped = CommitBatch {
        refresh: true,
        generation: "generation 2".into(),
        ..make::page(&lease, run, 4, vec![make::record("generation", 50), other_content("older", 49)], true)
    };
    assert_eq!(counts(&fx.ok(Arc::new(mapped)).await), (0, 1, 1), "an older one never replaces");
    let keys: Vec<_> = ["same", "missing", "generation", "content"].map(str::to_owned).to_vec();
    let stored = fx.subject.store.stored(&make::stream(), &keys).await.expect("an answer");
    let version = |record: Record, generation: &str| StoredVersion {
        key: record.key,
        version: record.version,
        content_hash: record.content_hash,
        generation: generation.into(),
    };
    let expected = [
        version(make::record("same", 50), make::GENERATION),
        version(make::record("generation", 50), "generation 2"),
        version(other_content("content", 50), make::GENERATION),
    ];
    assert_eq!(stored, expected, "in the requested order, without missing ones");
}

pub(super) async fn item_stores_its_mapping_and_the_time_of_its_last_check(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let looked = async |key: &str| {
        let items = fx.rows(View::Items).await;
        let at = items.texts("dedup_key").iter().position(|known| known == key).expect("the item");
        (text(&items.at(at, "mapping_generation")), time(&items.at(at, "refresh_checked_at")))
    };
    fx.commit(&lease, run, 1, vec![make::record("a", 5), make::record("b", 5)], true).await;
    let (generation, first) = looked("a").await;
    assert_eq!(generation, make::GENERATION);
    fx.pass(TICK).await;
    let other = CommitBatch {
        generation: "generation 2".into(),
        ..make::page(&lease, run, 2, vec![make::record("a", 5), make::record("b", 6)], true)
    };
    fx.ok(Arc::new(other)).await;
    assert_eq!(looked("a").await, (make::GENERATION.to_owned(), first), "skipped is not looked at");
    let (generation, replaced) = looked("b").await;
    assert_eq!(generation, "generation 2");
    assert!(replaced > first);
    fx.pass(TICK).await;
    let look = CommitBatch {
        checked: vec![checked("a", None), checked("b", Some("404"))],
        ..make::page(&lease, run, 3, vec![], true)
    };
    fx.ok(Arc::new(look)).await;
    assert!(looked("a").await.1 > first);
    let (_, again) = looked("b").await;
    assert!(again > replaced, "in vain, but looked at");
    assert_eq!(looked("a").await.0, make::GENERATION);
    fx.ok(signal(&["b"])).await;
    fx.pass(TICK).await;
    let refused = vec![CheckedRecord { looked_at: false, ..checked("b", Some("422")) }];
    fx.ok(Arc::new(CommitBatch { checked: refused, ..make::page(&lease, run, 4, vec![], true) })).await;
    assert_eq!(looked("b").await.1, again, "its candidate did not change");
    assert_eq!(int(&fx.rows(View::Signals).await.at(0, "tries")), 1, "but it was tried");
}

// covers: ING-12.5-01, ING-12.5-02, ING-12.5-03, ING-12.2-06
pub(super) async fn rejected_record_is_signalled_for_another_fetch(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    fx.ok(signal(&["known"])).await;
    let mut page = make::page(&lease, run, 1, vec![make::record("good", 1)], true);
    page.rejected = vec![
        rejected(0, "known"),
        rejected(1, "new"),
        rejected(2, "new"),
        RejectedRecord { key: None, ..make::rejected(3) },
    ];
    let page = Arc::new(page);
    fx.ok(page.clone()).await;
    assert!(fx.ok(page).await.replayed);
    assert_eq!(signals(&fx).await, pairs(&[("known", "OPEN"), ("new", "OPEN")]), "one for each key");
    let rows = fx.rows(View::Signals).await;
    let columns = ["origin_code", "reason", "created_by", "project_key", "provenance_code", "endpoint_name"];
    let of = |row| columns.map(|column| text(&rows.at(row, column)));
    assert_eq!(of(0), ["QUARANTINE", "no update time", SignalRecords::BY_QUARANTINE, "default", "demo", "works"]);
    assert_eq!(of(1), ["READER", "a field is missing", "reader", "default", "demo", "works"]);
    assert_eq!((int(&rows.at(0, "tries")), rows.at(0, "last_error")), (0, Cell::Null));
    let kept = fx.rows(View::Quarantine).await;
    assert_eq!(kept.texts("status_code"), ["OPEN", "SIGNALLED", "SIGNALLED", "SIGNALLED"]);
    assert_eq!(fx.rows(View::Items).await.len(), 1);
    let evidence = fx.subject.store.evidence(run, 1).await.expect("an answer").expect("the batch");
    assert_eq!(evidence.quarantine.len(), 4);
    for row in &evidence.quarantine {
        assert_eq!(row["request_digest"]["url"], "http://demo/works");
        assert_eq!(
            (&row["run_id"], &row["batch_no"], &row["endpoint_name"]),
            (&run.0.into(), &1.into(), &"works".into())
        );
        assert!(row["sample"].is_string() && row["reason"] == "no update time");
    }
}

// covers: ING-11.8-03, ING-DOD-16
pub(super) async fn record_that_arrives_later_settles_its_quarantine_signal(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let mut page = make::page(&lease, run, 1, vec![], true);
    page.rejected = ["a", "b", "late"].iter().zip(0..).map(|(key, at)| rejected(at, key)).collect();
    fx.ok(Arc::new(page)).await;
    fx.ok(signal(&["asked"])).await;
    fx.commit(&lease, run, 2, vec![make::record("a", 1), make::record("asked", 1)], true).await;
    let expected = [("a", "RESOLVED"), ("b", "OPEN"), ("late", "OPEN"), ("asked", "OPEN")];
    assert_eq!(signals(&fx).await, pairs(&expected), "a reader wants more than any record");
    assert_eq!(quarantine(&fx).await, ["RESOLVED", "SIGNALLED", "SIGNALLED"]);
    // Within one page the second record counts.
    let mut page = make::page(&lease, run, 3, vec![make::record("b", 1)], true);
    page.rejected = vec![rejected(0, "b")];
    fx.ok(Arc::new(page)).await;
    assert_eq!(quarantine(&fx).await, ["RESOLVED", "RESOLVED", "SIGNALLED", "RESOLVED"]);
    // Within one group, a later page contains a record that an earlier one rejected.
    let mut first = make::page(&lease, run, 6, vec![], true);
    first.rejected = vec![rejected(0, "soon")];
    let second = make::page(&lease, run, 7, vec![make::record("soon", 1)], true);
    fx.ok(Arc::<[_]>::from([Arc::new(first), Arc::new(second)])).await;
    assert_eq!(quarantine(&fx).await.last().map(String::as_str), Some("RESOLVED"));
    // A record that changes nothing settles nothing.
    let mut page = make::page(&lease, run, 4, vec![], true);
    page.rejected = vec![rejected(0, "a")];
    fx.ok(Arc::new(page)).await;
    fx.commit(&lease, run, 5, vec![make::record("a", 1)], true).await;
    assert_eq!(quarantine(&fx).await.last().map(String::as_str), Some("SIGNALLED"));
    assert_eq!(signals(&fx).await.last(), pairs(&[("a", "OPEN")]).first(), "a new one: the old is settled");
}

// covers: ING-11.8-03, ING-12.5-03
pub(super) async fn refresh_of_a_record_settles_its_signal_or_counts_a_try(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let mut page = make::page(&lease, run, 1, vec![], true);
    page.rejected = vec![rejected(0, "lost"), rejected(1, "found"), rejected(2, "lost")];
    fx.ok(Arc::new(page)).await;
    fx.ok(signal(&["asked"])).await;
    for no in 2..=1 + MAX_SIGNAL_TRIES {
        let looked = vec![checked("asked", None), checked("found", None), checked("lost", Some("404: no such id"))];
        fx.ok(Arc::new(CommitBatch { checked: looked, ..make::page(&lease, run, no, vec![], true) })).await;
        let status = if no <= MAX_SIGNAL_TRIES { "OPEN" } else { "ABANDONED" };
        let expected = [("lost", status), ("found", "RESOLVED"), ("asked", "RESOLVED")];
        assert_eq!(signals(&fx).await, pairs(&expected), "batch {no}");
        let rows = fx.rows(View::Signals).await;
        assert_eq!(
            (int(&rows.at(2, "tries")), text(&rows.at(2, "last_error"))),
            (i64::from(no) - 1, "404: no such id".into())
        );
        let kept = if no <= MAX_SIGNAL_TRIES { "SIGNALLED" } else { "ABANDONED" };
        assert_eq!(quarantine(&fx).await, [kept, "RESOLVED", kept]);
    }
    // A record that was given up is fetched again only on request.
    assert_eq!(fx.ok(signal(&["lost"])).await, RecordsSignalled { added: 1, existing: 0 });
}

pub(super) async fn signal_is_open_once_per_record(fx: Fixture) {
    assert_eq!(fx.ok(signal(&["a", "b"])).await, RecordsSignalled { added: 2, existing: 0 });
    assert_eq!(fx.ok(signal(&["b", "c"])).await, RecordsSignalled { added: 1, existing: 1 });
    let other = SignalRecords { endpoint_name: "other".into(), ..signal(&["a"]) };
    assert_eq!(fx.ok(other).await, RecordsSignalled { added: 1, existing: 0 });
    assert_eq!(fx.ok(signal(&[])).await, RecordsSignalled { added: 0, existing: 0 });
    let many: Vec<_> = (0..=MAX_SIGNAL_KEYS).map(|at| format!("key {at:04}")).collect();
    let refused = fx.run(SignalRecords { keys: many.clone(), ..signal(&[]) }).await;
    assert!(matches!(refused, Err(TxError::Refused(_))), "{refused:?}");
    let done = fx.ok(SignalRecords { keys: many[1..].to_vec(), ..signal(&[]) }).await;
    assert_eq!(done, RecordsSignalled { added: MAX_SIGNAL_KEYS as u32, existing: 0 });
}

pub(super) async fn quarantined_record_can_be_given_up_by_hand(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let mut page = make::page(&lease, run, 1, vec![], true);
    page.rejected = vec![rejected(0, "a"), rejected(1, "b"), RejectedRecord { key: None, ..make::rejected(2) }];
    fx.ok(Arc::new(page)).await;
    fx.commit(&lease, run, 2, vec![make::record("b", 1)], true).await;
    let mut ids = fx.rows(View::Quarantine).await.ids();
    ids.reverse();
    let abandon = async |quarantine| {
        let done = fx.ok(AbandonRecord { quarantine, by: "somebody".into() }).await;
        (done.found, done.abandoned)
    };
    assert_eq!(abandon(ids[0]).await, (true, true));
    assert_eq!(abandon(ids[0]).await, (true, false), "once is enough");
    assert_eq!(abandon(ids[1]).await, (true, false), "it came after all");
    assert_eq!(abandon(ids[2]).await, (true, true));
    assert_eq!(abandon(999_999).await, (false, false));
    assert_eq!(quarantine(&fx).await, ["ABANDONED", "RESOLVED", "ABANDONED"]);
    assert_eq!(signals(&fx).await, pairs(&[("a", "ABANDONED"), ("b", "RESOLVED")]));
}

// covers: ING-10.4-02
pub(super) async fn record_changed_below_the_harvest_is_late(fx: Fixture) {
    let saved = fx.plan("a", &make::windows(0, 3)).await;
    let first = fx.next().await;
    let run = fx.start(&first).await;
    let done = fx.commit(&first, run, 1, vec![make::record("a", 3)], false).await;
    assert_eq!(done.stats.late, 0, "there is no value to be late for");
    fx.end(&first, run, RunEnd::Succeeded).await;
    fx.advance(saved.cursor).await;
    fx.ok(AdvanceCursor { cursor: saved.cursor, to: make::at(10), version: 0 }).await;

    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let records = [("new", 9), ("border", 10), ("a", 5), ("same", 11)].map(|(key, at)| make::record(key, at)).to_vec();
    assert_eq!(fx.commit(&lease, run, 1, records.clone(), true).await.stats.late, 2, "inserted or replaced");
    let done = fx.commit(&lease, run, 2, records, true).await;
    assert_eq!((counts(&done), done.stats.late), ((0, 0, 4), 0), "nothing new");
    let stats = text(&fx.rows(View::Batches).await.at(1, "stats"));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&stats).expect("JSON")["late"], 2);

    // A record of a backfill is never late.
    let windows = [make::window(10, 20), make::window(0, 10)];
    let past = fx.plan_of("past", patra_core::state::Operation::Backfill, &windows).await.cursor;
    let leases: Vec<_> = fx.claim(9).await.into_iter().filter(|lease| lease.cursor == past).collect();
    fx.finish(&leases[0], RunEnd::Succeeded).await;
    fx.advance(past).await;
    assert!(fx.ok(AdvanceCursor { cursor: past, to: make::at(10), version: 0 }).await.moved);
    let run = fx.start(&leases[1]).await;
    assert_eq!(fx.commit(&leases[1], run, 1, vec![make::record("old", 1)], true).await.stats.late, 0);
}

pub(super) async fn response_is_kept_until_it_expires(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let raw = |body, keep| Some(make::raw(body, keep));
    let kept = async |no| fx.subject.store.raw(run, no).await.expect("an answer");
    let page = CommitBatch { raw: raw("one", make::LONG), ..make::page(&lease, run, 1, vec![], true) };
    fx.ok(Arc::new(page.clone())).await;
    // A repetition keeps the first response.
    fx.ok(Arc::new(CommitBatch { raw: raw("two", make::LONG), ..page })).await;
    let first = kept(1).await.expect("the answer");
    assert_eq!((&*first.body, first.status), (&b"one"[..], 200));
    assert_eq!(first.headers.replace(' ', ""), r#"[["content-type","application/json"]]"#);
    let stored = time(&fx.rows(View::Batches).await.at(0, "created_at"));
    assert_eq!(first.expires_at, stored + make::LONG);
    assert_eq!((kept(2).await, fx.subject.store.raw(RunId(999_999), 1).await), (None, Ok(None)));

    fx.ok(Arc::new(CommitBatch { raw: raw("short", make::SHORT), ..make::page(&lease, run, 2, vec![], true) })).await;
    fx.pass(make::BEYOND).await;
    assert_eq!(kept(2).await, None, "its time is over");
    let mut failure = make::failure(&lease, run, 3);
    failure.raw = raw("broken", make::LONG);
    let failed = RunEnd::Failed { error: make::fault("broken") };
    let end = Arc::new(EndRun { failure: Some(failure), ..make::end(&lease, run, failed) });
    fx.ok(end.clone()).await;
    fx.ok(end).await;
    assert_eq!(kept(3).await.map(|kept| kept.body), Some("broken".into()));
}

pub(super) async fn response_bytes_are_kept_unchanged(fx: Fixture) {
    let (lease, run) = fx.running(1).await;
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let mut raw = make::raw("", make::LONG);
    (raw.status, raw.body) = (599, body.clone().into());
    let page = CommitBatch { raw: Some(raw), ..make::page(&lease, run, 1, vec![make::record("a", 1)], true) };
    fx.ok(Arc::new(page)).await;
    let kept = fx.subject.store.raw(run, 1).await.expect("an answer").expect("the body");
    assert!(kept.status == 599 && kept.body == body);
    assert_eq!(time(&fx.rows(View::Items).await.at(0, "updated_at")), Ts::from_secs(1));
}
