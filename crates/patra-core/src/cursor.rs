//! Cursors: their identity, and how far one may move. A value is the end of the contiguous completed prefix, so it
//! never passes a window that is not complete, whatever finishes first (C-13).

use serde::{Deserialize, Serialize};

use crate::state::{Direction, Operation, UnknownValue};
use crate::time::Ts;
use crate::window::Window;

/// The identity of a cursor: `uk_cursor_ns`, and the endpoint (C-22).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct CursorName {
    pub project_key: String,
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    /// What the value measures, e.g. `updated_at`.
    pub cursor_key: String,
    pub scope: CursorScope,
    /// Empty for `GLOBAL`; never null, or the unique key would not hold.
    pub namespace_key: String,
}

/// `namespace_scope_code`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum CursorScope {
    #[serde(rename = "GLOBAL")]
    Global,
    #[serde(rename = "EXPR")]
    Expr,
    #[serde(rename = "CUSTOM")]
    Custom,
}

impl CursorScope {
    pub fn as_str(self) -> &'static str {
        match self {
            CursorScope::Global => "GLOBAL",
            CursorScope::Expr => "EXPR",
            CursorScope::Custom => "CUSTOM",
        }
    }
}

impl std::str::FromStr for CursorScope {
    type Err = UnknownValue;

    fn from_str(text: &str) -> Result<CursorScope, UnknownValue> {
        let known = [CursorScope::Global, CursorScope::Expr, CursorScope::Custom]
            .into_iter()
            .find(|scope| scope.as_str() == text);
        known.ok_or_else(|| UnknownValue { kind: "Scope", value: text.to_owned() })
    }
}

/// A value of a cursor. Only values of one kind and of one cursor are ever compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CursorValue {
    /// `TIME`: everything up to this instant, or down to it, is complete.
    At(Ts),
    /// `ID`: this many segments of the namespace are complete, and `last` is the last id of the last of them. Ids
    /// have no meaningful order, so the position in the candidate order is compared (G-10).
    Nth { ordinal: i64, last: String },
}

impl CursorValue {
    /// Whether this value is further on than `other`, in `direction`. Every value is beyond no value.
    pub fn is_beyond(&self, other: Option<&CursorValue>, direction: Direction) -> bool {
        let Some(other) = other else { return true };
        match (self, other, direction) {
            (CursorValue::At(new), CursorValue::At(old), Direction::Forward) => new > old,
            (CursorValue::At(new), CursorValue::At(old), Direction::Backfill) => new < old,
            (CursorValue::Nth { ordinal: new, .. }, CursorValue::Nth { ordinal: old, .. }, _) => new > old,
            _ => false,
        }
    }

    pub fn instant(&self) -> Option<Ts> {
        if let CursorValue::At(at) = self { Some(*at) } else { None }
    }

    /// `cursor_value`, for display.
    pub fn to_text(&self) -> String {
        match self {
            CursorValue::At(at) => at.to_string(),
            CursorValue::Nth { last, .. } => last.clone(),
        }
    }
}

/// The end of the contiguous completed part that begins at `start` and goes in `direction`.
pub fn completed_end(direction: Direction, start: Ts, completed: &[Window]) -> Ts {
    match direction {
        Direction::Forward => completed_prefix(start, completed),
        // Backwards is forwards with negated times.
        Direction::Backfill => {
            let turn = |at: Ts| Ts::from_micros(at.micros().saturating_neg());
            let mirrored: Vec<_> = completed.iter().map(|w| Window { from: turn(w.to), to: turn(w.from) }).collect();
            turn(completed_prefix(turn(start), &mirrored))
        }
    }
}

/// The end of the contiguous completed prefix that begins at `start`. `completed` may overlap, repeat and be in any
/// order.
pub fn completed_prefix(start: Ts, completed: &[Window]) -> Ts {
    let mut windows: Vec<_> = completed.iter().filter(|window| window.to > start).collect();
    windows.sort_unstable();
    let mut end = start;
    for window in windows {
        if window.from > end {
            break;
        }
        end = end.max(window.to);
    }
    end
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn w(from: i64, to: i64) -> Window {
        Window { from: Ts::from_micros(from), to: Ts::from_micros(to) }
    }

    fn check(start: i64, completed: &[Window], end: i64) {
        assert_eq!(completed_prefix(Ts::from_micros(start), completed).micros(), end);
    }

    // covers: ING-4.4-25, ING-10.2-01, ING-9.6-01
    #[test]
    fn only_the_unbroken_prefix_counts() {
        check(0, &[], 0);
        check(0, &[w(0, 10)], 10);
        check(0, &[w(10, 20)], 0);
        check(0, &[w(10, 20), w(0, 10)], 20);
        check(5, &[w(0, 10), w(0, 3), w(9, 12), w(13, 20)], 12);
        check(30, &[w(0, 10)], 30);
    }

    // covers: ING-4.4-09
    #[test]
    fn a_backfill_goes_down_from_its_start_and_stops_at_the_first_hole() {
        let end = |start: i64, completed: &[Window]| {
            completed_end(Direction::Backfill, Ts::from_micros(start), completed).micros()
        };
        assert_eq!(end(100, &[]), 100);
        assert_eq!(end(100, &[w(90, 100), w(80, 90), w(60, 70)]), 80);
        assert_eq!(end(100, &[w(80, 90)]), 100);
        assert_eq!(end(100, &[w(95, 120), w(50, 96)]), 50);
    }

    // covers: ING-4.4-06, ING-4.4-07
    #[test]
    fn onward_depends_on_the_direction_and_on_nothing_but_the_normalised_value() {
        let at = |secs| CursorValue::At(Ts::from_secs(secs));
        assert!(at(2).is_beyond(Some(&at(1)), Direction::Forward));
        assert!(!at(1).is_beyond(Some(&at(1)), Direction::Forward));
        assert!(at(1).is_beyond(Some(&at(2)), Direction::Backfill));
        assert!(!at(2).is_beyond(Some(&at(2)), Direction::Backfill));
        let nth = |ordinal, last: &str| CursorValue::Nth { ordinal, last: last.to_owned() };
        assert!(nth(10, "9").is_beyond(Some(&nth(9, "z")), Direction::Forward), "ids are not compared");
        assert!(!nth(9, "z").is_beyond(Some(&nth(9, "a")), Direction::Forward));
        assert!(at(0).is_beyond(None, Direction::Backfill));
    }

    proptest! {
        #[test]
        fn every_instant_below_the_prefix_is_completed(
            start in 0i64..50,
            windows in prop::collection::vec((0i64..100, 1i64..20), 0..12),
        ) {
            let windows: Vec<_> = windows.into_iter().map(|(from, len)| w(from, from + len)).collect();
            let end = completed_prefix(Ts::from_micros(start), &windows).micros();
            prop_assert!(end >= start);
            for at in start..end {
                prop_assert!(windows.iter().any(|w| w.contains(Ts::from_micros(at))));
            }
            // And not one step too early.
            prop_assert!(!windows.iter().any(|w| w.contains(Ts::from_micros(end))));
        }
    }
}
