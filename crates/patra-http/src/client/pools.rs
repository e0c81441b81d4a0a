//! The reqwest clients below. Plain http has one of its own, because building one for https reads every root certificate
//! of the machine: some milliseconds at start-up that many runs never need, and an error where there are none.
//!
//! Roots come from the platform, at the first https request. A machine without any can still collect over http; its https
//! requests fail with a reason that says what to install, and are tried anew each time, so installing the certificates
//! (or starting with `SSL_CERT_FILE` or `SSL_CERT_DIR` set) is all it takes. There is no fallback to roots of our own
//! and none to unverified connections.

use std::sync::Arc;
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
use crate::tls::install_crypto;

const USER_AGENT: &str = concat!("patra/", env!("CARGO_PKG_VERSION"));
const MAX_IDLE_PER_HOST: usize = 16;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) struct Pools {
    plain: reqwest::Client,
    secure: OnceCell<reqwest::Client>,
    guard: Arc<Guard>,
    lookup: Lookup,
}

impl Pools {
    pub(super) fn new(guard: Arc<Guard>, lookup: Lookup) -> Result<Pools, Error> {
        // reqwest panics without a provider, even for a client that will never use TLS.
        install_crypto();
        let plain = builder(Arc::clone(&guard), Arc::clone(&lookup))
            .http1_only()
            .tls_certs_only([])
            .build()
            .map_err(|error| Error::Invalid { reason: fault::root_cause(&error) })?;
        Ok(Pools { plain, secure: OnceCell::new(), guard, lookup })
    }

    /// The pool that serves the scheme of the hop.
    pub(super) async fn serving(&self, hop: &Hop) -> Result<&reqwest::Client, Error> {
        if hop.url.scheme() == "http" {
            return Ok(&self.plain);
        }
        let build = async || {
            let builder = builder(Arc::clone(&self.guard), Arc::clone(&self.lookup));
            // Reading the certificates blocks.
            let built = spawn_blocking(move || builder.build()).await;
            built.map_err(|error| error.to_string())?.map_err(|error| fault::root_cause(&error))
        };
        let failed = |reason| Error::Connect {
            host: hop.host().to_owned(),
            reason: format!("TLS is not available: {reason} (install ca-certificates or set SSL_CERT_FILE)"),
        };
        self.secure.get_or_try_init(build).await.map_err(failed)
    }

    /// Turns a user and password in the URL into the header that carries them, where no such header is set.
    pub(super) fn move_credentials(&self, hop: &mut Hop) -> Result<(), Error> {
        if hop.url.username().is_empty() && hop.url.password().is_none() {
            return Ok(());
        }
        // reqwest does this when it builds a request, and only then.
        let built = self.plain.get(hop.url.clone()).build();
        let mut built = built.map_err(|error| Error::Invalid { reason: fault::root_cause(&error) })?;
        hop.url = built.url().clone();
        if let Some(mut credentials) = built.headers_mut().remove(header::AUTHORIZATION) {
            credentials.set_sensitive(true);
            hop.headers.entry(header::AUTHORIZATION).or_insert(credentials);
        }
        Ok(())
    }
}

/// What both pools share.
fn builder(guard: Arc<Guard>, lookup: Lookup) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .tcp_nodelay(true)
        .pool_max_idle_per_host(MAX_IDLE_PER_HOST)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .dns_resolver(Resolver { guard, lookup })
        .connector_layer(layer_fn(Timed))
}
