//! The only place where credentials are opened (G-02). A request comes in without its secrets and goes out with them;
//! they are redacted from the response. No secret is returned to code that writes rows or log lines.

pub mod admin;
pub mod cookies;
mod pool;
mod refresh;
mod resolve;
mod shared;
mod sign;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
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
use patra_core::tx::{Lease, MarkCredential};
use patra_core::vault::VaultCell;
use patra_core::{Code, CredentialId, Fault, Level};
use patra_spec::Snapshot;

use crate::events;
use crate::robots::{RobotsCache, RobotsClient};
use crate::shared::{Ports, lock};
use crate::try_pages::TryPace;

pub(crate) use pool::noting;
pub use pool::{CookieChoice, CookieRules, UsedCookie};
pub use resolve::credential_for;
pub(crate) use shared::GatePass;
pub use sign::hook_key;

/// Most credentials that are tried for one request.
const MAX_TRIED: usize = 8;
/// Most tokens that are tried for one credential, where each is replaced before its response comes.
const MAX_ROUNDS: u32 = 4;
/// The longest wait for a permit in the middle of an exchange; a longer one gives the task back.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Options for opening credentials and signing requests.
#[derive(Clone, Debug, Default)]
pub struct CredentialOptions {
    /// Empty without a master key: sealed secrets stay sealed.
    pub vault: VaultCell,
    /// Signing hooks by [`hook_key`].
    pub signers: BTreeMap<String, Arc<dyn Signer>>,
    pub cookies: CookieRules,
}

/// Acquires a permit for each request of an exchange, right before it is sent.
pub trait PermitSource: fmt::Debug + Send + Sync {
    fn acquire(&self) -> BoxFuture<'_, GateDecision>;

    /// Keeps at least this much time between two requests, whatever the declared rate.
    fn space(&self, _least: Option<Duration>) {}
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    pub authoriser: Arc<Authoriser>,
    /// The credential that the task was planned with.
    pub pinned: Option<CredentialId>,
    pub request: HttpRequest,
    pub permits: Arc<dyn PermitSource>,
    pub pool: CookieChoice,
}

/// Result of a request, without secrets.
#[derive(Debug)]
pub struct SentRequest {
    pub answer: Result<HttpResponse, transport::Error>,
    pub credential: Option<CredentialId>,
    /// The cookie to pass to [`Credentials::record_outcome`].
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
    /// The alias that each endpoint's manifest names.
    aliases: Mutex<HashMap<(String, String), resolve::CachedAlias>>,
    /// The newest state of each credential that this process has seen.
    newest: Mutex<HashMap<CredentialId, CredentialRuntime>>,
    /// Locks so that one task at a time refreshes a token in this process; the store decides between processes.
    turns: Mutex<HashMap<CredentialId, Arc<tokio::sync::Mutex<()>>>>,
    hooks: Mutex<HashMap<String, Bucket>>,
    machines: AtomicU64,
    /// Names the uses of cookies: a part of its own for this handle, and their number.
    uses: (u64, AtomicU64),
    refreshes: TaskTracker,
    robots: RobotsCache,
}

impl CredentialsInner {
    /// A unique name for the use of a cookie.
    fn use_name(&self) -> String {
        let (handle, number) = &self.uses;
        format!("{}-{handle:x}-{}", self.owner, number.fetch_add(1, Ordering::Relaxed))
    }
}

