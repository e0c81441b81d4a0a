//! The contract suite, on the reference model itself.

use std::sync::Arc;

use patra_testkit::contract::{self, Subject};
use patra_testkit::{ManualClock, SharedMem};

/// One test per contract case.
mod cases {
    patra_testkit::contract_tests!(crate::contract::keeps);
}

fn keeps(case: &str) {
    contract::run_case(case, async || subject());
}

// Compares the model with itself, which tests the generator and the comparison, not the model.
#[tokio::test]
async fn differential_test_finds_no_difference_between_equal_stores() {
    contract::differential(async || subject(), 0..50).await;
}

fn subject() -> Subject {
    let clock = Arc::new(ManualClock::default());
    Subject { store: Arc::new(SharedMem::new(clock.clone())), time: clock }
}
