//! Refresh candidates, signals, and the quarantine.

use std::ops::Bound;

use patra_core::Ts;
use patra_core::port::query::StoredVersion;
use patra_core::record::RecordStream;
use patra_core::state::{QuarantineStatus, SignalStatus};
use patra_core::tx::{
    AbandonRecord, CheckedRecord, CommitBatch, IdRange, MAX_SEGMENTS, MAX_SIGNAL_KEYS, MAX_SIGNAL_TRIES, ReadSegments,
    RecordAbandoned, RecordsSignalled, RefreshCriteria, Segments, SignalRecords, TxError,
};

use super::{Item, MemStore, SignalKey, SignalRow, place, refused};

impl SignalKey {
    pub(super) fn of(stream: &RecordStream, key: &str) -> SignalKey {
        SignalKey {
            project_key: stream.project_key.clone(),
            provenance_code: stream.provenance_code.clone(),
            endpoint_name: stream.endpoint_name.clone(),
            key: key.to_owned(),
        }
    }

    fn is_of(&self, stream: &RecordStream) -> bool {
        self.endpoint_name == stream.endpoint_name
            && self.provenance_code == stream.provenance_code
            && self.project_key == stream.project_key
    }
}

impl MemStore {
    pub(super) fn read_segments(&self, now: Ts, op: &ReadSegments) -> Segments {
        let all = self.wanted_keys(&op.stream, &op.criteria, op.after.as_deref(), None);
        let most = op.limit.min(MAX_SEGMENTS) as usize;
        let (mut ranges, mut after) = (Vec::new(), op.after.clone());
        let mut chunks = all.chunks(op.size.max(1) as usize);
        while ranges.len() < most
            && let Some(through) = chunks.next().and_then(<[String]>::last)
        {
            ranges.push(IdRange { after, through: through.clone() });
            after = Some(through.clone());
        }
        Segments { ranges, more: chunks.next().is_some(), now }
    }

    /// The keys of the refresh candidates of a range.
    pub fn wanted(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        range: &IdRange,
        after: Option<&str>,
        limit: u32,
    ) -> Vec<String> {
        let after = after.max(range.after.as_deref());
        let mut keys = self.wanted_keys(stream, wanted, after, Some(&range.through));
        keys.truncate(limit as usize);
        keys
    }

