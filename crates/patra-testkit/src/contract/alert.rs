//! The counts that alerts are based on, and who sends their notifications.

use std::time::Duration;

use patra_core::alert::{AlertEvent, AlertState, AlertView, RATE_WINDOW};
use patra_core::port::crawl::CrawlRequestCounts;
use patra_core::state::AlertLevel;
use patra_core::tx::{AlertWatched, CountCrawls, WatchAlert};

use super::concurrent::at_once;
use super::{Fixture, make};

fn count(platform: &str, succeeded: u64, failed: u64) -> CountCrawls {
    CountCrawls { platform: platform.into(), succeeded, failed }
}

fn crawled(platform: &str, succeeded: u64, failed: u64) -> CrawlRequestCounts {
    CrawlRequestCounts { platform: platform.into(), succeeded, failed }
}

/// Fires as soon as its condition is met, and does not repeat.
fn watch(holds: bool) -> WatchAlert {
    WatchAlert {
        alert: "backlog".into(),
        subject: String::new(),
        level: AlertLevel::P2,
        is_met: holds,
        value: 501.0,
        threshold: 500.0,
        detail: "a name: an error".into(),
        delay: Duration::ZERO,
        repeat: make::LONG,
    }
}

impl Fixture {
    async fn crawled(&self) -> Vec<CrawlRequestCounts> {
        self.subject.store.crawled().await.expect("counters")
    }

    async fn alerts(&self) -> Vec<AlertView> {
        self.subject.store.alerts().await.expect("alerts")
    }
}

// covers: CRAWL-161
pub(super) async fn requests_are_counted_for_ten_minutes(fx: Fixture) {
    assert_eq!(fx.crawled().await, []);
    for op in [count("xhs", 2, 1), count("dy", 1, 0), count("xhs", 3, 0)] {
        fx.ok(op).await;
    }
    assert_eq!(fx.crawled().await, [crawled("dy", 1, 0), crawled("xhs", 5, 1)]);
    fx.pass(RATE_WINDOW / 2).await;
    fx.ok(count("xhs", 0, 7)).await;
    assert_eq!(fx.crawled().await, [crawled("dy", 1, 0), crawled("xhs", 5, 8)]);
    fx.pass(RATE_WINDOW / 2 + Duration::from_secs(60)).await;
    assert_eq!(fx.crawled().await, [crawled("xhs", 0, 7)]);
    fx.pass(make::LONG * 10).await;
    fx.ok(count("xhs", 1, 1)).await;
    assert_eq!(fx.crawled().await, [crawled("xhs", 1, 1)]);
}

// covers: CRAWL-163, CRAWL-164
pub(super) async fn alert_is_notified_when_it_fires_and_when_it_resolves(fx: Fixture) {
    let quiet = fx.ok(watch(false)).await;
    assert_eq!(quiet, AlertWatched { state: AlertState::default(), since: None, notify: None });
    let waiting = fx.ok(WatchAlert { delay: make::LONG, ..watch(true) }).await;
    let since = waiting.state.since.expect("a time");
    let state = AlertState { since: Some(since), ..AlertState::default() };
    assert_eq!(waiting, AlertWatched { state, since: Some(since), notify: None });
    fx.pass(Duration::from_millis(5)).await;
    let fired = fx.ok(watch(true)).await;
    assert_eq!((fired.notify, fired.since, fired.state.firing), (Some(AlertEvent::Firing), Some(since), true));
    assert!(fired.state.notified_at > Some(since));
    let again = fx.ok(WatchAlert { value: 600.0, level: AlertLevel::P1, ..watch(true) }).await;
    assert_eq!((again.notify, &again.state), (None, &fired.state), "notified a moment ago");
    fx.pass(Duration::from_millis(5)).await;
    let repeated = fx.ok(WatchAlert { repeat: Duration::ZERO, ..watch(true) }).await;
    assert_eq!((repeated.notify, repeated.since), (Some(AlertEvent::Firing), Some(since)));
    assert!(repeated.state.notified_at > fired.state.notified_at);
    let view = |subject: &str, state: AlertState| AlertView {
        alert: "backlog".into(),
        subject: subject.into(),
        level: AlertLevel::P2,
        state,
        value: 501.0,
        threshold: 500.0,
        detail: "a name: an error".into(),
    };
    assert_eq!(fx.alerts().await, [view("", repeated.state)]);
    let ended = fx.ok(WatchAlert { value: 3.5, ..watch(false) }).await;
    assert_eq!(
        ended,
        AlertWatched { state: AlertState::default(), since: Some(since), notify: Some(AlertEvent::Resolved) }
    );
    assert_eq!(fx.ok(watch(false)).await.notify, None, "once");
    // Subjects and alerts are independent.
    fx.ok(WatchAlert { subject: "xhs".into(), ..watch(true) }).await;
    fx.ok(WatchAlert { alert: "a".into(), subject: "xhs".into(), delay: make::LONG, ..watch(true) }).await;
    let alerts = fx.alerts().await;
    let keys: Vec<_> = alerts.iter().map(|view| (&*view.alert, &*view.subject, view.state.firing)).collect();
    assert_eq!(keys, [("a", "xhs", false), ("backlog", "", false), ("backlog", "xhs", true)]);
}

// covers: CRAWL-163
pub(super) async fn twenty_concurrent_watches_notify_once(fx: Fixture) {
    for (holds, event) in [(true, AlertEvent::Firing), (false, AlertEvent::Resolved)] {
        let answers = at_once(&fx, vec![watch(holds); 20]).await;
        let notified: Vec<_> = answers.into_iter().filter_map(|answer| answer.expect("an answer").notify).collect();
        assert_eq!(notified, [event]);
    }
    let answers = at_once(&fx, vec![count("xhs", 2, 1); 20]).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let sum = fx.crawled().await.into_iter().fold((0, 0), |sum, one| (sum.0 + one.succeeded, sum.1 + one.failed));
    assert_eq!(sum, (40, 20));
}
