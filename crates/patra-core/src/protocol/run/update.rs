//! UPDATE: the ids come from the store, their content from the far side, in groups as in the second phase (ING-6.3). Nothing is
//! lost when a content cannot be had: what is stored stays, and the signal that asked for it counts the try.

use super::details::Phase;
use super::page::Page;
use super::reader::{Ending, State};
use super::{Run, Stage, Verdict, Want};
use crate::bounds::Segment;
use crate::error::{Code, Fault, Level};
use crate::paging::Position;
use crate::record::{Candidate, Marked};
use crate::time::Ts;
use crate::tx::{Checked, RunEnd, TxError, Wanted};

/// Ids that are asked of the store at once.
pub const WANTED_AT_ONCE: u32 = 500;

impl Run {
    pub(super) fn segment(&self) -> Option<&Segment> {
        self.bounds.ids.as_ref()
    }

    /// An equal version replaces what is stored when somebody says that this is wrong, or was mapped by other rules (C-62).
    pub(super) fn refreshes(&self) -> bool {
        self.segment().is_some_and(|segment| !matches!(segment.wanted, Wanted::Stale { .. }))
    }

    /// The next ids, when the reader stands between two groups of them.
    pub(super) fn ask_for_ids(&mut self, wants: &mut Vec<Want>) {
        let (Stage::Paging(policy), Some(segment)) = (&self.stage, &self.bounds.ids) else { return };
        let Some(Position::Keys { after }) = self.reader.position() else { return };
        wants.push(Want::Wanted {
            stream: policy.stream.clone(),
            segment: segment.clone(),
            after: after.clone(),
            limit: WANTED_AT_ONCE,
        });
        self.reader.state = State::Screening { again: Ts::MAX };
    }

    pub(super) fn on_wanted(&mut self, now: Ts, answer: Result<Vec<String>, TxError>, wants: &mut Vec<Want>) {
        let (State::Screening { .. }, Stage::Paging(policy)) = (&self.reader.state, &self.stage) else { return };
        let size = policy.details.map_or(1, |details| details.batch_size.max(1)) as usize;
        let keys = match answer {
            Ok(keys) => keys,
            Err(error) if error.is_transient() => return self.screen_later(now),
            Err(error) => {
                let error = Fault::new(Code::InternalError, Level::L4, error.to_string());
                return self.fail(error, wants);
            }
        };
        let Some(last) = keys.last().cloned() else {
            self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
            self.reader.halt();
            return self.proceed(wants);
        };
        // A run that has asked for nothing yet would be given back for ever.
        if let (true, Some(end)) = (self.stats.req_count > 0, self.out_of_budget(now)) {
            self.verdict = Some(Verdict { end, failure: None });
            self.reader.halt();
            return self.proceed(wants);
        }
        let ending = match keys.len() < WANTED_AT_ONCE as usize {
            true => Ending::End,
            false => Ending::Next { next: Position::Keys { after: Some(last) }, perhaps: false },
        };
        let candidate = |id| Candidate { id, version: String::new() };
        let ids: Vec<_> = keys.into_iter().map(candidate).collect();
        let groups = ids.chunks(size).map(<[Candidate]>::to_vec).collect();
        self.reader.phase = Some(Phase::of(ending, groups));
        self.reader.state = State::Ready;
        self.proceed(wants);
    }

    /// What an UPDATE has to say about the ids of a group: what came of them, and whether they were looked at.
    pub(super) fn checked(&mut self, page: &Page, marks: &mut Vec<Marked>) -> Vec<Checked> {
        let unanswered = std::mem::take(&mut self.reader.unanswered);
        if self.segment().is_none() {
            return Vec::new();
        }
        let unusable = |key: &str| page.rejected.iter().find(|rejected| rejected.key.as_deref() == Some(key));
        let checked = |mark: Marked| {
            let key = mark.candidate.id;
            let failed = mark.bad.or_else(|| unusable(&key).map(|rejected| rejected.reason.clone()));
            Checked { looked_at: !unanswered.contains(&key), key, failed }
        };
        std::mem::take(marks).into_iter().map(checked).collect()
    }
}
