//! The boards (ING-14.7): the queue, throughput, errors and cursor lag, from sums that the store keeps. The command
//! line, the API and the console show the same.

mod queue;
mod window;

use std::time::Duration;

use serde::Serialize;

use patra_core::port::board::{
    CursorFilter, CursorStep, SeriesStep, TopError, Watermark, WorkCounts, WorkFilter, WorkRates,
};
use patra_core::port::{BoardQueries, Clock, CrawlQueries, Queries};
use patra_core::state::Operation;
use patra_core::tx::{PartitionKey, TxError};
use patra_core::{Ts, Window, alert};

use crate::operations;

pub use queue::{QueueLine, RECENT, queue};
pub use window::{BadWindow, DEFAULT_WINDOW, LONGEST_WINDOW, step_minutes, window};

/// Most namespaces of one timeline. Each shows as many steps as [`patra_core::port::board::MAX_ROWS`] allows, or fewer.
pub const MAX_NAMESPACES: u32 = 50;
const STEPS_SHOWN: u32 = 100;
/// Rows of a list on the first page.
const FIRST: u32 = 10;

/// Work over time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Throughput {
    pub from: Ts,
    pub to: Ts,
    pub step_minutes: u32,
    pub counts: WorkCounts,
    pub rates: WorkRates,
    pub steps: Vec<SeriesStep>,
}

pub async fn throughput(
    boards: &dyn BoardQueries,
    about: WorkFilter,
    window: Window,
    minutes: u32,
) -> Result<Throughput, TxError> {
    let steps = boards.series(about, window, minutes).await?;
    let mut counts = WorkCounts::default();
    steps.iter().for_each(|step| counts.add(&step.counts));
    let rates = counts.rates(window.to.since(window.from));
    Ok(Throughput { from: window.from, to: window.to, step_minutes: minutes, counts, rates, steps })
}

/// One namespace in a timeline of several.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CursorLag {
    #[serde(flatten)]
    pub watermark: Watermark,
    /// Distance of a HARVEST cursor from the present.
    pub lag_seconds: Option<u64>,
    /// Records that came late, summed over the steps.
    pub late: u64,
    /// Share of late records in all records of the source, endpoint and operation stored in the window.
    pub late_ratio: Option<f64>,
    pub steps: Vec<CursorStep>,
}

pub async fn timeline(
    boards: &dyn BoardQueries,
    clock: &dyn Clock,
    mut ask: CursorFilter,
    window: Window,
) -> Result<Vec<CursorLag>, TxError> {
    ask.limit = ask.limit.clamp(1, MAX_NAMESPACES);
    let counts = boards.counts(ask.work.clone(), window).await?;
    let late_ratio = |of: &PartitionKey| {
        let counts = counts.iter().find(|(counted, _)| counted == of);
        counts.and_then(|(_, counts)| counts.rates(Duration::ZERO).late_ratio)
    };
    let (now, mut namespaces) = (clock.now(), Vec::new());
    for watermark in boards.watermarks(ask).await? {
        let steps = boards.advances(watermark.cursor, window, STEPS_SHOWN).await?;
        namespaces.push(CursorLag {
            lag_seconds: watermark.lag(now).map(|lag| lag.as_secs()),
            late: steps.iter().map(|step| step.late).sum(),
            late_ratio: late_ratio(&watermark.partition),
            watermark,
            steps,
        });
    }
    Ok(namespaces)
}

