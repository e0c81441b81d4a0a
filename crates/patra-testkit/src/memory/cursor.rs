//! Cursors: the event first, the value after it, forward only.

use patra_core::cursor::completed_prefix;
use patra_core::state::TaskStatus;
use patra_core::tx::{Advance, AdvanceCursor, CursorMoved, RecordAdvance, TxError};
use patra_core::{CursorId, Ts};

use super::{Event, MemStore, next_id, place, refused};

impl MemStore {
    pub(super) fn record_advance(&mut self, now: Ts, op: RecordAdvance) -> Result<Advance, TxError> {
        let at = self.cursor_place(op.cursor)?;
        let cursor = &self.cursors[at];
        let start = cursor.value.unwrap_or(cursor.began);
        let prefix = completed_prefix(start, &self.windows_beyond(cursor, &[TaskStatus::Succeeded]));
        let (previous, recorded) = (cursor.value, cursor.target.unwrap_or(start).max(start));
        if prefix > recorded {
            self.events.push(Event {
                id: next_id(&self.events),
                cursor: op.cursor,
                previous,
                value: prefix,
                observed_max: op.observed_max,
                cause: op.cause,
                created_at: now,
            });
            self.cursors[at].target = Some(prefix);
        }
        let cursor = &self.cursors[at];
        Ok(Advance { value: cursor.value, target: cursor.target, version: cursor.version })
    }

    pub(super) fn advance_cursor(&mut self, now: Ts, op: AdvanceCursor) -> Result<CursorMoved, TxError> {
        let at = self.cursor_place(op.cursor)?;
        let cursor = &mut self.cursors[at];
        let forward = cursor.value.is_none_or(|value| value < op.to);
        let backed = cursor.target.is_some_and(|target| target >= op.to);
        if cursor.version != op.version || !forward || !backed {
            return Ok(CursorMoved { moved: false });
        }
        if op.to < cursor.began {
            return refused("a cursor value before its origin");
        }
        cursor.value = Some(op.to);
        cursor.version += 1;
        cursor.updated_at = now;
        Ok(CursorMoved { moved: true })
    }

    fn cursor_place(&self, id: CursorId) -> Result<usize, TxError> {
        let at = place(id.0);
        if at < self.cursors.len() { Ok(at) } else { refused(format!("no cursor {id}")) }
    }
}
