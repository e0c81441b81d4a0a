//! Failures and refusals as a share of the responses.

use super::*;

// covers: ING-5.2-08, ING-5.7-01, ING-9.5-04, ING-9.7-03
#[test]
fn many_failures_lower_rate_and_tasks() {
    let mut upstream = Upstream::new();
    for _ in 0..20 {
        upstream.record(GOOD);
    }
    assert!(upstream.record(FAILED).is_empty(), "one failure is no share");
    upstream.record(GOOD);
    assert_eq!(
        upstream.record(FAILED),
        [HealthAction::RateDown { percent: 70 }, HealthAction::TasksDown { percent: 70 }]
    );
    upstream.wait(11);
    assert!(
        upstream.record(GOOD).contains(&HealthAction::TasksDown { percent: 49 }),
        "as long as the share is too high"
    );
    upstream.wait(301);
    assert_eq!(upstream.record(GOOD), [HealthAction::RateUp { percent: 80 }, HealthAction::TasksUp { percent: 59 }]);
}

// covers: ING-9.7-03
#[test]
fn many_refusals_lower_the_tasks_too() {
    let mut upstream = Upstream::new();
    for _ in 0..19 {
        upstream.record(GOOD);
    }
    assert_eq!(
        upstream.record(REFUSED),
        [HealthAction::RateDown { percent: 70 }],
        "one of twenty is within five percent"
    );
    assert_eq!(upstream.record(REFUSED), [HealthAction::TasksDown { percent: 70 }]);
    assert_eq!(upstream.advice().tasks(4), 2);
}
