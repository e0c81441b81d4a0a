//! The checkpoint job: copies the WAL back into the database between groups, so that no commit pays for it and no slow
//! reader lets the WAL grow without bound (reliability class 20).

use std::time::Duration;

use rusqlite::Connection;

/// Frames (16 MiB) that are not yet copied when a passive checkpoint is worth its sync. The pages of an index come
/// again with every group; one copy serves for all of them, so half of this would write a sixth more.
const PASSIVE_FRAMES: i64 = 2_000;

/// Frames in the WAL (32 MiB) when waiting a moment for readers is better than growing on.
const RESTART_FRAMES: i64 = 4_000;

/// How long writers may be held up by a checkpoint that waits for readers.
const READER_WAIT: Duration = Duration::from_millis(50);

/// Idle time after which the WAL is emptied.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Checkpoint {
    /// Frames at which the next restart is tried. Rises while readers are in the way, so that they are not waited for
    /// after every group.
    restart_at: i64,
    /// The WAL holds frames.
    dirty: bool,
}

impl Default for Checkpoint {
    fn default() -> Checkpoint {
        Checkpoint { restart_at: RESTART_FRAMES, dirty: true }
    }
}

/// What `PRAGMA wal_checkpoint` answers.
struct Wal {
    busy: bool,
    frames: i64,
    copied: i64,
}

impl Checkpoint {
    /// How long to wait for work before the idle checkpoint; `None` when there is nothing to do.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.dirty.then_some(IDLE)
    }

    pub(super) fn after_group(&mut self, connection: &Connection) {
        self.dirty = true;
        self.report(|this| {
            let wal = checkpoint(connection, "NOOP")?;
            if wal.frames >= this.restart_at {
                let wal = patiently(connection, "RESTART")?;
                this.restart_at = if wal.busy { wal.frames + RESTART_FRAMES } else { RESTART_FRAMES };
            } else if wal.frames - wal.copied >= PASSIVE_FRAMES {
                checkpoint(connection, "PASSIVE")?;
            }
            Ok(())
        });
    }

    pub(super) fn on_idle(&mut self, connection: &Connection) {
        self.report(|this| {
            this.dirty = patiently(connection, "TRUNCATE")?.busy;
            if !this.dirty {
                this.restart_at = RESTART_FRAMES;
            }
            Ok(())
        });
    }

    /// A checkpoint that fails loses nothing: the WAL still holds all, and the next one tries again.
    fn report(&mut self, job: impl FnOnce(&mut Checkpoint) -> rusqlite::Result<()>) {
        if let Err(error) = job(self) {
            tracing::warn!(%error, "a checkpoint failed");
        }
    }
}

/// Waits for readers, but not for as long as a statement would.
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
