//! Failures and refusals as a share of the answers.

use super::*;

// covers: ING-5.2-08, ING-5.7-01, ING-9.5-04, ING-9.7-03
#[test]
fn many_failures_among_the_answers_lower_the_rate_and_the_tasks() {
    let mut far = Far::new();
    for _ in 0..20 {
        far.tell(GOOD);
    }
    assert!(far.tell(FAILED).is_empty(), "one failure is no share");
    far.tell(GOOD);
    assert_eq!(far.tell(FAILED), [Action::RateDown { percent: 70 }, Action::TasksDown { percent: 70 }]);
    far.wait(11);
    assert!(far.tell(GOOD).contains(&Action::TasksDown { percent: 49 }), "as long as the share is too high");
    far.wait(301);
    assert_eq!(far.tell(GOOD), [Action::RateUp { percent: 80 }, Action::TasksUp { percent: 59 }]);
}

// covers: ING-9.7-03
#[test]
fn many_refusals_lower_the_tasks_too() {
    let mut far = Far::new();
    for _ in 0..19 {
        far.tell(GOOD);
    }
    assert_eq!(far.tell(REFUSED), [Action::RateDown { percent: 70 }], "one of twenty is within five percent");
    assert_eq!(far.tell(REFUSED), [Action::TasksDown { percent: 70 }]);
    assert_eq!(far.advice().tasks(4), 2);
}
