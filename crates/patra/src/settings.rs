//! Settings of the collector that come from the environment, or from a `.env` file beside it (COLL-22).

use std::collections::BTreeMap;
use std::time::Duration;

use patra_core::source::Intervals;
use patra_engine::CollectorOptions;

use crate::error::Error;

/// Variables of the process, and those of `.env` that the process has not.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
}

impl Environment {
    pub(crate) fn read() -> Environment {
        let file = std::fs::read_to_string(".env").unwrap_or_default();
        let mut variables: BTreeMap<_, _> = file.lines().filter_map(pair).collect();
        // What cannot be read as text is none of ours.
        variables.extend(
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?))),
        );
        Environment { variables }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }

    fn number(&self, name: &str, least: u64, most: u64) -> Result<Option<u64>, Error> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.trim().parse().ok().filter(|number| (least..=most).contains(number));
        let wrong = || Error::configuration(format!("{name} is {text:?}: expected a number from {least} to {most}"));
        number.map(Some).ok_or_else(wrong)
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|text| matches!(text.trim().to_ascii_lowercase().as_str(), "1" | "true" | "yes" | "on"))
    }

    /// How long running work may take to finish when asked to stop.
    pub(crate) fn grace(&self) -> Result<Duration, Error> {
        Ok(Duration::from_secs(self.number("SHUTDOWN_TIMEOUT_SECONDS", 0, 3_600)?.unwrap_or(30)))
    }

    /// The intervals of the types, and the values that are none and change nothing.
    pub(crate) fn intervals(&self) -> (Intervals, Vec<String>) {
        let mut intervals = Intervals::default();
        let ignored = intervals.environment(self.variables.clone().into_iter());
        (intervals, ignored)
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
            keep_ledger: match self.number("COLLECTOR_LEDGER_DAYS", 2, 36_500)? {
                None => default.keep_ledger,
                Some(days) => Duration::from_secs(days * DAY),
            },
        })
    }
}

/// `NAME=value`, with `export` before it and quotes around the value or not; a `#` begins a remark.
fn pair(line: &str) -> Option<(String, String)> {
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
    fn the_tick_has_an_old_name_and_a_default() {
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
    fn items_are_kept_thirty_days_or_as_said() {
        let keep = |pairs: &[_]| of(pairs).collector().unwrap().keep_items.map(|keep| keep.as_secs() / 86_400);
        assert_eq!(keep(&[]), Some(30));
        assert_eq!(keep(&[("RAW_ITEMS_TTL_DAYS", "7")]), Some(7));
        assert_eq!(keep(&[("RAW_ITEMS_TTL_DAYS", "0")]), None);
        let intervals = of(&[("FETCH_INTERVAL_RSS", "120")]).collector().unwrap().intervals;
        assert_eq!(intervals.of("rss").minutes, 120);
    }

    // covers: COLL-22
    #[test]
    fn lines_of_a_file_are_read_as_shells_do() {
        let pairs: Vec<_> = ["A=1", "export B = 2 # two", "C=\"x # y\" z", "D='q'", "# E=1", "F", "=3"]
            .iter()
            .filter_map(|line| pair(line))
            .collect();
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("A", "1"), ("B", "2"), ("C", "x # y"), ("D", "q")]);
    }
}
