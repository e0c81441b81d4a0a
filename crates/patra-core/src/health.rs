//! Health of an upstream, as one process sees it, and the measures against trouble (ING-12.2): fewer requests, fewer
//! tasks, smaller pages, narrower windows, or no requests for a while. Pure; one state per partition.
//!
//! Two loops work independently. The rate follows refusals (429): down at once, back in small steps while none come.
//! The circuit breaker follows failures: several in a row open it, then no requests are sent, then one probe is sent,
//! and its outcome decides.

mod pressure;

use std::time::Duration;

use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::{RateStats, SelfHealing};

pub use pressure::Pressure;

/// When to act. Manifests set these values under `health`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Thresholds {
    /// Share of 429 responses within `throttle_window`.
    pub throttle_ratio: f64,
    pub throttle_window: Duration,
    /// Share of failed requests, in the same window.
    pub failure_ratio: f64,
    /// Average response time.
    pub slow_batch: Duration,
    /// Consecutive failures.
    pub circuit_after: u32,
    /// How long the circuit stays open; up to double, so that processes do not come back in step.
    pub circuit_open: Duration,
    /// The rate never falls below this share of the configured one.
    pub rate_floor: f64,
    pub min_page_size: u32,
    pub large_response_bytes: u64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            throttle_ratio: 0.05,
            throttle_window: Duration::from_secs(300),
            failure_ratio: 0.02,
            slow_batch: Duration::from_secs(3),
            circuit_after: 3,
            circuit_open: Duration::from_secs(60),
            rate_floor: 0.3,
            min_page_size: 10,
            large_response_bytes: 5 << 20,
        }
    }
}

/// Outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestOutcome {
    /// The upstream asked for fewer requests.
    pub throttled: bool,
    /// No response, or one that says the upstream is in trouble (5xx).
    pub failed: bool,
    pub latency: Duration,
    pub bytes: u64,
    pub items: u32,
    pub page_size: u32,
}

/// Measures to apply now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advice {
    /// Percent of the configured rate.
    pub rate_percent: u32,
    /// Percent of the maximum concurrent tasks.
    pub tasks_percent: u32,
    /// Percent of the configured page size.
    pub page_percent: u32,
    pub min_page_size: u32,
    /// Windows should be narrower than the current one.
    pub narrower: bool,
    /// The circuit was open a moment ago.
    pub circuit_open: bool,
    /// How the gate handled the permit.
    pub rate: RateStats,
}

impl Default for Advice {
    fn default() -> Advice {
        Advice {
            rate_percent: 100,
            tasks_percent: 100,
            page_percent: 100,
            min_page_size: 1,
            narrower: false,
            circuit_open: false,
            rate: RateStats::default(),
        }
    }
}

impl Advice {
    /// The measures, for the ledger.
    pub fn healing(&self) -> SelfHealing {
        SelfHealing {
            qps_downshift: self.rate_percent < 100,
            page_size_shrink: false,
            concurrency_down: self.tasks_percent < 100,
            circuit_open: self.circuit_open,
        }
    }

    pub fn page_size(&self, configured: u32) -> u32 {
        let smaller = u64::from(configured) * u64::from(self.page_percent) / 100;
        (smaller as u32).max(self.min_page_size).min(configured).max(1)
    }

    /// `C_max` under this advice: at least one.
    pub fn tasks(&self, c_max: u32) -> u32 {
        (u64::from(c_max) * u64::from(self.tasks_percent) / 100).max(1) as u32
    }
}

/// A measure that was applied, for logs and metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HealthAction {
    RateDown { percent: u32 },
    RateUp { percent: u32 },
    TasksDown { percent: u32 },
    TasksUp { percent: u32 },
    PagesDown { percent: u32 },
    PagesUp { percent: u32 },
    CircuitOpened { until: Ts },
    CircuitClosed,
}

/// Minimum responses before a share or an average counts.
const ENOUGH: u32 = 20;

/// Parts of the window.
const PARTS: usize = 10;

/// Tasks are not lowered below this share, in percent.
const FEWEST_TASKS: u32 = 25;

/// Minimum time between two changes of a factor: the effect must show first.
const SETTLE: Duration = Duration::from_secs(10);

/// A probe without a response is given up after this long.
const PROBE_PATIENCE: Duration = Duration::from_secs(60);

