mod shares;

use super::*;

const GOOD: RequestOutcome = RequestOutcome {
    throttled: false,
    failed: false,
    latency: Duration::from_millis(50),
    bytes: 0,
    items: 0,
    page_size: 0,
};
const REFUSED: RequestOutcome = RequestOutcome { throttled: true, ..GOOD };
const FAILED: RequestOutcome = RequestOutcome { failed: true, ..GOOD };

struct Upstream {
    health: UpstreamHealth,
    rng: Rng,
    now: Ts,
}

impl Upstream {
    fn new() -> Upstream {
        Upstream { health: UpstreamHealth::new(Thresholds::default()), rng: Rng::new(7), now: Ts::from_secs(1_000) }
    }

    fn record(&mut self, outcome: RequestOutcome) -> Vec<HealthAction> {
        let mut actions = Vec::new();
        self.health.on(self.now, &outcome, &mut self.rng, &mut actions);
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
fn refusals_lower_the_rate_to_the_floor_and_quiet_restores_it() {
    let mut upstream = Upstream::new();
    assert_eq!(upstream.record(REFUSED), [HealthAction::RateDown { percent: 70 }]);
    assert!(upstream.record(REFUSED).is_empty(), "the effect must show first");
    for _ in 0..10 {
        upstream.wait(11);
        upstream.record(REFUSED);
    }
    assert_eq!(upstream.advice().rate_percent, 30);
    assert!(upstream.advice().healing().qps_downshift);
    upstream.wait(301);
    assert_eq!(upstream.record(GOOD), [HealthAction::RateUp { percent: 40 }]);
    for _ in 0..10 {
        upstream.wait(11);
        upstream.record(GOOD);
    }
    assert_eq!(upstream.advice(), Advice { min_page_size: 10, ..Advice::default() });
}

#[test]
fn many_refusals_advise_narrower_windows() {
    let mut upstream = Upstream::new();
    for _ in 0..38 {
        upstream.record(GOOD);
    }
    upstream.record(REFUSED);
    assert!(!upstream.advice().narrower, "one of forty is within five percent");
    upstream.record(REFUSED);
    upstream.record(REFUSED);
    assert!(upstream.advice().narrower);
    upstream.wait(31);
    assert!(!upstream.advice().narrower, "for a while");
}

// covers: ING-12.2-02
#[test]
fn slow_responses_lower_tasks_and_page_size() {
    let mut upstream = Upstream::new();
    let slow = RequestOutcome { latency: Duration::from_secs(4), ..GOOD };
    for _ in 0..19 {
        assert!(upstream.record(slow).is_empty(), "too few responses");
    }
    assert_eq!(
        upstream.record(slow),
        [HealthAction::TasksDown { percent: 70 }, HealthAction::PagesDown { percent: 70 }]
    );
    let advice = upstream.advice();
    assert_eq!((advice.tasks(4), advice.tasks(1), advice.page_size(100)), (2, 1, 70));
    assert_eq!((advice.page_size(12), advice.page_size(5)), (10, 5), "not below the least, nor above the configured");
}

// covers: ING-8.4-01
#[test]
fn oversized_response_shrinks_pages_and_windows() {
    for large in [RequestOutcome { bytes: 6 << 20, ..GOOD }, RequestOutcome { items: 201, page_size: 100, ..GOOD }] {
        let mut upstream = Upstream::new();
        assert_eq!(upstream.record(large), [HealthAction::PagesDown { percent: 70 }]);
        assert!(upstream.advice().narrower);
    }
}

// covers: ING-12.2-04
#[test]
fn failures_in_a_row_open_the_circuit_and_one_probe_decides() {
    let mut upstream = Upstream::new();
    assert!(upstream.record(FAILED).is_empty() && upstream.record(FAILED).is_empty());
    upstream.record(GOOD);
    assert!(upstream.record(FAILED).is_empty() && upstream.record(FAILED).is_empty(), "in a row means in a row");
    let actions = upstream.record(FAILED);
    let [HealthAction::CircuitOpened { until }] = actions[..] else { panic!("{actions:?}") };
    let open = until.since(upstream.now);
    assert!(open >= Duration::from_secs(60) && open <= Duration::from_secs(120));
    assert_eq!(upstream.health.permit(upstream.now), Some(until));
    assert!(upstream.record(FAILED).is_empty(), "late responses change nothing");
    upstream.now = until;
    assert_eq!(upstream.health.permit(upstream.now), None, "one may try");
    assert!(upstream.health.permit(upstream.now).is_some(), "the others wait for it");
    let actions = upstream.record(FAILED);
    let [HealthAction::CircuitOpened { until }] = actions[..] else { panic!("{actions:?}") };
    assert!(until.since(upstream.now) >= Duration::from_secs(120), "longer each time");
    upstream.now = until;
    assert_eq!(upstream.health.permit(upstream.now), None);
    assert_eq!(upstream.record(GOOD), [HealthAction::CircuitClosed]);
    assert_eq!(upstream.health.permit(upstream.now), None);
}

#[test]
fn probe_without_a_response_is_followed_by_another() {
    let mut upstream = Upstream::new();
    for _ in 0..3 {
        upstream.record(FAILED);
    }
    upstream.wait(121);
    assert_eq!(upstream.health.permit(upstream.now), None);
    upstream.wait(30);
    assert!(upstream.health.permit(upstream.now).is_some());
    upstream.wait(31);
    assert_eq!(upstream.health.permit(upstream.now), None);
}
