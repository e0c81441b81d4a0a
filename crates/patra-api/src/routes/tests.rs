//! Filled by the suite below: every route, with and without a key.
