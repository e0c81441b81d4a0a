//! The command side: each operation of `patra_core::tx` as SQL. Operations lock in one order: trigger or task, then
//! cursor, then the rows below. They wait for each other but never deadlock.

mod alert;
mod background_job;
mod batch;
mod cancel;
pub(crate) mod candidate;
mod claim;
mod clean;
mod clock;
mod cookie;
mod cookie_pick;
mod cover;
mod crawl;
mod credential;
mod cursor;
mod dictionary;
mod document;
mod execution;
mod fan;
mod fetched;
mod gate;
mod key;
mod ledger;
mod minute;
mod missing;
mod outbox;
mod pause;
mod plan;
mod poll;
mod project;
mod raw;
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
mod urls;

pub(crate) use claim::lanes;
use patra_core::tx::{BatchCommitted, Done, Tx, TxError};
use tokio_postgres::{Row, Statement};

use crate::error::{Fail, refused};
use crate::pool::Session;
use crate::time::Time;

pub(crate) use alert::read_alert;
pub(crate) use cookie::read_usage;
pub(crate) use cookie_pick::joins;
pub(crate) use crawl::read_candidate;
pub(crate) use credential::read_credential;
pub(crate) use execution::read_execution;
pub(crate) use fetched::read_stats;

pub(crate) async fn execute(session: &Session, tx: Tx) -> Result<Done, Fail> {
    Ok(match tx {
        Tx::ApplyProvenance(op) => Done::ApplyProvenance(registry::apply(session, &op).await?),
        Tx::RemoveProvenance(op) => Done::RemoveProvenance(registry::remove(session, &op).await?),
        Tx::SyncDictionary(op) => Done::SyncDictionary(dictionary::sync(session, &op).await?),
        Tx::RequestJob(op) => Done::RequestJob(trigger::fire(session, &op).await?),
        Tx::FireDue(op) => Done::FireDue(trigger::fire_due(session, op).await?),
        Tx::ClaimJob(op) => Done::ClaimJob(trigger::take(session, &op).await?.map(Box::new)),
        Tx::SettleJob(op) => Done::SettleJob(trigger::settle(session, &op).await?),
        Tx::FanOut(op) => Done::FanOut(fan::fan_out(session, &op).await?),
        Tx::ReadParents(op) => Done::ReadParents(fan::read_parents(session, &op).await?),
        Tx::ReadCoverage(op) => Done::ReadCoverage(cover::read(session, &op).await?),
        Tx::ReadSegments(op) => Done::ReadSegments(segment::read(session, &op).await?),
        Tx::SavePlan(op) => Done::SavePlan(plan::save(session, &op).await?),
        Tx::ClaimTasks(op) => Done::ClaimTasks(claim::claim(session, &op).await?),
        Tx::Renew(op) => Done::Renew(task::renew(session, &op).await?),
        Tx::StartRun(_) | Tx::CommitBatch(_) | Tx::CommitBatches(_) | Tx::EndRun(_) => {
            let result = execute_together(session, vec![tx]).await?.pop();
            result.ok_or_else(|| refused("an operation has no result"))??
        }
        Tx::MarkMissing(op) => Done::MarkMissing(missing::mark(session, &op).await?),
        Tx::RecordAdvance(op) => Done::RecordAdvance(cursor::record_advance(session, op).await?),
        Tx::AdvanceCursor(op) => Done::AdvanceCursor(cursor::advance(session, &op).await?),
        Tx::AcceptGap(op) => Done::AcceptGap(cursor::accept_gap(session, &op).await?),
        Tx::SaveSources(op) => Done::SaveSources(source::save(session, &op).await?),
        Tx::ChangeSource(op) => Done::ChangeSource(source::change(session, &op).await?),
        Tx::SyncTypes(op) => Done::SyncTypes(source::sync_types(session, &op).await?),
        Tx::QueuePolls(op) => Done::QueuePolls(poll::queue(session, &op).await?),
        Tx::HurryPoll(op) => Done::HurryPoll(poll::hurry(session, op).await?),
        Tx::ClaimPolls(op) => Done::ClaimPolls(poll::claim(session, &op).await?),
        Tx::Heartbeat(op) => Done::Heartbeat(source::beat(session, &op).await?),
        Tx::PurgeExpired(op) => Done::PurgeExpired(clean::clean(session, &op).await?),
        Tx::SaveSetting(op) => Done::SaveSetting(source::configure(session, &op).await?),
        Tx::RequestPermits(op) => Done::RequestPermits(gate::request(session, &op).await?),
        Tx::Sweep(op) => Done::Sweep(task::sweep(session, op).await?),
        Tx::PauseWork(op) => Done::PauseWork(pause::set(session, &op).await?),
        Tx::ResumeWork(op) => Done::ResumeWork(pause::resume(session, &op).await?),
        Tx::CancelWork(op) => Done::CancelWork(cancel::cancel(session, &op).await?),
        Tx::RedriveWork(op) => Done::RedriveWork(redrive::redrive(session, &op).await?),
        Tx::SignalRecords(op) => Done::SignalRecords(signal::signal(session, &op).await?),
        Tx::AbandonRecord(op) => Done::AbandonRecord(signal::abandon(session, &op).await?),
        Tx::ArchiveLedger(op) => Done::ArchiveLedger(retention::archive(session, op).await?),
        Tx::RecordExport(op) => Done::RecordExport(retention::record_export(session, &op).await?),
        Tx::CreateKey(op) => Done::CreateKey(key::create(session, &op).await?),
        Tx::RevokeKey(op) => Done::RevokeKey(key::revoke(session, &op).await?),
        Tx::SaveCredential(op) => Done::SaveCredential(credential::save(session, &op).await?),
        Tx::RevokeCredential(op) => Done::RevokeCredential(credential::revoke(session, &op).await?),
        Tx::LeaseRefresh(op) => Done::LeaseRefresh(credential::lease(session, &op).await?),
        Tx::StoreToken(op) => Done::StoreToken(credential::store(session, &op).await?),
        Tx::FailRefresh(op) => Done::FailRefresh(credential::fail(session, &op).await?),
        Tx::MarkCredential(op) => Done::MarkCredential(credential::mark(session, &op).await?),
        Tx::SaveCookie(op) => Done::SaveCookie(cookie::save(session, &op).await?),
        Tx::PickCookie(op) => Done::PickCookie(cookie_pick::pick(session, &op).await?),
        Tx::ReleaseCookie(op) => Done::ReleaseCookie(cookie_pick::release(session, &op).await?),
        Tx::PauseCookie(op) => Done::PauseCookie(cookie::pause(session, &op).await?),
        Tx::RecordCookieOutcome(op) => Done::RecordCookieOutcome(cookie::record_outcome(session, &op).await?),
        Tx::ReactivateCookie(op) => Done::ReactivateCookie(cookie::reactivate(session, &op).await?),
        Tx::Reseal(op) => Done::Reseal(cookie::reseal(session, &op).await?),
        Tx::AcquireExecution(op) => Done::AcquireExecution(execution::acquire(session, &op).await?),
        Tx::KeepExecution(op) => Done::KeepExecution(execution::keep(session, &op).await?),
        Tx::EndExecution(op) => Done::EndExecution(execution::end(session, &op).await?),
        Tx::AddCandidates(op) => Done::AddCandidates(crawl::add(session, &op).await?),
        Tx::ClaimCandidates(op) => Done::ClaimCandidates(crawl::claim(session, &op).await?),
        Tx::FailCandidate(op) => Done::FailCandidate(crawl::fail(session, &op).await?),
        Tx::RequeueCandidates(op) => Done::RequeueCandidates(crawl::requeue(session, &op).await?),
        Tx::WriteNote(op) => Done::WriteNote(crawl::write_note(session, &op).await?),
        Tx::Recover(op) => Done::Recover(crawl::recover(session, op).await?),
        Tx::CountCrawls(op) => Done::CountCrawls(alert::count_crawls(session, &op).await?),
        Tx::WatchAlert(op) => Done::WatchAlert(alert::watch(session, &op).await?),
        Tx::CreateProject(op) => Done::CreateProject(project::create(session, &op).await?),
        Tx::AddUrls(op) => Done::AddUrls(urls::add(session, &op).await?),
        Tx::ConfigureCapture(op) => Done::ConfigureCapture(project::configure_capture(session, &op).await?),
        Tx::PutDocument(op) => Done::PutDocument(document::put(session, &op).await?),
        Tx::RequestBackgroundJob(op) => Done::RequestBackgroundJob(background_job::request(session, &op).await?),
        Tx::ClaimBackgroundJob(op) => {
            Done::ClaimBackgroundJob(background_job::claim(session, &op).await?.map(Box::new))
        }
        Tx::UpdateBackgroundJob(op) => Done::UpdateBackgroundJob(background_job::update(session, &op).await?),
        Tx::ClaimEvents(op) => Done::ClaimEvents(outbox::take(session, &op).await?),
        Tx::RetryEvents(op) => Done::RetryEvents(outbox::retry(session, &op).await?),
        Tx::SettleEvent(op) => Done::SettleEvent(outbox::settle(session, &op).await?),
    })
}