/// Why a credential was not enough.
enum CredentialFailure {
    /// The upstream rejects it: another credential may work.
    Rejected(Fault),
    /// No other credential would help, or none may be tried.
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
                aliases: Mutex::default(),
                newest: Mutex::default(),
                turns: Mutex::default(),
                hooks: Mutex::default(),
                machines: AtomicU64::new(0),
                uses: (RandomState::new().hash_one(0), AtomicU64::new(0)),
                refreshes: TaskTracker::new(),
                robots: RobotsCache::default(),
                owner: owner.into(),
                options,
                ports,
            }),
        }
    }

    /// The lease with the credential that its task uses now, so that a rejection halts the users of that one.
    pub(crate) async fn refreshed_lease(&self, lease: Lease) -> Lease {
        // The credential of a poll belongs to its type of source.
        if lease.source.is_some() || lease.credential.is_none() {
            return lease;
        }
        Lease { credential: self.inner.current(&lease).await, ..lease }
    }

    /// The transport of all requests.
    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.inner.ports.transport
    }

    /// Sends a request with a credential. Tries other credentials of the source when the upstream rejects one
    /// (MAP-X-07); the refusal says what a person has to do.
    pub async fn send(&self, outgoing: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        let Some(kind) = outgoing.authoriser.kind() else {
            let answer = self.transmit(outgoing, outgoing.request.clone()).await?;
            return Ok(SentRequest { answer, credential: None, cookie: None });
        };
        if kind == AuthType::Cookie {
            return self.send_from_pool(outgoing).await;
        }
        let candidates = self.inner.candidates(outgoing, kind).await?;
        if candidates.is_empty() {
            return self.without(outgoing).await;
        }
        let mut rejected = None;
        for credential in candidates.iter().take(MAX_TRIED) {
            match self.send_with(outgoing, credential).await {
                Ok(answer) => return Ok(SentRequest { answer, credential: Some(credential.id), cookie: None }),
                Err(CredentialFailure::Failed(refused)) => return Err(refused),
                Err(CredentialFailure::Rejected(fault)) => rejected = rejected.or(Some(fault)),
            }
        }
        let fault =
            rejected.map_or_else(|| self.inner.missing(outgoing), |fault| exhausted(&fault, outgoing, &candidates));
        Err(fault.into())
    }

    /// Gets a token for a credential, or opens one that needs none. Returns its state with the expiry of the token
    /// (`patra credential check`).
    pub async fn check(&self, spec: &Snapshot, credential: &Credential) -> Result<CredentialRuntime, TokenRefused> {
        let (pager, clock) = (Pager::new(spec)?, Arc::clone(&self.inner.ports.clock));
        let outgoing = &OutgoingRequest {
            authoriser: Arc::clone(pager.first_authoriser()),
            pinned: None,
            request: HttpRequest::new(transport::HttpMethod::Get, spec.http.base_url.clone()),
            permits: Arc::new(TryPace::new(spec.rate(), clock)),
            pool: CookieChoice::default(),
        };
        let secrets = Arc::new(self.inner.open(credential)?);
        if !outgoing.authoriser.needs_token() {
            // Fails when the credential lacks a value that a request needs.
            let opened = OpenedCredential { alias: &credential.binding.alias, secrets: &secrets, token: None };
            outgoing.authoriser.authorise(&outgoing.request, &opened)?;
            return Ok(credential.state.clone());
        }
        let than = credential.state.version;
        Ok(self.inner.token(outgoing, credential, &secrets, TokenNeed::Other { than }).await?.0)
    }

    /// Waits for refreshes in progress: a token that was received must be stored.
    pub async fn settled(&self) {
        self.inner.refreshes.close();
        self.inner.refreshes.wait().await;
    }

    /// Sends with one credential, with one forced refresh where it has a token (C-38).
    async fn send_with(
        &self,
        outgoing: &OutgoingRequest,
        credential: &Credential,
    ) -> Result<Result<HttpResponse, transport::Error>, CredentialFailure> {
        let secrets = Arc::new(self.inner.open(credential)?);
        let (mut need, mut rounds) = (TokenNeed::Good, 0);
        loop {
            rounds += 1;
            let (state, token) = match outgoing.authoriser.needs_token() {
                false => (self.inner.newest(credential), None),
                true => match self.inner.token(outgoing, credential, &secrets, need).await {
                    Ok((state, token)) => (state, Some(token)),
                    Err(refused) if refused.fault.level == Level::L4 => {
                        return Err(CredentialFailure::Rejected(refused.fault));
                    }
                    Err(refused) => return Err(CredentialFailure::Failed(refused)),
                },
            };
            let answer = self.exchange(outgoing, credential, &secrets, token.as_ref()).await?;
            let rejection = answer.as_ref().ok().filter(|response| outgoing.authoriser.is_rejection(response));
            let Some(status) = rejection.map(|response| response.status) else {
                if answer.is_ok() && state.status == TokenStatus::Rejected {
                    self.mark(credential, &state, None).await;
                }
                return Ok(answer);
            };
            // If another process has replaced the token, the rejection does not count.
            let again =
                need == TokenNeed::Good || (rounds < MAX_ROUNDS && self.inner.overtaken(credential, &state).await);
            if token.is_some() && again {
                need = TokenNeed::Other { than: state.version };
                continue;
            }
            let message = format!("the upstream returned {status} to the credential `{}`", credential.binding.alias);
            self.mark(credential, &state, Some(&message)).await;
            return Err(CredentialFailure::Rejected(Fault::new(Code::UpstreamAuthFailed, Level::L4, message)));
        }
    }

    async fn exchange(
        &self,
        outgoing: &OutgoingRequest,
        credential: &Credential,
        secrets: &Secrets,
        token: Option<&AccessToken>,
    ) -> Result<Result<HttpResponse, transport::Error>, CredentialFailure> {
        let opened = OpenedCredential { alias: &credential.binding.alias, secrets, token };
        let mut request = outgoing.authoriser.authorise(&outgoing.request, &opened)?;
        self.inner.sign(outgoing, &mut request).await?;
        let answer = self.transmit(outgoing, request).await.map_err(CredentialFailure::Failed)?;
        let redactor = Redactor::new(secrets, token);
        Ok(answer.map(|response| redactor.response(response)))
    }

    /// Sends without a credential, if the source allows it (ING-4.2-02).
    async fn without(&self, outgoing: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        if outgoing.authoriser.auth().required {
            return Err(self.inner.missing(outgoing).into());
        }
        let mut request = outgoing.authoriser.anonymous(&outgoing.request);
        self.inner.sign(outgoing, &mut request).await?;
        Ok(SentRequest { answer: self.transmit(outgoing, request).await?, credential: None, cookie: None })
    }

    async fn transmit(
        &self,
        outgoing: &OutgoingRequest,
        request: HttpRequest,
    ) -> Result<Result<HttpResponse, transport::Error>, TokenRefused> {
        let (ports, permits) = (&self.inner.ports, &*outgoing.permits);
        let client = RobotsClient { transport: &*ports.transport, clock: &*ports.clock, permits };
        self.inner.robots.send(client, &outgoing.request, request).await
    }

    /// Stores whether the upstream accepts the credential. A failure of the store is only logged.
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

