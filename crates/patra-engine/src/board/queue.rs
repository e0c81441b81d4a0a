//! The queue: its depth, how fast it is worked off, and why it waits if it does.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use patra_core::Ts;
use patra_core::port::board::{ActivePause, QueueDepth, WorkCounts, WorkFilter, WorkRates};
use patra_core::port::{BoardQueries, Clock, Queries};
use patra_core::tx::{PartitionKey, TxError};

use super::window;
use crate::operations::{self, RateKeyStatus, WaitReason};

/// Span over which rates are measured.
pub const RECENT: Duration = Duration::from_secs(600);
/// Due work that is not claimed within this time has no executor.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct QueueLine {
    #[serde(flatten)]
    pub of: PartitionKey,
    /// QUEUED tasks, and those of them that are due.
    pub depth: u64,
    pub due: u64,
    /// Since when the oldest due task waits, and when the next task becomes due.
    pub oldest_at: Option<Ts>,
    pub next_at: Option<Ts>,
    /// Tasks in progress.
    pub active: u64,
    /// Rates over the last [`RECENT`].
    #[serde(flatten)]
    pub rates: WorkRates,
    /// Why the work waits; none when it goes on, or will soon.
    pub waits: Option<WaitReason>,
}

/// Queued and recently done work by source, endpoint and operation.
pub async fn queue(
    boards: &dyn BoardQueries,
    queries: &dyn Queries,
    clock: &dyn Clock,
    about: WorkFilter,
) -> Result<Vec<QueueLine>, TxError> {
    // Gates and the reasons of pauses concern all projects.
    let bound = about.project_key.is_some();
    let gates = if bound { Vec::new() } else { operations::gates(queries, clock).await? };
    let pauses = boards.active_pauses().await?;
    let (queued, now) = boards.queued(about.clone()).await?;
    let recent = window::ending_at(now, RECENT);
    let mut recently: BTreeMap<PartitionKey, WorkCounts> = boards.counts(about, recent).await?.into_iter().collect();
    let mut lines: Vec<_> = queued.into_iter().map(|queued| (recently.remove(&queued.partition), queued)).collect();
    lines.extend(recently.into_iter().map(|(of, counts)| (Some(counts), empty(of))));
    let mut lines: Vec<_> = lines
        .into_iter()
        .map(|(counts, queued)| {
            let waits = why(&queued, &pauses, gate_of(&gates, &queued.partition), now, bound);
            let QueueDepth { partition: of, depth, due, oldest_at, next_at, active, .. } = queued;
            let rates = counts.unwrap_or_default().rates(now.since(recent.from));
            QueueLine { of, depth, due, oldest_at, next_at, active, rates, waits }
        })
        .collect();
    lines.sort_by(|a, b| a.of.cmp(&b.of));
    Ok(lines)
}

fn empty(of: PartitionKey) -> QueueDepth {
    QueueDepth { partition: of, depth: 0, due: 0, oldest_at: None, next_at: None, active: 0, c_max: 0 }
}

/// The gate of the endpoint, or of its source. Keys of hosts and credentials are not matched: only a spec names them.
pub(super) fn gate_of<'a>(gates: &'a [RateKeyStatus], of: &PartitionKey) -> Option<&'a RateKeyStatus> {
    let own = format!("{}/{}", of.provenance_code, of.endpoint_name);
    let find = |key: &str| gates.iter().find(|gate| gate.rate_key == key);
    find(&own).or_else(|| find(&of.provenance_code))
}

