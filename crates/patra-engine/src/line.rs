//! The line at a cursor. Of the tasks of one cursor that end at about the same time in this process, one asks the store how far
//! it is complete and moves the value, for all that had ended when it asked: the store sees a question, not a crowd.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::OwnedMutexGuard;

use patra_core::tx::{Advance, RecordAdvance};
use patra_core::{CursorId, Ts};

use crate::shared::lock;

#[derive(Default, Debug)]
pub(crate) struct Lines(Mutex<HashMap<CursorId, Arc<Line>>>);

#[derive(Default, Debug)]
struct Line {
    /// One at a time, in the order in which they came.
    head: Arc<tokio::sync::Mutex<()>>,
    seen: Mutex<Seen>,
}

#[derive(Default, Debug)]
struct Seen {
    came: u64,
    /// Of those who are or were in the line.
    observed_max: Option<Ts>,
    /// What the last one was told, and how many had come when it asked.
    told: Option<(u64, Advance)>,
}

/// Whoever is at the head.
#[derive(Debug)]
pub(crate) enum Turn {
    Ask(Head),
    /// Another asked after this one had come.
    Told(Advance),
}

/// The head of a line, until it is dropped.
#[derive(Debug)]
pub(crate) struct Head {
    line: Arc<Line>,
    came: u64,
    _held: OwnedMutexGuard<()>,
}

impl Lines {
    /// Waits for a turn. Comes back with what `record` is to say for all who are in the line.
    pub(crate) async fn join(&self, record: &mut RecordAdvance) -> Turn {
        let line = {
            let mut lines = lock(&self.0);
            lines.retain(|_, line| Arc::strong_count(line) > 1);
            Arc::clone(lines.entry(record.cursor).or_default())
        };
        let place = {
            let mut seen = lock(&line.seen);
            seen.observed_max = seen.observed_max.max(record.observed_max);
            seen.came += 1;
            seen.came
        };
        let held = Arc::clone(&line.head).lock_owned().await;
        let came = {
            let seen = lock(&line.seen);
            if let Some((_, told)) = seen.told.as_ref().filter(|(came, _)| *came >= place) {
                return Turn::Told(told.clone());
            }
            record.observed_max = seen.observed_max;
            seen.came
        };
        Turn::Ask(Head { line, came, _held: held })
    }
}

impl Head {
    /// Those who had come when this one asked need not ask.
    pub(crate) fn tell(&self, answer: &Advance) {
        lock(&self.line.seen).told = Some((self.came, answer.clone()));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use patra_core::cursor::Mark;
    use patra_core::state::Direction;

    use super::*;

    fn record(cursor: i64, observed: i64) -> RecordAdvance {
        RecordAdvance { cursor: CursorId(cursor), cause: None, observed_max: Some(Ts::from_secs(observed)) }
    }

    fn answer(secs: i64) -> Advance {
        let target = Some(Mark::At(Ts::from_secs(secs)));
        Advance { direction: Direction::Forward, value: None, target, by: None, version: 1 }
    }

    fn head(turn: Option<Turn>) -> Head {
        match turn {
            Some(Turn::Ask(head)) => head,
            other => panic!("not at the head: {other:?}"),
        }
    }

    #[test]
    fn one_asks_for_all_who_had_come_and_who_came_later_asks_again() {
        let lines = Lines::default();
        let [mut first, mut second, mut third, mut late] = [3, 9, 5, 7].map(|observed| record(1, observed));
        let leads = head(lines.join(&mut first).now_or_never());
        let (mut waits, mut waits_too) = (Box::pin(lines.join(&mut second)), Box::pin(lines.join(&mut third)));
        assert!(waits.as_mut().now_or_never().is_none() && waits_too.as_mut().now_or_never().is_none());
        // Another cursor has a line of its own.
        head(lines.join(&mut record(2, 1)).now_or_never());
        leads.tell(&answer(10));
        drop(leads);
        // The first had asked before the others came.
        let leads = head(waits.now_or_never());
        assert_eq!(second.observed_max, Some(Ts::from_secs(9)));
        let mut comes_late = Box::pin(lines.join(&mut late));
        assert!(comes_late.as_mut().now_or_never().is_none());
        leads.tell(&answer(20));
        drop(leads);
        assert!(matches!(waits_too.now_or_never(), Some(Turn::Told(told)) if told == answer(20)));
        head(comes_late.now_or_never());
        assert_eq!(late.observed_max, Some(Ts::from_secs(9)), "what the others observed is said too");
    }

    #[test]
    fn one_who_dies_or_is_refused_is_followed_by_the_next() {
        let lines = Lines::default();
        let (mut first, mut second, mut third) = (record(1, 1), record(1, 1), record(1, 1));
        let leads = head(lines.join(&mut first).now_or_never());
        let (mut gone, mut waits) = (Box::pin(lines.join(&mut second)), Box::pin(lines.join(&mut third)));
        assert!(gone.as_mut().now_or_never().is_none() && waits.as_mut().now_or_never().is_none());
        drop((leads, gone));
        head(waits.now_or_never());
        assert!(lock(&lines.0).len() == 1 && lines.join(&mut record(2, 1)).now_or_never().is_some());
        assert_eq!(lock(&lines.0).len(), 1, "lines that nobody is in are forgotten");
    }
}
