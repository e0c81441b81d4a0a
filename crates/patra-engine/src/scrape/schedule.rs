//! Scheduled scrapes of the followed users: one job for all of them, instead of an interval for each (TWEET-113).

use std::collections::BTreeMap;
use std::sync::Arc;

use patra_core::cron::Timetable;
use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{CommandsExt as _, Store};
use patra_core::state::TriggerType;
use patra_core::tx::{SaveSetting, TxError};
use patra_core::{Ts, hash};

use super::{Error, MAX_USERS, ScrapeRequest, queue, stopped, username};
use crate::sources::{TWITTER_FEED, TweetUpstream};

/// Setting with a cron pattern, see [`Timetable`].
pub const SCRAPER_CRON: &str = "scraper.cron";
/// Setting with the time up to which firings are done. A firing that was missed is made up for, once.
const SEEN_TO: &str = "scraper.cron_seen_to";
/// Sources per query.
const LOOK: u32 = 1_000;

/// The pattern in force.
pub(crate) fn timetable(settings: &[(String, String)]) -> Option<Timetable> {
    let text = of(settings, SCRAPER_CRON)?;
    match text.parse() {
        Ok(table) => Some(table),
        // The setting is validated on write, so an invalid pattern was written by hand.
        Err(reason) => {
            tracing::warn!(cron = text, "scraping by the clock is off: {reason}");
            None
        }
    }
}

/// Why the sources of users have no interval of their own.
pub(crate) fn instead_of_interval(settings: &[(String, String)]) -> Option<String> {
    timetable(settings).map(|table| format!("users are scraped together, by SCRAPER_CRON: {table}"))
}

/// Begins the scrape that is due, if any. Returns the time of the next one.
pub(crate) async fn fire(
    store: &Arc<dyn Store>,
    settings: &[(String, String)],
    now: Ts,
) -> Result<Option<Ts>, TxError> {
    let Some(table) = timetable(settings) else { return Ok(None) };
    let seen_to = of(settings, SEEN_TO).and_then(|text| text.parse::<Ts>().ok()).filter(|at| *at <= now);
    let due = seen_to.and_then(|at| table.next_after(at));
    match (seen_to, due.filter(|due| *due <= now)) {
        (Some(_), None) => return Ok(due),
        (Some(_), Some(due)) => begin(store, due).await?,
        (None, _) => {}
    }
    store.run(SaveSetting { key: SEEN_TO.to_owned(), value: Some(now.to_string()) }).await?;
    Ok(table.next_after(now))
}

/// Begins one job for each project. Another process that does the same for this firing makes no second job.
async fn begin(store: &Arc<dyn Store>, due: Ts) -> Result<(), TxError> {
    if let Some(hold) = stopped(&**store).await? {
        tracing::warn!("the scheduled scrape is skipped: TwitterAPI.io is stopped: {hold}");
        return Ok(());
    }
    let mut projects: BTreeMap<String, Vec<StoredSource>> = BTreeMap::new();
    let mut after = 0;
    loop {
        let filter = SourceFilter { after, limit: LOOK, ..SourceFilter::default() };
        let some = store.sources(filter).await?;
        let Some(last) = some.last() else { break };
        after = last.id.0;
        for source in some.into_iter().filter(|source| source.r#type == TWITTER_FEED && source.state.paused.is_none()) {
            projects.entry(source.project_key.clone()).or_default().push(source);
        }
    }
    for (project_key, sources) in projects {
        for (part, sources) in sources.chunks(MAX_USERS).enumerate() {
            let request = ScrapeRequest {
                public_id: public_id(&project_key, due, part),
                project_key: project_key.clone(),
                usernames: sources.iter().filter_map(|source| username(&source.config)).collect(),
                limit: None,
                trigger_type: TriggerType::Schedule,
                request_id: None,
                upstream: TweetUpstream::default(),
            };
            match queue(store, &request, sources).await {
                Ok(left_out) => {
                    let users = sources.len() - left_out.len();
                    tracing::info!(task_id = request.public_id, users, "a scheduled scrape begins");
                    if !left_out.is_empty() {
                        tracing::warn!(
                            task_id = request.public_id,
                            users = left_out.join(", "),
                            "the scheduled scrape leaves out users who are being scraped already"
                        );
                    }
                }
                Err(Error::Store(error)) => return Err(error),
                Err(Error::Conflict { public_id, usernames }) => tracing::warn!(
                    running = public_id,
                    users = usernames.len(),
                    "the scheduled scrape is skipped: a scrape of its users is still running"
                ),
                Err(refused) => tracing::warn!("the scheduled scrape is skipped: {refused}"),
            }
        }
    }
    Ok(())
}

/// An id that is the same in every process that begins the same job.
fn public_id(project_key: &str, due: Ts, part: usize) -> String {
    let digest = hash::digest(&["scrape", project_key, &due.to_string(), &part.to_string()]);
    let hex = digest.trim_start_matches("v1:");
    format!("{}-{}-8{}-8{}-{}", &hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..32])
}

fn of<'a>(settings: &'a [(String, String)], name: &str) -> Option<&'a str> {
    settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_firing_has_one_id() {
        let due = Ts::from_secs(1_760_000_000);
        let id = public_id("default", due, 0);
        assert_eq!(id, public_id("default", due, 0));
        assert_eq!((id.len(), id.matches('-').count()), (36, 4));
        assert!(id != public_id("other", due, 0) && id != public_id("default", due, 1));
        assert_ne!(id, public_id("default", Ts::from_secs(1_760_000_060), 0));
    }
}
