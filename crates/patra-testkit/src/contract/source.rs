//! Sources: identity, due times, and changes by users.

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::Store;
use patra_core::port::source::{DueSources, SourceFilter, StoredSource};
use patra_core::source::{Interval, SourceState, key};
use patra_core::state::{IntervalFrom, PausedReason, TaskStatus, TriggerType};
use patra_core::tx::{
    ChangeSource, ClaimPolls, EndRun, Heartbeat, Lease, LeaseRef, NewPoll, NewSource, NewSourceConfig, PollEnd,
    QueuePolls, RunEnd, RunStarted, SaveSetting, SaveSources, SavedSource, SourceChanged, SourceTypeRow, StartRun,
    SyncTypes, TxError,
};
use patra_core::{Code, Fault, Level, RunId, SourceId, TaskId, Ts};

use super::{Fixture, make};

pub(super) const PROJECT: &str = "default";
const MINUTE: Duration = Duration::from_secs(60);

/// A feed of a host of its own.
pub(super) fn feed(name: &str) -> NewSource {
    at(name, &format!("https://{name}.example/feed"))
}

pub(super) fn at(name: &str, url: &str) -> NewSource {
    let config = serde_json::json!({ "url": url });
    NewSource {
        r#type: "rss".into(),
        name: name.into(),
        config: patra_core::hash::canonical(&config),
        source_key: key("rss", &config),
        minutes: None,
        is_public: true,
        is_active: true,
        last_fetched_at: None,
    }
}

