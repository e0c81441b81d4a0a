//! Dates as feeds write them: RFC 822 and its many misspellings, ISO 8601 and W3C forms, asctime, seconds since 1970,
//! and month names of several languages. What has no zone is UTC, and so is what has one that cannot be.

use std::sync::LazyLock;

use jiff::civil;
use jiff::fmt::rfc2822;
use jiff::tz::TimeZone;
use regex::Regex;
use serde::Serialize;

use patra_core::Ts;

use super::tree::TreeElement;

/// Longest text that is tried as a date.
const MAX_DATE_BYTES: usize = 128;
/// The widest offset that a place on Earth has, with room.
const MAX_OFFSET_HOURS: i64 = 15;
/// Two digits below this are of this century.
const PIVOT: i64 = 70;

/// A date as it was written, and the instant it names if it names one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FeedDate {
    pub text: String,
    pub at: Option<Ts>,
}

impl FeedDate {
    pub(crate) fn new(text: String) -> FeedDate {
        FeedDate { at: parse(&text), text }
    }

    pub(super) fn of(element: &TreeElement<'_>) -> Option<FeedDate> {
        Some(element.text()).filter(|text| !text.is_empty()).map(FeedDate::new)
    }
}

#[expect(clippy::unwrap_used, reason = "the pattern is a constant, and the tests run it")]
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:^|[^\d])(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:[.,](\d+))?)?(?:\s*([ap])\.?m\b\.?)?").unwrap()
});
#[expect(clippy::unwrap_used, reason = "the pattern is a constant, and the tests run it")]
static ZONE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)^\s*\(?([a-z]{1,5})?\)?\s*(?:([+\-−])\s?(\d{1,2}):?(\d{2})?\b)?").unwrap());

static MAIL: rfc2822::DateTimeParser = rfc2822::DateTimeParser::new();

/// Months by how their names begin, in English, German, French, Spanish, Italian, Dutch, Portuguese, Hungarian, Polish,
/// Russian and Greek.
const MONTHS: [&[&str]; 12] = [
    &["jan", "ene", "gen", "sty", "янв", "ιαν"],
    &["feb", "fév", "fev", "lut", "фев", "φεβ"],
    &["mar", "mär", "mrz", "maa", "már", "мар", "μαρ", "μάρ", "μάώ", "μαώ"],
    &["apr", "avr", "abr", "ápr", "kwi", "апр", "απρ"],
    &["may", "mai", "mag", "mei", "maj", "máj", "мая", "май", "μαϊ", "μάι", "μαι"],
    &["jun", "juin", "giu", "jún", "cze", "июн", "ιούν", "ιουν", "ιον"],
    &["jul", "juil", "lug", "júl", "lip", "июл", "ιούλ", "ιουλ", "ιολ"],
    &["aug", "aoû", "aou", "ago", "sie", "авг", "αυγ", "αύγ"],
    &["sep", "set", "sze", "wrz", "сен", "σεπ"],
    &["oct", "okt", "out", "ott", "paź", "окт", "οκτ"],
    &["nov", "lis", "ноя", "νοε", "νοέ"],
    &["dec", "dez", "déc", "dic", "gru", "дек", "δεκ"],
];
/// Names of days that begin like a month.
const DAYS: [&str; 5] = ["mardi", "martes", "martedi", "martedì", "maandag"];

/// Zones by name, in minutes east of Greenwich.
const ZONES: &[(&str, i64)] = &[
    ("est", -300),
    ("edt", -240),
    ("et", -300),
    ("cst", -360),
    ("cdt", -300),
    ("ct", -360),
    ("mst", -420),
    ("mdt", -360),
    ("mt", -420),
    ("pst", -480),
    ("pdt", -420),
    ("pt", -480),
    ("ast", -240),
    ("adt", -180),
    ("akst", -540),
    ("akdt", -480),
    ("hst", -600),
    ("brt", -180),
    ("bst", 60),
    ("wet", 0),
    ("west", 60),
    ("cet", 60),
    ("mez", 60),
    ("cest", 120),
    ("mesz", 120),
    ("eet", 120),
    ("eest", 180),
    ("msk", 180),
    ("ist", 330),
    ("sgt", 480),
    ("hkt", 480),
    ("awst", 480),
    ("jst", 540),
    ("kst", 540),
    ("aest", 600),
    ("aedt", 660),
    ("nzst", 720),
    ("nzdt", 780),
];

