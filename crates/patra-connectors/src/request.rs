//! Rendering one request from the snapshot, the slice and the position.

mod body;

use serde_json::json;
use url::Url;

use patra_core::paging::Position;
use patra_core::port::transport::{Limits, Method, Request};
use patra_core::{Code, Fault, Level, Ts, Window, hash};
use patra_spec::expr::{Context, Page};
use patra_spec::{Snapshot, Template};

use body::Body;

/// The templates of one endpoint, compiled once.
#[derive(Debug)]
pub(crate) struct Renderer {
    method: Method,
    base: Url,
    path: Template,
    query: Vec<(String, Template)>,
    headers: Vec<(String, Template)>,
    body: Body,
    limits: Limits,
    page_base: u64,
    /// Hosts besides the base URL's that a next URL may lead to.
    allow_hosts: Vec<String>,
}

/// Renders one template, or says which could not be.
type Render<'r> = dyn Fn(&str, &Template) -> Result<Option<String>, Fault> + 'r;

/// A request and what the ledger keeps of it.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) request: Request,
    pub(crate) digest: String,
}

impl Renderer {
    pub(crate) fn new(spec: &Snapshot) -> Result<Renderer, Fault> {
        let base = Url::parse(&spec.http.base_url).map_err(|error| broken(&format!("base URL: {error}")))?;
        let templates = |map: &std::collections::BTreeMap<String, String>| {
            map.iter().map(|(name, text)| Ok((name.clone(), compiled(text)?))).collect::<Result<Vec<_>, Fault>>()
        };
        let default = Limits::default();
        Ok(Renderer {
            method: match spec.http.method {
                patra_spec::Method::Get => Method::Get,
                patra_spec::Method::Post => Method::Post,
            },
            base,
            path: compiled(&spec.http.path_template)?,
            query: templates(&spec.http.query_template)?,
            headers: templates(&spec.http.headers_template)?,
            body: Body::new(spec)?,
            limits: Limits {
                connect_timeout: spec.connect_timeout(),
                read_timeout: spec.read_timeout(),
                total_timeout: spec.timeout().unwrap_or(default.total_timeout),
                max_body: usize::try_from(spec.http.max_body_bytes).unwrap_or(default.max_body),
                max_redirects: spec.http.max_redirects,
            },
            page_base: u64::from(spec.pagination.as_ref().is_some_and(|paging| paging.base1 == Some(true))),
            allow_hosts: spec.pagination.as_ref().map(|paging| paging.allow_hosts.clone()).unwrap_or_default(),
        })
    }

    pub(crate) fn render(
        &self,
        position: &Position,
        window: Window,
        page_size: u32,
        now: Ts,
    ) -> Result<Rendered, Fault> {
        let page = self.page(position, page_size);
        let context = Context { window: Some(window), page, now, ..Context::default() };
        let render = |what: &str, template: &Template| {
            template.render(&context).map_err(|error| {
                Fault::new(Code::ConfigError, Level::L2, format!("{what} cannot be rendered: {error}"))
            })
        };
        let url = match position {
            Position::Url(Some(next)) => self.next_url(next)?,
            _ => self.own_url(&render)?,
        };
        let mut headers = Vec::with_capacity(self.headers.len());
        for (name, template) in &self.headers {
            let Some(value) = render(name, template)? else { continue };
            // A line break in a header value would start a header of the far side's choosing.
            if value.bytes().any(|byte| byte < b' ' && byte != b'\t') {
                return Err(Fault::new(
                    Code::InvalidInput,
                    Level::L2,
                    format!("header {name} would hold a control character"),
                ));
            }
            headers.push((name.clone(), value));
        }
        let body = self.body.render(&render)?;
        if let Some(kind) = self.body.content_type()
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        let digest = digest(self.method, &url, &headers, body.as_deref(), now);
        let request = Request { method: self.method, url: url.into(), headers, body, limits: self.limits };
        Ok(Rendered { request, digest })
    }

    fn page(&self, position: &Position, page_size: u32) -> Page {
        let size = (page_size > 0).then_some(page_size);
        match position {
            Position::Offset(offset) => {
                let no = offset / u64::from(page_size.max(1));
                Page { no: no + self.page_base, offset: *offset, size, token: None }
            }
            Position::Page(no) => {
                let offset = no.saturating_sub(self.page_base) * u64::from(page_size);
                Page { no: *no, offset, size, token: None }
            }
            Position::Token(token) => Page { no: 0, offset: 0, size, token: token.clone() },
            Position::Url(_) | Position::Time => Page { no: 0, offset: 0, size, token: None },
        }
    }

    fn own_url(&self, render: &Render<'_>) -> Result<Url, Fault> {
        let mut url = self.base.clone();
        let path = render("the path", &self.path)?.unwrap_or_default();
        let joined = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&joined);
        if !self.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for (name, template) in &self.query {
                // Values are percent-encoded here, so that no token or id can become another parameter (G-25).
                if let Some(value) = render(name, template)? {
                    pairs.append_pair(name, &value);
                }
            }
        }
        Ok(url)
    }

    /// A URL that the far side gave is followed only on its own host or one that the manifest names: it must not carry a
    /// credential elsewhere (G-25).
    fn next_url(&self, next: &str) -> Result<Url, Fault> {
        let url = self.base.join(next).map_err(|error| {
            Fault::new(Code::PlatformError, Level::L2, format!("the next URL is unreadable: {error}"))
        })?;
        let secure = url.scheme() == "https" || url.scheme() == self.base.scheme();
        let named = secure && self.allow_hosts.iter().any(|host| names(host, &url));
        let bare = url.username().is_empty() && url.password().is_none();
        if !bare || (url.origin() != self.base.origin() && !named) {
            let reason = format!("the next URL leads to {}, not to {}", place(&url), place(&self.base));
            return Err(Fault::new(Code::Forbidden, Level::L2, reason));
        }
        Ok(url)
    }
}

/// Whether an entry, `host` or `host:port`, means the URL; without a port, it is the scheme's own.
fn names(entry: &str, url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    match url.port() {
        None => entry == host,
        Some(port) => entry == format!("{host}:{port}"),
    }
}

fn place(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}://{}{port}", url.scheme(), url.host_str().unwrap_or("nowhere"))
}

fn compiled(text: &str) -> Result<Template, Fault> {
    Template::compile(text).map_err(|flaw| broken(&flaw.message))
}

fn broken(reason: &str) -> Fault {
    Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {reason}"))
}

/// What the ledger keeps: where the request went and with which parameters; header names, never their values.
fn digest(method: Method, url: &Url, headers: &[(String, String)], body: Option<&[u8]>, now: Ts) -> String {
    let query: serde_json::Map<_, _> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
    let mut bare = url.clone();
    bare.set_query(None);
    let mut digest = json!({
        "method": match method { Method::Get => "GET", Method::Post => "POST" },
        "url": bare.as_str(),
        "query": query,
        "headers": headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        // What `now()` gave, so that the request can be rendered again (C-45).
        "now": now,
    });
    if let (Some(body), Some(map)) = (body, digest.as_object_mut()) {
        map.insert("bodyHash".into(), format!("sha256:{}", hash::sha256_hex(body)).into());
    }
    digest.to_string()
}

#[cfg(test)]
mod tests;
