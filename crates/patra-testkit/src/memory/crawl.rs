//! Workflow locks, note candidates and stored notes.

use std::time::Duration;

use patra_core::crawl::{CrawlCandidate, CrawlNote, Execution, NoteFields, after_failure, idempotency_key, is_alive};
use patra_core::record::{RecordStream, RecordVersion};
use patra_core::state::{CandidateStatus, ExecutionStatus};
use patra_core::tx::{
    AcquireExecution, AddCandidates, CandidateFailed, CandidatesAdded, CandidatesClaimed, CandidatesRequeued,
    ClaimCandidates, EndExecution, ExecutionAcquired, ExecutionKept, FailCandidate, KeepExecution, MAX_CANDIDATES,
    NewNote, NoteWritten, Recover, Recovered, RequeueCandidates, TxError, WriteNote,
};
use patra_core::{RunId, Ts};

use super::{ExecutionRow, Item, MemStore, NoteRow, WaitingNote, next_id, refused};

/// Result of a lookup of an execution by id.
enum ExecutionLookup {
    Live(usize),
    Over(Execution),
    Unknown,
}

impl MemStore {
    /// Looks an execution up, and ends it if its heartbeat timed out.
    fn find_execution(
        &mut self,
        now: Ts,
        project: Option<&str>,
        execution_id: &str,
        timeout: Duration,
    ) -> ExecutionLookup {
        let at = self.executions.iter().position(|row| {
            row.what.execution_id == execution_id && project.is_none_or(|project| project == row.project_key)
        });
        let Some(at) = at else { return ExecutionLookup::Unknown };
        let execution = &self.executions[at].what;
        if execution.status == ExecutionStatus::Running && is_alive(execution.heartbeat_at, now, timeout) {
            return ExecutionLookup::Live(at);
        }
        if execution.status == ExecutionStatus::Running {
            self.end_execution_as(now, at, ExecutionStatus::Timeout);
        }
        ExecutionLookup::Over(self.executions[at].what.clone())
    }

    fn end_execution_as(&mut self, now: Ts, at: usize, status: ExecutionStatus) {
        let execution = &mut self.executions[at].what;
        assert!(execution.status.may_become(status), "{} becomes {status}", execution.status);
        (execution.status, execution.completed_at) = (status, Some(now));
    }

    pub(super) fn acquire(&mut self, now: Ts, op: &AcquireExecution) -> Result<ExecutionAcquired, TxError> {
        let running = self.executions.iter().position(|row| {
            let key = (&row.project_key, &row.what.workflow_name);
            key == (&op.project_key, &op.workflow_name) && row.what.status == ExecutionStatus::Running
        });
        if let Some(held) = running.map(|at| &self.executions[at].what)
            && is_alive(held.heartbeat_at, now, op.timeout)
        {
            let (held, own) = (held.clone(), held.execution_id == op.execution_id);
            return Ok(if own { ExecutionAcquired::Granted(held) } else { ExecutionAcquired::Held(held) });
        }
        if self.executions.iter().any(|row| row.what.execution_id == op.execution_id) {
            return refused(format!("{} was used before", op.execution_id));
        }
        if let Some(at) = running {
            self.end_execution_as(now, at, ExecutionStatus::Timeout);
        }
        let what = Execution {
            execution_id: op.execution_id.clone(),
            workflow_name: op.workflow_name.clone(),
            status: ExecutionStatus::Running,
            started_at: now,
            heartbeat_at: now,
            completed_at: None,
            items_processed: 0,
            items_failed: 0,
        };
        self.executions.push(ExecutionRow { project_key: op.project_key.clone(), what: what.clone() });
        Ok(ExecutionAcquired::Granted(what))
    }

    pub(super) fn keep_execution(&mut self, now: Ts, op: &KeepExecution) -> ExecutionKept {
        let at = match self.find_execution(now, op.project_key.as_deref(), &op.execution_id, op.timeout) {
            ExecutionLookup::Unknown => return ExecutionKept::Unknown,
            ExecutionLookup::Over(execution) => return ExecutionKept::Lost(execution),
            ExecutionLookup::Live(at) => at,
        };
        for row in &mut self.waiting_notes {
            if row.what.processing_lock.as_ref() == Some(&op.execution_id) {
                row.what.locked_at = Some(now);
            }
        }
        let execution = &mut self.executions[at].what;
        execution.heartbeat_at = now;
        count(execution, op.items_processed, op.items_failed);
        ExecutionKept::Kept(execution.clone())
    }

