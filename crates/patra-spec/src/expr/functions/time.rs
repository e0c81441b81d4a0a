//! Time functions. Times are ISO-8601 texts, like `window.from`. The zone is UTC unless an offset is given
//! (ING-4.8-02).

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, Zoned};
use minijinja::{Error, Value};

use patra_core::Ts;

use super::{FunctionCall, invalid, null, wrong_type};

pub(super) fn now(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let now = call.run.now().ok_or_else(|| invalid("`now()` is not available here"))?;
    Ok(now.to_string().into())
}

pub(super) fn date(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_time(call, |at| Ok(at.to_short_text().split('T').next().into()))
}

pub(super) fn datetime(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_time(call, |at| Ok(at.floor_to(Duration::from_secs(1)).to_short_text().into()))
}

pub(super) fn iso(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_time(call, |at| Ok(at.to_micros_text().into()))
}

pub(super) fn epoch(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_time(call, |at| Ok(at.micros().div_euclid(1_000_000).into()))
}

pub(super) fn epoch_ms(call: &FunctionCall<'_>) -> Result<Value, Error> {
    map_time(call, |at| Ok(at.micros().div_euclid(1_000).into()))
}

pub(super) fn format_call(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let (Some(pattern), zone) = (call.text(1)?, call.text(2)?) else { return Ok(null()) };
    let zone = match zone.map(|zone| offset(&zone)).transpose() {
        Ok(zone) => zone,
        Err(message) => return call.unusable_value(message),
    };
    map_time(call, |at| format(at, &pattern, zone).map(Value::from).map_err(invalid))
}

pub(super) fn parse_call(call: &FunctionCall<'_>) -> Result<Value, Error> {
    let (Some(text), Some(pattern)) = (call.text(0)?, call.text(1)?) else { return Ok(null()) };
    match parse(&text, &pattern) {
        Ok(at) => Ok(at.to_string().into()),
        Err(message) => call.unusable_value(message),
    }
}

pub(super) fn add(call: &FunctionCall<'_>) -> Result<Value, Error> {
    shift_time(call, |span| span)
}

pub(super) fn sub(call: &FunctionCall<'_>) -> Result<Value, Error> {
    shift_time(call, Span::negate)
}

/// Formats a time with a `strftime` pattern such as `%Y/%m/%d`.
pub(in super::super) fn format(at: Ts, pattern: &str, zone: Option<Offset>) -> Result<String, String> {
    let at = zoned(at, zone.unwrap_or(Offset::UTC))?;
    strtime::format(pattern, &at).map_err(|error| pattern_error(pattern, &error))
}

/// Parses a time with a `strptime` pattern. The zone is UTC unless the text has an offset; a missing day or month is
/// the first.
pub(in super::super) fn parse(text: &str, pattern: &str) -> Result<Ts, String> {
    let unread = || format!("{} does not match the time pattern `{pattern}`", crate::problem::quote(text));
    let mut found = strtime::parse(pattern, text.trim()).map_err(|_| unread())?;
    let at = match found.to_timestamp() {
        Ok(at) => at,
        Err(_) => local(&mut found).and_then(|at| at.to_zoned(TimeZone::UTC)).map_err(|_| unread())?.timestamp(),
    };
    ts(at).ok_or_else(unread)
}

/// Parses an ISO-8601 duration. Months and years follow the calendar.
pub(in super::super) fn duration(text: &str) -> Result<Span, String> {
    let shown = crate::problem::quote(text);
    let hint = "for example PT1H, P1D, -P1M";
    if !text.starts_with(['P', '-']) {
        return Err(format!("{shown} is not an ISO-8601 duration, {hint}"));
    }
    text.parse().map_err(|_| format!("{shown} is not an ISO-8601 duration, {hint}"))
}

/// Parses `+02:00`, `-0530` or `Z`. Zone names are not supported: they need a database that changes over time.
pub(in super::super) fn offset(text: &str) -> Result<Offset, String> {
    if text == "Z" || text == "UTC" {
        return Ok(Offset::UTC);
    }
    let read = |pattern| strtime::parse(pattern, text).ok().and_then(|found| found.offset());
    let unread = || format!("{} is not a UTC offset, for example +02:00", crate::problem::quote(text));
    read("%:z").or_else(|| read("%z")).ok_or_else(unread)
}

/// Applies a function to the time in the first argument. Null stays null, so that the parameter is omitted.
fn map_time(call: &FunctionCall<'_>, show: impl Fn(Ts) -> Result<Value, Error>) -> Result<Value, Error> {
    let value = &call.args[0];
    if value.is_none() {
        return Ok(null());
    }
    let text = value.as_str().ok_or_else(|| wrong_type("time", value))?;
    show(text.parse().map_err(|error: patra_core::time::ParseError| invalid(error.to_string()))?)
}

fn shift_time(call: &FunctionCall<'_>, direct: impl Fn(Span) -> Span) -> Result<Value, Error> {
    let Some(span) = call.text(1)? else { return Ok(null()) };
    let span = match duration(&span) {
        Ok(span) => direct(span),
        Err(message) => return call.unusable_value(message),
    };
    map_time(call, |at| {
        let at = zoned(at, Offset::UTC).map_err(invalid)?;
        let moved = at.checked_add(span).ok().and_then(|at| ts(at.timestamp()));
        moved.map(|at| at.to_string().into()).ok_or_else(|| invalid("the time lies outside the calendar"))
    })
}

fn zoned(at: Ts, offset: Offset) -> Result<Zoned, String> {
    let at = Timestamp::from_microsecond(at.micros()).map_err(|_| "the time lies outside the calendar".to_owned())?;
    Ok(at.to_zoned(TimeZone::fixed(offset)))
}

fn local(found: &mut BrokenDownTime) -> Result<DateTime, jiff::Error> {
    if let Ok(at) = found.to_datetime() {
        return Ok(at);
    }
    if found.month().is_none() {
        found.set_month(Some(1))?;
    }
    if found.day().is_none() {
        found.set_day(Some(1))?;
    }
    found.to_datetime()
}

fn ts(at: Timestamp) -> Option<Ts> {
    i64::try_from(at.as_nanosecond().div_euclid(1_000)).ok().map(Ts::from_micros)
}

fn pattern_error(pattern: &str, error: &jiff::Error) -> String {
    let error = error.to_string();
    let reason: String = error.rsplit("failed: ").next().unwrap_or_default().chars().take(120).collect();
    format!("{} is not a time pattern: {reason}", crate::problem::quote(pattern))
}
