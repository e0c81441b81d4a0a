//! What one rendering carries along for its functions: the frozen time, the prepared literals, and the budget of work.
//! It travels in the scope under a name that no expression can write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::Object;

use patra_core::Ts;

use super::RenderError;
use super::literal::Prepared;

/// Where the scope keeps it.
pub(super) const NAME: &str = "\u{1}run";

/// Bytes that the functions of one rendering may go through. A text of the greatest length fits 64 times: a long
/// chain of functions over long texts ends here, after some milliseconds.
const WORK: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Run {
    now: Ts,
    /// Values are made up: a text that cannot be read says nothing about the template.
    trial: bool,
    work: AtomicUsize,
    prepared: Arc<[Prepared]>,
}

impl Run {
    pub(super) fn new(now: Ts, prepared: &Arc<[Prepared]>) -> Run {
        Run { now, trial: false, work: AtomicUsize::new(0), prepared: Arc::clone(prepared) }
    }

    pub(super) fn trial(now: Ts, prepared: &Arc<[Prepared]>) -> Run {
        Run { trial: true, ..Run::new(now, prepared) }
    }

    /// `None` when nobody froze a time: better no request than one that asks for 1970.
    pub(super) fn now(&self) -> Option<Ts> {
        (self.now != Ts::default()).then_some(self.now)
    }

    pub(super) fn is_trial(&self) -> bool {
        self.trial
    }

    pub(super) fn prepared(&self) -> &[Prepared] {
        &self.prepared
    }

    pub(super) fn charge(&self, work: usize) -> Result<(), RenderError> {
        let before = self.work.fetch_add(work.min(WORK + 1), Ordering::Relaxed);
        if before.saturating_add(work) > WORK { Err(RenderError::TooMuchWork) } else { Ok(()) }
    }
}

impl Object for Run {}