    pub(super) fn end_execution(&mut self, now: Ts, op: &EndExecution) -> Result<ExecutionKept, TxError> {
        if !matches!(op.status, ExecutionStatus::Completed | ExecutionStatus::Failed) {
            return refused(format!("an execution cannot end as {}", op.status));
        }
        Ok(match self.find_execution(now, op.project_key.as_deref(), &op.execution_id, op.timeout) {
            ExecutionLookup::Unknown => ExecutionKept::Unknown,
            ExecutionLookup::Over(execution) if execution.status == op.status => ExecutionKept::Kept(execution),
            ExecutionLookup::Over(execution) => ExecutionKept::Lost(execution),
            ExecutionLookup::Live(at) => {
                self.end_execution_as(now, at, op.status);
                count(&mut self.executions[at].what, op.items_processed, op.items_failed);
                ExecutionKept::Kept(self.executions[at].what.clone())
            }
        })
    }

    fn waiting_note(&mut self, project: &str, platform: &str, note_id: &str) -> Option<&mut CrawlCandidate> {
        let is = |row: &&mut WaitingNote| {
            row.project_key == project && row.what.platform == platform && row.what.note_id == note_id
        };
        self.waiting_notes.iter_mut().find(is).map(|row| &mut row.what)
    }

    pub(super) fn add_candidates(&mut self, now: Ts, op: &AddCandidates) -> Result<CandidatesAdded, TxError> {
        if op.candidates.len() > MAX_CANDIDATES {
            return refused(format!("{} notes in one request: at most {MAX_CANDIDATES}", op.candidates.len()));
        }
        let before = self.waiting_notes.len();
        for new in &op.candidates {
            if let Some(known) = self.waiting_note(&op.project_key, &op.platform, &new.note_id) {
                let news = new.tokens != "{}" && new.tokens != known.tokens;
                if known.status == CandidateStatus::Pending && news {
                    (known.tokens, known.updated_at) = (new.tokens.clone(), now);
                }
                continue;
            }
            let what = CrawlCandidate {
                id: next_id(&self.waiting_notes),
                platform: op.platform.clone(),
                note_id: new.note_id.clone(),
                note_url: new.note_url.clone(),
                status: CandidateStatus::Pending,
                processing_lock: None,
                locked_at: None,
                retry_count: 0,
                source_keyword: new.source_keyword.clone(),
                tokens: new.tokens.clone(),
                last_error_code: None,
                exec_meta: "{}".into(),
                created_at: now,
                updated_at: now,
            };
            self.waiting_notes.push(WaitingNote { project_key: op.project_key.clone(), what });
        }
        let created = (self.waiting_notes.len() - before) as u64;
        Ok(CandidatesAdded { created, existing: op.candidates.len() as u64 - created })
    }

    pub(super) fn claim_candidates(&mut self, now: Ts, op: &ClaimCandidates) -> CandidatesClaimed {
        let at = match self.find_execution(now, op.project_key.as_deref(), &op.execution_id, op.timeout) {
            ExecutionLookup::Unknown => return CandidatesClaimed::Unknown,
            ExecutionLookup::Over(execution) => return CandidatesClaimed::Lost(execution),
            ExecutionLookup::Live(at) => at,
        };
        let project = &self.executions[at].project_key;
        let mut waiting: Vec<_> = self
            .waiting_notes
            .iter_mut()
            .filter(|row| row.project_key == *project && row.what.status == CandidateStatus::Pending)
            .map(|row| &mut row.what)
            .filter(|note| op.platform.as_ref().is_none_or(|platform| *platform == note.platform))
            .collect();
        waiting.sort_by_key(|note| (note.created_at, note.id));
        let next = waiting.into_iter().take(op.limit.min(MAX_CANDIDATES as u32) as usize);
        CandidatesClaimed::Claimed(
            next.map(|note| {
                note.status = CandidateStatus::Processing;
                note.processing_lock = Some(op.execution_id.clone());
                (note.locked_at, note.updated_at) = (Some(now), now);
                note.clone()
            })
            .collect(),
        )
    }

    pub(super) fn fail_candidate(&mut self, now: Ts, op: &FailCandidate) -> CandidateFailed {
        let Some(note) = self.waiting_note(&op.project_key, &op.platform, &op.note_id) else {
            return CandidateFailed::Unknown;
        };
        if note.processing_lock.as_ref() != Some(&op.execution_id) {
            return CandidateFailed::NotHeld(note.processing_lock.clone());
        }
        let (status, retry_count) = after_failure(note.retry_count);
        note.exec_meta = op.attempt.exec_meta(&note.exec_meta, note.source_keyword.as_deref(), retry_count);
        note.last_error_code = Some(op.error_code.clone());
        settle(note, now, status, retry_count);
        CandidateFailed::Failed(Box::new(note.clone()))
    }

