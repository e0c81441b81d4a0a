//! Hints for the author of a manifest about a refusal.

use patra_core::Code;
use patra_core::protocol::run::PageFailure;

pub fn hint(refusal: &PageFailure) -> &'static str {
    match (refusal.evidence.status, refusal.fault.code) {
        (_, Code::RobotsDisallowed) => "ask the site; if it lets you, write `robots: ignore` under http",
        (_, Code::NotConfigured) => "`patra credential add` puts a credential into the vault",
        (401 | 403, _) | (_, Code::UpstreamAuthFailed) => {
            "the upstream requires authentication: declare `auth`, and put the credential in with `patra credential add`"
        }
        (404, _) => "check http.base_url and http.path against the documentation of the API",
        (405, _) => "check http.method against the documentation of the API",
        (300..=399, _) => "put the address it leads to into http.base_url, or follow it with http.max_redirects",
        (429, _) | (_, Code::RateLimited) => "lower rate_limit.refill_rate_per_sec; a run waits and goes on by itself",
        (400..=499, _) => "compare the parameters, headers and body of the request with the documentation of the API",
        (500.., _) => "the upstream has a problem of its own: try again later; a run does so by itself",
        (_, Code::TimeoutError) => "http.connect_timeout, read_timeout and timeout say how long to wait",
        (_, Code::NetworkError) => "check http.base_url and the network",
        (_, Code::Forbidden) if refusal.fault.message.contains("is a loopback address") => {
            "allow its network: --allow-net 127.0.0.0/8"
        }
        (_, Code::Forbidden) if refusal.fault.message.contains("public addresses") => {
            "allow its network, such as --allow-net 10.0.0.0/8"
        }
        (_, Code::Forbidden) => "name the host of the next URL under allow_hosts of pagination",
        (_, Code::ParseError) => {
            "compare the beginning of the response with response.format, response.items_path and the paths of pagination"
        }
        (_, Code::ConfigError | Code::InvalidInput) => {
            "fix the template; --param NAME=VALUE gives what `params` declares"
        }
        _ => "docs/manifest.md says what each key means",
    }
}

/// The most frequent error when a page was read and gave few records.
pub fn advice(items: u32, rejected: usize) -> Option<&'static str> {
    match items {
        0 => Some("no items: is the window empty at the upstream (--from, --to), or does items_path miss the list?"),
        items if rejected * 2 > items as usize => {
            Some("most items were rejected: fix id_path and updated_at_path; a run stops at two such pages in a row")
        }
        _ => None,
    }
}
