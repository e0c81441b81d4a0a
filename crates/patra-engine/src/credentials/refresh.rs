//! Driving the token machine. It runs in a task of its own: a run that is cut off does not take a new token with it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_connectors::auth::{Opened, Redactor, TOKEN_TIMEOUT};
use patra_core::credential::{Credential, State, Token};
use patra_core::port::credential::Ask;
use patra_core::protocol::token::{Fresh, Got, Machine, Need, Now, Options, Refused, Want};
use patra_core::rng::Rng;
use patra_core::secret::Secrets;
use patra_core::vault::Vault;
use patra_core::{Code, Fault, Level, Ts};

use super::{Errand, Inner, lock};
use crate::events;
use crate::shared::sleep_until;

/// How long another's token may be on its way to the store before ours counts as rejected.
const ABOUT_TO: Duration = Duration::from_secs(1);
/// A credential whose turns are no longer waited for is forgotten when there are so many.
const MAX_TURNS: usize = 1_000;

impl Inner {
    /// A token that serves, from the store or from the far side.
    pub(super) async fn token(
        self: &Arc<Self>,
        errand: &Errand,
        credential: &Credential,
        secrets: &Arc<Secrets>,
        need: Need,
    ) -> Result<(State, Token), Refused> {
        let vault =
            self.options.vault.get().cloned().ok_or_else(|| {
                Fault::new(Code::NotConfigured, Level::L4, "a token cannot be kept without a master key")
            })?;
        let mut wants = Vec::new();
        self.machine(errand, credential, need).start(self.now(), &mut wants);
        let state = match wants.pop() {
            Some(Want::Done(result)) => result?,
            _ => self.refreshed(errand, credential, secrets, need, &vault).await?,
        };
        let token = open_token(&vault, credential, &state)?;
        let token = token.ok_or_else(|| Fault::new(Code::InternalError, Level::L2, "a token without its text"))?;
        Ok((state, token))
    }

    /// Whether another process has replaced the token, or is about to: its answer may be on the way to the store.
    pub(super) async fn overtaken(&self, credential: &Credential, state: &State) -> bool {
        for pause in [Duration::ZERO, ABOUT_TO] {
            tokio::time::sleep(pause).await;
            let found = self.ports.store.credentials(Ask::Id(credential.id)).await;
            let newest = found.ok().and_then(|mut found| found.pop()).map(|found| found.state);
            if let Some(newest) = newest.filter(|newest| newest.version > state.version) {
                lock(&self.newest).insert(credential.id, newest);
                return true;
            }
        }
        false
    }

    async fn refreshed(
        self: &Arc<Self>,
        errand: &Errand,
        credential: &Credential,
        secrets: &Arc<Secrets>,
        need: Need,
        vault: &Arc<Vault>,
    ) -> Result<State, Refused> {
        let mut work = Refresh {
            inner: Arc::clone(self),
            errand: errand.clone(),
            credential: credential.clone(),
            secrets: Arc::clone(secrets),
            vault: Arc::clone(vault),
        };
        let turn = self.turn(credential);
        let task = self.refreshes.spawn(async move {
            let _turn = turn.lock().await;
            work.look_again().await;
            work.run(need).await
        });
        task.await.unwrap_or_else(|error| {
            Err(Fault::transient(Code::InternalError, format!("getting a token was interrupted: {error}")).into())
        })
    }

    /// One wish. It starts from the newest state: whoever had the turn before may have fetched what is wanted.
    fn machine(&self, errand: &Errand, credential: &Credential, need: Need) -> Machine {
        let number = self.machines.fetch_add(1, Relaxed);
        let options = Options {
            refresh_ahead: errand.authoriser.refresh_ahead(),
            request_timeout: TOKEN_TIMEOUT,
            ..Options::new(format!("{}/{number}", self.owner))
        };
        let now = self.now();
        let seed = now.wall.micros().unsigned_abs() ^ number;
        Machine::new(options, credential.id, need, self.newest(credential), Rng::new(seed), now)
    }

    fn now(&self) -> Now {
        Now { steady: self.ports.clock.steady(), wall: self.ports.clock.now() }
    }

