//! Moving a cursor: write the event, then the value, each in its own transaction; when the value was moved by somebody
//! else meanwhile, read again and try once more (ING-10.3). Of many that end at once, each moves the value to its own event only:
//! behind another's, that one is on its way, and should it have died the planner moves the value.

use crate::cursor::Mark;
use crate::id::RunId;
use crate::tx::{AdvanceCursor, Done, RecordAdvance, Tx, TxError};

/// Races with others for one value, at most.
const TRIES: u8 = 2;

/// One attempt to bring a cursor up to its completed prefix.
#[derive(Clone, Debug)]
pub struct Advance {
    record: RecordAdvance,
    stage: Stage,
    tries_left: u8,
}

#[derive(Clone, Debug)]
enum Stage {
    Recording,
    Moving { to: Mark },
}

/// What the advance wants next.
#[derive(Clone, Debug)]
pub enum Step {
    Tx(Tx),
    /// Done. `moved_to` is set when this attempt moved the value.
    Done {
        moved_to: Option<Mark>,
    },
    /// The store did not play along. Nothing is lost: the next planner tick of the namespace aligns the value.
    GaveUp(TxError),
}

impl Advance {
    pub fn start(record: RecordAdvance) -> (Advance, Step) {
        let advance = Advance { record, stage: Stage::Recording, tries_left: TRIES };
        let step = Step::Tx(advance.record.into());
        (advance, step)
    }

    pub fn on(&mut self, answer: Result<Done, TxError>) -> Step {
        match (&self.stage, answer) {
            (_, Err(error)) => Step::GaveUp(error),
            (Stage::Recording, Ok(Done::RecordAdvance(at))) => match at.target {
                Some(to) if to.is_beyond(at.value.as_ref(), at.direction) && self.is_to_move(at.by) => {
                    self.stage = Stage::Moving { to: to.clone() };
                    Step::Tx(AdvanceCursor { cursor: self.record.cursor, to, version: at.version }.into())
                }
                _ => Step::Done { moved_to: None },
            },
            (Stage::Moving { to }, Ok(Done::AdvanceCursor(answer))) => {
                if answer.moved {
                    return Step::Done { moved_to: Some(to.clone()) };
                }
                self.tries_left -= 1;
                if self.tries_left == 0 {
                    return Step::Done { moved_to: None };
                }
                self.stage = Stage::Recording;
                Step::Tx(self.record.into())
            }
            (_, Ok(other)) => Step::GaveUp(TxError::Refused(format!("unexpected answer {other:?}"))),
        }
    }

    /// Whoever has lost a race moves the value wherever it may go: the one who won it may have come less far.
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

    fn mark(secs: i64) -> Mark {
        Mark::At(Ts::from_secs(secs))
    }

    fn at(value: Option<i64>, target: Option<i64>, version: i64) -> Done {
        going(Direction::Forward, value, target, version)
    }

    fn going(direction: Direction, value: Option<i64>, target: Option<i64>, version: i64) -> Done {
        Done::RecordAdvance(tx::Advance {
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

    // covers: ING-10.3-01, ING-10.3-04, ING-5.4-12
    #[test]
    fn the_event_goes_first_and_the_value_follows() {
        let (mut advance, step) = Advance::start(record());
        assert!(matches!(step, Step::Tx(Tx::RecordAdvance(_))));
        let Step::Tx(Tx::AdvanceCursor(op)) = advance.on(Ok(at(Some(5), Some(9), 3))) else { panic!("no move wanted") };
        assert_eq!((op.to, op.version), (mark(9), 3));
        assert!(matches!(advance.on(Ok(moved(true))), Step::Done { moved_to: Some(to) } if to == mark(9)));
    }

    // covers: ING-6.2-04
    #[test]
    fn a_backfill_moves_towards_the_past_and_never_back() {
        let (mut advance, _) = Advance::start(record());
        let step = advance.on(Ok(going(Direction::Backfill, Some(9), Some(5), 1)));
        assert!(matches!(step, Step::Tx(Tx::AdvanceCursor(op)) if op.to == mark(5)));
        let (mut advance, _) = Advance::start(record());
        let step = advance.on(Ok(going(Direction::Backfill, Some(5), Some(9), 1)));
        assert!(matches!(step, Step::Done { moved_to: None }));
    }

    #[test]
    fn nothing_to_do_when_the_value_stands_at_its_newest_event() {
        for state in [at(Some(9), Some(9), 1), at(None, None, 0), at(Some(9), Some(4), 1)] {
            let (mut advance, _) = Advance::start(record());
            assert!(matches!(advance.on(Ok(state)), Step::Done { moved_to: None }));
        }
    }

    #[test]
    fn behind_anothers_event_the_value_is_left_to_that_one() {
        let cause = tx::Cause { task: TaskId(1), run: RunId(7), batch_no: 1, late: 0 };
        let by = |run| {
            let target = Some(mark(9));
            Done::RecordAdvance(tx::Advance { direction: Direction::Forward, value: None, target, by: run, version: 1 })
        };
        let begun = || Advance::start(RecordAdvance { cause: Some(cause), ..record() }).0;
        for other in [None, Some(RunId(8))] {
            assert!(matches!(begun().on(Ok(by(other))), Step::Done { moved_to: None }));
        }
        let mut advance = begun();
        assert!(matches!(advance.on(Ok(by(Some(RunId(7))))), Step::Tx(Tx::AdvanceCursor(_))));
        // The winner may have moved it less far than its own event is.
        assert!(matches!(advance.on(Ok(moved(false))), Step::Tx(Tx::RecordAdvance(_))));
        assert!(matches!(advance.on(Ok(by(Some(RunId(8))))), Step::Tx(Tx::AdvanceCursor(_))));
    }

    #[test]
    fn a_lost_race_is_tried_once_more_and_then_left() {
        let (mut advance, _) = Advance::start(record());
        advance.on(Ok(at(None, Some(9), 1)));
        assert!(matches!(advance.on(Ok(moved(false))), Step::Tx(Tx::RecordAdvance(_))));
        advance.on(Ok(at(None, Some(9), 2)));
        assert!(matches!(advance.on(Ok(moved(false))), Step::Done { moved_to: None }));
    }
}
