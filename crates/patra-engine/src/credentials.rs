//! The one place where credentials are opened (G-02). A request comes in without its secrets and goes out with them; the
//! answer comes back without. Nothing here returns a secret to whoever writes rows or log lines.

pub mod admin;
pub mod cookies;
mod pool;
mod refresh;
mod resolve;
mod shared;
mod sign;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::task::TaskTracker;

use patra_connectors::Pager;
use patra_connectors::auth::{Authoriser, OpenedCredential, Redactor};
use patra_core::credential::{AccessToken, Credential, CredentialRuntime};
use patra_core::gate::{Bucket, GateDecision};
use patra_core::port::transport::{self, HttpRequest, HttpResponse};
use patra_core::port::{BoxFuture, Clock, CommandsExt as _, Signer, Transport};
use patra_core::protocol::token::{TokenNeed, TokenRefused};
use patra_core::secret::Secrets;
use patra_core::state::{AuthType, TokenStatus};
use patra_core::tx::MarkCredential;
use patra_core::vault::VaultCell;
use patra_core::{Code, CredentialId, Fault, Level};
use patra_spec::Snapshot;

use crate::events;
use crate::shared::{Ports, lock};
use crate::try_pages::TryPace;

pub(crate) use pool::noting;
pub use pool::{CookieChoice, CookieRules, UsedCookie};
pub use resolve::credential_for;
pub(crate) use shared::GatePass;
pub use sign::hook_key;

/// Credentials that are tried for one request, at most.
const MAX_TRIED: usize = 8;
/// Tokens that are tried for one credential, at most, where each is replaced before its answer comes.
const MAX_ROUNDS: u32 = 4;
/// The longest wait for a permit in the middle of an exchange; a longer one gives the task back.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// What a process has to open credentials and to sign with.
#[derive(Clone, Debug, Default)]
pub struct CredentialOptions {
    /// Empty: no master key is given, and what is sealed stays so.
    pub vault: VaultCell,
    /// Signing hooks by [`hook_key`].
    pub signers: BTreeMap<String, Arc<dyn Signer>>,
    pub cookies: CookieRules,
}

/// Asks the gate for the requests of an exchange, each right before it leaves.
pub trait PermitSource: fmt::Debug + Send + Sync {
    fn acquire(&self) -> BoxFuture<'_, GateDecision>;
}

/// One request that wants to leave.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    pub authoriser: Arc<Authoriser>,
    /// The credential that the task was planned with.
    pub pinned: Option<CredentialId>,
    pub request: HttpRequest,
    pub permits: Arc<dyn PermitSource>,
    pub pool: CookieChoice,
}

/// What came of it, without secrets.
#[derive(Debug)]
pub struct SentRequest {
    pub answer: Result<HttpResponse, transport::Error>,
    pub credential: Option<CredentialId>,
    /// What is to be told to [`Credentials::seen`].
    pub cookie: Option<UsedCookie>,
}

/// Handle to the credentials of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Credentials {
    inner: Arc<CredentialsInner>,
}

#[derive(Debug)]
struct CredentialsInner {
    ports: Ports,
    options: CredentialOptions,
    owner: String,
    cache: resolve::CredentialCache,
    /// The newest state of each credential that this process has seen.
    newest: Mutex<HashMap<CredentialId, CredentialRuntime>>,
    /// One at a time gets a token within the process; between processes the store decides.
    turns: Mutex<HashMap<CredentialId, Arc<tokio::sync::Mutex<()>>>>,
    hooks: Mutex<HashMap<String, Bucket>>,
    machines: AtomicU64,
    refreshes: TaskTracker,
}

/// Why a credential was not enough.
enum CredentialFailure {
    /// The upstream does not take it: another may do.
    Rejected(Fault),
    /// No other credential would help, or none is to be tried.
    Failed(TokenRefused),
}

impl From<Fault> for CredentialFailure {
    fn from(fault: Fault) -> CredentialFailure {
        CredentialFailure::Failed(fault.into())
    }
}

