//! Who may read, and what was handed out to them: tokens, sessions, signatures. Pure: time is an argument, and nothing
//! here knows of requests; [`crate::server`] finds what a request shows.

pub(crate) mod hmac;
pub(crate) mod signing;
pub(crate) mod vault;
