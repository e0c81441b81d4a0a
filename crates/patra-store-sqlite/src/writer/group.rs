//! Group commit: several operations in one transaction, each in its own savepoint, so that the failure of one is not
//! the failure of its neighbours.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use patra_core::Ts;
use patra_core::tx::{Done, Tx, TxError};
use rusqlite::Connection;

use super::Execute;
use crate::error::{Error, Result, commit_failed, not_applied};

/// Carries out the operations in one transaction and commits it. One answer per operation, in order.
pub(super) fn commit<'a>(
    connection: &Connection,
    operations: impl ExactSizeIterator<Item = &'a Tx>,
    execute: Execute,
    now: &mut dyn FnMut() -> Ts,
) -> Vec<Result<Done, TxError>> {
    let count = operations.len();
    let everyone = |error: TxError| vec![Err(error); count];
    if let Err(error) = run(connection, "BEGIN IMMEDIATE") {
        return everyone(not_applied(&error));
    }
    let mut answers = Vec::with_capacity(count);
    for operation in operations {
        let now = now();
        let attempt = || guarded(connection, operation, execute, now);
        let answer = if count > 1 { apart(connection, attempt) } else { Ok(attempt()) };
        match answer {
            Ok(answer) => answers.push(answer.map_err(TxError::from)),
            Err(lost) => {
                roll_back(connection);
                return everyone(not_applied(&lost));
            }
        }
        // Out of space or memory, or a failed read: SQLite has rolled back everything, the neighbours' work included.
        if connection.is_autocommit() {
            return everyone(match answers.pop() {
                Some(Err(error)) if error.is_transient() => error,
                _ => TxError::Unavailable("the transaction was rolled back".into()),
            });
        }
    }
    if answers.iter().all(Result::is_err) {
        roll_back(connection);
    } else if let Err(error) = run(connection, "COMMIT") {
        roll_back(connection);
        let error = commit_failed(&error);
        answers.iter_mut().filter(|answer| answer.is_ok()).for_each(|answer| *answer = Err(error.clone()));
    }
    answers
}

/// Runs one attempt in a savepoint and takes it back alone when it fails. The outer error means that the savepoint
/// itself did not work, and with it the whole transaction.
fn apart(connection: &Connection, attempt: impl FnOnce() -> Result<Done>) -> rusqlite::Result<Result<Done>> {
    run(connection, "SAVEPOINT operation")?;
    let answer = attempt();
    if connection.is_autocommit() {
        return Ok(answer);
    }
    if answer.is_err() {
        run(connection, "ROLLBACK TO operation")?;
    }
    run(connection, "RELEASE operation")?;
    Ok(answer)
}

/// A panic in an operation is a bug in that operation; the writer must outlive it.
fn guarded(connection: &Connection, operation: &Tx, execute: Execute, now: Ts) -> Result<Done> {
    catch_unwind(AssertUnwindSafe(|| execute(connection, operation, now))).unwrap_or_else(|panic| {
        let reason = message(&*panic);
        tracing::error!(operation = operation.name(), reason, "an operation panicked");
        Err(Error::refused(format!("{} panicked: {reason}", operation.name())))
    })
}

fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn roll_back(connection: &Connection) {
    if connection.is_autocommit() {
        return;
    }
    if let Err(error) = run(connection, "ROLLBACK") {
        tracing::error!(%error, "a rollback failed");
    }
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute(())?;
    Ok(())
}
