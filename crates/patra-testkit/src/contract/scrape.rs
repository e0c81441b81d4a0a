//! Jobs that poll many sources: their counts and their events.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::query::{View, ViewFilter};
use patra_core::record::{Record, RecordStream, TWEET};
use patra_core::state::{JobStatus, TaskStatus, TriggerType};
use patra_core::tweet::{FetchStats, NewestTweet};
use patra_core::tx::{
    BatchStats, CancelSubject, CancelWork, ChangeSource, CommitBatch, ExpiredPurged, Lease, NewPoll, NewSource,
    PollEnd, PollsQueued, PurgeExpired, QueuePolls, RunEnd, ScrapeConflict, ScrapeJob,
};
use patra_core::{Code, Fault, JobId, Level, RunId, SourceId};
use serde_json::{Value, json};

use super::concurrent::at_once;
use super::source::{PROJECT, failed, feed, poll_end};
use super::{Fixture, make};

pub(super) const TICK: Duration = Duration::from_millis(5);

/// A user that is followed.
pub(super) fn user(name: &str) -> NewSource {
    NewSource { config: json!({ "username": name }).to_string(), ..feed(name) }
}

/// A tweet, at so many seconds since 1970.
pub(super) fn tweet(id: &str, at: i64, author: &str) -> Record {
    let fields = json!({ "tweet_id": id, "text": "hi", "author_username": author });
    Record { fields: fields.to_string(), ..make::record(id, at) }
}

pub(super) fn tweets() -> Arc<RecordStream> {
    Arc::new(RecordStream { kind: TWEET.into(), ..make::stream() })
}

fn counted(id: SourceId) -> PollEnd {
    PollEnd { counted: true, emit: true, ..poll_end(id) }
}

fn job(public_id: &str) -> ScrapeJob {
    ScrapeJob {
        trigger_type: TriggerType::Api,
        public_id: public_id.into(),
        project_key: PROJECT.into(),
        job_type: "scrape".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        params: r#"{"usernames":["a"]}"#.into(),
        request_id: Some("req-9".into()),
    }
}

impl Fixture {
    async fn new_polls(&self, ids: &[SourceId]) -> Vec<NewPoll> {
        let mut polls = Vec::new();
        for id in ids {
            polls.push(self.new_poll(*id).await);
        }
        polls
    }

