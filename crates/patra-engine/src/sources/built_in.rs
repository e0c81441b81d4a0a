//! The built-in manifests of the source types, and what settings change in them.

use std::sync::LazyLock;

use patra_core::state::Operation;
use patra_spec::{Manifest, Problems, Snapshot};

use super::{PROVENANCE, TWITTER, TWITTER_API, TWITTER_FEED, TWITTER_RATE, address};

/// The built-in manifest of the types that need no other.
pub const BUILT_IN: &str = include_str!("../../../../sources/collector.yaml");
/// The built-in manifest of the tweet types.
pub const BUILT_IN_TWITTER: &str = include_str!("../../../../sources/twitterapi_io.yaml");
/// The manifest that replaces it when tweets come from X's own API v2.
pub const BUILT_IN_X: &str = include_str!("../../../../sources/x_api.yaml");
/// Values of [`TWITTER_API`](super::TWITTER_API): the default, and X's own API v2.
pub const TWITTER_APIS: [&str; 2] = ["twitterapi_io", "x"];
/// Setting of a contact, an address or URL, that publishers see in the User-Agent.
pub const COLLECTOR_CONTACT: &str = "collector.contact";
/// Longest contact, in bytes.
pub const MAX_CONTACT_BYTES: usize = 200;

/// Provenance of the manifest of X's own API v2.
const X: &str = "x_api";

/// The built-in manifest of this code, if any. Built-in manifests are part of the program and are tested.
pub(crate) fn built_in(code: &str) -> Option<Result<&'static Manifest, String>> {
    static COLLECTOR: LazyLock<Result<Manifest, Problems>> =
        LazyLock::new(|| patra_spec::read("sources/collector.yaml", BUILT_IN));
    static TWEETS: LazyLock<Result<Manifest, Problems>> =
        LazyLock::new(|| patra_spec::read("sources/twitterapi_io.yaml", BUILT_IN_TWITTER));
    static X_API: LazyLock<Result<Manifest, Problems>> =
        LazyLock::new(|| patra_spec::read("sources/x_api.yaml", BUILT_IN_X));
    let manifest = match code {
        X => &*X_API,
        PROVENANCE => &*COLLECTOR,
        TWITTER => &*TWEETS,
        _ => return None,
    };
    Some(manifest.as_ref().map_err(ToString::to_string))
}

/// The upstream of tweets for one process, before the settings in the database.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TweetUpstream {
    /// One of [`TWITTER_APIS`].
    pub api: Option<String>,
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

/// The API that a poll of a user's tweets goes to, one of [`TWITTER_APIS`], if its endpoint is built in.
pub(crate) fn api_of(poll: &Snapshot) -> Option<String> {
    let has_path = |code: &str| {
        let manifest = built_in(code)?.ok()?;
        let compiled = patra_spec::compile(manifest, TWITTER_FEED, Operation::Harvest).ok()?;
        (compiled.snapshot.http.path_template == poll.http.path_template).then_some(())
    };
    let known = TWITTER_APIS.into_iter().zip([TWITTER, X]);
    known.into_iter().find(|(_, code)| has_path(code).is_some()).map(|(api, _)| api.to_owned())
}

/// The built-in manifest of tweets, changed by settings. The provenance is the same for each API: a tweet, a key and a
/// pause stay what they are when the API is changed.
pub(crate) fn tweets_from(api: Option<&str>, base_url: Option<&str>, rate: Option<&str>) -> Result<Manifest, String> {
    let code = match api {
        None | Some("twitterapi_io") => TWITTER,
        Some("x") => X,
        Some(other) => return Err(format!("`{TWITTER_API}` is {other:?}: expected {}", TWITTER_APIS.join(" or "))),
    };
    let mut manifest = built_in(code).ok_or("there is no manifest of tweets")??.clone();
    TWITTER.clone_into(&mut manifest.provenance);
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

    // covers: TWEET-23
    #[test]
    fn tweets_come_from_the_api_that_the_setting_names() {
        for (api, base_url, name, prefix) in [
            (None, "https://api.twitterapi.io", "X-API-Key", None),
            (Some("twitterapi_io"), "https://api.twitterapi.io", "X-API-Key", None),
            (Some("x"), "https://api.x.com", "Authorization", Some("Bearer ")),
        ] {
            let manifest = tweets_from(api, None, None).unwrap();
            assert_eq!(manifest.provenance, TWITTER, "tweets of both are one stream, and the key is found");
            for endpoint in [TWITTER_FEED, "twitter_list"] {
                let compiled = patra_spec::compile(&manifest, endpoint, Operation::Harvest).unwrap();
                let snapshot = &compiled.snapshot;
                assert_eq!((snapshot.http.base_url.as_str(), snapshot.polled), (base_url, true));
                assert_eq!(snapshot.pagination.as_ref().unwrap().until_param.as_deref(), Some("since_id"));
                let auth = format!("{:?}", snapshot.auth);
                assert!(auth.contains(name) && prefix.is_none_or(|prefix| auth.contains(prefix)), "{auth}");
            }
            let poll = patra_spec::compile(&manifest, TWITTER_FEED, Operation::Harvest).unwrap().snapshot;
            assert_eq!(api_of(&poll).as_deref(), Some(api.unwrap_or("twitterapi_io")), "where the users are asked for");
            assert!(manifest.endpoints.contains_key("user_info"));
        }
        assert!(tweets_from(Some("mastodon"), None, None).unwrap_err().contains("twitterapi_io or x"));
    }
}
