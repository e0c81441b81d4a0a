//! The HTTP client: connection pools, the address guard in front of them, and redirects.

mod pools;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::{self, HeaderMap};
use ipnet::IpNet;
use tokio::time::{Instant, timeout};

use patra_core::port::BoxFuture;
use patra_core::port::transport::{Error, HttpRequest, HttpResponse, Redirect, TransferLimits, Transport};

use crate::guard::AddressGuard;
use crate::guard::resolver::{Lookup, system_lookup};
use crate::hop::RequestHop;
use crate::proxy::HttpProxy;
use crate::{body, connect, fault, redirect};

use pools::ClientPools;

/// Most sets of private networks whose connections are kept; the least recently used one is dropped first.
const MAX_INNER_ROUTES: usize = 32;

/// The HTTP client of all collecting requests. Cheap to clone; clones share their connections.
///
/// A redirect is followed only while `max_redirects` allows it: with 0, a 3xx response is returned like any other; with
/// more, one redirect too many is [`Error::Redirect`].
#[derive(Clone)]
pub struct Client {
    /// The route to public addresses, or to all of them for a service of the operator.
    outer: Route,
    /// The routes that also lead into private networks.
    inner: Arc<InnerRoutes>,
}

/// Routes into private networks: those that the operator allows for all requests, and those that a request names.
struct InnerRoutes {
    /// Allowed for all.
    allow: Vec<IpNet>,
    lookup: Lookup,
    /// Ordered by use, the most recent last.
    routes: Mutex<VecDeque<Route>>,
}

/// A guard, and the connections that were opened behind it. Routes share no connections.
#[derive(Clone)]
struct Route {
    guard: Arc<AddressGuard>,
    pools: Arc<ClientPools>,
}

impl Route {
    fn new(guard: AddressGuard, lookup: Lookup) -> Result<Route, Error> {
        let guard = Arc::new(guard);
        let pools = Arc::new(ClientPools::new(Arc::clone(&guard), lookup)?);
        Ok(Route { guard, pools })
    }
}

impl InnerRoutes {
    fn new(allow: Vec<IpNet>, lookup: Lookup) -> InnerRoutes {
        InnerRoutes { allow, lookup, routes: Mutex::default() }
    }

    /// The route for requests that name these networks; `None` if it leads nowhere else.
    fn route(&self, named: &[IpNet]) -> Result<Option<Route>, Error> {
        let mut allow: Vec<_> = self.allow.iter().chain(named).copied().collect();
        if allow.is_empty() {
            return Ok(None);
        }
        allow.sort_unstable();
        allow.dedup();
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = routes.iter().position(|route| route.guard.allow == allow);
        let route = match known.and_then(|at| routes.remove(at)) {
            Some(route) => route,
            None => Route::new(AddressGuard::new(allow), Arc::clone(&self.lookup))?,
        };
        if routes.len() >= MAX_INNER_ROUTES {
            routes.pop_front();
        }
        routes.push_back(route.clone());
        Ok(Some(route))
    }
}

impl Client {
    /// Builds the client with the system's resolver. Certificates are read at the first https request.
    pub fn new(guard: AddressGuard) -> Result<Client, Error> {
        Client::with_lookup(guard, system_lookup())
    }

    /// Builds the client with another resolver; the guard still checks its results.
    pub fn with_lookup(guard: AddressGuard, lookup: Lookup) -> Result<Client, Error> {
        let outer = Route::new(AddressGuard::default(), Arc::clone(&lookup))?;
        Ok(Client { outer, inner: Arc::new(InnerRoutes::new(guard.allow, lookup)) })
    }

