//! A cron pattern with a time zone.

use std::fmt;
use std::str::FromStr;

use jiff::tz::TimeZone;

use super::Cron;
use crate::time::Ts;

/// Prefix of a pattern that names a time zone.
const ZONE: &str = "CRON_TZ=";

/// A cron pattern in a time zone: `CRON_TZ=Europe/Berlin 0 6 * * *`; UTC without a zone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Timetable {
    text: String,
    cron: Cron,
    zone: TimeZone,
}

impl FromStr for Timetable {
    type Err = String;

    fn from_str(text: &str) -> Result<Timetable, String> {
        let text = text.trim();
        let (zone, pattern) = match text.strip_prefix(ZONE) {
            None => (TimeZone::UTC, text),
            Some(rest) => {
                let (name, pattern) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
                let zone = TimeZone::get(name).map_err(|_| format!("there is no zone {name:?}"))?;
                (zone, pattern)
            }
        };
        let table = Timetable { text: text.to_owned(), cron: Cron::parse(pattern)?, zone };
        match table.cron.next_after(Ts::from_secs(0)) {
            Some(_) => Ok(table),
            None => Err("there is no such day".to_owned()),
        }
    }
}

impl Timetable {
    /// The first match later than `after`. A match in the hour that daylight saving skips fires after it; one in the
    /// repeated hour fires once.
    pub fn next_after(&self, after: Ts) -> Option<Ts> {
        let instant = jiff::Timestamp::from_microsecond(after.micros()).ok()?;
        // Local wall time, as if that were UTC.
        let wall = instant.to_zoned(self.zone.clone()).datetime().to_zoned(TimeZone::UTC).ok()?.timestamp();
        let mut from = Ts::from_micros(wall.as_microsecond());
        loop {
            let next = self.cron.next_after(from)?;
            let wall = jiff::Timestamp::from_microsecond(next.micros()).ok()?.to_zoned(TimeZone::UTC).datetime();
            let at = Ts::from_micros(wall.to_zoned(self.zone.clone()).ok()?.timestamp().as_microsecond());
            if at > after {
                return Some(at);
            }
            from = next;
        }
    }
}

impl fmt::Display for Timetable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> Timetable {
        text.parse().unwrap()
    }

    fn ts(text: &str) -> Ts {
        text.parse().unwrap()
    }

    // covers: TWEET-113
    #[test]
    fn cron_is_read_in_utc_unless_a_zone_is_given() {
        let after = ts("2026-01-01T00:00:00Z");
        assert_eq!(table("0 6 * * *").next_after(after), Some(ts("2026-01-01T06:00:00Z")));
        assert_eq!(table("CRON_TZ=Asia/Shanghai 0 6 * * *").next_after(after), Some(ts("2026-01-01T22:00:00Z")));
        assert_eq!(table(" CRON_TZ=Europe/Berlin  0 6 * * * ").to_string(), "CRON_TZ=Europe/Berlin  0 6 * * *");
        for wrong in ["", "CRON_TZ=Nowhere/Land 0 6 * * *", "CRON_TZ=UTC", "0 6 * *", "0 0 30 2 *"] {
            assert!(wrong.parse::<Timetable>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn clocks_that_jump_neither_skip_a_firing_nor_repeat_it() {
        let daily = table("CRON_TZ=Europe/Berlin 30 2 * * *");
        // In the spring there is no half past two; in the autumn there are two of them.
        assert_eq!(daily.next_after(ts("2026-03-28T12:00:00Z")), Some(ts("2026-03-29T01:30:00Z")));
        assert_eq!(daily.next_after(ts("2026-03-29T01:30:00Z")), Some(ts("2026-03-30T00:30:00Z")));
        assert_eq!(daily.next_after(ts("2026-10-24T12:00:00Z")), Some(ts("2026-10-25T00:30:00Z")));
        assert_eq!(daily.next_after(ts("2026-10-25T00:30:00Z")), Some(ts("2026-10-26T01:30:00Z")));
        assert_eq!(daily.next_after(ts("2026-10-25T01:15:00Z")), Some(ts("2026-10-26T01:30:00Z")));
    }
}
