//! Times: texts in ISO-8601, as `window.from` gives them. The zone is UTC unless an offset is given (ING-4.8-02).

use std::time::Duration;

use jiff::civil::DateTime;
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::tz::{Offset, TimeZone};
use jiff::{Span, Timestamp, Zoned};
use minijinja::{Error, Value};

use patra_core::Ts;

use super::{Call, invalid, needed, null};

pub(super) fn now(call: &Call<'_>) -> Result<Value, Error> {
    let now = call.run.now().ok_or_else(|| invalid("`now()` is not known here"))?;
    Ok(now.to_string().into())
}

pub(super) fn date(call: &Call<'_>) -> Result<Value, Error> {
    shown(call, |at| Ok(at.to_short_text().split('T').next().into()))
}

pub(super) fn datetime(call: &Call<'_>) -> Result<Value, Error> {
    shown(call, |at| Ok(at.floor_to(Duration::from_secs(1)).to_short_text().into()))
}

pub(super) fn iso(call: &Call<'_>) -> Result<Value, Error> {
    shown(call, |at| Ok(at.to_micros_text().into()))
}

pub(super) fn epoch(call: &Call<'_>) -> Result<Value, Error> {
    shown(call, |at| Ok(at.micros().div_euclid(1_000_000).into()))
}

pub(super) fn epoch_ms(call: &Call<'_>) -> Result<Value, Error> {
    shown(call, |at| Ok(at.micros().div_euclid(1_000).into()))
}

pub(super) fn format_call(call: &Call<'_>) -> Result<Value, Error> {
    let (Some(pattern), zone) = (call.text(1)?, call.text(2)?) else { return Ok(null()) };
    let zone = match zone.map(|zone| offset(&zone)).transpose() {
        Ok(zone) => zone,
        Err(message) => return call.unfit(message),
    };
    shown(call, |at| format(at, &pattern, zone).map(Value::from).map_err(invalid))
}

pub(super) fn parse_call(call: &Call<'_>) -> Result<Value, Error> {
    let (Some(text), Some(pattern)) = (call.text(0)?, call.text(1)?) else { return Ok(null()) };
    match parse(&text, &pattern) {
        Ok(at) => Ok(at.to_string().into()),
        Err(message) => call.unfit(message),
    }
}

pub(super) fn add(call: &Call<'_>) -> Result<Value, Error> {
    moved(call, |span| span)
}

pub(super) fn sub(call: &Call<'_>) -> Result<Value, Error> {
    moved(call, Span::negate)
}

/// `%Y/%m/%d` and the like, as `date(1)` has them.
pub(in super::super) fn format(at: Ts, pattern: &str, zone: Option<Offset>) -> Result<String, String> {
    let at = zoned(at, zone.unwrap_or(Offset::UTC))?;
    strtime::format(pattern, &at).map_err(|error| wrong(pattern, &error))
}

/// Without an offset the text is in UTC; without a day or a month, the first is meant.
pub(in super::super) fn parse(text: &str, pattern: &str) -> Result<Ts, String> {
    let unread = || format!("{} does not read as `{pattern}`", crate::problem::quote(text));
    let mut found = strtime::parse(pattern, text.trim()).map_err(|_| unread())?;
    let at = match found.to_timestamp() {
        Ok(at) => at,
        Err(_) => local(&mut found).and_then(|at| at.to_zoned(TimeZone::UTC)).map_err(|_| unread())?.timestamp(),
    };
    ts(at).ok_or_else(unread)
}

/// An ISO-8601 duration. Months and years count by the calendar.
pub(in super::super) fn duration(text: &str) -> Result<Span, String> {
    let shown = crate::problem::quote(text);
    let hint = "for example PT1H, P1D, -P1M";
    if !text.starts_with(['P', '-']) {
        return Err(format!("{shown} is no ISO-8601 duration, {hint}"));
    }
    text.parse().map_err(|_| format!("{shown} is no ISO-8601 duration, {hint}"))
}

/// `+02:00`, `-0530` or `Z`. Names of zones would need a table that changes from year to year.
pub(in super::super) fn offset(text: &str) -> Result<Offset, String> {
    if text == "Z" || text == "UTC" {
        return Ok(Offset::UTC);
    }
    let read = |pattern| strtime::parse(pattern, text).ok().and_then(|found| found.offset());
    let unread = || format!("{} is no offset from UTC, for example +02:00", crate::problem::quote(text));
    read("%:z").or_else(|| read("%z")).ok_or_else(unread)
}

/// Null stays null, so that a parameter with a function is omitted like one without.
fn shown(call: &Call<'_>, show: impl Fn(Ts) -> Result<Value, Error>) -> Result<Value, Error> {
    let value = &call.args[0];
    if value.is_none() {
        return Ok(null());
    }
    let text = value.as_str().ok_or_else(|| needed("time", value))?;
    show(text.parse().map_err(|error: patra_core::time::ParseError| invalid(error.to_string()))?)
}

fn moved(call: &Call<'_>, direct: impl Fn(Span) -> Span) -> Result<Value, Error> {
    let Some(span) = call.text(1)? else { return Ok(null()) };
    let span = match duration(&span) {
        Ok(span) => direct(span),
        Err(message) => return call.unfit(message),
    };
    shown(call, |at| {
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

fn wrong(pattern: &str, error: &jiff::Error) -> String {
    let error = error.to_string();
    let reason: String = error.rsplit("failed: ").next().unwrap_or_default().chars().take(120).collect();
    format!("{} is no pattern for times: {reason}", crate::problem::quote(pattern))
}
