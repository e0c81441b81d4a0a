//! Maps sources to endpoints: the endpoint and params of a source's polls, or why it is not supported.

mod built_in;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use url::Url;

use patra_core::Ts;
use patra_core::hash;
use patra_core::params::Params;
use patra_core::port::source::StoredSource;
use patra_core::port::{CommandsExt as _, Store};
use patra_core::source::{self, MAX_MINUTES};
use patra_core::tweet;
use patra_core::tx::{MAX_SOURCES, NewSource, NewSourceConfig, SaveSources, TxError};
use patra_spec::{Manifest, RobotsRule, network};

pub use built_in::{
    BUILT_IN, BUILT_IN_TWITTER, BUILT_IN_X, COLLECTOR_CONTACT, MAX_CONTACT_BYTES, TWITTER_APIS, TweetUpstream,
    checked_contact,
};
pub(crate) use built_in::{api_of, built_in, sources_from, tweets_from};
pub use patra_connectors::opml;

/// Provenance of the built-in manifest; an applied manifest of this code replaces it.
pub const PROVENANCE: &str = "collector";
/// Provenance of the built-in manifest of the tweet types.
pub const TWITTER: &str = "twitterapi_io";
/// Source type of a user's tweets.
pub const TWITTER_FEED: &str = "twitter_feed";
/// Settings of the API, the base URL and the request rate for tweets.
pub const TWITTER_API: &str = "twitter.api";
pub const TWITTER_BASE_URL: &str = "twitter.base_url";
pub const TWITTER_RATE: &str = "twitter.rate_per_sec";
/// Provenance of a source with its own mapping.
pub const CUSTOM: &str = "custom_api";
/// Longest name of a source, in bytes.
pub const MAX_NAME_BYTES: usize = 500;
/// Longest config of a source, in bytes.
pub const MAX_CONFIG_BYTES: usize = 64 << 10;