fn why(
    queued: &QueueDepth,
    pauses: &[ActivePause],
    gate: Option<&RateKeyStatus>,
    now: Ts,
    bound: bool,
) -> Option<WaitReason> {
    if queued.depth == 0 {
        return None;
    }
    let PartitionKey { provenance_code, endpoint_name, operation } = &queued.partition;
    let mut pauses = pauses.iter();
    if let Some(pause) = pauses.find(|pause| pause.subject.covers(provenance_code, endpoint_name, *operation)) {
        let reason = if bound || pause.reason.is_empty() { String::new() } else { format!(": {}", pause.reason) };
        return Some(WaitReason { why: format!("paused ({}){reason}", pause.kind), until: None });
    }
    if let Some(wait) = gate.and_then(|gate| operations::closed(&gate.view, now)) {
        return Some(wait);
    }
    if queued.due == 0 {
        return Some(WaitReason { why: "no task is due yet".to_owned(), until: queued.next_at });
    }
    if queued.c_max > 0 && queued.active >= queued.c_max {
        return Some(WaitReason { why: format!("{} are in progress, and no more may be", queued.active), until: None });
    }
    let forgotten = queued.oldest_at.is_some_and(|at| now.since(at) > TAKEN_WITHIN);
    (forgotten && queued.active == 0).then(|| WaitReason { why: "no executor takes them".to_owned(), until: None })
}

#[cfg(test)]
mod tests {
    use patra_core::gate::{GateLimits, GateState};
    use patra_core::state::{Operation, PauseKind};
    use patra_core::tx::PauseSubject;

    use super::*;

    const NOW: Ts = Ts::from_secs(10_000);

    fn line() -> QueueDepth {
        let of = PartitionKey {
            provenance_code: "shop".into(),
            endpoint_name: "orders".into(),
            operation: Operation::Harvest,
        };
        QueueDepth { depth: 3, due: 2, oldest_at: Some(NOW), next_at: Some(NOW + TAKEN_WITHIN), c_max: 4, ..empty(of) }
    }

    fn pause(subject: PauseSubject) -> ActivePause {
        ActivePause { kind: PauseKind::Pause, subject, reason: "ask ann".into(), created_at: NOW }
    }

    // covers: ING-14.7-02
    #[test]
    fn queue_with_waiting_work_says_why() {
        let reason =
            |queued: &QueueDepth, pauses: &[ActivePause]| why(queued, pauses, None, NOW, false).map(|wait| wait.why);
        assert_eq!(reason(&line(), &[]), None, "it goes on soon");
        assert_eq!(reason(&line(), &[pause(PauseSubject::source("other"))]), None);
        assert_eq!(reason(&line(), &[pause(PauseSubject::source("shop"))]).as_deref(), Some("paused (PAUSE): ask ann"));
        let bound = why(&line(), &[pause(PauseSubject::source("shop"))], None, NOW, true).expect("a reason");
        assert_eq!(bound.why, "paused (PAUSE)", "what people write is not for every project");
        let later = why(&QueueDepth { due: 0, ..line() }, &[], None, NOW, false).expect("a reason");
        assert_eq!(later.until, Some(NOW + TAKEN_WITHIN));
        let busy = QueueDepth { active: 4, ..line() };
        assert_eq!(reason(&busy, &[]).as_deref(), Some("4 are in progress, and no more may be"));
        let old = QueueDepth { oldest_at: Some(NOW - 2 * TAKEN_WITHIN), ..line() };
        assert_eq!(reason(&old, &[]).as_deref(), Some("no executor takes them"));
        assert_eq!(reason(&QueueDepth { depth: 0, ..old }, &[]), None, "nothing waits");
    }

    #[test]
    fn the_gate_of_an_endpoint_goes_before_that_of_its_source() {
        let gate = |key: &str| RateKeyStatus {
            rate_key: key.into(),
            view: GateState::new(GateLimits::default(), NOW).view(NOW),
            updated_at: NOW,
        };
        let gates = [gate("shop"), gate("shop/orders"), gate("other")];
        assert_eq!(gate_of(&gates, &line().partition).map(|gate| &*gate.rate_key), Some("shop/orders"));
        assert_eq!(gate_of(&gates[..1], &line().partition).map(|gate| &*gate.rate_key), Some("shop"));
        assert!(gate_of(&gates[2..], &line().partition).is_none());
    }
}
