//! Getting a token that is good: use the stored one while it lasts, fetch the next one ahead of its end, one fetcher at a
//! time per credential over all processes (G-12).
//!
//! ```text
//! Permit ─► Leasing ─► Requesting ─► Storing ─► Over
//!    ▲         │ newer: use it          │ fenced: lease again, then store what we have, unless a newer one is there
//!    │         │ busy: the old one while it lasts, else wait
//!    └─────────┴──── a failure that may pass: end the lease, wait, again
//! ```
//!
//! The permit comes before the lease, so that nobody holds a lease while waiting for the gate. A request leaves only while
//! the lease outlasts its timeout; so no two are under way at once. A far side that rotates refresh tokens has given out the next one when it answers: from
//! there on the token is stored until that is certain, whatever the store says in between. Only a crash of the process
//! between the answer and the store loses it; nothing can bring it back then, and the credential must be renewed.

use std::time::Duration;

use crate::credential::State;
use crate::error::{Code, Fault, Level};
use crate::gate::Decision;
use crate::id::{CredentialId, Fence};
use crate::retry;
use crate::rng::Rng;
use crate::state::TokenStatus;
use crate::time::Ts;
use crate::tx::{Done, FailRefresh, LeaseRefresh, RefreshLeased, StoreToken, Tx, TxError};

#[derive(Clone, Debug)]
pub struct Options {
    /// Names this machine; no other may ever use the name.
    pub owner: String,
    pub lease: Duration,
    /// The deadline of the request for a token; much shorter than the lease.
    pub request_timeout: Duration,
    /// How long before its end a token is replaced.
    pub refresh_ahead: Duration,
    /// How often to look whether another process has got the token.
    pub busy_poll: Duration,
    /// How long a caller waits for a token at most. A token that came is stored however long it takes.
    pub patience: Duration,
    /// Requests for a token in one go.
    pub max_attempts: u32,
    /// How long a rejected credential is not tried again.
    pub rejected_pause: Duration,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            lease: Duration::from_secs(60),
            request_timeout: Duration::from_secs(20),
            refresh_ahead: Duration::from_secs(60),
            busy_poll: Duration::from_millis(500),
            patience: Duration::from_secs(120),
            max_attempts: 3,
            rejected_pause: Duration::from_secs(60),
        }
    }
}

/// The time: `steady` for timers, `wall` for the end of tokens.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub steady: Ts,
    pub wall: Ts,
}

/// What the caller needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// A token that is not about to end.
    Good,
    /// The far side has refused the token of this version: another one.
    Other { than: i64 },
}

#[derive(Clone, Debug)]
pub enum Want {
    Tx(Tx),
    /// May a request leave?
    Permit,
    /// Ask the far side for a token, with the newest refresh token of this state if it has one. It must be over by
    /// `until`, on the steady clock: whoever comes too late to start it says [`Got::Late`].
    Request {
        state: State,
        until: Ts,
    },
    /// The state whose token is to be used, or why there is none.
    Done(Result<State, Refused>),
}

#[derive(Clone, Debug)]
pub enum Got {
    Tx(Result<Done, TxError>),
    Permit(Decision),
    Answer(Result<Fresh, Refused>),
    /// The request was not sent: the lease would not outlast it.
    Late,
}

/// A token as it came, sealed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fresh {
    pub sealed: String,
    pub key_id: String,
    pub expires_at: Option<Ts>,
}

/// No token. `fault` holds nothing of what was sent and nothing secret of what came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    pub fault: Fault,
    pub retry_after: Option<Duration>,
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Refused {
        Refused { fault, retry_after: None }
    }
}

/// One wish for a token, from the question to the answer.
#[derive(Clone, Debug)]
pub struct Machine {
    options: Options,
    credential: CredentialId,
    need: Need,
    state: State,
    rng: Rng,
    began: Ts,
    stage: Stage,
    fence: Fence,
    /// A token that is not stored yet.
    unsaved: Option<Fresh>,
    requests: u32,
    /// Transactions that failed in a row.
    failed: u32,
}

#[derive(Clone, Debug)]
enum Stage {
    Permit,
    Leasing {
        sent: Ts,
    },
    Requesting,
    Storing,
    Failing {
        refused: Refused,
    },
    /// Until then, and what comes after.
    Waiting {
        until: Ts,
        then: Step,
    },
    Over,
}

#[derive(Clone, Debug)]
enum Step {
    Permit,
    Lease,
    Store,
    Fail { refused: Refused },
}

impl Machine {
    pub fn new(options: Options, credential: CredentialId, need: Need, state: State, rng: Rng, now: Now) -> Machine {
        Machine {
            options,
            credential,
            need,
            state,
            rng,
            began: now.steady,
            stage: Stage::Permit,
            fence: Fence(0),
            unsaved: None,
            requests: 0,
            failed: 0,
        }
    }

