//! The client: connection pools, the guard in front of them, and the walk from hop to hop.

mod pools;

use std::fmt;
use std::sync::Arc;

use http::header::{self, HeaderMap};
use tokio::time::timeout;

use patra_core::port::Boxed;
use patra_core::port::transport::{Error, Limits, Redirected, Request, Response, Transport};

use crate::guard::Guard;
use crate::guard::resolver::{Lookup, system_lookup};
use crate::hop::Hop;
use crate::proxy::Proxy;
use crate::{body, connect, fault, redirect};

use pools::Pools;

/// The way out of Patra. Cheap to clone; clones share their connections.
///
/// A redirect is followed only while `Limits::max_redirects` allows it: with 0, an answer of status 3xx is returned like
/// any other; with more, one redirect too many is [`Error::Redirect`].
#[derive(Clone)]
pub struct Client {
    guard: Arc<Guard>,
    pools: Arc<Pools>,
}

impl Client {
    /// Builds the client with the system's resolver. Reads no certificates: that happens at the first https request.
    pub fn new(guard: Guard) -> Result<Client, Error> {
        Client::with_lookup(guard, system_lookup())
    }

    /// The same with another way to look up names; what it answers is still checked by the guard.
    pub fn with_lookup(guard: Guard, lookup: Lookup) -> Result<Client, Error> {
        let guard = Arc::new(guard);
        let pools = Arc::new(Pools::new(Arc::clone(&guard), lookup)?);
        Ok(Client { guard, pools })
    }

    /// For a service that the operator named: it may stand in a private network. `what` it is stands in the error.
    pub(crate) fn to_operators_own(what: &str, url: &str) -> Result<Client, Error> {
        let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none_or(|url| !url.has_host()) {
            return Err(Error::Invalid { reason: format!("{what} needs an http or https URL") });
        }
        Client::new(Guard::open())
    }

    async fn exchange(&self, request: Request) -> Result<Response, Error> {
        let limits = request.limits;
        let proxy = request.proxy.as_deref().map(Proxy::parse).transpose()?;
        let mut hop = Hop::first(request)?;
        self.pools.move_credentials(&mut hop)?;
        let mut left = limits.max_redirects;
        let mut redirected: Option<Redirected> = None;
        loop {
            let answer = self.ask(&hop, proxy.as_ref(), &limits).await?;
            let target = match redirect::location(answer.status(), answer.headers()) {
                Some(target) if limits.max_redirects > 0 => target,
                _ => return complete(answer, &limits, redirected).await,
            };
            if left == 0 {
                return Err(Error::Redirect { reason: format!("more than {} redirects", limits.max_redirects) });
            }
            left -= 1;
            let next = redirect::next(&hop, answer.status(), &target)?;
            tracing::debug!(from = hop.host(), to = next.host(), status = answer.status().as_u16(), "redirected");
            redirected = Some(followed(redirected, answer.status().as_u16(), next.url.as_str()));
            hop = next;
        }
    }

    /// Sends one hop and waits for the head of its answer.
    async fn ask(&self, hop: &Hop, proxy: Option<&Proxy>, limits: &Limits) -> Result<reqwest::Response, Error> {
        if let Some(host) = hop.url.host() {
            let refused = |denied: crate::Denied| Error::Refused { host: host.to_string(), reason: denied.to_string() };
            self.guard.check_host(&host).map_err(refused)?;
        }
        if let Some(proxy) = proxy {
            proxy.check(&self.guard, self.pools.lookup(), hop, limits).await?;
        }
        let mut request = reqwest::Request::new(hop.method.clone(), hop.url.clone());
        *request.headers_mut() = hop.headers.clone();
        *request.body_mut() = hop.body.clone().map(Into::into);
        let pool = self.pools.serving(hop, proxy).await?;
        let answer = connect::bounded(limits, pool.execute(request)).await?;
        answer.map_err(|error| fault::sending(&error, hop.host(), proxy.map(Proxy::host), limits))
    }
}

impl Transport for Client {
    fn send(&self, request: Request) -> Boxed<'_, Result<Response, Error>> {
        let after = request.limits.total_timeout;
        Box::pin(async move { timeout(after, self.exchange(request)).await.unwrap_or(Err(Error::Timeout { after })) })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// One redirect more. It has moved for good only as long as every redirect so far said so.
fn followed(before: Option<Redirected>, status: u16, url: &str) -> Redirected {
    let unbroken = before.as_ref().is_none_or(|before| before.moved_to.as_deref() == Some(before.url.as_str()));
    let moved_to = match (unbroken && matches!(status, 301 | 308), before) {
        (true, _) => Some(url.to_owned()),
        (false, before) => before.and_then(|before| before.moved_to),
    };
    Redirected { url: url.to_owned(), moved_to }
}

async fn complete(
    answer: reqwest::Response,
    limits: &Limits,
    redirected: Option<Redirected>,
) -> Result<Response, Error> {
    let status = answer.status().as_u16();
    let headers = readable(answer.headers());
    Ok(Response { status, headers, body: body::read(answer, limits).await?, redirected })
}

/// Headers as text. Those that describe the body's wire form are left out where the body no longer has it.
fn readable(headers: &HeaderMap) -> Vec<(String, String)> {
    let unpacked = headers.contains_key(header::CONTENT_ENCODING);
    headers
        .iter()
        .filter(|(name, _)| !(unpacked && [header::CONTENT_ENCODING, header::CONTENT_LENGTH].contains(name)))
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: COLL-121
    #[test]
    fn what_has_moved_for_good_is_told_up_to_the_first_redirect_that_is_not() {
        let walk =
            |hops: &[(u16, &str)]| hops.iter().fold(None, |before, (status, url)| Some(followed(before, *status, url)));
        let moved = |hops: &[(u16, &str)]| walk(hops).and_then(|end: Redirected| end.moved_to);
        assert_eq!(moved(&[(301, "a"), (308, "b")]).as_deref(), Some("b"));
        assert_eq!(moved(&[(301, "a"), (302, "b"), (301, "c")]).as_deref(), Some("a"));
        assert_eq!(moved(&[(302, "a"), (301, "b")]), None);
        assert_eq!(walk(&[(302, "a"), (301, "b")]).map(|end| end.url).as_deref(), Some("b"));
    }
}
