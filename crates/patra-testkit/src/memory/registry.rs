//! Provenances with their endpoints, sections and schedules; the dictionary; API keys.

use patra_core::Ts;
use patra_core::port::query::RegisteredProvenance;
use patra_core::state::PauseKind;
use patra_core::tx::{
    ApplyProvenance, CreateKey, DictionarySynced, EndpointRow, EndpointSchedule, KeyCreated, KeyRevoked,
    ProvenanceApplied, ProvenanceRemoved, RemoveProvenance, ResumeWork, RevokeKey, SyncDictionary, TxError,
};

use super::{Endpoint, KeyRow, MemStore, Provenance, ScheduleRow, next_id, refused};

impl MemStore {
    pub(super) fn apply_provenance(&mut self, now: Ts, op: &ApplyProvenance) -> Result<ProvenanceApplied, TxError> {
        let code = op.provenance_code.as_str();
        if let Some(flaw) = op.invalid_reason() {
            return refused(flaw);
        }
        let found = self.provenances.iter().position(|row| row.provenance_code == code);
        if found.is_some_and(|at| self.provenances[at].document_hash == op.document_hash) {
            return Ok(ProvenanceApplied::Unchanged);
        }
        check(op)?;
        let applied = match found {
            Some(at) => {
                let row = &mut self.provenances[at];
                row.name.clone_from(&op.name);
                row.project_key.clone_from(&op.project_key);
                row.document_hash.clone_from(&op.document_hash);
                row.updated_at = now;
                ProvenanceApplied::Changed
            }
            None => {
                self.index.provenance_ids += 1;
                self.provenances.push(Provenance {
                    id: self.index.provenance_ids,
                    provenance_code: op.provenance_code.clone(),
                    name: op.name.clone(),
                    project_key: op.project_key.clone(),
                    document_hash: op.document_hash.clone(),
                    created_at: now,
                    updated_at: now,
                });
                ProvenanceApplied::Created
            }
        };
        let mut sections = op.rows.clone();
        sections.sort();
        self.sections.insert(code.to_owned(), sections);
        self.endpoints.retain(|row| row.provenance_code != code || op.has(&row.endpoint_name));
        self.schedules.retain(|row| row.provenance_code != code || op.schedules(row));
        for endpoint in &op.endpoints {
            self.put_endpoint(now, code, endpoint);
            for schedule in &endpoint.schedules {
                self.put_schedule(now, code, &endpoint.endpoint_name, schedule);
            }
        }
        self.release_where(now, ResumeWork::BY_MANIFEST, |row| {
            row.kind == PauseKind::Advisory && row.subject.provenance_code.as_deref() == Some(code)
        });
        Ok(applied)
    }

    /// The project of the jobs of a schedule.
    pub(super) fn project_of(&self, code: &str) -> String {
        let row = self.provenances.iter().find(|row| row.provenance_code == code);
        row.and_then(|row| row.project_key.clone()).unwrap_or_else(|| "default".to_owned())
    }

    fn put_endpoint(&mut self, now: Ts, code: &str, endpoint: &EndpointRow) {
        let same = |row: &&mut Endpoint| row.provenance_code == code && row.endpoint_name == endpoint.endpoint_name;
        if let Some(row) = self.endpoints.iter_mut().find(same) {
            row.role.clone_from(&endpoint.role);
            return;
        }
        self.index.endpoint_ids += 1;
        self.endpoints.push(Endpoint {
            id: self.index.endpoint_ids,
            provenance_code: code.to_owned(),
            endpoint_name: endpoint.endpoint_name.clone(),
            role: endpoint.role.clone(),
            created_at: now,
        });
    }

