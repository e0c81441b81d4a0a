//! `get gates`: how fast requests leave, what is left of the quotas, and who waits.

use serde_json::json;

use patra_core::Ts;
use patra_core::gate::Standing;
use patra_core::port::Queries;
use patra_engine::operations::{self, GateShown};

use crate::cli::{Global, Output};
use crate::clock::SystemClock;
use crate::error::Error;
use crate::output;

const HEADINGS: &[&str] =
    &["rate_key", "rate", "declared", "hour_left", "day_left", "far_side_left", "cooldown_until", "waits"];

pub(crate) async fn show(global: &Global, queries: &dyn Queries) -> Result<(), Error> {
    let gates = operations::gates(queries, &SystemClock).await?;
    match global.output {
        Output::Table => output::grid(HEADINGS, gates.iter().map(row)),
        Output::Json => output::result(global.output, "", &json!(gates)),
        Output::Ndjson => gates.iter().try_for_each(|gate| output::line(&json!(gate).to_string())),
    }
}

fn row(gate: &GateShown) -> Vec<String> {
    let view = &gate.view;
    let left = |standing: Option<Standing>| {
        standing.map_or_else(dash, |standing| format!("{}/{}", standing.remaining, standing.limit))
    };
    let time = |at: Option<Ts>| at.map_or_else(dash, Ts::to_short_text);
    let provider = view.provider.map_or_else(dash, |far| {
        format!(
            "{}{} until {}",
            far.remaining,
            far.limit.map_or_else(String::new, |of| format!("/{of}")),
            far.resets_at
        )
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
