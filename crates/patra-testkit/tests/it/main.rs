//! Protocols against each other over the reference model.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod token;
