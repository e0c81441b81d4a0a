//! The marks that templates leave for a credential: finds and replaces them, in the encoding of their position.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use patra_core::port::transport::HttpRequest;
use patra_core::secret::{MASK, Secret};
use patra_core::{Code, Fault, Level};
use patra_spec::expr::RenderContext;
use patra_spec::{Snapshot, Template};

use super::OpenedCredential;
use super::place::{self, BodyKind};

/// Encloses `credential.<name>`, in a text, in JSON and in a URL or form.
const MARK: &str = "\u{1}";
const MARK_IN_JSON: &str = "\\u0001";
const MARK_IN_URL: &str = "%01";
const WORD: &str = "credential.";

/// A rendered URL with `***` for every mark, for display.
pub fn shown_url(url: &str) -> Cow<'_, str> {
    each(url, MARK_IN_URL, |_| Ok::<_, Fault>(MASK.to_owned())).unwrap_or(Cow::Borrowed(MASK))
}

/// The rendered parameters whose template contains a credential.
pub(super) fn secret_params(spec: &Snapshot) -> Result<Vec<(String, String)>, Fault> {
    let rules = spec.rules()?;
    let mut params = Vec::new();
    for (name, text) in spec.http.query_template.iter().filter(|(_, text)| text.contains(WORD)) {
        let template = Template::compile_with(text, &rules).map_err(|flaw| {
            Fault::new(Code::ConfigError, Level::L4, format!("the snapshot is unusable: {}", flaw.message))
        })?;
        // A template that needs other values too cannot be rendered without its request.
        let rendered = template.render(&RenderContext::default()).ok().flatten();
        params.extend(rendered.filter(|text| text.contains(MARK)).map(|text| (name.clone(), text)));
    }
    Ok(params)
}

/// Restores the mark in a parameter of a next URL in which the secret was redacted.
pub(super) fn restore(request: &mut HttpRequest, name: &str, marked: &str) {
    if place::pairs(&request.url).any(|(key, value)| key == name && value.contains(MASK)) {
        place::query(request, name, marked);
    }
}

/// Fills in the values, each in the encoding of its position. A name that the credential lacks is an error.
pub(super) fn fill(request: &mut HttpRequest, opened: &OpenedCredential<'_>) -> Result<(), Fault> {
    let value = |coding: fn(&str) -> String| {
        move |name: &str| opened.value(name).map(|secret: &Secret| coding(secret.expose()))
    };
    if let Cow::Owned(url) = each(&request.url, MARK_IN_URL, value(place::encoded))? {
        request.url = url;
    }
    for (name, text) in &mut request.headers {
        if let Cow::Owned(filled) = each(text, MARK, value(str::to_owned))? {
            place::check_header(name, &filled)?;
            *text = filled;
        }
    }
    let Some(body) = &request.body else { return Ok(()) };
    let Ok(text) = std::str::from_utf8(body) else { return Ok(()) };
    let filled = match place::body_kind(request) {
        BodyKind::Form => each(text, MARK_IN_URL, value(place::encoded))?.into_owned(),
        BodyKind::Json => in_json(text, value(place::in_json), value(str::to_owned))?,
        BodyKind::Xml => each(text, MARK, value(place::in_xml))?.into_owned(),
        BodyKind::Other => each(text, MARK, value(str::to_owned))?.into_owned(),
    };
    request.body = Some(Bytes::from(filled));
    Ok(())
}

/// Removes the parts that would hold a credential: the parameter, the header, the member of a form. In any other body
/// the mark is deleted.
pub(super) fn strike(request: &mut HttpRequest) {
    let marked = |text: &str, mark: &str| text.contains(&format!("{mark}{WORD}"));
    if marked(&request.url, MARK_IN_URL) {
        place::retain(request, |pair| !marked(pair, MARK_IN_URL));
    }
    request.headers.retain(|(_, value)| !marked(value, MARK));
    let Some(text) = request.body.as_deref().and_then(|body| std::str::from_utf8(body).ok()) else { return };
    let nothing = |text: &str, mark: &str| {
        each(text, mark, |_| Ok::<_, Fault>(String::new())).map_or_else(|_| String::new(), Cow::into_owned)
    };
    let struck = match place::body_kind(request) {
        BodyKind::Form => {
            let pairs: Vec<_> = text.split('&').filter(|pair| !marked(pair, MARK_IN_URL)).collect();
            pairs.join("&")
        }
        BodyKind::Json => {
            let none = |_: &str| Ok::<_, Fault>(String::new());
            in_json(text, none, none).unwrap_or_default()
        }
        BodyKind::Xml | BodyKind::Other => nothing(text, MARK),
    };
    request.body = Some(Bytes::from(struck));
}

/// Fills the texts of a document. It is parsed and written again, so that an escape in a text is not taken for a mark.
/// A text body with bare marks is no document yet: `escaped` values go in as they stand between quotes.
fn in_json<E>(
    text: &str,
    escaped: impl Fn(&str) -> Result<String, E>,
    bare: impl Fn(&str) -> Result<String, E>,
) -> Result<String, E> {
    if text.contains(MARK) {
        return each(text, MARK, escaped).map(Cow::into_owned);
    }
    match serde_json::from_str::<Value>(text) {
        Ok(mut document) if text.contains(MARK_IN_JSON) => {
            fill_texts(&mut document, &bare)?;
            Ok(document.to_string())
        }
        _ => Ok(text.to_owned()),
    }
}

fn fill_texts<E>(document: &mut Value, value: &impl Fn(&str) -> Result<String, E>) -> Result<(), E> {
    match document {
        Value::String(text) => {
            if let Cow::Owned(filled) = each(text, MARK, value)? {
                *text = filled;
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| fill_texts(item, value)),
        Value::Object(members) => members.values_mut().try_for_each(|member| fill_texts(member, value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// Replaces every `<mark>credential.<name><mark>`. Marks come from templates only: rendered values cannot hold one.
fn each<'t, E>(text: &'t str, mark: &str, value: impl Fn(&str) -> Result<String, E>) -> Result<Cow<'t, str>, E> {
    let start = format!("{mark}{WORD}");
    let Some(first) = text.find(&start) else { return Ok(Cow::Borrowed(text)) };
    let (mut out, mut rest) = (text[..first].to_owned(), &text[first..]);
    while let Some(at) = rest.find(&start) {
        out.push_str(&rest[..at]);
        let inside = &rest[at + start.len()..];
        let Some(end) = inside.find(mark) else {
            rest = &rest[at..];
            break;
        };
        out.push_str(&value(&inside[..end])?);
        rest = &inside[end + mark.len()..];
    }
    out.push_str(rest);
    Ok(Cow::Owned(out))
}
