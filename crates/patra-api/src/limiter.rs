//! Rate limits for expensive routes: a number of requests per minute, counted by this process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use patra_core::{Code, Ts};

use crate::auth::AuthFailures;
use crate::envelope::Failure;

const WINDOW: Duration = Duration::from_secs(60);
/// Most names to remember; then names without a request in the last minute are forgotten.
const MAX_NAMES: usize = 10_000;

#[derive(Clone, Debug)]
pub(crate) struct Limiter {
    limit: usize,
    what: &'static str,
    requests: Arc<Mutex<HashMap<String, VecDeque<Ts>>>>,
}

impl Limiter {
    /// `what` completes the sentence "30 … per minute".
    pub(crate) fn new(limit: usize, what: &'static str) -> Limiter {
        Limiter { limit, what, requests: Arc::default() }
    }

    /// Counts a request, or refuses it if it exceeds the limit.
    pub(crate) fn admit(&self, name: &str, now: Ts) -> Result<(), Failure> {
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.len() >= MAX_NAMES {
            requests.retain(|_, times| times.back().is_some_and(|last| now.since(*last) < WINDOW));
        }
        let times = requests.entry(name.to_owned()).or_default();
        while times.front().is_some_and(|first| now.since(*first) >= WINDOW) {
            times.pop_front();
        }
        match times.front() {
            Some(first) if times.len() >= self.limit => {
                let wait = (*first + WINDOW).since(now).as_secs_f64().ceil() as u64;
                let message = format!("{} {} per minute; try again in {wait} s", self.limit, self.what);
                Err(Failure::new(StatusCode::TOO_MANY_REQUESTS, Code::RateLimited, message)
                    .detail("retry_after_seconds", wait.into()))
            }
            _ => {
                times.push_back(now);
                Ok(())
            }
        }
    }
}

/// The rate limits of the API.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Per project (POOL-25).
    pub(crate) pool_writes: Limiter,
    /// Per key (TWEET-110).
    pub(crate) scrapes: Limiter,
    /// Per client network.
    pub(crate) auth_failures: AuthFailures,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            pool_writes: Limiter::new(30, "writes per project"),
            scrapes: Limiter::new(10, "scrapes per key"),
            auth_failures: AuthFailures::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: POOL-25
    #[test]
    fn request_over_the_limit_waits_until_the_first_is_a_minute_old() {
        let limiter = Limiter::new(2, "writes");
        let at = |secs| limiter.admit("a", Ts::from_secs(secs)).map_err(|failure| failure.message);
        assert_eq!((at(100), at(110)), (Ok(()), Ok(())));
        assert_eq!(at(130), Err("2 writes per minute; try again in 30 s".into()));
        assert_eq!(limiter.admit("b", Ts::from_secs(130)).map_err(|failure| failure.message), Ok(()));
        assert_eq!((at(160), at(161)), (Ok(()), Err("2 writes per minute; try again in 9 s".into())));
    }
}