impl Credentials {
    /// `owner` names this process, as in leases.
    pub fn new(ports: Ports, options: CredentialOptions, owner: impl Into<String>) -> Credentials {
        Credentials {
            inner: Arc::new(CredentialsInner {
                cache: resolve::CredentialCache::default(),
                newest: Mutex::default(),
                turns: Mutex::default(),
                hooks: Mutex::default(),
                machines: AtomicU64::new(0),
                refreshes: TaskTracker::new(),
                owner: owner.into(),
                options,
                ports,
            }),
        }
    }

    /// The way out that it sends by.
    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.inner.ports.transport
    }

    /// Sends a request as whoever it should come from. Tries other credentials of the source when the upstream rejects one
    /// (MAP-X-07); the refusal says what a person has to do.
    pub async fn send(&self, errand: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        let Some(kind) = errand.authoriser.kind() else {
            let answer = self.transmit(errand, errand.request.clone()).await?;
            return Ok(SentRequest { answer, credential: None, cookie: None });
        };
        if kind == AuthType::Cookie {
            return self.send_from_pool(errand).await;
        }
        let candidates = self.inner.candidates(errand, kind).await?;
        if candidates.is_empty() {
            return self.without(errand).await;
        }
        let mut rejected = None;
        for credential in candidates.iter().take(MAX_TRIED) {
            match self.send_with(errand, credential).await {
                Ok(answer) => return Ok(SentRequest { answer, credential: Some(credential.id), cookie: None }),
                Err(CredentialFailure::Failed(refused)) => return Err(refused),
                Err(CredentialFailure::Rejected(fault)) => rejected = rejected.or(Some(fault)),
            }
        }
        let fault = rejected.map_or_else(|| self.inner.missing(errand), |fault| exhausted(&fault, errand, &candidates));
        Err(fault.into())
    }

    /// Gets a token for a credential, or opens one that needs none; says when the token ends (`patra credential check`).
    pub async fn check(&self, spec: &Snapshot, credential: &Credential) -> Result<CredentialRuntime, TokenRefused> {
        let (pager, clock) = (Pager::new(spec)?, Arc::clone(&self.inner.ports.clock));
        let errand = &OutgoingRequest {
            authoriser: Arc::clone(pager.first_authoriser()),
            pinned: None,
            request: HttpRequest::new(transport::HttpMethod::Get, spec.http.base_url.clone()),
            permits: Arc::new(TryPace::new(spec.rate(), clock)),
            pool: CookieChoice::default(),
        };
        let secrets = Arc::new(self.inner.open(credential)?);
        if !errand.authoriser.needs_token() {
            // Shows whether all is there that a request needs.
            let opened = OpenedCredential { alias: &credential.binding.alias, secrets: &secrets, token: None };
            errand.authoriser.authorise(&errand.request, &opened)?;
            return Ok(credential.state.clone());
        }
        let than = credential.state.version;
        Ok(self.inner.token(errand, credential, &secrets, TokenNeed::Other { than }).await?.0)
    }

    /// Waits for what must not be cut off: a token that came and is not stored yet.
    pub async fn settled(&self) {
        self.inner.refreshes.close();
        self.inner.refreshes.wait().await;
    }

    /// One credential, with one forced refresh where there is a token to refresh (C-38).
    async fn send_with(
        &self,
        errand: &OutgoingRequest,
        credential: &Credential,
    ) -> Result<Result<HttpResponse, transport::Error>, CredentialFailure> {
        let secrets = Arc::new(self.inner.open(credential)?);
        let (mut need, mut rounds) = (TokenNeed::Good, 0);
        loop {
            rounds += 1;
            let (state, token) = match errand.authoriser.needs_token() {
                false => (self.inner.newest(credential), None),
                true => match self.inner.token(errand, credential, &secrets, need).await {
                    Ok((state, token)) => (state, Some(token)),
                    Err(refused) if refused.fault.level == Level::L4 => {
                        return Err(CredentialFailure::Rejected(refused.fault));
                    }
                    Err(refused) => return Err(CredentialFailure::Failed(refused)),
                },
            };
            let answer = self.exchange(errand, credential, &secrets, token.as_ref()).await?;
            let rejection = answer.as_ref().ok().filter(|response| errand.authoriser.is_rejection(response));
            let Some(status) = rejection.map(|response| response.status) else {
                if answer.is_ok() && state.status == TokenStatus::Rejected {
                    self.mark(credential, &state, None).await;
                }
                return Ok(answer);
            };
            // A token that others have replaced since is no rejection of ours.
            let again =
                need == TokenNeed::Good || (rounds < MAX_ROUNDS && self.inner.overtaken(credential, &state).await);
            if token.is_some() && again {
                need = TokenNeed::Other { than: state.version };
                continue;
            }
            let message = format!("the upstream answered {status} to the credential `{}`", credential.binding.alias);
            self.mark(credential, &state, Some(&message)).await;
            return Err(CredentialFailure::Rejected(Fault::new(Code::UpstreamAuthFailed, Level::L4, message)));
        }
    }

    async fn exchange(
        &self,
        errand: &OutgoingRequest,
        credential: &Credential,
        secrets: &Secrets,
        token: Option<&AccessToken>,
    ) -> Result<Result<HttpResponse, transport::Error>, CredentialFailure> {
        let opened = OpenedCredential { alias: &credential.binding.alias, secrets, token };
        let mut request = errand.authoriser.authorise(&errand.request, &opened)?;
        self.inner.sign(errand, &mut request).await?;
        let answer = self.transmit(errand, request).await.map_err(CredentialFailure::Failed)?;
        let redactor = Redactor::new(secrets, token);
        Ok(answer.map(|response| redactor.response(response)))
    }

    /// There is no credential: only a source that says so may be asked without one (ING-4.2-02).
    async fn without(&self, errand: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        if errand.authoriser.auth().required {
            return Err(self.inner.missing(errand).into());
        }
        let mut request = errand.authoriser.anonymous(&errand.request);
        self.inner.sign(errand, &mut request).await?;
        Ok(SentRequest { answer: self.transmit(errand, request).await?, credential: None, cookie: None })
    }

    async fn transmit(
        &self,
        errand: &OutgoingRequest,
        request: HttpRequest,
    ) -> Result<Result<HttpResponse, transport::Error>, TokenRefused> {
        admit(&*errand.permits, &*self.inner.ports.clock).await?;
        Ok(self.inner.ports.transport.send(request).await)
    }

    /// Remembers what the upstream thinks. When the store is away it is not worth stopping for.
    async fn mark(&self, credential: &Credential, state: &CredentialRuntime, rejected: Option<&str>) {
        events::credential_judged(credential, rejected);
        let rejected = rejected.map(str::to_owned);
        let mark = MarkCredential { credential: credential.id, seen_version: state.version, rejected };
        if let Err(error) = self.inner.ports.store.run(mark).await {
            events::store_failed("credentials", "MarkCredential", &error);
        }
        self.inner.cache.forget(credential.id);
        lock(&self.inner.newest).remove(&credential.id);
    }
}

