//! Requests tokens, by OAuth2 or by logging in, and reads the responses. A refusal is reduced to its status and its
//! error code, because descriptions repeat what was sent.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use url::form_urlencoded;

use patra_core::credential::AccessToken;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::{self, HttpMethod, HttpRequest, HttpResponse, TransferLimits};
use patra_core::protocol::token::TokenRefused;
use patra_core::secret::Secret;
use patra_core::{Code, Fault, Level, Ts, Window};
use patra_spec::selector::PathSegment;
use patra_spec::{ClientAuth, OAuth2Grant, Selector, Snapshot, snapshot};

use super::{Authoriser, OpenedCredential, marks, name, place};
use crate::classify;
use crate::pager::PageRequest;
use crate::request::RequestRenderer;

/// The deadline of one request for a token. The lease on the refresh is much longer.
pub const TOKEN_TIMEOUT: Duration = Duration::from_secs(20);
/// Largest response with a token.
const MAX_ANSWER: usize = 1 << 20;
/// Longest lifetime that is accepted.
const MAX_LIFE: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Longest error code that is shown.
const MAX_CODE: usize = 40;

/// A token from a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreshToken {
    pub token: AccessToken,
    pub expires_at: Option<Ts>,
}

/// The login request, as a spec of its own.
pub(super) fn login(spec: &Snapshot, session: &snapshot::SessionSpec) -> Result<RequestRenderer, Fault> {
    let mut login = spec.clone();
    login.pagination = None;
    login.mapping.request_params.clear();
    login.http = snapshot::HttpSpec {
        method: session.method,
        base_url: session.url.clone(),
        headers_template: session.headers_template.clone(),
        body_template: session.body_template.clone(),
        body_json: session.body_json.clone(),
        body_form: session.body_form.clone(),
        ..snapshot::HttpSpec::default()
    };
    RequestRenderer::new(&login)
}

impl Authoriser {
    /// The request for a token. `like` is the request that needs it: both are sent the same way.
    pub fn token_request(
        &self,
        like: &HttpRequest,
        opened: &OpenedCredential<'_>,
        now: Ts,
    ) -> Result<HttpRequest, Fault> {
        let mut request = match (&self.auth.oauth2, &self.auth.session, &self.login) {
            (Some(oauth2), _, _) => oauth2_request(oauth2, opened)?,
            (_, Some(session), Some(login)) => login_request(login, session, opened, now)?,
            _ => return Err(Fault::new(Code::ConfigError, Level::L4, "the spec does not say where tokens come from")),
        };
        request.limits = TransferLimits {
            total_timeout: TOKEN_TIMEOUT,
            max_body: MAX_ANSWER,
            max_redirects: 0,
            ..TransferLimits::default()
        };
        request.proxy.clone_from(&like.proxy);
        request.allow_net = Arc::clone(&like.allow_net);
        Ok(request)
    }

    /// The token in the response; a refresh token that is not replaced stays.
    pub fn read_token(
        &self,
        answer: Result<HttpResponse, transport::Error>,
        before: Option<&AccessToken>,
        now: Ts,
    ) -> Result<FreshToken, TokenRefused> {
        let response = answer.map_err(Fault::from)?;
        if !(200..=299).contains(&response.status) {
            return Err(refusal(&response, now));
        }
        match (&self.auth.oauth2, &self.auth.session) {
            (Some(oauth2), _) => read_oauth2(oauth2, &response, before, now),
            (_, Some(session)) => read_session(session, &response, now),
            _ => Err(Fault::new(Code::ConfigError, Level::L4, "the spec does not say where tokens come from").into()),
        }
    }
}

