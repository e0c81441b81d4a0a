//! SIGINT and SIGTERM: the first asks to finish, the second to end at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) struct Signals {
    pub(crate) stop: CancellationToken,
    pub(crate) hurry: CancellationToken,
}

impl Signals {
    pub(crate) fn listen() -> Result<Signals, Error> {
        let signals = Signals { stop: CancellationToken::new(), hurry: CancellationToken::new() };
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let told = signals.clone();
        tokio::spawn(async move {
            for token in [&told.stop, &told.hurry] {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                token.cancel();
            }
        });
        Ok(signals)
    }
}
