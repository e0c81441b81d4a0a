//! The table of alert rules, and the rules for Prometheus that follow from it.

use std::fmt::Write as _;
use std::time::Duration;

use super::AlertRule;
use crate::state::AlertLevel;

const A_DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// All rules. Settings, console, metrics and documentation follow this table.
pub const RULES: [AlertRule; 14] = [
    COOKIES_EXHAUSTED,
    LOW_SUCCESS_RATE,
    BACKLOG,
    UPSTREAM_REFUSED,
    UPSTREAM_THROTTLES,
    SOURCE_PAUSED,
    SOURCE_GONE,
    SOURCE_SILENT,
    ENDPOINT_FAILING,
    CREDENTIAL_REFUSED,
    WORK_HALTED,
    QUEUE_STANDS,
    PLAN_REFUSED,
    EVENTS_BEHIND,
];

/// No account of a platform can be used: fewer than this many.
pub const COOKIES_EXHAUSTED: AlertRule = AlertRule {
    name: "cookies_exhausted",
    level: AlertLevel::P0,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "no cookie of %s can be used",
};
/// Too many crawl requests of a platform fail.
pub const LOW_SUCCESS_RATE: AlertRule = AlertRule {
    name: "low_success_rate",
    level: AlertLevel::P1,
    threshold: 0.9,
    delay: Duration::from_secs(10 * 60),
    repeat: None,
    summary: "too many crawl requests to %s fail",
};
/// Too many notes wait.
pub const BACKLOG: AlertRule = AlertRule {
    name: "backlog",
    level: AlertLevel::P2,
    threshold: 500.0,
    delay: Duration::from_secs(30 * 60),
    repeat: None,
    summary: "too many notes are waiting to be fetched",
};
/// An upstream refuses our key, or the balance is used up: no more requests are sent to it.
pub const UPSTREAM_REFUSED: AlertRule = AlertRule {
    name: "upstream_refused",
    level: AlertLevel::P0,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "%s refuses the API key, or its balance is used up",
};
/// An upstream still throttles after the last retry.
pub const UPSTREAM_THROTTLES: AlertRule = AlertRule {
    name: "upstream_throttles",
    level: AlertLevel::P1,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "%s is still throttling after the last retry",
};
/// A source failed this many times in a row. After five failures it is paused (COLL-54).
pub const SOURCE_PAUSED: AlertRule = AlertRule {
    name: "source_paused",
    level: AlertLevel::P1,
    threshold: 5.0,
    delay: Duration::ZERO,
    repeat: Some(A_DAY),
    summary: "%s was paused because its fetches fail",
};
/// The server says that a source is gone for good.
pub const SOURCE_GONE: AlertRule = AlertRule {
    name: "source_gone",
    level: AlertLevel::P1,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: Some(A_DAY),
    summary: "%s is gone for good",
};
/// A source has been silent for this many times its habit (COLL-128).
pub const SOURCE_SILENT: AlertRule = AlertRule {
    name: "source_silent",
    level: AlertLevel::P2,
    threshold: 5.0,
    delay: Duration::ZERO,
    repeat: Some(A_DAY),
    summary: "%s has been silent for far longer than usual",
};
/// This many runs of an endpoint failed within half an hour, and none succeeded.
pub const ENDPOINT_FAILING: AlertRule = AlertRule {
    name: "endpoint_failing",
    level: AlertLevel::P1,
    threshold: 3.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "%s fails again and again",
};
/// An API rejects a credential: all work that uses it is halted.
pub const CREDENTIAL_REFUSED: AlertRule = AlertRule {
    name: "credential_refused",
    level: AlertLevel::P0,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "%s is rejected by its API",
};
/// A fatal error halted a source or an endpoint.
pub const WORK_HALTED: AlertRule = AlertRule {
    name: "work_halted",
    level: AlertLevel::P0,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "%s is halted after a fatal error",
};
/// The oldest due task of a queue has waited for this many seconds, and no executor works on the queue.
pub const QUEUE_STANDS: AlertRule = AlertRule {
    name: "queue_stands",
    level: AlertLevel::P1,
    threshold: 1800.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "the tasks of %s are due and are not executed",
};
/// This many jobs of an endpoint could not be planned within half an hour (ING-3.6-01).
pub const PLAN_REFUSED: AlertRule = AlertRule {
    name: "plan_refused",
    level: AlertLevel::P0,
    threshold: 1.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "no plan can be made for %s",
};
/// The oldest event that is not delivered has waited for this many seconds.
pub const EVENTS_BEHIND: AlertRule = AlertRule {
    name: "events_behind",
    level: AlertLevel::P1,
    threshold: 1800.0,
    delay: Duration::ZERO,
    repeat: None,
    summary: "record events are not delivered",
};

/// The Prometheus rules of all alerts that Patra evaluates itself, as they stand in `deploy/prometheus/rules.yml`.
pub fn prometheus_rules() -> String {
    let mut text = String::new();
    for rule in RULES {
        let severity = match rule.level {
            AlertLevel::P0 => "critical",
            AlertLevel::P1 => "warning",
            AlertLevel::P2 => "info",
        };
        let summary = rule.summary.replace("%s", "{{ $labels.subject }}");
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n      - alert: Patra{}\n        expr: max by (subject) (patra_alert_firing{{alert=\"{}\"}}) == 1\n        \
             labels: {{ severity: {severity} }}\n        annotations: {{ summary: \"{summary}\" }}\n",
            title(rule.name),
            rule.name,
        );
    }
    text
}

/// `source_paused` as `SourcePaused`.
fn title(name: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    name.split('_').map(capital).collect()
}
