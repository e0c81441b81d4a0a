//! The proxy of a request. Requests to an `http` target are sent to the proxy in absolute form, those to an `https`
//! target through a tunnel (`CONNECT`), in which certificates are checked as usual. Proxies from the environment,
//! `socks` proxies and proxies with a password are not supported: if one is needed, run a local proxy that adds it.
//!
//! The address guard with a proxy:
//!
//! - The proxy itself is a host like any other: its address must be public or in a network that the operator allowed.
//! - A target that is an IP literal is checked as without a proxy, on every redirect too.
//! - A target with a local name ([`is_local`]: `localhost`, `printer.local`, a bare `intranet`) is resolved
//!   here and its addresses are checked; a name that cannot be resolved here is denied.
//! - Any other name is resolved by the proxy, so its address cannot be checked here. A proxy inside a private network
//!   must have its own rules.

use tokio::time::timeout;
use url::{Host, Url};

use patra_core::port::transport::{Error, TransferLimits};

use crate::guard::resolver::Lookup;
use crate::guard::{AddressGuard, DeniedAddress};
use crate::hop::RequestHop;

/// An HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpProxy {
    url: Url,
}

impl HttpProxy {
    /// Parses `http://host:port`. Errors do not show the text, because it may contain credentials.
    pub(crate) fn parse(text: &str) -> Result<HttpProxy, Error> {
        let url = Url::parse(text).map_err(|error| invalid(&format!("it cannot be read: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it must not contain a user or password"));
        }
        if url.scheme() != "http" || url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must be http://host:port and nothing more"));
        }
        Ok(HttpProxy { url })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Checks whether the hop may go through this proxy: its own address with `own`, the hop's with `guard`. A hop whose host is an IP literal has been checked already.
    pub(crate) async fn check(
        &self,
        own: &AddressGuard,
        guard: &AddressGuard,
        lookup: &Lookup,
        hop: &RequestHop,
        limits: &TransferLimits,
    ) -> Result<(), Error> {
        let refused =
            |host: &str, denied: DeniedAddress| Error::Refused { host: host.to_owned(), reason: denied.to_string() };
        if let Some(host) = self.url.host() {
            own.check_host(&host).map_err(|denied| refused(self.host(), denied))?;
        }
        let Some(Host::Domain(name)) = hop.url.host() else { return Ok(()) };
        if !is_local(name) {
            return Ok(());
        }
        let looking = timeout(limits.connect_timeout, lookup(name.to_owned())).await;
        let found = looking.map_err(|_elapsed| Error::Timeout { after: limits.connect_timeout })?.unwrap_or_default();
        let checked =
            if found.is_empty() { Err(DeniedAddress::UNKNOWN_LOCAL_NAME) } else { guard.filter_allowed(found) };
        checked.map(|_| ()).map_err(|denied| refused(name, denied))
    }
}

/// Domains for names inside a private network. Names without a dot are local as well.
const LOCAL_DOMAINS: &[&str] =
    &["corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private"];

/// Whether a name is local. `name` is lower-case, as the `url` crate returns it.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.');
    let under = |domain: &&str| name.strip_suffix(*domain).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.') || name == "home.arpa" || LOCAL_DOMAINS.iter().any(under)
}

fn invalid(reason: &str) -> Error {
    Error::Invalid { reason: format!("the proxy cannot be used: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bare_address_is_a_proxy() {
        for (text, expected) in [
            ("http://proxy.test:3128", None),
            ("http://proxy.test", None),
            ("http://127.0.0.1:3128/", None),
            ("http://canary:canary@proxy.test:1", Some("must not contain a user")),
            ("http://canary@proxy.test:1", Some("must not contain a user")),
            ("http://proxy.test/canary", Some("nothing more")),
            ("http://proxy.test/?canary", Some("nothing more")),
            ("http://proxy.test/#canary", Some("nothing more")),
            ("https://proxy.test", Some("nothing more")),
            ("socks5://proxy.test", Some("nothing more")),
            ("proxy.test:3128", Some("nothing more")),
            ("canary canary", Some("cannot be read")),
        ] {
            let refusal = HttpProxy::parse(text).err().map(|error| error.to_string());
            let fits = expected.map_or(refusal.is_none(), |part| refusal.as_ref().is_some_and(|r| r.contains(part)));
            assert!(fits, "{text}: {refusal:?}");
            assert!(!refusal.unwrap_or_default().contains("canary"), "{text}");
        }
    }

    #[test]
    fn local_names_are_detected() {
        let local =
            ["localhost", "a.localhost", "localhost.", "intranet", "printer.local", "db.internal", "nas.home.arpa"];
        for name in local.into_iter().chain(["home.arpa", "x.y.corp.", "box.lan", "a.localdomain", "s.private"]) {
            assert!(is_local(name), "{name}");
        }
        for name in ["example.com", "local.example.com", "internal.test", "notlocal.org", "arpa.net", "mylocal.dev."] {
            assert!(!is_local(name), "{name}");
        }
    }
}