fn kind(name: &str, minutes: u32, unsupported: Option<&str>) -> SourceTypeRow {
    let interval = Interval { minutes, from: IntervalFrom::Default };
    SourceTypeRow { r#type: name.into(), interval, unsupported: unsupported.map(str::to_owned) }
}

impl Fixture {
    fn store(&self) -> &dyn Store {
        &*self.subject.store
    }

    /// Syncs source types, and returns the number of sources whose due time changed.
    async fn sync(&self, types: &[SourceTypeRow]) -> u64 {
        self.ok(SyncTypes { types: types.to_vec() }).await.moved
    }

    async fn save(&self, sources: &[NewSource]) -> Vec<SavedSource> {
        let op = SaveSources { project_key: PROJECT.into(), sources: sources.to_vec() };
        self.ok(Arc::new(op)).await.sources
    }

    /// Sources of a type that is fetched every 240 minutes.
    pub(super) async fn feeds(&self, sources: &[NewSource]) -> Vec<SourceId> {
        self.sync(&[kind("rss", 240, None)]).await;
        self.save(sources).await.into_iter().map(|saved| saved.id).collect()
    }

    pub(super) async fn due(&self) -> DueSources {
        self.store().due(100).await.expect("who is due")
    }

    async fn sources(&self, ask: SourceFilter) -> Vec<StoredSource> {
        self.store().sources(ask).await.expect("sources")
    }

    pub(super) async fn source(&self, id: SourceId) -> StoredSource {
        let ask = SourceFilter { ids: Some(vec![id.0]), ..SourceFilter::default() };
        self.sources(ask).await.pop().expect("the source")
    }

    pub(super) async fn state(&self, id: SourceId) -> SourceState {
        self.source(id).await.state
    }

    pub(super) async fn change(&self, id: SourceId, change: ChangeSource) -> Result<SourceChanged, TxError> {
        self.run(ChangeSource { id: id.0, project_key: PROJECT.into(), ..change }).await
    }

    pub(super) async fn new_poll(&self, id: SourceId) -> NewPoll {
        poll_of(&self.source(id).await)
    }

    pub(super) async fn poll(&self, polls: Vec<NewPoll>) -> Vec<Option<TaskId>> {
        let snapshots = vec![("spec".to_owned(), r#"{"spec":1}"#.to_owned())];
        self.ok(Arc::new(QueuePolls { polls, unfit: Vec::new(), snapshots, job: None })).await.tasks
    }

    /// Queues a poll of each.
    pub(super) async fn queue(&self, ids: &[SourceId]) -> Vec<TaskId> {
        let mut polls = Vec::new();
        for id in ids {
            polls.push(self.new_poll(*id).await);
        }
        self.poll(polls).await.into_iter().map(|task| task.expect("a task")).collect()
    }

    pub(super) async fn claim_polls(&self, owner: &str, limit: u32, per_host: u32) -> Vec<Lease> {
        self.ok(ClaimPolls { owner: owner.into(), limit, lease: make::LONG, per_host }).await.leases
    }

    /// Queues and claims a poll of a source, which must be the only one that waits.
    pub(super) async fn polled(&self, id: SourceId) -> Lease {
        self.queue(&[id]).await;
        let mut leases = self.claim_polls("collector", 10, 10).await;
        assert_eq!((leases.len(), leases[0].source), (1, Some(id)));
        leases.remove(0)
    }

    /// Starts a run, and returns the validators of the source.
    pub(super) async fn start_poll(&self, lease: &Lease) -> (RunId, Option<patra_core::source::Validators>) {
        match self.ok(StartRun { lease: LeaseRef::from(lease) }).await {
            RunStarted::Go { run, validators: known, .. } => (run, known.map(|known| *known)),
            RunStarted::Cancelled => panic!("the poll was cancelled"),
        }
    }

    /// Runs a poll from its claim to its end.
    pub(super) async fn fetch(&self, id: SourceId, end: RunEnd, poll: PollEnd) -> TaskStatus {
        let lease = self.polled(id).await;
        let (run, _) = self.start_poll(&lease).await;
        self.end_poll(&lease, run, end, poll).await
    }

    pub(super) async fn end_poll(&self, lease: &Lease, run: RunId, end: RunEnd, poll: PollEnd) -> TaskStatus {
        let op = EndRun { poll: Some(poll), max_attempts: 1, ..make::end(lease, run, end) };
        self.ok(Arc::new(op)).await.task_status
    }
}

pub(super) fn poll_of(source: &StoredSource) -> NewPoll {
    NewPoll {
        source: source.id,
        poll_count: source.poll_count,
        trigger_type: TriggerType::Schedule,
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: make::ENDPOINT.into(),
        host: format!("{}.example", source.name),
        snapshot_hash: "spec".into(),
        credential: None,
        params: r#"{"url":"x"}"#.into(),
        expr_hash: format!("expr {}", source.id),
        at: Ts::from_secs(0),
        priority: 100,
    }
}

/// A poll end without validators, a move, counts or events.
pub(super) fn poll_end(id: SourceId) -> PollEnd {
    PollEnd {
        source: id,
        validators: None,
        moved_to: None,
        offline: false,
        gone: false,
        flaw: None,
        counted: false,
        emit: false,
        newest: None,
    }
}

pub(super) fn failed(message: &str) -> RunEnd {
    RunEnd::Failed { error: Fault::new(Code::NetworkError, Level::L1, message) }
}

/// Asserts that a time is `span` after `since`, with a tolerance of `percent` and the time that a case takes.
#[track_caller]
pub(super) fn is_after(at: Option<Ts>, since: Ts, span: Duration, percent: u32) {
    let at = at.expect("a time");
    let (least, most) = (span * (100 - percent) / 100, span * (100 + percent) / 100);
    assert!(since + least <= at && at <= since + most + MINUTE, "{at} is not {span:?} after {since}");
}

pub(super) async fn source_is_saved_once_per_key_and_project(fx: Fixture) {
    fx.sync(&[kind("rss", 240, None)]).await;
    let first = fx.save(&[feed("a"), feed("b"), NewSource { name: "again".into(), ..feed("a") }]).await;
    assert_eq!(first.iter().map(|saved| saved.existed).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(first[0].id, first[2].id);
    assert_ne!(first[0].id, first[1].id);
    let again = fx.save(&[feed("c"), feed("b")]).await;
    assert_eq!((again[0].existed, again[1]), (false, SavedSource { id: first[1].id, existed: true }));
    assert_eq!(fx.source(first[0].id).await.name, "a", "what was there stays as it was");
    let other = SaveSources { project_key: "other".into(), sources: vec![feed("a")] };
    assert!(!fx.ok(Arc::new(other)).await.sources[0].existed);
    assert_eq!(fx.save(&[]).await, []);
}

// covers: COLL-24
pub(super) async fn new_source_is_due_at_once_and_a_fetched_one_an_interval_later(fx: Fixture) {
    fx.sync(&[kind("rss", 240, None)]).await;
    let now = fx.now().await;
    let fetched = |name: &str| NewSource { last_fetched_at: Some(now), ..feed(name) };
    let given = [
        feed("new"),
        fetched("known"),
        NewSource { minutes: Some(10), ..fetched("often") },
        NewSource { is_active: false, ..feed("paused") },
    ];
    let ids: Vec<_> = fx.save(&given).await.iter().map(|saved| saved.id).collect();
    assert_eq!(fx.due().await.sources, [ids[0]]);
    let new = fx.source(ids[0]).await;
    assert_eq!(new.state, SourceState::due_now());
    assert_eq!((new.interval.minutes, new.interval.from), (240, IntervalFrom::Default));
    assert_eq!((new.poll_count, new.polling, new.unsupported), (0, None, None));
    assert_eq!((&*new.project_key, &*new.r#type, &*new.name, new.is_public), (PROJECT, "rss", "new", true));
    assert_eq!(new.config, given[0].config);
    let known = fx.state(ids[1]).await;
    is_after(known.next_due_at, now, 240 * MINUTE, 10);
    assert_eq!((known.last_fetched_at, known.fetch_count), (Some(now), 1));
    let often = fx.source(ids[2]).await;
    is_after(often.state.next_due_at, now, 10 * MINUTE, 10);
    assert_eq!((often.interval.minutes, often.interval.from), (10, IntervalFrom::Source));
    let paused = fx.state(ids[3]).await;
    assert_eq!((paused.paused, paused.next_due_at), (Some(PausedReason::User), None));
    assert!(paused.paused_at.is_some());
    assert_eq!(fx.due().await.next, often.state.next_due_at);
}

// covers: COLL-26
pub(super) async fn never_fetched_sources_are_due_first_then_the_oldest(fx: Fixture) {
    let long_ago = |name: &str, days: i64| NewSource {
        last_fetched_at: Some(Ts::from_secs(1_700_000_000 - days * 86_400)),
        ..feed(name)
    };
    let given = [long_ago("b", 3), feed("new"), long_ago("a", 9), long_ago("c", 3), feed("newer")];
    let ids = fx.feeds(&given).await;
    let due = fx.due().await;
    assert_eq!(due.sources, [ids[1], ids[4], ids[2], ids[0], ids[3]]);
    assert_eq!(due.next, None);
    let first = fx.store().due(2).await.expect("who is due");
    assert_eq!(first.sources, [ids[1], ids[4]]);
}

pub(super) async fn source_without_a_fetcher_is_due_once_one_exists(fx: Fixture) {
    let ids: Vec<_> = fx.save(&[feed("a"), feed("b")]).await.iter().map(|saved| saved.id).collect();
    assert_eq!(fx.due().await.sources, [], "the type is unknown");
    let source = fx.source(ids[0]).await;
    assert_eq!((source.unsupported, source.state.next_due_at), (Some(StoredSource::no_fetcher("rss")), None));
    assert_eq!(fx.sync(&[kind("rss", 240, None)]).await, 2);
    assert_eq!(fx.due().await.sources, ids);
    // A failed source has its own due time, until its fetcher is missing.
    assert_eq!(fx.fetch(ids[1], failed("no"), poll_end(ids[1])).await, TaskStatus::Failed);
    assert_eq!(fx.sync(&[kind("rss", 240, Some("no key"))]).await, 2);
    assert_eq!((fx.due().await.sources, fx.due().await.next), (Vec::new(), None));
    assert_eq!(fx.source(ids[0]).await.unsupported.as_deref(), Some("no key"));
    assert_eq!(fx.save(&[feed("c")]).await.len(), 1);
    assert_eq!(fx.sync(&[kind("rss", 240, Some("no key yet"))]).await, 0);
    // Neither a change nor the end of a poll makes it due.
    fx.change(ids[0], ChangeSource { is_active: Some(false), ..ChangeSource::default() }).await.expect("a pause");
    fx.change(ids[0], ChangeSource { is_active: Some(true), ..ChangeSource::default() }).await.expect("a resumption");
    fx.fetch(ids[0], RunEnd::Succeeded, poll_end(ids[0])).await;
    assert_eq!(fx.state(ids[0]).await.next_due_at, None);
    assert_eq!(fx.sync(&[kind("rss", 240, None)]).await, 3);
    let due = fx.due().await;
    assert_eq!(due.sources.len(), 2, "the one that failed and the new one: {due:?}");
    is_after(due.next, due.now, 240 * MINUTE, 10);
    assert_eq!(fx.sync(&[kind("rss", 240, None)]).await, 0);
}

// covers: COLL-20
pub(super) async fn changed_default_interval_moves_sources_without_their_own(fx: Fixture) {
    let now = fx.now().await;
    let fetched = |name: &str| NewSource { last_fetched_at: Some(now), ..feed(name) };
    let own = NewSource { minutes: Some(10), ..fetched("own") };
    let other = NewSource { r#type: "reddit".into(), source_key: "reddit".into(), ..fetched("other") };
    fx.sync(&[kind("reddit", 240, None)]).await;
    let ids = fx.feeds(&[fetched("a"), own, feed("new"), other, fetched("failed")]).await;
    fx.fetch(ids[4], failed("no"), poll_end(ids[4])).await;
    let paused = fx.save(&[NewSource { is_active: false, ..fetched("paused") }]).await[0].id;
    let before = [fx.state(ids[1]).await, fx.state(ids[2]).await, fx.state(ids[3]).await, fx.state(ids[4]).await];
    let row = SourceTypeRow { interval: Interval { minutes: 30, from: IntervalFrom::Config }, ..kind("rss", 30, None) };
    assert_eq!(fx.sync(&[kind("reddit", 240, None), row.clone()]).await, 1);
    let moved = fx.source(ids[0]).await;
    is_after(moved.state.next_due_at, now, 30 * MINUTE, 10);
    assert_eq!((moved.interval.minutes, moved.interval.from), (30, IntervalFrom::Config));
    let after = [fx.state(ids[1]).await, fx.state(ids[2]).await, fx.state(ids[3]).await, fx.state(ids[4]).await];
    assert_eq!(before, after);
    assert_eq!(fx.state(paused).await.next_due_at, None);
    assert_eq!(fx.store().source_types().await, Ok(vec![kind("reddit", 240, None), row]));
}

pub(super) async fn change_keeps_fields_that_it_does_not_name(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    let before = fx.source(ids[0]).await;
    let change = ChangeSource { name: Some("A".into()), ..ChangeSource::default() };
    assert_eq!(fx.change(ids[0], change).await, Ok(SourceChanged::Changed));
    let after = fx.source(ids[0]).await;
    assert_eq!((&*after.name, after.updated_at >= before.updated_at), ("A", true));
    assert_eq!(StoredSource { name: before.name.clone(), updated_at: before.updated_at, ..after }, before);
    let change = ChangeSource { is_public: Some(false), ..ChangeSource::default() };
    fx.change(ids[0], change).await.expect("a change");
    let after = fx.source(ids[0]).await;
    assert_eq!((&*after.name, after.is_public, after.state), ("A", false, SourceState::due_now()));
    for (id, project_key) in [(ids[0].0, "other"), (ids[1].0 + 1000, PROJECT)] {
        let change = ChangeSource { id, project_key: project_key.into(), delete: true, ..ChangeSource::default() };
        assert_eq!(fx.ok(change).await, SourceChanged::Unknown);
    }
    assert_eq!(fx.sources(SourceFilter::default()).await.len(), 2);
}

pub(super) async fn changed_config_makes_its_source_due(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    let known = patra_core::source::Validators { url: "u".into(), etag: Some("e".into()), ..Default::default() };
    fx.fetch(ids[0], RunEnd::Succeeded, PollEnd { validators: Some(known), ..poll_end(ids[0]) }).await;
    assert_eq!(fx.due().await.sources, [ids[1]]);
    let config = |name: &str| {
        let NewSource { config, source_key, .. } = feed(name);
        ChangeSource {
            config: Some(NewSourceConfig { config, source_key, minutes: Some(7) }),
            ..ChangeSource::default()
        }
    };
    let taken = ChangeSource { name: Some("never".into()), ..config("b") };
    assert_eq!(fx.change(ids[0], taken).await, Err(TxError::Conflict));
    assert_eq!((&*fx.source(ids[0]).await.name, fx.due().await.sources), ("a", vec![ids[1]]), "nothing has changed");
    assert_eq!(fx.change(ids[0], config("c")).await, Ok(SourceChanged::Changed));
    assert_eq!(fx.due().await.sources, [ids[1], ids[0]]);
    let changed = fx.source(ids[0]).await;
    assert_eq!((changed.config, changed.interval.minutes), (feed("c").config, 7));
    // The old key is free, the new one is not.
    assert_eq!(fx.save(&[feed("c")]).await[0], SavedSource { id: ids[0], existed: true });
    assert!(!fx.save(&[feed("a")]).await[0].existed);
    let lease = fx.polled(ids[0]).await;
    assert_eq!(fx.start_poll(&lease).await.1, None, "what it was known by is gone");
    // A source does not conflict with its own key.
    assert_eq!(fx.change(ids[0], config("c")).await, Ok(SourceChanged::Changed));
}

// covers: COLL-53
pub(super) async fn pause_lasts_until_resumed_by_hand(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    for id in &ids {
        fx.fetch(*id, failed("no"), poll_end(*id)).await;
    }
    let active = |is_active| ChangeSource { is_active: Some(is_active), ..ChangeSource::default() };
    let lease = fx.polled(ids[0]).await;
    fx.change(ids[0], active(false)).await.expect("a pause");
    let (run, _) = fx.start_poll(&lease).await;
    fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(ids[0])).await;
    let paused = fx.state(ids[0]).await;
    assert_eq!((paused.paused, paused.next_due_at, paused.fetch_count), (Some(PausedReason::User), None, 1));
    // A change of config or interval does not end the pause.
    let NewSource { config, source_key, .. } = feed("c");
    let config = Some(NewSourceConfig { config, source_key, minutes: None });
    fx.change(ids[0], ChangeSource { config, ..ChangeSource::default() }).await.expect("a change");
    fx.sync(&[kind("rss", 5, None)]).await;
    assert_eq!((fx.state(ids[0]).await.next_due_at, fx.state(ids[0]).await.paused), (None, paused.paused));
    fx.change(ids[0], active(true)).await.expect("a resumption");
    let resumed = fx.state(ids[0]).await;
    assert_eq!((resumed.paused, resumed.paused_at), (None, None));
    is_after(resumed.next_due_at, resumed.last_fetched_at.expect("a time"), 5 * MINUTE, 10);
    // Resuming an active source changes nothing.
    let before = fx.state(ids[1]).await;
    fx.change(ids[1], active(true)).await.expect("no change");
    assert_eq!(fx.state(ids[1]).await, before);
    assert_eq!(before.fetch_error_count, 1);
}

pub(super) async fn deleted_source_is_gone_and_its_key_is_free(fx: Fixture) {
    let ids = fx.feeds(&[feed("a"), feed("b")]).await;
    let lease = fx.polled(ids[0]).await;
    let delete = || ChangeSource { delete: true, ..ChangeSource::default() };
    assert_eq!(fx.change(ids[0], delete()).await, Ok(SourceChanged::Changed));
    assert_eq!(fx.change(ids[0], delete()).await, Ok(SourceChanged::Unknown));
    assert_eq!((fx.due().await.sources, fx.sources(SourceFilter::default()).await.len()), (vec![ids[1]], 1));
    // A poll in progress ends, and does not restore the source, whatever its outcome.
    let (run, _) = fx.start_poll(&lease).await;
    assert_eq!(fx.end_poll(&lease, run, RunEnd::Succeeded, poll_end(ids[0])).await, TaskStatus::Succeeded);
    assert_eq!(fx.sync(&[kind("rss", 5, Some("x"))]).await + fx.sync(&[kind("rss", 5, None)]).await, 2);
    assert_eq!((fx.due().await.sources, fx.due().await.next), (vec![ids[1]], None));
    let again = fx.save(&[feed("a")]).await[0];
    assert_eq!((again.existed, again.id == ids[0]), (false, false));
}

pub(super) async fn sources_are_listed_by_project_number_and_page(fx: Fixture) {
    let hidden = NewSource { is_public: false, ..feed("b") };
    let ids = fx.feeds(&[feed("a"), hidden, feed("c")]).await;
    let other = SaveSources { project_key: "other".into(), sources: vec![feed("a")] };
    let other = fx.ok(Arc::new(other)).await.sources[0].id;
    let read = async |ask: SourceFilter| fx.sources(ask).await.iter().map(|row| row.id).collect::<Vec<_>>();
    let all = SourceFilter::default;
    assert_eq!(read(all()).await, [&ids[..], &[other]].concat());
    let own = || SourceFilter { project_key: Some(PROJECT.into()), ..all() };
    assert_eq!(read(own()).await, ids);
    assert_eq!(read(SourceFilter { public_only: true, ..own() }).await, [ids[0], ids[2]]);
    assert_eq!(read(SourceFilter { limit: 2, ..own() }).await, [ids[0], ids[1]]);
    assert_eq!(read(SourceFilter { after: ids[1].0, limit: 2, ..own() }).await, [ids[2]]);
    let some = Some(vec![other.0, ids[1].0, ids[0].0, 999_999]);
    assert_eq!(read(SourceFilter { ids: some.clone(), ..all() }).await, [ids[0], ids[1], other]);
    assert_eq!(read(SourceFilter { ids: some, ..own() }).await, [ids[0], ids[1]]);
    assert_eq!(read(SourceFilter { ids: Some(Vec::new()), ..all() }).await, []);
}

pub(super) async fn config_that_is_not_an_object_is_refused(fx: Fixture) {
    let ids = fx.feeds(&[feed("a")]).await;
    for config in ["[]", "{", "7"] {
        let flawed = NewSource { config: config.into(), ..feed("b") };
        let op = SaveSources { project_key: PROJECT.into(), sources: vec![feed("c"), flawed] };
        let answer = fx.run(Arc::new(op)).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{config}: {answer:?}");
        let config = Some(NewSourceConfig { config: config.into(), source_key: "x".into(), minutes: None });
        let answer = fx.change(ids[0], ChangeSource { config, ..ChangeSource::default() }).await;
        assert!(matches!(answer, Err(TxError::Refused(_))), "{answer:?}");
    }
    assert_eq!(fx.sources(SourceFilter::default()).await.len(), 1);
}

pub(super) async fn collector_heartbeats_are_stored(fx: Fixture) {
    let beat =
        |owner: &str| Heartbeat { owner: owner.into(), tick: Duration::from_secs(60), concurrency: 5, leaving: false };
    fx.ok(beat("a")).await;
    fx.pass(Duration::from_millis(5)).await;
    fx.ok(beat("b")).await;
    fx.pass(Duration::from_millis(5)).await;
    let now = fx.ok(Heartbeat { leaving: true, ..beat("a") }).await.now;
    let stats = fx.store().collector_stats(PROJECT).await.expect("an answer");
    let owners: Vec<_> = stats.heartbeats.iter().map(|row| (&*row.owner, row.leaving)).collect();
    assert_eq!(owners, [("a", true), ("b", false)]);
    let row = &stats.heartbeats[0];
    assert_eq!((row.last_tick_at, row.next_tick_at), (now, now + Duration::from_secs(60)));
    assert_eq!((row.tick_seconds, row.concurrency), (60, 5));
    assert!(stats.now.is_some_and(|at| at >= now));
    fx.pass(Duration::from_secs(86_400 + 120)).await;
    fx.ok(beat("c")).await;
    let stats = fx.store().collector_stats(PROJECT).await.expect("an answer");
    assert_eq!(stats.heartbeats.iter().map(|row| &*row.owner).collect::<Vec<_>>(), ["c"]);
}

pub(super) async fn settings_are_set_and_removed(fx: Fixture) {
    let set = |key: &str, value: Option<&str>| SaveSetting { key: key.into(), value: value.map(str::to_owned) };
    for op in [set("b", Some("1")), set("a", Some("x")), set("b", Some("2")), set("c", Some("")), set("a", None)] {
        fx.ok(op).await;
    }
    fx.ok(set("never", None)).await;
    let expected = vec![("b".to_owned(), "2".to_owned()), ("c".to_owned(), String::new())];
    let mut settings = fx.store().settings().await.expect("the settings can be read");
    // Every database has its own salt.
    settings.retain(|(key, _)| key != "cookie_salt");
    assert_eq!(settings, expected);
}

pub(super) async fn troubled_sources_are_found(fx: Fixture) {
    let ids = fx.feeds(&["a", "b", "c"].map(feed)).await;
    fx.fetch(ids[0], failed("HTTP 500"), poll_end(ids[0])).await;
    let lease = fx.polled(ids[1]).await;
    let (run, _) = fx.start_poll(&lease).await;
    let mut end = EndRun { poll: Some(poll_end(ids[1])), ..make::end(&lease, run, RunEnd::Succeeded) };
    end.stats.inserted = 2;
    let before = fx.now().await;
    fx.ok(Arc::new(end)).await;
    let arrivals = fx.state(ids[1]).await.arrivals;
    assert_eq!((arrivals.count, arrivals.gap_seconds), (1, 0));
    assert!(arrivals.last_at >= Some(before), "{arrivals:?}");
    let error = Fault::new(Code::PartialFail, Level::L1, "cut");
    let flaw = Some("cut".to_owned());
    let status = fx.fetch(ids[2], RunEnd::Partial { error }, PollEnd { flaw, ..poll_end(ids[2]) }).await;
    let state = fx.state(ids[2]).await;
    assert_eq!((status, state.last_error.as_deref()), (TaskStatus::Partial, Some("cut")));
    assert_eq!((state.fetch_count, state.fetch_error_count, state.arrivals.count), (1, 0, 0));
    let troubled = async |before: Ts| {
        let filter = SourceFilter { troubled: Some(before), ..SourceFilter::default() };
        let found = fx.subject.store.sources(filter).await.expect("sources");
        found.into_iter().map(|source| source.id).collect::<Vec<_>>()
    };
    assert_eq!(troubled(before - make::LONG).await, [ids[0]]);
    assert_eq!(troubled(before + make::LONG).await, [ids[0], ids[1]], "it is silent since then");
    fx.change(ids[1], ChangeSource { is_active: Some(false), ..ChangeSource::default() }).await.expect("a pause");
    assert_eq!(troubled(before + make::LONG).await, [ids[0]]);
}
