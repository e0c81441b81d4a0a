//! Actions of the rules on a response (ING-12.1, ING-12.2), for the recorded response and for the replayed one.

use serde_json::Value;

use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::tx::{BatchStats, SelfHealing};
use patra_core::{Code, Level};

use super::recording::ParsedRecording;
use super::report::HealingDecisions;

const COMMIT: &str = "commit the page";
const SLOW_DOWN: &str = "wait, and ask less often";
const TRY_AGAIN: &str = "try again later; leave the upstream alone after several failures in a row";
const HOLD: &str = "stop the task and pause its partition: the request is wrong";
const STOP: &str = "stop the task";
const BREAK: &str = "stop the source until a person has looked";

pub(super) fn healing(
    case: &ParsedRecording,
    result: Option<&Result<Box<FetchedPage>, Box<PageFailure>>>,
) -> HealingDecisions {
    let recorded = recorded(case);
    let replayed = result.map(|result| match result {
        Ok(_) => COMMIT,
        Err(refusal) => {
            let PageFailure { fault, throttled, evidence, .. } = &**refusal;
            treatment(*throttled, fault.level, fault.code, u64::from(evidence.status))
        }
    });
    let BatchStats { self_healing, retry_count, throttled_count, .. } = case.stats;
    HealingDecisions {
        actions: actions(self_healing),
        retries: retry_count,
        throttled: throttled_count,
        recorded,
        replayed,
        agrees: replayed.map(|replayed| replayed == recorded),
    }
}

fn recorded(case: &ParsedRecording) -> &'static str {
    let refused = &case.response["refused"];
    let status = case.response["status"].as_u64().unwrap_or(0);
    let word = |name: &str| serde_json::from_value(refused[name].clone()).ok();
    match (word("level"), serde_json::from_value(refused["code"].clone()).ok(), &case.error) {
        (Some(level), Some(code), _) => treatment(refused["throttled"] == Value::Bool(true), level, code, status),
        // The page was read, and the run failed by its sequence of pages.
        (_, _, Some(fault)) if !case.was_answered() => treatment(false, fault.level, fault.code, status),
        _ => COMMIT,
    }
}

fn treatment(throttled: bool, level: Level, code: Code, status: u64) -> &'static str {
    match level {
        _ if throttled => SLOW_DOWN,
        Level::L1 => TRY_AGAIN,
        Level::L2 if matches!(status, 400 | 422) || matches!(code, Code::ConfigError | Code::ValidationError) => HOLD,
        Level::L2 | Level::L3 => STOP,
        Level::L4 => BREAK,
    }
}

fn actions(healing: SelfHealing) -> Vec<&'static str> {
    let SelfHealing { qps_downshift, page_size_shrink, concurrency_down, circuit_open } = healing;
    let named = [
        (qps_downshift, "qpsDownshift"),
        (page_size_shrink, "pageSizeShrink"),
        (concurrency_down, "concurrencyDown"),
        (circuit_open, "circuitOpen"),
    ];
    named.into_iter().filter_map(|(done, name)| done.then_some(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-14.9-12
    #[test]
    fn every_level_has_its_treatment() {
        assert_eq!(treatment(true, Level::L1, Code::RateLimited, 429), SLOW_DOWN);
        assert_eq!(treatment(false, Level::L1, Code::PlatformError, 503), TRY_AGAIN);
        assert_eq!(treatment(false, Level::L2, Code::PlatformError, 422), HOLD);
        assert_eq!(treatment(false, Level::L2, Code::PlatformError, 404), STOP);
        assert_eq!(treatment(false, Level::L4, Code::UpstreamAuthFailed, 401), BREAK);
        let all = SelfHealing { qps_downshift: true, circuit_open: true, ..SelfHealing::default() };
        assert_eq!(actions(all), ["qpsDownshift", "circuitOpen"]);
    }
}
