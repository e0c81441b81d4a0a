//! The checkpoint job: copies the WAL back into the database, so that no commit pays for it and no slow reader lets the
//! WAL grow without bound (reliability class 20). A thread of its own copies the backlog while the writer continues;
//! the writer copies the few frames that were added meanwhile, and the WAL restarts.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

/// Frames in the WAL from which a short wait for readers is better than more growth: 31 MiB, an eighth of a larger
/// database, at most [`MOST_FRAMES`]. Every group writes the pages of an index again, and one copy serves for all of
/// them; the larger the index, the later they repeat. Half as many uncopied frames make a passive checkpoint worth its
/// sync.
const LEAST_FRAMES: i64 = 4_000;

/// 125 MiB. A writer may have to wait until half of it is copied.
pub(crate) const MOST_FRAMES: i64 = 16_000;

/// Longest time that a checkpoint waiting for readers may block writers.
const READER_WAIT: Duration = Duration::from_millis(50);

/// Idle time after which the WAL is emptied.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Started with the first copy.
    copier: Option<Copier>,
    /// Frames that the WAL may reach, for a database of this size.
    room: i64,
    /// Frames at which the next restart is tried. Rises while readers block it, so that the writer does not wait for
    /// them after every group.
    restart_at: i64,
    /// Whether the WAL has frames.
    dirty: bool,
}

impl Default for Checkpoint {
    fn default() -> Checkpoint {
        Checkpoint { copier: None, room: LEAST_FRAMES, restart_at: LEAST_FRAMES, dirty: true }
    }
}

/// Result of `PRAGMA wal_checkpoint`.
#[derive(Debug)]
struct Wal {
    busy: bool,
    frames: i64,
    copied: i64,
}

impl Checkpoint {
    /// Wait for work before the idle checkpoint; `None` when there is nothing to do.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.dirty.then_some(IDLE)
    }

    pub(super) fn after_group(&mut self, connection: &Connection) {
        self.dirty = true;
        self.report(|this| {
            let wal = checkpoint(connection, "NOOP")?;
            let copied = this.copier.as_mut().is_some_and(Copier::has_copied);
            if wal.frames >= this.restart_at {
                this.wait();
                let wal = patiently(connection, "RESTART")?;
                this.reset_limits(connection)?;
                if wal.busy {
                    this.restart_at += wal.frames;
                }
            } else if copied {
                let wal = checkpoint(connection, "PASSIVE")?;
                // The next commit restarts the WAL.
                if wal.frames == wal.copied {
                    this.reset_limits(connection)?;
                }
            } else if wal.frames - wal.copied >= this.room / 2 {
                this.copier(connection)?.copy();
            }
            Ok(())
        });
    }

    pub(super) fn on_idle(&mut self, connection: &Connection) {
        self.report(|this| {
            this.wait();
            this.dirty = patiently(connection, "TRUNCATE")?.busy;
            if !this.dirty {
                this.reset_limits(connection)?;
            }
            Ok(())
        });
    }

    fn reset_limits(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let pages: i64 = connection.prepare_cached("PRAGMA page_count")?.query_row((), |row| row.get(0))?;
        self.room = (pages / 8).clamp(LEAST_FRAMES, MOST_FRAMES);
        self.restart_at = self.room;
        Ok(())
    }

    fn copier(&mut self, connection: &Connection) -> rusqlite::Result<&mut Copier> {
        Ok(match self.copier.take() {
            Some(copier) => self.copier.insert(copier),
            None => self.copier.insert(Copier::start(copying(connection)?)),
        })
    }

    /// Waits until no copy is running.
    fn wait(&mut self) {
        if let Some(copier) = &mut self.copier {
            copier.wait();
        }
    }

    /// Logs a failed checkpoint. Nothing is lost: the WAL still has everything, and the next checkpoint tries again.
    fn report(&mut self, job: impl FnOnce(&mut Checkpoint) -> rusqlite::Result<()>) {
        if let Err(error) = job(self) {
            tracing::warn!(%error, "a checkpoint failed");
        }
    }
}