    async fn ask_scrape(&self, public_id: &str, polls: Vec<NewPoll>) -> PollsQueued {
        let snapshots = vec![("spec".to_owned(), r#"{"spec":1}"#.to_owned())];
        self.ok(Arc::new(QueuePolls { polls, unfit: Vec::new(), snapshots, job: Some(job(public_id)) })).await
    }

    pub(super) async fn scrape(&self, public_id: &str, ids: &[SourceId]) -> PollsQueued {
        self.ask_scrape(public_id, self.new_polls(ids).await).await
    }

    /// One page of a claimed poll.
    pub(super) async fn bring_tweets(&self, lease: &Lease, run: RunId, no: u32, records: Vec<Record>) -> BatchStats {
        let page = CommitBatch { stream: tweets(), ..make::page(lease, run, no, records, true) };
        self.ok(Arc::new(page)).await.stats
    }

    /// Polls a source that returns these tweets, and succeeds.
    pub(super) async fn tweeted(&self, id: SourceId, records: Vec<Record>) {
        let lease = self.polled(id).await;
        let (run, _) = self.start_poll(&lease).await;
        self.bring_tweets(&lease, run, 1, records).await;
        assert_eq!(self.end_poll(&lease, run, RunEnd::Succeeded, counted(id)).await, TaskStatus::Succeeded);
        self.pass(TICK).await;
    }

    async fn stats(&self, id: SourceId) -> Option<FetchStats> {
        let stats = self.subject.store.fetch_stats(&[id]).await.expect("statistics");
        stats.into_iter().map(|(of, stats)| (of == id).then_some(stats).expect("of the source")).next()
    }

    async fn payloads(&self) -> Vec<Value> {
        let texts = self.rows(View::Outbox).await.texts("payload");
        texts.iter().rev().map(|text| serde_json::from_str(text).expect("JSON")).collect()
    }
}

// covers: MAP-C-05
pub(super) async fn job_polls_its_sources_and_lists_them(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(user)).await;
    let polled = fx.scrape("job", &[ids[1], ids[0]]).await;
    assert_eq!((polled.busy, polled.tasks.iter().flatten().count()), (None, 2));
    let jobs = fx.rows(View::Jobs).await;
    let root = JobId(*jobs.ids().last().expect("the job"));
    assert_eq!(jobs.texts("job_type"), [make::PROVENANCE, make::PROVENANCE, "scrape"]);
    assert_eq!(jobs.texts("status_code"), ["PLANNED"; 3]);
    let one = ViewFilter { public_id: Some("job".into()), ..ViewFilter::default() };
    let asked = fx.filtered(View::Jobs, one).await;
    assert_eq!(
        (asked.texts("trigger_type_code"), asked.texts("project_key")),
        (vec!["API".into()], vec![PROJECT.into()])
    );
    let progress = fx.progress("job").await;
    assert_eq!((progress.job, progress.partitions, progress.partitions_open), (root, 2, 2));
    assert_eq!((progress.tasks_queued, progress.request_id.as_deref()), (2, Some("req-9")));
    assert!(!progress.is_finished() && progress.job_status == JobStatus::Planned);

    let polls = async || fx.subject.store.polls_of_job(root.0).await.expect("polls");
    let before = polls().await;
    assert_eq!(before.iter().map(|poll| poll.source).collect::<Vec<_>>(), [ids[0], ids[1]]);
    let config: Value = serde_json::from_str(&before[0].config).expect("JSON");
    assert_eq!(
        (config["username"].as_str(), before[0].status, before[0].started_at),
        (Some("a"), TaskStatus::Queued, None)
    );
    for lease in fx.claim_polls("x", 9, 9).await {
        let (run, _) = fx.start_poll(&lease).await;
        let id = lease.source.expect("a source");
        if id == ids[0] {
            fx.bring_tweets(&lease, run, 1, vec![tweet("1", 1, "a"), tweet("2", 2, "a")]).await;
            fx.bring_tweets(&lease, run, 2, vec![tweet("2", 2, "a"), tweet("3", 3, "a")]).await;
            fx.end_poll(&lease, run, RunEnd::Succeeded, counted(id)).await;
        } else {
            fx.end_poll(&lease, run, failed("no such user"), counted(id)).await;
        }
    }
    let after = polls().await;
    assert_eq!((after[0].status, after[0].inserted, after[0].skipped), (TaskStatus::Succeeded, 3, 1));
    assert!(after[0].error.is_none() && after[0].started_at <= after[0].finished_at && after[0].finished_at.is_some());
    assert_eq!((after[1].status, after[1].inserted), (TaskStatus::Failed, 0));
    assert!(after[1].error.as_ref().is_some_and(|error| error.contains("no such user")));
    let progress = fx.progress("job").await;
    assert!(progress.is_finished() && progress.started_at.is_some() && progress.finished_at.is_some());
    assert_eq!((progress.tasks_succeeded, progress.tasks_failed, progress.inserted), (1, 1, 3));
    assert_eq!(
        fx.payloads().await,
        [json!({ "job": "job", "source_id": ids[0], "username": "a", "tweet_ids": ["1", "2", "3"] })]
    );
    let items = fx.subject.store.items_of_job(root.0, 0, 10).await.expect("items");
    assert_eq!(items.len(), 3);
}

pub(super) async fn job_starts_whole_or_not_at_all(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d"].map(user)).await;
    let jobs = async || fx.rows(View::Jobs).await.len();
    let busy = |public_id: &str, sources: &[SourceId]| {
        Some(ScrapeConflict { public_id: public_id.into(), sources: sources.to_vec() })
    };
    fx.scrape("first", &ids[..2]).await;
    assert_eq!(jobs().await, 3);
    // The job conflicts with the first, and nothing is written.
    let refused = fx.scrape("second", &[ids[2], ids[1], ids[0]]).await;
    assert_eq!((refused.busy, refused.tasks), (busy("first", &ids[..2]), vec![None; 3]));
    assert_eq!(jobs().await, 3);
    assert_eq!(fx.source(ids[2]).await.poll_count, 0);
    // A scheduled poll in progress.
    fx.queue(&[ids[2]]).await;
    let lease = fx.claim_polls("x", 9, 9).await.into_iter().find(|lease| lease.source == Some(ids[2])).expect("it");
    let own = format!("source-{}-0", ids[2]);
    assert_eq!(fx.scrape("third", &[ids[3], ids[2]]).await.busy, busy(&own, &ids[2..3]));
    // The conflict names the job of the source with the smallest id.
    assert_eq!(fx.scrape("third", &[ids[2], ids[1]]).await.busy, busy("first", &ids[1..2]));
    let (run, _) = fx.start_poll(&lease).await;
    assert_eq!(fx.scrape("third", &[ids[2]]).await.busy, busy(&own, &ids[2..3]));
    fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(ids[2])).await;
    // Sources that were polled or deleted since they were read.
    let stale = NewPoll { poll_count: 0, ..fx.new_poll(ids[2]).await };
    let other = fx.new_poll(ids[3]).await;
    assert_eq!(fx.ask_scrape("third", vec![other.clone(), stale]).await.busy, busy("", &ids[2..3]));
    fx.change(ids[3], ChangeSource { delete: true, ..ChangeSource::default() }).await.expect("a change");
    assert_eq!(fx.ask_scrape("third", vec![other]).await.busy, busy("", &ids[3..]));
    assert_eq!(fx.subject.store.progress("third").await, Ok(None));
    assert_eq!(fx.scrape("third", &ids[2..3]).await.busy, None);
}

