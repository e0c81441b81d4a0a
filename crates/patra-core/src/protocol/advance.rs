//! Moves a cursor: write the event, then the value, each in its own transaction; when another process moved the value
//! meanwhile, read again and try once more (ING-10.3). When many runs end at once, each moves the value only to its
//! own event: behind another run's event, that run moves it, and if it died the planner does.

use crate::cursor::CursorValue;
use crate::id::RunId;
use crate::tx::{AdvanceCursor, Done, RecordAdvance, Tx, TxError};

/// Maximum attempts when other processes move the value.
const TRIES: u8 = 2;

/// One attempt to bring a cursor up to its completed prefix.
#[derive(Clone, Debug)]
pub struct CursorAdvance {
    record: RecordAdvance,
    stage: AdvanceStage,
    tries_left: u8,
}

#[derive(Clone, Debug)]
enum AdvanceStage {
    Recording,
    Moving { to: CursorValue },
}

/// What the advance wants done next.
#[derive(Clone, Debug)]
pub enum AdvanceStep {
    Tx(Tx),
    /// Done. `moved_to` is set when this attempt moved the value.
    Done {
        moved_to: Option<CursorValue>,
    },
    /// The store failed. Nothing is lost: the next planner tick of the namespace aligns the value.
    GaveUp(TxError),
}

impl CursorAdvance {
    pub fn start(record: RecordAdvance) -> (CursorAdvance, AdvanceStep) {
        let advance = CursorAdvance { record, stage: AdvanceStage::Recording, tries_left: TRIES };
        let step = AdvanceStep::Tx(advance.record.into());
        (advance, step)
    }

    pub fn on(&mut self, result: Result<Done, TxError>) -> AdvanceStep {
        match (&self.stage, result) {
            (_, Err(error)) => AdvanceStep::GaveUp(error),
            (AdvanceStage::Recording, Ok(Done::RecordAdvance(at))) => match at.target {
                Some(to) if to.is_beyond(at.value.as_ref(), at.direction) && self.is_to_move(at.by) => {
                    self.stage = AdvanceStage::Moving { to: to.clone() };
                    AdvanceStep::Tx(AdvanceCursor { cursor: self.record.cursor, to, version: at.version }.into())
                }
                _ => AdvanceStep::Done { moved_to: None },
            },
            (AdvanceStage::Moving { to }, Ok(Done::AdvanceCursor(result))) => {
                if result.moved {
                    return AdvanceStep::Done { moved_to: Some(to.clone()) };
                }
                self.tries_left -= 1;
                if self.tries_left == 0 {
                    return AdvanceStep::Done { moved_to: None };
                }
                self.stage = AdvanceStage::Recording;
                AdvanceStep::Tx(self.record.into())
            }
            (_, Ok(other)) => AdvanceStep::GaveUp(TxError::Refused(format!("unexpected result {other:?}"))),
        }
    }

    /// A run that lost a race moves the value to any event: the winner may have moved it less far.
    fn is_to_move(&self, by: Option<RunId>) -> bool {
        let has_lost = self.tries_left < TRIES;
        has_lost || self.record.cause.is_none_or(|cause| by == Some(cause.run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{CursorId, TaskId};
    use crate::state::Direction;
    use crate::time::Ts;
    use crate::tx;

    fn record() -> RecordAdvance {
        RecordAdvance { cursor: CursorId(1), cause: None, observed_max: None }
    }

    fn mark(secs: i64) -> CursorValue {
        CursorValue::At(Ts::from_secs(secs))
    }

    fn at(value: Option<i64>, target: Option<i64>, version: i64) -> Done {
        going(Direction::Forward, value, target, version)
    }

    fn going(direction: Direction, value: Option<i64>, target: Option<i64>, version: i64) -> Done {
        Done::RecordAdvance(tx::AdvanceRecorded {
            direction,
            value: value.map(mark),
            target: target.map(mark),
            by: None,
            version,
        })
    }

    fn moved(moved: bool) -> Done {
        Done::AdvanceCursor(tx::CursorMoved { moved })
    }

    // covers: ING-10.3-01, ING-10.3-04, ING-5.4-12, ING-2.4-06, ING-2.6-01, ING-4.4-05
    #[test]
    fn the_event_goes_first_and_the_value_follows() {
        let (mut advance, step) = CursorAdvance::start(record());
        assert!(matches!(step, AdvanceStep::Tx(Tx::RecordAdvance(_))));
        let AdvanceStep::Tx(Tx::AdvanceCursor(op)) = advance.on(Ok(at(Some(5), Some(9), 3))) else {
            panic!("expected a move")
        };
        assert_eq!((op.to, op.version), (mark(9), 3));
        assert!(matches!(advance.on(Ok(moved(true))), AdvanceStep::Done { moved_to: Some(to) } if to == mark(9)));
    }

    // covers: ING-6.2-04
    #[test]
    fn a_backfill_moves_towards_the_past_and_never_back() {
        let (mut advance, _) = CursorAdvance::start(record());
        let step = advance.on(Ok(going(Direction::Backfill, Some(9), Some(5), 1)));
        assert!(matches!(step, AdvanceStep::Tx(Tx::AdvanceCursor(op)) if op.to == mark(5)));
        let (mut advance, _) = CursorAdvance::start(record());
        let step = advance.on(Ok(going(Direction::Backfill, Some(5), Some(9), 1)));
        assert!(matches!(step, AdvanceStep::Done { moved_to: None }));
    }

    #[test]
    fn nothing_to_do_when_the_value_stands_at_its_newest_event() {
        for state in [at(Some(9), Some(9), 1), at(None, None, 0), at(Some(9), Some(4), 1)] {
            let (mut advance, _) = CursorAdvance::start(record());
            assert!(matches!(advance.on(Ok(state)), AdvanceStep::Done { moved_to: None }));
        }
    }

    #[test]
    fn value_behind_another_runs_event_is_left_to_that_run() {
        let cause = tx::AdvanceCause { task: TaskId(1), run: RunId(7), batch_no: 1, late: 0 };
        let by = |run| {
            let target = Some(mark(9));
            Done::RecordAdvance(tx::AdvanceRecorded {
                direction: Direction::Forward,
                value: None,
                target,
                by: run,
                version: 1,
            })
        };
        let begun = || CursorAdvance::start(RecordAdvance { cause: Some(cause), ..record() }).0;
        for other in [None, Some(RunId(8))] {
            assert!(matches!(begun().on(Ok(by(other))), AdvanceStep::Done { moved_to: None }));
        }
        let mut advance = begun();
        assert!(matches!(advance.on(Ok(by(Some(RunId(7))))), AdvanceStep::Tx(Tx::AdvanceCursor(_))));
        // The winner may have moved the value less far than its own event.
        assert!(matches!(advance.on(Ok(moved(false))), AdvanceStep::Tx(Tx::RecordAdvance(_))));
        assert!(matches!(advance.on(Ok(by(Some(RunId(8))))), AdvanceStep::Tx(Tx::AdvanceCursor(_))));
    }

    #[test]
    fn lost_race_is_retried_once() {
        let (mut advance, _) = CursorAdvance::start(record());
        advance.on(Ok(at(None, Some(9), 1)));
        assert!(matches!(advance.on(Ok(moved(false))), AdvanceStep::Tx(Tx::RecordAdvance(_))));
        advance.on(Ok(at(None, Some(9), 2)));
        assert!(matches!(advance.on(Ok(moved(false))), AdvanceStep::Done { moved_to: None }));
    }
}