fn oauth2_request(oauth2: &snapshot::OAuth2Spec, opened: &OpenedCredential<'_>) -> Result<HttpRequest, Fault> {
    let mut request = HttpRequest::new(HttpMethod::Post, oauth2.token_url.clone());
    let mut form = form_urlencoded::Serializer::new(String::new());
    match oauth2.grant {
        OAuth2Grant::ClientCredentials => {
            form.append_pair("grant_type", "client_credentials");
        }
        OAuth2Grant::RefreshToken => {
            // The newest refresh token: rotating ones are valid for one use.
            let newest = opened.token.and_then(|token| token.refresh.as_ref());
            let refresh = newest.map_or_else(|| opened.value(name::REFRESH_TOKEN), Ok)?;
            form.append_pair("grant_type", "refresh_token").append_pair("refresh_token", refresh.expose());
        }
        OAuth2Grant::Password => {
            form.append_pair("grant_type", "password")
                .append_pair("username", opened.value(name::USERNAME)?.expose())
                .append_pair("password", opened.value(name::PASSWORD)?.expose());
        }
    }
    for (key, value) in [("scope", &oauth2.scope), ("audience", &oauth2.audience)] {
        if let Some(value) = value {
            form.append_pair(key, value);
        }
    }
    let id = opened.value(name::CLIENT_ID)?.expose();
    match (oauth2.client_auth, opened.secrets.get(name::CLIENT_SECRET)) {
        // RFC 6749, 2.3.1: encoded first, so that a colon in the id does not end it.
        (ClientAuth::Basic, Some(secret)) => {
            let value = place::basic(&place::encoded(id), &place::encoded(secret.expose()));
            place::header(&mut request, "Authorization", &value)?;
        }
        (ClientAuth::Body, Some(secret)) => {
            form.append_pair("client_id", id).append_pair("client_secret", secret.expose());
        }
        // A public client has no secret.
        (_, None) => {
            form.append_pair("client_id", id);
        }
    }
    request.body = Some(Bytes::from(form.finish()));
    request.headers.push(("Content-Type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
    request.headers.push(("Accept".to_owned(), "application/json".to_owned()));
    Ok(request)
}

fn login_request(
    login: &RequestRenderer,
    session: &snapshot::SessionSpec,
    opened: &OpenedCredential<'_>,
    now: Ts,
) -> Result<HttpRequest, Fault> {
    let (params, window) = (Params::default(), Window { from: now, to: now });
    let ask = PageRequest { position: &Position::Time, window, page_size: 0, params: &params, now };
    let mut request = login.render(&ask)?.request;
    request.url.clone_from(&session.url);
    marks::fill(&mut request, opened)?;
    Ok(request)
}

fn read_oauth2(
    oauth2: &snapshot::OAuth2Spec,
    response: &HttpResponse,
    before: Option<&AccessToken>,
    now: Ts,
) -> Result<FreshToken, TokenRefused> {
    let document = document(response)?;
    let access = text_at(&document, &oauth2.token_path)?.ok_or_else(|| no_token(&oauth2.token_path))?;
    let refresh = text_at(&document, &oauth2.refresh_path)?.map(Secret::new);
    let refresh = refresh.or_else(|| before.and_then(|token| token.refresh.clone()));
    let declared = text_at(&document, &oauth2.expires_path)?.and_then(|text| seconds(&text));
    let life = declared.or_else(|| oauth2.expires_in.map(|iso| iso.0));
    let expires_at = life.map(|life| now + life.min(MAX_LIFE));
    Ok(FreshToken { token: AccessToken { access: Secret::new(access), refresh }, expires_at })
}

fn read_session(session: &snapshot::SessionSpec, response: &HttpResponse, now: Ts) -> Result<FreshToken, TokenRefused> {
    let access = if let Some(path) = &session.token_path {
        text_at(&document(response)?, path)?.ok_or_else(|| no_token(path))?
    } else if let Some(header) = &session.token_header {
        response.header(header).map(str::to_owned).ok_or_else(|| no_token(&format!("header {header}")))?
    } else {
        let wanted = session.cookie.as_deref().unwrap_or_default();
        cookie(response, wanted).ok_or_else(|| no_token(&format!("cookie {wanted}")))?
    };
    let expires_at = Some(now + session.expires_in.0.min(MAX_LIFE));
    Ok(FreshToken { token: AccessToken { access: Secret::new(access), refresh: None }, expires_at })
}

/// `name=value` of the cookie that the response sets, as requests carry it.
fn cookie(response: &HttpResponse, wanted: &str) -> Option<String> {
    let set = response.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
    set.map(|(_, value)| value.split(';').next().unwrap_or_default().trim()).rev().find_map(|pair| {
        let (name, value) = pair.split_once('=')?;
        (name.trim() == wanted && !value.trim().is_empty()).then(|| format!("{}={}", name.trim(), value.trim()))
    })
}

fn document(response: &HttpResponse) -> Result<Value, TokenRefused> {
    serde_json::from_slice(&response.body).map_err(|_| {
        let message = "the response to the request for a token is no JSON";
        Fault::new(Code::UpstreamAuthFailed, Level::L4, message).into()
    })
}

/// A text or a number; an empty text counts as none.
fn text_at(document: &Value, path: &str) -> Result<Option<String>, Fault> {
    let selector = Selector::parse(path).map_err(|flaw| {
        Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {path}: {}", flaw.message))
    })?;
    let mut at = document;
    for segment in selector.segments() {
        let next = match segment {
            PathSegment::Key(key) => at.get(key),
            PathSegment::Index(index) => at.get(index),
        };
        let Some(next) = next else { return Ok(None) };
        at = next;
    }
    let text = match at {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    Ok(text.filter(|text| !text.is_empty()))
}

/// A lifetime in seconds; `None` for zero and unreadable text.
fn seconds(text: &str) -> Option<Duration> {
    let seconds = text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 1.0)?;
    Duration::try_from_secs_f64(seconds).ok()
}

fn no_token(path: &str) -> Fault {
    let message = format!("the response to the request for a token holds none at {path}");
    Fault::new(Code::UpstreamAuthFailed, Level::L4, message)
}

/// G-12: a refusal is final, unless the upstream is only busy.
fn refusal(response: &HttpResponse, now: Ts) -> TokenRefused {
    let status = response.status;
    let hint =
        response.header("retry-after").and_then(|value| classify::retry_after(value, now, classify::MAX_RETRY_AFTER));
    let code = error_code(response).map(|code| format!(": {code}")).unwrap_or_default();
    let message = format!("the request for a token returned {status}{code}");
    match status {
        429 => TokenRefused { fault: Fault::transient(Code::RateLimited, message), retry_after: hint },
        408 | 425 | 500..=599 => {
            TokenRefused { fault: Fault::transient(Code::PlatformError, message), retry_after: hint }
        }
        _ => Fault::new(Code::UpstreamAuthFailed, Level::L4, message).into(),
    }
}

/// The `error` of RFC 6749, 5.2, when it has the form of one: small letters and `_`.
fn error_code(response: &HttpResponse) -> Option<String> {
    let document: Value = serde_json::from_slice(&response.body).ok()?;
    let code = document.get("error")?.as_str()?;
    let plain = code.len() <= MAX_CODE && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    plain.then(|| code.to_owned())
}
