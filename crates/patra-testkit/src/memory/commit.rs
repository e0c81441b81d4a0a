//! One page: ledger row, records, quarantine.

use std::sync::Arc;

use patra_core::record::{Record, RecordStream};
use patra_core::state::{BatchStatus, Operation, QuarantineStatus, RunStatus, TaskStatus};
use patra_core::tx::{BatchCommitted, BatchStats, Captured, CommitBatch, RawResponse, StoredRecord, TxError};
use patra_core::{BatchId, RunId, Ts};

use super::{Batch, Item, ItemStream, MemStore, Quarantined, RawRow, next_id, place, refused};

impl MemStore {
    /// Commits all pages or none: every reason to refuse one is checked before the first is stored.
    pub(super) fn commit_batches(&mut self, now: Ts, ops: &[Arc<CommitBatch>]) -> Result<Vec<BatchCommitted>, TxError> {
        for (at, op) in ops.iter().enumerate() {
            let is_new = self.committed(op)?.is_none();
            if is_new {
                self.check_page(op)?;
            }
            for other in &ops[..at] {
                if other.batch_no == op.batch_no || other.idempotent_key == op.idempotent_key {
                    return refused("uk_batch_idem");
                }
                // A page that was committed before keeps the token that it had.
                let both_new = is_new && self.committed(other)?.is_none();
                if both_new && op.before_token.is_some() && op.before_token == other.before_token {
                    return refused("uk_run_before_tok");
                }
            }
        }
        ops.iter().map(|op| self.commit_batch(now, op)).collect()
    }

    pub(super) fn commit_batch(&mut self, now: Ts, op: &CommitBatch) -> Result<BatchCommitted, TxError> {
        if let Some(old) = self.committed(op)? {
            return Ok(old);
        }
        self.check_page(op)?;
        Ok(self.store_page(now, op))
    }

    /// The earlier commit of this page, if any. Refused unless the run belongs to the lease.
    fn committed(&self, op: &CommitBatch) -> Result<Option<BatchCommitted>, TxError> {
        if self.leased_task(op.lease).is_none_or(|task| task.status != TaskStatus::Executing) {
            return Err(TxError::Fenced);
        }
        let run = self.runs.get(place(op.run.0));
        let own = run.is_some_and(|run| run.task == op.lease.task && run.attempt_no == op.lease.fence.0);
        if !own {
            return refused(format!("run {} is not of this lease", op.run));
        }
        if let Some(old) = self.find_batch(op.run, |batch| batch.batch_no == op.batch_no) {
            let captured = Captured::None;
            return Ok(Some(BatchCommitted { batch: old.id, stats: old.stats, replayed: true, captured }));
        }
        Ok(None)
    }

    fn store_page(&mut self, now: Ts, op: &CommitBatch) -> BatchCommitted {
        assert_eq!(self.runs[place(op.run.0)].status, RunStatus::Running, "a page for run {}", op.run);
        self.quarantine_rejected(now, op);
        let (stats, stored) = self.store_records(now, op);
        self.see(op);
        self.link(now, op);
        self.check_records(now, op);
        self.mark(now, op);
        let batch = self.insert_batch(now, op, stats);
        for event in op.events(&stored) {
            self.put_event(now, event);
        }
        if let Some(raw) = &op.raw {
            self.keep_raw(now, op.run, op.batch_no, raw);
        }
        if op.progress {
            let task = &mut self.tasks[place(op.lease.task.0)];
            (task.attempts, task.suspect) = (0, false);
        }
        let project_key = &op.stream.project_key;
        let captured = self.capture(now, op.capture.as_ref(), project_key, Some(op.lineage.job));
        BatchCommitted { batch, stats, replayed: false, captured }
    }

    fn find_batch(&self, run: RunId, is: impl Fn(&Batch) -> bool) -> Option<&Batch> {
        let batches = &self.runs[place(run.0)].batches;
        batches.iter().map(|batch| &self.batches[place(batch.0)]).find(|batch| is(batch))
    }

    /// The unique keys and CHECKs that a page can break.
    fn check_page(&self, op: &CommitBatch) -> Result<(), TxError> {
        if op.batch_no == 0 {
            return refused("batch 0");
        }
        if op.before_token.is_some() && self.find_batch(op.run, |old| old.before_token == op.before_token).is_some() {
            return refused("uk_run_before_tok");
        }
        if self.index.batch_keys.contains(&op.idempotent_key) {
            return refused("uk_batch_idem");
        }
        let mut places: Vec<_> = op.rejected.iter().map(|rejected| rejected.index).collect();
        places.sort_unstable();
        if places.windows(2).any(|pair| pair[0] == pair[1]) {
            return refused("uk_quarantine_place");
        }
        debug_assert!(op.records.windows(2).all(|pair| pair[0].key < pair[1].key), "one record per key, sorted by key");
        Ok(())
    }

    fn quarantine_rejected(&mut self, now: Ts, op: &CommitBatch) {
        for rejected in &op.rejected {
            self.quarantine.push(Quarantined {
                id: next_id(&self.quarantine),
                task: op.lease.task,
                run: op.run,
                batch_no: op.batch_no,
                project_key: op.stream.project_key.clone(),
                provenance_code: op.stream.provenance_code.clone(),
                endpoint_name: op.stream.endpoint_name.clone(),
                what: rejected.clone(),
                request_digest: op.request_digest.clone(),
                status: QuarantineStatus::Open,
                created_at: now,
            });
            self.signal_rejected(now, &op.stream, self.quarantine.len() - 1);
        }
    }

