//! Checks requests: URL, templates, headers, timeouts.

use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::ManifestChecker;
use crate::expr::Template;
use crate::keywords::{AuthType, RequestMethod};
use crate::manifest::{BodyConfig, EndpointConfig, HttpConfig, RequestParamConfig};
use crate::network;

/// Longest allowed timeout (ING-4.2-08, C-44).
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_REDIRECTS: u8 = 3;
pub(super) const MAX_BODY: u64 = 256 * 1024 * 1024;
/// Headers that carry credentials. A manifest is stored and shown, so their values must not be in it.
const SECRET_HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie"];

impl ManifestChecker<'_> {
    /// Checks an `http` section, of an endpoint or of the defaults.
    pub(super) fn http(&mut self, path: &str, http: &HttpConfig) {
        if let Some(base_url) = &http.base_url {
            self.base_url(&format!("{path}.base_url"), base_url);
        }
        if let Some(template) = &http.path {
            let path = format!("{path}.path");
            if !template.is_empty() && !template.starts_with('/') {
                self.report_with(&path, "a path begins with `/`", format!("write /{template}"));
            }
            if template.contains(['?', '#']) {
                self.report_with(&path, "a path must not contain a query", "put parameters under `query`");
            }
            self.template_without_credential(&path, template);
        }
        for (name, param) in &http.headers {
            self.header(&format!("{path}.headers.{name}"), name, param);
        }
        for (key, limit) in
            [("connect_timeout", http.connect_timeout), ("read_timeout", http.read_timeout), ("timeout", http.timeout)]
        {
            if let Some(limit) = limit
                && (limit.0.is_zero() || limit.0 > MAX_TIMEOUT)
            {
                self.report(
                    &format!("{path}.{key}"),
                    format!("{limit} is out of range: expected more than PT0S and at most PT2M"),
                );
            }
        }
        if http.max_body_bytes.is_some_and(|bytes| bytes == 0 || bytes > MAX_BODY) {
            self.report(&format!("{path}.max_body_bytes"), format!("expected 1 to {MAX_BODY} bytes"));
        }
        self.redirects(path, http);
        if let Some(proxy) = &http.proxy {
            self.proxy(&format!("{path}.proxy"), proxy);
        }
        self.allow_net(path, http);
    }

    /// Redirects are off by default and limited (ING-4.2-09).
    fn redirects(&mut self, path: &str, http: &HttpConfig) {
        if http.max_redirects.is_some_and(|hops| hops > MAX_REDIRECTS) {
            self.report(&format!("{path}.max_redirects"), format!("expected 0 to {MAX_REDIRECTS}"));
        }
    }

    fn allow_net(&mut self, path: &str, http: &HttpConfig) {
        let networks = http.allow_net.as_deref().unwrap_or_default();
        if networks.len() > network::MAX_NETWORKS {
            self.report(&format!("{path}.allow_net"), format!("expected at most {} networks", network::MAX_NETWORKS));
        }
        for (at, text) in networks.iter().enumerate() {
            if let Err(reason) = network::parse(text) {
                self.report(&format!("{path}.allow_net[{at}]"), reason);
            }
        }
    }

    fn base_url(&mut self, path: &str, text: &str) {
        self.request_url(path, text);
        if Url::parse(text).is_ok_and(|url| url.query().is_some() || url.fragment().is_some()) {
            self.report_with(path, "a base URL must not contain a query", "put parameters under `query`");
        }
    }

    /// Checks a URL that requests go to: https unless `allow_http` is set, with a host and without credentials (C-46).
    pub(super) fn request_url(&mut self, path: &str, text: &str) {
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => {
                let message = format!("{} is not a valid URL: {error}", crate::problem::quote(text));
                return self.report_with(path, message, "for example https://api.example.org");
            }
        };
        match url.scheme() {
            "https" => {}
            "http" if self.manifest.allow_http => {}
            "http" => self.report_with(path, "plain HTTP is not allowed", "use https, or set `allow_http: true`"),
            other => self.report(path, format!("`{other}` is not supported, expected https")),
        }
        if !url.has_host() {
            self.report(path, "the URL has no host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.report(path, "credentials do not belong in a manifest");
        }
    }

    fn proxy(&mut self, path: &str, text: &str) {
        let proxy = Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.has_host());
        let Some(url) = proxy else {
            let message = format!("{} is not a valid proxy URL", crate::problem::quote(text));
            return self.report_with(path, message, "for example http://proxy.example.org:3128");
        };
        if !url.username().is_empty() || url.password().is_some() {
            self.report(path, "credentials do not belong in a manifest");
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            self.report(path, "a proxy URL has a scheme, a host and a port only");
        }
    }

    fn header(&mut self, path: &str, name: &str, param: &RequestParamConfig) {
        if !is_header_name(name) {
            self.report(path, format!("{} is not a valid header name", crate::problem::quote(name)));
        } else if is_managed_header(name) {
            self.managed_header(path, name);
        }
        self.secret_header(path, name, &param.expr);
        if param.expr.chars().chain(param.default.iter().flat_map(|text| text.chars())).any(char::is_control) {
            self.report(path, "a header must not contain line breaks or other control characters");
        }
        self.request_param(path, param);
    }

    /// Reports a header that the HTTP client sets.
    pub(super) fn managed_header(&mut self, path: &str, name: &str) {
        let message = format!("{} is set by the HTTP client", crate::problem::quote(name));
        self.report_with(path, message, "remove it; the URL and the body determine its value");
    }

    /// A credential header must reference `credential.<name>` and must not contain literal text.
    pub(super) fn secret_header(&mut self, path: &str, name: &str, template: &str) {
        let secret = SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        if secret && !crate::expr::reads(template, "credential") {
            let hint = "use `auth` to reference the credential; its value is in the vault";
            self.report_with(path, "credentials do not belong in a manifest", hint);
        }
    }

    pub(super) fn request(&mut self, path: &str, endpoint: &EndpointConfig) {
        if let Some(param) = &endpoint.http.url_param {
            self.url_param(path, endpoint, param);
        } else if endpoint.http.base_url.is_none() {
            let hint = "for example base_url: https://api.example.org";
            self.report_with(&format!("{path}.http.base_url"), "`base_url` is missing", hint);
        }
        let method = endpoint.http.method.unwrap_or_default();
        if endpoint.body.is_some() && method != RequestMethod::Post {
            let message = format!("a {} request has no body", method.as_str());
            self.report_with(&format!("{path}.body"), message, "set http.method to post, or remove `body`");
        }
        if let Some(BodyConfig { json, form, raw }) = &endpoint.body {
            let given = usize::from(json.is_some()) + usize::from(form.is_some()) + usize::from(raw.is_some());
            if given != 1 {
                self.report(&format!("{path}.body"), "a body is one of `json`, `form` and `raw`");
            }
        }
        if endpoint.query.contains_key("") {
            self.report(&format!("{path}.query."), "a parameter has no name");
        }
    }

    /// `url_param` takes the whole URL from a source, so such requests must not carry a credential.
    fn url_param(&mut self, path: &str, endpoint: &EndpointConfig, param: &str) {
        let at = format!("{path}.http.url_param");
        if !endpoint.params.contains_key(param) {
            let message = format!("there is no param {}", crate::problem::quote(param));
            self.report_with(&at, message, format!("declare it: params: {{ {param}: {{}} }}"));
        }
        if endpoint.polled != Some(true) {
            self.report_with(&at, "`url_param` is for polled endpoints", "set `polled: true`");
        }
        let credentials =
            endpoint.auth.as_ref().is_some_and(|auth| auth.r#type.is_some_and(|kind| kind != AuthType::None));
        if credentials {
            self.report(
                &at,
                "a request to a URL from a source cannot carry a credential: remove `auth` or `url_param`",
            );
        }
    }

    /// Checks query and body and returns every template of the request. Returns `None` if one of them is invalid,
    /// because its variables are then unknown.
    pub(super) fn templates(&mut self, path: &str, endpoint: &EndpointConfig) -> Option<Vec<Template>> {
        let mut found: Vec<Option<Template>> = Vec::new();
        for (name, param) in &endpoint.query {
            found.push(self.request_param(&format!("{path}.query.{name}"), param));
        }
        if let Some(body) = &endpoint.body {
            self.body(&format!("{path}.body"), body, &mut found);
        }
        let others = endpoint.http.headers.values().map(|param| &param.expr).chain(&endpoint.http.path);
        // Problems in these were reported by `http`.
        found.extend(others.map(|text| Template::compile_with(text, &self.rules).ok()));
        found.into_iter().collect()
    }

    pub(super) fn body(&mut self, path: &str, body: &BodyConfig, found: &mut Vec<Option<Template>>) {
        if let Some(text) = &body.raw {
            // In short form the body text is at the `body` key itself.
            let long = format!("{path}.raw");
            let at = if self.manifest.origin.spans.contains_key(&long) { long.as_str() } else { path };
            found.push(self.template(at, text));
        }
        for (name, param) in body.form.iter().flatten() {
            found.push(self.request_param(&format!("{path}.form.{name}"), param));
        }
        if let Some(json) = &body.json {
            self.json_templates(&format!("{path}.json"), json, found);
        }
    }

    fn json_templates(&mut self, path: &str, json: &Value, found: &mut Vec<Option<Template>>) {
        match json {
            Value::String(text) => found.push(self.template(path, text)),
            Value::Array(items) => {
                for (at, item) in items.iter().enumerate() {
                    self.json_templates(&format!("{path}[{at}]"), item, found);
                }
            }
            Value::Object(map) => {
                for (key, value) in map {
                    self.json_templates(&format!("{path}.{key}"), value, found);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

/// Headers that belong to the connection or to the framing of the body. The HTTP client sets them; another value could
/// make two servers on the way disagree about where a request ends.
const MANAGED_HEADERS: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn is_managed_header(name: &str) -> bool {
    MANAGED_HEADERS.iter().any(|managed| managed.eq_ignore_ascii_case(name))
}

pub(super) fn is_header_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(fits)
}
