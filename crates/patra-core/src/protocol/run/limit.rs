//! Record limit of a run, where a param sets one: a polled source may have no end that is worth reaching.

use std::collections::BTreeSet;

use super::page::FetchedPage;
use super::{PlannedEnd, RunMachine, Want};
use crate::error::{Code, Fault, Level};
use crate::hash::id_hash;
use crate::paging::PagingRule;
use crate::params::{self, Params};
use crate::tx::RunEnd;

/// The largest limit that a param can set.
const MAX_RECORDS: usize = 100_000;

#[derive(Debug)]
pub(super) struct RecordLimit {
    most: usize,
    /// The extended limit, while all records are new (TWEET-93).
    at_most: usize,
    /// The extended limit was given: nobody asked for a number of records.
    pub(super) is_scheduled: bool,
    /// Records may be left behind the limit.
    pub(super) is_cut: bool,
    /// Records that earlier runs have taken.
    before: usize,
    /// Records that were taken before the current page.
    last: usize,
    /// Hashed keys so far: a record that is repeated on every page counts once.
    keys: BTreeSet<[u8; 16]>,
}

/// State of the limit after a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LimitStatus {
    Below,
    /// Reached, unless every record was new.
    Enough,
    Full,
}

impl RecordLimit {
    pub(super) fn of_task(rule: &PagingRule, task_params: &str) -> Result<Option<RecordLimit>, Fault> {
        if rule.limit_param.is_none() {
            return Ok(None);
        }
        let params = params::of_task(task_params).unwrap_or_default();
        let most = number(&params, rule.limit_param.as_ref())?;
        let at_most = number(&params, rule.limit_max_param.as_ref())?;
        Ok(most.map(|most| RecordLimit {
            most,
            at_most: at_most.unwrap_or(most).max(most),
            is_scheduled: at_most.is_some(),
            is_cut: false,
            before: 0,
            last: 0,
            keys: BTreeSet::new(),
        }))
    }

    /// Continues the count of an earlier run of the task.
    pub(super) fn resume(&mut self, taken: Option<u64>) {
        self.before = taken.and_then(|taken| taken.try_into().ok()).unwrap_or_default();
        self.last = self.before;
    }

    pub(super) fn taken(&self) -> usize {
        self.before + self.keys.len()
    }

    /// Records that were taken before the current page.
    pub(super) fn taken_before(&self) -> usize {
        self.last
    }

    /// Counts the records of a page, and drops those that came before in this run and those beyond the limit.
    pub(super) fn take(&mut self, page: &mut FetchedPage) -> LimitStatus {
        let read = page.records.len();
        self.last = self.taken();
        page.records.retain(|record| self.taken() < self.at_most && self.keys.insert(id_hash(record.key.as_bytes())));
        let left_out = u32::try_from(read - page.records.len()).unwrap_or(u32::MAX);
        page.facts.items = page.facts.items.saturating_sub(left_out);
        match self.taken() {
            count if count >= self.at_most => {
                self.is_cut = true;
                LimitStatus::Full
            }
            count if count >= self.most => LimitStatus::Enough,
            _ => LimitStatus::Below,
        }
    }
}

fn number(params: &Params, name: Option<&String>) -> Result<Option<usize>, Fault> {
    let Some((name, text)) = name.and_then(|name| params.get_key_value(name)) else { return Ok(None) };
    let number = text.trim().parse().ok().filter(|number| (1..=MAX_RECORDS).contains(number));
    number.map(Some).ok_or_else(|| {
        let reason = format!("the param `{name}` is {text:?}: expected a whole number from 1 to {MAX_RECORDS}");
        Fault::new(Code::InvalidInput, Level::L2, reason)
    })
}

impl RunMachine {
    /// Everything read is committed, so it is known whether all records were new: only then the reading continues
    /// beyond the limit.
    pub(super) fn on_news(&mut self, wants: &mut Vec<Want>) {
        self.awaits_news = false;
        if self.stats.inserted > 0 && self.stats.updated == 0 && self.stats.skipped == 0 {
            return self.proceed(wants);
        }
        if let Some(limit) = &mut self.limit {
            limit.is_cut = true;
        }
        self.planned_end = Some(PlannedEnd { end: RunEnd::Succeeded, failure: None });
        self.reader.halt();
        self.close(wants);
    }
}
