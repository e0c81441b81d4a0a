//! Half-open time windows `[from, to)`, and cutting a plan's window into slices without overlap or gaps.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::{Ts, micros};

/// `[from, to)`: a record equal to `to` belongs to the next window (ING-4.4-21).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Window {
    pub from: Ts,
    pub to: Ts,
}

impl Window {
    /// `None` when it would be empty.
    pub fn new(from: Ts, to: Ts) -> Option<Window> {
        (from < to).then_some(Window { from, to })
    }

    pub fn contains(&self, at: Ts) -> bool {
        self.from <= at && at < self.to
    }

    pub fn width(&self) -> Duration {
        self.to.since(self.from)
    }

    /// This window in up to `parts` parts, in order, without gap or overlap. Boundaries fall on multiples of `step`,
    /// and no part is narrower than it. One part when it cannot be cut.
    pub fn split(&self, parts: u32, step: Duration) -> Vec<Window> {
        let step = step.max(Duration::from_micros(1));
        let width = micros(self.width()) / i64::from(parts.max(1));
        let (mut cuts, mut from) = (Vec::new(), self.from);
        for part in 1..i64::from(parts.max(1)) {
            let border = Ts::from_micros(self.from.micros() + width * part).floor_to(step);
            let room = |a: Ts, b: Ts| b > a && b.since(a) >= step;
            if room(from, border) && room(border, self.to) {
                cuts.push(Window { from, to: border });
                from = border;
            }
        }
        // An unaligned window just over two steps wide may have no equal boundary with room on both sides, but
        // another one.
        if cuts.is_empty() && parts > 1 {
            let border = (self.from + step + step).floor_to(step);
            if border > self.from && border < self.to {
                return vec![Window { from, to: border }, Window { from: border, to: self.to }];
            }
        }
        cuts.push(Window { from, to: self.to });
        cuts
    }

    /// The parts of this window that none of `covered` covers, in order. `covered` may overlap and be in any order.
    pub fn minus(&self, covered: &[Window]) -> Vec<Window> {
        let mut sorted: Vec<_> = covered.iter().filter(|c| c.to > self.from && c.from < self.to).collect();
        sorted.sort_unstable();
        let (mut gaps, mut at) = (Vec::new(), self.from);
        for window in sorted {
            gaps.extend(Window::new(at, window.from));
            at = at.max(window.to);
        }
        gaps.extend(Window::new(at, self.to));
        gaps
    }
}

/// Alignment of interior slice boundaries (ING-4.4-11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Align {
    #[serde(rename = "min")]
    Minute,
    #[serde(rename = "hour")]
    Hour,
    #[serde(rename = "day")]
    Day,
}

impl Align {
    pub fn unit(self) -> Duration {
        Duration::from_secs(match self {
            Align::Minute => 60,
            Align::Hour => 3_600,
            Align::Day => 86_400,
        })
    }
}

/// How a window is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    pub max_width: Duration,
    pub align: Option<Align>,
}

impl Cut {
    /// The slices of `window`, in order: outer bounds exact, interior boundaries aligned (C-42), none wider than
    /// `max_width`. Lazy: a plan takes only as many as the queue has room for.
    pub fn slices(self, window: Window) -> impl Iterator<Item = Window> {
        let step = micros(self.max_width).max(1);
        let mut at = window.from;
        std::iter::from_fn(move || {
            let from = at;
            (from < window.to).then(|| {
                at = self.next_border(from, step).min(window.to);
                Window { from, to: at }
            })
        })
    }