    pub(super) fn requeue_candidates(&mut self, now: Ts, op: &RequeueCandidates) -> CandidatesRequeued {
        let meant = |row: &&mut WaitingNote| {
            row.project_key == op.project_key
                && row.what.platform == op.platform
                && row.what.status == CandidateStatus::Failed
                && op.note_id.as_ref().is_none_or(|id| *id == row.what.note_id)
                && op.source_keyword.as_ref().is_none_or(|word| Some(word) == row.what.source_keyword.as_ref())
        };
        let mut requeued = 0;
        for row in self.waiting_notes.iter_mut().filter(meant) {
            settle(&mut row.what, now, CandidateStatus::Pending, 0);
            (row.what.last_error_code, row.what.exec_meta) = (None, "{}".into());
            requeued += 1;
        }
        CandidatesRequeued { requeued }
    }

    pub(super) fn write_note(&mut self, now: Ts, op: &WriteNote) -> NoteWritten {
        let candidate = self.waiting_note(&op.project_key, &op.platform, &op.note.note_id);
        let meta = match &candidate {
            Some(known) => op.attempt.exec_meta(&known.exec_meta, known.source_keyword.as_deref(), known.retry_count),
            None => op.attempt.exec_meta("", None, 0),
        };
        let url = op.note.note_url.clone().or_else(|| Some(candidate.as_ref()?.note_url.clone()));
        if let Some(known) = candidate.filter(|known| known.status != CandidateStatus::Collected) {
            known.exec_meta.clone_from(&meta);
            settle(known, now, CandidateStatus::Collected, known.retry_count);
        }
        let stream = self.stream(&RecordStream {
            project_key: op.project_key.clone(),
            provenance_code: op.platform.clone(),
            endpoint_name: "note".into(),
            dedup_scope: "note".into(),
            kind: "note".into(),
        });
        let key = idempotency_key(&op.note.note_id);
        if let Some(at) = self.index.items[stream].get(&key) {
            let id = self.items[*at].id;
            let captured = self.capture(now, op.capture.as_ref(), &op.project_key, None);
            return NoteWritten { id, created: false, captured };
        }
        let id = self.insert_note(now, stream, key.clone(), &op.note);
        let NoteFields { title, content, author } = NoteFields::read(&op.note.fields);
        let what = CrawlNote {
            id,
            platform: op.platform.clone(),
            note_id: op.note.note_id.clone(),
            note_url: url,
            idempotency_key: key,
            title,
            content,
            author,
            published_at: op.note.published_at,
            fetched_at: now,
            crawl_result: op.note.payload.clone(),
            processing_lock: None,
            locked_at: None,
            retry_count: 0,
            last_error_code: None,
            exec_meta: meta,
        };
        self.notes.push(NoteRow { project_key: op.project_key.clone(), what });
        let captured = self.capture(now, op.capture.as_ref(), &op.project_key, None);
        NoteWritten { id, created: true, captured }
    }

    fn insert_note(&mut self, now: Ts, stream: usize, key: String, note: &NewNote) -> i64 {
        let id = next_id(&self.items);
        self.index.items[stream].insert(key.clone(), self.items.len());
        self.items.push(Item {
            id,
            stream,
            key,
            endpoint_name: "note".into(),
            kind: "note".into(),
            version: RecordVersion { updated_at: now, source_version: 0 },
            generation: "".into(),
            checked_at: now,
            content_hash: note.content_hash,
            fields: note.fields.clone(),
            payload: note.payload.clone().into(),
            run: RunId(0),
            batch_no: 0,
            created_at: now,
            stored_at: now,
            emptied_at: None,
            missing_since: None,
        });
        id
    }

    pub(super) fn recover(&mut self, now: Ts, op: Recover) -> Recovered {
        let mut recovered = Recovered::default();
        for at in 0..self.executions.len() {
            let execution = &self.executions[at].what;
            let running = execution.status == ExecutionStatus::Running;
            if running && !is_alive(execution.heartbeat_at, now, op.timeout) {
                self.end_execution_as(now, at, ExecutionStatus::Timeout);
                recovered.executions_timed_out += 1;
            }
        }
        for WaitingNote { what: note, .. } in &mut self.waiting_notes {
            if note.locked_at.is_none_or(|at| is_alive(at, now, op.timeout)) {
                continue;
            }
            let (status, retry_count) = after_failure(note.retry_count);
            settle(note, now, status, retry_count);
            match status {
                CandidateStatus::Failed => recovered.records_failed += 1,
                _ => recovered.records_requeued += 1,
            }
        }
        recovered.cookies_reactivated = self.rest_cookies(now);
        recovered
    }
}

fn count(execution: &mut Execution, processed: Option<u64>, failed: Option<u64>) {
    execution.items_processed = processed.unwrap_or(execution.items_processed);
    execution.items_failed = failed.unwrap_or(execution.items_failed);
}

/// Releases the claim of a candidate.
fn settle(note: &mut CrawlCandidate, now: Ts, status: CandidateStatus, retry_count: u32) {
    assert!(note.status.may_become(status), "{} becomes {status}", note.status);
    (note.status, note.retry_count) = (status, retry_count);
    (note.processing_lock, note.locked_at, note.updated_at) = (None, None, now);
}
