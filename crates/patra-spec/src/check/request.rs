//! Requests: address, templates, headers, time limits.

use std::time::Duration;

use serde_json::Value;
use url::Url;

use super::Check;
use crate::expr::Template;
use crate::manifest::{Body, Endpoint, Http, RequestParam};
use crate::words::{AuthType, Method};

/// No wait for the far side is longer (ING-4.2-08, C-44).
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(120);
const MAX_REDIRECTS: u8 = 3;
pub(super) const MAX_BODY: u64 = 256 * 1024 * 1024;
/// A manifest is stored and shown: what proves who we are must not be written in it.
const SECRET_HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie"];

impl Check<'_> {
    /// A `http` section, an endpoint's or the defaults'.
    pub(super) fn http(&mut self, path: &str, http: &Http) {
        if let Some(base_url) = &http.base_url {
            self.base_url(&format!("{path}.base_url"), base_url);
        }
        if let Some(template) = &http.path {
            let path = format!("{path}.path");
            if !template.is_empty() && !template.starts_with('/') {
                self.report_with(&path, "a path begins with `/`", format!("write /{template}"));
            }
            if template.contains(['?', '#']) {
                self.report_with(&path, "a path holds no query", "put parameters under `query`");
            }
            self.bare_template(&path, template);
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
                self.report(&format!("{path}.{key}"), format!("{limit} is not more than PT0S and at most PT2M"));
            }
        }
        if http.max_body_bytes.is_some_and(|bytes| bytes == 0 || bytes > MAX_BODY) {
            self.report(&format!("{path}.max_body_bytes"), format!("expected 1 to {MAX_BODY} bytes"));
        }
        self.redirects(path, http);
        if let Some(proxy) = &http.proxy {
            self.proxy(&format!("{path}.proxy"), proxy);
        }
    }

    /// Off unless asked for, and never a long chase (ING-4.2-09).
    fn redirects(&mut self, path: &str, http: &Http) {
        if http.max_redirects.is_some_and(|hops| hops > MAX_REDIRECTS) {
            self.report(&format!("{path}.max_redirects"), format!("expected 0 to {MAX_REDIRECTS}"));
        }
    }

    fn base_url(&mut self, path: &str, text: &str) {
        self.address(path, text);
        if Url::parse(text).is_ok_and(|url| url.query().is_some() || url.fragment().is_some()) {
            self.report_with(path, "a base URL holds no query", "put parameters under `query`");
        }
    }

    /// A URL that requests go to: encrypted unless allowed, with a host and without credentials (C-46).
    pub(super) fn address(&mut self, path: &str, text: &str) {
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(error) => {
                let message = format!("{} is no URL: {error}", crate::problem::quote(text));
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
            self.report(path, "the URL names no host");
        }
        if !url.username().is_empty() || url.password().is_some() {
            self.report(path, "credentials do not belong in a manifest");
        }
    }

    fn proxy(&mut self, path: &str, text: &str) {
        let proxy = Url::parse(text).ok().filter(|url| url.scheme() == "http" && url.has_host());
        let Some(url) = proxy else {
            let message = format!("{} is no address of a proxy", crate::problem::quote(text));
            return self.report_with(path, message, "for example http://proxy.example.org:3128");
        };
        if !url.username().is_empty() || url.password().is_some() {
            self.report(path, "credentials do not belong in a manifest");
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            self.report(path, "a proxy is a scheme, a host and a port, and nothing behind");
        }
    }

    fn header(&mut self, path: &str, name: &str, param: &RequestParam) {
        if !is_header_name(name) {
            self.report(path, format!("{} is no header name", crate::problem::quote(name)));
        }
        self.secret_header(path, name, &param.expr);
        if param.expr.chars().chain(param.default.iter().flat_map(|text| text.chars())).any(char::is_control) {
            self.report(path, "a header holds no line break or other control character");
        }
        self.request_param(path, param);
    }

    /// A header that proves who we are holds a credential by its name, and no text in its place.
    pub(super) fn secret_header(&mut self, path: &str, name: &str, template: &str) {
        let secret = SECRET_HEADERS.contains(&name.to_ascii_lowercase().as_str());
        if secret && !crate::expr::reads(template, "credential") {
            let hint = "say with `auth` which credential goes where; its value is in the vault";
            self.report_with(path, "credentials do not belong in a manifest", hint);
        }
    }

    pub(super) fn request(&mut self, path: &str, endpoint: &Endpoint) {
        if let Some(param) = &endpoint.http.url_param {
            self.url_param(path, endpoint, param);
        } else if endpoint.http.base_url.is_none() {
            let hint = "for example base_url: https://api.example.org";
            self.report_with(&format!("{path}.http.base_url"), "`base_url` is missing", hint);
        }
        let method = endpoint.http.method.unwrap_or_default();
        if endpoint.body.is_some() && method != Method::Post {
            let message = format!("a {} request has no body", method.as_str());
            self.report_with(&format!("{path}.body"), message, "set http.method to post, or remove `body`");
        }
        if let Some(Body { json, form, raw }) = &endpoint.body {
            let given = usize::from(json.is_some()) + usize::from(form.is_some()) + usize::from(raw.is_some());
            if given != 1 {
                self.report(&format!("{path}.body"), "a body is one of `json`, `form` and `raw`");
            }
        }
        if endpoint.query.contains_key("") {
            self.report(&format!("{path}.query."), "a parameter has no name");
        }
    }

    /// The whole URL comes from a source: no credential goes where anybody points.
    fn url_param(&mut self, path: &str, endpoint: &Endpoint, param: &str) {
        let at = format!("{path}.http.url_param");
        if !endpoint.params.contains_key(param) {
            let message = format!("there is no param {}", crate::problem::quote(param));
            self.report_with(&at, message, format!("declare it: params: {{ {param}: {{}} }}"));
        }
        if endpoint.polled != Some(true) {
            self.report_with(&at, "`url_param` is for endpoints that sources poll", "set `polled: true`");
        }
        let credentials =
            endpoint.auth.as_ref().is_some_and(|auth| auth.r#type.is_some_and(|kind| kind != AuthType::None));
        if credentials {
            self.report(&at, "a URL that a source names is given no credential: remove `auth` or `url_param`");
        }
    }

    /// Checks query and body, and gives every template that takes part in a request; nothing when one of them is
    /// unsound, as nobody knows then what it would have sent.
    pub(super) fn templates(&mut self, path: &str, endpoint: &Endpoint) -> Option<Vec<Template>> {
        let mut found: Vec<Option<Template>> = Vec::new();
        for (name, param) in &endpoint.query {
            found.push(self.request_param(&format!("{path}.query.{name}"), param));
        }
        if let Some(body) = &endpoint.body {
            self.body(&format!("{path}.body"), body, &mut found);
        }
        let others = endpoint.http.headers.values().map(|param| &param.expr).chain(&endpoint.http.path);
        // Reported where they stand already.
        found.extend(others.map(|text| Template::compile_with(text, &self.rules).ok()));
        found.into_iter().collect()
    }

    pub(super) fn body(&mut self, path: &str, body: &Body, found: &mut Vec<Option<Template>>) {
        if let Some(text) = &body.raw {
            // Written as a text alone, it stands at the key itself.
            let long = format!("{path}.raw");
            let at = if self.manifest.origin.places.contains_key(&long) { long.as_str() } else { path };
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

pub(super) fn is_header_name(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !name.is_empty() && name.bytes().all(fits)
}
