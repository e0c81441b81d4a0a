//! Time formats of sources: RFC 3339, numbers since 1970, parts of a date, or a pattern.

use jiff::civil::{Date, DateTime, Time};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{Offset, TimeZone};

use patra_core::Ts;

use crate::problem::SyntaxError;
use crate::suggest::suggest;

const NAMED_FORMATS: &[&str] = &["rfc3339", "epoch", "epoch_ms", "date_parts"];
const MAX_BYTES: usize = 64;
/// Numbers from here on are milliseconds: as seconds they would be in the far future, as milliseconds they are in 1973.
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
    /// A `strptime` pattern; UTC unless it reads an offset.
    Pattern(String),
}

impl TimeFormat {
    pub fn parse(text: &str) -> Result<TimeFormat, SyntaxError> {
        match text {
            "rfc3339" => Ok(TimeFormat::Rfc3339),
            "epoch" => Ok(TimeFormat::Epoch),
            "epoch_ms" => Ok(TimeFormat::EpochMs),
            "date_parts" => Ok(TimeFormat::DateParts),
            pattern if pattern.contains('%') => {
                check_pattern(pattern).map(|()| TimeFormat::Pattern(pattern.to_owned()))
            }
            other => {
                let hint = suggest(other, NAMED_FORMATS).filter(|hint| hint.starts_with("did"));
                let hint = hint
                    .unwrap_or_else(|| format!("{}, or a pattern such as %Y/%m/%d %H:%M", NAMED_FORMATS.join(", ")));
                Err(SyntaxError::new(0, format!("{} is not a time format", crate::problem::quote(other))).hint(hint))
            }
        }
    }

    /// Parses a text or number.
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
        // Years beyond 9999 cannot be written as a date.
        at.filter(|at| jiff::Timestamp::from_microsecond(at.micros()).is_ok())
    }
}

/// Builds a time from year, month, day, hour, minute, second; missing parts are the first. `None` if there is no such
/// time.
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
    // A pattern without day or month means the first.
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

/// A pattern must parse its own output and contain a year.
fn check_pattern(pattern: &str) -> Result<(), SyntaxError> {
    let syntax_error = |reason: String| {
        let hint = "for example %Y-%m-%d %H:%M:%S, or %a, %d %b %Y %H:%M:%S %z";
        SyntaxError::new(0, format!("the pattern cannot be used: {reason}")).hint(hint)
    };
    if pattern.len() > MAX_BYTES {
        return Err(syntax_error(format!("it has {} bytes, at most {MAX_BYTES} are allowed", pattern.len())));
    }
    let sample = DateTime::constant(2024, 2, 29, 23, 58, 59, 0)
        .to_zoned(TimeZone::UTC)
        .map_err(|e| syntax_error(e.to_string()))?;
    let written = strtime::format(pattern, &sample).map_err(|error| syntax_error(error.to_string()))?;
    let read = strtime::parse(pattern, &written).map_err(|error| syntax_error(error.to_string()))?;
    instant(&read).map(|_| ()).ok_or_else(|| syntax_error("it has no year".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parsed time, or `-`.
    fn check(format: &str, text: &str, expected: &str) {
        let shown = match TimeFormat::parse(format) {
            _ if format.is_empty() => TimeFormat::Any.read(text).map_or("-".into(), Ts::to_short_text),
            Ok(format) => format.read(text).map_or("-".into(), Ts::to_short_text),
            Err(syntax_error) => syntax_error.message,
        };
        assert_eq!(shown, expected, "{format} {text}");
    }

    // covers: ING-4.7-04
    #[test]
    fn times_are_parsed_by_format() {
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
        check("iso", "", "\"iso\" is not a time format");
        check("%d.%m.", "", "the pattern cannot be used: it has no year");
        assert!(TimeFormat::parse("%Y-%!").unwrap_err().message.starts_with("the pattern cannot be used: "));
        assert!(TimeFormat::parse(&"%Y".repeat(40)).is_err());
        assert_eq!(TimeFormat::parse("epoc").unwrap_err().hint.as_deref(), Some("did you mean `epoch`?"));
    }

    #[test]
    fn missing_date_parts_are_the_first() {
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
