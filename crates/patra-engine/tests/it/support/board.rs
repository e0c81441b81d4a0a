//! Board queries of a flaky store, delegated to the store behind it.

use patra_core::port::board::{
    ActivePause, CursorFilter, CursorStep, HttpStatusCount, QueueDepth, SeriesStep, TopError, Watermark, WorkCounts,
    WorkFilter,
};
use patra_core::port::{BoardQueries, BoxFuture};
use patra_core::tx::{PartitionKey, TxError};
use patra_core::{CursorId, Level, RunId, Ts, Window};

use super::Flaky;

impl BoardQueries for Flaky {
    fn queued(&self, about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        self.store.queued(about)
    }
    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        self.store.active_pauses()
    }
    fn counts(
        &self,
        about: WorkFilter,
        window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        self.store.counts(about, window)
    }
    fn series(
        &self,
        about: WorkFilter,
        window: Window,
        minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        self.store.series(about, window, minutes)
    }
    fn errors(
        &self,
        about: WorkFilter,
        level: Option<Level>,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        self.store.errors(about, level, window, limit)
    }
    fn watermarks(&self, ask: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        self.store.watermarks(ask)
    }
    fn advances(
        &self,
        cursor: CursorId,
        window: Window,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        self.store.advances(cursor, window, limit)
    }
    fn statuses(&self, run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        self.store.statuses(run)
    }
}
