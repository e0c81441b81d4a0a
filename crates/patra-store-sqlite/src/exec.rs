//! The operations: one function for each value of `Tx`, on a connection that is inside a transaction. A function that
//! fails may leave half of its work behind; the caller rolls it back.

mod batch;
pub(crate) mod candidate;
mod credential;
mod cursor;
mod dictionary;
mod fan;
mod key;
mod ledger;
mod plan;
mod registry;
mod run;
mod split;
mod task;
mod trigger;

use patra_core::Ts;
use patra_core::tx::{Done, Tx};
use rusqlite::Connection;

use crate::error::Result;

pub(crate) use credential::read_state;

#[cfg(test)]
pub(crate) const STATEMENTS: &[&[&str]] = &[
    batch::STATEMENTS,
    candidate::STATEMENTS,
    credential::STATEMENTS,
    cursor::STATEMENTS,
    dictionary::STATEMENTS,
    fan::STATEMENTS,
    key::STATEMENTS,
    ledger::STATEMENTS,
    plan::STATEMENTS,
    registry::STATEMENTS,
    registry::DELETE_SECTION,
    registry::UPSERT_SECTION,
    run::STATEMENTS,
    split::STATEMENTS,
    task::STATEMENTS,
    trigger::STATEMENTS,
];

pub(crate) fn execute(db: &Connection, tx: &Tx, now: Ts) -> Result<Done> {
    Ok(match tx {
        Tx::ApplyProvenance(op) => Done::ApplyProvenance(registry::apply_provenance(db, op, now)?),
        Tx::RemoveProvenance(op) => Done::RemoveProvenance(registry::remove_provenance(db, op)?),
        Tx::SyncDictionary(op) => Done::SyncDictionary(dictionary::sync(db, op, now)?),
        Tx::Fire(op) => Done::Fire(trigger::fire(db, op, now)?),
        Tx::FireDue(op) => Done::FireDue(trigger::fire_due(db, *op, now)?),
        Tx::TakeTrigger(op) => Done::TakeTrigger(trigger::take(db, op, now)?.map(Box::new)),
        Tx::SettleTrigger(op) => Done::SettleTrigger(trigger::settle(db, op, now)?),
        Tx::FanOut(op) => Done::FanOut(fan::fan_out(db, op, now)?),
        Tx::ReadParents(op) => Done::ReadParents(fan::read_parents(db, op)?),
        Tx::ReadCoverage(op) => Done::ReadCoverage(plan::read_coverage(db, op, now)?),
        Tx::SavePlan(op) => Done::SavePlan(plan::save(db, op, now)?),
        Tx::Claim(op) => Done::Claim(task::claim(db, op, now)?),
        Tx::Renew(op) => Done::Renew(task::renew(db, op, now)?),
        Tx::StartRun(op) => Done::StartRun(run::start(db, *op, now)?),
        Tx::CommitBatch(op) => Done::CommitBatch(batch::commit(db, op, now)?),
        Tx::EndRun(op) => Done::EndRun(run::end(db, op, now)?),
        Tx::RecordAdvance(op) => Done::RecordAdvance(cursor::record_advance(db, *op, now)?),
        Tx::AdvanceCursor(op) => Done::AdvanceCursor(cursor::advance(db, *op, now)?),
        Tx::Sweep(op) => Done::Sweep(task::sweep(db, *op, now)?),
        Tx::CreateKey(op) => Done::CreateKey(key::create(db, op, now)?),
        Tx::RevokeKey(op) => Done::RevokeKey(key::revoke(db, op, now)?),
        Tx::SaveCredential(op) => Done::SaveCredential(credential::save(db, op, now)?),
        Tx::RevokeCredential(op) => Done::RevokeCredential(credential::revoke(db, op, now)?),
        Tx::LeaseRefresh(op) => Done::LeaseRefresh(credential::lease(db, op, now)?),
        Tx::StoreToken(op) => Done::StoreToken(credential::store(db, op, now)?),
        Tx::FailRefresh(op) => Done::FailRefresh(credential::fail(db, op, now)?),
        Tx::MarkCredential(op) => Done::MarkCredential(credential::mark(db, op, now)?),
    })
}

/// Statements whose plan a test looks at.
#[cfg(test)]
pub(crate) mod hot {
    pub(crate) use super::batch::REPLACE_ITEM;
    pub(crate) use super::cursor::{READ_NEWEST_EVENT, READ_SUCCEEDED};
    pub(crate) use super::fan::{COUNT_CHILDREN, COUNT_WAITING, READ_PARENTS};
    pub(crate) use super::plan::{COUNT_QUEUED, READ_COVERED};
    pub(crate) use super::run::READ_RESUME;
    pub(crate) use super::task::{NEXT_PRIORITY, PICK, READ_EXPIRED};
    pub(crate) use super::trigger::{READ_DUE, TAKE};
}
