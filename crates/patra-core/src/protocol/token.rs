//! Gets a valid token: use the stored one while it lasts, fetch the next one before it expires, one fetcher at a time
//! per credential over all processes (G-12).
//!
//! ```text
//!   Permit ─► Leasing ─► Requesting ─► Storing ─► Over
//!     ▲         │ newer: use it          │ fenced: lease again, then store what we have, unless a newer one is there
//!     │         │ busy: the old one while it lasts, else wait
//!     └─────────┴──── a transient failure: end the lease, wait, again
//! ```
//!
//! The permit comes before the lease, so that no lease is held while waiting for the gate. A request leaves only
//! while the lease outlasts its timeout; so no two are in flight at once. An upstream that rotates refresh tokens has
//! issued the next one when it responds: from then on storing the token is retried until it is certain, whatever the
//! store returns in between. Only a crash of the process between the response and the store loses it; it cannot be
//! recovered then, and the credential must be renewed.

use std::time::Duration;

use crate::credential::CredentialRuntime;
use crate::error::{Code, Fault, Level};
use crate::gate::GateDecision;
use crate::id::{CredentialId, Fence};
use crate::retry;
use crate::rng::Rng;
use crate::state::TokenStatus;
use crate::time::Ts;
use crate::tx::{Done, FailRefresh, LeaseRefresh, RefreshLeased, StoreToken, Tx, TxError};

#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this machine; no other may ever use it.
    pub owner: String,
    pub lease: Duration,
    /// Timeout of the request for a token; much shorter than the lease.
    pub request_timeout: Duration,
    /// How long before its expiry a token is replaced.
    pub refresh_ahead: Duration,
    /// How often to check whether another process has fetched the token.
    pub busy_poll: Duration,
    /// Maximum wait of a caller for a token. A received token is stored however long it takes.
    pub patience: Duration,
    /// Maximum requests for a token per call.
    pub max_attempts: u32,
    /// How long a rejected credential is not tried again.
    pub rejected_pause: Duration,
}

/// Lease on the refresh of a token.
pub const REFRESH_LEASE: Duration = Duration::from_secs(60);

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            lease: REFRESH_LEASE,
            request_timeout: Duration::from_secs(20),
            refresh_ahead: Duration::from_secs(60),
            busy_poll: Duration::from_millis(500),
            patience: Duration::from_secs(120),
            max_attempts: 3,
            rejected_pause: Duration::from_secs(60),
        }
    }
}

/// The time: `steady` for timers, `wall` for the expiry of tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenTime {
    pub steady: Ts,
    pub wall: Ts,
}

/// The token that the caller needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenNeed {
    /// A token that is not about to expire.
    Good,
    /// The upstream has refused the token of this version: another one.
    Other { than: i64 },
}

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// Request a permit for a request.
    Permit,
    /// Request a token from the upstream, with the newest refresh token of this state if it has one. It must end by
    /// `until`, on the steady clock: if it is too late to start it, the input is [`TokenInput::Late`].
    Request {
        state: CredentialRuntime,
        until: Ts,
    },
    /// The state whose token to use, or why there is none.
    Done(Result<CredentialRuntime, TokenRefused>),
}

#[derive(Clone, Debug)]
pub enum TokenInput {
    Tx(Result<Done, TxError>),
    Permit(GateDecision),
    Response(Result<NewToken, TokenRefused>),
    /// The request was not sent: the lease would not outlast it.
    Late,
}

/// A received token, sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewToken {
    pub sealed: String,
    pub key_id: String,
    pub expires_at: Option<Ts>,
}

/// No token. `fault` contains nothing of the request and nothing secret of the response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TokenRefused {
    pub fault: Fault,
    pub retry_after: Option<Duration>,
}

impl From<Fault> for TokenRefused {
    fn from(fault: Fault) -> TokenRefused {
        TokenRefused { fault, retry_after: None }
    }
}

