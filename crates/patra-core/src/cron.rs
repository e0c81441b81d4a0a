//! Cron patterns of five fields, in UTC: minute, hour, day of the month, month, day of the week. Pure: the next match
//! is arithmetic on the calendar.

mod timetable;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::time::Ts;

pub use timetable::Timetable;

/// Longest pattern that is parsed. Real patterns have a few dozen bytes.
pub const MAX_PATTERN: usize = 256;

/// How far ahead to search for the next match. The rarest day that comes regularly is the 29th of February.
pub const MAX_YEARS: i16 = 5;

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);

/// A parsed pattern. Bit n of a field stands for its value n.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// 0 is Sunday.
    weekdays: u64,
    /// A day must match both day fields. Only when neither of them begins with `*` one is enough (as in Vixie cron).
    both: bool,
}

struct CronField {
    name: &'static str,
    first: u32,
    last: u32,
    /// Names of the values from `first` on.
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const FIELDS: [CronField; 5] = [
    CronField { name: "minute", first: 0, last: 59, names: &[] },
    CronField { name: "hour", first: 0, last: 23, names: &[] },
    CronField { name: "day", first: 1, last: 31, names: &[] },
    CronField { name: "month", first: 1, last: 12, names: MONTHS },
    // Sunday is 0 and 7.
    CronField { name: "weekday", first: 0, last: 7, names: WEEKDAYS },
];

impl Cron {
    /// Parses a pattern, or returns what is wrong with it. A pattern may still never match: see [`Cron::next_after`].
    pub fn parse(text: &str) -> Result<Cron, String> {
        if text.len() > MAX_PATTERN {
            return Err(format!("a pattern has at most {MAX_PATTERN} bytes"));
        }
        let texts: Vec<_> = text.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = texts[..] else {
            let count = texts.len();
            return Err(format!("expected 5 fields: minute, hour, day, month and weekday, but found {count}"));
        };
        let [minutes, hours, days, months, weekdays] = FIELDS;
        let week = weekdays.read(weekday)?;
        Ok(Cron {
            minutes: minutes.read(minute)?,
            hours: hours.read(hour)?,
            days: days.read(day)?,
            months: months.read(month)?,
            weekdays: (week & 0x7F) | (week >> 7),
            both: day.starts_with('*') || weekday.starts_with('*'),
        })
    }

    /// The first match later than `after`: a whole minute in UTC. `None` when there is none within [`MAX_YEARS`]
    /// years, as for the 30th of February, and beyond the end of the calendar.
    pub fn next_after(&self, after: Ts) -> Option<Ts> {
        let instant = |at: Ts| jiff::Timestamp::from_microsecond(at.micros()).ok();
        instant(after)?;
        let start = instant(after.floor_to(MINUTE) + MINUTE)?.to_zoned(TimeZone::UTC).datetime();
        let mut date = start.date();
        let (mut hour, mut minute) = (part(start.hour()), part(start.minute()));
        let end = Date::new(date.year().checked_add(MAX_YEARS)?, date.month(), 1).unwrap_or(Date::MAX);
        while date <= end {
            if !has(self.months, part(date.month())) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.fires_on(date)
                && let Some((hour, minute)) = self.time_from(hour, minute)
            {
                return at(date, hour, minute);
            } else {
                date = date.tomorrow().ok()?;
            }
            (hour, minute) = (0, 0);
        }
        None
    }

    /// The longest time between two matches. For a pattern that skips days it is a lower bound: a day.
    pub fn longest_pause(&self) -> Duration {
        let all = |set: u64, field: &CronField| (field.first..=field.last).all(|value| has(set, value));
        let [_, _, days, months, _] = FIELDS;
        let weekdays = self.weekdays == 0x7F;
        let daily = match self.both {
            true => all(self.days, &days) && weekdays,
            false => all(self.days, &days) || weekdays,
        };
        if !daily || !all(self.months, &months) {
            return DAY;
        }
        let fires =
            (0..1_440).filter(|at| has(self.hours, at / 60) && has(self.minutes, at % 60)).collect::<Vec<u32>>();
        // From the last match of a day to the first of the next.
        let over = fires.first().zip(fires.last()).map(|(first, last)| first + 1_440 - last);
        let pauses = fires.windows(2).map(|pair| pair[1] - pair[0]).chain(over);
        MINUTE * pauses.max().unwrap_or(1_440)
    }