/// The actual request rate next to the allowed one, what slowed requests down, and the actions against it.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BudgetLine {
    #[serde(flatten)]
    pub of: PartitionKey,
    /// Permits a second over the window.
    pub actual_qps: f64,
    /// Budget of the gate of the endpoint or its source.
    pub gate: Option<GateBudget>,
    pub slowdowns: Slowdowns,
    pub self_healing: SelfHealingCounts,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct GateBudget {
    pub rate_key: String,
    /// The declared rate.
    pub budget_qps: f64,
    /// The current rate.
    pub effective_qps: f64,
    /// Requests that any quota still allows.
    pub remaining: Option<u64>,
    pub cooldown_until: Option<Ts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Slowdowns {
    /// Responses with status 429.
    pub throttled: u64,
    pub retry_after: u64,
    /// Responses that lowered the rate.
    pub demoted: u64,
    pub quota_soft: u64,
    pub quota_hard: u64,
    pub wait_ms: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SelfHealingCounts {
    pub qps_downshift: u64,
    pub page_size_shrink: u64,
    pub concurrency_down: u64,
    pub circuit_open: u64,
    pub resliced: u64,
}

/// Budgets by partition. Gates are shared by all projects, so a project sees its own requests and no gate.
pub async fn budget(
    boards: &dyn BoardQueries,
    queries: &dyn Queries,
    clock: &dyn Clock,
    about: WorkFilter,
    window: Window,
) -> Result<Vec<BudgetLine>, TxError> {
    let gates = match about.project_key {
        Some(_) => Vec::new(),
        None => operations::gates(queries, clock).await?,
    };
    let line = |(of, counts): (PartitionKey, WorkCounts)| BudgetLine {
        actual_qps: counts.rates(window.to.since(window.from)).qps,
        gate: queue::gate_of(&gates, &of).map(|gate| GateBudget {
            rate_key: gate.rate_key.clone(),
            budget_qps: gate.view.declared.per_sec,
            effective_qps: gate.view.rate,
            remaining: gate.view.remaining(),
            cooldown_until: gate.view.cooldown_until,
        }),
        slowdowns: Slowdowns {
            throttled: counts.throttled,
            retry_after: counts.retry_after,
            demoted: counts.demoted,
            quota_soft: counts.quota_soft,
            quota_hard: counts.quota_hard,
            wait_ms: counts.wait_ms,
        },
        self_healing: SelfHealingCounts {
            qps_downshift: counts.qps_downshift,
            page_size_shrink: counts.page_size_shrink,
            concurrency_down: counts.concurrency_down,
            circuit_open: counts.circuit_open,
            resliced: counts.resliced,
        },
        of,
    };
    let mut lines: Vec<_> = boards.counts(about, window).await?.into_iter().map(line).collect();
    lines.sort_by(|a, b| a.of.cmp(&b.of));
    Ok(lines)
}

/// The summary that a person looks at first.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Overview {
    pub at: Ts,
    pub queue: Vec<QueueLine>,
    /// Throughput of the last hour.
    pub throughput: Throughput,
    /// The most frequent errors of the last hour.
    pub errors: Vec<TopError>,
    /// The HARVEST namespaces that lag furthest behind.
    pub lagging: Vec<LaggingCursor>,
    /// Firing alerts. They concern all projects, so a project sees none.
    pub alerts: Vec<alert::AlertView>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaggingCursor {
    #[serde(flatten)]
    pub watermark: Watermark,
    pub lag_seconds: u64,
}

/// Ports that an overview reads.
#[derive(Clone, Copy, Debug)]
pub struct OverviewPorts<'a> {
    pub boards: &'a dyn BoardQueries,
    pub queries: &'a dyn Queries,
    pub crawls: &'a dyn CrawlQueries,
    pub clock: &'a dyn Clock,
}

pub async fn overview(sight: OverviewPorts<'_>, project_key: Option<String>) -> Result<Overview, TxError> {
    let OverviewPorts { boards, queries, crawls, clock } = sight;
    let (now, about) = (clock.now(), WorkFilter { project_key, ..WorkFilter::default() });
    let last_hour = window::ending_at(now, DEFAULT_WINDOW);
    let harvest = WorkFilter { operation: Some(Operation::Harvest), ..about.clone() };
    let cursors = boards.watermarks(CursorFilter { work: harvest, namespace: None, limit: FIRST }).await?;
    let lagging = cursors.into_iter().filter_map(|watermark| {
        let lag_seconds = watermark.lag(now)?.as_secs();
        Some(LaggingCursor { watermark, lag_seconds })
    });
    let alerts = if about.project_key.is_none() { crawls.alerts().await? } else { Vec::new() };
    Ok(Overview {
        at: now,
        lagging: lagging.collect(),
        alerts: alerts.into_iter().filter(|alert| alert.state.firing).collect(),
        errors: boards.errors(about.clone(), None, last_hour, FIRST).await?,
        throughput: throughput(boards, about.clone(), last_hour, 1).await?,
        queue: queue(boards, queries, clock, about).await?,
    })
}
