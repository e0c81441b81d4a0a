//! Why work does not go on, and until when.

use patra_core::Ts;
use patra_core::gate::{GateView, QuotaStatus};
use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::port::{Clock, Queries};
use patra_core::state::TaskStatus;
use patra_core::tx::TxError;

/// Why work waits, and until when.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct WaitReason {
    pub why: String,
    /// When the work goes on, or is checked again.
    pub until: Option<Ts>,
}

/// Why work of this endpoint waits: a task was given back until a time, or the rate key of its requests is closed.
/// `None` when neither applies; then it goes on soon.
pub async fn waits(
    queries: &dyn Queries,
    clock: &dyn Clock,
    provenance: &str,
    endpoint: &str,
    rate_key: &str,
) -> Result<Option<WaitReason>, TxError> {
    let filter = ViewFilter {
        provenance_code: Some(provenance.to_owned()),
        endpoint_name: Some(endpoint.to_owned()),
        status: Some(TaskStatus::Queued.as_str().to_owned()),
        limit: ViewFilter::MAX_LIMIT,
        ..ViewFilter::default()
    };
    let tasks = queries.list(View::Tasks, filter).await?;
    let now = clock.now();
    if let Some(wait) = tasks.iter().filter_map(|task| given_back(task, now)).min_by_key(|wait| wait.until) {
        return Ok(Some(wait));
    }
    let gates = super::gates(queries, clock).await?;
    Ok(gates.iter().find(|gate| gate.rate_key == rate_key).and_then(|gate| closed(&gate.view, now)))
}

/// Why the last run gave back a task that must not be claimed yet.
fn given_back(task: &ViewRow, now: Ts) -> Option<WaitReason> {
    let (Some(Cell::Time(at)), Some(Cell::Json(error))) =
        (View::Tasks.cell(task, "scheduled_at"), View::Tasks.cell(task, "error"))
    else {
        return None;
    };
    let error: serde_json::Value = serde_json::from_str(&error).ok()?;
    let why = error["message"].as_str()?.to_owned();
    (at > now).then_some(WaitReason { why, until: Some(at) })
}

/// Why a key gives no permits, or a plan finds no room.
pub(crate) fn closed(view: &GateView, now: Ts) -> Option<WaitReason> {
    if let Some(until) = view.cooldown_until.filter(|until| *until > now) {
        return Some(WaitReason { why: "the upstream asked for a pause".to_owned(), until: Some(until) });
    }
    if let Some(provider) = view.provider.filter(|provider| provider.remaining == 0 && provider.resets_at > now) {
        let why = "the upstream's own count says that nothing is left".to_owned();
        return Some(WaitReason { why, until: Some(provider.resets_at) });
    }
    let short = |(standing, span): (Option<QuotaStatus>, &str)| {
        let QuotaStatus { remaining, limit, frees_at, .. } = standing.filter(|standing| standing.soft)?;
        let why = match remaining {
            0 => format!("the quota of {limit} requests {span} is used up"),
            left => {
                format!("of the quota of {limit} requests {span} only {left} are left, which are not for everything")
            }
        };
        Some(WaitReason { why, until: frees_at })
    };
    [(view.daily, "a day"), (view.hourly, "an hour")].into_iter().find_map(short)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use patra_core::gate::ProviderQuota;

    use super::*;

    fn at(secs: i64) -> Ts {
        Ts::from_secs(secs)
    }

    fn view() -> GateView {
        patra_core::gate::GateState::new(patra_core::gate::GateLimits::default(), at(0)).view(at(0))
    }

    fn standing(remaining: u64) -> QuotaStatus {
        QuotaStatus { limit: 100, remaining, soft: remaining <= 10, frees_at: Some(at(70)) }
    }

    #[test]
    fn a_key_that_lets_nothing_out_says_why_and_until_when() {
        let reason = |view: &GateView| closed(view, at(10)).map(|wait| (wait.why, wait.until));
        assert_eq!(reason(&view()), None);
        assert_eq!(reason(&GateView { hourly: Some(standing(50)), ..view() }), None);
        let (why, until) = reason(&GateView { hourly: Some(standing(0)), ..view() }).expect("a reason");
        assert_eq!((&*why, until), ("the quota of 100 requests an hour is used up", Some(at(70))));
        let (why, _) = reason(&GateView { daily: Some(standing(7)), ..view() }).expect("a reason");
        assert!(why.contains("only 7 are left"), "{why}");
        let silent = GateView { cooldown_until: Some(at(30)), ..view() };
        assert_eq!(reason(&silent).map(|(_, until)| until), Some(Some(at(30))));
        assert_eq!(closed(&silent, at(30)), None, "it is over");
        let provider = ProviderQuota { remaining: 0, limit: None, resets_at: at(40) };
        let empty = GateView { provider: Some(provider), ..view() };
        assert_eq!(reason(&empty).map(|(_, until)| until), Some(Some(at(40))));
    }

    #[test]
    fn a_task_that_was_given_back_says_why_and_until_when() {
        let row = |at: Ts, error: &str| -> ViewRow {
            let cell = |name| match name {
                "scheduled_at" => Cell::Time(at),
                "error" if !error.is_empty() => Cell::Json(error.to_owned()),
                _ => Cell::Null,
            };
            View::Tasks.columns().iter().map(|column| cell(column.name)).collect()
        };
        let error = r#"{"code":"RATE_LIMITED","level":"L1","message":"not now"}"#;
        let wait = given_back(&row(at(50), error), at(10)).expect("a reason");
        assert_eq!(wait, WaitReason { why: "not now".into(), until: Some(at(10) + Duration::from_secs(40)) });
        assert_eq!(given_back(&row(at(50), error), at(50)), None, "it may be claimed");
        assert_eq!(given_back(&row(at(50), ""), at(10)), None, "it was never tried");
    }
}
