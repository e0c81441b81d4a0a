use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn ts(text: &str) -> Ts {
    text.parse().unwrap()
}

/// The matches that follow 2024-02-27T10:20:30Z, a Tuesday.
fn check(pattern: &str, expected: &[&str]) {
    let cron = Cron::parse(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
    let mut at = ts("2024-02-27T10:20:30Z");
    for expected in expected {
        at = cron.next_after(at).unwrap_or_else(|| panic!("{pattern}: nothing after {at}"));
        assert_eq!(at.to_short_text(), format!("{expected}:00Z"), "{pattern}");
    }
}

fn refused(pattern: &str, expected: &str) {
    assert_eq!(Cron::parse(pattern).unwrap_err(), expected, "{pattern}");
}

#[test]
fn cron_fields_select_times() {
    check("* * * * *", &["2024-02-27T10:21", "2024-02-27T10:22"]);
    check("20 10 * * *", &["2024-02-28T10:20", "2024-02-29T10:20", "2024-03-01T10:20"]);
    check("*/20 9-11/2 * * *", &["2024-02-27T11:00", "2024-02-27T11:20", "2024-02-27T11:40", "2024-02-28T09:00"]);
    check(" 0,30  23 * * * ", &["2024-02-27T23:00", "2024-02-27T23:30", "2024-02-28T23:00"]);
    check("5 0 1 * *", &["2024-03-01T00:05", "2024-04-01T00:05"]);
    check("0 0 31 * *", &["2024-03-31T00:00", "2024-05-31T00:00", "2024-07-31T00:00"]);
    check("0 0 29 2 *", &["2024-02-29T00:00", "2028-02-29T00:00", "2032-02-29T00:00"]);
    check("0 12 1 jan,JUL-aug *", &["2024-07-01T12:00", "2024-08-01T12:00", "2025-01-01T12:00"]);
}

#[test]
fn sunday_has_two_numbers_and_a_name() {
    for sunday in ["0", "7", "sun", "Sun", "7,0"] {
        check(&format!("0 6 * * {sunday}"), &["2024-03-03T06:00", "2024-03-10T06:00"]);
    }
    check("0 6 * * fri-7", &["2024-03-01T06:00", "2024-03-02T06:00", "2024-03-03T06:00", "2024-03-08T06:00"]);
    check("0 6 * * */3", &["2024-02-28T06:00", "2024-03-02T06:00", "2024-03-03T06:00"]);
}

#[test]
fn one_of_two_day_fields_is_enough_unless_one_begins_with_a_star() {
    check("0 0 1 * mon", &["2024-03-01T00:00", "2024-03-04T00:00", "2024-03-11T00:00"]);
    check("0 0 * * mon", &["2024-03-04T00:00", "2024-03-11T00:00"]);
    check("0 0 1 * *", &["2024-03-01T00:00", "2024-04-01T00:00"]);
    check("0 0 */10 * mon", &["2024-03-11T00:00", "2024-04-01T00:00"]);
    check("0 0 1-31 * mon", &["2024-02-28T00:00", "2024-02-29T00:00"]);
}

#[test]
fn cron_pattern_that_never_matches_ends_the_search() {
    for never in ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 29 2 */7"] {
        assert_eq!(Cron::parse(never).unwrap().next_after(ts("2024-01-01")), None, "{never}");
    }
    let cron = Cron::parse("0 0 1 1 *").unwrap();
    for beyond in [Ts::MIN, Ts::MAX, ts("9999-12-30")] {
        assert_eq!(cron.next_after(beyond), None);
    }
    let before = ts("1969-12-31T23:59:59.999999Z");
    assert_eq!(Cron::parse("* * * * *").unwrap().next_after(before), Some(Ts::from_secs(0)));
    assert_eq!(cron.next_after(Ts::from_secs(0)), Some(ts("1971-01-01")), "strictly later");
}

#[test]
fn cron_errors_name_the_mistake() {
    for short in ["", "* * * *", "@hourly"] {
        let count = short.split_whitespace().count();
        refused(short, &format!("expected 5 fields: minute, hour, day, month and weekday, but found {count}"));
    }
    refused("0 0 * * * 2024", "expected 5 fields: minute, hour, day, month and weekday, but found 6");
    refused("60 * * * *", "minute: `60` is not 0 to 59");
    refused("-1 * * * *", "minute: `` is not 0 to 59");
    refused("+1 * * * *", "minute: `+1` is not 0 to 59");
    refused("* 24 * * *", "hour: `24` is not 0 to 23");
    refused("* * 0 * *", "day: `0` is not 1 to 31");
    refused("* * L * *", "day: `L` is not 1 to 31");
    refused("* * * 13 *", "month: `13` is not 1 to 12 or jan to dec");
    refused("* * * * 8", "weekday: `8` is not 0 to 7 or sun to sat");
    refused("* * * * monday", "weekday: `monday` is not 0 to 7 or sun to sat");
    refused("1,,2 * * * *", "minute: `` is not 0 to 59");
    refused("30-10 * * * *", "minute: `30-10` runs backwards");
    refused("* * * * fri-sun", "weekday: `fri-sun` runs backwards");
    refused("5/10 * * * *", "minute: a step needs `*` or a range, as in */5 or 10-20/5, not `5/10`");
    refused("*/0 * * * *", "minute: the step `0` is not 1 to 60");
    refused("*/61 * * * *", "minute: the step `61` is not 1 to 60");
    refused("* * * * */8", "weekday: the step `8` is not 1 to 7");
    refused("*/x * * * *", "minute: the step `x` is not 1 to 60");
    refused("** * * * *", "minute: `**` is not 0 to 59");
    refused(&format!("* * * * {}", "1,".repeat(150)), "a pattern has at most 256 bytes");
    refused(&format!("{} * * * *", "é".repeat(40)), &format!("minute: `{}` is not 0 to 59", "é".repeat(20)));
}

