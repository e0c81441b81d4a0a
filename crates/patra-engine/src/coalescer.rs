//! The line at a cursor. Of the tasks of one cursor that end at about the same time in this process, one asks the store how far
//! it is complete and moves the value, for all that had ended when it asked: the store sees a question, not a crowd.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

use patra_core::tx::{AdvanceRecorded, RecordAdvance, TxError};
use patra_core::{CursorId, RunId};

use crate::shared::lock;

#[derive(Default, Debug)]
pub(crate) struct AdvanceCoalescers(Mutex<HashMap<CursorId, Arc<AdvanceCoalescer>>>);

#[derive(Default, Debug)]
struct AdvanceCoalescer {
    /// One at a time.
    head: Arc<tokio::sync::Mutex<()>>,
    seen: Mutex<CoalescerState>,
}

#[derive(Default, Debug)]
struct CoalescerState {
    came: u64,
    /// What those want to have said who were not told yet, with the number under which they came.
    wanted: BTreeMap<Option<RunId>, (u64, RecordAdvance)>,
    /// What the last one was told, and how many had come when it asked.
    told: Option<(u64, Result<AdvanceRecorded, TxError>)>,
}

/// What becomes of one who has waited.
#[derive(Debug)]
pub(crate) enum CoalescerTurn {
    /// To ask this.
    Ask(CoalescerLeader, RecordAdvance),
    /// Another asked after this one had come.
    Told(Result<AdvanceRecorded, TxError>),
}

/// The head of a line, until it is dropped.
#[derive(Debug)]
pub(crate) struct CoalescerLeader {
    line: Arc<AdvanceCoalescer>,
    came: u64,
    _held: OwnedMutexGuard<()>,
}

impl AdvanceCoalescers {
    /// Waits for a turn. Whoever has to ask says for all who wait what they observed and what came late. `again`: to be told what
    /// another was told does not do.
    pub(crate) async fn join(&self, record: RecordAdvance, again: bool) -> CoalescerTurn {
        let line = {
            let mut lines = lock(&self.0);
            lines.retain(|_, line| Arc::strong_count(line) > 1);
            Arc::clone(lines.entry(record.cursor).or_default())
        };
        let place = {
            let mut seen = lock(&line.seen);
            seen.came += 1;
            let place = seen.came;
            seen.wanted.insert(record.cause.map(|cause| cause.run), (place, record));
            place
        };
        let held = Arc::clone(&line.head).lock_owned().await;
        let (came, record) = {
            let seen = lock(&line.seen);
            if let Some((_, told)) = seen.told.as_ref().filter(|(came, _)| *came >= place && !again) {
                return CoalescerTurn::Told(told.clone());
            }
            (seen.came, together(record, seen.wanted.values().map(|(_, wanted)| wanted)))
        };
        CoalescerTurn::Ask(CoalescerLeader { line, came, _held: held }, record)
    }
}

/// What all of them observed, and what came late, under the name of one.
fn together<'a>(mut all: RecordAdvance, others: impl Iterator<Item = &'a RecordAdvance>) -> RecordAdvance {
    for other in others {
        all.observed_max = all.observed_max.max(other.observed_max);
        if let (Some(cause), Some(theirs)) = (&mut all.cause, other.cause)
            && cause.run != theirs.run
        {
            cause.late = cause.late.saturating_add(theirs.late);
        }
    }
    all
}