/// Copies on demand, on a thread and a connection of its own.
#[derive(Debug)]
struct Copier {
    orders: Option<Sender<()>>,
    done: Receiver<()>,
    /// A copy was ordered, and its end has not been read yet.
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl Copier {
    /// If the thread cannot be started, the writer copies when the WAL has grown.
    fn start(connection: Connection) -> Copier {
        let (orders, ordered) = channel();
        let (end, done) = channel();
        let copy = move || {
            while ordered.recv().is_ok() {
                if let Err(error) = checkpoint(&connection, "PASSIVE") {
                    tracing::warn!(%error, "a checkpoint failed");
                }
                if end.send(()).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("patra-wal".into()).spawn(copy).ok();
        Copier { orders: Some(orders), done, busy: false, thread }
    }

    /// Starts a copy, unless one is running.
    fn copy(&mut self) {
        if !self.busy {
            self.busy = self.orders.as_ref().is_some_and(|orders| orders.send(()).is_ok());
        }
    }

    /// Returns true once after each copy.
    fn has_copied(&mut self) -> bool {
        let ended = self.busy && self.done.try_recv().is_ok();
        self.busy &= !ended;
        ended
    }

    /// Waits for the end of the copy.
    fn wait(&mut self) {
        if self.busy {
            // A thread that has ended is not copying either.
            let _ = self.done.recv();
            self.busy = false;
        }
    }
}

/// This connection closes before the writer's, which empties the WAL as the last one.
impl Drop for Copier {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of the checkpoints panicked");
        }
    }
}

/// Opens another connection to the same database, which syncs as the writer does.
fn copying(writer: &Connection) -> rusqlite::Result<Connection> {
    let synchronous: i64 = writer.pragma_query_value(None, "synchronous", |row| row.get(0))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(writer.path().unwrap_or_default(), flags)?;
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    Ok(connection)
}

/// Runs a checkpoint that waits for readers, but not as long as a statement would.
fn patiently(connection: &Connection, mode: &str) -> rusqlite::Result<Wal> {
    let usual = connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0))?;
    connection.busy_timeout(READER_WAIT)?;
    let wal = checkpoint(connection, mode);
    connection.busy_timeout(Duration::from_millis(u64::from(usual)))?;
    wal
}

fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<Wal> {
    connection
        .prepare_cached(&format!("PRAGMA wal_checkpoint({mode})"))?
        .query_row((), |row| Ok(Wal { busy: row.get(0)?, frames: row.get(1)?, copied: row.get(2)? }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copier_copies_the_wal_while_the_writer_is_busy() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("patra.db")).unwrap();
        writer.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0").unwrap();
        writer.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (zeroblob(1000000))").unwrap();
        let before = checkpoint(&writer, "NOOP").unwrap();
        let mut copier = Copier::start(copying(&writer).unwrap());
        assert!(!copier.has_copied(), "no copy was ordered");
        // The writer has an open transaction.
        writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1)").unwrap();
        copier.copy();
        copier.wait();
        writer.execute_batch("COMMIT").unwrap();
        let after = checkpoint(&writer, "NOOP").unwrap();
        assert!(before.frames > 100 && before.copied == 0, "{before:?}");
        assert_eq!(after.copied, before.frames, "{after:?}");
        assert!(!copier.has_copied(), "its end was seen");
    }

    #[test]
    fn wal_limit_grows_with_the_database() {
        let folder = tempfile::tempdir().unwrap();
        let writer = Connection::open(folder.path().join("patra.db")).unwrap();
        writer.execute_batch("PRAGMA page_size = 512; PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
        let mut checkpoint = Checkpoint::default();
        checkpoint.on_idle(&writer);
        assert_eq!((checkpoint.room, checkpoint.restart_at), (LEAST_FRAMES, LEAST_FRAMES));
        writer.execute_batch("INSERT INTO t VALUES (zeroblob(20000000))").unwrap();
        checkpoint.on_idle(&writer);
        let room = checkpoint.room;
        assert!(room > LEAST_FRAMES && room < 2 * LEAST_FRAMES, "an eighth of the database: {room}");
        // A reader blocks the restart: the writer does not wait for it after every group.
        let reader = Connection::open(folder.path().join("patra.db")).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM t").unwrap();
        writer.execute_batch("PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES (zeroblob(4000000))").unwrap();
        checkpoint.after_group(&writer);
        assert!(checkpoint.restart_at >= 2 * room, "{} of {room}", checkpoint.restart_at);
        reader.execute_batch("COMMIT").unwrap();
        checkpoint.on_idle(&writer);
        assert_eq!(checkpoint.restart_at, checkpoint.room);
    }
}