    /// A client for a service that the operator configured, which may be in a private network. `what` names the service
    /// in errors.
    pub(crate) fn for_operator_service(what: &str, url: &str) -> Result<Client, Error> {
        let parsed = url::Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        if parsed.is_none_or(|url| !url.has_host()) {
            return Err(Error::Invalid { reason: format!("{what} needs an http or https URL") });
        }
        let outer = Route::new(AddressGuard::open(), system_lookup())?;
        Ok(Client { outer, inner: Arc::new(InnerRoutes::new(Vec::new(), system_lookup())) })
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, Error> {
        let limits = request.limits;
        // A wait for memory ends before the exchange does, so that its error says what was missing.
        let deadline = connect::later(Instant::now(), limits.total_timeout - limits.total_timeout / 20);
        let proxy = request.proxy.as_deref().map(HttpProxy::parse).transpose()?;
        let request_origin = request.origin.clone();
        let inner = self.inner.route(&request.allow_net)?;
        let mut hop = RequestHop::first(request)?;
        self.outer.pools.move_credentials(&mut hop)?;
        let mut inside = match &request_origin {
            Some(origin) => self.is_private(origin).await,
            None => true,
        };
        let own = inner.as_ref().unwrap_or(&self.outer);
        let mut left = limits.max_redirects;
        let mut redirected: Option<Redirect> = None;
        loop {
            let (response, private) =
                self.send_hop(&hop, proxy.as_ref(), &limits, (inner.as_ref().filter(|_| inside), own)).await?;
            // A public host cannot redirect into a private network.
            inside &= private;
            let target = match redirect::location(response.status(), response.headers()) {
                Some(target) if limits.max_redirects > 0 => target,
                _ => return read_response(response, &limits, deadline, redirected).await,
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

    /// Sends one hop and waits for the head of its response. Also returns whether it went into a private network, by the
    /// route `inner`. `own` is the route to the proxy.
    async fn send_hop(
        &self,
        hop: &RequestHop,
        proxy: Option<&HttpProxy>,
        limits: &TransferLimits,
        (inner, own): (Option<&Route>, &Route),
    ) -> Result<(reqwest::Response, bool), Error> {
        match (self.send_through(&self.outer, hop, proxy, limits, own).await, inner) {
            // The address was refused before anything was sent.
            (Err(Error::Refused { .. }), Some(inner)) => {
                Ok((self.send_through(inner, hop, proxy, limits, own).await?, true))
            }
            (sent, _) => Ok((sent?, false)),
        }
    }

    async fn send_through(
        &self,
        route: &Route,
        hop: &RequestHop,
        proxy: Option<&HttpProxy>,
        limits: &TransferLimits,
        own: &Route,
    ) -> Result<reqwest::Response, Error> {
        if let Some(host) = hop.url.host() {
            let refused =
                |denied: crate::DeniedAddress| Error::Refused { host: host.to_string(), reason: denied.to_string() };
            route.guard.check_host(&host).map_err(refused)?;
        }
        if let Some(proxy) = proxy {
            // The manifest names the proxy itself, so it may be in an allowed network whatever the request is for.
            proxy.check(&own.guard, &route.guard, route.pools.lookup(), hop, limits).await?;
        }
        let mut request = reqwest::Request::new(hop.method.clone(), hop.url.clone());
        *request.headers_mut() = hop.headers.clone();
        *request.body_mut() = hop.body.clone().map(Into::into);
        let pools = if proxy.is_some() { &own.pools } else { &route.pools };
        let pool = pools.serving(hop, proxy).await?;
        let response = connect::bounded(limits, pool.execute(request)).await?;
        response.map_err(|error| fault::sending(&error, hop.host(), proxy.map(HttpProxy::host), limits))
    }
}

impl Client {
    /// Whether a URL leads to an address that only an allowed network makes reachable.
    async fn is_private(&self, url: &str) -> bool {
        let Ok(url) = url::Url::parse(url) else { return false };
        let public = AddressGuard::default();
        match url.host() {
            Some(url::Host::Domain(name)) => match (self.outer.pools.lookup())(name.to_owned()).await {
                Ok(found) => !found.is_empty() && public.filter_allowed(found).is_err(),
                Err(_) => false,
            },
            Some(literal) => public.check_host(&literal).is_err(),
            None => false,
        }
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
        formatter.debug_struct("Client").field("allow", &self.inner.allow).finish_non_exhaustive()
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
    deadline: Instant,
    redirected: Option<Redirect>,
) -> Result<HttpResponse, Error> {
    let status = response.status().as_u16();
    let headers = text_headers(response.headers());
    Ok(HttpResponse { status, headers, body: body::read(response, limits, deadline).await?, redirected })
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
