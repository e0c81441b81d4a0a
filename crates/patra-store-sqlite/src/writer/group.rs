//! Group commit: several operations in one transaction, where the failure of one does not fail the others. A savepoint
//! for each would keep a copy of every page it touches, so there are none at first: if an operation fails after it has
//! written, which is rare, the transaction is rolled back and repeated with savepoints.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use patra_core::Ts;
use patra_core::tx::{Done, Tx, TxError};
use rusqlite::Connection;

use super::Execute;
use crate::error::{Error, Result, commit_failed, not_applied};

type Answers = Vec<Result<Done, TxError>>;

/// The transaction was rolled back, with all operations.
struct Broken {
    error: TxError,
    /// The error of an operation that had written before it failed.
    of_one: bool,
}

impl Broken {
    fn for_all(error: &rusqlite::Error) -> Broken {
        Broken { error: not_applied(error), of_one: false }
    }
}

/// Runs one operation of a group: returns its result, or why the transaction cannot continue.
type Way = fn(&Connection, &dyn Fn() -> Result<Done>) -> Result<Result<Done>, Broken>;

/// Runs the operations in one transaction and commits it. Returns one result per operation, in order.
pub(super) fn commit<'a>(
    connection: &Connection,
    operations: impl ExactSizeIterator<Item = &'a Tx> + Clone,
    execute: Execute,
    now: &mut dyn FnMut() -> Ts,
) -> Answers {
    let count = operations.len();
    let answers = match carry_out(connection, operations.clone(), execute, now, plainly) {
        Err(broken) if broken.of_one && count > 1 => carry_out(connection, operations, execute, now, apart),
        answers => answers,
    };
    answers.unwrap_or_else(|broken| vec![Err(broken.error); count])
}

/// Runs this in a transaction of its own.
pub(super) fn in_transaction(connection: &Connection, work: &dyn Fn() -> Result<()>) -> Result<(), TxError> {
    run(connection, "BEGIN IMMEDIATE").map_err(|error| not_applied(&error))?;
    let done = work().map_err(TxError::from);
    let done = done.and_then(|()| run(connection, "COMMIT").map_err(|error| commit_failed(&error)));
    if done.is_err() {
        roll_back(connection);
    }
    done
}

fn carry_out<'a>(
    connection: &Connection,
    operations: impl Iterator<Item = &'a Tx>,
    execute: Execute,
    now: &mut dyn FnMut() -> Ts,
    way: Way,
) -> Result<Answers, Broken> {
    run(connection, "BEGIN IMMEDIATE").map_err(|error| Broken::for_all(&error))?;
    let mut answers = Answers::new();
    for operation in operations {
        let now = now();
        match way(connection, &|| guarded(connection, operation, execute, now)) {
            Ok(answer) => answers.push(answer.map_err(TxError::from)),
            Err(broken) => {
                roll_back(connection);
                return Err(broken);
            }
        }
        // Out of space or memory, or a failed read: SQLite has rolled back everything, the other operations included.
        if connection.is_autocommit() {
            let error = match answers.pop() {
                Some(Err(error)) if error.is_transient() => error,
                _ => TxError::Unavailable("the transaction was rolled back".into()),
            };
            return Err(Broken { error, of_one: false });
        }
    }
    if answers.iter().all(Result::is_err) {
        roll_back(connection);
    } else if let Err(error) = run(connection, "COMMIT") {
        roll_back(connection);
        let error = commit_failed(&error);
        answers.iter_mut().filter(|answer| answer.is_ok()).for_each(|answer| *answer = Err(error.clone()));
    }
    Ok(answers)
}

/// Runs an operation without a savepoint. One that fails before it has written affects no other.
fn plainly(connection: &Connection, attempt: &dyn Fn() -> Result<Done>) -> Result<Result<Done>, Broken> {
    let changes = connection.total_changes();
    match attempt() {
        Err(error) if connection.total_changes() != changes && !connection.is_autocommit() => {
            Err(Broken { error: error.into(), of_one: true })
        }
        answer => Ok(answer),
    }
}

/// Runs an operation in a savepoint, to roll it back alone when it fails. If the savepoint itself fails, the
/// transaction is lost.
fn apart(connection: &Connection, attempt: &dyn Fn() -> Result<Done>) -> Result<Result<Done>, Broken> {
    let run = |sql| run(connection, sql).map_err(|error| Broken::for_all(&error));
    run("SAVEPOINT operation")?;
    let answer = attempt();
    if connection.is_autocommit() {
        return Ok(answer);
    }
    if answer.is_err() {
        run("ROLLBACK TO operation")?;
    }
    run("RELEASE operation")?;
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
