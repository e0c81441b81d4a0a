//! ISO-8601 durations of manifests and snapshots: `PT10M`, `P1D`. Months and years are rejected because they have no
//! fixed length.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration that parses and prints as ISO-8601. Equal durations print the same, so they hash the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct IsoDuration(pub Duration);

impl IsoDuration {
    pub const fn secs(secs: u64) -> IsoDuration {
        IsoDuration(Duration::from_secs(secs))
    }

    pub fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl FromStr for IsoDuration {
    type Err = String;

    fn from_str(text: &str) -> Result<IsoDuration, String> {
        let text = text.trim();
        // jiff also reads friendlier forms; manifests allow only one.
        if !text.starts_with(['P', 'p', '-']) {
            return Err(format!("{} is not an ISO-8601 duration", crate::problem::quote(text)));
        }
        let span: jiff::Span =
            text.parse().map_err(|_| format!("{} is not an ISO-8601 duration", crate::problem::quote(text)))?;
        if span.is_negative() {
            return Err(format!("{} is negative", crate::problem::quote(text)));
        }
        if span.get_years() != 0 || span.get_months() != 0 {
            return Err(format!("{} counts months or years, whose length varies", crate::problem::quote(text)));
        }
        let part = |count: i64, unit_micros: i128| i128::from(count) * unit_micros;
        let micros = part(span.get_weeks().into(), 604_800_000_000)
            + part(span.get_days().into(), 86_400_000_000)
            + part(span.get_hours().into(), 3_600_000_000)
            + part(span.get_minutes(), 60_000_000)
            + part(span.get_seconds(), 1_000_000)
            + part(span.get_milliseconds(), 1_000)
            + part(span.get_microseconds(), 1)
            + i128::from(span.get_nanoseconds() / 1_000);
        u64::try_from(micros)
            .map(|micros| IsoDuration(Duration::from_micros(micros)))
            .map_err(|_| "too long".to_owned())
    }
}

impl fmt::Display for IsoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&patra_core::time::iso_text(self.0))
    }
}

impl Serialize for IsoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IsoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IsoDuration, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(text.parse::<IsoDuration>().map_or_else(|e| e, |iso| iso.to_string()), expected);
    }

    // covers: ING-3.9-02
    #[test]
    fn durations_have_one_spelling_per_length() {
        check("PT10M", "PT10M");
        check("PT600S", "PT10M");
        check("P1D", "P1D");
        check("PT24H", "P1D");
        check("P1W", "P7D");
        check("PT0S", "PT0S");
        check("PT1H30M", "PT1H30M");
        check("P1DT0.25S", "P1DT0.25S");
        check("PT0.1S", "PT0.1S");
    }

    #[test]
    fn duration_that_is_not_fixed_and_positive_is_refused() {
        check("10m", "\"10m\" is not an ISO-8601 duration");
        check("10 minutes", "\"10 minutes\" is not an ISO-8601 duration");
        check("PT", "\"PT\" is not an ISO-8601 duration");
        check("P1M", "\"P1M\" counts months or years, whose length varies");
        check("P1Y", "\"P1Y\" counts months or years, whose length varies");
        check("-PT5M", "\"-PT5M\" is negative");
    }
}
