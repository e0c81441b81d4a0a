//! State of a run that polls a source: validators of an unchanged response, and the changes of the source.

use std::cmp::Ordering;

use super::page::{FetchedPage, PageFailure};
use super::{PlannedEnd, RunMachine, RunStage};
use crate::error::Level;
use crate::paging::Position;
use crate::record::{Record, TWEET};
use crate::source::Validators;
use crate::tweet::{NewestTweet, compare_ids};
use crate::tx::{PollEnd, RunEnd};

/// Failed attempts that end a poll: the source itself waits and retries (COLL-52).
pub(super) const MAX_ATTEMPTS: u32 = 1;

/// 429 responses that a poll waits out: one more is a failure. A longer pause goes through the queue, and is no
/// failure.
pub(super) const MAX_THROTTLES: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct PollProgress {
    /// Validators of the last poll.
    pub(super) previous: Option<Box<Validators>>,
    /// Validators of this poll.
    current: Option<Validators>,
    /// A page was read.
    began: bool,
    moved_to: Option<String>,
    offline: bool,
    gone: bool,
    /// Greatest id of the tweets that this run read.
    newest: Option<String>,
}

impl PollProgress {
    pub(super) fn first(&self) -> Option<Position> {
        let feed_url = self.previous.as_ref()?.feed_url.clone()?;
        Some(Position::Url(Some(feed_url)))
    }

    /// Validators for this request. Whether they are for its URL is checked when that is known.
    pub(super) fn known(&self) -> Option<Box<Validators>> {
        self.previous.clone()
    }

    pub(super) fn on_page(&mut self, here: &Position, page: &mut FetchedPage) {
        if let Some(mut validators) = page.validators.take() {
            // Remember the feed that a page led to, so that the next poll starts there.
            if let (Position::Url(Some(url)), true) = (here, self.first().is_some() || self.began) {
                validators.feed_url = Some(url.clone());
            }
            self.current = Some(validators);
        }
        // Only the source's own address can move.
        if !self.began && self.first().is_none() {
            self.moved_to = page.moved_to.take();
        }
        self.began = true;
    }

    pub(super) fn on_records(&mut self, kind: &str, records: &[Record]) {
        for Record { key, .. } in records.iter().filter(|_| kind == TWEET) {
            let known = self.newest.as_deref().unwrap_or("0");
            if compare_ids(key, known) == Some(Ordering::Greater) {
                self.newest = Some(key.clone());
            }
        }
    }

    pub(super) fn on_refusal(&mut self, refusal: &PageFailure) {
        self.offline = refusal.offline;
        self.gone = refusal.evidence.status == 410;
    }
}

impl RunMachine {
    pub(super) fn poll_end(&self, planned_end: &PlannedEnd) -> Option<PollEnd> {
        let source = self.lease.source?;
        let tweets = matches!(&self.stage, RunStage::Paging(policy) if policy.stream.kind == TWEET);
        let failed = matches!(planned_end.end, RunEnd::Failed { .. } | RunEnd::Requeue { .. } | RunEnd::Split { .. });
        // A feed that a page led to and that can no longer be read is searched for again.
        let forget = failed && self.polling.first().is_some() && !self.polling.offline;
        // A source that was not read to its end must not count as unchanged the next time.
        let validators = match (failed, forget) {
            (true, true) => Some(Validators::default()),
            (true, false) => None,
            // Also one that was read in part.
            (false, _) if planned_end.end.error().is_some() => self.polling.current.clone().map(Validators::unread),
            (false, _) => self.polling.current.clone(),
        };
        Some(PollEnd {
            source,
            validators,
            moved_to: self.polling.moved_to.clone(),
            offline: failed && self.polling.offline,
            gone: failed && self.polling.gone,
            flaw: match &planned_end.end {
                RunEnd::Partial { error } if error.level == Level::L1 => Some(error.message.clone()),
                _ => None,
            },
            counted: tweets,
            emit: tweets && self.options.emit_tweets,
            newest: self.newest(planned_end).filter(|_| tweets),
        })
    }

    /// The newest tweet of a poll that ended well. A number of tweets that somebody asked for says nothing about the
    /// older ones, so such a poll counts only if it read everything.
    fn newest(&self, planned_end: &PlannedEnd) -> Option<NewestTweet> {
        let id = self.polling.newest.clone().filter(|_| planned_end.end == RunEnd::Succeeded)?;
        let (is_cut, is_scheduled) =
            self.limit.as_ref().map_or((false, false), |limit| (limit.is_cut, limit.is_scheduled));
        (is_scheduled || !is_cut).then_some(NewestTweet { id, complete: !is_cut })
    }
}
