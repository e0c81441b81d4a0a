//! Board queries of the read-only store: not supported.

use patra_core::port::board::{
    ActivePause, CursorFilter, CursorStep, HttpStatusCount, QueueDepth, SeriesStep, TopError, Watermark, WorkCounts,
    WorkFilter,
};
use patra_core::port::{BoardQueries, BoxFuture};
use patra_core::tx::{PartitionKey, TxError};
use patra_core::{CursorId, Level, RunId, Ts, Window};

use super::ReadOnlyStore;

impl BoardQueries for ReadOnlyStore {
    fn queued(&self, _about: WorkFilter) -> BoxFuture<'_, Result<(Vec<QueueDepth>, Ts), TxError>> {
        no_boards()
    }

    fn active_pauses(&self) -> BoxFuture<'_, Result<Vec<ActivePause>, TxError>> {
        no_boards()
    }

    fn counts(
        &self,
        _about: WorkFilter,
        _window: Window,
    ) -> BoxFuture<'_, Result<Vec<(PartitionKey, WorkCounts)>, TxError>> {
        no_boards()
    }

    fn series(
        &self,
        _about: WorkFilter,
        _window: Window,
        _minutes: u32,
    ) -> BoxFuture<'_, Result<Vec<SeriesStep>, TxError>> {
        no_boards()
    }

    fn errors(
        &self,
        _about: WorkFilter,
        _level: Option<Level>,
        _window: Window,
        _limit: u32,
    ) -> BoxFuture<'_, Result<Vec<TopError>, TxError>> {
        no_boards()
    }

    fn watermarks(&self, _ask: CursorFilter) -> BoxFuture<'_, Result<Vec<Watermark>, TxError>> {
        no_boards()
    }

    fn advances(
        &self,
        _cursor: CursorId,
        _window: Window,
        _limit: u32,
    ) -> BoxFuture<'_, Result<Vec<CursorStep>, TxError>> {
        no_boards()
    }

    fn statuses(&self, _run: RunId) -> BoxFuture<'_, Result<Vec<HttpStatusCount>, TxError>> {
        no_boards()
    }
}

fn no_boards<T: Send + 'static>() -> BoxFuture<'static, Result<T, TxError>> {
    let refused = TxError::Refused("a replay cannot read boards".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}
