//! UPDATE: the ids come from the store, their details from the upstream, in groups as in the second phase (ING-6.3).
//! Nothing is lost when details are not available: the stored record stays, and the signal counts the try.

use super::details::DetailPhase;
use super::page::FetchedPage;
use super::reader::{PageEnding, ReaderState};
use super::{PlannedEnd, RunMachine, RunStage, Want};
use crate::bounds::IdSegment;
use crate::error::{Code, Fault, Level};
use crate::paging::Position;
use crate::record::{CandidateMark, DetailCandidate, TWEET};
use crate::time::Ts;
use crate::tx::{CheckedRecord, RefreshCriteria, RunEnd, TxError};

/// Ids that are read from the store at a time.
pub const IDS_PER_READ: u32 = 500;

impl RunMachine {
    pub(super) fn segment(&self) -> Option<&IdSegment> {
        self.bounds.ids.as_ref()
    }

    /// An equal version with other content replaces the stored record when it was reported as wrong, or was mapped by
    /// other rules (C-62); and when a source publishes it so: authors correct articles without changing their time. The
    /// counts of a tweet change all the time.
    pub(super) fn refreshes(&self) -> bool {
        let of_tweets = matches!(&self.stage, RunStage::Paging(policy) if policy.stream.kind == TWEET);
        let in_passes = matches!(&self.stage, RunStage::Paging(policy) if policy.pass.is_some());
        (self.lease.source.is_some() && !of_tweets)
            || in_passes
            || self.segment().is_some_and(|segment| !matches!(segment.criteria, RefreshCriteria::Stale { .. }))
    }

    /// Reads the next ids, when the reader is between two groups.
    pub(super) fn read_ids(&mut self, wants: &mut Vec<Want>) {
        let (RunStage::Paging(policy), Some(segment)) = (&self.stage, &self.bounds.ids) else { return };
        let Some(Position::Keys { after }) = self.reader.position() else { return };
        wants.push(Want::Wanted {
            stream: policy.stream.clone(),
            segment: segment.clone(),
            after: after.clone(),
            limit: IDS_PER_READ,
        });
        self.reader.state = ReaderState::Screening { again: Ts::MAX };
    }

    pub(super) fn on_wanted(&mut self, now: Ts, result: Result<Vec<String>, TxError>, wants: &mut Vec<Want>) {
        let (ReaderState::Screening { .. }, RunStage::Paging(policy)) = (&self.reader.state, &self.stage) else {
            return;
        };
        let size = policy.details.map_or(1, |details| details.batch_size.max(1)) as usize;
        let keys = match result {
            Ok(keys) => keys,
            Err(error) if error.is_transient() => return self.screen_later(now),
            Err(error) => {
                let error = Fault::new(Code::InternalError, Level::L4, error.to_string());
                return self.fail(error, wants);
            }
        };
        let Some(last) = keys.last().cloned() else {
            self.planned_end = Some(PlannedEnd { end: RunEnd::Succeeded, failure: None });
            self.reader.halt();
            return self.proceed(wants);
        };
        // A run that has requested nothing yet would be returned for ever.
        if let (true, Some(end)) = (self.stats.req_count > 0, self.out_of_budget(now)) {
            self.planned_end = Some(PlannedEnd { end, failure: None });
            self.reader.halt();
            return self.proceed(wants);
        }
        let ending = match keys.len() < IDS_PER_READ as usize {
            true => PageEnding::End,
            false => PageEnding::Next { next: Position::Keys { after: Some(last) }, perhaps: false },
        };
        let candidate = |id| DetailCandidate { id, version: String::new() };
        let ids: Vec<_> = keys.into_iter().map(candidate).collect();
        let groups = ids.chunks(size).map(<[DetailCandidate]>::to_vec).collect();
        self.reader.phase = Some(DetailPhase::of(ending, groups));
        self.reader.state = ReaderState::Ready;
        self.proceed(wants);
    }

    /// Outcome of an UPDATE for the ids of a group: the result, and whether the upstream's response covered them.
    pub(super) fn checked(&mut self, page: &FetchedPage, marks: &mut Vec<CandidateMark>) -> Vec<CheckedRecord> {
        let unresolved = std::mem::take(&mut self.reader.unresolved);
        if self.segment().is_none() {
            return Vec::new();
        }
        let unusable = |key: &str| page.rejected.iter().find(|rejected| rejected.key.as_deref() == Some(key));
        let checked = |mark: CandidateMark| {
            let key = mark.candidate.id;
            let failed = mark.bad.or_else(|| unusable(&key).map(|rejected| rejected.reason.clone()));
            CheckedRecord { looked_at: !unresolved.contains(&key), key, failed }
        };
        std::mem::take(marks).into_iter().map(checked).collect()
    }
}
