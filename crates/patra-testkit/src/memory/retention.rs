//! Archived and deleted ledger rows, and recorded exports.

use std::collections::BTreeMap;

use patra_core::Ts;
use patra_core::tx::{ArchiveLedger, ExportRecorded, LedgerArchived, RecordExport};

use super::{ArchiveRow, EventLineage, ExportRow, MemStore, next_id, place};

impl MemStore {
    pub(super) fn archive(&mut self, now: Ts, op: ArchiveLedger) -> LedgerArchived {
        LedgerArchived {
            batches: self.archive_batches(now, op),
            events: self.archive_events(now, op),
            raw: self.drop_raw(now, op.limit as usize),
            settled: self.drop_settled(op),
        }
    }

    fn archive_batches(&mut self, now: Ts, op: ArchiveLedger) -> u32 {
        let old = |batch: &&super::Batch| {
            !batch.archived && batch.created_at < op.before && self.tasks[place(batch.task.0)].status.is_final()
        };
        let old: Vec<_> = self.batches.iter().filter(old).take(op.limit as usize).map(|batch| batch.id).collect();
        for id in &old {
            let batch = &self.batches[place(id.0)];
            let lineage = EventLineage {
                of: batch.lineage,
                task: batch.task,
                run: batch.run,
                batch_no: batch.batch_no,
                expr_hash: batch.expr_hash.clone(),
            };
            let row = ArchiveRow {
                id: next_id(&self.archive),
                kind: "BATCH",
                row: id.0,
                lineage: Some(lineage),
                body: self.batch_json(batch).to_string(),
                created_at: batch.created_at,
                archived_at: now,
            };
            self.archive.push(row);
            self.batches[place(id.0)].archived = true;
        }
        old.len() as u32
    }

    fn archive_events(&mut self, now: Ts, op: ArchiveLedger) -> u32 {
        let newest: BTreeMap<_, _> = self.events.iter().map(|event| (event.cursor, event.id)).collect();
        let old = |event: &&super::Event| {
            !event.archived && event.created_at < op.before && newest.get(&event.cursor) != Some(&event.id)
        };
        let old: Vec<_> = self.events.iter().filter(old).take(op.limit as usize).map(|event| event.id).collect();
        for id in &old {
            let event = &self.events[place(*id)];
            let row = ArchiveRow {
                id: next_id(&self.archive),
                kind: "EVENT",
                row: *id,
                lineage: event.lineage.clone(),
                body: self.event_json(event).to_string(),
                created_at: event.created_at,
                archived_at: now,
            };
            self.archive.push(row);
            self.events[place(*id)].archived = true;
        }
        old.len() as u32
    }

    fn drop_raw(&mut self, now: Ts, limit: usize) -> u32 {
        let mut over: Vec<_> =
            self.raw.iter().filter(|(_, row)| row.expires_at <= now).map(|(key, row)| (row.expires_at, *key)).collect();
        over.sort_unstable();
        over.truncate(limit);
        for (_, key) in &over {
            self.raw.remove(key);
        }
        over.len() as u32
    }

    fn drop_settled(&mut self, op: ArchiveLedger) -> u32 {
        let limit = op.limit as usize;
        let released = |row: &super::PauseRow| row.released.as_ref().map(|(_, at)| *at).filter(|at| *at < op.before);
        let mut holds: Vec<_> = self.holds.values().filter_map(|row| Some((released(row)?, row.id))).collect();
        holds.sort_unstable();
        holds.truncate(limit);
        for (_, id) in &holds {
            self.holds.remove(id);
        }
        let settled = |row: &&super::SignalRow| row.status.is_final() && row.updated_at < op.before;
        let mut signals: Vec<_> = self.signals.values().filter(settled).map(|row| (row.updated_at, row.id)).collect();
        signals.sort_unstable();
        signals.truncate(limit);
        for (_, id) in &signals {
            self.signals.remove(id);
        }
        (holds.len() + signals.len()) as u32
    }

    pub(super) fn record_export(&mut self, now: Ts, op: &RecordExport) -> ExportRecorded {
        let export = next_id(&self.exports);
        self.exports.push(ExportRow {
            id: export,
            run: op.run,
            batch_no: op.batch_no,
            created_by: op.by.clone(),
            reason: op.reason.clone(),
            package_hash: op.package_hash.clone(),
            created_at: now,
            expires_at: op.expires_at,
        });
        ExportRecorded { export }
    }
}