    fn next_border(self, from: Ts, step: i64) -> Ts {
        let full = Ts::from_micros(from.micros().saturating_add(step));
        let aligned = self.align.map_or(full, |align| full.floor_to(align.unit()));
        // A step smaller than the alignment unit never reaches the next aligned boundary: keep the step.
        if aligned > from { aligned } else { full }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn w(from: i64, to: i64) -> Window {
        Window { from: Ts::from_micros(from), to: Ts::from_micros(to) }
    }

    // covers: ING-4.1-06, ING-4.4-01, ING-4.4-21, ING-6.1-07, ING-10.4-01, ING-11.5-01, ING-0.4-02
    #[test]
    fn the_end_belongs_to_the_next_window() {
        assert!(w(0, 10).contains(Ts::from_micros(0)));
        assert!(!w(0, 10).contains(Ts::from_micros(10)));
        assert_eq!(Window::new(Ts::from_micros(5), Ts::from_micros(5)), None);
    }

    #[test]
    fn gaps_are_what_is_not_covered() {
        assert_eq!(w(0, 10).minus(&[]), [w(0, 10)]);
        assert_eq!(w(0, 10).minus(&[w(4, 6), w(2, 5)]), [w(0, 2), w(6, 10)]);
        assert_eq!(w(0, 10).minus(&[w(-5, 20)]), []);
        assert_eq!(w(0, 10).minus(&[w(10, 20), w(-9, 0)]), [w(0, 10)]);
    }

    // covers: ING-4.4-11, ING-8.2-01, ING-4.4-22
    #[test]
    fn interior_borders_are_aligned_and_outer_bounds_exact() {
        let cut = Cut { max_width: Duration::from_secs(2 * 3_600), align: Some(Align::Hour) };
        let window =
            Window { from: "2026-01-01T00:30:00Z".parse().unwrap(), to: "2026-01-01T05:10:01Z".parse().unwrap() };
        let borders: Vec<_> = cut.slices(window).map(|s| s.to.to_short_text()).collect();
        assert_eq!(borders, ["2026-01-01T02:00:00Z", "2026-01-01T04:00:00Z", "2026-01-01T05:10:01Z"]);
    }

    proptest! {
        // covers: ING-DOD-06, ING-11.5-02
        #[test]
        fn slices_join_without_hole_or_overlap(
            from in -1_000_000_000_000i64..1_000_000_000_000,
            width in 1i64..10_000_000_000_000,
            step in 1u64..864_000_000_000,
            align in prop_oneof![Just(None), Just(Some(Align::Minute)), Just(Some(Align::Hour)), Just(Some(Align::Day))],
        ) {
            let window = w(from, from + width);
            let step = step.max((width / 500) as u64);
            let cut = Cut { max_width: Duration::from_micros(step), align };
            let slices: Vec<_> = cut.slices(window).collect();
            prop_assert_eq!(slices[0].from, window.from);
            prop_assert_eq!(slices[slices.len() - 1].to, window.to);
            for pair in slices.windows(2) {
                prop_assert_eq!(pair[0].to, pair[1].from);
            }
            for slice in &slices {
                prop_assert!(slice.from < slice.to && slice.width() <= cut.max_width);
            }
        }

        // covers: ING-4.4-24, ING-15-02
        #[test]
        fn the_parts_of_a_window_are_the_window(
            from in -1_000_000i64..1_000_000, width in 1i64..100_000_000, parts in 0u32..70, step in 1u64..10_000_000,
        ) {
            let (window, step) = (w(from, from + width), Duration::from_micros(step));
            let split = window.split(parts, step);
            prop_assert!(split.len() <= parts.max(1) as usize);
            prop_assert_eq!((split[0].from, split[split.len() - 1].to), (window.from, window.to));
            for pair in split.windows(2) {
                prop_assert_eq!(pair[0].to, pair[1].from);
                prop_assert_eq!(pair[0].to.floor_to(step), pair[0].to);
            }
            prop_assert!(split.iter().all(|part| part.from < part.to));
            // A window with an aligned boundary inside can be cut.
            let inside = (window.from.floor_to(step) + step + step) < window.to;
            prop_assert!(parts < 2 || !inside || split.len() > 1, "{:?} by {:?}", window, step);
        }

        #[test]
        fn gaps_and_cover_partition_the_window(covers in prop::collection::vec((0i64..100, 1i64..30), 0..8)) {
            let window = w(10, 90);
            let covers: Vec<_> = covers.into_iter().map(|(from, len)| w(from, from + len)).collect();
            let gaps = window.minus(&covers);
            for at in 10..90 {
                let at = Ts::from_micros(at);
                let covered = covers.iter().any(|c| c.contains(at));
                let in_gaps = gaps.iter().filter(|g| g.contains(at)).count();
                prop_assert_eq!(in_gaps, usize::from(!covered));
            }
        }
    }
}
