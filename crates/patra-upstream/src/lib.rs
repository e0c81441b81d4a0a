//! The scripted far side: a small, fast HTTP/1.1 server that lists synthetic records behind the usual paging styles
//! and misbehaves when told to. The demo, the tests and the benches collect from it.
//!
//! A [`Dataset`] is what the far side has, a [`Script`] how it behaves, a [`Server`] the two on a socket. This crate
//! must not know anything of the collector it is used against: it is the other party.
//!
//! # What it serves
//!
//! | path | what | module |
//! |---|---|---|
//! | `/offset` `/page` `/cursor` `/link` `/window` | the records, paged in five ways, with `from`, `to`, `order` | `paging` |
//! | `/ids`, `/ids/offset` and so on | the same listings of ids, with `version=1` of ids and versions | `paging` |
//! | `/details?ids=a,b,c`, `/detail/{id}` | records by id; unknown, missing and poisonous ids by [`Detail`] | `details` |
//! | `/users`, `/users/{id}/posts`, `/users/{id}/posts/{id}/comments` | parents and children, see [`People`] | `family` |
//! | `/rest/issues` | a bare list with `Link` headers | `shapes::issues` |
//! | `POST /graphql` | a connection; errors in 200s | `shapes::graphql` |
//! | `/export` | one day as CSV or Atom, with an API key | `shapes::export` |
//! | `/twitter/user/last_tweets` `/twitter/list/tweets` `/twitter/user/info`, `POST /twitter/bookmarks_v2` | tweets, see [`Tweets`] | `shapes::tweets` |
//! | `POST /oauth/token`, `POST /login`, `POST /sign` | what [`Auth`] asks data requests for | `server::doors` |
//! | `/stats` `/reset` `/visible` `/knobs` `/revoke` `/health` | the controls | `server::control` |
//!
//! All but the last two lines are data: counted in [`Stats`], kept in the log, behind [`Auth`], and what faults fall on.
//! With [`Script::ceiling`] the listings serve only the first records of a query, so that a collector must narrow it.

mod access;
mod base64;
mod content;
mod cursor;
mod dataset;
mod details;
mod family;
mod paging;
mod query;
mod rng;
mod script;
mod server;
mod shapes;
mod stats;
mod time;

pub use crate::access::signing::{ToSign, body_sha256, sign};
pub use crate::dataset::{Builder, Dataset, People};
pub use crate::script::{
    Auth, CeilingMode, Detail, Failing, Late, Login, LoginAnswer, OAuth, RetryAfter, Script, SignaturePlace, Signing,
    TruncateMode, TweetAnswer, TweetEnvelope, TweetFault, Tweets, Unknown, When,
};
pub use crate::server::{LogEntry, ScriptHandle, Server};
pub use crate::stats::{AccessStats, Stats};
