//! All cases by name.

use super::Case;
use crate::contract_cases;

macro_rules! table {
    ($($module:ident { $($name:ident),* $(,)? })*) => {
        /// Every case by name.
        pub const CASES: &[(&str, Case)] = &[$($(
            (concat!(stringify!($module), "::", stringify!($name)), |fixture| Box::pin(super::$module::$name(fixture)))
        ),*),*];
    };
}

contract_cases!(table);
