//! Times from raw JSON, in the formats of sources.

use serde_json::Value;
use serde_json::value::RawValue;

use patra_core::Ts;
use patra_spec::{TimeFormat, time_format};

use super::scalar::text;

/// Longest value that is read as parts of a date.
const MAX_PARTS_BYTES: usize = 1_024;
const NAMES: [&str; 6] = ["year", "month", "day", "hour", "minute", "second"];
const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

pub(super) fn instant(format: &TimeFormat, raw: &RawValue) -> Option<Ts> {
    match format {
        TimeFormat::DateParts => parts(raw),
        TimeFormat::Any if looks_like_a_date(raw.get()) => None,
        _ => format.read(&text(raw)?),
    }
}

/// `"2024"`, `"202401"` and `"20240101"` are a year, a month and a day to people, not seconds: without a declared
/// format they are no time at all, rather than a wrong one.
fn looks_like_a_date(raw: &str) -> bool {
    let inner = raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    inner.is_some_and(|text| (4..=8).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `[[2024, 5, 1]]`, `[2024, 5]`, or an object with year, month and so on, as attributes or elements in any case.
fn parts(raw: &RawValue) -> Option<Ts> {
    if raw.get().len() > MAX_PARTS_BYTES {
        return None;
    }
    let value: Value = serde_json::from_str(raw.get()).ok()?;
    let found: Vec<&Value> = match &value {
        Value::Array(outer) => match outer.first()? {
            Value::Array(inner) => inner.iter().collect(),
            _ => outer.iter().collect(),
        },
        Value::Object(map) => {
            let named = |name: &str| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
            NAMES.into_iter().map_while(named).collect()
        }
        _ => return None,
    };
    let numbers = found.into_iter().take(NAMES.len()).enumerate().map(|(at, value)| number(at, value));
    time_format::from_parts(&numbers.collect::<Option<Vec<_>>>()?)
}

fn number(at: usize, value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) if at == 1 && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            let begins = |month: &str| text.get(..3).is_some_and(|three| three.eq_ignore_ascii_case(month));
            MONTHS.iter().position(|month| begins(month)).and_then(|at| i64::try_from(at + 1).ok())
        }
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}