#[test]
fn longest_pause_of_a_cron_pattern() {
    let pause = |pattern: &str| Cron::parse(pattern).unwrap().longest_pause().as_secs() / 60;
    assert_eq!((pause("* * * * *"), pause("*/20 * * * *"), pause("0,10 * * * *")), (1, 20, 50));
    assert_eq!((pause("0 6,18 * * *"), pause("*/30 8-18 * * *"), pause("5 3 * * *")), (720, 13 * 60 + 30, 1_440));
    assert_eq!((pause("*/5 * * * 1-5"), pause("* * 1 * *"), pause("* * * 2-12 *")), (1_440, 1_440, 1_440));
    assert_eq!((pause("* * 1-31 * 1"), pause("* * 1 * 0-6")), (1, 1), "one of the two is enough");
}

/// Values of a field, and a way to write them.
fn field(first: u32, last: u32) -> impl Strategy<Value = (String, BTreeSet<u32>)> {
    let all = move || (first..=last).collect::<BTreeSet<_>>();
    let one = (first..=last).prop_map(|value| (value.to_string(), BTreeSet::from([value])));
    let range = (first..=last, first..=last, 1usize..8).prop_map(|(one, other, step)| {
        let (from, to) = (one.min(other), one.max(other));
        let text = if step == 1 { format!("{from}-{to}") } else { format!("{from}-{to}/{step}") };
        (text, (from..=to).step_by(step).collect())
    });
    let item = prop_oneof![one, range];
    let list = prop::collection::vec(item, 1..4).prop_map(|items: Vec<(String, BTreeSet<u32>)>| {
        let texts: Vec<_> = items.iter().map(|(text, _)| text.clone()).collect();
        (texts.join(","), items.into_iter().flat_map(|(_, values)| values).collect())
    });
    let stepped = (1usize..8).prop_map(move |step| {
        let last = if last == 7 { 6 } else { last };
        (format!("*/{step}"), (first..=last).step_by(step).collect())
    });
    prop_oneof![2 => Just(("*".to_owned(), all())), 1 => stepped, 2 => list]
}

proptest! {
    /// Against a calendar that is walked minute by minute.
    #[test]
    fn the_next_firing_is_the_first_minute_that_fits(
        minutes in field(0, 59), hours in field(0, 23), days in field(1, 31), months in field(1, 12),
        weekdays in field(0, 7), secs in -2_000_000_000i64..6_000_000_000, micros in 0i64..1_000_000,
    ) {
        let pattern = [&minutes.0, &hours.0, &days.0, &months.0, &weekdays.0].map(String::as_str).join(" ");
        let cron = Cron::parse(&pattern).unwrap();
        let both = days.0.starts_with('*') || weekdays.0.starts_with('*');
        let fits = |at: Ts| {
            let at = jiff::Timestamp::from_microsecond(at.micros()).unwrap().to_zoned(TimeZone::UTC);
            let weekday = part(at.weekday().to_sunday_zero_offset());
            let (day, weekday) = (
                days.1.contains(&part(at.day())),
                weekdays.1.contains(&weekday) || (weekday == 0 && weekdays.1.contains(&7)),
            );
            let today = if both { day && weekday } else { day || weekday };
            today && months.1.contains(&part(at.month())) && hours.1.contains(&part(at.hour()))
                && minutes.1.contains(&part(at.minute()))
        };
        let after = Ts::from_micros(secs * 1_000_000 + micros);
        let next = cron.next_after(after);
        if let Some(next) = next {
            prop_assert!(next > after && next.micros() % 60_000_000 == 0 && fits(next), "{pattern} {after:?} {next:?}");
        }
        let mut minute = after.floor_to(MINUTE) + MINUTE;
        let horizon = minute + DAY * 3;
        while minute < horizon && !fits(minute) {
            minute = minute + MINUTE;
        }
        match next {
            Some(next) if next < horizon => prop_assert_eq!(next, minute, "{}", pattern),
            _ => prop_assert_eq!(minute, horizon, "{} skipped one", pattern),
        }
    }

    #[test]
    fn no_pause_is_longer_than_the_longest(
        minutes in field(0, 59), hours in field(0, 23), secs in 0i64..2_000_000_000,
    ) {
        let cron = Cron::parse(&format!("{} {} * * *", minutes.0, hours.0)).unwrap();
        let longest = cron.longest_pause();
        let mut at = cron.next_after(Ts::from_secs(secs)).unwrap();
        let mut seen = Duration::ZERO;
        let end = at + DAY;
        while at < end {
            let next = cron.next_after(at).unwrap();
            seen = seen.max(next.since(at));
            at = next;
        }
        prop_assert_eq!(seen, longest);
    }

    #[test]
    fn no_text_breaks_the_parser(text in "[-*/, 0-9a-z]{0,40}|.{0,300}") {
        let _ = Cron::parse(&text).map(|cron| (cron.next_after(Ts::from_secs(0)), cron.longest_pause()));
    }
}
