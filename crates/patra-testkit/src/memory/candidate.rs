//! Ids whose details are fetched separately.

use patra_core::Ts;
use patra_core::record::{DetailCandidate, RecordStream, bad_id_pause};
use patra_core::tx::CommitBatch;

use super::{CandidateRow, MemStore, next_id};

impl MemStore {
    pub(super) fn mark(&mut self, now: Ts, op: &CommitBatch) {
        for mark in &op.marks {
            let known = self.candidates.iter().position(|row| row.is(&op.stream, &mark.candidate.id));
            let before = known.map(|at| &self.candidates[at]);
            let tries = match (&mark.bad, before) {
                (None, _) => 0,
                (Some(_), Some(row)) if row.candidate.version == mark.candidate.version => row.tries + 1,
                (Some(_), _) => 1,
            };
            let row = CandidateRow {
                id: before.map_or_else(|| next_id(&self.candidates), |row| row.id),
                project_key: op.stream.project_key.clone(),
                provenance_code: op.stream.provenance_code.clone(),
                endpoint_name: op.stream.endpoint_name.clone(),
                candidate: mark.candidate.clone(),
                bad: mark.bad.clone(),
                tries,
                expires_at: mark.bad.is_some().then(|| now + bad_id_pause(tries)),
                updated_at: now,
            };
            match known {
                Some(at) => self.candidates[at] = row,
                None => self.candidates.push(row),
            }
        }
    }

    /// The ids that are neither fetched in this version nor bad for now.
    pub fn screen(&self, now: Ts, stream: &RecordStream, candidates: &[DetailCandidate]) -> Vec<DetailCandidate> {
        let settled = |candidate: &DetailCandidate| {
            self.candidates.iter().any(|row| {
                row.is(stream, &candidate.id)
                    && row.candidate.version == candidate.version
                    && row.expires_at.is_none_or(|until| until > now)
            })
        };
        candidates.iter().filter(|candidate| !settled(candidate)).cloned().collect()
    }
}

impl CandidateRow {
    fn is(&self, stream: &RecordStream, id: &str) -> bool {
        self.candidate.id == id
            && self.endpoint_name == stream.endpoint_name
            && self.provenance_code == stream.provenance_code
            && self.project_key == stream.project_key
    }
}
