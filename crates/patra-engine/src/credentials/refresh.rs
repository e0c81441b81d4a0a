//! Drives the token machine in a task of its own, so that a run that is aborted does not lose a new token.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use patra_connectors::auth::{OpenedCredential, Redactor, TOKEN_TIMEOUT};
use patra_core::credential::{AccessToken, Credential, CredentialRuntime};
use patra_core::port::credential::CredentialFilter;
use patra_core::protocol::token::{
    NewToken, Options, TokenInput, TokenMachine, TokenNeed, TokenRefused, TokenTime, Want,
};
use patra_core::rng::Rng;
use patra_core::secret::Secrets;
use patra_core::vault::Vault;
use patra_core::{Code, Fault, Level, Ts};

use super::{CredentialsInner, OutgoingRequest, lock};
use crate::events;
use crate::shared::sleep_until;

/// How long a token of another process may take to reach the store before ours counts as rejected.
const ABOUT_TO: Duration = Duration::from_secs(1);
/// Number of locks above which unused ones are removed.
const MAX_TURNS: usize = 1_000;

impl CredentialsInner {
    /// A usable token, from the store or from the upstream.
    pub(super) async fn token(
        self: &Arc<Self>,
        outgoing: &OutgoingRequest,
        credential: &Credential,
        secrets: &Arc<Secrets>,
        need: TokenNeed,
    ) -> Result<(CredentialRuntime, AccessToken), TokenRefused> {
        let vault =
            self.options.vault.get().cloned().ok_or_else(|| {
                Fault::new(Code::NotConfigured, Level::L4, "a token cannot be kept without a master key")
            })?;
        let mut wants = Vec::new();
        self.machine(outgoing, credential, need).start(self.now(), &mut wants);
        let state = match wants.pop() {
            Some(Want::Done(result)) => result?,
            _ => self.refreshed(outgoing, credential, secrets, need, &vault).await?,
        };
        let token = open_token(&vault, credential, &state)?;
        let token = token.ok_or_else(|| Fault::new(Code::InternalError, Level::L2, "a token without its text"))?;
        Ok((state, token))
    }

    /// Whether another process has replaced the token, or is about to.
    pub(super) async fn overtaken(&self, credential: &Credential, state: &CredentialRuntime) -> bool {
        for pause in [Duration::ZERO, ABOUT_TO] {
            tokio::time::sleep(pause).await;
            let found = self.ports.store.credentials(CredentialFilter::Id(credential.id)).await;
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
        outgoing: &OutgoingRequest,
        credential: &Credential,
        secrets: &Arc<Secrets>,
        need: TokenNeed,
        vault: &Arc<Vault>,
    ) -> Result<CredentialRuntime, TokenRefused> {
        let mut work = TokenRefresh {
            inner: Arc::clone(self),
            outgoing: outgoing.clone(),
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

    /// One refresh. It starts from the newest state: the refresh before it may have fetched the token already.
    fn machine(&self, outgoing: &OutgoingRequest, credential: &Credential, need: TokenNeed) -> TokenMachine {
        let number = self.machines.fetch_add(1, Relaxed);
        let options = Options {
            refresh_ahead: outgoing.authoriser.refresh_ahead(),
            request_timeout: TOKEN_TIMEOUT,
            ..Options::new(format!("{}/{number}", self.owner))
        };
        let now = self.now();
        let seed = now.wall.micros().unsigned_abs() ^ number;
        TokenMachine::new(options, credential.id, need, self.newest(credential), Rng::new(seed), now)
    }

    fn now(&self) -> TokenTime {
        TokenTime { steady: self.ports.clock.steady(), wall: self.ports.clock.now() }
    }

    fn turn(&self, credential: &Credential) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = lock(&self.turns);
        if turns.len() >= MAX_TURNS {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(credential.id).or_default())
    }
}

struct TokenRefresh {
    inner: Arc<CredentialsInner>,
    outgoing: OutgoingRequest,
    credential: Credential,
    secrets: Arc<Secrets>,
    vault: Arc<Vault>,
}

impl TokenRefresh {
    /// The refresh before this one may have got the token, or an error.
    async fn look_again(&mut self) {
        if let Ok(mut found) = self.inner.ports.store.credentials(CredentialFilter::Id(self.credential.id)).await
            && let Some(credential) = found.pop()
        {
            self.credential.state = credential.state;
        }
    }

    async fn run(&self, need: TokenNeed) -> Result<CredentialRuntime, TokenRefused> {
        let mut machine = self.inner.machine(&self.outgoing, &self.credential, need);
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
                    TokenInput::Tx(answer)
                }
                Some(Want::Permit) => TokenInput::Permit(self.outgoing.permits.acquire().await),
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

    fn over(&self, result: Result<CredentialRuntime, TokenRefused>) -> Result<CredentialRuntime, TokenRefused> {
        if let Ok(state) = &result {
            lock(&self.inner.newest).insert(self.credential.id, state.clone());
        }
        self.inner.cache.forget(self.credential.id);
        result
    }

    async fn request(&self, state: &CredentialRuntime, until: Ts) -> TokenInput {
        if self.inner.ports.clock.steady() + TOKEN_TIMEOUT > until {
            return TokenInput::Late;
        }
        let before = match open_token(&self.vault, &self.credential, state) {
            Ok(before) => before,
            Err(fault) => return TokenInput::Response(Err(fault.into())),
        };
        let redactor = Redactor::new(&self.secrets, before.as_ref());
        let answer = self.ask(before.as_ref()).await.map_err(|refused| {
            // Messages are our own, except for an error code of the upstream, which may repeat what was sent.
            let fault = &refused.fault;
            TokenRefused { fault: Fault::new(fault.code, fault.level, redactor.text(&fault.message)), ..refused }
        });
        events::token_asked(&self.credential, answer.as_ref().map(|fresh| fresh.expires_at).map_err(|r| &r.fault));
        TokenInput::Response(answer)
    }

    async fn ask(&self, before: Option<&AccessToken>) -> Result<NewToken, TokenRefused> {
        let (inner, authoriser) = (&self.inner, &self.outgoing.authoriser);
        let opened = OpenedCredential { alias: &self.credential.binding.alias, secrets: &self.secrets, token: before };
        let request = authoriser.token_request(&self.outgoing.request, &opened, inner.ports.clock.now())?;
        let answer = inner.ports.transport.send(request).await;
        let fresh = authoriser.read_token(answer, before, inner.ports.clock.now())?;
        let sealed = self.vault.seal_token(self.credential.id, &fresh.token).map_err(|error| {
            Fault::new(Code::InternalError, Level::L4, format!("the new token cannot be sealed: {error}"))
        })?;
        Ok(NewToken { sealed, key_id: self.vault.key_id().to_owned(), expires_at: fresh.expires_at })
    }
}

fn open_token(vault: &Vault, credential: &Credential, state: &CredentialRuntime) -> Result<Option<AccessToken>, Fault> {
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
