//! A report as a person reads it: the verdict first, then the difference table.

use patra_engine::replay::{Cause, Counts, Decisions, Mode, Report, Verdict};

use crate::error::Error;
use crate::output;

pub(super) fn table(report: &Report) -> Result<(), Error> {
    let keys = &report.keys;
    let from = match report.mode {
        Mode::Archive => "from its kept answer",
        Mode::Live => "from the far side as it is now",
    };
    let meaning = match report.verdict {
        Verdict::Same => "everything that can be compared is the same",
        Verdict::Different => "what was recorded cannot be reproduced",
        Verdict::TimePointMismatch => "the request is the same, the far side answers otherwise than then",
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
        let word = if agrees { "agrees" } else { "does not agree" };
        output::line(&format!("\nwhat the rules do about the answer: {} ({word} with the replay)", healing.recorded))?;
    }
    if !healing.actions.is_empty() {
        output::line(&format!("done about the far side meanwhile: {}", healing.actions.join(", ")))?;
    }
    if let Some(decisions) = &report.decisions {
        decided(decisions)?;
    }
    report.notes.iter().try_for_each(|note| output::line(&format!("note: {note}")))
}

fn because(cause: &Cause) -> String {
    let reproduced = match cause.reproduced {
        Some(true) => "; the replay fails the same way",
        Some(false) => "; the replay does not",
        None => "",
    };
    format!("{} {}: {}{reproduced}", cause.level.as_str(), cause.code, clean(&cause.message))
}

fn decided(decisions: &Decisions) -> Result<(), Error> {
    output::line("")?;
    let row = |name: &str, counts: &Counts| {
        let Counts { inserted, updated, skipped, failed } = counts;
        let numbers = [inserted, updated, skipped, failed].map(u32::to_string);
        std::iter::once(name.to_owned()).chain(numbers).collect()
    };
    let rows = [row("the commit then", &decisions.recorded), row("a commit now", &decisions.now)];
    output::grid(&["", "insert", "update", "skip", "reject"], rows)?;
    for sample in &decisions.samples {
        let stored = sample.stored_version.as_ref().map_or("nothing".to_owned(), Clone::clone);
        let line = format!("{} {}: {} over {stored}", sample.decision, clean(&sample.key), sample.version);
        output::line(&line)?;
    }
    Ok(())
}

/// What came from outside must not steer the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