    pub(super) fn keep_raw(&mut self, now: Ts, run: RunId, batch_no: u32, raw: &RawResponse) {
        let RawResponse { status, headers, body, keep } = raw.clone();
        let row = RawRow { status, headers, body, created_at: now, expires_at: now + keep };
        self.raw.insert((run, batch_no), row);
    }

    fn store_records<'a>(&mut self, now: Ts, op: &'a CommitBatch) -> (BatchStats, Vec<StoredRecord<'a>>) {
        let stream = self.stream(&op.stream);
        let (mut stats, mut stored) = (op.stats, Vec::new());
        let watermark = self.watermark(op);
        for record in &op.records {
            let known = self.index.items[stream].get(&record.key);
            let inserted = known.is_none();
            match known {
                None => {
                    self.insert_item(now, op, stream, record);
                    stats.inserted += 1;
                }
                Some(&at) if self.replaces(op, record, at) => {
                    self.replace_item(now, op, at, record);
                    stats.updated += 1;
                }
                Some(_) => {
                    stats.skipped += 1;
                    continue;
                }
            }
            stats.late += u32::from(watermark.is_some_and(|value| record.version.updated_at < value));
            self.resolve_rejected(now, &op.stream, &record.key);
            stored.push(StoredRecord { record, inserted });
        }
        (stats, stored)
    }

    /// A record of a harvest below this time is late.
    fn watermark(&self, op: &CommitBatch) -> Option<Ts> {
        let task = &self.tasks[place(op.lease.task.0)];
        let value = self.cursors.get(place(task.cursor.0)).and_then(|row| row.value.as_ref()?.instant());
        value.filter(|_| task.origin.operation == Operation::Harvest && op.pass.is_none())
    }

    fn replaces(&self, op: &CommitBatch, record: &Record, at: usize) -> bool {
        let stored = &self.items[at];
        let differs = stored.generation != op.generation || stored.content_hash != record.content_hash;
        let newer = match op.pass.as_ref().is_some_and(|pass| pass.undated) {
            true => record.version >= stored.version && differs,
            false => record.version > stored.version || (op.refresh && record.version == stored.version && differs),
        };
        newer && stored.emptied_at.is_none()
    }

    pub(super) fn find_stream(&self, stream: &RecordStream) -> Option<usize> {
        self.streams.iter().position(|row| {
            row.project_key == stream.project_key
                && row.provenance_code == stream.provenance_code
                && row.dedup_scope == stream.dedup_scope
        })
    }

    pub(super) fn stream(&mut self, stream: &RecordStream) -> usize {
        self.find_stream(stream).unwrap_or_else(|| {
            self.streams.push(ItemStream {
                project_key: stream.project_key.clone(),
                provenance_code: stream.provenance_code.clone(),
                dedup_scope: stream.dedup_scope.clone(),
            });
            self.index.items.push(std::collections::BTreeMap::new());
            self.streams.len() - 1
        })
    }

    fn insert_item(&mut self, now: Ts, op: &CommitBatch, stream: usize, record: &Record) {
        self.index.items[stream].insert(record.key.clone(), self.items.len());
        self.items.push(Item {
            id: next_id(&self.items),
            stream,
            key: record.key.clone(),
            endpoint_name: op.stream.endpoint_name.clone(),
            kind: op.stream.kind.clone(),
            version: record.version,
            generation: op.generation.clone(),
            checked_at: now,
            content_hash: record.content_hash,
            fields: record.fields.clone(),
            payload: record.payload.clone(),
            run: op.run,
            batch_no: op.batch_no,
            created_at: now,
            stored_at: now,
            emptied_at: None,
            missing_since: None,
        });
    }

    fn replace_item(&mut self, now: Ts, op: &CommitBatch, at: usize, record: &Record) {
        let item = &mut self.items[at];
        item.endpoint_name.clone_from(&op.stream.endpoint_name);
        item.kind.clone_from(&op.stream.kind);
        item.version = record.version;
        item.generation.clone_from(&op.generation);
        item.checked_at = now;
        item.content_hash = record.content_hash;
        item.fields.clone_from(&record.fields);
        item.payload = record.payload.clone();
        item.run = op.run;
        item.batch_no = op.batch_no;
        item.stored_at = now;
    }

    fn insert_batch(&mut self, now: Ts, op: &CommitBatch, stats: BatchStats) -> BatchId {
        let id = BatchId(next_id(&self.batches));
        self.index.batch_keys.insert(op.idempotent_key.clone());
        self.runs[place(op.run.0)].batches.push(id);
        self.batches.push(Batch {
            id,
            run: op.run,
            task: op.lease.task,
            lineage: op.lineage,
            expr_hash: op.expr_hash.clone(),
            idempotent_key: op.idempotent_key.clone(),
            batch_no: op.batch_no,
            position: op.position.clone(),
            next: op.next.clone(),
            before_token: op.before_token.clone(),
            page_size: op.page_size,
            status: BatchStatus::Succeeded,
            stats,
            request_digest: op.request_digest.clone(),
            response_digest: op.response_digest.clone(),
            error: None,
            created_at: now,
            archived: false,
        });
        id
    }
}
