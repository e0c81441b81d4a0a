mod shares;

use super::*;

const GOOD: Answer =
    Answer { throttled: false, failed: false, latency: Duration::from_millis(50), bytes: 0, items: 0, page_size: 0 };
const REFUSED: Answer = Answer { throttled: true, ..GOOD };
const FAILED: Answer = Answer { failed: true, ..GOOD };

struct Far {
    health: Health,
    rng: Rng,
    now: Ts,
}

impl Far {
    fn new() -> Far {
        Far { health: Health::new(Thresholds::default()), rng: Rng::new(7), now: Ts::from_secs(1_000) }
    }

    fn tell(&mut self, answer: Answer) -> Vec<Action> {
        let mut actions = Vec::new();
        self.health.on(self.now, &answer, &mut self.rng, &mut actions);
        actions
    }

    fn wait(&mut self, secs: u64) {
        self.now = self.now + Duration::from_secs(secs);
    }

    fn advice(&self) -> Advice {
        self.health.advice(self.now)
    }
}

// covers: ING-12.2-01
#[test]
fn refusals_lower_the_rate_to_the_floor_and_silence_brings_it_back() {
    let mut far = Far::new();
    assert_eq!(far.tell(REFUSED), [Action::RateDown { percent: 70 }]);
    assert!(far.tell(REFUSED).is_empty(), "what was done must be felt first");
    for _ in 0..10 {
        far.wait(11);
        far.tell(REFUSED);
    }
    assert_eq!(far.advice().rate_percent, 30);
    assert!(far.advice().healing().qps_downshift);
    far.wait(301);
    assert_eq!(far.tell(GOOD), [Action::RateUp { percent: 40 }]);
    for _ in 0..10 {
        far.wait(11);
        far.tell(GOOD);
    }
    assert_eq!(far.advice(), Advice { min_page_size: 10, ..Advice::default() });
}

#[test]
fn many_refusals_among_the_answers_ask_for_narrower_windows() {
    let mut far = Far::new();
    for _ in 0..38 {
        far.tell(GOOD);
    }
    far.tell(REFUSED);
    assert!(!far.advice().narrower, "one of forty is within five percent");
    far.tell(REFUSED);
    far.tell(REFUSED);
    assert!(far.advice().narrower);
    far.wait(31);
    assert!(!far.advice().narrower, "for a while");
}

// covers: ING-12.2-02
#[test]
fn slow_answers_lower_the_tasks_and_the_pages() {
    let mut far = Far::new();
    let slow = Answer { latency: Duration::from_secs(4), ..GOOD };
    for _ in 0..19 {
        assert!(far.tell(slow).is_empty(), "too few to tell");
    }
    assert_eq!(far.tell(slow), [Action::TasksDown { percent: 70 }, Action::PagesDown { percent: 70 }]);
    let advice = far.advice();
    assert_eq!((advice.tasks(4), advice.tasks(1), advice.page_size(100)), (2, 1, 70));
    assert_eq!((advice.page_size(12), advice.page_size(5)), (10, 5), "not below the least, nor above the configured");
}

// covers: ING-8.4-01
#[test]
fn an_answer_that_is_far_too_large_shrinks_pages_and_windows() {
    for large in [Answer { bytes: 6 << 20, ..GOOD }, Answer { items: 201, page_size: 100, ..GOOD }] {
        let mut far = Far::new();
        assert_eq!(far.tell(large), [Action::PagesDown { percent: 70 }]);
        assert!(far.advice().narrower);
    }
}

// covers: ING-12.2-04
#[test]
fn failures_in_a_row_open_the_circuit_and_one_probe_decides() {
    let mut far = Far::new();
    assert!(far.tell(FAILED).is_empty() && far.tell(FAILED).is_empty());
    far.tell(GOOD);
    assert!(far.tell(FAILED).is_empty() && far.tell(FAILED).is_empty(), "in a row means in a row");
    let actions = far.tell(FAILED);
    let [Action::CircuitOpened { until }] = actions[..] else { panic!("{actions:?}") };
    let open = until.since(far.now);
    assert!(open >= Duration::from_secs(60) && open <= Duration::from_secs(120));
    assert_eq!(far.health.permit(far.now), Some(until));
    assert!(far.tell(FAILED).is_empty(), "late answers change nothing");
    far.now = until;
    assert_eq!(far.health.permit(far.now), None, "one may try");
    assert!(far.health.permit(far.now).is_some(), "the others wait for it");
    let actions = far.tell(FAILED);
    let [Action::CircuitOpened { until }] = actions[..] else { panic!("{actions:?}") };
    assert!(until.since(far.now) >= Duration::from_secs(120), "longer each time");
    far.now = until;
    assert_eq!(far.health.permit(far.now), None);
    assert_eq!(far.tell(GOOD), [Action::CircuitClosed]);
    assert_eq!(far.health.permit(far.now), None);
}

#[test]
fn a_probe_that_never_answers_is_followed_by_another() {
    let mut far = Far::new();
    for _ in 0..3 {
        far.tell(FAILED);
    }
    far.wait(121);
    assert_eq!(far.health.permit(far.now), None);
    far.wait(30);
    assert!(far.health.permit(far.now).is_some());
    far.wait(31);
    assert_eq!(far.health.permit(far.now), None);
}
