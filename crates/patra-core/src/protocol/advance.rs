//! Moving a cursor: write the event, then the value, each in its own transaction; when the value was moved by somebody
//! else meanwhile, read again and try once more (ING-10.3).

use crate::cursor::Mark;
use crate::tx::{AdvanceCursor, Done, RecordAdvance, Tx, TxError};

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
        let advance = Advance { record, stage: Stage::Recording, tries_left: 2 };
        let step = Step::Tx(advance.record.into());
        (advance, step)
    }

    pub fn on(&mut self, answer: Result<Done, TxError>) -> Step {
        match (&self.stage, answer) {
            (_, Err(error)) => Step::GaveUp(error),
            (Stage::Recording, Ok(Done::RecordAdvance(at))) => match at.target {
                Some(to) if to.is_beyond(at.value.as_ref(), at.direction) => {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::CursorId;
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
        Done::RecordAdvance(tx::Advance { direction, value: value.map(mark), target: target.map(mark), version })
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
    fn a_lost_race_is_tried_once_more_and_then_left() {
        let (mut advance, _) = Advance::start(record());
        advance.on(Ok(at(None, Some(9), 1)));
        assert!(matches!(advance.on(Ok(moved(false))), Step::Tx(Tx::RecordAdvance(_))));
        advance.on(Ok(at(None, Some(9), 2)));
        assert!(matches!(advance.on(Ok(moved(false))), Step::Done { moved_to: None }));
    }
}
