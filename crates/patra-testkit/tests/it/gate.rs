//! The real gate, simulated: many processes, one rate.

use std::time::Duration;

use patra_testkit::gate::{GateScenario, run};

// covers: ING-4.10-42, ING-4.10-13
#[test]
fn eight_processes_keep_to_the_limit_of_one() {
    let rates =
        [(1, 1_000.0, 100.0, 16), (2, 200.0, 20.0, 16), (3, 50.0, 1.0, 16), (4, 5.0, 1.0, 16), (5, 5_000.0, 500.0, 96)];
    for (seed, per_sec, burst, workers) in rates {
        let outcome = run(GateScenario { workers, ..GateScenario::new(seed, per_sec, burst, 60_000) });
        assert!(outcome.overshoot <= 0.0, "{per_sec}/s: {outcome:?}");
        assert!(outcome.used >= 0.95, "{per_sec}/s: {outcome:?}");
    }
}

#[test]
fn requested_silence_reaches_every_process() {
    let plan = GateScenario { silence_every: Duration::from_secs(10), ..GateScenario::new(7, 200.0, 20.0, 30_000) };
    let outcome = run(plan);
    assert!(outcome.silences > 2, "{outcome:?}");
    assert_eq!(outcome.broken_silences, 0, "{outcome:?}");
    assert!(outcome.overshoot <= 0.0, "{outcome:?}");
}

#[test]
fn clock_set_back_does_not_raise_the_rate_and_hardly_lowers_it() {
    for (seed, per_sec, burst) in [(11, 200.0, 20.0), (12, 20.0, 1.0), (13, 2.0, 10.0)] {
        let plan =
            GateScenario { set_back_every: Duration::from_secs(5), ..GateScenario::new(seed, per_sec, burst, 20_000) };
        let outcome = run(plan);
        assert!(outcome.overshoot <= 0.0, "{per_sec}/s: {outcome:?}");
        assert!(outcome.used >= 0.9, "{per_sec}/s: {outcome:?}");
    }
}

#[test]
fn two_classes_share_by_their_weights() {
    let plan =
        GateScenario { weights: [3, 1], kill_every: Duration::ZERO, ..GateScenario::new(9, 200.0, 20.0, 40_000) };
    let outcome = run(plan);
    assert!((outcome.shares[0] - 0.75).abs() < 0.0375, "{outcome:?}");
    assert!(outcome.used >= 0.95, "{outcome:?}");
}
