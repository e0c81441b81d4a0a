//! Checks `auth`: every type has what it needs, and no credential travels unencrypted or in the wrong place (ING-4.2-01
//! to -04, ING-4.17-01, ING-4.17-09).

mod session;

use super::ManifestChecker;
use super::request::{is_header_name, is_managed_header};
use crate::keywords::AuthLocation::{Body, Header, Query};
use crate::keywords::AuthType::{self, ApiKey, Bearer, Cookie, Custom, OAuth2 as OAuth2Type, Session};
use crate::keywords::RequestMethod;
use crate::manifest::{AuthConfig, EndpointConfig, OAuth2Config};

/// Longest name of a hook, a header or a parameter.
const MAX_NAME: usize = 64;

impl ManifestChecker<'_> {
    pub(super) fn auth(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let Some(auth) = &endpoint.auth else { return };
        let path = &format!("{endpoint_path}.auth");
        let Some(kind) = auth.r#type else {
            let hint = "one of none, api_key, bearer, basic, oauth2, cookie, session, custom";
            return self.report_with(&format!("{path}.type"), "`type` is missing", hint);
        };
        self.keys_fit_auth_type(path, kind, auth);
        self.location(endpoint_path, kind, auth, endpoint);
        self.auth_name(endpoint_path, kind, auth, endpoint);
        self.signing_hook(path, kind, auth);
        self.credential_status(endpoint_path, auth, endpoint);
        if let Some(alias) = &auth.credential {
            self.code(&format!("{path}.credential"), alias);
        }
        if auth.prefix.as_deref().is_some_and(|prefix| prefix.chars().any(char::is_control)) {
            self.report(&format!("{path}.prefix"), "a prefix must not contain line breaks or other control characters");
        }
        match kind {
            OAuth2Type => self.oauth2(&format!("{path}.oauth2"), &auth.oauth2.clone().unwrap_or_default()),
            Session => self.session(endpoint_path, endpoint, &auth.session.clone().unwrap_or_default()),
            _ => {}
        }
    }

    /// Keys of another auth type would be ignored silently, so they are reported.
    fn keys_fit_auth_type(&mut self, path: &str, kind: AuthType, auth: &AuthConfig) {
        let none = kind == AuthType::None;
        for (key, there, fits) in [
            ("location", auth.location.is_some(), !none),
            ("name", auth.name.is_some(), !none),
            ("prefix", auth.prefix.is_some(), matches!(kind, ApiKey | Bearer | OAuth2Type | Session | Custom)),
            ("credential", auth.credential.is_some(), !none),
            ("required", auth.required.is_some(), !none),
            ("signing_hook", auth.signing_hook.is_some(), matches!(kind, Cookie | Custom)),
            ("credential_status", !auth.credential_status.is_empty(), !none),
            ("oauth2", auth.oauth2.is_some(), kind == OAuth2Type),
            ("session", auth.session.is_some(), kind == Session),
        ] {
            if there && !fits {
                let message = format!("`{key}` has no meaning with {} auth", kind.as_str().to_lowercase());
                self.report_with(&format!("{path}.{key}"), message, "remove it, or change `type`");
            }
        }
    }

    fn location(&mut self, endpoint_path: &str, kind: AuthType, auth: &AuthConfig, endpoint: &EndpointConfig) {
        let path = format!("{endpoint_path}.auth.location");
        let location = auth.location.unwrap_or_default();
        if location != Header && !matches!(kind, AuthType::None | ApiKey | Custom) {
            let message = format!("{} auth goes into a header", kind.as_str().to_lowercase());
            return self.report_with(&path, message, "remove `location`, or use api_key or custom");
        }
        if location != Body {
            return;
        }
        let method = endpoint.http.method.unwrap_or_default();
        if method == RequestMethod::Get {
            let hint = "use location: header or query, or http.method: post";
            self.report_with(&path, "a GET request has no body that could carry a credential", hint);
        } else if endpoint.body.as_ref().is_some_and(|body| body.raw.is_some()) {
            let message = "a credential can be put into a json or form body, not into a raw one";
            self.report_with(&path, message, "write it there as `${ credential.name }`, or use another location");
        } else if endpoint.body.as_ref().and_then(|body| body.json.as_ref()).is_some_and(|json| !json.is_object()) {
            self.report(&path, "a credential can be put into a JSON object, not into a list");
        }
    }

    fn auth_name(&mut self, endpoint_path: &str, kind: AuthType, auth: &AuthConfig, endpoint: &EndpointConfig) {
        let path = &format!("{endpoint_path}.auth.name");
        let location = auth.location.unwrap_or_default();
        let Some(name) = &auth.name else {
            if kind == ApiKey {
                let hint = "the header or parameter that the key goes into, for example name: X-Api-Key";
                self.report_with(path, "api_key auth needs `name`", hint);
            }
            return;
        };
        let fits = match location {
            Header => is_header_name(name),
            Query | Body => !name.is_empty() && !name.chars().any(char::is_control),
        };
        if !fits || name.len() > MAX_NAME {
            self.report(path, format!("{} is not a valid header or parameter name", crate::problem::quote(name)));
        }
        if location == Header && is_managed_header(name) {
            self.managed_header(path, name);
        }
        let form = endpoint.body.as_ref().and_then(|body| body.form.as_ref());
        let (other, taken) = match location {
            Header => ("http.headers", endpoint.http.headers.keys().any(|other| other.eq_ignore_ascii_case(name))),
            Query => ("query", endpoint.query.contains_key(name)),
            Body => ("body.form", form.is_some_and(|form| form.contains_key(name))),
        };
        if taken {
            self.report_with(path, format!("`{name}` is also in `{other}`"), "keep one of them");
        }
    }

    /// `signing_hook` is required for `custom` (C-46).
    fn signing_hook(&mut self, path: &str, kind: AuthType, auth: &AuthConfig) {
        let path = &format!("{path}.signing_hook");
        match &auth.signing_hook {
            None if kind == Custom => {
                let hint = "the name of a hook that signs requests, for example signing_hook: hmac_sha256";
                self.report_with(path, "custom auth needs `signing_hook`", hint);
            }
            Some(hook) => {
                let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
                if hook.is_empty() || hook.len() > MAX_NAME || !hook.chars().all(fits) {
                    let hint = format!("letters, digits, `_`, `-` and `.`, at most {MAX_NAME}");
                    self.report_with(path, format!("{} is not a valid hook name", crate::problem::quote(hook)), hint);
                }
            }
            None => {}
        }
    }

    fn credential_status(&mut self, endpoint_path: &str, auth: &AuthConfig, endpoint: &EndpointConfig) {
        for (at, status) in auth.credential_status.iter().enumerate() {
            let path = format!("{endpoint_path}.auth.credential_status[{at}]");
            if !(400..=499).contains(status) {
                self.report(&path, format!("{status} cannot mean a rejected credential: expected 400 to 499"));
            } else if endpoint.retry.retryable_status.as_ref().is_some_and(|retried| retried.contains(status)) {
                let message = format!("{status} is also in retry.retryable_status");
                self.report_with(&path, message, "a rejected credential is not retried: keep one of them");
            }
        }
    }

    /// `token_url` is required: without it an expired token could not be renewed (G-12).
    fn oauth2(&mut self, path: &str, oauth2: &OAuth2Config) {
        match &oauth2.token_url {
            None => {
                let hint = "for example token_url: https://auth.example.org/token";
                let message = "oauth2 auth needs `oauth2.token_url`: tokens expire and must be renewed";
                self.report_with(&format!("{path}.token_url"), message, hint);
            }
            Some(url) => self.request_url(&format!("{path}.token_url"), url),
        }
        for (key, value) in [
            ("token_path", &oauth2.token_path),
            ("expires_path", &oauth2.expires_path),
            ("refresh_path", &oauth2.refresh_path),
        ] {
            self.selector(&format!("{path}.{key}"), value.as_deref());
        }
        for (key, value) in [("scope", &oauth2.scope), ("audience", &oauth2.audience)] {
            if value.as_deref().is_some_and(|text| text.is_empty() || text.chars().any(char::is_control)) {
                self.report(&format!("{path}.{key}"), "expected a text without control characters");
            }
        }
        let ahead = oauth2.refresh_ahead.unwrap_or(crate::snapshot::DEFAULT_REFRESH_AHEAD);
        if let Some(life) = oauth2.expires_in
            && life <= ahead
        {
            let message = format!("a token lifetime of {life} must be more than refresh_ahead {ahead}");
            self.report_with(&format!("{path}.expires_in"), message, "lower refresh_ahead, or correct expires_in");
        }
    }
}
