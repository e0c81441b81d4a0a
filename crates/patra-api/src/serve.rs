//! Listening, and stopping in bounded time.

use std::io;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Api;

/// How long open connections may take after the stop: an idle keep-alive connection would hold it for ever.
const DRAIN: Duration = Duration::from_secs(5);

/// Serves until `stop` fires.
pub async fn serve(listener: TcpListener, api: Api, stop: CancellationToken) -> io::Result<()> {
    let asked = stop.clone();
    let server =
        axum::serve(listener, crate::router(api)).with_graceful_shutdown(async move { asked.cancelled().await });
    let give_up = async {
        stop.cancelled().await;
        tokio::time::sleep(DRAIN).await;
    };
    tokio::select! {
        result = async { server.await } => result,
        () = give_up => Ok(()),
    }
}