/// The instant of a text. A day beyond the end of its month is the last day; hour 24 is midnight of the next day.
pub fn parse(text: &str) -> Option<Ts> {
    let text = text.trim();
    if text.is_empty() || text.len() > MAX_DATE_BYTES {
        return None;
    }
    // The two usual forms first, because they are fast.
    let usual = if text.starts_with(|c: char| c.is_ascii_digit()) {
        text.parse::<jiff::Timestamp>().ok().or_else(|| packed(text))
    } else {
        MAIL.parse_timestamp(text).ok()
    };
    if let Some(at) = usual {
        return Some(Ts::from_micros(at.as_microsecond()));
    }
    let time = ClockTime::find(text);
    let (minutes_east, rest) = zone(time.after);
    let date = day(&format!("{} {rest}", time.before))?;
    instant(date, (time.hour, time.minute, time.second), time.micros, minutes_east)
}

/// The time of day in a text, midnight if there is none, and the text around it.
#[derive(Default)]
struct ClockTime<'t> {
    before: &'t str,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    after: &'t str,
}

impl ClockTime<'_> {
    fn find(text: &str) -> ClockTime<'_> {
        let Some(found) = TIME.captures(text) else { return ClockTime { before: text, ..ClockTime::default() } };
        let number = |index: usize| found.get(index).and_then(|part| part.as_str().parse().ok()).unwrap_or(0);
        let half = found.get(5).map_or("", |half| half.as_str());
        let says = |letter: &str, words: [&str; 3]| {
            half.eq_ignore_ascii_case(letter) || words.iter().any(|word| text.contains(word))
        };
        let hour = match number(1) {
            hour @ 1..=11 if says("p", ["오후", "下午", "μμ"]) => hour + 12,
            12 if says("a", ["오전", "上午", "πμ"]) => 0,
            hour => hour,
        };
        // The whole may begin with the character that stands before the time.
        let start = found.get(1).map_or(0, |hour| hour.start());
        let end = found.get(0).map_or(text.len(), |whole| whole.end());
        let micros = found.get(4).and_then(|part| fraction(part.as_str())).unwrap_or(0);
        ClockTime { before: &text[..start], hour, minute: number(2), second: number(3), micros, after: &text[end..] }
    }
}

fn fraction(digits: &str) -> Option<i64> {
    format!("{digits:0<6}").get(..6)?.parse().ok()
}

/// Digits alone: seconds or milliseconds since 1970, or a date without marks. Also `20031231T101455Z`.
fn packed(text: &str) -> Option<jiff::Timestamp> {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    let rest = &text[digits.len()..];
    let part = |range: std::ops::Range<usize>| digits.get(range)?.parse::<i64>().ok();
    let ymd = || Some((part(0..4)?, part(4..6)?, part(6..8)?));
    let at = |ts: Option<Ts>| jiff::Timestamp::from_microsecond(ts?.micros()).ok();
    match (digits.len(), rest) {
        (9..=11, "") => jiff::Timestamp::from_second(digits.parse().ok()?).ok(),
        (13, "") => jiff::Timestamp::from_millisecond(digits.parse().ok()?).ok(),
        (7, "") => at(instant(ordinal(part(0..4)?, part(4..7)?)?, (0, 0, 0), 0, 0)),
        (8, "") => at(instant(ymd()?, (0, 0, 0), 0, 0)),
        (6, "") if digits.starts_with("19") || digits.starts_with("20") => {
            at(instant((part(0..4)?, part(4..6)?, 1), (0, 0, 0), 0, 0))
        }
        (12 | 14, _) => {
            let (minutes_east, _) = zone(rest);
            let time = (part(8..10)?, part(10..12)?, part(12..14).unwrap_or(0));
            at(instant(ymd()?, time, 0, minutes_east))
        }
        (8, rest) => {
            let time: String =
                rest.trim_start_matches(['T', 't', ' ']).chars().take_while(char::is_ascii_digit).collect();
            let offset = zone(rest.trim_start_matches(['T', 't', ' ']).get(time.len()..)?).0;
            let part = |from: usize| time.get(from..from + 2).and_then(|two| two.parse::<i64>().ok());
            at(instant(ymd()?, (part(0)?, part(2)?, part(4).unwrap_or(0)), 0, offset))
        }
        _ => None,
    }
}

