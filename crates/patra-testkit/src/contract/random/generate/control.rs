//! Operations of operators and maintenance.

use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{
    AbandonRecord, ArchiveLedger, CancelSubject, CancelWork, PauseSelector, PauseSubject, PauseWork, ReadSegments,
    RecordExport, RedriveTarget, RedriveWork, RefreshCriteria, ResumeWork, SignalRecords, Tx,
};
use patra_core::{CredentialId, Ts};

use super::Generator;
use crate::contract::make;
use crate::memory::{MemStore, Task};

impl Generator {
    /// One of the last few tasks.
    fn task<'a>(&mut self, store: &'a MemStore) -> Option<&'a Task> {
        let from = store.tasks.len().saturating_sub(6);
        store.tasks.get(from + self.rng.below(6) as usize)
    }

    /// Broad subjects are rare, otherwise all work would stop.
    fn subject(&mut self, store: &MemStore) -> Option<PauseSubject> {
        let none = PauseSubject::default();
        Some(match self.rng.below(20) {
            0 => PauseSubject::source(make::PROVENANCE),
            1 => PauseSubject::endpoint(make::PROVENANCE, &self.endpoint()),
            2 | 7 | 8 => make::partition(self.operation()),
            3 => PauseSubject { plan: Some(self.task(store)?.lineage.plan), ..none },
            4 => PauseSubject { slice: Some(self.task(store)?.lineage.slice), ..none },
            5 => PauseSubject { credential: Some(CredentialId(7)), ..none },
            6 => PauseSubject { operation: Some(Operation::Harvest), ..none },
            _ => PauseSubject { task: Some(self.task(store)?.id), ..PauseSubject::source(make::PROVENANCE) },
        })
    }

    pub(super) fn hold(&mut self, store: &MemStore) -> Option<Tx> {
        let kind = PauseKind::ALL[self.rng.below(PauseKind::ALL.len() as u64) as usize];
        let subject = self.subject(store)?;
        Some(PauseWork { reason: "a hold".into(), by: "somebody".into(), kind, subject }.into())
    }

    pub(super) fn release(&mut self, store: &MemStore) -> Option<Tx> {
        let last: Vec<_> = store.holds.values().filter(|row| row.released.is_none()).collect();
        let row = last.get(self.rng.below(last.len().max(1) as u64) as usize)?;
        // By its subject: no result contains the number of a halt, and stores number differently.
        let which = PauseSelector::On(row.subject.clone());
        Some(ResumeWork { target: which, by: "somebody".into() }.into())
    }

    pub(super) fn cancel(&mut self, store: &MemStore) -> Option<Tx> {
        let target = match self.rng.below(6) {
            0 => {
                let at = self.rng.below(store.instances.len().max(1) as u64) as usize;
                CancelSubject::Job(store.instances.get(at)?.public_id.clone())
            }
            1 => CancelSubject::Plan(self.task(store)?.lineage.plan),
            2 | 3 => CancelSubject::Slice(self.task(store)?.lineage.slice),
            _ => CancelSubject::Task(self.task(store)?.id),
        };
        Some(CancelWork { target, reason: "enough".into(), by: "somebody".into() }.into())
    }

    pub(super) fn redrive(&mut self, store: &MemStore) -> Option<Tx> {
        let what = if self.rng.chance(700) {
            RedriveTarget::Task(self.task(store)?.id)
        } else {
            let (_, run) = self.recent(&self.runs.clone())?;
            RedriveTarget::Batch { run, batch_no: 1 + self.rng.below(3) as u32 }
        };
        let request = format!("request {}", self.rng.below(2));
        Some(RedriveWork { request, target: what, by: "somebody".into() }.into())
    }

    pub(super) fn signal(&mut self) -> Tx {
        let keys = (0..8).filter(|_| self.rng.chance(200)).map(|key| format!("key {key}")).collect();
        SignalRecords {
            project_key: "default".into(),
            provenance_code: make::PROVENANCE.into(),
            endpoint_name: make::ENDPOINT.into(),
            keys,
            reason: "wrong".into(),
            by: "reader".into(),
        }
        .into()
    }

    pub(super) fn abandon(&mut self, store: &MemStore) -> Option<Tx> {
        let at = self.rng.below(store.quarantine.len().max(1) as u64) as usize;
        Some(AbandonRecord { quarantine: store.quarantine.get(at)?.id, by: "somebody".into() }.into())
    }

    pub(super) fn archive(&mut self, store: &MemStore) -> Tx {
        let limit = 1 + self.rng.below(5) as u32;
        let all = Ts::from_secs(4_000_000_000);
        let before = match store.instances.last() {
            Some(row) if self.rng.chance(700) => row.created_at,
            _ if self.rng.chance(800) => all,
            _ => Ts::from_secs(0),
        };
        ArchiveLedger { before, limit }.into()
    }

    pub(super) fn export(&mut self) -> Option<Tx> {
        let (_, run) = self.recent(&self.runs.clone())?;
        let expires_at = Ts::from_secs(2_000_000_000);
        let (by, reason, package_hash) = ("somebody".into(), "a look".into(), "hash".into());
        Some(RecordExport { run: run.0, batch_no: 1, by, reason, package_hash, expires_at }.into())
    }

    pub(super) fn segments(&mut self, store: &MemStore) -> Tx {
        let wanted = match self.rng.below(3) {
            0 => RefreshCriteria::Signalled,
            1 => RefreshCriteria::MappedOtherThan { generation: "generation 1".into() },
            _ => {
                let seen = store.items.last().map(|item| item.stored_at);
                RefreshCriteria::Stale { before: seen.unwrap_or(Ts::from_secs(4_000_000_000)) }
            }
        };
        let after = self.rng.chance(300).then(|| format!("key {}", self.rng.below(8)));
        let (size, limit) = (1 + self.rng.below(3) as u32, 1 + self.rng.below(3) as u32);
        ReadSegments { stream: make::stream(), criteria: wanted, after, size, limit }.into()
    }
}
