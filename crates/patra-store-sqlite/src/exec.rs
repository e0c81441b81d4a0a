//! The operations: one function for each value of `Tx`, on a connection inside a transaction. A function that fails may
//! leave partial changes behind; the caller rolls them back.

mod alert;
mod background_job;
mod batch;
mod cancel;
pub(crate) mod candidate;
mod claim;
mod clean;
pub(crate) mod clock;
mod cookie;
mod cookie_pick;
mod cover;
mod crawl;
mod credential;
mod cursor;
mod dictionary;
mod execution;
mod fan;
mod fetched;
mod gate;
mod key;
mod ledger;
pub(crate) mod minute;
mod missing;
mod outbox;
mod pause;
mod plan;
mod poll;
mod pool;
mod project;
mod redrive;
mod registry;
mod retention;
mod run;
pub(crate) mod scope;
mod scrape;
pub(crate) mod segment;
mod signal;
pub(crate) mod source;
mod split;
mod task;
mod trigger;

use patra_core::Ts;
use patra_core::tx::{Done, Tx};
use rusqlite::Connection;

use crate::error::Result;

pub(crate) use alert::read_alert;
pub(crate) use claim::{COUNT_HELD, first_scheduled};
pub(crate) use cookie::read_usage;
pub(crate) use crawl::read_candidate;
pub(crate) use credential::read_credential;
pub(crate) use execution::read_execution;
pub(crate) use fetched::read_stats;

#[cfg(test)]
pub(crate) const STATEMENTS: &[&[&str]] = &[
    alert::STATEMENTS,
    batch::STATEMENTS,
    cancel::STATEMENTS,
    candidate::STATEMENTS,
    background_job::STATEMENTS,
    claim::STATEMENTS,
    clean::STATEMENTS,
    clean::FORGET_STATEMENTS,
    clock::MOVES,
    clock::STATEMENTS,
    cookie::STATEMENTS,
    cookie_pick::STATEMENTS,
    cover::STATEMENTS,
    crawl::STATEMENTS,
    credential::STATEMENTS,
    cursor::STATEMENTS,
    dictionary::STATEMENTS,
    execution::STATEMENTS,
    fan::STATEMENTS,
    fetched::STATEMENTS,
    gate::STATEMENTS,
    pause::STATEMENTS,
    key::STATEMENTS,
    ledger::STATEMENTS,
    minute::STATEMENTS,
    missing::STATEMENTS,
    outbox::STATEMENTS,
    plan::STATEMENTS,
    poll::STATEMENTS,
    pool::STATEMENTS,
    project::STATEMENTS,
    redrive::STATEMENTS,
    registry::STATEMENTS,
    registry::DELETE_SECTION,
    registry::UPSERT_SECTION,
    retention::STATEMENTS,
    run::STATEMENTS,
    scope::STATEMENTS,
    scrape::STATEMENTS,
    segment::STATEMENTS,
    signal::STATEMENTS,
    source::STATEMENTS,
    split::STATEMENTS,
    task::STATEMENTS,
    trigger::STATEMENTS,
];

/// Statements of an executor, from the claim to the cursor.
#[cfg(test)]
pub(crate) const EXECUTOR: &[&[&str]] = &[
    batch::STATEMENTS,
    candidate::STATEMENTS,
    claim::STATEMENTS,
    cover::STATEMENTS,
    cursor::STATEMENTS,
    ledger::STATEMENTS,
    missing::STATEMENTS,
    run::STATEMENTS,
    scope::STATEMENTS,
    split::STATEMENTS,
];

/// Statements of a planner, from the trigger to the tasks.
#[cfg(test)]
pub(crate) const PLANNER: &[&[&str]] =
    &[cover::STATEMENTS, fan::STATEMENTS, plan::STATEMENTS, segment::STATEMENTS, trigger::STATEMENTS];