pub(super) async fn job_replaces_a_waiting_poll(fx: Fixture) {
    let ids = fx.feeds(&["a", "b"].map(user)).await;
    let waiting = fx.queue(&ids[..1]).await[0];
    let polled = fx.scrape("job", &ids).await;
    assert_eq!(polled.busy, None);
    let tasks = fx.rows(View::Tasks).await;
    assert_eq!(tasks.text_of(waiting.0, "status_code"), "CANCELLED");
    let instead = fx.progress(&format!("source-{}-0", ids[0])).await;
    assert_eq!((instead.tasks_cancelled, instead.is_finished()), (1, true));
    let taken: Vec<_> = fx.claim_polls("x", 9, 9).await.iter().map(|lease| lease.task).collect();
    let mut expected: Vec<_> = polled.tasks.into_iter().flatten().collect();
    expected.sort_unstable();
    assert_eq!(taken, expected);
    assert_eq!(fx.source(ids[0]).await.poll_count, 2);
}

pub(super) async fn job_requested_again_is_the_same(fx: Fixture) {
    let ids = fx.feeds(&["a", "b"].map(user)).await;
    let polls = fx.new_polls(&ids).await;
    let first = fx.ask_scrape("job", polls.clone()).await;
    fx.claim_polls("x", 1, 9).await;
    let again = fx.ask_scrape("job", polls.into_iter().rev().collect()).await;
    assert_eq!((again.busy, again.tasks), (None, first.tasks.into_iter().rev().collect()));
    assert_eq!((fx.rows(View::Jobs).await.len(), fx.rows(View::Tasks).await.len()), (3, 2));
    let cancel = CancelWork { target: CancelSubject::Job("job".into()), reason: "r".into(), by: "me".into() };
    assert_eq!(fx.ok(cancel).await.tasks, 2, "it is cancelled with all its polls");
    assert!(fx.progress("job").await.is_finished());
}

