//! The built-in manifests of the source types, and what settings change in them.

use std::sync::LazyLock;

use patra_spec::{Manifest, Problems};

use super::{PROVENANCE, TWITTER, TWITTER_RATE, address};

/// The built-in manifest of the types that need no other.
pub const BUILT_IN: &str = include_str!("../../../../sources/collector.yaml");
/// The built-in manifest of the tweet types.
pub const BUILT_IN_TWITTER: &str = include_str!("../../../../sources/twitterapi_io.yaml");
/// Setting of a contact, an address or URL, that publishers see in the User-Agent.
pub const COLLECTOR_CONTACT: &str = "collector.contact";
/// Longest contact, in bytes.
pub const MAX_CONTACT_BYTES: usize = 200;

/// The built-in manifest of this code, if any. Built-in manifests are part of the program and are tested.
pub(crate) fn built_in(code: &str) -> Option<Result<&'static Manifest, String>> {
    static COLLECTOR: LazyLock<Result<Manifest, Problems>> =
        LazyLock::new(|| patra_spec::read("sources/collector.yaml", BUILT_IN));
    static TWEETS: LazyLock<Result<Manifest, Problems>> =
        LazyLock::new(|| patra_spec::read("sources/twitterapi_io.yaml", BUILT_IN_TWITTER));
    let manifest = match code {
        PROVENANCE => &*COLLECTOR,
        TWITTER => &*TWEETS,
        _ => return None,
    };
    Some(manifest.as_ref().map_err(ToString::to_string))
}

/// The upstream of tweets for one process, before the settings in the database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TweetUpstream {
    pub base_url: Option<String>,
    pub rate: Option<String>,
}

/// The built-in manifest of sources with a contact in its User-Agent.
pub(crate) fn sources_from(contact: &str) -> Result<Manifest, String> {
    let mut manifest = built_in(PROVENANCE).ok_or("there is no manifest of sources")??.clone();
    for (name, header) in &mut manifest.defaults.http.headers {
        if name.eq_ignore_ascii_case("user-agent") {
            header.expr = header.expr.replace(')', &format!("; {contact})"));
        }
    }
    Ok(manifest)
}

/// Why a text cannot be the contact in a User-Agent.
pub fn checked_contact(text: &str) -> Result<String, String> {
    let text = text.trim();
    let fits = |c: char| c.is_ascii_graphic() && !matches!(c, '(' | ')' | '$' | '{' | '}' | '\\');
    if text.is_empty() || text.len() > MAX_CONTACT_BYTES || !text.chars().all(fits) {
        return Err(format!(
            "{text:?} is no contact: expected a URL or an e-mail address, at most {MAX_CONTACT_BYTES} bytes"
        ));
    }
    Ok(text.to_owned())
}

/// The built-in manifest of tweets, changed by settings.
pub(crate) fn tweets_from(base_url: Option<&str>, rate: Option<&str>) -> Result<Manifest, String> {
    let mut manifest = built_in(TWITTER).ok_or("there is no manifest of tweets")??.clone();
    if let Some(rate) = rate {
        let rate: u32 = rate.parse().map_err(|_| format!("`{TWITTER_RATE}` is {rate:?}: expected a whole number"))?;
        let limit = &mut manifest.defaults.rate_limit;
        (limit.refill_rate_per_sec, limit.burst) = (Some(f64::from(rate)), Some(rate));
    }
    if let Some(base_url) = base_url {
        let base_url = address(base_url)?;
        manifest.allow_http = base_url.starts_with("http:");
        manifest.defaults.http.base_url = Some(base_url.trim_end_matches('/').to_owned());
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contact_joins_the_user_agent_and_cannot_break_it() {
        let agent = |manifest: &Manifest| manifest.defaults.http.headers["User-Agent"].expr.clone();
        let plain = agent(built_in(PROVENANCE).unwrap().unwrap());
        let with = agent(&sources_from("ops@example.com").unwrap());
        assert_eq!(with, plain.replace(')', "; ops@example.com)"));
        assert_eq!(checked_contact(" https://example.com/bot ").unwrap(), "https://example.com/bot");
        let longest = "a".repeat(MAX_CONTACT_BYTES);
        assert_eq!(checked_contact(&longest).as_ref(), Ok(&longest));
        for bad in ["", "a b", "a)", "${ env }", "a\r\nX: y", "é@example.com", &format!("{longest}a")] {
            assert!(checked_contact(bad).is_err(), "{bad}");
        }
    }
}