    pub fn start(&mut self, now: Now, wants: &mut Vec<Want>) {
        if self.serves(now, self.options.refresh_ahead) {
            return self.done(wants);
        }
        // A dead credential is asked about once in a while, not by every task (MAP-X-07).
        let rested = |at: Ts| now.wall.since(at) >= self.options.rejected_pause;
        if self.state.status == TokenStatus::Rejected && !self.state.updated_at.is_none_or(rested) {
            let reason = self.state.last_error.as_deref().unwrap_or("the far side gave no reason");
            let message = format!("the credential was rejected a moment ago: {reason}");
            return self.give_up(Fault::new(Code::UpstreamAuthFailed, Level::L4, message).into(), wants);
        }
        self.go(now, Step::Permit, wants);
    }

    pub fn on(&mut self, now: Now, got: Got, wants: &mut Vec<Want>) {
        match (std::mem::replace(&mut self.stage, Stage::Over), got) {
            (Stage::Permit, Got::Permit(decision)) => self.on_permit(now, decision, wants),
            (Stage::Leasing { sent }, Got::Tx(Ok(Done::LeaseRefresh(answer)))) => {
                self.failed = 0;
                self.on_leased(now, sent, answer, wants);
            }
            (Stage::Leasing { .. }, Got::Tx(Err(error))) => self.on_unleased(now, &error, wants),
            (Stage::Requesting, Got::Late) => self.go(now, Step::Lease, wants),
            (Stage::Requesting, Got::Answer(Ok(fresh))) => {
                self.unsaved = Some(fresh);
                self.go(now, Step::Store, wants);
            }
            (Stage::Requesting, Got::Answer(Err(refused))) => {
                self.requests += 1;
                self.go(now, Step::Fail { refused }, wants);
            }
            (Stage::Storing, Got::Tx(answer)) => self.on_stored(now, answer, wants),
            (Stage::Failing { refused }, Got::Tx(answer)) => self.on_failed(now, refused, &answer, wants),
            // An answer that nobody asked for: a bug in the shell, and no reason to lose a token.
            (stage, _) => self.stage = stage,
        }
    }

    /// Goes on when a wait is over.
    pub fn poll(&mut self, now: Now, wants: &mut Vec<Want>) {
        if now.steady < self.wake_at() {
            return;
        }
        if let Stage::Waiting { then, .. } = std::mem::replace(&mut self.stage, Stage::Over) {
            self.go(now, then, wants);
        }
    }

    pub fn wake_at(&self) -> Ts {
        if let Stage::Waiting { until, .. } = self.stage { until } else { Ts::MAX }
    }

    fn go(&mut self, now: Now, step: Step, wants: &mut Vec<Want>) {
        let (credential, owner, fence) = (self.credential, self.options.owner.clone(), self.fence);
        match step {
            Step::Permit => {
                self.stage = Stage::Permit;
                wants.push(Want::Permit);
            }
            Step::Lease => {
                self.stage = Stage::Leasing { sent: now.steady };
                let (lease, seen) = (self.options.lease, self.seen());
                wants.push(Want::Tx(LeaseRefresh { credential, owner, lease, seen }.into()));
            }
            Step::Store => {
                let Some(Fresh { sealed, key_id, expires_at }) = self.unsaved.clone() else { return };
                self.stage = Stage::Storing;
                wants.push(Want::Tx(StoreToken { credential, owner, fence, sealed, key_id, expires_at }.into()));
            }
            Step::Fail { refused } => {
                let (error, rejected) = (refused.fault.message.clone(), refused.fault.level == Level::L4);
                self.stage = Stage::Failing { refused };
                wants.push(Want::Tx(FailRefresh { credential, owner, fence, error, rejected }.into()));
            }
        }
    }

    fn on_permit(&mut self, now: Now, decision: Decision, wants: &mut Vec<Want>) {
        match decision {
            Decision::Allow => self.go(now, Step::Lease, wants),
            Decision::WaitUntil(until) if until <= self.began + self.options.patience => {
                self.stage = Stage::Waiting { until, then: Step::Permit };
            }
            Decision::WaitUntil(until) => {
                let fault = Fault::transient(Code::RateLimited, "the rate leaves no room for the request for a token");
                self.give_up(Refused { fault, retry_after: Some(until.since(now.steady)) }, wants);
            }
        }
    }

