//! The time window of a board.

use std::time::Duration;

use patra_core::port::board::{A_MINUTE, A_QUARTER, AN_HOUR, MINUTES_KEPT, QUARTERS_KEPT};
use patra_core::{Ts, Window};

/// Default window of a board, up to now.
pub const DEFAULT_WINDOW: Duration = Duration::from_secs(3_600);
/// Longest window: as long as batches stay online.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(90 * 86_400);

/// Most steps of a chart.
const STEPS_WANTED: u64 = 240;
/// Round step sizes, in minutes.
const ROUND_STEPS: [u32; 7] = [1, 5, 15, 60, 360, 1_440, 10_080];

#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadWindow {
    #[error("`from` must lie before `to`")]
    Empty,
    #[error("a board shows at most {} days", LONGEST_WINDOW.as_secs() / 86_400)]
    TooLong,
}

/// The window from `from` to `to`; up to now without `to`, and an hour long without `from`. Older windows are widened
/// to whole quarters or hours, because finer counts are not kept.
pub fn window(from: Option<Ts>, to: Option<Ts>, now: Ts) -> Result<Window, BadWindow> {
    // The current minute is included.
    let to = to.unwrap_or(now + A_MINUTE);
    let window = Window { from: from.unwrap_or(to - DEFAULT_WINDOW), to };
    match window {
        Window { from, to } if from >= to => Err(BadWindow::Empty),
        Window { from, to } if to.since(from) > LONGEST_WINDOW + A_MINUTE => Err(BadWindow::TooLong),
        Window { from, to } => Ok(Window { from: whole(from, now), to: up(to, now) }),
    }
}

/// Start of the quarter or hour of a time, where no finer counts are kept.
fn whole(at: Ts, now: Ts) -> Ts {
    let by = counted_by(at, now);
    if by > A_MINUTE { at.floor_to(by) } else { at }
}

fn up(at: Ts, now: Ts) -> Ts {
    let floor = whole(at, now);
    if floor == at { at } else { floor + counted_by(at, now) }
}

/// Granularity of the counts at a time.
fn counted_by(at: Ts, now: Ts) -> Duration {
    match now.since(at) {
        age if age <= MINUTES_KEPT => A_MINUTE,
        age if age <= QUARTERS_KEPT => A_QUARTER,
        _ => AN_HOUR,
    }
}

/// The window of this span up to the end of the current minute.
pub(super) fn ending_at(now: Ts, span: Duration) -> Window {
    let to = now.floor_to(A_MINUTE) + A_MINUTE;
    Window { from: to - span, to }
}

/// Default minutes per step: few enough steps, and none finer than the counts that are kept.
pub fn step_minutes(window: Window, now: Ts) -> u32 {
    let minutes = window.to.since(window.from).as_secs() / 60;
    let finest = counted_by(window.from, now);
    let fits = |step: &u32| minutes / u64::from(*step) <= STEPS_WANTED && A_MINUTE * *step >= finest;
    ROUND_STEPS.into_iter().find(fits).unwrap_or(ROUND_STEPS[ROUND_STEPS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_by_default_is_the_last_hour() {
        let now = Ts::from_secs(100_000);
        let asked = window(None, None, now).unwrap();
        assert_eq!((asked.to, asked.to.since(asked.from)), (now + A_MINUTE, DEFAULT_WINDOW));
        let day = Duration::from_secs(86_400);
        assert_eq!(window(Some(now), Some(now), now), Err(BadWindow::Empty));
        assert_eq!(window(Some(now), Some(now + 91 * day), now), Err(BadWindow::TooLong));
        assert_eq!(window(Some(now), Some(now + 90 * day), now).unwrap().to, now + 90 * day);
    }

    #[test]
    fn step_minutes_of_any_window_gives_few_steps() {
        let step = |days: u64, hours: u64| {
            let (from, span) = (Ts::from_secs(0), Duration::from_secs(days * 86_400 + hours * 3_600));
            step_minutes(Window { from, to: from + span }, from + span)
        };
        let steps = [step(0, 1), step(0, 2), step(0, 12), step(1, 0), step(7, 0), step(90, 0)];
        assert_eq!(steps, [1, 1, 15, 15, 60, 1_440]);
    }

    #[test]
    fn window_of_older_times_is_whole_quarters_and_hours() {
        let now = Ts::from_secs(1_000 * 86_400);
        let ago = |minutes: u64| now - Duration::from_secs(60 * minutes);
        let asked = |from, to| window(Some(ago(from)), Some(ago(to)), now).map(|window| (window.from, window.to));
        assert_eq!(asked(61, 58), Ok((ago(61), ago(58))));
        assert_eq!(asked(296, 288), Ok((ago(300), ago(285))));
        assert_eq!(asked(300, 285), Ok((ago(300), ago(285))));
        assert_eq!(asked(4_321, 4_319), Ok((ago(4_380), ago(4_260))));
        assert_eq!(asked(130, 60), Ok((ago(135), ago(60))));
    }

    #[test]
    fn steps_are_no_finer_than_what_is_kept() {
        let from = Ts::from_secs(0);
        let an_hour = Window { from, to: from + AN_HOUR };
        let step = |age| step_minutes(an_hour, from + age);
        assert_eq!([step(MINUTES_KEPT), step(2 * MINUTES_KEPT), step(2 * QUARTERS_KEPT)], [1, 15, 60]);
    }
}
