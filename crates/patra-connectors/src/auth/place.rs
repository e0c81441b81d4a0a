//! Puts a value in its position: a header, a query parameter, a member of the body.

use std::borrow::Cow;

use base64::Engine as _;
use bytes::Bytes;
use url::form_urlencoded;
use zeroize::Zeroizing;

use patra_core::hash::canonical_text;
use patra_core::port::transport::HttpRequest;
use patra_core::state::AuthType;
use patra_core::{Code, Fault, Level};
use patra_spec::{AuthLocation, snapshot};

use super::{OpenedCredential, name};

/// Adds the credential, or its token, at the position that the spec names.
pub(super) fn place(
    request: &mut HttpRequest,
    auth: &snapshot::AuthSpec,
    kind: AuthType,
    opened: &OpenedCredential<'_>,
) -> Result<(), Fault> {
    let value = match kind {
        AuthType::ApiKey => opened.value(name::API_KEY)?.expose().to_owned(),
        AuthType::Bearer => opened.value(name::TOKEN)?.expose().to_owned(),
        AuthType::Cookie => opened.value(name::COOKIE)?.expose().to_owned(),
        AuthType::Basic => basic(opened.value(name::USERNAME)?.expose(), opened.value(name::PASSWORD)?.expose()),
        AuthType::OAuth2 | AuthType::Session => opened.value(name::ACCESS_TOKEN)?.expose().to_owned(),
        // A hook signs; a key that is sent with the signature has one of these names.
        AuthType::Custom => match opened.value(name::API_KEY).or_else(|_| opened.value(name::TOKEN)) {
            Ok(secret) => secret.expose().to_owned(),
            Err(_) => return Ok(()),
        },
    };
    let value = Zeroizing::new(format!("{}{}", auth.prefix, *Zeroizing::new(value)));
    match auth.location {
        AuthLocation::Header => header(request, &auth.name, &value),
        AuthLocation::Query => {
            query(request, &auth.name, &value);
            Ok(())
        }
        AuthLocation::Body => body(request, &auth.name, &value),
    }
}

/// User and password as RFC 7617 writes them.
pub(super) fn basic(username: &str, password: &str) -> String {
    let pair = Zeroizing::new(format!("{username}:{password}"));
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair.as_bytes()))
}

pub(super) fn header(request: &mut HttpRequest, name: &str, value: &str) -> Result<(), Fault> {
    check_header(name, value)?;
    request.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    request.headers.push((name.to_owned(), value.to_owned()));
    Ok(())
}

/// A line break in a value would start another header.
pub(super) fn check_header(name: &str, value: &str) -> Result<(), Fault> {
    let forbidden = |byte: u8| (byte < b' ' && byte != b'\t') || byte == 0x7f;
    if value.bytes().any(forbidden) {
        let message =
            format!("the credential for header {name} holds a control character, perhaps a line break at its end");
        return Err(Fault::new(Code::InvalidInput, Level::L4, message));
    }
    Ok(())
}

/// Sets a query parameter, and replaces others of its name. The rest of the query stays as it is written.
pub(super) fn query(request: &mut HttpRequest, name: &str, value: &str) {
    retain(request, |pair| decoded_name(pair) != name);
    let (url, fragment) = split_fragment(&request.url);
    let joint = match url.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    request.url = format!("{url}{joint}{}={}{fragment}", encoded(name), encoded(value));
}

/// Removes pairs of the query.
pub(super) fn retain(request: &mut HttpRequest, keep: impl Fn(&str) -> bool) {
    let (url, fragment) = split_fragment(&request.url);
    let Some((bare, query)) = url.split_once('?') else { return };
    let kept: Vec<_> = query.split('&').filter(|pair| keep(pair)).collect();
    let joint = if kept.is_empty() { "" } else { "?" };
    request.url = format!("{bare}{joint}{}{fragment}", kept.join("&"));
}

/// The pairs of the query, decoded.
pub(super) fn pairs(url: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    let (url, _) = split_fragment(url);
    form_urlencoded::parse(url.split_once('?').map_or("", |(_, query)| query).as_bytes())
}

fn split_fragment(url: &str) -> (&str, &str) {
    url.find('#').map_or((url, ""), |at| url.split_at(at))
}

fn decoded_name(pair: &str) -> Cow<'_, str> {
    form_urlencoded::parse(pair.as_bytes()).next().map_or(Cow::Borrowed(""), |(name, _)| name)
}

fn body(request: &mut HttpRequest, name: &str, value: &str) -> Result<(), Fault> {
    let text = request.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
    let filled = match body_kind(request) {
        BodyKind::Json => member(text, name, value).ok_or_else(|| {
            Fault::new(Code::ConfigError, Level::L4, "the JSON body is no object, so no credential can be put into it")
        })?,
        BodyKind::Form => {
            let joint = if text.is_empty() { "" } else { "&" };
            format!("{text}{joint}{}={}", encoded(name), encoded(value))
        }
        BodyKind::Other if request.body.is_none() => {
            header(request, "Content-Type", "application/x-www-form-urlencoded")?;
            format!("{}={}", encoded(name), encoded(value))
        }
        BodyKind::Xml | BodyKind::Other => {
            let message = "a credential can be put into a JSON or form body only";
            return Err(Fault::new(Code::ConfigError, Level::L4, message));
        }
    };
    request.body = Some(Bytes::from(filled));
    Ok(())
}

/// The object with one more member at its front. The rest stays as it is written.
fn member(text: &str, name: &str, value: &str) -> Option<String> {
    let text = if text.trim().is_empty() { "{}" } else { text.trim() };
    let rest = text.strip_prefix('{')?;
    let joint = if rest.trim_start().starts_with('}') { "" } else { "," };
    Some(format!("{{{}:{}{joint}{rest}", canonical_text(name), canonical_text(value)))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyKind {
    Json,
    Form,
    Xml,
    Other,
}

pub(super) fn body_kind(request: &HttpRequest) -> BodyKind {
    let kind = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let kind = kind.map(|(_, value)| value.to_ascii_lowercase()).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    match kind {
        "application/x-www-form-urlencoded" => BodyKind::Form,
        _ if kind.ends_with("json") => BodyKind::Json,
        _ if kind.ends_with("xml") => BodyKind::Xml,
        _ => BodyKind::Other,
    }
}

pub(super) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// The text as it stands between the quotes of a JSON text.
pub(super) fn in_json(text: &str) -> String {
    let quoted = Zeroizing::new(canonical_text(text));
    quoted[1..quoted.len() - 1].to_owned()
}

pub(super) fn in_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            other => out.push(other),
        }
    }
    out
}