/// Waits for a permit, the last step before a request leaves. A wait that would block a worker too long is refused.
pub(crate) async fn admit(permits: &dyn PermitSource, clock: &dyn Clock) -> Result<(), TokenRefused> {
    loop {
        let GateDecision::WaitUntil(until) = permits.acquire().await else { return Ok(()) };
        let wait = until.since(clock.steady());
        if wait > LONGEST_WAIT {
            let message = format!("the rate lets no request leave for {} s: see `patra get gates`", wait.as_secs());
            // The upstream has not asked for this wait.
            return Err(TokenRefused { fault: Fault::transient(Code::RateLimited, message), retry_after: None });
        }
        tokio::time::sleep(wait.max(Duration::from_millis(1))).await;
    }
}

/// The error when every credential was rejected, with what to do.
fn exhausted(fault: &Fault, outgoing: &OutgoingRequest, candidates: &[Credential]) -> Fault {
    let alias = candidates.first().map_or("", |credential| credential.binding.alias.as_str());
    let tried = match candidates.len() {
        1 => String::new(),
        many => format!("; none of {many} credentials works"),
    };
    let (provenance, _) = outgoing.authoriser.place();
    let message = format!(
        "{}{tried}; put in a new one with `patra credential rotate {alias}`, or another with `patra credential add NAME \
         --type {} --provenance {provenance}`",
        fault.message,
        outgoing.authoriser.auth().r#type.as_str().to_lowercase()
    );
    Fault::new(Code::UpstreamAuthFailed, Level::L4, message)
}