pub(crate) fn execute(db: &Connection, tx: &Tx, now: Ts) -> Result<Done> {
    Ok(match tx {
        Tx::ApplyProvenance(op) => Done::ApplyProvenance(registry::apply_provenance(db, op, now)?),
        Tx::RemoveProvenance(op) => Done::RemoveProvenance(registry::remove_provenance(db, op)?),
        Tx::SyncDictionary(op) => Done::SyncDictionary(dictionary::sync(db, op, now)?),
        Tx::RequestJob(op) => Done::RequestJob(trigger::fire(db, op, now)?),
        Tx::FireDue(op) => Done::FireDue(trigger::fire_due(db, *op, now)?),
        Tx::ClaimJob(op) => Done::ClaimJob(trigger::take(db, op, now)?.map(Box::new)),
        Tx::SettleJob(op) => Done::SettleJob(trigger::settle(db, op, now)?),
        Tx::FanOut(op) => Done::FanOut(fan::fan_out(db, op, now)?),
        Tx::ReadParents(op) => Done::ReadParents(fan::read_parents(db, op)?),
        Tx::ReadCoverage(op) => Done::ReadCoverage(plan::read_coverage(db, op, now)?),
        Tx::ReadSegments(op) => Done::ReadSegments(segment::read(db, op, now)?),
        Tx::SavePlan(op) => Done::SavePlan(plan::save(db, op, now)?),
        Tx::ClaimTasks(op) => Done::ClaimTasks(claim::claim(db, op, now)?),
        Tx::Renew(op) => Done::Renew(task::renew(db, op, now)?),
        Tx::StartRun(op) => Done::StartRun(run::start(db, *op, now)?),
        Tx::CommitBatch(op) => Done::CommitBatch(batch::commit(db, op, now)?),
        Tx::CommitBatches(ops) => {
            let done: Result<_> = ops.iter().map(|op| batch::commit(db, op, now)).collect();
            Done::CommitBatches(done?)
        }
        Tx::MarkMissing(op) => Done::MarkMissing(missing::mark(db, op, now)?),
        Tx::EndRun(op) => Done::EndRun(run::end(db, op, now)?),
        Tx::RecordAdvance(op) => Done::RecordAdvance(cursor::record_advance(db, *op, now)?),
        Tx::AdvanceCursor(op) => Done::AdvanceCursor(cursor::advance(db, op, now)?),
        Tx::AcceptGap(op) => Done::AcceptGap(cursor::accept_gap(db, op, now)?),
        Tx::SaveSources(op) => Done::SaveSources(source::save(db, op, now)?),
        Tx::ChangeSource(op) => Done::ChangeSource(source::change(db, op, now)?),
        Tx::SyncTypes(op) => Done::SyncTypes(source::sync_types(db, op, now)?),
        Tx::QueuePolls(op) => Done::QueuePolls(poll::queue(db, op, now)?),
        Tx::HurryPoll(op) => Done::HurryPoll(poll::hurry(db, *op, now)?),
        Tx::ClaimPolls(op) => Done::ClaimPolls(poll::claim(db, op, now)?),
        Tx::Heartbeat(op) => Done::Heartbeat(source::beat(db, op, now)?),
        Tx::PurgeExpired(op) => Done::PurgeExpired(clean::clean(db, op, now)?),
        Tx::SaveSetting(op) => Done::SaveSetting(source::configure(db, op, now)?),
        Tx::RequestPermits(op) => Done::RequestPermits(gate::request(db, op, now)?),
        Tx::Sweep(op) => Done::Sweep(task::sweep(db, *op, now)?),
        Tx::PauseWork(op) => Done::PauseWork(pause::set(db, op, now)?),
        Tx::ResumeWork(op) => Done::ResumeWork(pause::resume(db, op, now)?),
        Tx::CancelWork(op) => Done::CancelWork(cancel::cancel(db, op, now)?),
        Tx::RedriveWork(op) => Done::RedriveWork(redrive::redrive(db, op, now)?),
        Tx::SignalRecords(op) => Done::SignalRecords(signal::signal(db, op, now)?),
        Tx::AbandonRecord(op) => Done::AbandonRecord(signal::abandon(db, op, now)?),
        Tx::ArchiveLedger(op) => Done::ArchiveLedger(retention::archive(db, *op, now)?),
        Tx::RecordExport(op) => Done::RecordExport(retention::record_export(db, op, now)?),
        Tx::CreateKey(op) => Done::CreateKey(key::create(db, op, now)?),
        Tx::RevokeKey(op) => Done::RevokeKey(key::revoke(db, op, now)?),
        Tx::SaveCredential(op) => Done::SaveCredential(credential::save(db, op, now)?),
        Tx::RevokeCredential(op) => Done::RevokeCredential(credential::revoke(db, op, now)?),
        Tx::LeaseRefresh(op) => Done::LeaseRefresh(credential::lease(db, op, now)?),
        Tx::StoreToken(op) => Done::StoreToken(credential::store(db, op, now)?),
        Tx::FailRefresh(op) => Done::FailRefresh(credential::fail(db, op, now)?),
        Tx::MarkCredential(op) => Done::MarkCredential(credential::mark(db, op, now)?),
        Tx::SaveCookie(op) => Done::SaveCookie(cookie::save(db, op, now)?),
        Tx::PickCookie(op) => Done::PickCookie(cookie_pick::pick(db, op, now)?),
        Tx::ReleaseCookie(op) => Done::ReleaseCookie(cookie_pick::release(db, op, now)?),
        Tx::PauseCookie(op) => Done::PauseCookie(cookie::pause(db, op, now)?),
        Tx::RecordCookieOutcome(op) => Done::RecordCookieOutcome(cookie::record_outcome(db, op, now)?),
        Tx::ReactivateCookie(op) => Done::ReactivateCookie(cookie::reactivate(db, op, now)?),
        Tx::Reseal(op) => Done::Reseal(cookie::reseal(db, op, now)?),
        Tx::AcquireExecution(op) => Done::AcquireExecution(execution::acquire(db, op, now)?),
        Tx::KeepExecution(op) => Done::KeepExecution(execution::keep(db, op, now)?),
        Tx::EndExecution(op) => Done::EndExecution(execution::end(db, op, now)?),
        Tx::AddCandidates(op) => Done::AddCandidates(crawl::add(db, op, now)?),
        Tx::ClaimCandidates(op) => Done::ClaimCandidates(crawl::claim(db, op, now)?),
        Tx::FailCandidate(op) => Done::FailCandidate(crawl::fail(db, op, now)?),
        Tx::RequeueCandidates(op) => Done::RequeueCandidates(crawl::requeue(db, op, now)?),
        Tx::WriteNote(op) => Done::WriteNote(crawl::write_note(db, op, now)?),
        Tx::Recover(op) => Done::Recover(crawl::recover(db, *op, now)?),
        Tx::CountCrawls(op) => Done::CountCrawls(alert::count_crawls(db, op, now)?),
        Tx::WatchAlert(op) => Done::WatchAlert(alert::watch(db, op, now)?),
        Tx::CreateProject(op) => Done::CreateProject(project::create(db, op, now)?),
        Tx::AddUrls(op) => Done::AddUrls(pool::add(db, op, now)?),
        Tx::ConfigureCapture(op) => Done::ConfigureCapture(pool::configure(db, op, now)?),
        Tx::PutDocument(op) => Done::PutDocument(pool::put_document(db, op, now)?),
        Tx::RequestBackgroundJob(op) => Done::RequestBackgroundJob(background_job::request(db, op, now)?),
        Tx::ClaimBackgroundJob(op) => Done::ClaimBackgroundJob(background_job::claim(db, op, now)?.map(Box::new)),
        Tx::ClaimEvents(op) => Done::ClaimEvents(outbox::take(db, op, now)?),
        Tx::RetryEvents(op) => Done::RetryEvents(outbox::retry(db, op, now)?),
        Tx::SettleEvent(op) => Done::SettleEvent(outbox::settle(db, op, now)?),
        Tx::UpdateBackgroundJob(op) => Done::UpdateBackgroundJob(background_job::update(db, op, now)?),
    })
}

