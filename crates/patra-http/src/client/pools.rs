//! The reqwest clients below. Plain http has one of its own, because building one for https reads every root certificate
//! of the machine: some milliseconds at start-up that many runs never need, and an error where there are none.
//!
//! Roots come from the platform, at the first https request. A machine without any can still collect over http; its https
//! requests fail with a reason that says what to install, and are tried anew each time, so installing the certificates
//! (or starting with `SSL_CERT_FILE` or `SSL_CERT_DIR` set) is all it takes. There is no fallback to roots of our own
//! and none to unverified connections.
//!
//! reqwest ties a proxy to a client, so each proxy in use has a pair of its own.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tower::layer::layer_fn;

use patra_core::port::transport::Error;

use crate::connect::Timed;
use crate::fault;
use crate::guard::Guard;
use crate::guard::resolver::{Lookup, Resolver};
use crate::hop::Hop;
use crate::proxy::Proxy;
use crate::tls::install_crypto;

const USER_AGENT: &str = concat!("patra/", env!("CARGO_PKG_VERSION"));
const MAX_IDLE_PER_HOST: usize = 16;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// How many proxies keep their connections. Beyond that the one that was used longest ago loses them.
const MAX_PROXIES: usize = 16;

pub(super) struct Pools {
    direct: Pair,
    /// The one used last stands at the end.
    proxied: Mutex<VecDeque<Arc<Pair>>>,
    guard: Arc<Guard>,
    lookup: Lookup,
}

/// The clients of one way out: straight, or through a proxy.
struct Pair {
    proxy: Option<Proxy>,
    plain: reqwest::Client,
    secure: OnceCell<reqwest::Client>,
}

impl Pools {
    pub(super) fn new(guard: Arc<Guard>, lookup: Lookup) -> Result<Pools, Error> {
        // reqwest panics without a provider, even for a client that will never use TLS.
        install_crypto();
        let direct = Pair::new(None, &guard, &lookup)?;
        Ok(Pools { direct, proxied: Mutex::default(), guard, lookup })
    }

    pub(super) fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// The pool that serves the scheme of the hop on the way it is to take.
    pub(super) async fn serving(&self, hop: &Hop, proxy: Option<&Proxy>) -> Result<reqwest::Client, Error> {
        match proxy {
            None => self.direct.serving(hop, &self.guard, &self.lookup).await,
            Some(proxy) => self.through(proxy)?.serving(hop, &self.guard, &self.lookup).await,
        }
    }

    fn through(&self, proxy: &Proxy) -> Result<Arc<Pair>, Error> {
        let mut pairs = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pairs.iter().position(|pair| pair.proxy.as_ref() == Some(proxy));
        let pair = match known.and_then(|at| pairs.remove(at)) {
            Some(pair) => pair,
            None => Arc::new(Pair::new(Some(proxy), &self.guard, &self.lookup)?),
        };
        if pairs.len() >= MAX_PROXIES {
            pairs.pop_front();
        }
        pairs.push_back(Arc::clone(&pair));
        Ok(pair)
    }

    /// Turns a user and password in the URL into the header that carries them, where no such header is set.
    pub(super) fn move_credentials(&self, hop: &mut Hop) -> Result<(), Error> {
        if hop.url.username().is_empty() && hop.url.password().is_none() {
            return Ok(());
        }
        // reqwest does this when it builds a request, and only then.
        let built = self.direct.plain.get(hop.url.clone()).build();
        let mut built = built.map_err(|error| Error::Invalid { reason: fault::root_cause(&error) })?;
        hop.url = built.url().clone();
        if let Some(mut credentials) = built.headers_mut().remove(header::AUTHORIZATION) {
            credentials.set_sensitive(true);
            hop.headers.entry(header::AUTHORIZATION).or_insert(credentials);
        }
        Ok(())
    }
}

impl Pair {
    fn new(proxy: Option<&Proxy>, guard: &Arc<Guard>, lookup: &Lookup) -> Result<Pair, Error> {
        let plain = builder(proxy, guard, lookup)
            .and_then(|builder| builder.http1_only().tls_certs_only([]).build())
            .map_err(|error| Error::Invalid { reason: fault::root_cause(&error) })?;
        Ok(Pair { proxy: proxy.cloned(), plain, secure: OnceCell::new() })
    }

    async fn serving(&self, hop: &Hop, guard: &Arc<Guard>, lookup: &Lookup) -> Result<reqwest::Client, Error> {
        if hop.url.scheme() == "http" {
            return Ok(self.plain.clone());
        }
        let build = async || {
            let builder = builder(self.proxy.as_ref(), guard, lookup);
            // Reading the certificates blocks.
            let built = spawn_blocking(move || builder.and_then(reqwest::ClientBuilder::build)).await;
            built.map_err(|error| error.to_string())?.map_err(|error| fault::root_cause(&error))
        };
        let failed = |reason| Error::Connect {
            host: hop.host().to_owned(),
            reason: format!("TLS is not available: {reason} (install ca-certificates or set SSL_CERT_FILE)"),
        };
        self.secure.get_or_try_init(build).await.cloned().map_err(failed)
    }
}

/// What all pools share.
fn builder(
    proxy: Option<&Proxy>,
    guard: &Arc<Guard>,
    lookup: &Lookup,
) -> Result<reqwest::ClientBuilder, reqwest::Error> {
    let builder = reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .dns_resolver(Resolver { guard: Arc::clone(guard), lookup: Arc::clone(lookup) })
        .connector_layer(layer_fn(Timed));
    Ok(match proxy {
        Some(proxy) => builder.proxy(reqwest::Proxy::all(proxy.url().clone())?),
        None => builder,
    })
}