    fn put_schedule(&mut self, now: Ts, code: &str, endpoint: &str, schedule: &EndpointSchedule) {
        let EndpointSchedule { operation, reason, recurrence: when } = schedule;
        let next_due_at = when.first_after(now).unwrap_or(Ts::NEVER);
        let same = |row: &&mut ScheduleRow| row.is(code, endpoint, schedule);
        if let Some(row) = self.schedules.iter_mut().find(same) {
            if row.when.to_text() != when.to_text() {
                (row.when, row.next_due_at) = (when.clone(), next_due_at);
            }
            return;
        }
        self.index.schedule_ids += 1;
        self.schedules.push(ScheduleRow {
            id: self.index.schedule_ids,
            provenance_code: code.to_owned(),
            endpoint_name: endpoint.to_owned(),
            operation: *operation,
            reason: *reason,
            when: when.clone(),
            next_due_at,
        });
    }

    pub(super) fn remove_provenance(
        &mut self,
        RemoveProvenance { provenance_code: code }: &RemoveProvenance,
    ) -> ProvenanceRemoved {
        let before = self.provenances.len();
        self.provenances.retain(|row| row.provenance_code != *code);
        self.endpoints.retain(|row| row.provenance_code != *code);
        self.schedules.retain(|row| row.provenance_code != *code);
        self.sections.remove(code);
        ProvenanceRemoved { removed: self.provenances.len() < before }
    }

    pub fn registry(&self, code: &str) -> Option<RegisteredProvenance> {
        let provenance = self.provenances.iter().find(|row| row.provenance_code == code)?;
        let rows = self.sections.get(code).cloned().unwrap_or_default();
        Some(RegisteredProvenance { document_hash: provenance.document_hash.clone(), rows })
    }

    pub(super) fn sync_dictionary(&mut self, op: &SyncDictionary) -> Result<DictionarySynced, TxError> {
        if let Some(flaw) = op.invalid_reason() {
            return refused(flaw);
        }
        let changed = self.dictionary != op.types;
        self.dictionary.clone_from(&op.types);
        Ok(DictionarySynced { changed })
    }

    pub(super) fn create_key(&mut self, now: Ts, op: &CreateKey) -> KeyCreated {
        let taken = self.keys.iter().any(|key| key.prefix == op.prefix);
        if taken || (op.only_first && !self.keys.is_empty()) {
            return KeyCreated { created: false };
        }
        self.keys.push(KeyRow {
            id: next_id(&self.keys),
            prefix: op.prefix.clone(),
            hash: op.hash.clone(),
            name: op.name.clone(),
            scope: op.scope,
            projects: op.projects.clone(),
            shared: op.shared,
            created_at: now,
            revoked_at: None,
        });
        KeyCreated { created: true }
    }

    pub(super) fn revoke_key(&mut self, now: Ts, op: &RevokeKey) -> KeyRevoked {
        let live = self.keys.iter_mut().find(|key| key.prefix == op.prefix && key.revoked_at.is_none());
        let revoked = live.map(|key| key.revoked_at = Some(now)).is_some();
        KeyRevoked { revoked }
    }
}

trait Manifest {
    fn has(&self, endpoint: &str) -> bool;
    fn schedules(&self, row: &ScheduleRow) -> bool;
}

impl Manifest for ApplyProvenance {
    fn has(&self, endpoint: &str) -> bool {
        self.endpoints.iter().any(|row| row.endpoint_name == endpoint)
    }

    fn schedules(&self, row: &ScheduleRow) -> bool {
        let mut all = self
            .endpoints
            .iter()
            .flat_map(|endpoint| endpoint.schedules.iter().map(|schedule| (endpoint.endpoint_name.as_str(), schedule)));
        all.any(|(endpoint, schedule)| row.is(&self.provenance_code, endpoint, schedule))
    }
}

impl ScheduleRow {
    /// Lookup by `uk_schedule`.
    fn is(&self, code: &str, endpoint: &str, schedule: &EndpointSchedule) -> bool {
        self.provenance_code == code
            && self.endpoint_name == endpoint
            && self.operation == schedule.operation
            && self.reason == schedule.reason
    }
}

/// The CHECK on the role.
fn check(op: &ApplyProvenance) -> Result<(), TxError> {
    for endpoint in &op.endpoints {
        if !["SEARCH", "DETAIL", "METRICS"].contains(&endpoint.role.as_str()) {
            return refused(format!("no role: {}", endpoint.role));
        }
    }
    Ok(())
}
