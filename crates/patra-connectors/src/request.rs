//! Rendering one request from the snapshot, the slice and the position.

use bytes::Bytes;
use serde_json::json;
use url::Url;

use patra_core::paging::Position;
use patra_core::port::transport::{Limits, Method, Request};
use patra_core::{Code, Fault, Level, Window, hash};
use patra_spec::expr::{Context, Page};
use patra_spec::{Snapshot, Template};

/// The templates of one endpoint, compiled once.
#[derive(Debug)]
pub(crate) struct Renderer {
    method: Method,
    base: Url,
    path: Template,
    query: Vec<(String, Template)>,
    headers: Vec<(String, Template)>,
    body: Option<Template>,
    limits: Limits,
    page_base: u64,
}

/// A request and what the ledger keeps of it.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) request: Request,
    pub(crate) digest: String,
}

impl Renderer {
    pub(crate) fn new(spec: &Snapshot) -> Result<Renderer, Fault> {
        let base = Url::parse(&spec.http.base_url).map_err(|error| broken(&format!("base URL: {error}")))?;
        let template = |text: &str| Template::compile(text).map_err(|flaw| broken(&flaw.message));
        let templates = |map: &std::collections::BTreeMap<String, String>| {
            map.iter().map(|(name, text)| Ok((name.clone(), template(text)?))).collect::<Result<Vec<_>, Fault>>()
        };
        let default = Limits::default();
        Ok(Renderer {
            method: match spec.http.method {
                patra_spec::Method::Get => Method::Get,
                patra_spec::Method::Post => Method::Post,
            },
            base,
            path: template(&spec.http.path_template)?,
            query: templates(&spec.http.query_template)?,
            headers: templates(&spec.http.headers_template)?,
            body: spec.http.body_template.as_deref().map(template).transpose()?,
            limits: Limits {
                connect_timeout: spec.connect_timeout(),
                read_timeout: spec.read_timeout(),
                total_timeout: spec.timeout().unwrap_or(default.total_timeout),
                max_body: usize::try_from(spec.http.max_body_bytes).unwrap_or(default.max_body),
                max_redirects: 0,
            },
            page_base: u64::from(spec.pagination.as_ref().is_some_and(|paging| paging.base1 == Some(true))),
        })
    }

    pub(crate) fn render(&self, position: &Position, window: Window, page_size: u32) -> Result<Rendered, Fault> {
        let context = Context { window: Some(window), page: self.page(position, page_size), ..Context::default() };
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
                return Err(Fault::new(Code::InvalidInput, Level::L2, format!("header {name} would hold a control character")));
            }
            headers.push((name.clone(), value));
        }
        let body = match &self.body {
            Some(template) => render("the body", template)?.map(Bytes::from),
            None => None,
        };
        let digest = digest(self.method, &url, &headers, body.as_deref());
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

    fn own_url(&self, render: &impl Fn(&str, &Template) -> Result<Option<String>, Fault>) -> Result<Url, Fault> {
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

    /// A URL that the far side gave is followed only on its own host: it must not carry a credential elsewhere (G-25).
    fn next_url(&self, next: &str) -> Result<Url, Fault> {
        let url = self.base.join(next).map_err(|error| {
            Fault::new(Code::PlatformError, Level::L2, format!("the next URL is unreadable: {error}"))
        })?;
        if url.origin() != self.base.origin() {
            let reason = format!("the next URL leads to {}, not to {}", host(&url), host(&self.base));
            return Err(Fault::new(Code::Forbidden, Level::L2, reason));
        }
        Ok(url)
    }
}

fn host(url: &Url) -> &str {
    url.host_str().unwrap_or("nowhere")
}

fn broken(reason: &str) -> Fault {
    Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {reason}"))
}

/// What the ledger keeps: where the request went and with which parameters; header names, never their values.
fn digest(method: Method, url: &Url, headers: &[(String, String)], body: Option<&[u8]>) -> String {
    let query: serde_json::Map<_, _> =
        url.query_pairs().map(|(name, value)| (name.into_owned(), value.into_owned().into())).collect();
    let mut bare = url.clone();
    bare.set_query(None);
    let mut digest = json!({
        "method": match method { Method::Get => "GET", Method::Post => "POST" },
        "url": bare.as_str(),
        "query": query,
        "headers": headers.iter().map(|(name, _)| name).collect::<Vec<_>>(),
    });
    if let (Some(body), Some(map)) = (body, digest.as_object_mut()) {
        map.insert("bodyHash".into(), format!("sha256:{}", hash::sha256_hex(body)).into());
    }
    digest.to_string()
}

#[cfg(test)]
mod tests {
    use patra_core::Ts;

    use super::*;

    fn renderer(extra: &str) -> Renderer {
        let body = format!(
            r#"{{"provenanceCode":"p","endpointCode":"e","operation":"HARVEST",
            "http":{{"method":"GET","baseUrl":"https://api.example.org/v1/","pathTemplate":"/works","connectTimeoutMs":1000,"readTimeoutMs":1000,"maxBodyBytes":1000,
                "headersTemplate":{{"Accept":"application/json"}},
                "queryTemplate":{{"filter":"from:${{ window.from | date }}","rows":"${{ page.size }}","cursor":"${{ page.token }}","offset":"${{ page.offset }}"}}}},
            "response":{{"itemsPath":"$","idPath":"$"}}{extra}}}"#
        );
        Renderer::new(&Snapshot::from_body(&body).unwrap()).unwrap()
    }

    fn window() -> Window {
        Window { from: Ts::from_secs(0), to: Ts::from_secs(86_400) }
    }

    fn url(position: &Position) -> String {
        renderer("").render(position, window(), 20).unwrap().request.url
    }

    // covers: ING-5.4-06, ING-4.8-02, ING-4.8-06
    #[test]
    fn values_are_encoded_and_nulls_left_out() {
        assert_eq!(
            url(&Position::Token(Some("a+b/c=&x=1".into()))),
            "https://api.example.org/v1/works?cursor=a%2Bb%2Fc%3D%26x%3D1&filter=from%3A1970-01-01&offset=0&rows=20"
        );
        assert!(!url(&Position::Token(None)).contains("cursor"));
        assert!(url(&Position::Offset(40)).contains("offset=40"));
    }

    #[test]
    fn a_given_url_is_followed_on_its_own_host_only() {
        assert_eq!(url(&Position::Url(Some("/v1/works?page=2".into()))), "https://api.example.org/v1/works?page=2");
        let away = Position::Url(Some("https://evil.example/x".into()));
        let fault = renderer("").render(&away, window(), 20).unwrap_err();
        assert_eq!((fault.code, fault.level), (Code::Forbidden, Level::L2));
    }

    // covers: ING-9.3-04, ING-14.3-05
    #[test]
    fn the_digest_names_headers_and_keeps_no_value() {
        let rendered = renderer("").render(&Position::Token(None), window(), 20).unwrap();
        let digest: serde_json::Value = serde_json::from_str(&rendered.digest).unwrap();
        assert_eq!(digest["url"], "https://api.example.org/v1/works");
        assert_eq!(digest["headers"], json!(["Accept"]));
        assert_eq!(digest["query"]["rows"], "20");
        assert!(!rendered.digest.contains("application/json"));
    }
}
