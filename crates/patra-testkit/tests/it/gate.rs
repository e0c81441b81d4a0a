//! The real gate, simulated: many processes, one rate.

use std::time::Duration;

use patra_testkit::gate::{GateMutant, GateScenario, Outcome, run};

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

/// Requests that arrive before a quota is used up. They differ from it by what killed processes held.
fn quota(seed: u64, processes: usize, quota: u64, kill_every: Duration, mutant: Option<GateMutant>) -> Outcome {
    run(GateScenario {
        processes,
        workers: 4,
        kill_every,
        lasts: Duration::from_secs(300),
        quota_hourly: Some(quota),
        mutant,
        ..GateScenario::new(seed, 50.0, 50.0, usize::MAX)
    })
}

#[test]
fn quota_is_used_up_by_requests_that_were_sent() {
    for seed in 0..40 {
        for (processes, limit) in [(1, 100), (1, 1_000), (2, 100), (4, 400)] {
            let outcome = quota(seed, processes, limit, Duration::ZERO, None);
            assert_eq!(outcome.permits as u64, limit, "seed {seed}, {processes} processes: {outcome:?}");
        }
        let outcome = quota(seed, 2, 400, Duration::from_secs(10), None);
        // The part that may be prefetched, and the requests of four workers.
        let lost = outcome.kills as u64 * (400 / 20 + 8);
        assert!((400_u64.saturating_sub(lost)..=400).contains(&(outcome.permits as u64)), "seed {seed}: {outcome:?}");
    }
}

#[test]
fn quota_simulation_notices_permits_that_are_lost_or_returned_twice() {
    let differs = |mutant| (0..40).any(|seed| quota(seed, 2, 400, Duration::ZERO, Some(mutant)).permits != 400);
    assert!(differs(GateMutant::LosesUnused));
    assert!(differs(GateMutant::ReturnsTwice));
}

#[test]
fn quota_survives_clocks_that_are_set_back() {
    for seed in 0..20 {
        let scenario = GateScenario {
            processes: 2,
            workers: 4,
            kill_every: Duration::ZERO,
            set_back_every: Duration::from_secs(20),
            lasts: Duration::from_secs(300),
            quota_hourly: Some(400),
            ..GateScenario::new(seed, 50.0, 50.0, usize::MAX)
        };
        let outcome = run(scenario);
        assert!(outcome.permits <= 400 && outcome.permits >= 360, "seed {seed}: {outcome:?}");
    }
}
