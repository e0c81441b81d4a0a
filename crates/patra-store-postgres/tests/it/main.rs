//! The store on a real server. `PATRA_TEST_POSTGRES_URL` names it; without it every test passes with a line that says so.

mod claim;
mod contract;
mod fault;
mod open;
mod storm;
mod support;