// covers: TWEET-99
pub(super) async fn concurrent_jobs_give_the_sources_to_one(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(user)).await;
    let polls = fx.new_polls(&ids).await;
    let snapshots = vec![("spec".to_owned(), r#"{"spec":1}"#.to_owned())];
    let ask = |no: usize| {
        let mut polls = polls.clone();
        polls.rotate_left(no % 3);
        Arc::new(QueuePolls {
            polls,
            unfit: Vec::new(),
            snapshots: snapshots.clone(),
            job: Some(job(&format!("job {no}"))),
        })
    };
    let answers = at_once(&fx, (0..12).map(ask).collect()).await;
    let begun = answers.iter().filter(|answer| answer.as_ref().expect("an answer").busy.is_none()).count();
    assert_eq!(begun, 1);
    assert_eq!((fx.rows(View::Jobs).await.len(), fx.rows(View::Tasks).await.len()), (4, 3));
}

// covers: TWEET-75, TWEET-76, TWEET-77, TWEET-78, TWEET-79, TWEET-80, TWEET-91, TWEET-92
pub(super) async fn successful_fetches_of_a_user_are_counted(fx: Fixture) {
    let ids = fx.feeds(&["a", "b"].map(user)).await;
    assert_eq!(fx.stats(ids[0]).await, None);
    // The counts cover all pages of all runs of the task.
    let lease = fx.polled(ids[0]).await;
    let (run, _) = fx.start_poll(&lease).await;
    fx.bring_tweets(&lease, run, 1, vec![tweet("1", 1, "a"), tweet("2", 1, "a")]).await;
    let again = RunEnd::Requeue { delay: Duration::ZERO, error: make::fault("later"), counted: false };
    assert_eq!(fx.end_poll(&lease, run, again, counted(ids[0])).await, TaskStatus::Queued);
    assert_eq!((fx.stats(ids[0]).await, fx.payloads().await.len()), (None, 0), "it has not ended");
    fx.pass(TICK).await;
    let lease = fx.claim_polls("x", 9, 9).await.remove(0);
    let (run, _) = fx.start_poll(&lease).await;
    fx.bring_tweets(&lease, run, 1, vec![tweet("2", 1, "a"), tweet("3", 1, "a")]).await;
    fx.end_poll(&lease, run, RunEnd::Partial { error: make::fault("a cap") }, counted(ids[0])).await;
    let first = fx.stats(ids[0]).await.expect("statistics");
    assert_eq!((first.last_fetched_count, first.last_new_count, first.total_fetches), (4, 3, 1));
    assert_eq!((first.avg_new_rate, first.consecutive_empty_fetches), (0.75, 0));
    assert_eq!(fx.payloads().await.len(), 1);
    fx.pass(TICK).await;
    // A failure changes nothing.
    fx.fetch(ids[0], failed("gone"), counted(ids[0])).await;
    assert_eq!(fx.stats(ids[0]).await, Some(first.clone()));
    // A poll without new items is counted and emits no event.
    fx.tweeted(ids[0], vec![tweet("1", 1, "a")]).await;
    let second = fx.stats(ids[0]).await.expect("statistics");
    assert!(second.last_fetch_at > first.last_fetch_at);
    assert_eq!(second, first.after(1, 0, second.last_fetch_at));
    assert_eq!((second.consecutive_empty_fetches, fx.payloads().await.len()), (1, 1));
    assert_eq!(fx.stats(ids[1]).await, None);
    // The newest id is kept until a complete poll moves it.
    for (id, complete, expected) in [("7", false, "7"), ("80", false, "7"), ("80", true, "80"), ("9", true, "80")] {
        let newest = Some(NewestTweet { id: id.into(), complete });
        fx.fetch(ids[0], RunEnd::Succeeded, PollEnd { newest: newest.clone(), ..counted(ids[0]) }).await;
        assert_eq!(fx.stats(ids[0]).await.and_then(|stats| stats.newest_id).as_deref(), Some(expected));
        fx.fetch(ids[0], failed("gone"), PollEnd { newest, ..counted(ids[0]) }).await;
        assert_eq!(fx.stats(ids[0]).await.and_then(|stats| stats.newest_id).as_deref(), Some(expected));
    }
    // A poll end without `counted` and `emit` neither counts nor emits.
    let lease = fx.polled(ids[1]).await;
    let (run, _) = fx.start_poll(&lease).await;
    fx.bring_tweets(&lease, run, 1, vec![tweet("9", 1, "b")]).await;
    fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(ids[1])).await;
    assert_eq!((fx.stats(ids[1]).await, fx.payloads().await.len()), (None, 1));
}

