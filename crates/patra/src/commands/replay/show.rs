//! The report of a replay as text: the verdict first, then the table of differences.

use patra_engine::replay::{ReplayCause, ReplayCounts, ReplayDecisions, ReplayMode, ReplayReport, ReplayVerdict};

use crate::error::Error;
use crate::output;

pub(super) fn table(report: &ReplayReport) -> Result<(), Error> {
    let keys = &report.keys;
    let from = match report.mode {
        ReplayMode::Archive => "from its stored response",
        ReplayMode::Live => "from the API as it is now",
    };
    let meaning = match report.verdict {
        ReplayVerdict::Same => "everything that can be compared is the same",
        ReplayVerdict::Different => "the recorded result cannot be reproduced",
        ReplayVerdict::TimePointMismatch => "the request is the same, but the API returns something else now",
    };
    output::line(&format!("{}: {meaning}", report.verdict.as_str()))?;
    output::line(&format!(
        "run {} batch {} ({}), {} {}, replayed {from}; nothing was written",
        keys.run_id, keys.batch_no, report.status, keys.provenance_code, keys.endpoint_name
    ))?;
    output::line("")?;
    let rows = report.checks.iter().map(|check| {
        vec![check.what.to_owned(), clean(&check.recorded), clean(&check.replayed), check.result.as_str().to_owned()]
    });
    output::grid(&["", "recorded", "replayed", ""], rows)?;
    if let Some(cause) = &report.cause {
        output::line(&format!("\nfailed because: {}", because(cause)))?;
    }
    let healing = &report.healing;
    if let Some(agrees) = healing.agrees {
        let word = if agrees { "the same" } else { "another" };
        let action = healing.recorded;
        output::line(&format!("\naction for the recorded response: {action} (the replay chooses {word} action)"))?;
    }
    if !healing.actions.is_empty() {
        output::line(&format!("taken for this API since then: {}", healing.actions.join(", ")))?;
    }
    if let Some(decisions) = &report.decisions {
        print_decisions(decisions)?;
    }
    report.notes.iter().try_for_each(|note| output::line(&format!("note: {note}")))
}

fn because(cause: &ReplayCause) -> String {
    let reproduced = match cause.reproduced {
        Some(true) => "; the replay fails the same way",
        Some(false) => "; the replay does not",
        None => "",
    };
    format!("{} {}: {}{reproduced}", cause.level.label(), cause.code, clean(&cause.message))
}

fn print_decisions(decisions: &ReplayDecisions) -> Result<(), Error> {
    output::line("")?;
    let row = |name: &str, counts: &ReplayCounts| {
        let ReplayCounts { inserted, updated, skipped, failed } = counts;
        let numbers = [inserted, updated, skipped, failed].map(u32::to_string);
        std::iter::once(name.to_owned()).chain(numbers).collect()
    };
    let rows = [row("recorded commit", &decisions.recorded), row("commit now", &decisions.now)];
    output::grid(&["", "insert", "update", "skip", "reject"], rows)?;
    for sample in &decisions.samples {
        let stored = sample.stored_version.as_ref().map_or("nothing".to_owned(), Clone::clone);
        let line = format!("{} {}: {} over {stored}", sample.decision, clean(&sample.key), sample.version);
        output::line(&line)?;
    }
    Ok(())
}

/// Text from outside must not control the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
