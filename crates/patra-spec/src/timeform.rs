//! How a source writes times: RFC 3339, numbers since 1970, parts of a date, or a pattern of its own.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{Offset, TimeZone};

use patra_core::Ts;

use crate::problem::Flaw;
use crate::suggest::suggest;

const WORDS: &[&str] = &["rfc3339", "epoch", "epoch_ms", "date_parts"];
const MAX_BYTES: usize = 64;
/// No time that matters is so many seconds away from 1970; in milliseconds it is the year 1973.
const MILLIS_FROM: u64 = 100_000_000_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// RFC 3339, a date, or a number: seconds since 1970, or milliseconds when it is too large for seconds.
    #[default]
    Any,
    Rfc3339,
    Epoch,
    EpochMs,
    /// `[[2024, 5, 1]]`, `[2024, 5]`, or `{"Year": "2024", "Month": "May"}`.
    DateParts,
    /// As of `strptime`; UTC unless it reads an offset.
    Pattern(String),
}

impl TimeFormat {
    pub fn parse(text: &str) -> Result<TimeFormat, Flaw> {
        match text {
            "rfc3339" => Ok(TimeFormat::Rfc3339),
            "epoch" => Ok(TimeFormat::Epoch),
            "epoch_ms" => Ok(TimeFormat::EpochMs),
            "date_parts" => Ok(TimeFormat::DateParts),
            pattern if pattern.contains('%') => usable(pattern).map(|()| TimeFormat::Pattern(pattern.to_owned())),
            other => {
                let hint = suggest(other, WORDS).filter(|hint| hint.starts_with("did"));
                let hint = hint.unwrap_or_else(|| format!("{}, or a pattern such as %Y/%m/%d %H:%M", WORDS.join(", ")));
                Err(Flaw::new(0, format!("{} is no time format", crate::problem::quote(other))).hint(hint))
            }
        }
    }

    /// The instant that a text or number says.
    pub fn read(&self, text: &str) -> Option<Ts> {
        let text = text.trim();
        let at = match self {
            TimeFormat::Any => match text.parse::<i64>() {
                Ok(number) if number.unsigned_abs() >= MILLIS_FROM => micros(text, 1_000).map(Ts::from_micros),
                Ok(_) => micros(text, 1_000_000).map(Ts::from_micros),
                Err(_) => text.parse().ok().or_else(|| micros(text, 1_000_000).map(Ts::from_micros)),
            },
            TimeFormat::Rfc3339 => text.parse().ok(),
            TimeFormat::Epoch => micros(text, 1_000_000).map(Ts::from_micros),
            TimeFormat::EpochMs => micros(text, 1_000).map(Ts::from_micros),
            TimeFormat::DateParts => None,
            TimeFormat::Pattern(pattern) => strtime::parse(pattern, text).ok().and_then(|found| instant(&found)),
        };
        // Years beyond 9999 have no date that others could read.
        at.filter(|at| jiff::Timestamp::from_microsecond(at.micros()).is_ok())
    }
}

/// Year to second; what is missing is its first. Nothing when there is no such time.
pub fn from_parts(parts: &[i64]) -> Option<Ts> {
    let part = |at: usize, first: i64| i8::try_from(parts.get(at).copied().unwrap_or(first)).ok();
    let date = Date::new(i16::try_from(*parts.first()?).ok()?, part(1, 1)?, part(2, 1)?).ok()?;
    let time = Time::new(part(3, 0)?, part(4, 0)?, part(5, 0)?, 0).ok()?;
    utc(DateTime::from_parts(date, time), None)
}

/// A decimal number of units, as microseconds.
fn micros(text: &str, unit: i64) -> Option<i64> {
    if let Ok(whole) = text.parse::<i64>() {
        return whole.checked_mul(unit);
    }
    let number = text.parse::<f64>().ok().filter(|_| text.contains('.') && !text.contains(['e', 'E']))?;
    let scaled = (number * unit as f64).round();
    (scaled.abs() < 9e18).then_some(scaled as i64)
}

fn instant(found: &BrokenDownTime) -> Option<Ts> {
    if let Some(at) = found.timestamp() {
        return Some(Ts::from_micros(at.as_microsecond()));
    }
    // `%Y %b` names no day, `%Y` no month: the first is meant.
    let date = match found.to_date() {
        Ok(date) => date,
        Err(_) => Date::new(found.year()?, found.month().unwrap_or(1), found.day().unwrap_or(1)).ok()?,
    };
    let time = found.to_time().unwrap_or_default();
    utc(DateTime::from_parts(date, time), found.offset())
}

