//! The mock API: a small, fast HTTP/1.1 server that lists synthetic records in the usual paging styles and fails as
//! scripted. The demo, the tests and the benches collect from it.
//!
//! A [`Dataset`] holds the records, a [`Script`] controls the behaviour, and a [`MockApi`] serves both on a socket.
//! This crate must not know anything about the collector that it tests.
//!
//! # What it serves
//!
//! | path | content | module |
//! |---|---|---|
//! | `/offset` `/page` `/cursor` `/link` `/window` | the records, paged in five ways, with `from`, `to`, `order` | `paging` |
//! | `/ids`, `/ids/offset` and so on | the same listings of ids, with `version=1` of ids and versions | `paging` |
//! | `/details?ids=a,b,c`, `/detail/{id}` | records by id; unknown, missing and failing ids by [`DetailEndpoints`] | `details` |
//! | `/users`, `/users/{id}/posts`, `/users/{id}/posts/{id}/comments` | users, posts and comments, see [`People`] | `users` |
//! | `/rest/issues` | a bare list with `Link` headers | `api_styles::issues` |
//! | `POST /graphql` | a connection; errors in 200s | `api_styles::graphql` |
//! | `/export` | one day as CSV or Atom, with an API key | `api_styles::export` |
//! | `/twitter/user/last_tweets` `/twitter/list/tweets` `/twitter/user/info`, `POST /twitter/bookmarks_v2` | tweets, see [`TweetProvider`] | `api_styles::tweets` |
//! | `POST /oauth/token`, `POST /login`, `POST /sign` | credentials for data requests, see [`MockAuth`] | `server::auth_routes` |
//! | `/stats` `/reset` `/visible` `/knobs` `/revoke` `/health` | control routes | `server::control` |
//!
//! All routes except the last two lines are data routes: they are counted in [`MockApiStats`], logged, protected by
//! [`MockAuth`], and subject to faults. With [`Script::ceiling`] the listings serve only the first records of a query,
//! so that a collector must narrow it.

mod access;
mod api_styles;
mod base64;
mod content;
mod cursor;
mod dataset;
mod details;
mod paging;
mod query;
mod rng;
mod script;
mod server;
mod stats;
mod time;
mod users;

pub use crate::access::signing::{SigningInput, body_sha256, sign};
pub use crate::dataset::{Dataset, DatasetBuilder, People};
pub use crate::script::{
    CeilingMode, DetailEndpoints, FailingItem, FaultSchedule, LateRecord, LoginEndpoint, MockAuth, RequestSigning,
    RetryAfter, Script, SessionLocation, SignatureLocation, TokenEndpoint, TruncateMode, TweetEnvelope, TweetFault,
    TweetFaultKind, TweetProvider, UnknownIdPolicy,
};
pub use crate::server::{LogEntry, MockApi, ScriptHandle};
pub use crate::stats::{AccessStats, MockApiStats};
