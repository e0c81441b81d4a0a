//! State of one rendering, for its functions: the frozen time, the prepared literals, and the work budget. It is stored
//! in the scope under a name that no expression can write.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use minijinja::value::Object;

use patra_core::Ts;

use super::RenderError;
use super::literal::PreparedLiteral;

/// Name under which the scope stores the state.
pub(super) const NAME: &str = "\u{1}run";

/// Most bytes that the functions of one rendering may process: 64 texts of maximum length. A long chain of functions
/// over long texts stops here, after some milliseconds.
const WORK: usize = 4 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct RenderState {
    now: Ts,
    /// Values are samples: a text that a function cannot parse is not an error of the template.
    is_dry_run: bool,
    work: AtomicUsize,
    prepared: Arc<[PreparedLiteral]>,
}

impl RenderState {
    pub(super) fn new(now: Ts, prepared: &Arc<[PreparedLiteral]>) -> RenderState {
        RenderState { now, is_dry_run: false, work: AtomicUsize::new(0), prepared: Arc::clone(prepared) }
    }

    pub(super) fn dry_run(now: Ts, prepared: &Arc<[PreparedLiteral]>) -> RenderState {
        RenderState { is_dry_run: true, ..RenderState::new(now, prepared) }
    }

    /// `None` if the caller froze no time: an error is better than a request for 1970.
    pub(super) fn now(&self) -> Option<Ts> {
        (self.now != Ts::default()).then_some(self.now)
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.is_dry_run
    }

    pub(super) fn prepared(&self) -> &[PreparedLiteral] {
        &self.prepared
    }

    pub(super) fn charge(&self, work: usize) -> Result<(), RenderError> {
        let before = self.work.fetch_add(work.min(WORK + 1), Ordering::Relaxed);
        if before.saturating_add(work) > WORK { Err(RenderError::TooMuchWork) } else { Ok(()) }
    }
}

impl Object for RenderState {}
