//! Explains why an upstream rejects a request: quotes the response, and the parameters of the request that it names
//! (ING-12.2-05). Both come from the redacted evidence in the ledger, so they hold no secret.

use patra_core::{Fault, Level};
use serde_json::Value;

use crate::evidence::sample_text;

/// Bytes of a response that are quoted.
const MAX_QUOTE: usize = 200;

/// Bytes of a parameter's value that are quoted, and number of parameters.
const MAX_VALUE: usize = 60;
const MAX_NAMED: usize = 3;

/// Adds an explanation to a fault of the request.
pub(crate) fn explain(fault: Fault, request_digest: &str, body: &[u8]) -> Fault {
    let words: Vec<_> = sample_text(body).split_whitespace().map(str::to_owned).collect();
    let text = words.join(" ");
    if fault.level != Level::L2 || text.is_empty() {
        return fault;
    }
    let mut message = format!("{}: {}", fault.message, cut(&text, MAX_QUOTE));
    let digest: Value = serde_json::from_str(request_digest).unwrap_or_default();
    let query = digest["query"].as_object().into_iter().flatten();
    for (name, value) in query.filter(|(name, _)| is_named(&text, name)).take(MAX_NAMED) {
        let value = cut(value.as_str().unwrap_or_default(), MAX_VALUE);
        message.push_str(&format!("; it names the parameter `{name}`, which was `{value}`"));
    }
    Fault::new(fault.code, fault.level, message)
}

/// Whether the text has the name as a word of its own.
fn is_named(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    !name.is_empty()
        && text
            .match_indices(name)
            .any(|(at, _)| !text[..at].ends_with(is_part) && !text[at + name.len()..].starts_with(is_part))
}

fn cut(text: &str, len: usize) -> String {
    if text.len() <= len {
        return text.to_owned();
    }
    format!("{}…", patra_core::text::beginning(text, len))
}

#[cfg(test)]
mod tests {
    use patra_core::Code;

    use super::*;

    fn explained(level: Level, body: &str) -> String {
        let digest = r#"{"query":{"from":"2024-01-01","limit":"9999","key":"${credential.key}"}}"#;
        explain(Fault::new(Code::PlatformError, level, "the upstream returned 400"), digest, body.as_bytes()).message
    }

    // covers: ING-12.2-05, ING-DOD-15
    #[test]
    fn rejected_request_is_explained_with_the_response_and_the_parameters_it_names() {
        assert_eq!(
            explained(Level::L2, "{\n  \"error\": \"limit must be at most 1000\"\n}"),
            "the upstream returned 400: { \"error\": \"limit must be at most 1000\" }; it names the parameter `limit`, \
             which was `9999`"
        );
        assert!(explained(Level::L2, "unknown key").ends_with("which was `${credential.key}`"), "never its value");
        assert_eq!(
            explained(Level::L2, "off-limit, limits, from_date"),
            "the upstream returned 400: off-limit, limits, from_date"
        );
        assert!(!explained(Level::L2, "write to ann@example.org").contains("ann@"));
    }

    #[test]
    fn empty_response_or_transient_fault_is_unchanged() {
        assert_eq!(explained(Level::L2, " \n "), "the upstream returned 400");
        assert_eq!(explained(Level::L1, "limit"), "the upstream returned 400");
        let long = explained(Level::L2, &"ü".repeat(900));
        assert!(long.len() < 260 && long.ends_with('…'), "{long}");
    }
}