/// The longest that a circuit stays open, without jitter.
const MAX_OPEN: Duration = Duration::from_secs(600);

#[derive(Clone, Debug)]
pub struct UpstreamHealth {
    thresholds: Thresholds,
    parts: [HealthBucket; PARTS],
    failures: u32,
    circuit: Circuit,
    rate: Factor,
    tasks: Factor,
    pages: Factor,
    /// Until when windows should be split.
    narrower_until: Ts,
}

#[derive(Clone, Copy, Debug, Default)]
struct HealthBucket {
    /// Number of the part of time that this bucket counts.
    number: i64,
    responses: u32,
    throttled: u32,
    failed: u32,
    latency_ms: u64,
}

impl HealthBucket {
    /// Whether the count exceeds this share, with enough responses to say so.
    fn exceeds(&self, count: u32, ratio: f64) -> bool {
        self.responses >= ENOUGH && f64::from(count) > ratio * f64::from(self.responses)
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Circuit {
    Closed,
    Open {
        until: Ts,
        times: u32,
    },
    /// One request is in flight to probe the upstream.
    Probing {
        since: Ts,
        times: u32,
    },
}

/// A share of the configured value, and when it changed.
#[derive(Clone, Copy, Debug)]
struct Factor {
    percent: u32,
    changed: Ts,
}

impl Factor {
    const FULL: Factor = Factor { percent: 100, changed: Ts::MIN };

    fn may_change(&self, now: Ts) -> bool {
        self.changed == Ts::MIN || now.since(self.changed) >= SETTLE
    }

    /// Lowers the factor to seven tenths, never below the floor. True when it changed.
    fn down(&mut self, now: Ts, floor: u32) -> bool {
        let next = (self.percent * 7 / 10).max(floor);
        if next == self.percent || !self.may_change(now) {
            return false;
        }
        *self = Factor { percent: next, changed: now };
        true
    }

    fn up(&mut self, now: Ts) -> bool {
        if self.percent == 100 || !self.may_change(now) {
            return false;
        }
        *self = Factor { percent: (self.percent + 10).min(100), changed: now };
        true
    }
}

impl UpstreamHealth {
    pub fn new(thresholds: Thresholds) -> UpstreamHealth {
        UpstreamHealth {
            thresholds,
            parts: [HealthBucket::default(); PARTS],
            failures: 0,
            circuit: Circuit::Closed,
            rate: Factor::FULL,
            tasks: Factor::FULL,
            pages: Factor::FULL,
            narrower_until: Ts::MIN,
        }
    }

    /// Sets new thresholds, from another manifest.
    pub fn set(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// `None` when a request may be sent; otherwise when to retry. Behind an open circuit one probe is let through.
    pub fn permit(&mut self, now: Ts) -> Option<Ts> {
        match self.circuit {
            Circuit::Closed => None,
            Circuit::Open { until, .. } if now < until => Some(until),
            Circuit::Probing { since, .. } if now.since(since) < PROBE_PATIENCE => Some(now + Duration::from_secs(1)),
            Circuit::Open { times, .. } | Circuit::Probing { times, .. } => {
                self.circuit = Circuit::Probing { since: now, times };
                None
            }
        }
    }

    pub fn advice(&self, now: Ts) -> Advice {
        Advice {
            rate_percent: self.rate.percent,
            tasks_percent: self.tasks.percent,
            page_percent: self.pages.percent,
            min_page_size: self.thresholds.min_page_size,
            narrower: now < self.narrower_until,
            circuit_open: self.circuit != Circuit::Closed,
            rate: RateStats::default(),
        }
    }

    /// Records the outcome of a request and applies measures.
    pub fn on(&mut self, now: Ts, outcome: &RequestOutcome, rng: &mut Rng, actions: &mut Vec<HealthAction>) {
        self.count(now, outcome);
        self.on_circuit(now, outcome.failed, rng, actions);
        let sum = self.sum(now);
        let refused = sum.exceeds(sum.throttled, self.thresholds.throttle_ratio);
        // One failure alone is no share.
        let failing = sum.failed > 1 && sum.exceeds(sum.failed, self.thresholds.failure_ratio);
        self.on_rate(now, outcome.throttled || outcome.failed && failing, sum.throttled == 0 && !failing, actions);
        if outcome.throttled && refused {
            self.narrower_until = now + self.thresholds.throttle_window / PARTS as u32;
        }
        let slow = sum.responses >= ENOUGH
            && sum.latency_ms / u64::from(sum.responses) > self.thresholds.slow_batch.as_millis() as u64;
        self.on_pace(now, slow || failing || refused, actions);
        self.on_size(now, outcome, slow, actions);
    }

    fn on_rate(&mut self, now: Ts, down: bool, quiet: bool, actions: &mut Vec<HealthAction>) {
        let floor = (self.thresholds.rate_floor * 100.0).ceil() as u32;
        if down && self.rate.down(now, floor) {
            actions.push(HealthAction::RateDown { percent: self.rate.percent });
        } else if !down && quiet && self.rate.up(now) {
            actions.push(HealthAction::RateUp { percent: self.rate.percent });
        }
    }

    fn on_pace(&mut self, now: Ts, strained: bool, actions: &mut Vec<HealthAction>) {
        if strained && self.tasks.down(now, FEWEST_TASKS) {
            actions.push(HealthAction::TasksDown { percent: self.tasks.percent });
        } else if !strained && self.tasks.up(now) {
            actions.push(HealthAction::TasksUp { percent: self.tasks.percent });
        }
    }

    fn on_size(&mut self, now: Ts, outcome: &RequestOutcome, slow: bool, actions: &mut Vec<HealthAction>) {
        let large = outcome.bytes > self.thresholds.large_response_bytes
            || outcome.page_size > 0 && u64::from(outcome.items) > 2 * u64::from(outcome.page_size);
        if large {
            self.narrower_until = now + self.thresholds.throttle_window / PARTS as u32;
        }
        if (slow || large) && self.pages.down(now, 1) {
            actions.push(HealthAction::PagesDown { percent: self.pages.percent });
        } else if !slow && !large && self.pages.up(now) {
            actions.push(HealthAction::PagesUp { percent: self.pages.percent });
        }
    }

    fn on_circuit(&mut self, now: Ts, failed: bool, rng: &mut Rng, actions: &mut Vec<HealthAction>) {
        if !failed {
            self.failures = 0;
            if std::mem::replace(&mut self.circuit, Circuit::Closed) != Circuit::Closed {
                actions.push(HealthAction::CircuitClosed);
            }
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let times = match self.circuit {
            Circuit::Closed if self.failures < self.thresholds.circuit_after => return,
            // A request that was sent before the circuit opened says nothing new.
            Circuit::Open { .. } => return,
            Circuit::Closed => 0,
            Circuit::Probing { times, .. } => times,
        };
        let base = (self.thresholds.circuit_open * 2u32.pow(times.min(6))).min(MAX_OPEN);
        let jitter = Duration::from_micros(rng.below(crate::time::micros(base).max(1) as u64));
        let until = now + base + jitter;
        self.circuit = Circuit::Open { until, times: times + 1 };
        actions.push(HealthAction::CircuitOpened { until });
    }

    fn count(&mut self, now: Ts, outcome: &RequestOutcome) {
        let number = self.number(now);
        let part = &mut self.parts[number.rem_euclid(PARTS as i64) as usize];
        if part.number != number {
            *part = HealthBucket { number, ..HealthBucket::default() };
        }
        part.responses += 1;
        part.throttled += u32::from(outcome.throttled);
        part.failed += u32::from(outcome.failed);
        part.latency_ms += outcome.latency.as_millis() as u64;
    }

    fn sum(&self, now: Ts) -> HealthBucket {
        let oldest = self.number(now) - PARTS as i64;
        let live = self.parts.iter().filter(|part| part.number > oldest && part.responses > 0);
        live.fold(HealthBucket::default(), |sum, part| HealthBucket {
            number: sum.number,
            responses: sum.responses + part.responses,
            throttled: sum.throttled + part.throttled,
            failed: sum.failed + part.failed,
            latency_ms: sum.latency_ms + part.latency_ms,
        })
    }

    fn number(&self, now: Ts) -> i64 {
        let part = crate::time::micros(self.thresholds.throttle_window / PARTS as u32).max(1);
        now.micros().div_euclid(part)
    }
}

#[cfg(test)]
mod tests;