    fn turn(&self, credential: &Credential) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = lock(&self.turns);
        if turns.len() >= MAX_TURNS {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(credential.id).or_default())
    }
}

struct Refresh {
    inner: Arc<Inner>,
    errand: Errand,
    credential: Credential,
    secrets: Arc<Secrets>,
    vault: Arc<Vault>,
}

impl Refresh {
    /// Whoever had the turn before may have got the token, or found out that there is none to get.
    async fn look_again(&mut self) {
        if let Ok(mut found) = self.inner.ports.store.credentials(Ask::Id(self.credential.id)).await
            && let Some(credential) = found.pop()
        {
            self.credential.state = credential.state;
        }
    }

    async fn run(&self, need: Need) -> Result<State, Refused> {
        let mut machine = self.inner.machine(&self.errand, &self.credential, need);
        let mut wants = Vec::new();
        machine.start(self.inner.now(), &mut wants);
        loop {
            let got = match wants.pop() {
                Some(Want::Done(result)) => return self.over(result),
                Some(Want::Tx(tx)) => {
                    let operation = tx.name();
                    let answer = self.inner.ports.store.execute(tx).await;
                    if let Err(error) = &answer {
                        events::store_failed("credentials", operation, error);
                    }
                    Got::Tx(answer)
                }
                Some(Want::Permit) => Got::Permit(self.errand.permits.acquire().await),
                Some(Want::Request { state, until }) => self.request(&state, until).await,
                None => {
                    let now = self.inner.now();
                    sleep_until(now.steady, machine.wake_at()).await;
                    machine.poll(self.inner.now(), &mut wants);
                    continue;
                }
            };
            machine.on(self.inner.now(), got, &mut wants);
        }
    }

    fn over(&self, result: Result<State, Refused>) -> Result<State, Refused> {
        if let Ok(state) = &result {
            lock(&self.inner.newest).insert(self.credential.id, state.clone());
        }
        self.inner.cache.forget(self.credential.id);
        result
    }

    async fn request(&self, state: &State, until: Ts) -> Got {
        if self.inner.ports.clock.steady() + TOKEN_TIMEOUT > until {
            return Got::Late;
        }
        let before = match open_token(&self.vault, &self.credential, state) {
            Ok(before) => before,
            Err(fault) => return Got::Answer(Err(fault.into())),
        };
        let redactor = Redactor::new(&self.secrets, before.as_ref());
        let answer = self.ask(before.as_ref()).await.map_err(|refused| {
            // Its texts are our own, but for an error code; and even that may repeat what it was told.
            let fault = &refused.fault;
            Refused { fault: Fault::new(fault.code, fault.level, redactor.text(&fault.message)), ..refused }
        });
        events::token_asked(&self.credential, answer.as_ref().map(|fresh| fresh.expires_at).map_err(|r| &r.fault));
        Got::Answer(answer)
    }

    async fn ask(&self, before: Option<&Token>) -> Result<Fresh, Refused> {
        let (inner, authoriser) = (&self.inner, &self.errand.authoriser);
        let opened = Opened { alias: &self.credential.binding.alias, secrets: &self.secrets, token: before };
        let request = authoriser.token_request(&self.errand.request, &opened, inner.ports.clock.now())?;
        let answer = inner.ports.transport.send(request).await;
        let fresh = authoriser.read_token(answer, before, inner.ports.clock.now())?;
        let sealed = self.vault.seal_token(self.credential.id, &fresh.token).map_err(|error| {
            Fault::new(Code::InternalError, Level::L4, format!("the new token cannot be sealed: {error}"))
        })?;
        Ok(Fresh { sealed, key_id: self.vault.key_id().to_owned(), expires_at: fresh.expires_at })
    }
}

fn open_token(vault: &Vault, credential: &Credential, state: &State) -> Result<Option<Token>, Fault> {
    let opened = state.sealed.as_deref().map(|sealed| vault.open_token(credential.id, sealed)).transpose();
    opened.map_err(|error| {
        let alias = &credential.binding.alias;
        let message = format!(
            "the token of the credential `{alias}` cannot be opened: {error}; give the master key it was sealed with, or \
             replace the credential with `patra credential rotate {alias}`"
        );
        Fault::new(Code::NotConfigured, Level::L4, message)
    })
}
