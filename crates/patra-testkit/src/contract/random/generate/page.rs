//! Pages and the ends of runs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Position;
use patra_core::project::Library;
use patra_core::record::{Record, RecordVersion, RejectedRecord};
use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{Capture, CheckedRecord, CommitBatch, Lease, LeaseRef, MarkMissing, PassPage, RunEnd, Tx};
use patra_core::{Fence, RunId, Ts, Window};

use super::{Generator, next_batch};
use crate::contract::make;
use crate::memory::MemStore;

impl Generator {
    fn records(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for key in 0..8 {
            if self.rng.chance(400) {
                let (at, source_version) = (self.rng.below(6) as i64, self.rng.below(2) as i64);
                let version = RecordVersion { updated_at: Ts::from_secs(at), source_version };
                let record = make::record(&format!("key {key}"), at);
                // Content that differs although the version does not.
                let content_hash = [self.rng.below(2) as u8; 16];
                records.push(Record { version, content_hash, ..record });
            }
        }
        records
    }

    pub(super) fn commit(&mut self, store: &MemStore) -> Option<Tx> {
        let (lease, run) = self.pick_run(store)?;
        let written = next_batch(store, run);
        let batch_no = if self.rng.chance(150) { written.saturating_sub(1).max(1) } else { written };
        Some(match self.rng.chance(700) {
            true => self.page(&lease, run, batch_no).into(),
            false => Arc::<[_]>::from([self.page(&lease, run, batch_no), self.page(&lease, run, batch_no + 1)]).into(),
        })
    }

    fn page(&mut self, lease: &Lease, run: RunId, batch_no: u32) -> Arc<CommitBatch> {
        let more = self.rng.chance(700);
        let mut page = make::page(lease, run, batch_no, self.records(), more);
        if self.rng.chance(300) {
            page.rejected = self.rejected();
            page.stats.failed = page.rejected.len() as u32;
        }
        if self.rng.chance(300) {
            // A token is rarely repeated within a run; then the page is refused.
            let token = if self.rng.chance(350) { "again".to_owned() } else { format!("token {batch_no}") };
            page.before_token = Some(token.clone());
            page.position = Position::Token(Some(token));
            page.next = more.then(|| Position::Token(Some(format!("token {}", batch_no + 1))));
        }
        page.generation = format!("generation {}", self.rng.below(2)).into();
        page.refresh = lease.operation == Operation::Update && self.rng.chance(700);
        page.checked = self.checked();
        page.raw = self.rng.chance(200).then(|| make::raw("an answer", self.keep()));
        page.progress = self.rng.chance(900);
        page.emit = self.rng.chance(300);
        page.pass = self.rng.chance(500).then(|| self.pass());
        page.capture = self.rng.chance(300).then(|| self.capture());
        Arc::new(page)
    }

    /// One of two lists, which share records.
    fn pass(&mut self) -> PassPage {
        let list = self.rng.chance(900).then(|| self.list());
        let excluded = (0..8).filter(|_| self.rng.chance(100)).map(|key| format!("key {key}")).collect();
        PassPage { undated: self.rng.chance(500), list, excluded }
    }

    fn list(&mut self) -> Arc<str> {
        ["", "other"][self.rng.below(2) as usize].into()
    }

    pub(super) fn mark_missing(&mut self, store: &MemStore) -> Option<Tx> {
        let (mut lease, _) = self.pick_run(store)?;
        if self.rng.chance(50) {
            lease.fence = Fence(lease.fence.0 + 100);
        }
        let op = MarkMissing {
            lease: LeaseRef::from(&lease),
            lineage: lease.lineage,
            stream: Arc::new(make::stream()),
            list: self.list(),
            // Each store numbers its records in its own way.
            after: None,
            limit: MarkMissing::LIMIT,
            only_count: self.rng.chance(300),
        };
        Some(op.into())
    }

    fn capture(&mut self) -> Capture {
        let library = if self.rng.chance(400) { Library::Shared } else { Library::Project };
        let urls: BTreeSet<_> = (0..1 + self.rng.below(4)).map(|_| self.rng.below(20)).collect();
        // Rarely a domain that is too long for its column: then none of the URLs is stored.
        let domain = if self.rng.chance(100) { "d".repeat(256) } else { "a.example".to_owned() };
        let urls = urls.into_iter().map(|no| (format!("https://{domain}/{no:02}"), domain.clone())).collect();
        Capture { library, job_type: "demo".into(), urls }
    }

    /// A response that expires at once, or never.
    fn keep(&mut self) -> Duration {
        if self.rng.chance(500) { Duration::ZERO } else { make::LONG }
    }

    fn rejected(&mut self) -> Vec<RejectedRecord> {
        let key = |number: u64| (number < 8).then(|| format!("key {number}"));
        [0, 3].map(|index| RejectedRecord { key: key(self.rng.below(10)), ..make::rejected(index) }).to_vec()
    }

    fn checked(&mut self) -> Vec<CheckedRecord> {
        let mut checked = Vec::new();
        for key in 0..8 {
            if self.rng.chance(80) {
                let failed = self.rng.chance(600).then(|| "404".to_owned());
                checked.push(CheckedRecord { key: format!("key {key}"), failed, looked_at: self.rng.chance(800) });
            }
        }
        checked
    }

    pub(super) fn end(&mut self, store: &MemStore) -> Option<Tx> {
        let (lease, run) = self.pick_run(store)?;
        let error = make::fault("trouble");
        let end = match self.rng.below(11) {
            0..6 => RunEnd::Succeeded,
            6 => RunEnd::Partial { error },
            7 => RunEnd::Failed { error },
            8 => self.split(&lease),
            _ => RunEnd::Requeue { delay: self.delay(), error, counted: self.rng.chance(500) },
        };
        let mut end = make::end(&lease, run, end);
        end.stats.ret_count = self.rng.below(100) as u32;
        if self.rng.chance(50) {
            end.lease.fence = Fence(lease.fence.0 + 100);
        }
        if self.rng.chance(250) {
            let mut failure = make::failure(&lease, run, next_batch(store, run));
            failure.raw = self.rng.chance(300).then(|| make::raw("a failure", self.keep()));
            end.failure = Some(failure);
        }
        if let Some(window) = lease.window.filter(|_| self.rng.chance(300)) {
            end.done = Some(Window { to: window.from + window.width() / 2, ..window });
        }
        if matches!(end.end, RunEnd::Failed { .. }) && self.rng.chance(500) {
            let kind = PauseKind::ALL[self.rng.below(PauseKind::ALL.len() as u64) as usize];
            end.pause = Some(make::hold(kind, make::partition(lease.operation)));
        }
        Some(Arc::new(end).into())
    }

    /// Into narrower windows, or into ranges of pages of the same one.
    fn split(&mut self, lease: &Lease) -> RunEnd {
        let error = make::fault("too many");
        let Some(window) = lease.window else { return RunEnd::Partial { error } };
        let tag = format!("split {}", self.rng.below(8));
        let slices = match self.rng.chance(500) {
            true => window.split(2, Duration::from_secs(1)).iter().map(|part| make::slice(&tag, *part)).collect(),
            false => (0..2).map(|at| make::pages(&tag, window, at)).collect(),
        };
        RunEnd::Split { error, slices }
    }
}
