//! Renders one request from the snapshot, the slice and the position.

mod body;
mod param;

use std::sync::Arc;

use ipnet::IpNet;
use serde_json::json;
use url::Url;

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{HttpMethod, HttpRequest, TransferLimits};
use patra_core::{Code, Fault, Level, Ts, hash};
use patra_spec::expr::{PageVariables, RenderContext, RenderError, TemplateRules, VariableScope};
use patra_spec::{ParamLocation, Snapshot, Template};

use crate::pager::PageRequest;
use body::BodyTemplate;
use param::ParamTemplate;

/// The templates of one endpoint, compiled once.
#[derive(Debug)]
pub(crate) struct RequestRenderer {
    method: HttpMethod,
    /// `None`: a param holds the whole URL.
    base: Option<Url>,
    url_param: Option<String>,
    /// The URL template of the manifest, for the digest.
    url_template: String,
    path: Template,
    query: Vec<ParamTemplate>,
    headers: Vec<ParamTemplate>,
    body: BodyTemplate,
    proxy: Option<String>,
    allow_net: Arc<[IpNet]>,
    respect_robots: bool,
    compression: bool,
    limits: TransferLimits,
    page_base: u64,
    has_credential: bool,
    /// Further hosts that a next URL may lead to; `*` for any.
    allow_hosts: Vec<String>,
}

/// A request and its digest for the ledger.
#[derive(Debug)]
pub(crate) struct RenderedRequest {
    pub(crate) request: HttpRequest,
    pub(crate) digest: String,
}

impl RequestRenderer {
    pub(crate) fn new(spec: &Snapshot) -> Result<RequestRenderer, Fault> {
        let base = match &spec.http.url_param {
            Some(_) => None,
            None => Some(Url::parse(&spec.http.base_url).map_err(|error| broken(&format!("base URL: {error}")))?),
        };
        let url_template = match (&base, &spec.http.url_param) {
            (None, param) => format!("${{ params.{} }}", param.as_deref().unwrap_or_default()),
            (Some(base), _) => {
                let path = spec.http.path_template.trim_start_matches('/');
                format!("{}/{path}", base.as_str().trim_end_matches('/'))
            }
        };
        let rules = spec.rules()?;
        // No credential goes into a path: it would be in logs on the way.
        let bare = TemplateRules { scope: VariableScope { credential: false, ..rules.scope.clone() }, ..rules.clone() };
        let default = TransferLimits::default();
        Ok(RequestRenderer {
            method: match spec.http.method {
                patra_spec::RequestMethod::Get => HttpMethod::Get,
                patra_spec::RequestMethod::Post => HttpMethod::Post,
            },
            base,
            url_param: spec.http.url_param.clone(),
            url_template,
            path: compiled(&spec.http.path_template, &bare)?,
            query: ParamTemplate::all(spec, &rules, ParamLocation::Query, &spec.http.query_template)?,
            headers: ParamTemplate::all(spec, &rules, ParamLocation::Header, &spec.http.headers_template)?,
            body: BodyTemplate::new(spec, &rules)?,
            proxy: spec.http.proxy.clone(),
            allow_net: spec.http.allow_net.as_slice().into(),
            respect_robots: spec.http.robots == patra_spec::RobotsRule::Respect,
            compression: spec.http.compression,
            limits: TransferLimits {
                connect_timeout: spec.connect_timeout(),
                read_timeout: spec.read_timeout(),
                total_timeout: spec.timeout().unwrap_or(default.total_timeout),
                max_body: usize::try_from(spec.http.max_body_bytes).unwrap_or(default.max_body),
                max_redirects: spec.http.max_redirects,
                cut: false,
            },
            page_base: u64::from(spec.pagination.as_ref().is_some_and(|paging| paging.base1 == Some(true))),
            has_credential: !spec.auth.is_none(),
            allow_hosts: spec.pagination.as_ref().map(|paging| paging.allow_hosts.clone()).unwrap_or_default(),
        })
    }