/// One request for a token, from start to end.
#[derive(Clone, Debug)]
pub struct TokenMachine {
    options: Options,
    credential: CredentialId,
    need: TokenNeed,
    state: CredentialRuntime,
    rng: Rng,
    began: Ts,
    stage: TokenStage,
    fence: Fence,
    /// A token that is not stored yet.
    unsaved: Option<NewToken>,
    requests: u32,
    /// Consecutive failed transactions.
    failed: u32,
}

#[derive(Clone, Debug)]
enum TokenStage {
    Permit,
    Leasing {
        sent: Ts,
    },
    Requesting,
    Storing,
    Failing {
        refused: TokenRefused,
    },
    /// Waits until then, and continues with this step.
    Waiting {
        until: Ts,
        then: TokenStep,
    },
    Over,
}

#[derive(Clone, Debug)]
enum TokenStep {
    Permit,
    Lease,
    Store,
    Fail { refused: TokenRefused },
}

impl TokenMachine {
    pub fn new(
        options: Options,
        credential: CredentialId,
        need: TokenNeed,
        state: CredentialRuntime,
        rng: Rng,
        now: TokenTime,
    ) -> TokenMachine {
        TokenMachine {
            options,
            credential,
            need,
            state,
            rng,
            began: now.steady,
            stage: TokenStage::Permit,
            fence: Fence(0),
            unsaved: None,
            requests: 0,
            failed: 0,
        }
    }

    pub fn start(&mut self, now: TokenTime, wants: &mut Vec<Want>) {
        if self.serves(now, self.options.refresh_ahead) {
            return self.done(wants);
        }
        // A dead credential is tried once in a while, not by every task (MAP-X-07).
        let rested = |at: Ts| now.wall.since(at) >= self.options.rejected_pause;
        if self.state.status == TokenStatus::Rejected && !self.state.updated_at.is_none_or(rested) {
            let reason = self.state.last_error.as_deref().unwrap_or("the upstream gave no reason");
            let message = format!("the credential was rejected a moment ago: {reason}");
            return self.give_up(Fault::new(Code::UpstreamAuthFailed, Level::L4, message).into(), wants);
        }
        self.go(now, TokenStep::Permit, wants);
    }

    pub fn on(&mut self, now: TokenTime, got: TokenInput, wants: &mut Vec<Want>) {
        match (std::mem::replace(&mut self.stage, TokenStage::Over), got) {
            (TokenStage::Permit, TokenInput::Permit(decision)) => self.on_permit(now, decision, wants),
            (TokenStage::Leasing { sent }, TokenInput::Tx(Ok(Done::LeaseRefresh(result)))) => {
                self.failed = 0;
                self.on_leased(now, sent, result, wants);
            }
            (TokenStage::Leasing { .. }, TokenInput::Tx(Err(error))) => self.on_unleased(now, &error, wants),
            (TokenStage::Requesting, TokenInput::Late) => self.go(now, TokenStep::Lease, wants),
            (TokenStage::Requesting, TokenInput::Response(Ok(fresh))) => {
                self.unsaved = Some(fresh);
                self.go(now, TokenStep::Store, wants);
            }
            (TokenStage::Requesting, TokenInput::Response(Err(refused))) => {
                self.requests += 1;
                self.go(now, TokenStep::Fail { refused }, wants);
            }
            (TokenStage::Storing, TokenInput::Tx(result)) => self.on_stored(now, result, wants),
            (TokenStage::Failing { refused }, TokenInput::Tx(result)) => self.on_failed(now, refused, &result, wants),
            // An unexpected input: a bug in the shell, and no reason to lose a token.
            (stage, _) => self.stage = stage,
        }
    }

    /// Continues when a wait is over.
    pub fn poll(&mut self, now: TokenTime, wants: &mut Vec<Want>) {
        if now.steady < self.wake_at() {
            return;
        }
        if let TokenStage::Waiting { then, .. } = std::mem::replace(&mut self.stage, TokenStage::Over) {
            self.go(now, then, wants);
        }
    }

