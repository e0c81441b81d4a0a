//! Note candidates: added once, claimed once, tried four times.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::Ts;
use patra_core::crawl::{CandidateAttempt, CrawlCandidate, MAX_RETRIES};
use patra_core::port::crawl::CrawlFilter;
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::{
    AcquireExecution, AddCandidates, CandidateFailed, CandidatesAdded, CandidatesClaimed, ClaimCandidates,
    ExecutionKept, FailCandidate, MAX_CANDIDATES, NewCandidate, Recover, Recovered, RequeueCandidates, TxError,
};
use serde_json::{Value, json};

use super::Fixture;
use super::concurrent::at_once;
use super::lock::{ALIVE, DEAD, PROJECT, acquire, end, keep};

pub(super) const PLATFORM: &str = "xhs";

pub(super) fn note(id: &str) -> NewCandidate {
    NewCandidate {
        note_id: id.into(),
        note_url: format!("https://platform.example/{id}"),
        source_keyword: Some("foundation".into()),
        tokens: r#"{"xsec_token":"t1"}"#.into(),
    }
}

pub(super) fn add(notes: Vec<NewCandidate>) -> Arc<AddCandidates> {
    Arc::new(AddCandidates { project_key: PROJECT.into(), platform: PLATFORM.into(), candidates: notes })
}

pub(super) fn claim(id: &str, limit: u32) -> ClaimCandidates {
    ClaimCandidates { project_key: None, execution_id: id.into(), limit, platform: None, timeout: ALIVE }
}

pub(super) fn tried(request: &str) -> CandidateAttempt {
    CandidateAttempt {
        meta: r#"{"latency_ms":1234}"#.into(),
        request_id: Some(request.into()),
        crawled_at: Ts::from_secs(1_772_100_000),
    }
}

fn fail(execution: &str, note_id: &str) -> FailCandidate {
    FailCandidate {
        project_key: PROJECT.into(),
        execution_id: execution.into(),
        platform: PLATFORM.into(),
        note_id: note_id.into(),
        error_code: "TIMEOUT_ERROR".into(),
        attempt: tried("wf-1-a-fail"),
    }
}

fn requeue() -> RequeueCandidates {
    RequeueCandidates { project_key: PROJECT.into(), platform: PLATFORM.into(), note_id: None, source_keyword: None }
}

pub(super) fn wanted() -> CrawlFilter {
    CrawlFilter { project_key: PROJECT.into(), ..CrawlFilter::default() }
}

/// Whether the candidate is unclaimed.
fn is_free(candidate: &CrawlCandidate) -> bool {
    candidate.processing_lock.is_none() && candidate.locked_at.is_none()
}

pub(super) fn parsed(meta: &str) -> Value {
    serde_json::from_str(meta).expect("JSON")
}

impl Fixture {
    pub(super) async fn candidates(&self, wanted: CrawlFilter) -> Vec<CrawlCandidate> {
        self.subject.store.candidates(wanted).await.expect("candidates")
    }

    pub(super) async fn candidate(&self, id: &str) -> CrawlCandidate {
        let one = CrawlFilter { platform: Some(PLATFORM.into()), note_id: Some(id.into()), ..wanted() };
        let mut found = self.candidates(one).await;
        assert_eq!(found.len(), 1, "{id}");
        found.remove(0)
    }

    pub(super) async fn claimed(&self, op: ClaimCandidates) -> Vec<CrawlCandidate> {
        match self.ok(op).await {
            CandidatesClaimed::Claimed(claimed) => claimed,
            other => panic!("nothing can be claimed: {other:?}"),
        }
    }

