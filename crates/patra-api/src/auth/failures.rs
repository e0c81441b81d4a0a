//! Failed authentication: logged, counted, and slowed per client network. Valid keys are never delayed, because many
//! clients can share the address of a proxy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::{Extensions, StatusCode};
use tokio::time::Instant;

use patra_core::Code;
use patra_engine::metrics::Metrics;

use crate::connection::Peer;
use crate::envelope::Failure;

/// Failures of one network that are answered at once; then one per `INTERVAL`.
const BURST: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(500);
/// Longest delay of a refusal. Further failures are refused with 429 at once.
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Most networks to remember; then those without a recent failure are forgotten.
const MAX_NETWORKS: usize = 10_000;

/// Failed attempts of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct AuthFailures(Arc<Mutex<HashMap<IpAddr, Instant>>>);

impl AuthFailures {
    /// Records a failed attempt, delays it, and returns the refusal to send.
    pub(crate) async fn refuse(
        &self,
        metrics: &Metrics,
        extensions: &Extensions,
        (kind, path): (&'static str, &str),
        failure: Failure,
    ) -> Failure {
        metrics.auth_failed(kind);
        let peer = extensions.get::<Peer>().cloned();
        let Some(peer) = peer else {
            tracing::info!(kind, path, reason = failure.message, "authentication failed");
            return failure;
        };
        match self.delay(peer.network(), Instant::now()) {
            Ok(delay) => {
                tracing::info!(client.network = %peer.network(), kind, path, reason = failure.message, "authentication failed");
                if !delay.is_zero() {
                    peer.set_parked(true);
                    tokio::time::sleep(delay).await;
                    peer.set_parked(false);
                }
                failure
            }
            Err(wait) => {
                let seconds = wait.as_secs_f64().ceil() as u64;
                let message = format!("too many requests without a valid key; try again in {seconds} s");
                Failure::new(StatusCode::TOO_MANY_REQUESTS, Code::RateLimited, message)
                    .hint("send `Authorization: Bearer <key>` with a valid key")
                    .detail("retry_after_seconds", seconds.into())
            }
        }
    }

    /// The delay of one more failure, or the time after which the next one is accepted.
    fn delay(&self, network: IpAddr, now: Instant) -> Result<Duration, Duration> {
        let mut networks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if networks.len() >= MAX_NETWORKS {
            networks.retain(|_, next| *next > now);
        }
        if networks.len() >= MAX_NETWORKS && !networks.contains_key(&network) {
            return Err(INTERVAL);
        }
        let next = networks.entry(network).or_insert(now);
        let after = (*next).max(now) + INTERVAL;
        let delay = after.saturating_duration_since(now + INTERVAL * BURST);
        if delay > MAX_DELAY {
            return Err(delay - MAX_DELAY);
        }
        *next = after;
        Ok(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_slowed_per_network_then_refused() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        let (here, there) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        for _ in 0..BURST {
            assert_eq!(failures.delay(here, now), Ok(Duration::ZERO));
        }
        let delays: Vec<_> = (0..10).map(|_| failures.delay(here, now)).collect();
        assert_eq!((delays[0], delays[9]), (Ok(INTERVAL), Ok(MAX_DELAY)));
        assert_eq!(failures.delay(here, now), Err(INTERVAL), "no more than ten wait at a time");
        assert_eq!(failures.delay(there, now), Ok(Duration::ZERO), "another network is not slowed");
        let later = now + Duration::from_secs(60);
        assert_eq!(failures.delay(here, later), Ok(Duration::ZERO));
    }

    #[test]
    fn remembered_networks_are_bounded() {
        let (failures, now) = (AuthFailures::default(), Instant::now());
        for number in 0..(MAX_NETWORKS as u32 + 10) {
            let _ = failures.delay(IpAddr::from(number.to_be_bytes()), now);
        }
        assert_eq!(failures.0.lock().unwrap().len(), MAX_NETWORKS);
        assert_eq!(failures.delay(IpAddr::from([9, 9, 9, 9]), now + Duration::from_secs(60)), Ok(Duration::ZERO));
    }
}
