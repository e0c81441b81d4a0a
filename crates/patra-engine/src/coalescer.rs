//! Coalesces cursor advances. When several tasks of one cursor end at about the same time in this process, one of them
//! records the advance for all that had ended by then: the store gets one request instead of a crowd.

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
    /// Locked by the leader: one records at a time.
    leader: Arc<tokio::sync::Mutex<()>>,
    state: Mutex<CoalescerState>,
}

#[derive(Default, Debug)]
struct CoalescerState {
    /// Runs that have joined so far; numbers each of them.
    joined: u64,
    /// Records that no result covers yet, each with the number of its run.
    pending: BTreeMap<Option<RunId>, (u64, RecordAdvance)>,
    /// The last result, and how many runs had joined when its request was sent.
    last: Option<(u64, Result<AdvanceRecorded, TxError>)>,
}

/// Outcome of a wait in [`AdvanceCoalescers::join`].
#[derive(Debug)]
pub(crate) enum CoalescerTurn {
    /// This run leads: it records this.
    Lead(CoalescerLeader, RecordAdvance),
    /// Another run recorded the advance after this one had joined.
    Recorded(Result<AdvanceRecorded, TxError>),
}

/// The right to record for a cursor, until it is dropped.
#[derive(Debug)]
pub(crate) struct CoalescerLeader {
    coalescer: Arc<AdvanceCoalescer>,
    joined: u64,
    _guard: OwnedMutexGuard<()>,
}

impl AdvanceCoalescers {
    /// Waits to lead, or for a result that covers `record`. The leader records what all waiting runs observed and how
    /// many records came late. `again`: a result of another run is not enough.
    pub(crate) async fn join(&self, record: RecordAdvance, again: bool) -> CoalescerTurn {
        let coalescer = {
            let mut coalescers = lock(&self.0);
            coalescers.retain(|_, coalescer| Arc::strong_count(coalescer) > 1);
            Arc::clone(coalescers.entry(record.cursor).or_default())
        };
        let number = {
            let mut state = lock(&coalescer.state);
            state.joined += 1;
            let number = state.joined;
            state.pending.insert(record.cause.map(|cause| cause.run), (number, record));
            number
        };
        let guard = Arc::clone(&coalescer.leader).lock_owned().await;
        let (joined, record) = {
            let state = lock(&coalescer.state);
            if let Some((_, result)) = state.last.as_ref().filter(|(joined, _)| *joined >= number && !again) {
                return CoalescerTurn::Recorded(result.clone());
            }
            (state.joined, merge(record, state.pending.values().map(|(_, pending)| pending)))
        };
        CoalescerTurn::Lead(CoalescerLeader { coalescer, joined, _guard: guard }, record)
    }
}

/// One record with the observations and late counts of all runs, in the name of one run.
fn merge<'a>(mut all: RecordAdvance, others: impl Iterator<Item = &'a RecordAdvance>) -> RecordAdvance {
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
    /// Shares the result with the runs that had joined when the request was sent: they need not record themselves.
    pub(crate) fn publish(&self, result: Result<AdvanceRecorded, TxError>) {
        let mut state = lock(&self.coalescer.state);
        if result.is_ok() {
            state.pending.retain(|_, (number, _)| *number > self.joined);
        }
        state.last = Some((self.joined, result));
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

    fn recorded(secs: i64) -> AdvanceRecorded {
        let target = Some(CursorValue::At(Ts::from_secs(secs)));
        AdvanceRecorded { direction: Direction::Forward, value: None, target, by: None, version: 1 }
    }

    fn leads(turn: Option<CoalescerTurn>) -> (CoalescerLeader, RecordAdvance) {
        match turn {
            Some(CoalescerTurn::Lead(leader, record)) => (leader, record),
            other => panic!("does not lead: {other:?}"),
        }
    }

    /// Joins, and has to wait.
    macro_rules! waits {
        ($coalescers:ident, $record:expr) => {{
            let mut waits = Box::pin($coalescers.join($record, false));
            assert!(waits.as_mut().now_or_never().is_none());
            waits
        }};
    }

    #[test]
    fn leader_records_for_all_that_had_joined_and_later_runs_record_again() {
        let coalescers = AdvanceCoalescers::default();
        let (leader, merged) = leads(coalescers.join(record(1, 3, 1), false).now_or_never());
        assert_eq!(merged, record(1, 3, 1));
        let (second, third) = (waits!(coalescers, record(2, 9, 2)), waits!(coalescers, record(3, 5, 4)));
        // Another cursor has a coalescer of its own.
        leads(coalescers.join(RecordAdvance { cursor: CursorId(2), ..record(9, 9, 9) }, false).now_or_never());
        leader.publish(Ok(recorded(10)));
        drop(leader);
        // The first leader had sent its request before the others joined.
        let (leader, merged) = leads(second.now_or_never());
        assert_eq!(
            merged,
            record(2, 9, 6),
            "the observations and late counts of all waiting runs, and nothing that a result covers already"
        );
        let late = waits!(coalescers, record(4, 7, 0));
        leader.publish(Ok(recorded(20)));
        drop(leader);
        assert!(matches!(third.now_or_never(), Some(CoalescerTurn::Recorded(result)) if result == Ok(recorded(20))));
        assert_eq!(leads(late.now_or_never()).1, record(4, 7, 0));
    }

    #[test]
    fn error_is_shared_and_pending_records_are_kept() {
        let coalescers = AdvanceCoalescers::default();
        let (leader, _) = leads(coalescers.join(record(1, 1, 1), false).now_or_never());
        let (second, third) = (waits!(coalescers, record(2, 9, 2)), waits!(coalescers, record(3, 5, 4)));
        drop(leader);
        let (leader, _) = leads(second.now_or_never());
        let fourth = waits!(coalescers, record(4, 7, 8));
        leader.publish(Err(TxError::Busy));
        drop(leader);
        assert!(matches!(third.now_or_never(), Some(CoalescerTurn::Recorded(Err(TxError::Busy)))));
        let (leader, merged) = leads(fourth.now_or_never());
        assert_eq!(merged, record(4, 9, 15), "for all of them, and also for the dropped leader");
        let (back, mut again) = (waits!(coalescers, record(3, 5, 4)), Box::pin(coalescers.join(record(2, 9, 2), true)));
        assert!(again.as_mut().now_or_never().is_none());
        leader.publish(Ok(recorded(10)));
        drop(leader);
        let (leader, merged) = leads(back.now_or_never());
        assert_eq!(merged, record(3, 9, 6), "runs that joined twice count once");
        leader.publish(Ok(recorded(20)));
        drop(leader);
        // A run that has lost a race for the value needs the current value.
        leads(again.now_or_never());
    }

    #[test]
    fn dropped_leader_is_followed_by_the_next_and_idle_coalescers_are_removed() {
        let coalescers = AdvanceCoalescers::default();
        let (leader, _) = leads(coalescers.join(record(1, 1, 0), false).now_or_never());
        let (gone, next) = (waits!(coalescers, record(2, 1, 0)), waits!(coalescers, record(3, 1, 0)));
        drop((leader, gone));
        leads(next.now_or_never());
        leads(coalescers.join(RecordAdvance { cursor: CursorId(2), ..record(4, 1, 0) }, false).now_or_never());
        assert_eq!(lock(&coalescers.0).len(), 1);
    }
}
