//! Text that looks like a secret, although its value is not known.

use patra_core::mask::{REDACTED, SecretKind, SecretSpan, spans};

use super::needles::MIN_SECRET;

/// Shortest value of a cookie that can identify a session.
const MIN_SESSION: usize = 16;

/// Describes the kind of a secret.
pub(super) fn word(span: &SecretSpan) -> &'static str {
    match span.kind {
        SecretKind::Cookie | SecretKind::CookieHeader => "a cookie",
        SecretKind::Authorization | SecretKind::Bearer => "an authorization",
        SecretKind::ApiKey => "an API key of Patra",
        SecretKind::Member => "a value under the name of a secret",
    }
}

/// Everything in a text that looks like a secret and is neither masked, a template, nor too short.
pub(super) fn secrets(text: &str) -> impl Iterator<Item = SecretSpan> {
    spans(text).filter(|span| is_literal(&text[span.range.clone()]))
}

/// The certain ones among [`secrets`], for text that Patra itself wrote: its positions and digests contain page tokens,
/// which are no secrets.
pub(super) fn certain(text: &str) -> impl Iterator<Item = SecretSpan> {
    secrets(text).filter(|span| span.kind != SecretKind::Member && span.kind != SecretKind::Cookie || is_cookie(span))
}

/// Whether a cookie is long enough to be a session: `over18=1` is none.
pub(super) fn is_session(header: &str) -> bool {
    header.split(';').filter_map(|pair| pair.split_once('=')).any(|(_, value)| value.trim().len() >= MIN_SESSION)
}

/// Whether the name is one that only sessions have.
fn is_cookie(span: &SecretSpan) -> bool {
    matches!(span.name, "web_session" | "cookie_value")
}

/// Whether a value is a literal, not a template or filler.
pub(super) fn is_literal(value: &str) -> bool {
    // The value after its scheme: `Bearer ${…}`.
    let value = value.trim().trim_start_matches('=');
    let is_scheme = |word: &str| word.len() < 16 && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let value = value.split_once(' ').filter(|(word, _)| is_scheme(word)).map_or(value, |(_, rest)| rest).trim();
    let is_template =
        ["${", "{{", "<%", "%("].iter().any(|mark| value.contains(mark)) || value.starts_with(['$', '<', '%']);
    let first = value.chars().next();
    let is_filler = value.chars().all(|c| Some(c) == first) || value.contains(REDACTED) || value.starts_with("v1.");
    value.len() >= MIN_SECRET && !is_template && !is_filler
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_masks_and_fillers_are_no_secrets() {
        for text in [
            "=Bearer {{ $json.token }}",
            "Bearer ${ credential.token }",
            "***REDACTED***",
            "xxxxxxxx",
            "<your key>",
            "$KEY",
            "abc",
        ] {
            assert!(!is_literal(text), "{text}");
        }
        for text in ["Bearer abcdef", "=Bearer abcdef", "0300379a"] {
            assert!(is_literal(text), "{text}");
        }
        assert_eq!(certain(r#"{"next":{"token":"abcdefgh"},"a1":"abcdefgh"}"#).count(), 0);
        assert_eq!(certain(r#"{"web_session":"abcdefgh","cookie_value":"abcdefgh"}"#).count(), 2);
        assert_eq!(certain("Cookie: web_session=abcdefgh; b=1").count(), 1);
        assert!(is_session("b=1; sid=0123456789abcdef") && !is_session("over18=1; lang=en"));
        assert_eq!(secrets(r#"{"token":"abcdefgh"}"#).count(), 1);
    }
}