    fn on_leased(&mut self, now: Now, sent: Ts, answer: RefreshLeased, wants: &mut Vec<Want>) {
        match answer {
            RefreshLeased::Go { fence, state, .. } => {
                (self.fence, self.state) = (fence, state);
                if self.unsaved.is_some() {
                    self.go(now, Step::Store, wants);
                } else if now.steady + self.options.request_timeout > sent + self.options.lease {
                    // The lease might run out under the request: extend it first.
                    self.go(now, Step::Lease, wants);
                } else {
                    self.stage = Stage::Requesting;
                    wants.push(Want::Request { state: self.state.clone(), until: sent + self.options.lease });
                }
            }
            RefreshLeased::Newer { state, .. } => {
                // Whatever we hold was got with an older refresh token than the one that is stored.
                self.unsaved = None;
                self.state = state;
                if self.serves(now, Duration::ZERO) {
                    self.done(wants);
                } else {
                    self.go(now, Step::Permit, wants);
                }
            }
            RefreshLeased::Busy { until, now: there } => {
                if self.unsaved.is_none() && self.serves(now, Duration::ZERO) {
                    return self.done(wants);
                }
                if self.is_tired(now) {
                    let message = "another process is getting the token, and did not come back with it in time";
                    return self.give_up(Fault::transient(Code::TimeoutError, message).into(), wants);
                }
                let wait = until.since(there).min(self.rng.around(self.options.busy_poll));
                let until = now.steady + wait.max(Duration::from_millis(1));
                self.stage = Stage::Waiting { until, then: Step::Lease };
            }
            RefreshLeased::Gone => {
                let fault = Fault::new(Code::UpstreamAuthFailed, Level::L4, "the credential was revoked");
                self.give_up(fault.into(), wants);
            }
        }
    }

    fn on_unleased(&mut self, now: Now, error: &TxError, wants: &mut Vec<Want>) {
        if error.is_transient() && !self.is_tired(now) {
            return self.again(now, Step::Lease);
        }
        let level = if error.is_transient() { Level::L1 } else { Level::L2 };
        self.give_up(Fault::new(Code::InternalError, level, error.to_string()).into(), wants);
    }

    fn on_stored(&mut self, now: Now, answer: Result<Done, TxError>, wants: &mut Vec<Want>) {
        match answer {
            Ok(Done::StoreToken(stored)) => {
                let Some(Fresh { sealed, expires_at, .. }) = self.unsaved.take() else { return };
                self.state = State {
                    version: stored.version,
                    sealed: Some(sealed),
                    expires_at,
                    updated_at: Some(now.wall),
                    ..State::default()
                };
                self.done(wants);
            }
            // Somebody else has had the lease since. Either they have stored a newer token, or ours goes in under a new one.
            Err(TxError::Fenced | TxError::Conflict) => self.go(now, Step::Lease, wants),
            Err(error) if error.is_transient() => self.again(now, Step::Store),
            other => {
                let reason = other.err().map_or_else(|| "an unexpected answer".to_owned(), |error| error.to_string());
                let message = format!("the new token cannot be stored: {reason}");
                self.give_up(Fault::new(Code::InternalError, Level::L4, message).into(), wants);
            }
        }
    }

    fn on_failed(&mut self, now: Now, refused: Refused, answer: &Result<Done, TxError>, wants: &mut Vec<Want>) {
        let lost = matches!(answer, Err(error) if error.is_transient());
        if lost && !self.is_tired(now) {
            return self.again(now, Step::Fail { refused });
        }
        self.failed = 0;
        let wait = refused.retry_after.unwrap_or_else(|| self.backoff(self.requests));
        let in_time = now.steady + wait <= self.began + self.options.patience;
        if refused.fault.level == Level::L1 && self.requests < self.options.max_attempts && in_time {
            self.stage = Stage::Waiting { until: now.steady + wait, then: Step::Permit };
        } else {
            self.give_up(refused, wants);
        }
    }

    /// Whether the state's token is what the caller needs, `ahead` of its end.
    fn serves(&self, now: Now, ahead: Duration) -> bool {
        let other = match self.need {
            Need::Good => true,
            Need::Other { than } => self.state.version > than,
        };
        let in_time = self.state.expires_at.is_none_or(|end| {
            // A token of a short life would be replaced at every use.
            let life = self.state.updated_at.map_or(Duration::MAX, |from| end.since(from));
            now.wall + ahead.min(life / 2) < end
        });
        other && self.state.sealed.is_some() && in_time
    }

    /// The version whose token is no longer good.
    fn seen(&self) -> i64 {
        match self.need {
            Need::Other { than } if self.state.version < than => than,
            _ => self.state.version,
        }
    }

    /// A token that came is never given up.
    fn is_tired(&self, now: Now) -> bool {
        self.unsaved.is_none() && now.steady >= self.began + self.options.patience
    }

    fn again(&mut self, now: Now, then: Step) {
        self.failed += 1;
        let until = now.steady + self.backoff(self.failed);
        self.stage = Stage::Waiting { until, then };
    }

    fn backoff(&mut self, attempt: u32) -> Duration {
        let policy = retry::Policy { max_delay_ms: 5_000, ..retry::Policy::default() };
        policy.delay(attempt, &mut self.rng)
    }

    fn done(&mut self, wants: &mut Vec<Want>) {
        self.stage = Stage::Over;
        wants.push(Want::Done(Ok(self.state.clone())));
    }

    fn give_up(&mut self, refused: Refused, wants: &mut Vec<Want>) {
        self.stage = Stage::Over;
        wants.push(Want::Done(Err(refused)));
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
