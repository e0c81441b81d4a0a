//! Connect timeout and read timeout per request. reqwest has a connect timeout only per client; this layer around its
//! connector takes it from the request that is being sent.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};
use tower::{BoxError, Service};

use patra_core::port::transport::{Error, TransferLimits};

tokio::task_local! {
    // hyper first polls a connect inside the future of the request that needs it, so the layer finds the limits of that
    // request here. They apply to the connect even if it is finished in the background for a later request.
    static ATTEMPT: Arc<SendAttempt>;
}

/// There was no connection within the connect timeout.
#[derive(Debug, thiserror::Error)]
#[error("no connection in time")]
pub(crate) struct ConnectTimedOut;

/// Runs `sending` with the connect timeout while connecting and the read timeout afterwards.
pub(crate) async fn bounded<T>(limits: &TransferLimits, sending: impl Future<Output = T>) -> Result<T, Error> {
    let attempt =
        Arc::new(SendAttempt { connect: limits.connect_timeout, quiet_since: Mutex::new(Some(Instant::now())) });
    let sending = ATTEMPT.scope(Arc::clone(&attempt), sending);
    let silence = sleep_until(attempt.silent_until(limits.read_timeout));
    tokio::pin!(sending, silence);
    loop {
        tokio::select! {
            biased;
            done = &mut sending => return Ok(done),
            () = &mut silence => {
                let until = attempt.silent_until(limits.read_timeout);
                if until <= Instant::now() {
                    return Err(Error::Timeout { after: limits.read_timeout });
                }
                silence.as_mut().reset(until);
            }
        }
    }
}

/// `since + wait`, capped at a year because `Duration::MAX` would overflow.
pub(crate) fn later(since: Instant, wait: Duration) -> Instant {
    since + wait.min(Duration::from_secs(365 * 24 * 60 * 60))
}

#[derive(Debug)]
struct SendAttempt {
    connect: Duration,
    /// Start of the current silence; `None` while connecting, which has its own timeout.
    quiet_since: Mutex<Option<Instant>>,
}

impl SendAttempt {
    fn silent_until(&self, read: Duration) -> Instant {
        let quiet_since = *self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner);
        later(quiet_since.unwrap_or_else(Instant::now), read)
    }

    fn set_quiet_since(&self, since: Option<Instant>) {
        *self.quiet_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }
}

/// Wraps the connector with the connect timeout of the request.
#[derive(Clone, Debug)]
pub(crate) struct ConnectTimeout<S>(pub(crate) S);

impl<S, R> Service<R> for ConnectTimeout<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, destination: R) -> Self::Future {
        let connecting = self.0.call(destination);
        let attempt = ATTEMPT.try_with(Arc::clone);
        Box::pin(async move {
            let Ok(attempt) = attempt else { return connecting.await };
            attempt.set_quiet_since(None);
            let connected = timeout(attempt.connect, connecting).await;
            attempt.set_quiet_since(Some(Instant::now()));
            connected.unwrap_or_else(|_elapsed| Err(ConnectTimedOut.into()))
        })
    }
}
