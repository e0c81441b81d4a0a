//! Name resolution with the guard. reqwest connects only to the addresses that this returns, so the checked address is
//! the one that is connected to, and DNS rebinding has no effect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use patra_core::port::BoxFuture;

use super::AddressGuard;

/// Resolves a host name to addresses; their ports are ignored.
pub type Lookup = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver (`getaddrinfo`).
pub fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) }))
}

pub(crate) struct GuardedResolver {
    pub(crate) guard: Arc<AddressGuard>,
    pub(crate) lookup: Lookup,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.guard);
        let found = (self.lookup)(name.as_str().to_owned());
        Box::pin(async move {
            let permitted = guard.filter_allowed(found.await?)?;
            // Port 0 makes reqwest use the port of the URL.
            Ok(Box::new(permitted.into_iter().map(|address| SocketAddr::new(address.ip(), 0))) as Addrs)
        })
    }
}
