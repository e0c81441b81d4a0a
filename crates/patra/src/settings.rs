//! Settings from the environment, or from a `.env` file in the current folder (COLL-22).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patra_core::cookie::CookieLimits;
use patra_core::cron::Timetable;
use patra_core::port::{CommandsExt as _, Notifier, Store};
use patra_core::secret::Secret;
use patra_core::source::Intervals;
use patra_core::tx::SaveSetting;
use patra_engine::crawler::CrawlTimes;
use patra_engine::maintenance::MaintenanceOptions;
use patra_engine::sources::{TWITTER_APIS, checked_contact};
use patra_engine::{CollectorOptions, CookieRules, TimeZone};
use patra_http::Webhook;
use url::Url;

use crate::error::Error;

/// Name of the file, in the current folder.
pub(crate) const DOT_ENV: &str = ".env";

/// Writes the values that differ into the configuration table.
pub(crate) async fn write(
    store: &dyn Store,
    known: &[(String, String)],
    values: impl IntoIterator<Item = (&'static str, Option<String>)>,
) -> Result<(), Error> {
    for (key, value) in values {
        if value.as_ref() != known.iter().find(|(known, _)| known == key).map(|(_, value)| value) {
            store.run(SaveSetting { key: key.to_owned(), value }).await?;
        }
    }
    Ok(())
}

/// Variables of the process, and those of `.env` that the process does not set.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub(crate) fn read() -> Environment {
        let file = std::fs::read_to_string(DOT_ENV).unwrap_or_default();
        let mut variables: BTreeMap<_, _> = file.lines().filter_map(pair).collect();
        // None of our variables is anything but text.
        variables.extend(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        Environment { variables }
    }

    /// Variables that are not empty.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .filter(|(_, value)| !value.trim().is_empty())
    }

    /// Variables whose names begin with the prefix.
    pub(crate) fn beginning_with<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.all().filter(move |(name, _)| name.starts_with(prefix))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
        let wrong = || Error::configuration(format!("{name} is {text:?}: expected a number from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    /// A switch; `None` if it is not set.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        match text.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(Some(true)),
            "0" | "false" | "no" | "off" => Ok(Some(false)),
            _ => Err(Error::configuration(format!(
                "{name} is {text:?}: expected true, yes, on or 1, or false, no, off or 0"
            ))),
        }
    }

    pub(crate) fn is_on(&self, name: &str) -> Result<bool, Error> {
        Ok(self.flag(name)?.unwrap_or(false))
    }

    /// The base URL of an API.
    pub(crate) fn address(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(text) = self.get(name).map(str::trim) else { return Ok(None) };
        let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
        let wrong = || {
            let expected = "expected an address that begins with http:// or https://, such as https://api.example.com";
            Error::configuration(format!("{name} is {text:?}: {expected}"))
        };
        url.map(|_| Some(text.to_owned())).ok_or_else(wrong)
    }

    /// Time that running work has to finish after the first signal.
    pub(crate) fn grace(&self) -> Result<Duration, Error> {
        Ok(Duration::from_secs(self.number("SHUTDOWN_TIMEOUT_SECONDS", 0, 3_600)?.unwrap_or(30)))
    }

    /// Percentage of successful batches that are logged.
    pub(crate) fn log_batch_percent(&self) -> Result<u32, Error> {
        Ok(self.number("PATRA_LOG_BATCH_PERCENT", 0, 100)?.unwrap_or(1) as u32)
    }

    /// The intervals of the types, and the variables with invalid values, which are ignored.
    pub(crate) fn intervals(&self) -> (Intervals, Vec<String>) {
        let mut intervals = Intervals::default();
        let mut ignored = intervals.environment(self.variables.clone().into_iter());
        match self.scraper_interval() {
            // Sources are due by the minute.
            Ok(Some(seconds)) => {
                let minutes = seconds.div_ceil(60).to_string();
                ignored.extend(
                    intervals.environment(std::iter::once(("fetch_interval_twitter_feed".to_owned(), minutes))),
                );
            }
            Ok(None) => {}
            Err(_) => ignored.push("SCRAPER_INTERVAL".to_owned()),
        }
        (intervals, ignored)
    }

    fn scraper_interval(&self) -> Result<Option<u64>, Error> {
        self.number("SCRAPER_INTERVAL", 60, 31_536_000)
    }

    /// The cron pattern for scraping all followed users together, instead of an interval for each (TWEET-113, 114).
    pub(crate) fn scraper_cron(&self) -> Result<Option<String>, Error> {
        let interval = self.scraper_interval()?;
        let Some(text) = self.get("SCRAPER_CRON") else { return Ok(None) };
        if interval.is_some() {
            let message = "SCRAPER_CRON and SCRAPER_INTERVAL are both set: set only one";
            return Err(Error::configuration(message));
        }
        let wrong = |reason| {
            let example = "expected a pattern such as `0 */6 * * *` or `CRON_TZ=Europe/Berlin 0 6 * * *`";
            Error::configuration(format!("SCRAPER_CRON is {text:?}: {reason}; {example}"))
        };
        text.parse::<Timetable>().map(|table| Some(table.to_string())).map_err(wrong)
    }

    fn minutes(&self, name: &str) -> Result<Option<Duration>, Error> {
        Ok(self.number(name, 1, 7 * 24 * 60)?.map(|minutes| Duration::from_secs(minutes * 60)))
    }

    /// Error limits and cooling of cookies (CRAWL-167..169), and the time zone of their daily limits (CRAWL-GAP-12).
    pub(crate) fn cookies(&self) -> Result<CookieRules, Error> {
        let default = CookieRules::default();
        let count = |name, default: u32| {
            Ok::<_, Error>(self.number(name, 1, 1_000_000)?.and_then(|n| u32::try_from(n).ok()).unwrap_or(default))
        };
        let wear = CookieLimits {
            max_consecutive_errors: count("MAX_CONSECUTIVE_ERRORS", default.wear.max_consecutive_errors)?,
            max_total_errors: count("MAX_TOTAL_ERRORS", default.wear.max_total_errors)?,
            cooling: self.minutes("COOLING_DURATION_MINUTES")?.unwrap_or(default.wear.cooling),
        };
        let Some(zone) = self.get("COOKIE_DAILY_RESET_TZ") else { return Ok(CookieRules { wear, ..default }) };
        let day = TimeZone::get(zone.trim()).map_err(|_| {
            Error::configuration(format!("COOKIE_DAILY_RESET_TZ is {zone:?}: expected a zone such as Asia/Shanghai"))
        })?;
        Ok(CookieRules { wear, day })
    }

    /// The API that tweets come from.
    pub(crate) fn twitter_api(&self) -> Result<Option<String>, Error> {
        let Some(api) = self.get("TWITTER_API").map(str::trim) else { return Ok(None) };
        if !TWITTER_APIS.contains(&api) {
            let expected = TWITTER_APIS.join(" or ");
            return Err(Error::configuration(format!("TWITTER_API is {api:?}: expected {expected}")));
        }
        Ok(Some(api.to_owned()))
    }

    /// Requests per second to the API for tweets; it depends on the balance of the key.
    pub(crate) fn twitter_rate(&self) -> Result<Option<u64>, Error> {
        self.number("TWITTER_RATE_PER_SEC", 1, 1_000)
    }

    /// The webhook for new tweets, if it is switched on (TWEET-71).
    pub(crate) fn summarization(&self) -> Result<Option<Arc<dyn Notifier>>, Error> {
        if !self.is_on("AUTO_SUMMARIZATION_ENABLED")? {
            return Ok(None);
        }
        let webhook = self.webhook("SUMMARIZATION_WEBHOOK_URL", "SUMMARIZATION_WEBHOOK_SECRET")?.ok_or_else(|| {
            Error::configuration("AUTO_SUMMARIZATION_ENABLED is set, and SUMMARIZATION_WEBHOOK_URL is not")
        })?;
        Ok(Some(webhook))
    }

    /// The webhook for records of endpoints that emit events (ING-2.3-05).
    pub(crate) fn records_webhook(&self) -> Result<Option<Arc<dyn Notifier>>, Error> {
        self.webhook("RECORDS_WEBHOOK_URL", "RECORDS_WEBHOOK_SECRET")
    }

    fn webhook(&self, url: &str, secret: &str) -> Result<Option<Arc<dyn Notifier>>, Error> {
        let Some(address) = self.get(url) else { return Ok(None) };
        let webhook = Webhook::new(address.trim(), self.get(secret).map(Secret::new))
            .map_err(|error| Error::configuration(format!("{url} is invalid: {error}")))?;
        Ok(Some(Arc::new(webhook)))
    }

    /// Records in one claim by default (CRAWL-174).
    pub(crate) fn batch_size(&self) -> Result<u32, Error> {
        let given = self.number("BATCH_SIZE", 1, 20)?.and_then(|size| u32::try_from(size).ok());
        Ok(given.unwrap_or(patra_core::crawl::BATCH_SIZE))
    }

    /// Retries after the first try, at most (CRAWL-172).
    pub(crate) fn max_retry(&self) -> Result<usize, Error> {
        Ok(self.number("MAX_RETRY", 0, 10)?.map_or(3, |tries| tries as usize))
    }

    /// Delays before the first three retries (CRAWL-173).
    pub(crate) fn backoff(&self) -> Result<Option<[Duration; 3]>, Error> {
        let Some(text) = self.get("BACKOFF") else { return Ok(None) };
        let secs: Option<Vec<u64>> =
            text.split(',').map(|part| part.trim().trim_end_matches('s').parse().ok()).collect();
        let secs: Option<[u64; 3]> = secs.and_then(|secs| secs.try_into().ok());
        let wrong = || Error::configuration(format!("BACKOFF is {text:?}: expected three numbers of seconds, 5,15,45"));
        Ok(Some(secs.ok_or_else(wrong)?.map(|secs| Duration::from_secs(secs.min(3_600)))))
    }

    /// Timeouts of requests to platforms (CRAWL-170, 171).
    pub(crate) fn crawl_times(&self) -> Result<CrawlTimes, Error> {
        let default = CrawlTimes::default();
        let seconds = |name, default| Ok::<_, Error>(self.number(name, 1, 600)?.map_or(default, Duration::from_secs));
        Ok(CrawlTimes {
            search: seconds("SEARCH_TIMEOUT", default.search)?,
            detail: seconds("DETAIL_TIMEOUT", default.detail)?,
            batch: seconds("DETAIL_BATCH_TIMEOUT", default.batch)?,
            validate: default.validate,
        })
    }

    /// The contact that publishers see.
    pub(crate) fn contact(&self) -> Result<Option<String>, Error> {
        let checked =
            |text| checked_contact(text).map_err(|why| Error::configuration(format!("COLLECTOR_CONTACT: {why}")));
        self.get("COLLECTOR_CONTACT").map(checked).transpose()
    }

    /// Locks, their recovery, and the webhook for alerts (CRAWL-162, 165, 166).
    pub(crate) fn maintenance(&self) -> Result<MaintenanceOptions, Error> {
        let default = MaintenanceOptions::default();
        let mut alerts = default.alerts.clone();
        alerts.environment(|name| self.get(name).map(str::to_owned)).map_err(Error::configuration)?;
        Ok(MaintenanceOptions {
            alerts,
            lock_timeout: self.minutes("LOCK_TIMEOUT_MINUTES")?.unwrap_or(default.lock_timeout),
            recover_every: self.minutes("RECOVERY_INTERVAL_MINUTES")?.unwrap_or(default.recover_every),
            notifier: self.webhook("ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_SECRET")?,
        })
    }

    pub(crate) fn collector(&self) -> Result<CollectorOptions, Error> {
        const DAY: u64 = 86_400;
        let default = CollectorOptions::default();
        let tick = match self.number("COLLECTOR_TICK", 1, DAY)? {
            Some(tick) => Some(tick),
            None => self.number("COLLECTOR_INTERVAL", 1, DAY)?,
        };
        let concurrency = self.number("COLLECTOR_CONCURRENCY", 1, 1_024)?;
        Ok(CollectorOptions {
            tick: tick.map_or(default.tick, Duration::from_secs),
            concurrency: concurrency.and_then(|some| u32::try_from(some).ok()).unwrap_or(default.concurrency),
            intervals: self.intervals().0,
            keep_items: match self.number("RAW_ITEMS_TTL_DAYS", 0, 36_500)? {
                None => default.keep_items,
                Some(0) => None,
                Some(days) => Some(Duration::from_secs(days * DAY)),
            },
            keep_jobs: match self.number("TASK_TTL_HOURS", 24, 876_000)? {
                None => default.keep_jobs,
                Some(hours) => Duration::from_secs(hours * 3_600),
            },
            keep_ledger: match self.number("COLLECTOR_LEDGER_DAYS", 2, 36_500)? {
                None => default.keep_ledger,
                Some(days) => Duration::from_secs(days * DAY),
            },
        })
    }
}