    pub(crate) fn render(&self, ask: &PageRequest<'_>) -> Result<RenderedRequest, Fault> {
        let PageRequest { position, window, page_size, params, now } = *ask;
        let context = RenderContext {
            window: Some(window),
            page: self.page(position, page_size),
            params: params.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect(),
            ids: if let Position::Ids { ids, .. } = position { ids.clone() } else { Vec::new() },
            now,
        };
        // A URL of the upstream has no template.
        let (url, template, origin) = match position {
            Position::Url(Some(next)) => {
                let origin = match &self.base {
                    Some(base) => base.clone(),
                    None => self.own_url(&context, params)?,
                };
                (self.next_url(next)?, None, Some(origin.into()))
            }
            _ => (self.own_url(&context, params)?, Some(self.url_template.as_str()), None),
        };
        let mut headers = Vec::with_capacity(self.headers.len());
        for param in &self.headers {
            headers.extend(param.render(&context)?.map(|value| (param.name.clone(), value)));
        }
        let body = self.body.render(&context)?;
        if let Some(kind) = self.body.content_type()
            && !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        {
            headers.push(("Content-Type".to_owned(), kind.to_owned()));
        }
        let digest = digest(self.method, template, &url, &headers, body.as_deref(), now);
        let request = HttpRequest {
            headers,
            body,
            limits: self.limits,
            proxy: self.proxy.clone(),
            compression: self.compression,
            origin,
            allow_net: Arc::clone(&self.allow_net),
            respect_robots: self.respect_robots,
            ..HttpRequest::new(self.method, url)
        };
        Ok(RenderedRequest { request, digest })
    }

    fn page(&self, position: &Position, page_size: u32) -> PageVariables {
        let size = (page_size > 0).then_some(page_size);
        match position {
            Position::Offset(offset) => {
                let no = offset / u64::from(page_size.max(1));
                PageVariables { no: no.saturating_add(self.page_base), offset: *offset, size, token: None }
            }
            Position::Page(no) => {
                let offset = no.saturating_sub(self.page_base).saturating_mul(u64::from(page_size));
                PageVariables { no: *no, offset, size, token: None }
            }
            Position::Token(token) => PageVariables { no: 0, offset: 0, size, token: token.clone() },
            Position::Url(_) | Position::Time | Position::Ids { .. } | Position::Keys { .. } => {
                PageVariables { no: 0, offset: 0, size, token: None }
            }
        }
    }

    fn own_url(&self, context: &RenderContext, params: &Params) -> Result<Url, Fault> {
        let mut url = match (&self.base, &self.url_param) {
            (Some(base), _) => base.clone(),
            (None, param) => return given_url(params, param.as_deref().unwrap_or_default()),
        };
        // Values are percent-encoded, so that none can become another segment or parameter (G-25).
        let path = self.path.render_path(context).map_err(|error| unrendered("the path", &error))?;
        let dots = |segment: &str| matches!(segment.to_ascii_lowercase().replace("%2e", ".").as_str(), "." | "..");
        if path.split('/').any(dots) {
            return Err(Fault::new(Code::InvalidInput, Level::L2, "the path would lead out of its place"));
        }
        let joined = format!("{}/{}", url.path().trim_end_matches('/'), path.trim_start_matches('/'));
        url.set_path(&joined);
        if !self.query.is_empty() {
            let mut pairs = url.query_pairs_mut();
            for param in &self.query {
                if let Some(value) = param.render(context)? {
                    pairs.append_pair(&param.name, &value);
                }
            }
        }
        // Every parameter was left out: the URL must not end in a bare `?`.
        if url.query() == Some("") {
            url.set_query(None);
        }
        Ok(url)
    }

