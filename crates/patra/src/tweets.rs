//! Settings for tweets from the environment: API key, address, users to follow. A command copies them into the database
//! when it starts, so that all processes on the database use the same.

use std::sync::Arc;

use patra_core::hash;
use patra_core::port::{CommandsExt as _, Store};
use patra_core::project;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_core::tweet;
use patra_core::tx::SaveSetting;
use patra_engine::SCRAPER_ENABLED;
use patra_engine::admin::{self, CredentialName};
use patra_engine::scrape::{self, SCRAPER_CRON};
use patra_engine::sources::{COLLECTOR_CONTACT, TWITTER, TWITTER_API, TWITTER_BASE_URL, TWITTER_RATE, TweetUpstream};

use crate::cli::Global;
use crate::error::Error;
use crate::settings::{self, Environment};
use crate::vault;

/// Alias of the credential that holds the API key from the environment.
const ALIAS: &str = "twitterapi_io_env";
/// Setting with the hash of that key, so that it is not stored again at every start.
const FINGERPRINT: &str = "twitter.key_fingerprint";

/// How much of the settings a command takes over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takeover {
    /// For a process that collects on schedule: settings that are not in the environment are cleared.
    Full,
    /// For a command that collects once: it uses the address and rate itself, and what the collector set stays.
    KeyOnly,
}

/// Copies the settings from the environment into the database.
pub(crate) async fn apply_settings(global: &Global, store: &Arc<dyn Store>, takeover: Takeover) -> Result<(), Error> {
    let environment = Environment::read();
    let upstream = from_environment(&environment)?;
    let settings = store.settings().await?;
    let set = |key: &str| settings.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    let values = match takeover {
        Takeover::Full => {
            let TweetUpstream { api, base_url, rate } = upstream;
            let own = [
                (TWITTER_API, api),
                (TWITTER_BASE_URL, base_url),
                (TWITTER_RATE, rate),
                (COLLECTOR_CONTACT, environment.contact()?),
            ];
            own.into_iter().chain(schedule(&environment)?).collect::<Vec<_>>()
        }
        Takeover::KeyOnly => Vec::new(),
    };
    settings::write(&**store, &settings, values).await?;
    store_key(global, &**store, &environment, set(FINGERPRINT)).await?;
    match takeover {
        Takeover::Full => {
            follow(&**store, &environment).await?;
            warn_if_off(&**store, &environment).await
        }
        Takeover::KeyOnly => Ok(()),
    }
}

/// Logs why scheduled scraping is off, if any setting for tweets is there (TWEET-115).
async fn warn_if_off(store: &dyn Store, environment: &Environment) -> Result<(), Error> {
    let is_set_up = ["TWITTER_", "SCRAPER_"].iter().any(|prefix| environment.beginning_with(prefix).next().is_some());
    if is_set_up && let Some(why) = scrape::off(store).await? {
        tracing::warn!(reason = why, "scheduled scraping of tweets is off");
    }
    Ok(())
}

type Settings<const N: usize> = [(&'static str, Option<String>); N];

/// The upstream of this process.
pub(crate) fn upstream() -> Result<TweetUpstream, Error> {
    from_environment(&Environment::read())
}

fn from_environment(environment: &Environment) -> Result<TweetUpstream, Error> {
    let base_url = environment.address("TWITTER_BASE_URL")?;
    let rate = environment.twitter_rate()?.map(|rate| rate.to_string());
    Ok(TweetUpstream { api: environment.twitter_api()?, base_url, rate })
}

fn schedule(environment: &Environment) -> Result<Settings<2>, Error> {
    let enabled = environment.flag("SCRAPER_ENABLED")?.map(|enabled| enabled.to_string());
    Ok([(SCRAPER_ENABLED, enabled), (SCRAPER_CRON, environment.scraper_cron()?)])
}

/// Encrypts and stores the API key if it changed.
async fn store_key(
    global: &Global,
    store: &dyn Store,
    environment: &Environment,
    known: Option<String>,
) -> Result<(), Error> {
    let key = environment.get("TWITTER_API_KEY").or(environment.get("TWITTER_BEARER_TOKEN"));
    let Some(key) = key.map(str::trim) else { return Ok(()) };
    let fingerprint = hash::digest(&["key of tweets", key]);
    if known.as_ref() == Some(&fingerprint) {
        return Ok(());
    }
    let vault = vault::load_or_create(global, vault::salt(store).await?.as_deref())?;
    let named = CredentialName { alias: ALIAS.to_owned(), provenance: Some(TWITTER.to_owned()), endpoint: None };
    let secrets = || Secrets::from([("apiKey".to_owned(), Secret::new(key))]);
    let saved = match admin::rotate(store, &vault, &named, secrets(), true).await {
        Err(admin::Error::NotFound(_)) => admin::add(store, &vault, &named, AuthType::ApiKey, None, secrets()).await,
        rotated => rotated,
    };
    saved.map_err(|error| Error::configuration(format!("cannot store the key of TwitterAPI.io: {error}")))?;
    store.run(SaveSetting { key: FINGERPRINT.to_owned(), value: Some(fingerprint) }).await?;
    Ok(())
}

/// Adds the users to follow (TWEET-97).
async fn follow(store: &dyn Store, environment: &Environment) -> Result<(), Error> {
    let Some(text) = environment.get("SCRAPER_USERNAMES") else { return Ok(()) };
    let names = tweet::usernames(text).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Error::configuration(format!("SCRAPER_USERNAMES is invalid: {}", errors.join("; ")))
    })?;
    let added = scrape::follow(store, project::DEFAULT, &names).await;
    let added = added.map_err(|error| Error::configuration(format!("SCRAPER_USERNAMES is invalid: {error}")))?;
    if !added.is_empty() {
        tracing::info!(added = added.len(), "following new users of SCRAPER_USERNAMES");
    }
    Ok(())
}
