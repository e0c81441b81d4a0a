//! Cursors: the event is written first, the value follows, and both only move forward.

use std::collections::BTreeMap;

use patra_core::cursor::{CursorValue, completed_end};
use patra_core::state::TaskStatus;
use patra_core::tx::{
    AcceptGap, AdvanceCause, AdvanceCursor, AdvanceRecorded, CursorMoved, GapAccepted, RecordAdvance, TxError,
};
use patra_core::{CursorId, Ts};

use super::{Cursor, Event, EventLineage, MemStore, next_id, place, refused};

impl MemStore {
    pub(super) fn record_advance(&mut self, now: Ts, op: RecordAdvance) -> Result<AdvanceRecorded, TxError> {
        let at = self.cursor_place(op.cursor)?;
        let cursor = &self.cursors[at];
        let direction = cursor.direction();
        let complete = match cursor.start() {
            Some(start) => {
                let windows = self.windows_beyond(cursor, &[TaskStatus::Succeeded]);
                Some(CursorValue::At(completed_end(direction, start, &windows)))
                    .filter(|end| end.is_beyond(Some(&CursorValue::At(start)), direction))
            }
            None => self.completed_segments(cursor),
        };
        let further = |mark: &CursorValue| {
            mark.is_beyond(cursor.target.as_ref(), direction) && mark.is_beyond(cursor.value.as_ref(), direction)
        };
        if let Some(value) = complete.filter(further) {
            let (previous, remarks) = (cursor.value.clone(), op.remarks(cursor.name.operation));
            self.cursors[at].target = Some(value.clone());
            self.cursors[at].by = op.cause.map(|cause| cause.run);
            self.events.push(Event {
                id: next_id(&self.events),
                cursor: op.cursor,
                previous,
                value,
                observed_max: op.observed_max,
                cause: op.cause,
                lineage: op.cause.and_then(|cause| self.lineage_of(cause)),
                remarks,
                created_at: now,
                archived: false,
            });
        }
        let cursor = &self.cursors[at];
        let (value, target) = (cursor.value.clone(), cursor.target.clone());
        Ok(AdvanceRecorded { direction, value, target, by: cursor.by, version: cursor.version })
    }

    pub(super) fn accept_gap(&mut self, now: Ts, op: &AcceptGap) -> Result<GapAccepted, TxError> {
        if let Some(flaw) = op.invalid_reason(now) {
            return refused(flaw);
        }
        let at = self.cursor_place(op.cursor)?;
        let cursor = &self.cursors[at];
        let Some(start) = cursor.start() else {
            return refused(format!("cursor {} counts segments, not times", op.cursor));
        };
        let direction = cursor.direction();
        let complete = completed_end(direction, start, &self.windows_beyond(cursor, &[TaskStatus::Succeeded]));
        let accepted = cursor.target.as_ref().and_then(CursorValue::instant);
        let further = |far: Ts, mark: Ts| {
            if CursorValue::At(mark).is_beyond(Some(&CursorValue::At(far)), direction) { mark } else { far }
        };
        let reached = accepted.into_iter().fold(further(start, complete), further);
        let Some(value) = op.target(direction, reached)? else { return Ok(GapAccepted { existed: true }) };
        let previous = cursor.value.clone();
        self.cursors[at].target = Some(value.clone());
        self.cursors[at].by = None;
        self.events.push(Event {
            id: next_id(&self.events),
            cursor: op.cursor,
            previous,
            value,
            observed_max: None,
            cause: None,
            lineage: None,
            remarks: op.remarks(),
            created_at: now,
            archived: false,
        });
        Ok(GapAccepted { existed: false })
    }

    /// The completed prefix of the segments of the newest plan that has any.
    fn completed_segments(&self, cursor: &Cursor) -> Option<CursorValue> {
        let segments = &self.index.namespaces[place(cursor.id.0)].segments;
        let tasks = || segments.iter().map(|(ordinal, task)| (*ordinal, &self.tasks[place(task.0)]));
        let newest = tasks().map(|(_, task)| task.lineage.plan).max()?;
        let own = || tasks().filter(|(_, task)| task.lineage.plan == newest);
        let value = match &cursor.value {
            Some(CursorValue::Nth { ordinal, .. }) => *ordinal,
            _ => 0,
        };
        let mut done = BTreeMap::new();
        for (ordinal, task) in own().filter(|(ordinal, _)| *ordinal >= value) {
            let last = task.what.segment.as_ref().map(|segment| &segment.last_id);
            let (live, all, _) = done.entry(ordinal).or_insert((false, true, last));
            *live |= !task.replaced;
            *all &= task.replaced || task.status == TaskStatus::Succeeded;
        }
        let complete = done.iter().take_while(|(_, (live, all, last))| *live && *all && last.is_some());
        let (ordinal, (.., last)) = complete.last()?;
        Some(CursorValue::Nth { ordinal: ordinal + 1, last: (*last)?.clone() })
    }

    fn lineage_of(&self, cause: AdvanceCause) -> Option<EventLineage> {
        let task = self.tasks.get(place(cause.task.0))?;
        Some(EventLineage {
            of: task.lineage,
            task: cause.task,
            run: cause.run,
            batch_no: cause.batch_no,
            expr_hash: task.what.expr_hash.clone(),
        })
    }

    pub(super) fn advance_cursor(&mut self, now: Ts, op: &AdvanceCursor) -> Result<CursorMoved, TxError> {
        let at = self.cursor_place(op.cursor)?;
        let cursor = &self.cursors[at];
        let direction = cursor.direction();
        let own = |event: &&Event| event.cursor == op.cursor && !event.archived;
        let backs =
            |event: &&Event| event.value.is_same_position(&op.to) || event.value.is_beyond(Some(&op.to), direction);
        // Events of a cursor only move forward, so the first that backs the value is the nearest.
        let backing = self.events.iter().rev().filter(own).take_while(backs).last();
        let Some(event) = backing else { return Ok(CursorMoved { moved: false }) };
        if cursor.version != op.version || !op.to.is_beyond(cursor.value.as_ref(), direction) {
            return Ok(CursorMoved { moved: false });
        }
        let before_origin = |began: Ts| CursorValue::At(began).is_beyond(Some(&op.to), direction);
        if cursor.began.is_some_and(before_origin) {
            return refused("a cursor value before its origin");
        }
        let (lineage, observed_max) = (event.lineage.clone(), event.observed_max);
        let cursor = &mut self.cursors[at];
        cursor.value = Some(op.to.clone());
        cursor.lineage = lineage;
        cursor.observed_max = cursor.observed_max.max(observed_max);
        cursor.version += 1;
        cursor.updated_at = now;
        Ok(CursorMoved { moved: true })
    }

    fn cursor_place(&self, id: CursorId) -> Result<usize, TxError> {
        let at = place(id.0);
        if at < self.cursors.len() { Ok(at) } else { refused(format!("no cursor {id}")) }
    }
}

trait SamePosition {
    fn is_same_position(&self, other: &Self) -> bool;
}

impl SamePosition for CursorValue {
    /// Whether both are the same position, whatever their text.
    fn is_same_position(&self, other: &CursorValue) -> bool {
        match (self, other) {
            (CursorValue::At(one), CursorValue::At(other)) => one == other,
            (CursorValue::Nth { ordinal: one, .. }, CursorValue::Nth { ordinal: other, .. }) => one == other,
            _ => false,
        }
    }
}
