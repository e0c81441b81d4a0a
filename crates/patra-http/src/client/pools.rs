//! The underlying reqwest clients. Plain http has its own client, because building one for https reads every root
//! certificate of the machine: this takes milliseconds that many runs do not need, and fails if there are none.
//!
//! Root certificates come from the platform, at the first https request. A machine without certificates can still
//! collect over http. Its https requests fail with a message that says what to install, and each request tries again,
//! so installing the certificates (or starting with `SSL_CERT_FILE` or `SSL_CERT_DIR` set) is enough. There is no
//! fallback to bundled roots or to unverified connections.
//!
//! reqwest ties a proxy to a client, so each proxy in use has its own pair of clients.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tower::layer::layer_fn;

use patra_core::port::transport::Error;

use crate::connect::ConnectTimeout;
use crate::fault;
use crate::guard::AddressGuard;
use crate::guard::resolver::{GuardedResolver, Lookup};
use crate::hop::RequestHop;
use crate::proxy::HttpProxy;
use crate::tls::install_crypto;

const USER_AGENT: &str = concat!("patra/", env!("CARGO_PKG_VERSION"));
const MAX_IDLE_PER_HOST: usize = 16;
/// Bytes that an HTTP/2 server may send ahead, per response and per connection: a body that waits for memory is buffered
/// up to here.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 2 << 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Most proxies whose connections are kept; the least recently used one is dropped first.
const MAX_PROXIES: usize = 16;

pub(super) struct ClientPools {
    direct: ClientPair,
    /// Ordered by use, the most recent last.
    proxied: Mutex<VecDeque<Arc<ClientPair>>>,
    guard: Arc<AddressGuard>,
    lookup: Lookup,
}

/// The http and https clients of one route: direct, or through a proxy.
struct ClientPair {
    proxy: Option<HttpProxy>,
    plain: reqwest::Client,
    secure: OnceCell<reqwest::Client>,
}

impl ClientPools {
    pub(super) fn new(guard: Arc<AddressGuard>, lookup: Lookup) -> Result<ClientPools, Error> {
        // reqwest panics without a crypto provider, even for a client that never uses TLS.
        install_crypto();
        let direct = ClientPair::new(None, &guard, &lookup)?;
        Ok(ClientPools { direct, proxied: Mutex::default(), guard, lookup })
    }

    pub(super) fn lookup(&self) -> &Lookup {
        &self.lookup
    }

    /// The client for the scheme of the hop, direct or through the proxy.
    pub(super) async fn serving(&self, hop: &RequestHop, proxy: Option<&HttpProxy>) -> Result<reqwest::Client, Error> {
        match proxy {
            None => self.direct.serving(hop, &self.guard, &self.lookup).await,
            Some(proxy) => self.pair_for(proxy)?.serving(hop, &self.guard, &self.lookup).await,
        }
    }

    fn pair_for(&self, proxy: &HttpProxy) -> Result<Arc<ClientPair>, Error> {
        let mut pairs = self.proxied.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pairs.iter().position(|pair| pair.proxy.as_ref() == Some(proxy));
        let pair = match known.and_then(|at| pairs.remove(at)) {
            Some(pair) => pair,
            None => Arc::new(ClientPair::new(Some(proxy), &self.guard, &self.lookup)?),
        };
        if pairs.len() >= MAX_PROXIES {
            pairs.pop_front();
        }
        pairs.push_back(Arc::clone(&pair));
        Ok(pair)
    }

    /// Moves user and password from the URL to the `Authorization` header, unless it is set.
    pub(super) fn move_credentials(&self, hop: &mut RequestHop) -> Result<(), Error> {
        if hop.url.username().is_empty() && hop.url.password().is_none() {
            return Ok(());
        }
        // reqwest does this only when it builds a request.
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

impl ClientPair {
    fn new(proxy: Option<&HttpProxy>, guard: &Arc<AddressGuard>, lookup: &Lookup) -> Result<ClientPair, Error> {
        let plain = builder(proxy, guard, lookup)
            .and_then(|builder| builder.http1_only().tls_certs_only([]).build())
            .map_err(|error| Error::Invalid { reason: fault::root_cause(&error) })?;
        Ok(ClientPair { proxy: proxy.cloned(), plain, secure: OnceCell::new() })
    }

    async fn serving(
        &self,
        hop: &RequestHop,
        guard: &Arc<AddressGuard>,
        lookup: &Lookup,
    ) -> Result<reqwest::Client, Error> {
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

/// Settings of all clients.
fn builder(
    proxy: Option<&HttpProxy>,
    guard: &Arc<AddressGuard>,
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
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .dns_resolver(GuardedResolver { guard: Arc::clone(guard), lookup: Arc::clone(lookup) })
        .connector_layer(layer_fn(ConnectTimeout));
    Ok(match proxy {
        Some(proxy) => builder.proxy(reqwest::Proxy::all(proxy.url().clone())?),
        None => builder,
    })
}