    /// Adds candidates, and fails one of them to the limit.
    pub(super) async fn failed(&self, execution: &str, id: &str) -> CrawlCandidate {
        loop {
            self.claimed(claim(execution, 1_000)).await;
            match self.ok(fail(execution, id)).await {
                CandidateFailed::Failed(candidate) if candidate.status == CandidateStatus::Failed => return *candidate,
                CandidateFailed::Failed(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

fn ids(candidates: &[CrawlCandidate]) -> Vec<&str> {
    candidates.iter().map(|candidate| candidate.note_id.as_str()).collect()
}

// covers: CRAWL-26, CRAWL-27, CRAWL-28, CRAWL-29, CRAWL-30, CRAWL-31, CRAWL-32, CRAWL-33, CRAWL-98, CRAWL-195
pub(super) async fn note_candidate_is_added_once_per_platform(fx: Fixture) {
    let added = fx.ok(add(vec![note("a"), note("b"), NewCandidate { note_url: "other".into(), ..note("a") }])).await;
    assert_eq!(added, CandidatesAdded { created: 2, existing: 1 });
    let new = fx.candidate("a").await;
    let expected = CrawlCandidate {
        id: new.id,
        platform: PLATFORM.into(),
        note_id: "a".into(),
        note_url: "https://platform.example/a".into(),
        status: CandidateStatus::Pending,
        processing_lock: None,
        locked_at: None,
        retry_count: 0,
        source_keyword: Some("foundation".into()),
        tokens: r#"{"xsec_token":"t1"}"#.into(),
        last_error_code: None,
        exec_meta: "{}".into(),
        created_at: new.created_at,
        updated_at: new.created_at,
    };
    assert_eq!(new, expected);
    fx.pass(Duration::from_millis(5)).await;
    let again = NewCandidate { note_url: "other".into(), source_keyword: Some("other".into()), ..note("a") };
    let known = NewCandidate { tokens: "{}".into(), ..again.clone() };
    assert_eq!(fx.ok(add(vec![again.clone(), known.clone()])).await, CandidatesAdded { created: 0, existing: 2 });
    assert_eq!(fx.candidate("a").await, expected, "what is known stays as it is");
    // But the platform accepts only its newest tokens.
    let renewed = NewCandidate { tokens: "sealed.t2".into(), ..known.clone() };
    let newest = NewCandidate { tokens: "sealed.t3".into(), ..known.clone() };
    fx.ok(add(vec![renewed.clone(), newest, known])).await;
    let after = fx.candidate("a").await;
    assert!(after.updated_at > expected.updated_at);
    assert_eq!(after, CrawlCandidate { tokens: "sealed.t3".into(), updated_at: after.updated_at, ..expected });
    fx.locked("main", "e").await;
    fx.claimed(claim("e", 2)).await;
    fx.ok(add(vec![renewed])).await;
    assert_eq!(fx.candidate("a").await.tokens, "sealed.t3", "it is claimed");

    let elsewhere = AddCandidates { platform: "dy".into(), ..(*add(vec![note("a")])).clone() };
    assert_eq!(fx.ok(Arc::new(elsewhere)).await.created, 1);
    let other = AddCandidates { project_key: "other".into(), ..(*add(vec![note("a"), note("c")])).clone() };
    assert_eq!(fx.ok(Arc::new(other)).await.created, 2);
    assert_eq!(fx.ok(add(Vec::new())).await, CandidatesAdded { created: 0, existing: 0 });
    let many = || (0..=MAX_CANDIDATES).map(|at| note(&format!("n{at:04}"))).collect::<Vec<_>>();
    assert!(matches!(fx.run(add(many())).await, Err(TxError::Refused(_))));
    assert_eq!(fx.ok(add(many()[1..].to_vec())).await.created, MAX_CANDIDATES as u64);
    assert_eq!(fx.subject.store.backlog().await, Ok(MAX_CANDIDATES as u64 + 3), "over all projects");
}

// covers: CRAWL-35, CRAWL-41, CRAWL-117, CRAWL-118, CRAWL-120, CRAWL-122
pub(super) async fn oldest_candidates_are_claimed_first(fx: Fixture) {
    fx.ok(add(vec![note("z"), note("y")])).await;
    fx.pass(Duration::from_millis(5)).await;
    fx.ok(add(vec![note("b"), note("a")])).await;
    let dy = AddCandidates { platform: "dy".into(), ..(*add(vec![note("far")])).clone() };
    fx.ok(Arc::new(dy)).await;
    let other = AddCandidates { project_key: "other".into(), ..(*add(vec![note("other")])).clone() };
    fx.ok(Arc::new(other)).await;
    fx.locked("main", "one").await;
    let before = fx.candidate("z").await;
    fx.pass(Duration::from_millis(5)).await;
    let claimed = fx.claimed(claim("one", 3)).await;
    assert_eq!(ids(&claimed), ["z", "y", "b"], "in the order in which they were given");
    let now = claimed[0].locked_at;
    let expected = CrawlCandidate {
        status: CandidateStatus::Processing,
        processing_lock: Some("one".into()),
        locked_at: now,
        updated_at: now.expect("a time"),
        ..before.clone()
    };
    assert_eq!((&claimed[0], fx.candidate("z").await), (&expected, expected.clone()));
    assert!(now > Some(before.updated_at));
    fx.locked("other", "two").await;
    let of_dy = ClaimCandidates { platform: Some("dy".into()), ..claim("two", 9) };
    assert_eq!(ids(&fx.claimed(of_dy).await), ["far"]);
    assert_eq!(fx.claimed(claim("two", 0)).await, []);
    assert_eq!(ids(&fx.claimed(claim("two", u32::MAX)).await), ["a"]);
    assert_eq!(fx.claimed(claim("two", 9)).await, [], "the other project's is not ours");
    fx.ok(AcquireExecution { project_key: "other".into(), ..acquire("main", "three") }).await;
    assert_eq!(ids(&fx.claimed(claim("three", 9)).await), ["other"]);
    assert_eq!(fx.subject.store.backlog().await, Ok(0));
}

// covers: CRAWL-121
pub(super) async fn only_a_live_execution_claims(fx: Fixture) {
    fx.ok(add(vec![note("a")])).await;
    assert_eq!(fx.ok(claim("none", 1)).await, CandidatesClaimed::Unknown);
    fx.locked("main", "over").await;
    fx.ok(end("over", ExecutionStatus::Completed)).await;
    assert_eq!(fx.ok(claim("over", 1)).await, CandidatesClaimed::Lost(fx.execution("over").await));
    fx.locked("main", "silent").await;
    let lost = fx.ok(ClaimCandidates { timeout: DEAD, ..claim("silent", 1) }).await;
    assert_eq!(lost, CandidatesClaimed::Lost(fx.execution("silent").await));
    assert_eq!(fx.execution("silent").await.status, ExecutionStatus::Timeout);
    let left = fx.candidate("a").await;
    assert!(left.status == CandidateStatus::Pending && is_free(&left));
}

// covers: CRAWL-34, CRAWL-37, CRAWL-38, CRAWL-40, CRAWL-87, CRAWL-128
pub(super) async fn candidate_is_tried_four_times(fx: Fixture) {
    fx.ok(add(vec![note("a")])).await;
    fx.locked("main", "one").await;
    fx.locked("other", "two").await;
    assert_eq!(fx.ok(fail("one", "a")).await, CandidateFailed::NotHeld(None));
    for turn in 1..=MAX_RETRIES + 1 {
        assert_eq!(ids(&fx.claimed(claim("one", 1)).await), ["a"], "turn {turn}");
        let held = fx.candidate("a").await;
        assert_eq!(fx.ok(fail("two", "a")).await, CandidateFailed::NotHeld(Some("one".into())));
        assert_eq!(fx.candidate("a").await, held);
        let CandidateFailed::Failed(failed) = fx.ok(fail("one", "a")).await else { panic!("it was ours") };
        let last = turn > MAX_RETRIES;
        let status = if last { CandidateStatus::Failed } else { CandidateStatus::Pending };
        assert_eq!((failed.status, failed.retry_count), (status, turn.min(MAX_RETRIES)));
        assert!(is_free(&failed) && failed.last_error_code.as_deref() == Some("TIMEOUT_ERROR"));
        let meta = parsed(&failed.exec_meta);
        assert_eq!(meta["retry_count"], failed.retry_count);
        assert_eq!((&meta["request_id"], &meta["workflow_trace_id"]), (&json!("wf-1-a-fail"), &json!("wf-1-a")));
        assert_eq!((&meta["latency_ms"], &meta["source_keyword"]), (&json!(1234), &json!("foundation")));
        assert_eq!(fx.candidate("a").await, *failed);
    }
    assert_eq!(fx.claimed(claim("one", 1)).await, []);
    assert_eq!(fx.ok(fail("one", "a")).await, CandidateFailed::NotHeld(None));
    assert_eq!(fx.ok(fail("one", "none")).await, CandidateFailed::Unknown);
    let elsewhere = FailCandidate { platform: "dy".into(), ..fail("one", "a") };
    assert_eq!(fx.ok(elsewhere).await, CandidateFailed::Unknown);
}

// covers: CRAWL-42
pub(super) async fn failed_candidate_can_be_retried(fx: Fixture) {
    let of = |id: &str, word: &str| NewCandidate { source_keyword: Some(word.into()), ..note(id) };
    fx.ok(add(vec![of("a", "k1"), of("b", "k1"), of("c", "k2"), of("d", "k2"), of("e", "k2")])).await;
    fx.locked("main", "one").await;
    let before = fx.candidate("a").await;
    for id in ["a", "b", "c", "d"] {
        fx.failed("one", id).await;
    }
    assert_eq!(fx.candidate("e").await.status, CandidateStatus::Processing);
    let one = RequeueCandidates { note_id: Some("a".into()), ..requeue() };
    assert_eq!(fx.ok(one.clone()).await.requeued, 1);
    let again = fx.candidate("a").await;
    assert_eq!(again, CrawlCandidate { updated_at: again.updated_at, ..before }, "as if never tried");
    assert_eq!(fx.ok(one).await.requeued, 0);
    let elsewhere = RequeueCandidates { platform: "dy".into(), ..requeue() };
    assert_eq!(fx.ok(elsewhere).await.requeued, 0);
    assert_eq!(fx.ok(RequeueCandidates { project_key: "other".into(), ..requeue() }).await.requeued, 0);
    let other_word = RequeueCandidates { note_id: Some("b".into()), source_keyword: Some("k2".into()), ..requeue() };
    assert_eq!(fx.ok(other_word).await.requeued, 0);
    assert_eq!(fx.ok(RequeueCandidates { source_keyword: Some("k1".into()), ..requeue() }).await.requeued, 1);
    assert_eq!(fx.ok(requeue()).await.requeued, 2);
    let pending = fx.candidates(CrawlFilter { candidate: Some(CandidateStatus::Pending), ..wanted() }).await;
    assert_eq!(ids(&pending), ["a", "b", "c", "d"]);
}

// covers: CRAWL-115
pub(super) async fn heartbeat_renews_claimed_candidates(fx: Fixture) {
    fx.ok(add(vec![note("a"), note("b"), note("c")])).await;
    fx.locked("main", "one").await;
    fx.locked("other", "two").await;
    let mine = fx.claimed(claim("one", 2)).await;
    let others = fx.claimed(claim("two", 1)).await;
    fx.ok(fail("one", "b")).await;
    fx.pass(Duration::from_millis(5)).await;
    let ExecutionKept::Kept(kept) = fx.ok(keep("one")).await else { panic!("it lives") };
    let renewed = CrawlCandidate { locked_at: Some(kept.heartbeat_at), ..mine[0].clone() };
    assert_eq!(fx.candidate("a").await, renewed);
    assert!(is_free(&fx.candidate("b").await));
    assert_eq!(fx.candidate("c").await, others[0]);
    let silent = patra_core::tx::KeepExecution { timeout: DEAD, ..keep("one") };
    assert!(matches!(fx.ok(silent).await, ExecutionKept::Lost(_)));
    assert_eq!(fx.candidate("a").await, renewed, "what is lost is not renewed");
}

// covers: CRAWL-RULE-5, CRAWL-39, CRAWL-131, CRAWL-132, CRAWL-GAP-04
pub(super) async fn candidates_of_a_dead_execution_are_retried_or_failed(fx: Fixture) {
    fx.ok(add((0..4).map(|at| note(&format!("n{at}"))).collect())).await;
    fx.locked("main", "one").await;
    for retry in 1..=MAX_RETRIES {
        fx.claimed(claim("one", 1)).await;
        let CandidateFailed::Failed(failed) = fx.ok(fail("one", "n0")).await else { panic!("it was ours") };
        assert_eq!(failed.retry_count, retry);
    }
    let held = fx.claimed(claim("one", 3)).await;
    assert_eq!(ids(&held), ["n0", "n1", "n2"]);
    assert_eq!(fx.ok(Recover { timeout: ALIVE }).await, Recovered::default(), "it lives");
    assert_eq!(fx.candidate("n1").await, held[1]);
    let mut sum = Recovered::default();
    for answer in at_once(&fx, vec![Recover { timeout: DEAD }; 2]).await {
        let done = answer.expect("an answer");
        sum.executions_timed_out += done.executions_timed_out;
        sum.records_requeued += done.records_requeued;
        sum.records_failed += done.records_failed;
    }
    let expected =
        Recovered { executions_timed_out: 1, records_requeued: 2, records_failed: 1, ..Recovered::default() };
    assert_eq!(sum, expected);
    assert_eq!(fx.ok(Recover { timeout: DEAD }).await, Recovered::default());
    let failed = fx.candidate("n0").await;
    assert_eq!((failed.status, failed.retry_count), (CandidateStatus::Failed, MAX_RETRIES));
    assert_eq!(failed.last_error_code.as_deref(), Some("TIMEOUT_ERROR"));
    let again = fx.candidate("n1").await;
    assert_eq!((again.status, again.retry_count), (CandidateStatus::Pending, 1));
    assert!(is_free(&failed) && is_free(&again));
    assert_eq!(fx.candidate("n3").await.retry_count, 0, "nobody had claimed it");
    released_execution_frees_its_candidates_at_once(&fx).await;
}

// covers: CRAWL-40
async fn released_execution_frees_its_candidates_at_once(fx: &Fixture) {
    // An execution that completed has not tried what it left; one that failed may have failed because of it.
    for (id, status, retries) in [("two", ExecutionStatus::Completed, 1), ("three", ExecutionStatus::Failed, 2)] {
        fx.locked("main", id).await;
        assert_eq!(ids(&fx.claimed(claim(id, 1)).await), ["n1"]);
        fx.ok(end(id, status)).await;
        let freed = fx.candidate("n1").await;
        assert_eq!((freed.status, freed.retry_count), (CandidateStatus::Pending, retries), "{status}");
        assert!(is_free(&freed));
    }
    fx.locked("main", "four").await;
    fx.claimed(claim("four", 1)).await;
    fx.locked("other", "five").await;
    fx.ok(end("five", ExecutionStatus::Completed)).await;
    assert_eq!(fx.candidate("n1").await.processing_lock.as_deref(), Some("four"), "it is not theirs");
    assert_eq!(fx.ok(Recover { timeout: DEAD }).await.records_requeued, 1);
}

// covers: CRAWL-101
pub(super) async fn candidates_are_listed_by_filter(fx: Fixture) {
    let of = |id: &str, word: Option<&str>| NewCandidate { source_keyword: word.map(str::to_owned), ..note(id) };
    fx.ok(add(vec![of("a", Some("k1")), of("b", Some("k2")), of("c", None)])).await;
    let dy = AddCandidates { platform: "dy".into(), ..(*add(vec![of("a", Some("k1"))])).clone() };
    fx.ok(Arc::new(dy)).await;
    fx.locked("main", "one").await;
    fx.claimed(claim("one", 1)).await;
    let found = async |wanted: CrawlFilter| {
        let found = fx.candidates(wanted).await;
        assert!(found.is_sorted_by_key(|candidate| candidate.id));
        found.into_iter().map(|one| format!("{}.{}", one.platform, one.note_id)).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found(wanted()).await, ["xhs.a", "xhs.b", "xhs.c", "dy.a"]);
    assert_eq!(found(CrawlFilter { platform: some("dy"), ..wanted() }).await, ["dy.a"]);
    assert_eq!(found(CrawlFilter { note_id: some("a"), ..wanted() }).await, ["xhs.a", "dy.a"]);
    assert_eq!(found(CrawlFilter { source_keyword: some("k1"), ..wanted() }).await, ["xhs.a", "dy.a"]);
    let processing = CrawlFilter { candidate: Some(CandidateStatus::Processing), ..wanted() };
    assert_eq!(found(processing.clone()).await, ["xhs.a"]);
    let one = |keyword: &str| CrawlFilter {
        platform: some("xhs"),
        note_id: some("a"),
        source_keyword: some(keyword),
        ..processing.clone()
    };
    assert_eq!(found(one("k1")).await, ["xhs.a"]);
    assert_eq!(found(one("k2")).await, [""; 0]);
    let first = fx.candidates(CrawlFilter { limit: 1, ..wanted() }).await;
    assert_eq!(found(CrawlFilter { after: first[0].id, limit: 2, ..wanted() }).await, ["xhs.b", "xhs.c"]);
    assert_eq!(found(CrawlFilter { after: first[0].id, ..one("k1") }).await, [""; 0]);
    assert_eq!(found(CrawlFilter { project_key: "other".into(), ..wanted() }).await, [""; 0]);
}

// covers: CRAWL-RULE-4, CRAWL-118, CRAWL-119, CRAWL-120, CRAWL-DAY2-2
pub(super) async fn fifty_concurrent_claims_of_ten_notes_share_none(fx: Fixture) {
    for (callers, notes) in [(2, 1), (2, 10), (50, 10)] {
        let batch = |at| note(&format!("{callers}.{notes}.{at}"));
        fx.ok(add((0..notes).map(batch).collect())).await;
        let id = |caller: usize| format!("{callers}.{notes}.{caller}");
        for caller in 0..callers {
            fx.locked(&id(caller), &id(caller)).await;
        }
        let mut claimed = BTreeSet::new();
        let answers = at_once(&fx, (0..callers).map(|caller| claim(&id(caller), 3)).collect()).await;
        for (caller, answer) in answers.into_iter().enumerate() {
            let Ok(CandidatesClaimed::Claimed(records)) = answer else { panic!("{answer:?}") };
            for record in records {
                assert_eq!(record.processing_lock, Some(id(caller)));
                assert!(claimed.insert(record.note_id.clone()), "{} was claimed twice", record.note_id);
            }
        }
        // A claim that met only rows claimed by others may return fewer than there are.
        for record in fx.claimed(claim(&id(0), 100)).await {
            assert!(claimed.insert(record.note_id));
        }
        assert_eq!(claimed.len(), notes);
        for record in fx.candidates(CrawlFilter { candidate: Some(CandidateStatus::Processing), ..wanted() }).await {
            assert!(record.processing_lock.is_some() && record.locked_at.is_some());
        }
    }
}

pub(super) async fn list_added_twenty_times_concurrently_is_added_once(fx: Fixture) {
    let forth: Vec<_> = (0..50).map(|at| note(&format!("n{at:02}"))).collect();
    let back: Vec<_> = forth.iter().rev().map(|new| NewCandidate { tokens: "t2".into(), ..new.clone() }).collect();
    let lists = (0..20).map(|at| add(if at % 2 == 0 { forth.clone() } else { back.clone() })).collect();
    let mut created = 0;
    for answer in at_once(&fx, lists).await {
        let added = answer.expect("an answer");
        assert_eq!(added.created + added.existing, 50);
        created += added.created;
    }
    assert_eq!((created, fx.candidates(wanted()).await.len()), (50, 50));
}
