//! Sources of URLs: documents, ended jobs, and tweets.

use std::sync::Arc;

use patra_core::Ts;
use patra_core::hash::content_hash;
use patra_core::port::pool::{DocumentFilter, DocumentRow, JobFilter, StoredTweet, TweetFilter};
use patra_core::port::query::{Cell, View};
use patra_core::record::RecordStream;
use patra_core::state::Operation;
use patra_core::tx::{
    CancelSubject, CancelWork, CommitBatch, DocumentPut, JobSettlement, PutDocument, RunEnd, SettleJob,
};
use serde_json::{Value, json};

use super::project::{OTHER, of};
use super::scrape::{TICK, tweet, tweets, user};
use super::{Fixture, make};

const PROJECT: &str = "default";

fn document(project_key: &str, uri: &str, fields: Value) -> Arc<PutDocument> {
    let mut fields = fields;
    fields["uri"] = uri.into();
    let fields = fields.to_string();
    Arc::new(PutDocument {
        project_key: project_key.into(),
        uri: uri.into(),
        payload: format!(r#"{{ "given": {fields} }}"#),
        content_hash: content_hash(fields.as_bytes()),
        fields,
    })
}

fn all() -> DocumentFilter {
    DocumentFilter { project_key: PROJECT.into(), limit: 100, ..DocumentFilter::default() }
}

impl Fixture {
    async fn documents(&self, ask: DocumentFilter) -> Vec<DocumentRow> {
        self.subject.store.documents(ask).await.expect("documents")
    }

    async fn document_ids(&self, ask: DocumentFilter) -> Vec<i64> {
        self.documents(ask).await.into_iter().map(|document| document.id).collect()
    }

    async fn ended(&self, ask: JobFilter) -> Vec<String> {
        let jobs = self.subject.store.ended_jobs(ask).await.expect("jobs");
        jobs.into_iter().map(|job| job.public_id).collect()
    }

    async fn read_tweets(&self, ask: TweetFilter) -> Vec<StoredTweet> {
        self.subject
            .store
            .tweets(TweetFilter { limit: if ask.limit == 0 { 100 } else { ask.limit }, ..ask })
            .await
            .expect("tweets")
    }

    async fn tweet_ids(&self, ask: TweetFilter) -> Vec<String> {
        let id = |tweet: StoredTweet| -> String {
            let fields: Value = serde_json::from_str(&tweet.fields).expect("JSON");
            fields["tweet_id"].as_str().expect("an id").to_owned()
        };
        self.read_tweets(ask).await.into_iter().map(id).collect()
    }
}

// covers: POOL-119
pub(super) async fn document_is_identified_by_its_uri(fx: Fixture) {
    let first = document(PROJECT, "https://a.example/", json!({ "title": "A" }));
    let put = fx.ok(first.clone()).await;
    assert_eq!((put.created, put.changed), (true, false));
    fx.pass(TICK).await;
    assert_eq!(fx.ok(first.clone()).await, DocumentPut { created: false, ..put });
    let row = fx.rows(View::Items).await;
    let stored = row.at(0, "stored_at");
    let now = fx.ok(document(PROJECT, "https://a.example/", json!({ "title": "B" }))).await;
    assert_eq!(now, DocumentPut { id: put.id, created: false, changed: true });
    let rows = fx.rows(View::Items).await;
    assert_eq!(
        (rows.len(), rows.texts("kind"), rows.texts("dedup_key")),
        (1, vec!["document".into()], vec!["https://a.example/".into()])
    );
    assert_eq!(
        (rows.texts("provenance_code"), rows.texts("endpoint_name")),
        (vec!["documents".into()], vec!["documents".into()])
    );
    assert_eq!((rows.at(0, "run_id"), rows.at(0, "updated_at")), (Cell::Int(0), rows.at(0, "stored_at")));
    assert_ne!(rows.at(0, "stored_at"), stored);
    let read = fx.documents(all()).await.remove(0);
    assert_eq!((read.id, &*read.kind), (put.id, "document"));
    assert_eq!(serde_json::from_str::<Value>(&read.fields).expect("JSON")["title"], "B");
    assert!(read.payload.starts_with(r#"{ "given": "#), "as it was given: {}", read.payload);
    let other = fx.ok(document(OTHER, "https://a.example/", json!({ "title": "A" }))).await;
    assert!(other.created && other.id != put.id, "each project has its own");
}

// covers: POOL-08, POOL-30, POOL-31, POOL-32, POOL-39
pub(super) async fn documents_are_found_by_type_state_and_number(fx: Fixture) {
    let mut ids = Vec::new();
    for (no, (of, state)) in [("policy", "CA"), ("policy", "NY"), ("news", "CA")].into_iter().enumerate() {
        let fields = json!({ "doc_type": of, "state": state });
        ids.push(fx.ok(document(PROJECT, &format!("https://a.example/{no}"), fields)).await.id);
    }
    ids.push(fx.ok(document(PROJECT, "https://a.example/plain", json!({}))).await.id);
    let foreign = fx.ok(document(OTHER, "https://b.example/", json!({ "doc_type": "policy" }))).await.id;
    // An item of a page is a document too, by its kind, mapped or not.
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let bare = patra_core::record::Record { fields: String::new(), ..make::record("bare", 1) };
    fx.commit(&lease, run, 1, vec![bare, make::record("mapped", 1)], false).await;
    let newest = fx.document_ids(all()).await;
    assert_eq!(newest.len(), 6);
    assert!(newest.is_sorted_by(|a, b| a > b));
    assert_eq!(newest[2..], [ids[3], ids[2], ids[1], ids[0]]);
    let of = |types: &[&str], states: &[&str]| {
        let list = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        DocumentFilter { doc_types: list(types), states: list(states), ..all() }
    };
    assert_eq!(fx.document_ids(of(&["policy"], &[])).await, [ids[1], ids[0]]);
    assert_eq!(fx.document_ids(of(&["policy", "document"], &[])).await, [ids[3], ids[1], ids[0]]);
    assert_eq!(fx.document_ids(of(&["work"], &[])).await.len(), 2);
    assert_eq!(fx.document_ids(of(&[], &["CA"])).await, [ids[2], ids[0]]);
    assert_eq!(fx.document_ids(of(&["policy"], &["CA", "TX"])).await, [ids[0]]);
    assert_eq!(fx.document_ids(of(&["policy"], &["TX"])).await, Vec::<i64>::new());
    // Numbers alone decide, within the project.
    let exactly = DocumentFilter { ids: Some(vec![ids[2], ids[0], foreign, 999_999]), ..of(&["policy"], &["NY"]) };
    assert_eq!(fx.document_ids(exactly.clone()).await, [ids[2], ids[0]]);
    assert_eq!(fx.document_ids(DocumentFilter { limit: 1, ..exactly.clone() }).await, [ids[2]]);
    assert_eq!(fx.document_ids(DocumentFilter { before: Some(ids[2]), ..exactly }).await, [ids[0]]);
    assert_eq!(fx.document_ids(DocumentFilter { ids: Some(vec![]), ..all() }).await, Vec::<i64>::new());
    // Page by page.
    let first = fx.document_ids(DocumentFilter { limit: 4, ..all() }).await;
    let rest = fx.document_ids(DocumentFilter { before: first.last().copied(), ..all() }).await;
    assert_eq!([first, rest].concat(), newest);
    assert_eq!(fx.document_ids(DocumentFilter { project_key: OTHER.into(), ..all() }).await, [foreign]);
}

// covers: POOL-08, POOL-73, POOL-74, POOL-75, POOL-79
pub(super) async fn jobs_are_listed_once_they_have_ended(fx: Fixture) {
    let ask = || JobFilter { project_key: PROJECT.into(), limit: 100, ..JobFilter::default() };
    // Planned without work, refused, cancelled, waiting; done, failed, in progress; of another project.
    for (id, settlement) in [
        ("nothing", Some(JobSettlement::Nothing { remark: "r".into() })),
        ("refused", Some(JobSettlement::Refused { error: "e".into() })),
        ("cancelled", None),
    ] {
        let taken = fx.trigger(id).await;
        let (instance, fence) = taken.lease();
        match settlement {
            Some(settlement) => drop(fx.ok(SettleJob { job: instance, fence, settlement }).await),
            None => {
                let cancel = CancelWork { target: CancelSubject::Job(id.into()), reason: "r".into(), by: "me".into() };
                assert_eq!(fx.ok(cancel).await.jobs, 1);
            }
        }
    }
    let mut leases = Vec::new();
    for (no, id) in ["done", "failed", "open"].into_iter().enumerate() {
        fx.plan(id, &make::windows(no as i64 * 100, 1)).await;
        leases.push(fx.next().await);
    }
    fx.pass(TICK).await;
    let since = fx.now().await;
    fx.plan_with(of(OTHER, "other", Operation::Harvest), &make::windows(0, 1), |_| ()).await;
    let other = fx.next().await;
    fx.finish(&other, RunEnd::Succeeded).await;
    let done = fx.start(&leases[0]).await;
    fx.commit(&leases[0], done, 1, vec![make::record("a", 1), make::record("b", 1)], false).await;
    fx.end(&leases[0], done, RunEnd::Succeeded).await;
    let failed = fx.start(&leases[1]).await;
    // The item now belongs to the later job.
    fx.commit(&leases[1], failed, 1, vec![make::record("b", 2), make::record("c", 1)], false).await;
    fx.end(&leases[1], failed, RunEnd::Failed { error: make::fault("no") }).await;
    assert_eq!(fx.ended(ask()).await, ["failed", "done", "nothing"]);
    fx.ok(make::fire("waits", Operation::Harvest)).await;
    assert_eq!(fx.ended(ask()).await.len(), 3);
    // Filters.
    let named = |ids: &[&str]| Some(ids.iter().map(|id| (*id).to_owned()).collect());
    assert_eq!(fx.ended(JobFilter { public_ids: named(&["done", "open", "other", "nope"]), ..ask() }).await, ["done"]);
    assert_eq!(fx.ended(JobFilter { public_ids: named(&[]), ..ask() }).await, Vec::<String>::new());
    assert_eq!(fx.ended(JobFilter { limit: 1, ..ask() }).await, ["failed"]);
    assert_eq!(fx.ended(JobFilter { job_type: Some(make::PROVENANCE.into()), ..ask() }).await.len(), 3);
    assert_eq!(fx.ended(JobFilter { job_type: Some("else".into()), ..ask() }).await, Vec::<String>::new());
    let both = JobFilter { job_type: Some("else".into()), public_ids: named(&["done"]), ..ask() };
    assert_eq!(fx.ended(both).await, Vec::<String>::new());
    assert_eq!(fx.ended(JobFilter { since: Some(since), ..ask() }).await, Vec::<String>::new());
    let theirs = JobFilter { project_key: OTHER.into(), since: Some(since), ..ask() };
    assert_eq!(fx.ended(theirs).await, ["other"]);
    // The items that the jobs stored last, page by page.
    let jobs = fx.subject.store.ended_jobs(ask()).await.expect("jobs");
    assert_eq!((&*jobs[1].job_type, &*jobs[1].params, &jobs[1].result), (make::PROVENANCE, "{}", &None));
    let items =
        async |instance, after, limit| fx.subject.store.items_of_job(instance, after, limit).await.expect("items");
    let of_failed = items(jobs[0].job, 0, 10).await;
    assert_eq!(
        of_failed.iter().map(|item| &*item.2).collect::<Vec<_>>(),
        [r#"{"id":"b","at":2}"#, r#"{"id":"c","at":1}"#]
    );
    assert_eq!(items(jobs[0].job, 0, 1).await, of_failed[..1]);
    assert_eq!(items(jobs[0].job, of_failed[0].0, 10).await, of_failed[1..]);
    let of_done = items(jobs[1].job, 0, 10).await;
    assert_eq!(of_done.iter().map(|item| &*item.1).collect::<Vec<_>>(), [r#"{"at":1}"#]);
    assert_eq!(items(jobs[2].job, 0, 10).await, []);
}

// covers: POOL-79
pub(super) async fn partitions_are_part_of_their_job(fx: Fixture) {
    let ask = || JobFilter { project_key: PROJECT.into(), limit: 100, ..JobFilter::default() };
    let taken = fx.trigger("all").await;
    fx.ok(Arc::new(make::fan(&taken, &["ann", "bob"], true))).await;
    assert_eq!(fx.ended(ask()).await, Vec::<String>::new(), "its partitions wait for planning");
    let mut leases = Vec::new();
    for no in 0..2 {
        let child = fx.take().await.expect("a partition");
        let epoch = fx.coverage().await.epoch;
        fx.ok(Arc::new(make::plan(&child, epoch, &make::windows(no * 100, 1)))).await;
        leases.push(fx.next().await);
    }
    let key = ["x", "a"];
    for (no, lease) in leases.iter().enumerate() {
        assert_eq!(fx.ended(ask()).await, Vec::<String>::new());
        let run = fx.start(lease).await;
        fx.commit(lease, run, 1, vec![make::record(key[no], 1)], true).await;
        fx.commit(lease, run, 2, vec![make::record(&format!("{}2", key[no]), 1)], false).await;
        fx.end(lease, run, RunEnd::Succeeded).await;
    }
    assert_eq!(fx.ended(ask()).await, ["all"]);
    let items = fx.subject.store.items_of_job(taken.job.0, 0, 3).await.expect("items");
    assert!(items.len() == 3 && items.is_sorted_by(|a, b| a.0 < b.0));
    let rest = fx.subject.store.items_of_job(taken.job.0, items[2].0, 3).await.expect("items");
    assert_eq!(rest.len(), 1);
    assert!(rest[0].0 > items[2].0);
}

// covers: TWEET-60
pub(super) async fn tweets_are_read_newest_first(fx: Fixture) {
    let ids = fx.feeds(&["Ann", "bob"].map(user)).await;
    fx.tweeted(ids[0], vec![tweet("1", 100, "Ann"), tweet("2", 300, "Ann")]).await;
    let since = fx.now().await;
    fx.tweeted(ids[1], vec![tweet("3", 200, "bob"), tweet("4", 300, "bob")]).await;
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    let stream = Arc::new(RecordStream { project_key: OTHER.into(), ..RecordStream::clone(&tweets()) });
    let page = CommitBatch { stream, ..make::page(&lease, run, 1, vec![tweet("5", 50, "ANN")], true) };
    fx.ok(Arc::new(page)).await;
    fx.commit(&lease, run, 2, vec![make::record("no tweet", 900)], false).await;
    let own = || TweetFilter { project_key: Some(PROJECT.into()), ..TweetFilter::default() };
    assert_eq!(fx.tweet_ids(own()).await, ["4", "2", "3", "1"], "by time of writing, then the later stored");
    assert_eq!(fx.tweet_ids(TweetFilter::default()).await, ["4", "2", "3", "1", "5"]);
    let author = |name: &str, filter| TweetFilter { author: Some(name.into()), ..filter };
    assert_eq!(fx.tweet_ids(author("aNN", own())).await, ["2", "1"]);
    assert_eq!(fx.tweet_ids(author("ann", TweetFilter::default())).await, ["2", "1", "5"]);
    assert_eq!(fx.tweet_ids(author("a", own())).await, Vec::<String>::new());
    assert_eq!(fx.tweet_ids(TweetFilter { since: Some(since), ..own() }).await, ["4", "3"]);
    assert_eq!(fx.tweet_ids(author("ANN", TweetFilter { since: Some(since), ..own() })).await, Vec::<String>::new());
    assert_eq!(fx.tweet_ids(TweetFilter { limit: 2, ..own() }).await, ["4", "2"]);
    let stored = |filter| TweetFilter { since: Some(Ts::from_secs(0)), ..filter };
    assert_eq!(fx.tweet_ids(stored(TweetFilter::default())).await, ["5", "4", "3", "2", "1"], "by time of storing");
    for filter in [own(), TweetFilter::default(), author("ann", own()), author("ann", TweetFilter::default())] {
        for filter in [stored(filter.clone()), filter] {
            let all = fx.read_tweets(filter.clone()).await;
            let (mut pages, mut before) = (Vec::new(), None);
            loop {
                let page = fx.read_tweets(TweetFilter { before, limit: 1, ..filter.clone() }).await;
                let Some(last) = page.last() else { break };
                before = Some(last.position);
                pages.extend(page);
            }
            assert_eq!(pages, all, "{filter:?}");
        }
    }
    let stored = fx.read_tweets(author("bob", own())).await.remove(1);
    assert!(stored.db_created_at >= since && stored.db_updated_at == stored.db_created_at);
    assert!(stored.db_created_at > Ts::from_secs(1_000_000));
    // A change moves one of the two.
    fx.pass(TICK).await;
    fx.tweeted(ids[1], vec![tweet("3", 250, "bob")]).await;
    let changed = fx.read_tweets(author("bob", own())).await.remove(1);
    assert_eq!(changed.db_created_at, stored.db_created_at);
    assert!(changed.db_updated_at > stored.db_updated_at);
}
