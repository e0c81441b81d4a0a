//! Converts times in microseconds since 1970 (UTC) to text and back. Written by hand, because this crate stays small
//! and shares no code with the collector: a bug in its calendar must not be repeated here.

pub(crate) const MICROS: i64 = 1_000_000;
const DAY: i64 = 86_400;

/// `2024-01-01T00:00:00Z`, with a fraction only where there is one.
pub(crate) fn rfc3339(micros: i64) -> String {
    let (secs, fraction) = (micros.div_euclid(MICROS), micros.rem_euclid(MICROS));
    let (year, month, day) = civil(secs.div_euclid(DAY));
    let t = secs.rem_euclid(DAY);
    let (hour, minute, second) = (t / 3600, t / 60 % 60, t % 60);
    let dot = if fraction == 0 { String::new() } else { format!(".{fraction:06}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{dot}Z")
}

/// `Mon, 01 Jan 2024 00:00:00 GMT`, the form of `Date` and `Retry-After`.
pub(crate) fn http_date(secs: i64) -> String {
    const WEEK: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = secs.div_euclid(DAY);
    let (year, month, day) = civil(days);
    let t = secs.rem_euclid(DAY);
    let (weekday, month) = (WEEK[days.rem_euclid(7) as usize], MONTHS[month as usize - 1]);
    format!("{weekday}, {day:02} {month} {year:04} {:02}:{:02}:{:02} GMT", t / 3600, t / 60 % 60, t % 60)
}

/// An RFC 3339 instant, a date (its midnight in UTC), or epoch seconds with or without a fraction.
pub(crate) fn parse(text: &str) -> Option<i64> {
    if !text.is_ascii() {
        return None;
    }
    if text.as_bytes().get(4) == Some(&b'-') && text.len() >= 10 { parse_calendar(text) } else { parse_epoch(text) }
}

fn parse_epoch(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
    let fraction = fraction.map_or(Some(0), micros_of_fraction)?;
    Some(sign * number(whole, 1..=12)?.checked_mul(MICROS)?.checked_add(fraction)?)
}

fn parse_calendar(text: &str) -> Option<i64> {
    let (date, rest) = text.split_at(10);
    let mut parts = date.split('-');
    let mut part = |len: usize| number(parts.next()?, len..=len);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let days = days_from_civil(year, month, day);
    // Otherwise the 31st of April would silently be the 1st of May.
    if civil(days) != (year, month, day) {
        return None;
    }
    let midnight = days * DAY * MICROS;
    if rest.is_empty() {
        return Some(midnight);
    }
    Some(midnight + parse_clock(rest.strip_prefix(['T', 't', ' '])?)?)
}

/// `12:00:00.5+02:00`, as microseconds after midnight in UTC.
fn parse_clock(text: &str) -> Option<i64> {
    let (clock, rest) = text.split_at_checked(8)?;
    let secs = sexagesimal(clock.get(..5)?)? * 60 + (clock.get(5..)?.strip_prefix(':').and_then(|s| number(s, 2..=2)))?;
    if secs >= DAY || clock.get(6..)? > "59" {
        return None;
    }
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count()),
        None => ("0", rest),
    };
    let micros = secs * MICROS + micros_of_fraction(fraction)?;
    let ahead = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        ("+", offset) => sexagesimal(offset)?,
        ("-", offset) => -sexagesimal(offset)?,
        _ => return None,
    };
    Some(micros - ahead * 60 * MICROS)
}

/// `hh:mm` in minutes.
fn sexagesimal(text: &str) -> Option<i64> {
    let (hours, minutes) = text.split_once(':')?;
    let (hours, minutes) = (number(hours, 2..=2)?, number(minutes, 2..=2)?);
    (hours < 24 && minutes < 60).then_some(hours * 60 + minutes)
}

fn micros_of_fraction(digits: &str) -> Option<i64> {
    number(digits, 1..=9)?;
    format!("{digits:0<6}").get(..6)?.parse().ok()
}

/// Only digits: `parse` alone would also take a sign.
fn number(text: &str, len: std::ops::RangeInclusive<usize>) -> Option<i64> {
    (len.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Civil date from days since 1970 (Howard Hinnant's algorithm).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let (era, doe) = (z.div_euclid(146_097), z.rem_euclid(146_097));
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = year - i64::from(month <= 2);
    let (era, yoe) = (y.div_euclid(400), y.rem_euclid(400));
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        assert_eq!(parse(text).map(rfc3339).as_deref(), expected, "{text}");
    }

    #[test]
    fn times_of_apis_are_parsed() {
        check("2024-01-01", Some("2024-01-01T00:00:00Z"));
        check("2024-02-29T12:30:00Z", Some("2024-02-29T12:30:00Z"));
        check("2024-01-01T00:00:00+02:00", Some("2023-12-31T22:00:00Z"));
        check("2024-01-01T00:00:00.5-01:30", Some("2024-01-01T01:30:00.500000Z"));
        check("1704067200", Some("2024-01-01T00:00:00Z"));
        check("1704067200.25", Some("2024-01-01T00:00:00.250000Z"));
        check("-1", Some("1969-12-31T23:59:59Z"));
    }

    #[test]
    fn invalid_times_are_rejected() {
        let bad = ["", "x", "2024-13-01", "2023-02-29", "2024-01-01T00:00:00", "2024-01-01T24:00:00Z", "+5", "1e9"];
        // A space instead of the plus: the client did not escape it.
        for text in bad.into_iter().chain(["2024-01-01T00:00:00 02:00", "2024-01-01T00:00:60Z", "2024-01-01T", "é"]) {
            check(text, None);
        }
    }

    #[test]
    fn writes_http_dates() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
