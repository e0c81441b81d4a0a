//! Where a page stands in the ledger.

use crate::hash::digest;
use crate::id::RunId;
use crate::paging::Position;
use crate::tx::SelfHealing;

/// The place in the ledger that the page at hand takes.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) batch_no: u32,
    pub(super) position: Position,
    /// As it was asked for.
    pub(super) page_size: u32,
    pub(super) before_token: Option<String>,
    pub(super) retries: u32,
    pub(super) throttles: u32,
    /// What is committed here brings the slice further.
    pub(super) progress: bool,
    pub(super) healing: SelfHealing,
}

pub(super) fn batch_key(run: RunId, batch_no: u32, position: &Position) -> String {
    digest(&["batch", &run.to_string(), &batch_no.to_string(), &format!("{position:?}")])
}
