//! Name resolution behind the guard. reqwest connects to what this returns and to nothing else, so the address that was
//! checked is the address that is dialled: a second, different answer of DNS (rebinding) has no one to reach.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use patra_core::port::Boxed;

use super::Guard;

/// Turns a host name into addresses; their ports are ignored.
pub type Lookup = Arc<dyn Fn(String) -> Boxed<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// The system's resolver (`getaddrinfo`).
pub fn system_lookup() -> Lookup {
    Arc::new(|name| Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) }))
}

pub(crate) struct Resolver {
    pub(crate) guard: Arc<Guard>,
    pub(crate) lookup: Lookup,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.guard);
        let found = (self.lookup)(name.as_str().to_owned());
        Box::pin(async move {
            let permitted = guard.permitted(found.await?)?;
            // Port 0 makes reqwest take the port of the URL.
            Ok(Box::new(permitted.into_iter().map(|address| SocketAddr::new(address.ip(), 0))) as Addrs)
        })
    }
}