    pub fn wake_at(&self) -> Ts {
        if let TokenStage::Waiting { until, .. } = self.stage { until } else { Ts::MAX }
    }

    fn go(&mut self, now: TokenTime, step: TokenStep, wants: &mut Vec<Want>) {
        let (credential, owner, fence) = (self.credential, self.options.owner.clone(), self.fence);
        match step {
            TokenStep::Permit => {
                self.stage = TokenStage::Permit;
                wants.push(Want::Permit);
            }
            TokenStep::Lease => {
                self.stage = TokenStage::Leasing { sent: now.steady };
                let (lease, seen_version) = (self.options.lease, self.seen_version());
                wants.push(Want::Tx(LeaseRefresh { credential, owner, lease, seen_version }.into()));
            }
            TokenStep::Store => {
                let Some(NewToken { sealed, key_id, expires_at }) = self.unsaved.clone() else { return };
                self.stage = TokenStage::Storing;
                wants.push(Want::Tx(StoreToken { credential, owner, fence, sealed, key_id, expires_at }.into()));
            }
            TokenStep::Fail { refused } => {
                let (error, rejected) = (refused.fault.message.clone(), refused.fault.level == Level::L4);
                self.stage = TokenStage::Failing { refused };
                wants.push(Want::Tx(FailRefresh { credential, owner, fence, error, rejected }.into()));
            }
        }
    }

    fn on_permit(&mut self, now: TokenTime, decision: GateDecision, wants: &mut Vec<Want>) {
        match decision {
            GateDecision::Allow => self.go(now, TokenStep::Lease, wants),
            GateDecision::WaitUntil(until) if until <= self.began + self.options.patience => {
                self.stage = TokenStage::Waiting { until, then: TokenStep::Permit };
            }
            GateDecision::WaitUntil(until) => {
                let fault = Fault::transient(Code::RateLimited, "the rate leaves no room for the request for a token");
                self.give_up(TokenRefused { fault, retry_after: Some(until.since(now.steady)) }, wants);
            }
        }
    }

    fn on_leased(&mut self, now: TokenTime, sent: Ts, result: RefreshLeased, wants: &mut Vec<Want>) {
        match result {
            RefreshLeased::Go { fence, state, .. } => {
                (self.fence, self.state) = (fence, state);
                if self.unsaved.is_some() {
                    self.go(now, TokenStep::Store, wants);
                } else if now.steady + self.options.request_timeout > sent + self.options.lease {
                    // The lease might expire during the request: extend it first.
                    self.go(now, TokenStep::Lease, wants);
                } else {
                    self.stage = TokenStage::Requesting;
                    wants.push(Want::Request { state: self.state.clone(), until: sent + self.options.lease });
                }
            }
            RefreshLeased::Newer { state, .. } => {
                // Our token was fetched with an older refresh token than the stored one.
                self.unsaved = None;
                self.state = state;
                if self.serves(now, Duration::ZERO) {
                    self.done(wants);
                } else {
                    self.go(now, TokenStep::Permit, wants);
                }
            }
            RefreshLeased::Busy { until, now: there } => {
                if self.unsaved.is_none() && self.serves(now, Duration::ZERO) {
                    return self.done(wants);
                }
                if self.is_out_of_time(now) {
                    let message = "another process is getting the token, and did not come back with it in time";
                    return self.give_up(Fault::transient(Code::TimeoutError, message).into(), wants);
                }
                let wait = until.since(there).min(self.rng.around(self.options.busy_poll));
                let until = now.steady + wait.max(Duration::from_millis(1));
                self.stage = TokenStage::Waiting { until, then: TokenStep::Lease };
            }
            RefreshLeased::Gone => {
                let fault = Fault::new(Code::UpstreamAuthFailed, Level::L4, "the credential was revoked");
                self.give_up(fault.into(), wants);
            }
        }
    }

