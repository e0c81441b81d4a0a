//! The store on a real server, named by `PATRA_TEST_POSTGRES_URL`; without it every test passes with a line that says
//! so.

#[expect(clippy::disallowed_methods, reason = "it measures, and is run by hand")]
mod bench;
#[expect(clippy::disallowed_methods, reason = "it measures, and is run by hand")]
mod bench_board;
mod bench_cookies;
#[expect(clippy::disallowed_methods, reason = "it measures, and is run by hand")]
mod bench_pool;
#[expect(clippy::unwrap_used, reason = "these are tests: a failure is meant to be loud")]
mod claim;
mod contract;
mod fault;
mod gather;
mod open;
mod plan;
mod pool;
mod schema;
mod storm;
mod support;
