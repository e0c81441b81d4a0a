//! What a flaky store says to boards: what the one behind it says.

use patra_core::port::board::{
    About, Advanced, Counts, CursorAsk, Held, HttpStatus, Queued, Step, TopError, Watermark,
};
use patra_core::port::{Boards, Boxed};
use patra_core::tx::{Inventory, TxError};
use patra_core::{CursorId, Level, RunId, Ts, Window};

use super::Flaky;

impl Boards for Flaky {
    fn queued(&self, about: About) -> Boxed<'_, Result<(Vec<Queued>, Ts), TxError>> {
        self.store.queued(about)
    }
    fn held(&self) -> Boxed<'_, Result<Vec<Held>, TxError>> {
        self.store.held()
    }
    fn counts(&self, about: About, window: Window) -> Boxed<'_, Result<Vec<(Inventory, Counts)>, TxError>> {
        self.store.counts(about, window)
    }
    fn series(&self, about: About, window: Window, minutes: u32) -> Boxed<'_, Result<Vec<Step>, TxError>> {
        self.store.series(about, window, minutes)
    }
    fn errors(
        &self,
        about: About,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> Boxed<'_, Result<Vec<TopError>, TxError>> {
        self.store.errors(about, level, window, limit)
    }
    fn watermarks(&self, ask: CursorAsk) -> Boxed<'_, Result<Vec<Watermark>, TxError>> {
        self.store.watermarks(ask)
    }
    fn advances(&self, cursor: CursorId, window: Window, limit: u32) -> Boxed<'_, Result<Vec<Advanced>, TxError>> {
        self.store.advances(cursor, window, limit)
    }
    fn statuses(&self, run: RunId) -> Boxed<'_, Result<Vec<HttpStatus>, TxError>> {
        self.store.statuses(run)
    }
}