impl CoalescerLeader {
    /// Those who had come when this one asked need not ask.
    pub(crate) fn tell(&self, answer: Result<AdvanceRecorded, TxError>) {
        let mut seen = lock(&self.line.seen);
        if answer.is_ok() {
            seen.wanted.retain(|_, (place, _)| *place > self.came);
        }
        seen.told = Some((self.came, answer));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use patra_core::cursor::CursorValue;
    use patra_core::state::Direction;
    use patra_core::tx::AdvanceCause;
    use patra_core::{TaskId, Ts};

    use super::*;

    fn record(run: i64, observed: i64, late: u32) -> RecordAdvance {
        let cause = AdvanceCause { task: TaskId(run), run: RunId(run), batch_no: 1, late };
        RecordAdvance { cursor: CursorId(1), cause: Some(cause), observed_max: Some(Ts::from_secs(observed)) }
    }

    fn answer(secs: i64) -> AdvanceRecorded {
        let target = Some(CursorValue::At(Ts::from_secs(secs)));
        AdvanceRecorded { direction: Direction::Forward, value: None, target, by: None, version: 1 }
    }

    fn asks(turn: Option<CoalescerTurn>) -> (CoalescerLeader, RecordAdvance) {
        match turn {
            Some(CoalescerTurn::Ask(head, record)) => (head, record),
            other => panic!("not at the head: {other:?}"),
        }
    }

    /// Stands in the line, and waits.
    macro_rules! waits {
        ($lines:ident, $record:expr) => {{
            let mut waits = Box::pin($lines.join($record, false));
            assert!(waits.as_mut().now_or_never().is_none());
            waits
        }};
    }

    #[test]
    fn one_asks_for_all_who_had_come_and_who_came_later_asks_again() {
        let lines = AdvanceCoalescers::default();
        let (head, asked) = asks(lines.join(record(1, 3, 1), false).now_or_never());
        assert_eq!(asked, record(1, 3, 1));
        let (second, third) = (waits!(lines, record(2, 9, 2)), waits!(lines, record(3, 5, 4)));
        // Another cursor has a line of its own.
        asks(lines.join(RecordAdvance { cursor: CursorId(2), ..record(9, 9, 9) }, false).now_or_never());
        head.tell(Ok(answer(10)));
        drop(head);
        // The first had asked before the others came.
        let (head, asked) = asks(second.now_or_never());
        assert_eq!(
            asked,
            record(2, 9, 6),
            "what all who wait observed and what came late, and nothing of those who were told"
        );
        let late = waits!(lines, record(4, 7, 0));
        head.tell(Ok(answer(20)));
        drop(head);
        assert!(matches!(third.now_or_never(), Some(CoalescerTurn::Told(told)) if told == Ok(answer(20))));
        assert_eq!(asks(late.now_or_never()).1, record(4, 7, 0));
    }

    #[test]
    fn an_error_is_told_too_and_what_was_to_be_said_is_not_lost() {
        let lines = AdvanceCoalescers::default();
        let (head, _) = asks(lines.join(record(1, 1, 1), false).now_or_never());
        let (second, third) = (waits!(lines, record(2, 9, 2)), waits!(lines, record(3, 5, 4)));
        drop(head);
        let (head, _) = asks(second.now_or_never());
        let fourth = waits!(lines, record(4, 7, 8));
        head.tell(Err(TxError::Busy));
        drop(head);
        assert!(matches!(third.now_or_never(), Some(CoalescerTurn::Told(Err(TxError::Busy)))));
        let (head, asked) = asks(fourth.now_or_never());
        assert_eq!(asked, record(4, 9, 15), "for all of them, and also for the one who died");
        let (back, mut again) = (waits!(lines, record(3, 5, 4)), Box::pin(lines.join(record(2, 9, 2), true)));
        assert!(again.as_mut().now_or_never().is_none());
        head.tell(Ok(answer(10)));
        drop(head);
        let (head, asked) = asks(back.now_or_never());
        assert_eq!(asked, record(3, 9, 6), "of those who are back, once");
        head.tell(Ok(answer(20)));
        drop(head);
        // Whoever has lost a race for the value must see where that is now.
        asks(again.now_or_never());
    }

    #[test]
    fn one_who_dies_is_followed_by_the_next_and_empty_lines_are_forgotten() {
        let lines = AdvanceCoalescers::default();
        let (head, _) = asks(lines.join(record(1, 1, 0), false).now_or_never());
        let (gone, next) = (waits!(lines, record(2, 1, 0)), waits!(lines, record(3, 1, 0)));
        drop((head, gone));
        asks(next.now_or_never());
        asks(lines.join(RecordAdvance { cursor: CursorId(2), ..record(4, 1, 0) }, false).now_or_never());
        assert_eq!(lock(&lines.0).len(), 1);
    }
}
