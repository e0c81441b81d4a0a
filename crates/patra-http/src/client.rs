//! The HTTP client: connection pools, the address guard in front of them, and redirects.

mod pools;

use std::fmt;
use std::sync::Arc;

use http::header::{self, HeaderMap};
use tokio::time::timeout;

use patra_core::port::BoxFuture;
use patra_core::port::transport::{Error, HttpRequest, HttpResponse, Redirect, TransferLimits, Transport};

use crate::guard::AddressGuard;
use crate::guard::resolver::{Lookup, system_lookup};
use crate::hop::RequestHop;
use crate::proxy::HttpProxy;
use crate::{body, connect, fault, redirect};

use pools::ClientPools;

/// The HTTP client of all collecting requests. Cheap to clone; clones share their connections.
///
/// A redirect is followed only while `max_redirects` allows it: with 0, a 3xx response is returned like any other; with
/// more, one redirect too many is [`Error::Redirect`].
#[derive(Clone)]
pub struct Client {
    guard: Arc<AddressGuard>,
    pools: Arc<ClientPools>,
}

impl Client {
    /// Builds the client with the system's resolver. Certificates are read at the first https request.
    pub fn new(guard: AddressGuard) -> Result<Client, Error> {
        Client::with_lookup(guard, system_lookup())
    }

    /// Builds the client with another resolver; the guard still checks its results.
    pub fn with_lookup(guard: AddressGuard, lookup: Lookup) -> Result<Client, Error> {
        let guard = Arc::new(guard);
        let pools = Arc::new(ClientPools::new(Arc::clone(&guard), lookup)?);
        Ok(Client { guard, pools })
    }

    /// A client for a service that the operator configured, which may be in a private network. `what` names the service
    /// in errors.
    pub(crate) fn for_operator_service(what: &str, url: &str) -> Result<Client, Error> {
        let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none_or(|url| !url.has_host()) {
            return Err(Error::Invalid { reason: format!("{what} needs an http or https URL") });
        }
        Client::new(AddressGuard::open())
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        let limits = request.limits;
        let proxy = request.proxy.as_deref().map(HttpProxy::parse).transpose()?;
        let mut hop = RequestHop::first(request)?;
        self.pools.move_credentials(&mut hop)?;
        let mut left = limits.max_redirects;
        let mut redirected: Option<Redirect> = None;
        loop {
            let response = self.send_hop(&hop, proxy.as_ref(), &limits).await?;
            let target = match redirect::location(response.status(), response.headers()) {
                Some(target) if limits.max_redirects > 0 => target,
                _ => return read_response(response, &limits, redirected).await,
            };
            if left == 0 {
                return Err(Error::Redirect { reason: format!("more than {} redirects", limits.max_redirects) });
            }
            left -= 1;
            let next = redirect::next(&hop, response.status(), &target)?;
            tracing::debug!(from = hop.host(), to = next.host(), status = response.status().as_u16(), "redirected");
            redirected = Some(record_redirect(redirected, response.status().as_u16(), next.url.as_str()));
            hop = next;
        }
    }

    /// Sends one hop and waits for the head of its response.
    async fn send_hop(
        &self,
        hop: &RequestHop,
        proxy: Option<&HttpProxy>,
        limits: &TransferLimits,
    ) -> Result<reqwest::Response, Error> {
        if let Some(host) = hop.url.host() {
            let refused =
                |denied: crate::DeniedAddress| Error::Refused { host: host.to_string(), reason: denied.to_string() };
            self.guard.check_host(&host).map_err(refused)?;
        }
        if let Some(proxy) = proxy {
            proxy.check(&self.guard, self.pools.lookup(), hop, limits).await?;
        }
        let mut request = reqwest::Request::new(hop.method.clone(), hop.url.clone());
        *request.headers_mut() = hop.headers.clone();
        *request.body_mut() = hop.body.clone().map(Into::into);
        let pool = self.pools.serving(hop, proxy).await?;
        let response = connect::bounded(limits, pool.execute(request)).await?;
        response.map_err(|error| fault::sending(&error, hop.host(), proxy.map(HttpProxy::host), limits))
    }
}

impl Transport for Client {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpResponse, Error>> {
        let after = request.limits.total_timeout;
        Box::pin(async move { timeout(after, self.exchange(request)).await.unwrap_or(Err(Error::Timeout { after })) })
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// Records one more redirect. The URL has moved permanently only if every redirect so far was permanent.
fn record_redirect(before: Option<Redirect>, status: u16, url: &str) -> Redirect {
    let unbroken = before.as_ref().is_none_or(|before| before.moved_to.as_deref() == Some(before.url.as_str()));
    let moved_to = match (unbroken && matches!(status, 301 | 308), before) {
        (true, _) => Some(url.to_owned()),
        (false, before) => before.and_then(|before| before.moved_to),
    };
    Redirect { url: url.to_owned(), moved_to }
}

async fn read_response(
    response: reqwest::Response,
    limits: &TransferLimits,
    redirected: Option<Redirect>,
) -> Result<HttpResponse, Error> {
    let status = response.status().as_u16();
    let headers = text_headers(response.headers());
    Ok(HttpResponse { status, headers, body: body::read(response, limits).await?, redirected })
}

/// Headers as text. Encoding and length headers are left out if the body was decompressed.
fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let decompressed = headers.contains_key(header::CONTENT_ENCODING);
    headers
        .iter()
        .filter(|(name, _)| !(decompressed && [header::CONTENT_ENCODING, header::CONTENT_LENGTH].contains(name)))
        .map(|(name, value)| (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: COLL-121
    #[test]
    fn permanent_redirects_are_recorded_until_the_first_temporary_one() {
        let walk = |hops: &[(u16, &str)]| {
            hops.iter().fold(None, |before, (status, url)| Some(record_redirect(before, *status, url)))
        };
        let moved = |hops: &[(u16, &str)]| walk(hops).and_then(|end: Redirect| end.moved_to);
        assert_eq!(moved(&[(301, "a"), (308, "b")]).as_deref(), Some("b"));
        assert_eq!(moved(&[(301, "a"), (302, "b"), (301, "c")]).as_deref(), Some("a"));
        assert_eq!(moved(&[(302, "a"), (301, "b")]), None);
        assert_eq!(walk(&[(302, "a"), (301, "b")]).map(|end| end.url).as_deref(), Some("b"));
    }
}