    /// Checks a URL of the upstream. It is followed only on its own host or one that the manifest names, so that no
    /// credential goes elsewhere (G-25).
    fn next_url(&self, next: &str) -> Result<Url, Fault> {
        let read = match &self.base {
            Some(base) => base.join(next),
            None => Url::parse(next),
        };
        let url = read.map_err(|error| {
            Fault::new(Code::PlatformError, Level::L2, format!("the next URL is unreadable: {error}"))
        })?;
        let bare = url.username().is_empty() && url.password().is_none();
        // Without a credential any host is safe, if the manifest allows it.
        let anywhere = matches!(url.scheme(), "http" | "https") && self.allow_hosts.iter().any(|host| host == "*");
        let named = match &self.base {
            None => anywhere,
            Some(base) => {
                let secure = url.scheme() == "https" || url.scheme() == base.scheme();
                let named = secure && self.allow_hosts.iter().any(|host| names(host, &url));
                url.origin() == base.origin() || named || (anywhere && !self.has_credential)
            }
        };
        if !bare || !named {
            let home = self.base.as_ref().map_or_else(|| "a host that is allowed".to_owned(), place);
            let reason = format!("the next URL leads to {}, not to {home}", place(&url));
            return Err(Fault::new(Code::Forbidden, Level::L2, reason));
        }
        // A text that looks like a mark would be filled with a credential.
        if url.as_str().contains("%01") {
            return Err(Fault::new(Code::Forbidden, Level::L2, "the next URL holds a control character"));
        }
        Ok(url)
    }
}

/// Checks the URL of a source.
fn given_url(params: &Params, param: &str) -> Result<Url, Fault> {
    let refused = |reason: String| Fault::new(Code::InvalidInput, Level::L2, reason);
    let text = params.get(param).ok_or_else(|| refused(format!("the URL (`{param}`) is missing")))?;
    let url = Url::parse(text).map_err(|error| refused(format!("the URL is unreadable: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refused(format!("expected an http or https URL, found scheme `{}`", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refused("a URL holds no user and no password".to_owned()));
    }
    if url.as_str().contains("%01") {
        return Err(refused("the URL holds a control character".to_owned()));
    }
    Ok(url)
}

/// Whether an entry, `host` or `host:port`, matches the URL; without a port, the scheme's default port counts.
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

fn compiled(text: &str, rules: &TemplateRules) -> Result<Template, Fault> {
    Template::compile_with(text, rules).map_err(|flaw| broken(&flaw.message))
}

fn unrendered(what: &str, error: &RenderError) -> Fault {
    Fault::new(Code::ConfigError, Level::L2, format!("{what} cannot be rendered: {error}"))
}

fn broken(reason: &str) -> Fault {
    Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {reason}"))
}

/// The digest of the request for the ledger: URL and parameters; header names, never their values.
fn digest(
    method: HttpMethod,
    template: Option<&str>,
    url: &Url,
    headers: &[(String, String)],
    body: Option<&[u8]>,
    now: Ts,
) -> String {
    let query: serde_json::Map<_, _> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), shown(&value).into())).collect();
    let mut bare = url.clone();
    bare.set_query(None);
    let mut digest = json!({
        "method": match method { HttpMethod::Get => "GET", HttpMethod::Post => "POST" },
        "urlTemplate": template,
        "url": bare.as_str(),
        "query": query,
        "headers": headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
        // The value of `now()`, so that the request can be rendered again (C-45).
        "now": now,
    });
    if let (Some(body), Some(map)) = (body, digest.as_object_mut()) {
        map.insert("bodyHash".into(), format!("sha256:{}", hash::sha256_hex(body)).into());
    }
    digest.to_string()
}

/// A value in its template form where it has a credential: the mark names it, and the digest keeps no more.
fn shown(value: &str) -> String {
    let mut parts = value.split('\u{1}');
    let mut shown = parts.next().unwrap_or_default().to_owned();
    while let (Some(credential), Some(rest)) = (parts.next(), parts.next()) {
        shown.push_str(&format!("${{{credential}}}{rest}"));
    }
    shown
}

#[cfg(test)]
mod tests;
