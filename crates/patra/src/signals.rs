//! SIGINT and SIGTERM: the first stops gracefully, the second at once.

use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) struct Signals {
    first: Arc<OnceLock<&'static str>>,
    pub(crate) stop: CancellationToken,
    pub(crate) hurry: CancellationToken,
}

impl Signals {
    pub(crate) fn listen() -> Result<Signals, Error> {
        let signals =
            Signals { first: Arc::default(), stop: CancellationToken::new(), hurry: CancellationToken::new() };
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let shared = signals.clone();
        tokio::spawn(async move {
            for token in [&shared.stop, &shared.hurry] {
                let name = tokio::select! {
                    _ = interrupt.recv() => "SIGINT",
                    _ = terminate.recv() => "SIGTERM",
                };
                let _ = shared.first.set(name);
                token.cancel();
            }
        });
        Ok(signals)
    }

    /// Waits for the first signal and returns its name.
    pub(crate) async fn stopped(&self) -> &'static str {
        self.stop.cancelled().await;
        self.first.get().copied().unwrap_or("a signal")
    }
}