/// The offset at the start of a text, and the rest of the text.
fn zone(text: &str) -> (i64, &str) {
    let Some(found) = ZONE.captures(text) else { return (0, text) };
    let name = found.get(1).map(|name| name.as_str().to_ascii_lowercase());
    let named = name.as_deref().and_then(|name| ZONES.iter().find(|(known, _)| *known == name)).map(|(_, east)| *east);
    let rest = &text[found.get(0).map_or(0, |whole| whole.end())..];
    let number = |index: usize| found.get(index).map_or(Some(0), |part| part.as_str().parse::<i64>().ok());
    let Some(sign) = found.get(2) else {
        // A word that is no zone may be a month.
        let no_zone = named.is_none() && name.as_deref().is_some_and(|name| month(name).is_some());
        return (named.unwrap_or(0), if no_zone { text } else { rest });
    };
    let (Some(hours), Some(minutes)) = (number(3), number(4)) else { return (0, rest) };
    if hours > MAX_OFFSET_HOURS || minutes > 59 {
        return (0, rest);
    }
    let east = hours * 60 + minutes;
    (if sign.as_str() == "+" { east } else { -east }, rest)
}

fn month(word: &str) -> Option<i64> {
    let begins = |names: &[&str]| names.iter().any(|name| word.starts_with(name));
    let at = MONTHS.iter().position(|names| begins(names)).filter(|_| !DAYS.contains(&word))?;
    i64::try_from(at + 1).ok()
}

/// Year, month and day from the rest without the time.
fn day(text: &str) -> Option<(i64, i64, i64)> {
    let text = text.to_lowercase();
    // The last one: in some languages Tuesday is abbreviated like March.
    let named = text.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()).filter_map(month).next_back();
    let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    let numbers: Vec<i64> = parts.iter().map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let is_year = |at: usize| parts[at].len() >= 3 || numbers[at] > 31;
    match (named, numbers.as_slice()) {
        (Some(month), [one]) if is_year(0) => Some((century(*one, parts[0]), month, 1)),
        (Some(month), [first, second, ..]) if is_year(0) => Some((century(*first, parts[0]), month, *second)),
        (Some(month), [first, second, ..]) => Some((century(*second, parts[1]), month, *first)),
        (None, [year]) if parts[0].len() == 4 => Some((*year, 1, 1)),
        (None, [year, day]) if parts[0].len() == 4 && parts[1].len() == 3 => ordinal(*year, *day),
        (None, [year, month]) if parts[0].len() == 4 => Some((*year, *month, 1)),
        (None, [year, month, day, ..]) if parts[0].len() == 4 => Some((*year, *month, *day)),
        (None, [first, second, third, ..]) => {
            let year = century(*third, parts[2]);
            let dashed_short = text.contains('-') && parts[2].len() == 2;
            match () {
                () if dashed_short || *first > 31 => Some((century(*first, parts[0]), *second, *third)),
                () if *first > 12 || text.contains('.') || text.contains('-') => Some((year, *second, *first)),
                () => Some((year, *first, *second)),
            }
        }
        _ => None,
    }
}

fn ordinal(year: i64, day: i64) -> Option<(i64, i64, i64)> {
    let first = civil::Date::new(i16::try_from(year).ok()?, 1, 1).ok()?;
    let date = first.checked_add(jiff::Span::new().try_days(day.checked_sub(1)?).ok()?).ok()?;
    Some((date.year().into(), date.month().into(), date.day().into()))
}

fn century(year: i64, written: &str) -> i64 {
    match written.len() {
        1 | 2 if year < PIVOT => 2_000 + year,
        // Some programs count years from 1900.
        1..=3 => 1_900 + year,
        _ => year,
    }
}

fn instant(
    (year, month, day): (i64, i64, i64),
    (hour, minute, second): (i64, i64, i64),
    micros: i64,
    minutes_east: i64,
) -> Option<Ts> {
    if !(1..=31).contains(&day) || hour > 24 || minute > 59 || second > 61 {
        return None;
    }
    let first = civil::Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, 1).ok()?;
    let last = i64::from(first.days_in_month());
    let midnight = first.at(0, 0, 0, 0).to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    let seconds = (day.min(last) - 1) * 86_400 + hour * 3_600 + (minute - minutes_east) * 60 + second.min(59);
    let at = (midnight + seconds).checked_mul(1_000_000)? + micros;
    jiff::Timestamp::from_microsecond(at).ok().map(|at| Ts::from_micros(at.as_microsecond()))
}

#[cfg(test)]
mod tests;
