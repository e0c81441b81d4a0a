//! Commits of a page: as one batch, or as several where it has too many records for one transaction. A part leads back to
//! its own page, and only the last one leads on: a run that ends between two parts reads the page again, which changes
//! nothing that is stored.

use super::page::{ExchangeEvidence, FetchedPage, SettledRecords};
use super::reader::PageEnding;
use super::{PlannedEnd, RunMachine, RunStage, Want};
use crate::error::{Code, Fault, Level};
use crate::paging::{PageFacts, Position};
use crate::record::{CandidateMark, Record, deduplicate};
use crate::tx::{CommitBatch, RateStats, RunEnd, SelfHealing};

/// Most bytes of record data in one transaction.
pub(super) const MAX_BATCH_BYTES: usize = 8 << 20;

/// Bytes of a record's texts.
fn bytes(record: &Record) -> usize {
    record.key.len() + record.fields.len() + record.payload.len()
}

/// Whether the records are too many for one transaction.
pub(super) fn needs_parts(records: &[Record], most: usize) -> bool {
    records.len() > most || records.iter().map(bytes).sum::<usize>() > MAX_BATCH_BYTES
}

/// How many of the waiting pages fit into one transaction; at least one.
pub(super) fn that_fit<'a>(waiting: impl Iterator<Item = &'a CommitBatch>, most: usize) -> usize {
    let (mut records, mut size) = (0, 0);
    let fits = |batch: &&CommitBatch| {
        records += batch.records.len() + batch.rejected.len();
        size += batch.records.iter().map(bytes).sum::<usize>();
        records <= most && size <= MAX_BATCH_BYTES
    };
    waiting.take_while(fits).count().max(1)
}

/// Cuts the records into parts, each for one transaction.
fn parts(records: Vec<Record>, most: usize) -> Vec<Vec<Record>> {
    let mut parts = vec![Vec::new()];
    let mut size = 0;
    for record in records {
        let last = parts.len() - 1;
        let is_full = parts[last].len() >= most.max(1) || size + bytes(&record) > MAX_BATCH_BYTES;
        if is_full && !parts[last].is_empty() {
            parts.push(Vec::new());
            size = 0;
        }
        size += bytes(&record);
        let last = parts.len() - 1;
        parts[last].push(record);
    }
    parts
}

impl RunMachine {
    /// Commits a page and moves to where its ending leads.
    pub(super) fn turn(
        &mut self,
        page: FetchedPage,
        marks: Vec<CandidateMark>,
        ending: PageEnding,
        wants: &mut Vec<Want>,
    ) {
        let (next, perhaps, end) = match ending {
            PageEnding::Next { next, perhaps } => (Some(next), perhaps, None),
            PageEnding::End => (None, false, Some(RunEnd::Succeeded)),
            PageEnding::Cut(reason) => {
                let error = Fault::new(Code::PartialFail, Level::L1, reason);
                (self.behind_a_cut(), false, Some(RunEnd::Partial { error }))
            }
            PageEnding::Over { next, end } => (Some(next), false, Some(end)),
        };
        self.planned_end = end.map(|end| PlannedEnd { end, failure: None });
        let page = self.commit_parts(page);
        self.commit(page, marks, next.clone(), false);
        self.reader.step(next, perhaps);
        self.proceed(wants);
    }

    /// Commits a part of the current page's results, and stays at the page.
    pub(super) fn stay(&mut self, page: FetchedPage, marks: Vec<CandidateMark>, wants: &mut Vec<Want>) {
        let page = self.commit_parts(page);
        let here = self.reader.position().cloned();
        self.reader.stays = true;
        self.commit(page, marks, here.clone(), false);
        self.reader.step(here, self.reader.perhaps);
        self.proceed(wants);
    }

    /// Commits all parts of a large page but the last, and returns that one.
    fn commit_parts(&mut self, mut page: FetchedPage) -> FetchedPage {
        let most = self.options.max_batch_records;
        let Some(here) = self.reader.position().cloned() else { return page };
        if !needs_parts(&page.records, most) {
            return page;
        }
        // Over the whole page, so that no two parts have one key.
        deduplicate(&mut page.records);
        let mut parts = parts(std::mem::take(&mut page.records), most);
        page.records = parts.pop().unwrap_or_default();
        for records in parts {
            let items = u32::try_from(records.len()).unwrap_or(u32::MAX);
            page.facts.items = page.facts.items.saturating_sub(items);
            // The exchange counts once, with the last part.
            let evidence = ExchangeEvidence {
                status: page.evidence.status,
                request_digest: page.evidence.request_digest.clone(),
                response_digest: page.evidence.response_digest.clone(),
                ..ExchangeEvidence::default()
            };
            let part = FetchedPage {
                facts: PageFacts { items, ..PageFacts::default() },
                records,
                content: page.content,
                evidence,
                memory: page.memory.clone(),
                ..FetchedPage::default()
            };
            // What an earlier part of the results says about staying at the page is for the last part.
            let stays = std::mem::replace(&mut self.reader.stays, true);
            self.commit(part, Vec::new(), Some(here.clone()), true);
            self.reader.step(Some(here.clone()), self.reader.perhaps);
            self.reader.stays = stays;
        }
        page
    }

    fn commit(&mut self, page: FetchedPage, mut marks: Vec<CandidateMark>, next: Option<Position>, is_part: bool) {
        self.stats.observed_max =
            self.stats.observed_max.max(page.records.iter().map(|record| record.version.updated_at).max());
        let mut context = self.reader.context();
        let stays = std::mem::take(&mut self.reader.stays);
        if stays {
            context.walk = self.reader.walk_before;
        }
        if let (Some(verification), None) = (self.stats.verification, &next) {
            context.walk.get_or_insert_default().verification = Some(verification);
        }
        // A page that is read again counts again.
        let taken = |limit: &super::RecordLimit| if stays { limit.taken_before() } else { limit.taken() };
        context.taken = self.limit.as_ref().map(|limit| taken(limit) as u64);
        // A request for details that settled nothing is no progress, and neither is a part of a page.
        context.progress &= !is_part && (!matches!(context.position, Position::Ids { .. }) || !marks.is_empty());
        let checked = if is_part { Vec::new() } else { self.checked(&page, &mut marks) };
        let (RunStage::Paging(policy), Some(run)) = (&self.stage, self.run) else { return };
        let settled = SettledRecords { checked, marks, refresh: self.refreshes() };
        let batch = page.into_batch(&self.lease, run, policy, &context, settled, next);
        self.reader.healing = SelfHealing::default();
        self.reader.rate = RateStats::default();
        self.enqueue(batch);
    }
}
