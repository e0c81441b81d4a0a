//! Progress marks: whose they are, and how far one may move. A value is the end of the contiguous completed prefix, so
//! it never passes a window that is not complete, whatever finishes first (C-13).

use serde::{Deserialize, Serialize};

use crate::state::Operation;
use crate::time::Ts;
use crate::window::Window;

/// The identity of a cursor: `uk_cursor_ns`, with the endpoint beside it (C-22).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Name {
    pub provenance_code: String,
    pub endpoint_name: String,
    pub operation: Operation,
    /// What the value measures, e.g. `updated_at`.
    pub cursor_key: String,
    pub scope: Scope,
    /// Empty for `GLOBAL`; never null, or the unique key would not hold.
    pub namespace_key: String,
}

/// `namespace_scope_code`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Scope {
    #[serde(rename = "GLOBAL")]
    Global,
    #[serde(rename = "EXPR")]
    Expr,
    #[serde(rename = "CUSTOM")]
    Custom,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Global => "GLOBAL",
            Scope::Expr => "EXPR",
            Scope::Custom => "CUSTOM",
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