// covers: TWEET-98
pub(super) async fn old_job_is_deleted_with_all_its_polls(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(user)).await;
    fx.scrape("old", &ids[..1]).await;
    fx.scrape("open", &ids[1..]).await;
    for lease in fx.claim_polls("x", 2, 9).await {
        let (run, _) = fx.start_poll(&lease).await;
        let id = lease.source.expect("a source");
        fx.bring_tweets(&lease, run, 1, vec![tweet(&id.to_string(), 1, "a")]).await;
        fx.end_poll(&lease, run, RunEnd::Succeeded, counted(id)).await;
    }
    fx.pass(make::BEYOND).await;
    let clean = |keep_ledger, keep_jobs| PurgeExpired { keep: None, keep_ledger, keep_jobs, limit: 10 };
    assert_eq!(fx.ok(clean(Duration::ZERO, make::LONG)).await, ExpiredPurged::default(), "polls of a job stay with it");
    assert_eq!(
        fx.ok(clean(Duration::ZERO, Duration::ZERO)).await,
        ExpiredPurged { jobs: 1, ..ExpiredPurged::default() }
    );
    assert_eq!(fx.ok(clean(Duration::ZERO, Duration::ZERO)).await, ExpiredPurged::default());
    assert_eq!(fx.subject.store.progress("old").await, Ok(None));
    assert_eq!(fx.progress("open").await.partitions, 2);
    let counts = [View::Jobs, View::Plans, View::Slices, View::Tasks, View::Runs, View::Batches];
    for (view, left) in counts.into_iter().zip([3, 2, 2, 2, 1, 1]) {
        assert_eq!(fx.rows(view).await.len(), left, "{}", view.as_str());
    }
    assert_eq!(fx.rows(View::Items).await.len(), 2, "what they brought stays");
    fx.pass(TICK).await;
    let lease = fx.claim_polls("x", 9, 9).await.remove(0);
    let id = lease.source.expect("a source");
    let (run, _) = fx.start_poll(&lease).await;
    fx.end_poll(&lease, run, RunEnd::Succeeded, counted(id)).await;
    fx.pass(make::BEYOND).await;
    assert_eq!(fx.ok(clean(Duration::ZERO, Duration::ZERO)).await.jobs, 1);
    assert_eq!((fx.rows(View::Jobs).await.len(), fx.rows(View::Tasks).await.len()), (0, 0));
}

// covers: TWEET-05, TWEET-56, TWEET-57, TWEET-60, TWEET-TEST-4
pub(super) async fn tweet_is_stored_once_by_concurrent_polls(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c", "d"].map(user)).await;
    let lease = fx.polled(ids[0]).await;
    let (run, _) = fx.start_poll(&lease).await;
    let counts = |stats: BatchStats| (stats.inserted, stats.updated, stats.skipped);
    let first = fx.bring_tweets(&lease, run, 1, vec![tweet("1", 1, "a"), tweet("2", 1, "a")]).await;
    assert_eq!(counts(first), (2, 0, 0));
    let second = fx.bring_tweets(&lease, run, 2, vec![tweet("2", 1, "a"), tweet("3", 1, "a")]).await;
    assert_eq!(counts(second), (1, 0, 1), "a known one is skipped");
    fx.end_poll(&lease, run, RunEnd::Succeeded, counted(ids[0])).await;
    // All polls return the tweet at the same time.
    fx.queue(&ids[1..]).await;
    let mut pages = Vec::new();
    for lease in fx.claim_polls("x", 9, 9).await {
        let (run, _) = fx.start_poll(&lease).await;
        let page = make::page(&lease, run, 1, vec![tweet("9", 1, "z")], true);
        pages.push(Arc::new(CommitBatch { stream: tweets(), ..page }));
    }
    let done = at_once(&fx, pages).await.into_iter().map(|done| done.expect("an answer").stats);
    let stored: Vec<_> = done.map(counts).collect();
    assert_eq!(stored.iter().filter(|counts| **counts == (1, 0, 0)).count(), 1, "{stored:?}");
    assert_eq!(stored.iter().filter(|counts| **counts == (0, 0, 1)).count(), 2, "{stored:?}");
    assert_eq!(fx.rows(View::Items).await.len(), 4);
    let known = ["1", "9", "unheard"].map(str::to_owned);
    let known = fx.subject.store.stored(&tweets(), &known).await.expect("an answer");
    let mut known: Vec<_> = known.into_iter().map(|stored| stored.key).collect();
    known.sort();
    assert_eq!(known, ["1", "9"], "whether there is such a tweet");
}