/// `try_join_all` polls up to this many futures in order, all of them first. With more, one could send its statements
/// after a COMMIT that was sent with them.
pub(crate) const IN_ORDER: usize = 30;

/// Runs operations of one kind on different runs, or picks that join, in one transaction. Returns one result per
/// operation, in order.
pub(crate) async fn execute_together(
    session: &Session,
    operations: Vec<Tx>,
) -> Result<Vec<Result<Done, TxError>>, Fail> {
    Ok(match operations.first() {
        Some(Tx::StartRun(_)) => {
            let ops: Vec<_> =
                operations.iter().filter_map(|tx| if let Tx::StartRun(op) = tx { Some(*op) } else { None }).collect();
            run::start(session, &ops).await?.into_iter().map(|done| done.map(Done::StartRun)).collect()
        }
        Some(Tx::EndRun(_)) => {
            let ops: Vec<_> =
                operations.iter().filter_map(|tx| if let Tx::EndRun(op) = tx { Some(&**op) } else { None }).collect();
            run::end(session, &ops).await?.into_iter().map(|done| done.map(Done::EndRun)).collect()
        }
        Some(Tx::PickCookie(_)) => {
            let ops: Vec<_> =
                operations.iter().filter_map(|tx| if let Tx::PickCookie(op) = tx { Some(op) } else { None }).collect();
            let done = cookie_pick::pick_together(session, &ops).await?;
            done.into_iter().map(|done| done.map(Done::PickCookie)).collect()
        }
        _ => {
            let ops: Vec<_> = operations.iter().map(Tx::pages).collect();
            let done = batch::commit(session, &ops).await?;
            done.into_iter().zip(&operations).map(|(done, tx)| committed(done?, tx)).collect()
        }
    })
}

