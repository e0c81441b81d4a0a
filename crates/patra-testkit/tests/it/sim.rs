//! The simulator: fixed seeds, fresh seeds, and the planted bugs.

use patra_testkit::sim::{Mutant, Schedule, hunt, regression_seeds, simulate};

fn holds(seed: u64) -> Schedule {
    simulate(seed, None, false).unwrap_or_else(|violation| panic!("{violation}"))
}

#[test]
fn regression_seeds_hold() {
    for seed in regression_seeds() {
        holds(seed);
    }
}

// covers: ING-13.3-09, ING-10.0-01, ING-11.9-02, ING-11.9-03, ING-9.4-05, ING-5.2-03
#[test]
fn invariants_hold_in_fresh_schedules() {
    let steps: u64 = (0..300).map(|seed| holds(seed).steps).sum();
    assert!(steps >= 300 * 100, "{steps} steps are too few to mean anything");
}

#[test]
fn seed_determines_its_schedule() {
    for seed in 5_000..5_050 {
        assert_eq!(holds(seed), holds(seed), "seed {seed}");
    }
}

#[test]
fn every_mutant_is_detected() {
    let missed: Vec<_> = Mutant::ALL.iter().filter(|mutant| hunt(**mutant, 40_000).is_none()).collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