// covers: TWEET-153
pub(super) async fn thousand_tweets_are_stored_within_ten_seconds(fx: Fixture) {
    let ids = fx.feeds(&[user("a")]).await;
    let lease = fx.polled(ids[0]).await;
    let (run, _) = fx.start_poll(&lease).await;
    let began = tokio::time::Instant::now();
    let mut inserted = 0;
    for no in 1..=50 {
        let page = (0..20).map(|at| tweet(&format!("{no}-{at}"), 1, "a")).collect();
        inserted += fx.bring_tweets(&lease, run, no, page).await.inserted;
    }
    assert_eq!(inserted, 1_000);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

// covers: TWEET-16, TWEET-109
pub(super) async fn scheduled_job_leaves_out_busy_sources(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(user)).await;
    let by_clock = async |public_id: &str, ids: &[SourceId]| {
        let job = Some(ScrapeJob { trigger_type: TriggerType::Schedule, ..job(public_id) });
        let snapshots = vec![("spec".to_owned(), r#"{"spec":1}"#.to_owned())];
        let polled =
            fx.ok(Arc::new(QueuePolls { polls: fx.new_polls(ids).await, unfit: Vec::new(), snapshots, job })).await;
        (polled.tasks.iter().map(Option::is_some).collect::<Vec<_>>(), polled.busy)
    };
    let conflict = |public_id: &str, sources: &[SourceId]| {
        Some(ScrapeConflict { public_id: public_id.into(), sources: sources.to_vec() })
    };
    fx.scrape("by hand", &[ids[0]]).await;
    assert_eq!(by_clock("first", &ids).await, (vec![false, true, true], None), "only the busy one is left out");
    let still_running = (vec![false; 3], conflict("first", &[ids[1], ids[2]]));
    assert_eq!(by_clock("second", &ids).await, still_running, "the one before it has just begun");
    // A source that only waits in a scheduled job can be polled by hand.
    assert_eq!(fx.scrape("now", &[ids[1]]).await.busy, None);
    assert_eq!(fx.scrape("again", &[ids[1]]).await.busy, conflict("now", &[ids[1]]));
    let first = fx.progress("first").await.job;
    let polls = fx.subject.store.polls_of_job(first.0).await.expect("polls");
    assert_eq!(polls.iter().map(|poll| poll.source).collect::<Vec<_>>(), [ids[2]], "it left the scheduled job");
    // An upstream asks for a long pause: the poll waits, and so does nobody else.
    for lease in fx.claim_polls("x", 9, 9).await {
        let (run, _) = fx.start_poll(&lease).await;
        let id = lease.source.expect("a source");
        let error = Fault::new(Code::RateLimited, Level::L1, "a pause");
        let pause = RunEnd::Requeue { delay: make::LONG, error, counted: false };
        fx.end_poll(&lease, run, if id == ids[2] { pause } else { RunEnd::Succeeded }, poll_end(id)).await;
    }
    assert_eq!(by_clock("third", &ids).await, (vec![true, true, false], None));
    assert_eq!(by_clock("fourth", &ids[2..]).await, (vec![false], conflict("first", &ids[2..])));
    assert_eq!(fx.scrape("by hand too", &ids[2..]).await.busy, conflict("first", &ids[2..]));
}