    fn fires_on(&self, date: Date) -> bool {
        let day = has(self.days, part(date.day()));
        let weekday = has(self.weekdays, part(date.weekday().to_sunday_zero_offset()));
        if self.both { day && weekday } else { day || weekday }
    }

    /// The first time of day that is not earlier than this one.
    fn time_from(&self, hour: u32, minute: u32) -> Option<(u32, u32)> {
        let first = |set: u64, from: u32| (from..60).find(|value| has(set, *value));
        if has(self.hours, hour)
            && let Some(minute) = first(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        Some((first(self.hours, hour + 1)?, first(self.minutes, 0)?))
    }
}

impl FromStr for Cron {
    type Err = String;

    fn from_str(text: &str) -> Result<Cron, String> {
        Cron::parse(text)
    }
}

impl CronField {
    /// `*`, a value, a range, each with a step but the value; or a list of these.
    fn read(&self, text: &str) -> Result<u64, String> {
        text.split(',').try_fold(0, |set, item| Ok(set | self.item(item)?))
    }

    fn item(&self, text: &str) -> Result<u64, String> {
        let (values, step) = match text.split_once('/') {
            Some((values, step)) => (values, Some(self.step(step)?)),
            None => (text, None),
        };
        let (from, to) = match values.split_once('-') {
            // The second name of Sunday would count twice with a step.
            None if values == "*" => (self.first, self.last.min(self.first + self.count() - 1)),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None if step.is_some() => {
                return Err(format!("{self}: a step needs `*` or a range, as in */5 or 10-20/5, not {}", quote(text)));
            }
            None => (self.value(values)?, self.value(values)?),
        };
        if from > to {
            return Err(format!("{self}: {} runs backwards", quote(values)));
        }
        Ok((from..=to).step_by(step.unwrap_or(1)).fold(0, |set, value| set | 1 << value))
    }

    fn value(&self, text: &str) -> Result<u32, String> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| self.first + at);
        let value = named.or_else(|| number(text)).filter(|value| (self.first..=self.last).contains(value));
        value.ok_or_else(|| {
            let names = self.names.first().zip(self.names.last());
            let or = names.map(|(first, last)| format!(" or {first} to {last}")).unwrap_or_default();
            format!("{self}: {} is not {} to {}{or}", quote(text), self.first, self.last)
        })
    }

    fn step(&self, text: &str) -> Result<usize, String> {
        let step = number(text).filter(|step| (1..=self.count()).contains(step)).and_then(|step| step.try_into().ok());
        step.ok_or_else(|| format!("{self}: the step {} is not 1 to {}", quote(text), self.count()))
    }

    /// Number of different values.
    fn count(&self) -> u32 {
        let twice = u32::from(self.names.len() == WEEKDAYS.len());
        self.last - self.first + 1 - twice
    }
}

impl fmt::Display for CronField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Digits and nothing else: no sign, no blank.
fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn has(set: u64, value: u32) -> bool {
    set.checked_shr(value).is_some_and(|rest| rest & 1 == 1)
}

/// A part of a date or a time of day; none of them is negative.
fn part(value: i8) -> u32 {
    u32::try_from(value).unwrap_or(0)
}

fn at(date: Date, hour: u32, minute: u32) -> Option<Ts> {
    let midnight = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second();
    Some(Ts::from_secs(midnight) + MINUTE * (hour * 60 + minute))
}

/// The text, cut to a length that fits a message.
fn quote(text: &str) -> String {
    format!("`{}`", text.chars().take(20).collect::<String>())
}

#[cfg(test)]
mod tests;