    fn wanted_keys(
        &self,
        stream: &RecordStream,
        wanted: &RefreshCriteria,
        after: Option<&str>,
        through: Option<&str>,
    ) -> Vec<String> {
        let inside = |key: &str| after.is_none_or(|after| key > after) && through.is_none_or(|through| key <= through);
        if *wanted == RefreshCriteria::Signalled {
            let keys = self.index.signals.keys().filter(|about| about.is_of(stream) && inside(&about.key));
            return keys.map(|about| about.key.clone()).collect();
        }
        let wants = |item: &&Item| {
            item.endpoint_name == stream.endpoint_name
                && match wanted {
                    RefreshCriteria::Stale { before } => item.checked_at < *before,
                    RefreshCriteria::MappedOtherThan { generation } => *item.generation != **generation,
                    RefreshCriteria::Signalled => false,
                }
        };
        let Some(at) = self.find_stream(stream) else { return Vec::new() };
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.to_owned()));
        let items = self.index.items[at].range((from, Bound::Unbounded)).map(|(_, at)| &self.items[*at]);
        items.filter(wants).map(|item| item.key.clone()).take_while(|key| inside(key)).collect()
    }

    /// The stored items with these keys.
    pub fn stored(&self, stream: &RecordStream, keys: &[String]) -> Vec<StoredVersion> {
        let Some(at) = self.find_stream(stream) else { return Vec::new() };
        let found = keys.iter().filter_map(|key| self.index.items[at].get(key)).map(|at| &self.items[*at]);
        found
            .map(|item| StoredVersion {
                key: item.key.clone(),
                version: item.version,
                content_hash: item.content_hash,
                generation: item.generation.to_string(),
            })
            .collect()
    }

    pub(super) fn signal(&mut self, now: Ts, op: &SignalRecords) -> Result<RecordsSignalled, TxError> {
        if op.keys.len() > MAX_SIGNAL_KEYS {
            return refused(format!("more than {MAX_SIGNAL_KEYS} keys in one signal"));
        }
        let (mut added, mut existing) = (0, 0);
        for key in &op.keys {
            let about = SignalKey {
                project_key: op.project_key.clone(),
                provenance_code: op.provenance_code.clone(),
                endpoint_name: op.endpoint_name.clone(),
                key: key.clone(),
            };
            match self.open_signal(now, about, None, &op.reason, &op.by) {
                true => added += 1,
                false => existing += 1,
            }
        }
        Ok(RecordsSignalled { added, existing })
    }

    /// Adds a signal; returns false if an open one exists. `row` is the row of the quarantine that it comes from.
    fn open_signal(&mut self, now: Ts, about: SignalKey, row: Option<usize>, reason: &str, by: &str) -> bool {
        if let Some(row) = row {
            self.index.signalled.entry(about.clone()).or_default().push(row);
        }
        if self.index.signals.contains_key(&about) {
            return false;
        }
        self.index.signal_ids += 1;
        let id = self.index.signal_ids;
        self.index.signals.insert(about.clone(), id);
        let row = SignalRow {
            id,
            about,
            from_quarantine: row.is_some(),
            reason: reason.to_owned(),
            created_by: by.to_owned(),
            status: SignalStatus::Open,
            tries: 0,
            last_error: None,
            created_at: now,
            updated_at: now,
        };
        self.signals.insert(id, row);
        true
    }

    /// Signals the record of a quarantined row, if its key is known.
    pub(super) fn signal_rejected(&mut self, now: Ts, stream: &RecordStream, row: usize) {
        let quarantined = &mut self.quarantine[row];
        let Some(key) = quarantined.what.key.clone() else { return };
        quarantined.status = QuarantineStatus::Signalled;
        let reason = quarantined.what.reason.clone();
        self.open_signal(now, SignalKey::of(stream, &key), Some(row), &reason, SignalRecords::BY_QUARANTINE);
    }

    /// Settles the quarantine of a record that arrived.
    pub(super) fn resolve_rejected(&mut self, now: Ts, stream: &RecordStream, key: &str) {
        if self.index.signals.is_empty() && self.index.signalled.is_empty() {
            return;
        }
        let about = SignalKey::of(stream, key);
        let open = self.index.signals.get(&about);
        if open.is_some_and(|id| self.signals.get(id).is_some_and(|row| row.from_quarantine)) {
            self.settle_signal(now, &about, SignalStatus::Resolved);
        }
        self.settle_rows(&about, QuarantineStatus::Resolved);
    }

    pub(super) fn check_records(&mut self, now: Ts, op: &CommitBatch) {
        let stream = self.find_stream(&op.stream);
        for checked in &op.checked {
            let item = stream.and_then(|stream| self.index.items[stream].get(&checked.key));
            if let (Some(at), true) = (item, checked.looked_at) {
                self.items[*at].checked_at = now;
            }
            self.settle_checked(now, op, checked);
        }
    }

    fn settle_checked(&mut self, now: Ts, op: &CommitBatch, checked: &CheckedRecord) {
        let about = SignalKey::of(&op.stream, &checked.key);
        let Some(error) = &checked.failed else {
            self.settle_signal(now, &about, SignalStatus::Resolved);
            return self.settle_rows(&about, QuarantineStatus::Resolved);
        };
        let Some(row) = self.index.signals.get(&about).and_then(|id| self.signals.get_mut(id)) else { return };
        row.tries += 1;
        row.last_error = Some(error.clone());
        row.updated_at = now;
        if row.tries >= MAX_SIGNAL_TRIES {
            self.settle_signal(now, &about, SignalStatus::Abandoned);
            self.settle_rows(&about, QuarantineStatus::Abandoned);
        }
    }

    fn settle_signal(&mut self, now: Ts, about: &SignalKey, status: SignalStatus) {
        let Some(row) = self.index.signals.remove(about).and_then(|id| self.signals.get_mut(&id)) else { return };
        assert!(row.status.may_become(status), "signal {} must not go from {} to {status}", row.id, row.status);
        (row.status, row.updated_at) = (status, now);
    }

    fn settle_rows(&mut self, about: &SignalKey, status: QuarantineStatus) {
        for at in self.index.signalled.remove(about).unwrap_or_default() {
            let row = &mut self.quarantine[at];
            assert!(row.status.may_become(status), "row {} must not go from {} to {status}", row.id, row.status);
            row.status = status;
        }
    }

    pub(super) fn abandon(&mut self, now: Ts, op: &AbandonRecord) -> RecordAbandoned {
        let at = place(op.quarantine);
        let Some(row) = self.quarantine.get_mut(at) else { return RecordAbandoned { found: false, abandoned: false } };
        if !row.status.may_become(QuarantineStatus::Abandoned) {
            return RecordAbandoned { found: true, abandoned: false };
        }
        row.status = QuarantineStatus::Abandoned;
        if let Some(about) = row.about() {
            self.settle_signal(now, &about, SignalStatus::Abandoned);
            if let Some(rows) = self.index.signalled.get_mut(&about) {
                rows.retain(|row| *row != at);
            }
            self.index.signalled.retain(|_, rows| !rows.is_empty());
        }
        RecordAbandoned { found: true, abandoned: true }
    }
}

impl super::Quarantined {
    fn about(&self) -> Option<SignalKey> {
        Some(SignalKey {
            project_key: self.project_key.clone(),
            provenance_code: self.provenance_code.clone(),
            endpoint_name: self.endpoint_name.clone(),
            key: self.what.key.clone()?,
        })
    }
}