    fn on_unleased(&mut self, now: TokenTime, error: &TxError, wants: &mut Vec<Want>) {
        if error.is_transient() && !self.is_out_of_time(now) {
            return self.again(now, TokenStep::Lease);
        }
        let level = if error.is_transient() { Level::L1 } else { Level::L2 };
        self.give_up(Fault::new(Code::InternalError, level, error.to_string()).into(), wants);
    }

    fn on_stored(&mut self, now: TokenTime, result: Result<Done, TxError>, wants: &mut Vec<Want>) {
        match result {
            Ok(Done::StoreToken(stored)) => {
                let Some(NewToken { sealed, expires_at, .. }) = self.unsaved.take() else { return };
                self.state = CredentialRuntime {
                    version: stored.version,
                    sealed: Some(sealed),
                    expires_at,
                    updated_at: Some(now.wall),
                    ..CredentialRuntime::default()
                };
                self.done(wants);
            }
            // Another process has had the lease since. Either it stored a newer token, or ours goes in under a new
            // lease.
            Err(TxError::Fenced | TxError::Conflict) => self.go(now, TokenStep::Lease, wants),
            Err(error) if error.is_transient() => self.again(now, TokenStep::Store),
            other => {
                let reason = other.err().map_or_else(|| "an unexpected result".to_owned(), |error| error.to_string());
                let message = format!("the new token cannot be stored: {reason}");
                self.give_up(Fault::new(Code::InternalError, Level::L4, message).into(), wants);
            }
        }
    }

    fn on_failed(
        &mut self,
        now: TokenTime,
        refused: TokenRefused,
        result: &Result<Done, TxError>,
        wants: &mut Vec<Want>,
    ) {
        let lost = matches!(result, Err(error) if error.is_transient());
        if lost && !self.is_out_of_time(now) {
            return self.again(now, TokenStep::Fail { refused });
        }
        self.failed = 0;
        let wait = refused.retry_after.unwrap_or_else(|| self.backoff(self.requests));
        let in_time = now.steady + wait <= self.began + self.options.patience;
        if refused.fault.level == Level::L1 && self.requests < self.options.max_attempts && in_time {
            self.stage = TokenStage::Waiting { until: now.steady + wait, then: TokenStep::Permit };
        } else {
            self.give_up(refused, wants);
        }
    }

    /// Whether the state's token is what the caller needs, `ahead` of its expiry.
    fn serves(&self, now: TokenTime, ahead: Duration) -> bool {
        let other = match self.need {
            TokenNeed::Good => true,
            TokenNeed::Other { than } => self.state.version > than,
        };
        let in_time = self.state.expires_at.is_none_or(|end| {
            // Otherwise a short-lived token would be replaced at every use.
            let life = self.state.updated_at.map_or(Duration::MAX, |from| end.since(from));
            now.wall + ahead.min(life / 2) < end
        });
        other && self.state.sealed.is_some() && in_time
    }

    /// The version whose token is no longer good.
    fn seen_version(&self) -> i64 {
        match self.need {
            TokenNeed::Other { than } if self.state.version < than => than,
            _ => self.state.version,
        }
    }

    /// A received token is never given up.
    fn is_out_of_time(&self, now: TokenTime) -> bool {
        self.unsaved.is_none() && now.steady >= self.began + self.options.patience
    }

    fn again(&mut self, now: TokenTime, then: TokenStep) {
        self.failed += 1;
        let until = now.steady + self.backoff(self.failed);
        self.stage = TokenStage::Waiting { until, then };
    }

    fn backoff(&mut self, attempt: u32) -> Duration {
        let policy = retry::RetryPolicy { max_delay_ms: 5_000, ..retry::RetryPolicy::default() };
        policy.delay(attempt, &mut self.rng)
    }

    fn done(&mut self, wants: &mut Vec<Want>) {
        self.stage = TokenStage::Over;
        wants.push(Want::Done(Ok(self.state.clone())));
    }

    fn give_up(&mut self, refused: TokenRefused, wants: &mut Vec<Want>) {
        self.stage = TokenStage::Over;
        wants.push(Want::Done(Err(refused)));
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
