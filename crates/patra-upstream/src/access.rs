//! Access control: tokens, sessions, signatures. Pure: time is an argument, and nothing here knows of requests;
//! [`crate::server`] extracts the credentials of a request.

pub(crate) mod hmac;
pub(crate) mod signing;
pub(crate) mod token_store;
