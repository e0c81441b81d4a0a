//! `get gates`: the rate of requests, the rest of the quotas, and the endpoints that wait.

use serde_json::json;

use patra_core::Ts;
use patra_core::gate::QuotaStatus;
use patra_core::port::Queries;
use patra_engine::operations::{self, RateKeyStatus};

use crate::cli::{Global, Output};
use crate::clock::SystemClock;
use crate::error::Error;
use crate::output;

const HEADINGS: &[&str] =
    &["rate_key", "rate", "declared", "hour_left", "day_left", "upstream_left", "cooldown_until", "waits"];

pub(crate) async fn show(global: &Global, queries: &dyn Queries) -> Result<(), Error> {
    let gates = operations::gates(queries, &SystemClock).await?;
    match global.output {
        Output::Table => output::grid(HEADINGS, gates.iter().map(row)),
        Output::Json => output::result(global.output, "", &json!(gates)),
        Output::Ndjson => gates.iter().try_for_each(|gate| output::line(&json!(gate).to_string())),
    }
}

fn row(gate: &RateKeyStatus) -> Vec<String> {
    let view = &gate.view;
    let left = |standing: Option<QuotaStatus>| {
        standing.map_or_else(dash, |standing| format!("{}/{}", standing.remaining, standing.limit))
    };
    let time = |at: Option<Ts>| at.map_or_else(dash, Ts::to_short_text);
    let provider = view.provider.map_or_else(dash, |quota| {
        let limit = quota.limit.map_or_else(String::new, |limit| format!("/{limit}"));
        format!("{}{limit} until {}", quota.remaining, quota.resets_at)
    });
    let waits: Vec<String> = view
        .members
        .iter()
        .filter_map(|member| Some(format!("{} ({})", member.name, member.waits?.as_str())))
        .collect();
    vec![
        gate.rate_key.clone(),
        format!("{:.2}/s", view.rate),
        format!("{}/s burst {}", view.declared.per_sec, view.declared.burst),
        left(view.hourly),
        left(view.daily),
        provider,
        time(view.cooldown_until),
        if waits.is_empty() { dash() } else { waits.join(", ") },
    ]
}

fn dash() -> String {
    "-".to_owned()
}
