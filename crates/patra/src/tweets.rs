//! What the environment says of tweets: the key, the address, the users who are followed. It is brought into the database at the
//! start of a command, so that every process on it goes by the same.

use std::sync::Arc;

use patra_core::hash;
use patra_core::port::{CommandsExt as _, Store};
use patra_core::project;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_core::tweet;
use patra_core::tx::Configure;
use patra_engine::SCRAPER_ENABLED;
use patra_engine::admin::{self, Named};
use patra_engine::scrape::{self, SCRAPER_CRON};
use patra_engine::sources::{TWITTER, TWITTER_BASE_URL, TWITTER_RATE};

use crate::cli::Global;
use crate::error::Error;
use crate::settings::{self, Environment};
use crate::vault;

/// The credential that holds the key of the environment.
const ALIAS: &str = "twitterapi_io_env";
/// What it is recognised by, so that it is not stored anew at every start.
const FINGERPRINT: &str = "twitter.key_fingerprint";

/// What a command has to do with the schedule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// It collects: what it is not told does not hold.
    Keeps,
    /// It asks once: the schedule is that of whoever collects.
    Visits,
}

/// Takes over what the environment says.
pub(crate) async fn settle(global: &Global, store: &Arc<dyn Store>, part: Part) -> Result<(), Error> {
    let environment = Environment::read();
    let far_side = far_side(&environment)?;
    let settings = store.settings().await?;
    let set = |key: &str| settings.iter().find(|(known, _)| known == key).map(|(_, value)| value.clone());
    let wanted = match part {
        Part::Keeps => far_side.into_iter().chain(schedule(&environment)?).collect::<Vec<_>>(),
        Part::Visits => far_side.into_iter().filter(|(_, value)| value.is_some()).collect(),
    };
    settings::write(&**store, &settings, wanted).await?;
    adopt(global, &**store, &environment, set(FINGERPRINT)).await?;
    match part {
        Part::Keeps => {
            follow(&**store, &environment).await?;
            tell_if_off(&**store, &environment).await
        }
        Part::Visits => Ok(()),
    }
}

/// Says why nobody is scraped without being asked for, to who wants tweets at all (TWEET-115).
async fn tell_if_off(store: &dyn Store, environment: &Environment) -> Result<(), Error> {
    let is_wanted = ["TWITTER_", "SCRAPER_"].iter().any(|prefix| environment.beginning_with(prefix).next().is_some());
    if is_wanted && let Some(why) = scrape::off(store).await? {
        tracing::warn!(reason = why, "scheduled scraping of tweets is off");
    }
    Ok(())
}

type Settings<const N: usize> = [(&'static str, Option<String>); N];

fn far_side(environment: &Environment) -> Result<Settings<2>, Error> {
    let base_url = environment.address("TWITTER_BASE_URL")?;
    let rate = environment.twitter_rate()?.map(|rate| rate.to_string());
    Ok([(TWITTER_BASE_URL, base_url), (TWITTER_RATE, rate)])
}

fn schedule(environment: &Environment) -> Result<Settings<2>, Error> {
    let enabled = environment.flag("SCRAPER_ENABLED")?.map(|enabled| enabled.to_string());
    Ok([(SCRAPER_ENABLED, enabled), (SCRAPER_CRON, environment.scraper_cron()?)])
}

/// Stores the key, sealed, when it is another than before.
async fn adopt(
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
    let named = Named { alias: ALIAS.to_owned(), provenance: Some(TWITTER.to_owned()), endpoint: None };
    let secrets = || Secrets::from([("apiKey".to_owned(), Secret::new(key))]);
    let saved = match admin::rotate(store, &vault, &named, secrets(), true).await {
        Err(admin::Error::NotFound(_)) => admin::add(store, &vault, &named, AuthType::ApiKey, None, secrets()).await,
        rotated => rotated,
    };
    saved.map_err(|error| Error::configuration(format!("the key of TwitterAPI.io cannot be kept: {error}")))?;
    store.run(Configure { key: FINGERPRINT.to_owned(), value: Some(fingerprint) }).await?;
    Ok(())
}

/// Adds the users who are to be followed (TWEET-97).
async fn follow(store: &dyn Store, environment: &Environment) -> Result<(), Error> {
    let Some(text) = environment.get("SCRAPER_USERNAMES") else { return Ok(()) };
    let names = tweet::usernames(text).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Error::configuration(format!("SCRAPER_USERNAMES cannot be used: {}", errors.join("; ")))
    })?;
    let added = scrape::follow(store, project::DEFAULT, &names).await;
    let added = added.map_err(|error| Error::configuration(format!("SCRAPER_USERNAMES cannot be used: {error}")))?;
    if !added.is_empty() {
        tracing::info!(added = added.len(), "users of SCRAPER_USERNAMES are followed from now on");
    }
    Ok(())
}