/// Statements whose plans are tested.
#[cfg(test)]
pub(crate) mod hot {
    pub(crate) use super::background_job::CLAIM as CLAIM_BACKGROUND_JOB;
    pub(crate) use super::batch::REPLACE_ITEM;
    pub(crate) use super::claim::{HEAD, HEAD_WITH_HOLDS, NEXT_LANE};
    pub(crate) use super::clean::{FORGET_BACKGROUND_JOBS, OLD_POLLS, OLD_SCRAPES};
    pub(crate) use super::cookie_pick::{COUNT as COUNT_COOKIES, IS_DUE as ARE_COOKIES_DUE, PICK as PICK_COOKIE};
    pub(crate) use super::cover::{BEYOND_BACKFILL, BEYOND_FORWARD, NEWEST_PLAN, NEXT_ORDINAL, SEGMENTS};
    pub(crate) use super::crawl::{CLAIM as CLAIM_NOTES, READ_FORGOTTEN};
    pub(crate) use super::cursor::{
        LAST_BACKFILL, LAST_FORWARD, LAST_NUMERIC, REACHES_BACKFILL, REACHES_FORWARD, REACHES_NUMERIC, READ_HARVESTED,
    };
    pub(crate) use super::fan::{COUNT_CHILDREN, COUNT_WAITING, READ_PARENTS};
    pub(crate) use super::fetched::READ_KEYS;
    pub(crate) use super::missing::{MARK_ITEM, READ_PART};
    pub(crate) use super::outbox::TAKE as TAKE_EVENTS;
    pub(crate) use super::pause::READ_STOPPING;
    pub(crate) use super::plan::COUNT_QUEUED;
    pub(crate) use super::poll::NEXT as NEXT_POLLS;
    pub(crate) use super::pool::{COVER, IS_SHARED};
    pub(crate) use super::retention::READ_BATCHES;
    pub(crate) use super::run::READ_RESUME;
    pub(crate) use super::segment::{MAPPED_OTHERWISE, SIGNALLED, STALE};
    pub(crate) use super::signal::HAS_ISOLATED;
    pub(crate) use super::task::READ_EXPIRED;
    pub(crate) use super::trigger::{READ_DUE, TAKE};
}
