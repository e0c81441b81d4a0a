//! Whoever only reads a batch looks at no board.

use patra_core::port::board::{
    About, Advanced, Counts, CursorAsk, Held, HttpStatus, Queued, Step, TopError, Watermark,
};
use patra_core::port::{Boards, Boxed};
use patra_core::tx::{Inventory, TxError};
use patra_core::{CursorId, Level, RunId, Ts, Window};

use super::ReadOnly;

impl Boards for ReadOnly {
    fn queued(&self, _about: About) -> Boxed<'_, Result<(Vec<Queued>, Ts), TxError>> {
        no_boards()
    }

    fn held(&self) -> Boxed<'_, Result<Vec<Held>, TxError>> {
        no_boards()
    }

    fn counts(&self, _about: About, _window: Window) -> Boxed<'_, Result<Vec<(Inventory, Counts)>, TxError>> {
        no_boards()
    }

    fn series(&self, _about: About, _window: Window, _minutes: u32) -> Boxed<'_, Result<Vec<Step>, TxError>> {
        no_boards()
    }

    fn errors(
        &self,
        _about: About,
        _level: Option<Level>,
        _window: Window,
        _limit: u32,
    ) -> Boxed<'_, Result<Vec<TopError>, TxError>> {
        no_boards()
    }

    fn watermarks(&self, _ask: CursorAsk) -> Boxed<'_, Result<Vec<Watermark>, TxError>> {
        no_boards()
    }

    fn advances(&self, _cursor: CursorId, _window: Window, _limit: u32) -> Boxed<'_, Result<Vec<Advanced>, TxError>> {
        no_boards()
    }

    fn statuses(&self, _run: RunId) -> Boxed<'_, Result<Vec<HttpStatus>, TxError>> {
        no_boards()
    }
}

fn no_boards<T: Send + 'static>() -> Boxed<'static, Result<T, TxError>> {
    let refused = TxError::Refused("whoever only reads a batch looks at no board".to_owned());
    Box::pin(std::future::ready(Err(refused)))
}
