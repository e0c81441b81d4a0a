//! The client against a scripted server that can violate HTTP.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

mod bombs;
mod encoding;
mod guard;
mod limits;
mod plain;
mod proxy;
mod redirect;
mod secrets;
mod server;
mod signer;
mod tls;
mod zstd;
