//! A proxy that a request names. An `http` target is asked of the proxy in full, an `https` target through a tunnel
//! (`CONNECT`), in which certificates are checked as on a straight way. There is no proxy from the environment, none for
//! `socks`, and none that wants a password: where one is needed, run a local proxy that adds it.
//!
//! What a proxy means for the address guard:
//!
//! - The proxy itself is a host like any other: its address must be public or in a network that the operator opened.
//! - A target that is an address is judged as on a straight way, on every redirect too.
//! - A target with a name of the local kind ([`is_local`]: `localhost`, `printer.local`, a bare `intranet`) is looked up
//!   here and its addresses are judged; a name that nobody here knows is refused.
//! - Any other name is looked up by the proxy, out of our sight. What it may reach then is for the proxy to decide; one
//!   that stands inside a private network must have rules of its own.

use tokio::time::timeout;
use url::{Host, Url};

use patra_core::port::transport::{Error, Limits};

use crate::guard::resolver::Lookup;
use crate::guard::{Denied, Guard};
use crate::hop::Hop;

/// The address of an HTTP proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proxy {
    url: Url,
}

impl Proxy {
    /// Reads `http://host:port`. The text is not shown in the error: it may hold the credentials it must not have.
    pub(crate) fn parse(text: &str) -> Result<Proxy, Error> {
        let url = Url::parse(text).map_err(|error| invalid(&format!("it cannot be read: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("it must not hold a user or password"));
        }
        if url.scheme() != "http" || url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must be http://host:port and nothing more"));
        }
        Ok(Proxy { url })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Whether the hop may be asked of this proxy. The hop's own host has been judged as far as it is an address.
    pub(crate) async fn check(&self, guard: &Guard, lookup: &Lookup, hop: &Hop, limits: &Limits) -> Result<(), Error> {
        let refused = |host: &str, denied: Denied| Error::Refused { host: host.to_owned(), reason: denied.to_string() };
        if let Some(host) = self.url.host() {
            guard.check_host(&host).map_err(|denied| refused(self.host(), denied))?;
        }
        let Some(Host::Domain(name)) = hop.url.host() else { return Ok(()) };
        if !is_local(name) {
            return Ok(());
        }
        let looking = timeout(limits.connect_timeout, lookup(name.to_owned())).await;
        let found = looking.map_err(|_elapsed| Error::Timeout { after: limits.connect_timeout })?.unwrap_or_default();
        let judged = if found.is_empty() { Err(Denied::UNKNOWN_LOCAL_NAME) } else { guard.permitted(found) };
        judged.map(|_| ()).map_err(|denied| refused(name, denied))
    }
}

/// What only means something inside a network: names without a dot, and those under domains that are kept for it.
const LOCAL_DOMAINS: &[&str] =
    &["corp", "home", "home.arpa", "internal", "intranet", "lan", "local", "localdomain", "localhost", "private"];

/// `name` in lower case, as the `url` crate gives it.
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
            ("http://canary:canary@proxy.test:1", Some("must not hold a user")),
            ("http://canary@proxy.test:1", Some("must not hold a user")),
            ("http://proxy.test/canary", Some("nothing more")),
            ("http://proxy.test/?canary", Some("nothing more")),
            ("http://proxy.test/#canary", Some("nothing more")),
            ("https://proxy.test", Some("nothing more")),
            ("socks5://proxy.test", Some("nothing more")),
            ("proxy.test:3128", Some("nothing more")),
            ("canary canary", Some("cannot be read")),
        ] {
            let refusal = Proxy::parse(text).err().map(|error| error.to_string());
            let fits = expected.map_or(refusal.is_none(), |part| refusal.as_ref().is_some_and(|r| r.contains(part)));
            assert!(fits, "{text}: {refusal:?}");
            assert!(!refusal.unwrap_or_default().contains("canary"), "{text}");
        }
    }

    #[test]
    fn names_of_the_local_kind_are_known() {
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