fn utc(at: DateTime, offset: Option<Offset>) -> Option<Ts> {
    let zone = TimeZone::fixed(offset.unwrap_or(Offset::UTC));
    Some(Ts::from_micros(zone.to_timestamp(at).ok()?.as_microsecond()))
}

/// A pattern must write a time that it can read, and name a year.
fn usable(pattern: &str) -> Result<(), Flaw> {
    let flaw = |reason: String| {
        let hint = "for example %Y-%m-%d %H:%M:%S, or %a, %d %b %Y %H:%M:%S %z";
        Flaw::new(0, format!("the pattern cannot be used: {reason}")).hint(hint)
    };
    if pattern.len() > MAX_BYTES {
        return Err(flaw(format!("it has {} bytes, at most {MAX_BYTES} are allowed", pattern.len())));
    }
    let sample =
        DateTime::constant(2024, 2, 29, 23, 58, 59, 0).to_zoned(TimeZone::UTC).map_err(|e| flaw(e.to_string()))?;
    let written = strtime::format(pattern, &sample).map_err(|error| flaw(error.to_string()))?;
    let read = strtime::parse(pattern, &written).map_err(|error| flaw(error.to_string()))?;
    instant(&read).map(|_| ()).ok_or_else(|| flaw("it names no year".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the format makes of the text; `-` for nothing.
    fn check(format: &str, text: &str, expected: &str) {
        let shown = match TimeFormat::parse(format) {
            _ if format.is_empty() => TimeFormat::Any.read(text).map_or("-".into(), Ts::to_short_text),
            Ok(format) => format.read(text).map_or("-".into(), Ts::to_short_text),
            Err(flaw) => flaw.message,
        };
        assert_eq!(shown, expected, "{format} {text}");
    }

    // covers: ING-4.7-04
    #[test]
    fn times_are_read_as_their_source_writes_them() {
        check("", "2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00Z");
        check("", "2024-05-01", "2024-05-01T00:00:00Z");
        check("", "1700000000", "2023-11-14T22:13:20Z");
        check("", "1700000000000", "2023-11-14T22:13:20Z");
        check("", "1776980000.0", "2026-04-23T21:33:20Z");
        check("", "soon", "-");
        check("", "9223372036854775807", "-");
        check("rfc3339", "1700000000", "-");
        check("epoch", "1700000000000", "-");
        check("epoch_ms", "1700000000", "1970-01-20T16:13:20Z");
        check("%Y/%m/%d %H:%M", "2016/12/10 06:00", "2016-12-10T06:00:00Z");
        check("%Y %b", "2023 Jun", "2023-06-01T00:00:00Z");
        check("%Y", "2016", "2016-01-01T00:00:00Z");
        check("%a, %d %b %Y %H:%M:%S %z", "Thu, 01 Jan 2026 01:00:00 +0100", "2026-01-01T00:00:00Z");
        check("%d.%m.%Y", "31.02.2024", "-");
        check("%s", "60", "1970-01-01T00:01:00Z");
    }

    #[test]
    fn unusable_formats_are_refused() {
        check("iso", "", "\"iso\" is no time format");
        check("%d.%m.", "", "the pattern cannot be used: it names no year");
        assert!(TimeFormat::parse("%Y-%!").unwrap_err().message.starts_with("the pattern cannot be used: "));
        assert!(TimeFormat::parse(&"%Y".repeat(40)).is_err());
        assert_eq!(TimeFormat::parse("epoc").unwrap_err().hint.as_deref(), Some("did you mean `epoch`?"));
    }

    #[test]
    fn parts_name_the_first_instant_of_what_they_leave_open() {
        let check = |parts: &[i64], expected: &str| {
            assert_eq!(from_parts(parts).map_or("-".into(), Ts::to_short_text), expected, "{parts:?}");
        };
        check(&[2024, 5, 1], "2024-05-01T00:00:00Z");
        check(&[2024], "2024-01-01T00:00:00Z");
        check(&[2024, 5, 1, 6, 30], "2024-05-01T06:30:00Z");
        check(&[2024, 13], "-");
        check(&[], "-");
        check(&[99_999], "-");
    }
}
