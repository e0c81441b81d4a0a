//! The program as its users meet it, in one test binary so that linking stays quick.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests: a failure is meant to be loud")]

mod audit;
mod auth;
mod authoring;
mod cli;
mod collector;
mod crawler;
mod emit;
mod faults;
mod gate;
mod handbook;
mod house;
mod kill;
mod observability;
mod operations;
mod packaging;
mod partitions;
mod pool;
mod projects;
mod registry;
mod replay;
mod support;
mod torture;
mod tweets;
mod two_phase;
mod ways;
