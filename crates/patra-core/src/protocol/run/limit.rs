//! How many records a run reads at most, where a param says so: what is polled may have no end that is worth reaching.

use std::collections::BTreeSet;

use super::page::Page;
use super::{Run, Verdict, Want};
use crate::error::{Code, Fault, Level};
use crate::hash::id_hash;
use crate::paging::Rule;
use crate::params::{self, Params};
use crate::tx::RunEnd;

/// The largest limit that a param can ask for.
const MAX_RECORDS: usize = 100_000;

#[derive(Debug)]
pub(super) struct Limit {
    most: usize,
    /// The reading goes on up to here as long as all that it brings is new (TWEET-93).
    at_most: usize,
    /// What runs before this one have taken.
    before: usize,
    /// Keys so far, hashed: what a far side names on every page counts once.
    keys: BTreeSet<[u8; 16]>,
}

/// How far a page has brought the reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reach {
    Below,
    /// Enough, unless everything was new.
    Enough,
    Full,
}

impl Limit {
    pub(super) fn of_task(rule: &Rule, task_params: &str) -> Result<Option<Limit>, Fault> {
        if rule.limit_param.is_none() {
            return Ok(None);
        }
        let params = params::of_task(task_params).unwrap_or_default();
        let most = number(&params, rule.limit_param.as_ref())?;
        let at_most = number(&params, rule.limit_max_param.as_ref())?;
        Ok(most.map(|most| Limit {
            most,
            at_most: at_most.unwrap_or(most).max(most),
            before: 0,
            keys: BTreeSet::new(),
        }))
    }

    /// Counts on from where an earlier run of the task has come.
    pub(super) fn resume(&mut self, taken: Option<u64>) {
        self.before = taken.and_then(|taken| taken.try_into().ok()).unwrap_or_default();
    }

    pub(super) fn taken(&self) -> usize {
        self.before + self.keys.len()
    }

    /// Counts the records of a page, and leaves out those that came before in this run and those beyond the limit.
    pub(super) fn take(&mut self, page: &mut Page) -> Reach {
        let read = page.records.len();
        page.records.retain(|record| self.taken() < self.at_most && self.keys.insert(id_hash(record.key.as_bytes())));
        let left_out = u32::try_from(read - page.records.len()).unwrap_or(u32::MAX);
        page.facts.items = page.facts.items.saturating_sub(left_out);
        match self.taken() {
            count if count >= self.at_most => Reach::Full,
            count if count >= self.most => Reach::Enough,
            _ => Reach::Below,
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

impl Run {
    /// Everything read is committed, so it is known whether there was anything else than news: only then the reading goes on
    /// beyond what was asked for.
    pub(super) fn on_news(&mut self, wants: &mut Vec<Want>) {
        self.awaits_news = false;
        if self.stats.inserted > 0 && self.stats.updated == 0 && self.stats.skipped == 0 {
            return self.proceed(wants);
        }
        self.verdict = Some(Verdict { end: RunEnd::Succeeded, failure: None });
        self.reader.halt();
        self.close(wants);
    }
}
