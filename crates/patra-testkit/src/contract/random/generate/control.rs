//! What people and housekeeping do.

use patra_core::state::{HoldKind, Operation};
use patra_core::tx::{
    Abandon, Archive, Cancel, Hold, ReadSegments, RecordExport, Redrive, Release, Signal, Subject, Target, Tx, Wanted,
    What, Which,
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

    /// Seldom much at once, or everything would stand still.
    fn subject(&mut self, store: &MemStore) -> Option<Subject> {
        let none = Subject::default();
        Some(match self.rng.below(20) {
            0 => Subject::source(make::PROVENANCE),
            1 => Subject::endpoint(make::PROVENANCE, &self.endpoint()),
            2 | 7 | 8 => make::partition(self.operation()),
            3 => Subject { plan: Some(self.task(store)?.lineage.plan), ..none },
            4 => Subject { slice: Some(self.task(store)?.lineage.slice), ..none },
            5 => Subject { credential: Some(CredentialId(7)), ..none },
            6 => Subject { operation: Some(Operation::Harvest), ..none },
            _ => Subject { task: Some(self.task(store)?.id), ..Subject::source(make::PROVENANCE) },
        })
    }

    pub(super) fn hold(&mut self, store: &MemStore) -> Option<Tx> {
        let kind = HoldKind::ALL[self.rng.below(HoldKind::ALL.len() as u64) as usize];
        let subject = self.subject(store)?;
        Some(Hold { reason: "a hold".into(), by: "somebody".into(), kind, subject }.into())
    }

    pub(super) fn release(&mut self, store: &MemStore) -> Option<Tx> {
        let last: Vec<_> = store.holds.values().filter(|row| row.released.is_none()).collect();
        let row = last.get(self.rng.below(last.len().max(1) as u64) as usize)?;
        // By its subject: a fuse has a number that no answer tells, and stores number differently.
        let which = Which::On(row.subject.clone());
        Some(Release { which, by: "somebody".into() }.into())
    }

    pub(super) fn cancel(&mut self, store: &MemStore) -> Option<Tx> {
        let target = match self.rng.below(6) {
            0 => {
                let at = self.rng.below(store.instances.len().max(1) as u64) as usize;
                Target::Trigger(store.instances.get(at)?.public_id.clone())
            }
            1 => Target::Plan(self.task(store)?.lineage.plan),
            2 | 3 => Target::Slice(self.task(store)?.lineage.slice),
            _ => Target::Task(self.task(store)?.id),
        };
        Some(Cancel { target, reason: "enough".into(), by: "somebody".into() }.into())
    }

    pub(super) fn redrive(&mut self, store: &MemStore) -> Option<Tx> {
        let what = if self.rng.chance(700) {
            What::Task(self.task(store)?.id)
        } else {
            let (_, run) = self.recent(&self.runs.clone())?;
            What::Batch { run, batch_no: 1 + self.rng.below(3) as u32 }
        };
        let request = format!("request {}", self.rng.below(2));
        Some(Redrive { request, what, by: "somebody".into() }.into())
    }

    pub(super) fn signal(&mut self) -> Tx {
        let keys = (0..8).filter(|_| self.rng.chance(200)).map(|key| format!("key {key}")).collect();
        Signal {
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
        Some(Abandon { quarantine: store.quarantine.get(at)?.id, by: "somebody".into() }.into())
    }

    pub(super) fn archive(&mut self, store: &MemStore) -> Tx {
        let limit = 1 + self.rng.below(5) as u32;
        // A store with its own clock is asked for everything or for nothing.
        let all = Ts::from_secs(4_000_000_000);
        let before = match store.instances.last() {
            Some(row) if !self.real => row.created_at,
            _ if self.rng.chance(800) => all,
            _ => Ts::from_secs(0),
        };
        Archive { before, limit }.into()
    }

    pub(super) fn export(&mut self) -> Option<Tx> {
        let (_, run) = self.recent(&self.runs.clone())?;
        let expires_at = Ts::from_secs(2_000_000_000);
        let (by, reason, package_hash) = ("somebody".into(), "a look".into(), "hash".into());
        Some(RecordExport { run: run.0, batch_no: 1, by, reason, package_hash, expires_at }.into())
    }

    pub(super) fn segments(&mut self, store: &MemStore) -> Tx {
        let wanted = match self.rng.below(3) {
            0 => Wanted::Signalled,
            1 => Wanted::MappedOtherThan { generation: "generation 1".into() },
            _ => {
                let seen = store.items.last().filter(|_| !self.real).map(|item| item.stored_at);
                Wanted::Stale { before: seen.unwrap_or(Ts::from_secs(4_000_000_000)) }
            }
        };
        let after = self.rng.chance(300).then(|| format!("key {}", self.rng.below(8)));
        let (size, limit) = (1 + self.rng.below(3) as u32, 1 + self.rng.below(3) as u32);
        ReadSegments { stream: make::stream(), wanted, after, size, limit }.into()
    }
}
