//! What a run that polls a source keeps in mind: how an unchanged answer is recognised, and what the source must be told.

use super::page::{Page, Refusal};
use super::{Run, Stage, Verdict};
use crate::paging::Position;
use crate::record::TWEET;
use crate::source::Validators;
use crate::tx::PollEnd;

/// Failures of a poll that end its task: the source itself waits and tries again (COLL-52).
pub(super) const MAX_ATTEMPTS: u32 = 1;

/// Refusals for pacing (429) that a poll sits out: one more is a failure. A longer wish for silence is kept by the queue, and
/// is none.
pub(super) const MAX_THROTTLES: u32 = 3;

#[derive(Debug, Default)]
pub(super) struct Polling {
    /// From the last poll.
    pub(super) known: Option<Box<Validators>>,
    /// From this one.
    seen: Option<Validators>,
    /// Some page was read.
    began: bool,
    moved_to: Option<String>,
    offline: bool,
    gone: bool,
}

impl Polling {
    pub(super) fn first(&self) -> Option<Position> {
        let feed_url = self.known.as_ref()?.feed_url.clone()?;
        Some(Position::Url(Some(feed_url)))
    }

    /// What an unchanged answer to this request is recognised by. Whether they are for its URL is seen when that is known.
    pub(super) fn known(&self) -> Option<Box<Validators>> {
        self.known.clone()
    }

    pub(super) fn on_page(&mut self, here: &Position, page: &mut Page) {
        if let Some(mut seen) = page.seen.take() {
            // What a page led to is remembered, so that the next poll begins there.
            if let (Position::Url(Some(url)), true) = (here, self.first().is_some() || self.began) {
                seen.feed_url = Some(url.clone());
            }
            self.seen = Some(seen);
        }
        // Only the address that the source itself has can move.
        if !self.began && self.first().is_none() {
            self.moved_to = page.moved_to.take();
        }
        self.began = true;
    }

    pub(super) fn on_refusal(&mut self, refusal: &Refusal) {
        self.offline = refusal.offline;
        self.gone = refusal.evidence.status == 410;
    }
}

impl Run {
    pub(super) fn poll_end(&self, verdict: &Verdict) -> Option<PollEnd> {
        let source = self.lease.source?;
        let tweets = matches!(&self.stage, Stage::Paging(policy) if policy.stream.kind == TWEET);
        let failed = verdict.end.error().is_some();
        // A feed that a page led to and that cannot be read any more is looked for again.
        let forget = failed && self.polling.first().is_some() && !self.polling.offline;
        // What was not read to its end must not be taken for unchanged the next time.
        let validators = match (failed, forget) {
            (true, true) => Some(Validators::default()),
            (true, false) => None,
            (false, _) => self.polling.seen.clone(),
        };
        Some(PollEnd {
            source,
            validators,
            moved_to: self.polling.moved_to.clone(),
            offline: failed && self.polling.offline,
            gone: failed && self.polling.gone,
            counted: tweets,
            tell: tweets && self.options.tell,
        })
    }
}