/// Why sources of a type are not supported; `None` when they are.
pub fn unsupported(r#type: &str) -> Option<String> {
    (!is_fetched(r#type)).then(|| StoredSource::no_fetcher(r#type))
}

fn is_fetched(r#type: &str) -> bool {
    matches!(r#type, "rss" | "digest_feed" | "website" | "hackernews" | "reddit" | "github_trending" | CUSTOM)
        || is_of_tweets(r#type)
}

/// Whether a type collects tweets, which needs a key.
pub(crate) fn is_of_tweets(r#type: &str) -> bool {
    matches!(r#type, TWITTER_FEED | "twitter_list" | "twitter_bookmarks")
}

/// The feeds among sources as a list for other feed readers.
pub fn to_opml(sources: &[StoredSource]) -> String {
    let url = |source: &StoredSource| -> Option<String> {
        let config: Value = serde_json::from_str(&source.config).ok()?;
        Some(config.get("url")?.as_str()?.to_owned())
    };
    let is_feed = |source: &&StoredSource| matches!(source.r#type.as_str(), "rss" | "digest_feed");
    let feeds: Vec<_> =
        sources.iter().filter(is_feed).filter_map(|source| Some((source.name.as_str(), url(source)?))).collect();
    opml::write("Patra", feeds.iter().map(|(name, url)| (*name, url.as_str())))
}

/// Target of a source's polls.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct PollTarget {
    pub(crate) provenance_code: String,
    pub(crate) endpoint_name: String,
    pub(crate) params: Params,
    /// Items path of a source with its own mapping.
    pub(crate) manifest: Option<Box<Manifest>>,
    /// Items path of a feed whose source declares how entries are identified.
    pub(crate) entries: Option<&'static str>,
    /// Private networks that the source may reach.
    pub(crate) allow_net: Vec<String>,
    /// Whether robots.txt decides, where the source says so.
    pub(crate) robots: Option<RobotsRule>,
}

/// A source as it was submitted.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SourceDraft {
    pub r#type: String,
    pub name: Option<String>,
    pub config: Value,
    pub is_public: bool,
    pub is_active: Option<bool>,
    pub last_fetched_at: Option<Ts>,
}

impl SourceDraft {
    /// A feed from a list.
    pub fn outlined(r#type: &str, outline: opml::OpmlOutline) -> SourceDraft {
        let config = json!({ "url": outline.url });
        SourceDraft { r#type: r#type.to_owned(), name: outline.title, config, ..SourceDraft::default() }
    }
}

/// Result of adding many sources.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImportReport {
    pub added: u64,
    pub existed: u64,
    /// Index from 1 of each invalid source, and the reason.
    pub unusable: Vec<(usize, String)>,
}

/// Adds all valid sources; an invalid entry does not affect the others.
pub async fn import(
    store: &dyn Store,
    project_key: &str,
    entries: Vec<Result<SourceDraft, String>>,
) -> Result<ImportReport, TxError> {
    let mut imported = ImportReport::default();
    let mut usable = Vec::new();
    for (at, entry) in entries.into_iter().enumerate() {
        match entry.and_then(checked) {
            // Feeds need only an address; queries for each of very many would take long.
            Ok(source) if matches!(source.r#type.as_str(), "rss" | "digest_feed" | "website") => usable.push(source),
            Ok(source) => match crate::check_source(store, &source.r#type, &source.config).await? {
                Ok(()) => usable.push(source),
                Err(reason) => imported.unusable.push((at + 1, reason)),
            },
            Err(reason) => imported.unusable.push((at + 1, reason)),
        }
    }
    for some in usable.chunks(MAX_SOURCES) {
        let save = SaveSources { project_key: project_key.to_owned(), sources: some.to_vec() };
        for saved in store.run(Arc::new(save)).await?.sources {
            *(if saved.existed { &mut imported.existed } else { &mut imported.added }) += 1;
        }
    }
    Ok(imported)
}

/// Checks a source. Returns it in its stored form, or a sentence about the problem.
pub fn checked(said: SourceDraft) -> Result<NewSource, String> {
    let SourceDraft { r#type, name, config, is_public, is_active, last_fetched_at } = said;
    let r#type = checked_type(&r#type)?;
    let NewSourceConfig { config, source_key, minutes } = checked_config(&r#type, config)?;
    let name = match name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()) {
        Some(name) => name,
        None => source_key.split_once(' ').map_or(source_key.clone(), |(_, rest)| rest.to_owned()),
    };
    let name = checked_name(&name)?;
    let is_active = is_active.unwrap_or(true);
    Ok(NewSource { r#type, name, config, source_key, minutes, is_public, is_active, last_fetched_at })
}

/// A type in its stored form.
pub fn checked_type(r#type: &str) -> Result<String, String> {
    let r#type = r#type.trim().to_ascii_lowercase();
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if r#type.is_empty() || r#type.len() > 64 || !r#type.chars().all(word) {
        return Err(format!("`type` is {type:?}: expected letters, digits and `_`, such as rss"));
    }
    Ok(r#type)
}

/// A name in its stored form; a longer one is cut.
pub fn checked_name(name: &str) -> Result<String, String> {
    let name = name.trim();
    if name.is_empty() || name.contains(|c: char| c.is_control()) {
        return Err("`name` is empty or holds a control character".to_owned());
    }
    Ok(patra_core::text::beginning(name, MAX_NAME_BYTES).to_owned())
}

/// Checks that the config is valid for the type.
pub fn checked_config(r#type: &str, config: Value) -> Result<NewSourceConfig, String> {
    let Value::Object(mut map) = config else {
        return Err("`config` must be an object, such as {\"url\": \"https://example.com/rss\"}".to_owned());
    };
    let minutes = match map.get("fetch_interval_minutes") {
        None | Some(Value::Null) => None,
        Some(value) => {
            let minutes = value.as_u64().filter(|minutes| (1..=u64::from(MAX_MINUTES)).contains(minutes));
            let reason =
                format!("`fetch_interval_minutes` is {value}: expected a whole number from 1 to {MAX_MINUTES}");
            Some(minutes.and_then(|minutes| u32::try_from(minutes).ok()).ok_or(reason)?)
        }
    };
    if let (TWITTER_FEED, Some(name)) = (r#type, map.get("username").and_then(Value::as_str)) {
        let name = tweet::username(name).map_err(|error| error.to_string())?.to_lowercase();
        map.insert("username".to_owned(), name.into());
    }
    if let Some(url) = map.get("url") {
        let url = url.as_str().ok_or("`url` must be a text")?;
        let url = address(url)?;
        map.insert("url".to_owned(), url.into());
    }
    let config = Value::Object(map);
    let text = hash::canonical(&config);
    if text.len() > MAX_CONFIG_BYTES {
        return Err(format!("`config` has more than {MAX_CONFIG_BYTES} bytes"));
    }
    if text.contains("\\u0000") {
        return Err("`config` holds a NUL character".to_owned());
    }
    // The config of an unsupported type is stored unchecked: the type may be supported one day.
    if is_fetched(r#type) {
        target(r#type, &config)?;
    }
    Ok(NewSourceConfig { source_key: source::key(r#type, &config), config: text, minutes })
}

fn address(text: &str) -> Result<String, String> {
    let mut url = Url::parse(text.trim()).map_err(|_| "`url` must be an http or https URL")?;
    // A fragment is never sent: with and without it is the same source.
    url.set_fragment(None);
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(format!("`url` must begin with http:// or https://, found `{}:`", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("`url` holds a user or a password: they would be stored and shown".to_owned());
    }
    Ok(url.into())
}

/// Whether a config lets its source into private networks, which only an administrator may do.
pub fn names_networks(config: &Value) -> bool {
    !matches!(config.get("allow_net"), None | Some(Value::Null))
}

/// Private networks that the source may reach.
fn networks(config: &Value) -> Result<Vec<String>, String> {
    if !names_networks(config) {
        return Ok(Vec::new());
    }
    let list = config.get("allow_net").and_then(Value::as_array);
    let list = list.filter(|list| list.len() <= network::MAX_NETWORKS).ok_or_else(|| {
        format!("`allow_net` must be a list of at most {} networks, such as [\"10.0.0.0/8\"]", network::MAX_NETWORKS)
    })?;
    let parsed = list.iter().map(|item| network::parse(item.as_str().unwrap_or_default()).map(|net| net.to_string()));
    parsed.collect::<Result<_, _>>().map_err(|reason| format!("`allow_net`: {reason}"))
}

/// Target of a source's polls, by its type and config.
pub(crate) fn target(r#type: &str, config: &Value) -> Result<PollTarget, String> {
    Ok(PollTarget { allow_net: networks(config)?, robots: robots(config)?, ..endpoint(r#type, config)? })
}

/// Whether robots.txt decides about the source's requests, where the source says so.
fn robots(config: &Value) -> Result<Option<RobotsRule>, String> {
    match given(config, "robots")?.as_deref() {
        None => Ok(None),
        Some("respect") => Ok(Some(RobotsRule::Respect)),
        Some("ignore") => Ok(Some(RobotsRule::Ignore)),
        Some(other) => Err(format!("`robots` is {other:?}: expected respect or ignore")),
    }
}

fn endpoint(r#type: &str, config: &Value) -> Result<PollTarget, String> {
    let of = |endpoint: &str, params: Params| PollTarget {
        provenance_code: PROVENANCE.to_owned(),
        endpoint_name: endpoint.to_owned(),
        params,
        ..PollTarget::default()
    };
    match r#type {
        "rss" | "digest_feed" | "website" => {
            let url = given(config, "url")?.ok_or("`config.url` is missing")?;
            let entries = identity(config)?;
            Ok(PollTarget { entries, ..of(r#type, Params::from([("url".to_owned(), url)])) })
        }
        "hackernews" => hackernews(config).map(|params| of(r#type, params)),
        "reddit" => {
            let mut params = taken(config, &["subreddit", "sort", "limit"])?;
            let name = params.get("subreddit").ok_or("`config.subreddit` is missing")?;
            let bare = name.trim_start_matches("/r/").trim_start_matches("r/").to_owned();
            params.insert("subreddit".to_owned(), bare);
            Ok(of(r#type, params))
        }
        "github_trending" => Ok(of(r#type, taken(config, &["language", "since"])?)),
        CUSTOM => custom(config),
        _ if is_of_tweets(r#type) => {
            let params = tweets(r#type, config)?;
            Ok(PollTarget { provenance_code: TWITTER.to_owned(), ..of(r#type, params) })
        }
        other => Err(StoredSource::no_fetcher(other)),
    }
}

/// Identity rule of a feed's entries, where the source declares one (COLL-123).
fn identity(config: &Value) -> Result<Option<&'static str>, String> {
    match given(config, "identity")?.as_deref() {
        None | Some("guid") => Ok(None),
        Some("link") => Ok(Some("$.entries_by_link")),
        Some("link_title") => Ok(Some("$.entries_by_link_title")),
        Some("content") => Ok(Some("$.entries_by_content")),
        Some(other) => Err(format!("`identity` is {other:?}: expected guid, link, link_title or content")),
    }
}

/// `filter` is a page of the site, or tags in the syntax of Algolia.
fn hackernews(config: &Value) -> Result<Params, String> {
    let mut params = taken(config, &["min_score"])?;
    let filter = given(config, "filter")?.unwrap_or_else(|| "top".to_owned());
    let (search, tags) = match filter.as_str() {
        "top" | "best" | "front_page" => ("search", "front_page"),
        "new" => ("search_by_date", "story"),
        "ask" => ("search_by_date", "ask_hn"),
        "show" => ("search_by_date", "show_hn"),
        "jobs" | "job" => ("search_by_date", "job"),
        tags => ("search_by_date", tags),
    };
    params.insert("search".to_owned(), search.to_owned());
    params.insert("tags".to_owned(), tags.to_owned());
    Ok(params)
}

/// An endpoint of an applied manifest, or a mapping of its own.
fn custom(config: &Value) -> Result<PollTarget, String> {
    if let Some(code) = given(config, "provenance")? {
        let endpoint =
            given(config, "endpoint")?.ok_or("`config.endpoint` is missing: `config.provenance` needs it")?;
        let params = match config.get("params") {
            None | Some(Value::Null) => Params::new(),
            Some(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| Ok((name.clone(), as_text(value, name)?)))
                .collect::<Result<_, String>>()?,
            Some(_) => return Err("`config.params` must be an object".to_owned()),
        };
        return Ok(PollTarget { provenance_code: code, endpoint_name: endpoint, params, ..PollTarget::default() });
    }
    let url = given(config, "url")?.or(given(config, "endpoint")?);
    let url =
        url.ok_or("`config` names neither `url` with `items_path` and `id_path`, nor `provenance` and `endpoint`")?;
    let url = address(&url)?;
    let mut response = Map::new();
    for key in ["items_path", "id_path", "updated_at_path", "updated_at_format", "format", "html", "xml", "csv"] {
        response.extend(config.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let manifest = json!({
        "provenance": CUSTOM,
        "name": "A source with its own mapping",
        "allow_http": true,
        "endpoints": { CUSTOM: {
            "polled": true,
            "kind": "article",
            "params": { "url": { "required": true } },
            "http": {
                "url_param": "url",
                "headers": config.get("headers").cloned().unwrap_or_else(|| json!({})),
                "timeout": "PT20S", "max_body_bytes": 5_242_880, "max_redirects": 3,
            },
            "response": response,
            "record": { "dedup_scope": "source" },
            "fields": config.get("fields").cloned().unwrap_or_else(|| json!({})),
            "rate_limit": { "refill_rate_per_sec": 1, "burst": 1, "scope": "host" },
            "retry": { "max_attempts": 2, "min_delay": "PT1S", "max_delay": "PT5S" },
        } },
    });
    let manifest = patra_spec::read("config", &manifest.to_string()).map_err(|problems| problems.to_string())?;
    Ok(PollTarget {
        provenance_code: CUSTOM.to_owned(),
        endpoint_name: CUSTOM.to_owned(),
        params: Params::from([("url".to_owned(), url)]),
        manifest: Some(Box::new(manifest)),
        ..PollTarget::default()
    })
}

/// A user, a list, or the owner of the credential.
fn tweets(r#type: &str, config: &Value) -> Result<Params, String> {
    let mut params = taken(config, &["limit", "include_replies"])?;
    match r#type {
        TWITTER_FEED => {
            let name = given(config, "username")?.ok_or("`config.username` is missing: whose tweets?")?;
            let name = tweet::username(&name).map_err(|error| error.to_string())?;
            params.insert("username".to_owned(), name.to_lowercase());
        }
        "twitter_list" => {
            let list = given(config, "list_id")?.ok_or("`config.list_id` is missing: which list?")?;
            params.insert("list_id".to_owned(), list);
        }
        _ => {}
    }
    Ok(params)
}

fn taken(config: &Value, names: &[&str]) -> Result<Params, String> {
    let mut params = Params::new();
    for name in names {
        params.extend(given(config, name)?.map(|value| ((*name).to_owned(), value)));
    }
    Ok(params)
}

fn given(config: &Value, name: &str) -> Result<Option<String>, String> {
    match config.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => as_text(value, name).map(|text| Some(text).filter(|text| !text.trim().is_empty())),
    }
}

fn as_text(value: &Value, name: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err(format!("`{name}` must be a text or a number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(r#type: &str, config: Value) -> Result<NewSource, String> {
        checked(SourceDraft { r#type: r#type.into(), config, ..SourceDraft::default() })
    }

    #[test]
    fn the_built_in_manifest_serves_every_type_that_is_fetched() {
        let (feeds, tweets) = (built_in(PROVENANCE).unwrap().unwrap(), built_in(TWITTER).unwrap().unwrap());
        for (name, _) in source::TYPES {
            let manifest = if is_of_tweets(name) { tweets } else { feeds };
            assert!(manifest.endpoints.contains_key(*name) || *name == CUSTOM, "{name}");
            assert_eq!(unsupported(name), None, "{name}");
        }
        assert!(unsupported("mastodon").is_some() && built_in("mastodon").is_none());
        for (manifest, name) in
            feeds.endpoints.keys().map(|name| (feeds, name)).chain([(tweets, &TWITTER_FEED.to_owned())])
        {
            let compiled = patra_spec::compile(manifest, name, patra_core::state::Operation::Harvest);
            assert!(compiled.unwrap().snapshot.polled, "{name}");
        }
    }

    // covers: TWEET-23
    #[test]
    fn questions_for_tweets_may_go_elsewhere_and_faster() {
        let manifest = tweets_from(None, Some("http://127.0.0.1:9/"), Some("50")).unwrap();
        let compiled = patra_spec::compile(&manifest, TWITTER_FEED, patra_core::state::Operation::Harvest).unwrap();
        assert_eq!(compiled.snapshot.http.base_url, "http://127.0.0.1:9");
        assert!(format!("{:?}", compiled.snapshot.rate_limit).contains("50"), "{:?}", compiled.snapshot.rate_limit);
        assert!(tweets_from(None, Some("ftp://x"), None).is_err() && tweets_from(None, None, Some("fast")).is_err());
    }

    // covers: COLL-85, COLL-86
    #[test]
    fn source_is_validated_before_it_is_stored() {
        let rss = said("RSS", json!({ "url": " https://Example.com/rss ", "fetch_interval_minutes": 60 })).unwrap();
        assert_eq!((rss.r#type.as_str(), rss.minutes), ("rss", Some(60)));
        assert_eq!(rss.source_key, "rss https://example.com/rss");
        assert_eq!(rss.name, "https://example.com/rss");
        let part = said("rss", json!({ "url": "https://example.com/rss#top" })).unwrap();
        assert_eq!(part.source_key, rss.source_key, "a fragment never reaches the upstream");
        assert_eq!(checked_name(&format!(" {} ", "é".repeat(300))).unwrap(), "é".repeat(250));
        assert!(said("podcast", json!({})).is_ok(), "a type that nobody fetches yet may be stored");
        for (r#type, config, wrong) in [
            ("", json!({}), "`type`"),
            ("a b", json!({}), "`type`"),
            ("rss", json!({}), "`config.url` is missing"),
            ("rss", json!([]), "`config` must be an object"),
            ("rss", json!({ "url": 5 }), "`url` must be a text"),
            ("rss", json!({ "url": "notaurl" }), "`url` must be an http or https URL"),
            ("rss", json!({ "url": "file:///etc/passwd" }), "http:// or https://"),
            ("rss", json!({ "url": "https://user:secret@x.test/" }), "user or a password"),
            ("rss", json!({ "url": "https://x.test/", "fetch_interval_minutes": 0 }), "fetch_interval_minutes"),
            ("rss", json!({ "url": "https://x.test/", "identity": "luck" }), "link_title"),
            ("rss", json!({ "url": "https://x.test/", "robots": "maybe" }), "respect or ignore"),
            ("reddit", json!({}), "`config.subreddit` is missing"),
            ("custom_api", json!({}), "names neither"),
            ("custom_api", json!({ "url": "https://x.test/" }), "items_path"),
            ("custom_api", json!({ "provenance": "shop" }), "`config.endpoint` is missing"),
            ("rss", json!({ "url": "https://x.test/", "note": "a\u{0}b" }), "NUL"),
        ] {
            let error = said(r#type, config.clone()).unwrap_err();
            assert!(error.contains(wrong), "{config}: {error}");
        }
    }

    #[test]
    fn poll_target_follows_from_the_config() {
        let params = |kind: &str, config: Value| target(kind, &config).unwrap().params;
        assert_eq!(params("hackernews", json!({ "filter": "ask", "min_score": 9 }))["tags"], "ask_hn");
        assert_eq!(params("hackernews", json!({}))["search"], "search");
        assert_eq!(params("reddit", json!({ "subreddit": "/r/rust" }))["subreddit"], "rust");
        let code = target(CUSTOM, &json!({ "provenance": "shop", "endpoint": "news", "params": { "n": 3 } })).unwrap();
        assert_eq!((code.provenance_code.as_str(), code.params["n"].as_str()), ("shop", "3"));
    }
}
