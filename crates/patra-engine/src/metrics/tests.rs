//! Counted events, and the names of their metrics.

mod counted;
