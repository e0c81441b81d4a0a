//! The program as its users meet it, in one test binary so that linking stays quick.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "these are tests: a failure is meant to be loud")]

#[macro_use]
mod support;

mod audit;
mod auth;
mod authoring;
mod cli;
mod collector;
mod crawler;
mod deny;
mod emit;
mod explain;
mod faults;
mod gate;
mod handbook;
mod help;
mod kill;
mod late_database;
mod layers;
mod missing;
mod mistakes;
mod moving;
mod named_gaps;
mod observability;
mod operations;
mod outputs;
mod own_words;
mod own_work;
mod packaging;
mod partitions;
mod pool;
mod projects;
mod registry;
mod replay;
mod repository;
mod snapshot;
mod torture;
mod transactions;
mod tweets;
mod two_phase;
mod ways;