fn committed(mut pages: Vec<BatchCommitted>, tx: &Tx) -> Result<Done, TxError> {
    if matches!(tx, Tx::CommitBatches(_)) {
        return Ok(Done::CommitBatches(pages));
    }
    pages.pop().map(Done::CommitBatch).ok_or_else(|| TxError::Refused("no page was committed".to_owned()))
}

#[cfg(test)]
pub(crate) use claim::{LOOK, TAKE};
#[cfg(test)]
pub(crate) use crawl::CLAIM as CLAIM_NOTES;
#[cfg(test)]
pub(crate) use missing::{MARK_ITEMS, READ_PART};
#[cfg(test)]
pub(crate) use poll::NEXT as NEXT_POLLS;

/// The statements of a pick of a cookie.
#[cfg(test)]
pub(crate) use cookie_pick::{PICK as PICK_COOKIE, PICK_AND_WAIT};

/// The statements of [`Session::begin_by_key`].
#[cfg(test)]
pub(crate) fn by_key() -> Vec<&'static str> {
    [run::STATEMENTS, batch::STATEMENTS, ledger::STATEMENTS, &[TAKE]].concat()
}

/// Every statement of the command side, for the test that prepares them all.
#[cfg(test)]
pub(crate) fn statements() -> Vec<&'static str> {
    [
        registry::STATEMENTS,
        dictionary::STATEMENTS,
        trigger::STATEMENTS,
        fan::STATEMENTS,
        gate::STATEMENTS,
        plan::STATEMENTS,
        poll::STATEMENTS,
        source::STATEMENTS,
        claim::STATEMENTS,
        clean::STATEMENTS,
        &clock::WAITS,
        &clock::LEASE_ENDS,
        clock::STATEMENTS,
        pause::STATEMENTS,
        cancel::STATEMENTS,
        redrive::STATEMENTS,
        segment::STATEMENTS,
        signal::STATEMENTS,
        raw::STATEMENTS,
        retention::STATEMENTS,
        task::STATEMENTS,
        run::STATEMENTS,
        split::STATEMENTS,
        batch::STATEMENTS,
        candidate::STATEMENTS,
        ledger::STATEMENTS,
        minute::STATEMENTS,
        missing::STATEMENTS,
        cover::STATEMENTS,
        cursor::STATEMENTS,
        credential::STATEMENTS,
        cookie::STATEMENTS,
        cookie_pick::STATEMENTS,
        execution::STATEMENTS,
        crawl::STATEMENTS,
        alert::STATEMENTS,
        key::STATEMENTS,
        project::STATEMENTS,
        urls::STATEMENTS,
        document::STATEMENTS,
        background_job::STATEMENTS,
        outbox::STATEMENTS,
        fetched::STATEMENTS,
        scrape::STATEMENTS,
        &[NOW],
    ]
    .concat()
}

/// Time of an operation, read once it holds its locks. All its times are this one or relative to it.
const NOW: &str = "SELECT clock_timestamp()";

async fn moment(session: &Session, now: &Statement) -> Result<Time, Fail> {
    Ok(session.one(now, &[]).await?.try_get(0)?)
}

/// Reads the time of the operation from the first column of a row. The row exists even when the statement found
/// nothing.
fn now(rows: &[Row]) -> Result<Time, Fail> {
    let row = rows.first().ok_or_else(|| refused("a statement returned no row with its time"))?;
    Ok(row.try_get(0)?)
}

/// The rows with content. A row that carries only the time has no number in its second column.
fn taken(rows: &[Row]) -> Result<impl Iterator<Item = &Row>, Fail> {
    let none = match rows.first() {
        Some(row) => row.try_get::<_, Option<i64>>(1)?.is_none(),
        None => true,
    };
    Ok(if none { &[] } else { rows }.iter())
}

/// A duration as the parameter of `$n::bigint * interval '1 microsecond'`.
fn micros(span: std::time::Duration) -> i64 {
    patra_core::time::micros(span)
}

/// Converts a count from the database. A negative one is corrupt and becomes 0 instead of a panic.
fn count(value: i64) -> u32 {
    u32::try_from(value).unwrap_or(0)
}