/// The gate: the last thing before a request leaves. A wait that is too long for somebody who holds a worker is refused.
pub(crate) async fn admit(permits: &dyn PermitSource, clock: &dyn Clock) -> Result<(), TokenRefused> {
    loop {
        let GateDecision::WaitUntil(until) = permits.acquire().await else { return Ok(()) };
        let wait = until.since(clock.steady());
        if wait > LONGEST_WAIT {
            let message = format!("the rate lets no request leave for {} s: see `patra get gates`", wait.as_secs());
            // Not a wish of the upstream.
            return Err(TokenRefused { fault: Fault::transient(Code::RateLimited, message), retry_after: None });
        }
        tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
    }
}

/// Every credential was rejected: says so once, with what to do.
fn exhausted(fault: &Fault, errand: &OutgoingRequest, candidates: &[Credential]) -> Fault {
    let alias = candidates.first().map_or("", |credential| credential.binding.alias.as_str());
    let tried = match candidates.len() {
        1 => String::new(),
        many => format!("; none of {many} credentials works"),
    };
    let (provenance, _) = errand.authoriser.place();
    let message = format!(
        "{}{tried}; put in a new one with `patra credential rotate {alias}`, or another with `patra credential add NAME \
         --type {} --provenance {provenance}`",
        fault.message,
        errand.authoriser.auth().r#type.as_str().to_lowercase()
    );
    Fault::new(Code::UpstreamAuthFailed, Level::L4, message)
}