/// Parses `NAME=value`, with or without `export` and quotes; `#` begins a comment.
pub(crate) fn pair(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
    let (name, value) = (name.trim(), value.trim());
    let quoted = ['"', '\''].into_iter().find_map(|quote| value.strip_prefix(quote)?.split_once(quote));
    let value = match quoted {
        Some((inner, _)) => inner,
        None => value.split_once(" #").map_or(value, |(value, _)| value).trim(),
    };
    Some((name.to_owned(), value.to_owned())).filter(|(name, _)| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Environment {
        let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Environment { variables }
    }

    // covers: COLL-34, COLL-35, COLL-95, COLL-96, COLL-98, COLL-AC-16, COLL-AC-18, COLL-RISK-4
    #[test]
    fn tick_reads_its_old_variable_and_has_a_default() {
        let tick = |pairs: &[_]| of(pairs).collector().unwrap().tick.as_secs();
        assert_eq!(tick(&[]), 60);
        assert_eq!(tick(&[("COLLECTOR_INTERVAL", "300")]), 300);
        assert_eq!(tick(&[("COLLECTOR_INTERVAL", "300"), ("COLLECTOR_TICK", "30")]), 30);
        assert_eq!(of(&[]).collector().unwrap().concurrency, 5);
        assert!(of(&[("COLLECTOR_TICK", "soon")]).collector().is_err());
        assert!(of(&[("COLLECTOR_CONCURRENCY", "0")]).collector().is_err());
    }

    // covers: COLL-44, COLL-97
    #[test]
    fn items_are_kept_thirty_days_unless_set() {
        let keep = |pairs: &[_]| of(pairs).collector().unwrap().keep_items.map(|keep| keep.as_secs() / 86_400);
        assert_eq!(keep(&[]), Some(30));
        assert_eq!(keep(&[("RAW_ITEMS_TTL_DAYS", "7")]), Some(7));
        assert_eq!(keep(&[("RAW_ITEMS_TTL_DAYS", "0")]), None);
        let intervals = of(&[("FETCH_INTERVAL_RSS", "120")]).collector().unwrap().intervals;
        assert_eq!(intervals.of("rss").minutes, 120);
    }

    // covers: CRAWL-175, CRAWL-165, CRAWL-166, CRAWL-167, CRAWL-168, CRAWL-169, CRAWL-170, CRAWL-171, CRAWL-172, CRAWL-173, CRAWL-174
    #[test]
    fn crawler_constants_can_be_set_by_their_names() {
        let none = of(&[]);
        let maintenance = none.maintenance().unwrap();
        assert_eq!((maintenance.lock_timeout.as_secs(), maintenance.recover_every.as_secs()), (1_800, 900));
        let times = none.crawl_times().unwrap();
        assert_eq!((times.search.as_secs(), times.detail.as_secs(), times.batch.as_secs()), (30, 15, 60));
        let wear = none.cookies().unwrap().wear;
        assert_eq!((wear.cooling.as_secs(), wear.max_consecutive_errors, wear.max_total_errors), (1_800, 3, 10));
        assert_eq!((none.batch_size().unwrap(), none.max_retry().unwrap(), none.backoff().unwrap()), (10, 3, None));
        let all = of(&[
            ("LOCK_TIMEOUT_MINUTES", "5"),
            ("RECOVERY_INTERVAL_MINUTES", "1"),
            ("COOLING_DURATION_MINUTES", "2"),
            ("MAX_CONSECUTIVE_ERRORS", "4"),
            ("MAX_TOTAL_ERRORS", "5"),
            ("SEARCH_TIMEOUT", "6"),
            ("DETAIL_TIMEOUT", "7"),
            ("BATCH_SIZE", "8"),
            ("MAX_RETRY", "1"),
            ("BACKOFF", "1s, 2s,3"),
        ]);
        assert_eq!(all.maintenance().unwrap().lock_timeout.as_secs(), 300);
        assert_eq!(all.cookies().unwrap().wear.max_consecutive_errors, 4);
        assert_eq!((all.batch_size().unwrap(), all.max_retry().unwrap()), (8, 1));
        assert_eq!(all.backoff().unwrap().unwrap().map(|wait| wait.as_secs()), [1, 2, 3]);
        assert!(of(&[("BACKOFF", "1,2")]).backoff().is_err() && of(&[("BATCH_SIZE", "0")]).batch_size().is_err());
        assert!(of(&[("COOKIE_DAILY_RESET_TZ", "Mars/Phobos")]).cookies().is_err());
    }

    #[test]
    fn invalid_switches_and_addresses_name_the_variable() {
        let flag = |text| of(&[("ANY", text)]).flag("ANY").map_err(|error| error.message().to_owned());
        assert_eq!((flag(""), flag(" Yes "), flag("off")), (Ok(None), Ok(Some(true)), Ok(Some(false))));
        assert!(flag("maybe").unwrap_err().starts_with("ANY is \"maybe\": expected true"));
        let address = |text| of(&[("ANY", text)]).address("ANY").map_err(|error| error.message().to_owned());
        assert_eq!(address(" http://127.0.0.1:80/a "), Ok(Some("http://127.0.0.1:80/a".to_owned())));
        for text in ["notaurl", "ftp://example.com", "https://"] {
            assert!(address(text).unwrap_err().starts_with(&format!("ANY is {text:?}: expected an address")), "{text}");
        }
    }

    // covers: COLL-22
    #[test]
    fn env_files_are_read_as_shells_do() {
        let pairs: Vec<_> = ["A=1", "export B = 2 # two", "C=\"x # y\" z", "D='q'", "# E=1", "F", "=3"]
            .iter()
            .filter_map(|line| pair(line))
            .collect();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "2"), ("C", "x # y"), ("D", "q")]);
    }
}
