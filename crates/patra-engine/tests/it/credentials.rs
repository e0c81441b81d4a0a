//! Several processes with one credential, a store that loses replies, and an upstream whose refresh tokens work once.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use patra_connectors::{PageRequest, Pager};
use patra_core::gate::GateDecision;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::credential::CredentialFilter;
use patra_core::port::transport::{Error, HttpMethod, HttpRequest, HttpResponse};
use patra_core::port::{BoxFuture, CredentialQueries as _, Entropy, Store, Transport};
use patra_core::seal::{Keyring, MasterKey};
use patra_core::secret::{Secret, Secrets};
use patra_core::state::{AuthType, Operation};
use patra_core::vault::{Vault, VaultCell};
use patra_core::{Code, Level, Ts, Window};
use patra_engine::admin::{self, CredentialName};
use patra_engine::{CookieChoice, CredentialOptions, Credentials, OutgoingRequest, PermitSource, Ports};
use patra_testkit::memory::SharedMem;

use crate::support::{TokioClock, flaky};

const MANIFEST: &str = r#"
provenance: far
endpoints:
  records:
    http: { base_url: "https://far.example", path: / }
    auth: { type: oauth2, oauth2: { token_url: "https://far.example/token", grant: refresh_token } }
    window: { watermark_key: updated_at, initial: 2020-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

/// Tokens are numbers; the newest refresh token is the only one that works, and an access token works thirty times.
#[derive(Debug, Default)]
struct MockApi {
    state: Mutex<Tokens>,
    latency: Duration,
}

#[derive(Debug, Default)]
struct Tokens {
    newest: u64,
    uses: u64,
    asking: u32,
    reused: u64,
    answered: u64,
    /// No token is valid.
    broken: bool,
}

impl Transport for MockApi {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, Error>> {
        Box::pin(async move {
            let token = request.method == HttpMethod::Post;
            if token {
                let mut state = self.state.lock().unwrap();
                state.asking += 1;
                assert_eq!(state.asking, 1, "two refresh at once");
            }
            tokio::time::sleep(self.latency).await;
            let mut state = self.state.lock().unwrap();
            let (status, body) = if token { state.refresh(&request) } else { state.serve(&request) };
            Ok(HttpResponse { status, headers: Vec::new(), body: Bytes::from(body), redirected: None })
        })
    }
}

impl Tokens {
    fn refresh(&mut self, request: &HttpRequest) -> (u16, String) {
        self.asking -= 1;
        let form = String::from_utf8(request.body.as_ref().unwrap().to_vec()).unwrap();
        let shown = form.split("refresh_token=refresh-").nth(1).unwrap().split('&').next().unwrap();
        if shown.parse() != Ok(self.newest) {
            self.reused += 1;
            return (400, r#"{"error":"invalid_grant"}"#.to_owned());
        }
        (self.newest, self.uses) = (self.newest + 1, 0);
        let body =
            format!(r#"{{"access_token":"access-{0}","refresh_token":"refresh-{0}","expires_in":600}}"#, self.newest);
        (200, body)
    }

    fn serve(&mut self, request: &HttpRequest) -> (u16, String) {
        let shown = request.headers.iter().find(|(name, _)| name == "Authorization").map(|(_, value)| value.as_str());
        self.uses += 1;
        if shown != Some(&format!("Bearer access-{}", self.newest)) || self.uses > 30 || self.broken {
            return (401, String::new());
        }
        self.answered += 1;
        (200, r#"{"items":[]}"#.to_owned())
    }
}

#[derive(Debug)]
struct Counter(AtomicU64);

impl Entropy for Counter {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.fill(0);
        bytes[..8].copy_from_slice(&self.0.fetch_add(1, Relaxed).to_be_bytes());
        Ok(())
    }
}

#[derive(Debug)]
struct Open;

impl PermitSource for Open {
    fn acquire(&self) -> BoxFuture<'_, GateDecision> {
        Box::pin(async { GateDecision::Allow })
    }
}

struct World {
    store: SharedMem,
    api: Arc<MockApi>,
    clock: Arc<TokioClock>,
    vault: Arc<Vault>,
    outgoing: OutgoingRequest,
}

impl World {
    async fn new(latency: Duration) -> World {
        let clock = Arc::new(TokioClock(Instant::now()));
        let store = SharedMem::new(clock.clone());
        let keyring = Keyring::new(MasterKey::new([3; 32]));
        let vault = Arc::new(Vault::new(keyring, Arc::new(Counter(AtomicU64::new(0)))));
        let values = [("clientId", "client"), ("clientSecret", "secret-1"), ("refreshToken", "refresh-0")];
        let secrets: Secrets = values.into_iter().map(|(name, value)| (name.to_owned(), Secret::new(value))).collect();
        let named = CredentialName { alias: "far".into(), provenance: Some("far".into()), endpoint: None };
        admin::add(&store, &vault, &named, AuthType::OAuth2, None, secrets).await.unwrap();

        let manifest = patra_spec::read("far.yaml", MANIFEST).unwrap();
        let spec = patra_spec::compile(&manifest, "records", Operation::Harvest).unwrap().snapshot;
        let pager = Pager::new(&spec).unwrap();
        let (params, window) = (Params::new(), Window { from: Ts::from_secs(0), to: Ts::from_secs(1) });
        let ask = PageRequest {
            position: &Position::Time,
            window,
            page_size: 0,
            params: &params,
            now: Ts::from_secs(1_000_000),
        };
        let exchange = pager.request(&ask).unwrap();
        let authoriser = Arc::clone(pager.authoriser(&exchange));
        let (request, permits) = (exchange.request, Arc::new(Open));
        let outgoing = OutgoingRequest { authoriser, pinned: None, request, permits, pool: CookieChoice::default() };
        let api = Arc::new(MockApi { latency, ..MockApi::default() });
        World { store, api, clock, vault, outgoing }
    }

    /// The credentials of one process.
    fn process(&self, owner: &str, store: Arc<dyn Store>) -> Credentials {
        let ports = Ports { store, transport: self.api.clone(), clock: self.clock.clone() };
        let vault = VaultCell::new(Some(Arc::clone(&self.vault)));
        Credentials::new(ports, CredentialOptions { vault, ..CredentialOptions::default() }, owner)
    }

    fn tokens(&self) -> std::sync::MutexGuard<'_, Tokens> {
        self.api.state.lock().unwrap()
    }

    async fn stored_version(&self) -> i64 {
        self.store.credentials(CredentialFilter::Alias("far".into())).await.unwrap()[0].state.version
    }
}

// covers: G-12, MAP-X-07
#[tokio::test(start_paused = true)]
async fn processes_over_a_store_that_loses_answers_use_each_refresh_token_once() {
    for seed in 0..20 {
        let world = World::new(Duration::from_millis(40)).await;
        let mut work = tokio::task::JoinSet::new();
        for process in 0..3 {
            let credentials = world.process(&format!("p{process}"), flaky(&world.store, seed * 10 + process));
            for _ in 0..4 {
                let (credentials, outgoing) = (credentials.clone(), world.outgoing.clone());
                work.spawn(async move {
                    let mut served = 0;
                    for _ in 0..10 {
                        served += u64::from(credentials.send(&outgoing).await.is_ok_and(|sent| sent.answer.is_ok()));
                        tokio::time::sleep(Duration::from_millis(200)).await;
                    }
                    served
                });
            }
        }
        let served: u64 = work.join_all().await.into_iter().sum();
        let stored = world.stored_version().await;
        let tokens = world.tokens();
        assert_eq!(tokens.reused, 0, "seed {seed}");
        assert!(tokens.newest >= 4 && served == 120, "seed {seed}: {served} served, {tokens:?}");
        assert_eq!(stored.unsigned_abs(), tokens.newest, "seed {seed}: each token is stored once");
    }
}

// covers: G-12
#[tokio::test(start_paused = true)]
async fn a_request_that_is_cut_off_does_not_take_the_new_token_with_it() {
    let world = World::new(Duration::from_secs(3)).await;
    let credentials = world.process("one", Arc::new(world.store.clone()));
    let cut = tokio::time::timeout(Duration::from_secs(1), credentials.send(&world.outgoing)).await;
    assert!(cut.is_err(), "the upstream is not that quick");
    credentials.settled().await;
    let stored = world.stored_version().await;
    assert_eq!((world.tokens().newest, stored), (1, 1));
    let sent = world.process("two", Arc::new(world.store.clone())).send(&world.outgoing).await.unwrap();
    assert_eq!(sent.answer.unwrap().status, 200);
    assert_eq!(world.tokens().newest, 1, "the token that was stored is used");
}

// covers: C-38
#[tokio::test(start_paused = true)]
async fn rejected_token_is_refreshed_once_and_stops() {
    let world = World::new(Duration::ZERO).await;
    let credentials = world.process("one", Arc::new(world.store.clone()));
    world.tokens().broken = true;
    // The token is fetched, rejected, fetched again and rejected again.
    let refused = credentials.send(&world.outgoing).await.unwrap_err();
    assert_eq!((refused.fault.code, refused.fault.level), (Code::UpstreamAuthFailed, Level::L4));
    assert!(refused.fault.message.contains("patra credential rotate far"), "{}", refused.fault);
    assert_eq!(world.tokens().newest, 2, "one forced refresh, not more");
}

// covers: G-02
#[tokio::test(start_paused = true)]
async fn cached_credentials_expire_within_seconds() {
    let world = World::new(Duration::ZERO).await;
    let credentials = world.process("one", Arc::new(world.store.clone()));
    assert!(credentials.send(&world.outgoing).await.is_ok());
    let named = CredentialName { alias: "far".into(), ..CredentialName::default() };
    admin::revoke(&world.store, &named, None).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let refused = credentials.send(&world.outgoing).await.unwrap_err();
    assert_eq!((refused.fault.code, refused.fault.level), (Code::NotConfigured, Level::L4));
    assert!(refused.fault.message.contains("patra credential add far --type oauth2"), "{}", refused.fault);
}
