//! Points in time: UTC, microseconds, everywhere. Finer input is floored, so that half-open borders and hashes agree in
//! both databases (C-19).

use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A UTC instant in microseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ts(i64);

impl Ts {
    pub const MIN: Ts = Ts(i64::MIN);
    pub const MAX: Ts = Ts(i64::MAX);
    /// The end of the year 9999: stored for "never".
    pub const NEVER: Ts = Ts(253_402_300_799_000_000);

    pub const fn from_micros(micros: i64) -> Ts {
        Ts(micros)
    }

    pub const fn from_secs(secs: i64) -> Ts {
        Ts(secs.saturating_mul(1_000_000))
    }

    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Time since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Ts) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// This much later, or earlier if it is negative.
    #[must_use]
    pub const fn shifted(self, micros: i64) -> Ts {
        Ts(self.0.saturating_add(micros))
    }

    /// The last multiple of `unit` at or before this instant.
    pub fn floor_to(self, unit: Duration) -> Ts {
        let unit = micros(unit).max(1);
        Ts(self.0 - self.0.rem_euclid(unit))
    }

    /// The form that enters hashes: exactly six fraction digits.
    pub fn to_micros_text(self) -> String {
        self.text(6)
    }

    /// With milliseconds, always.
    pub fn to_millis_text(self) -> String {
        self.text(3)
    }

    /// For display: no fraction when it is zero.
    pub fn to_short_text(self) -> String {
        self.text(if self.0.rem_euclid(1_000_000) == 0 { 0 } else { 6 })
    }

    fn text(self, digits: u8) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => format!("{at:.*}", usize::from(digits)),
            // Outside the calendar's years: only a corrupt row gets here, and it must stay printable.
            Err(_) => format!("{}us", self.0),
        }
    }
}

/// A duration in whole microseconds, saturating.
pub fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// A duration as ISO-8601. Equal durations have one spelling, so they hash the same.
pub fn iso_text(span: Duration) -> String {
    let (secs, micros) = (span.as_secs(), span.subsec_micros());
    let (days, hours, minutes, seconds) = (secs / 86_400, secs / 3_600 % 24, secs / 60 % 60, secs % 60);
    let part = |count: u64, unit: char| if count > 0 { format!("{count}{unit}") } else { String::new() };
    let seconds = match micros {
        0 => part(seconds, 'S'),
        micros => format!("{seconds}.{}S", format!("{micros:06}").trim_end_matches('0')),
    };
    let time = part(hours, 'H') + &part(minutes, 'M') + &seconds;
    match (days, time.as_str()) {
        (0, "") => "PT0S".to_owned(),
        (days, "") => format!("P{days}D"),
        (days, time) => format!("P{}T{time}", part(days, 'D')),
    }
}

impl Add<Duration> for Ts {
    type Output = Ts;
    fn add(self, span: Duration) -> Ts {
        Ts(self.0.saturating_add(micros(span)))
    }
}

impl Sub<Duration> for Ts {
    type Output = Ts;
    fn sub(self, span: Duration) -> Ts {
        Ts(self.0.saturating_sub(micros(span)))
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("`{0}` is not a time: expected RFC 3339, as in 2026-01-31T08:00:00Z, or a date{1}")]
pub struct ParseError(String, &'static str);

impl FromStr for Ts {
    type Err = ParseError;

    /// Parses RFC 3339 with any offset, or a bare date as its first instant in UTC.
    fn from_str(text: &str) -> Result<Ts, ParseError> {
        let text = text.trim();
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return Ok(floor(at));
        }
        // Only a bare date: a time of day without an offset is ambiguous in UTC, and must not be dropped.
        let bare = text.len() == 10 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        Some(text)
            .filter(|_| bare)
            .and_then(|text| text.parse::<jiff::civil::Date>().ok())
            .and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok())
            .map(|day| floor(day.timestamp()))
            .ok_or_else(|| {
                // The last hours of the last year cannot be expressed in every time zone.
                let last = if text.starts_with("9999-12-3") { " up to 9999-12-30T22:00:00Z" } else { "" };
                ParseError(text.chars().take(60).collect(), last)
            })
    }
}

fn floor(at: jiff::Timestamp) -> Ts {
    Ts(i64::try_from(at.as_nanosecond().div_euclid(1_000)).unwrap_or(i64::MAX))
}

impl fmt::Display for Ts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(9))
    }
}

impl fmt::Debug for Ts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_short_text())
    }
}

impl Serialize for Ts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ts, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, micros: i64) {
        assert_eq!(text.parse::<Ts>().map(Ts::micros).ok(), Some(micros), "{text}");
    }

    // covers: ING-0.1-03, ING-4.4-02, ING-0.4-02
    #[test]
    fn times_are_read_from_common_forms_and_floored_to_microseconds() {
        check("1970-01-01T00:00:00Z", 0);
        check("1970-01-01", 0);
        check("1970-01-01T01:00:00+01:00", 0);
        check("1970-01-01T00:00:00.123456789Z", 123_456);
        check("1969-12-31T23:59:59.999999999Z", -1);
        for unclear in ["yesterday", "1970-01-01 12:00:00", "1970-01-01T12:00:00", "1970-01-01T12:00[Europe/Berlin]"] {
            assert!(unclear.parse::<Ts>().is_err(), "{unclear}");
        }
    }

    #[test]
    fn text_has_nine_digits_and_reads_back() {
        let at = Ts::from_micros(1_700_000_000_123_456);
        assert_eq!(at.to_string(), "2023-11-14T22:13:20.123456000Z");
        assert_eq!(at.to_micros_text(), "2023-11-14T22:13:20.123456Z");
        assert_eq!(at.to_string().parse::<Ts>().ok(), Some(at));
        assert_eq!(Ts::from_secs(60).to_short_text(), "1970-01-01T00:01:00Z");
    }

    #[test]
    fn durations_have_one_spelling() {
        for (millis, text) in [
            (0, "PT0S"),
            (250, "PT0.25S"),
            (90_000, "PT1M30S"),
            (600_000, "PT10M"),
            (3_600_000, "PT1H"),
            (86_400_000, "P1D"),
            (90_061_500, "P1DT1H1M1.5S"),
        ] {
            assert_eq!(iso_text(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn arithmetic_saturates_and_floor_works_before_the_epoch() {
        assert_eq!(Ts::MAX + Duration::from_secs(1), Ts::MAX);
        assert_eq!(Ts::from_micros(-1).floor_to(Duration::from_secs(1)), Ts::from_secs(-1));
        assert_eq!(Ts::from_secs(5).since(Ts::from_secs(9)), Duration::ZERO);
        assert!(!format!("{:?}", Ts::MAX).is_empty());
    }
}
