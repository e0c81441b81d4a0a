//! Replay (ING-14.9): reads one batch once more from the ledger and the archive, and reports the differences. Writes
//! nothing: no row, no cursor, no token. To run a batch again in production, see [`redrive`].

mod compare;
mod decide;
mod healing;
mod live;
mod readonly;
mod recording;
pub mod redrive;
mod report;

use std::time::Duration;

use patra_connectors::{PageExchange, PageRequest, Pager};
use patra_core::port::Queries;
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::tx::TxError;
use patra_core::{Fault, RunId};

pub use live::LiveReplay;
pub use readonly::ReadOnlyStore;
pub use recording::{Recording, RecordingKeys};
pub use report::{
    Agreement, HealingDecisions, MAX_SAMPLES, ReplayCause, ReplayCheck, ReplayCounts, ReplayDecisions, ReplayMode,
    ReplayReport, ReplaySample, ReplayVerdict,
};

use crate::decoding::Received;

pub(crate) use decide::counts;
pub(crate) use recording::ParsedRecording;

/// Why a replay gives no report.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] TxError),
    #[error("run {run} has no batch {batch_no}")]
    NotFound { run: RunId, batch_no: u32 },
    #[error("the response of this batch is not stored: {0}")]
    NotKept(String),
    /// A bundle that was exported without the response.
    #[error("the bundle has no response in it: {0}")]
    NotPacked(String),
    #[error("the recording is damaged: {0}")]
    Damaged(String),
    #[error("no request may be sent to the upstream now: {0}")]
    NotSent(String),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        Error::Damaged(fault.message)
    }
}

/// Replays from the archived response, without network. With a store, reports what a commit would change.
pub async fn from_archive(recording: &Recording, queries: Option<&dyn Queries>) -> Result<ReplayReport, Error> {
    let case = ParsedRecording::read(recording)?;
    let pager = Pager::new(&case.snapshot)?;
    let answer = recording.answer()?;
    if answer.is_none() && case.was_answered() {
        return Err(match (queries, case.response["raw"].as_str()) {
            (Some(_), _) => Error::NotKept(not_kept(&case)),
            (None, Some("kept")) => Error::NotPacked("it was made without --with-raw".to_owned()),
            (None, _) => Error::NotPacked(format!("it was not stored, {}", not_kept(&case))),
        });
    }
    let exchange = match exchange(&case, &pager) {
        Ok(exchange) => exchange,
        Err(fault) => return Ok(unrendered(case, ReplayMode::Archive, &fault)),
    };
    let mut checks = vec![compare::context(&case), compare::request(&case.request, exchange.digest())];
    let Some(answer) = answer else {
        let note = "no response came when this batch was read, so there is none to read again";
        return Ok(report(case, ReplayMode::Archive, checks, None, None, vec![note.to_owned()]));
    };
    let received = Received { exchange, answer: Ok(answer), latency: Duration::ZERO, now: case.now };
    let result = received.read(&pager).await;
    checks.extend(compared(&case, &result));
    finish(case, ReplayMode::Archive, checks, result, queries).await
}

/// Sends the same request to the upstream, through the gate and with its credential, and compares the new response.
pub async fn live(recording: &Recording, queries: &dyn Queries, live: &LiveReplay) -> Result<ReplayReport, Error> {
    let case = ParsedRecording::read(recording)?;
    let pager = Pager::new(&case.snapshot)?;
    let exchange = match exchange(&case, &pager) {
        Ok(exchange) => exchange,
        Err(fault) => return Ok(unrendered(case, ReplayMode::Live, &fault)),
    };
    let mut checks = vec![compare::context(&case), compare::request(&case.request, exchange.digest())];
    let result = live.ask(&case, &pager, exchange).await?;
    match &result {
        Err(refusal) if refusal.evidence.status == 0 => {
            checks.push(compare::silence(&case.response, &refusal.fault.message));
        }
        _ => checks.extend(compared(&case, &result)),
    }
    finish(case, ReplayMode::Live, checks, result, Some(queries)).await
}

/// The request of the batch, rendered again from the ledger.
fn exchange(case: &ParsedRecording, pager: &Pager) -> Result<PageExchange, Fault> {
    let (position, window) = (&case.position, case.asked());
    let ask = PageRequest { position, window, page_size: case.page_size, params: &case.params, now: case.now };
    pager.request(&ask).map_err(|refusal| refusal.fault)
}

fn compared(case: &ParsedRecording, result: &Result<Box<FetchedPage>, Box<PageFailure>>) -> Vec<ReplayCheck> {
    let replayed = match result {
        Ok(page) => &page.evidence.response_digest,
        Err(refusal) => &refusal.evidence.response_digest,
    };
    let mut checks = compare::answer(&case.response, replayed);
    checks.extend(compare::position(case, result));
    checks
}

async fn finish(
    case: ParsedRecording,
    mode: ReplayMode,
    mut checks: Vec<ReplayCheck>,
    result: Result<Box<FetchedPage>, Box<PageFailure>>,
    queries: Option<&dyn Queries>,
) -> Result<ReplayReport, Error> {
    let mut decisions = None;
    if let (Ok(page), Some(queries)) = (&result, queries) {
        let (decided, behind) = decide::decide(queries, &case, page).await?;
        // Records that were committed are in the store, in this version or a newer one.
        if mode == ReplayMode::Archive && !case.has_failed() {
            let missing = if behind == 0 { "all stored".to_owned() } else { format!("{behind} missing or older") };
            checks.push(ReplayCheck::of("stored records", "all stored", missing));
        }
        decisions = Some(decided);
    }
    Ok(report(case, mode, checks, Some(&result), decisions, Vec::new()))
}

/// The report when the request cannot be rendered, then or now.
fn unrendered(case: ParsedRecording, mode: ReplayMode, fault: &Fault) -> ReplayReport {
    let recorded = case.error.as_ref().map_or_else(|| "a request".to_owned(), ToString::to_string);
    let checks = vec![compare::context(&case), ReplayCheck::of("request", recorded, fault.to_string())];
    let note = "the request cannot be rendered, so nothing was sent";
    report(case, mode, checks, None, None, vec![note.to_owned()])
}

fn report(
    case: ParsedRecording,
    mode: ReplayMode,
    checks: Vec<ReplayCheck>,
    result: Option<&Result<Box<FetchedPage>, Box<PageFailure>>>,
    decisions: Option<ReplayDecisions>,
    mut notes: Vec<String>,
) -> ReplayReport {
    let cause = case.error.clone().filter(|_| case.has_failed()).map(|error| {
        let reproduced = match result {
            None => None,
            // The page alone is sound: the run failed by its sequence of pages.
            Some(Ok(_)) if case.response["refused"].is_null() => None,
            Some(Ok(_)) => Some(false),
            Some(Err(refusal)) => {
                let refused = &case.response["refused"];
                Some(refused["code"] == refusal.fault.code.as_str() && refused["level"] == refusal.fault.level.as_str())
            }
        };
        ReplayCause { code: error.code, level: error.level, message: error.message, reproduced }
    });
    if matches!(&cause, Some(ReplayCause { reproduced: None, .. })) && matches!(result, Some(Ok(_))) {
        notes.push("the page reads well by itself; the run failed by how it follows the pages before it".to_owned());
    }
    if checks.iter().any(|check| check.what == "position" && check.result == Agreement::Unknown) {
        notes.push("where the slice went on was decided by more than this page".to_owned());
    }
    let healing = healing::healing(&case, result);
    ReplayReport {
        verdict: ReplayReport::verdict(mode, &checks),
        status: case.status,
        keys: case.keys,
        mode,
        checks,
        cause,
        healing,
        decisions,
        notes,
    }
}

fn not_kept(case: &ParsedRecording) -> String {
    match case.response["raw"].as_str() {
        Some("kept") => "its time is over".to_owned(),
        Some(reason) => reason.to_owned(),
        None => "the manifest had no `raw: { keep: … }` when it was read".to_owned(),
    }
}
