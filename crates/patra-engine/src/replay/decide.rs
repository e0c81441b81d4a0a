//! Decisions that a commit of the replayed page would make. Reads the store, and writes nothing (ING-14.9-11).

use std::collections::HashMap;

use patra_core::port::Queries;
use patra_core::port::query::StoredVersion;
use patra_core::protocol::run::FetchedPage;
use patra_core::record::{Record, RecordVersion, deduplicate};
use patra_core::tx::{BatchStats, TxError};

use super::recording::ParsedRecording;
use super::report::{MAX_SAMPLES, ReplayCounts, ReplayDecisions, ReplaySample};
use crate::slice_context::stream;

/// Keys per query.
const AT_ONCE: usize = 500;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReplayDecision {
    Insert,
    Update,
    Skip,
}

/// The decisions, and how many records of the page are missing from the store or older there.
pub(super) async fn decide(
    queries: &dyn Queries,
    case: &ParsedRecording,
    page: &FetchedPage,
) -> Result<(ReplayDecisions, u32), TxError> {
    let mut records = page.records.clone();
    let outside = (page.facts.items as usize).saturating_sub(records.len() + page.rejected.len());
    let duplicates = deduplicate(&mut records);
    let stream = stream(&case.snapshot, &case.project_key);
    let generation = case.snapshot.mapping_generation();
    let mut now = ReplayCounts {
        skipped: (outside + duplicates) as u32,
        failed: page.rejected.len() as u32,
        ..ReplayCounts::default()
    };
    let (mut samples, mut behind) = (Vec::new(), 0);
    for group in records.chunks(AT_ONCE) {
        let keys: Vec<_> = group.iter().map(|record| record.key.clone()).collect();
        let stored = queries.stored(&stream, &keys).await?;
        let stored: HashMap<_, _> = stored.into_iter().map(|row| (row.key.clone(), row)).collect();
        for record in group {
            let there = stored.get(&record.key);
            let decision = verdict(record, there, (case.refresh, case.undated), &generation);
            let (count, word) = match decision {
                ReplayDecision::Insert => (&mut now.inserted, "insert"),
                ReplayDecision::Update => (&mut now.updated, "update"),
                ReplayDecision::Skip => (&mut now.skipped, "skip"),
            };
            *count += 1;
            behind += u32::from(there.is_none_or(|there| there.version < record.version));
            if samples.len() < MAX_SAMPLES {
                let stored_version = there.map(|there| shown(there.version));
                let version = shown(record.version);
                samples.push(ReplaySample { key: record.key.clone(), decision: word, version, stored_version });
            }
        }
    }
    Ok((ReplayDecisions { recorded: counts(&case.stats), now, samples }, behind))
}

/// The rule of `CommitBatch`.
fn verdict(
    record: &Record,
    stored: Option<&StoredVersion>,
    (refresh, undated): (bool, bool),
    generation: &str,
) -> ReplayDecision {
    let Some(stored) = stored else { return ReplayDecision::Insert };
    let differs = stored.generation != generation || stored.content_hash != record.content_hash;
    let (newer, same) = (record.version > stored.version, record.version == stored.version);
    let replaces = if undated { (newer || same) && differs } else { newer || refresh && same && differs };
    if replaces { ReplayDecision::Update } else { ReplayDecision::Skip }
}

pub(crate) fn counts(stats: &BatchStats) -> ReplayCounts {
    let BatchStats { inserted, updated, skipped, failed, .. } = *stats;
    ReplayCounts { inserted, updated, skipped, failed }
}

fn shown(version: RecordVersion) -> String {
    match version.source_version {
        0 => version.updated_at.to_short_text(),
        number => format!("{}/{number}", version.updated_at.to_short_text()),
    }
}

#[cfg(test)]
mod tests {

    use patra_core::Ts;

    use super::*;

    fn version(at: i64) -> RecordVersion {
        RecordVersion { updated_at: Ts::from_secs(at), source_version: 0 }
    }

    // covers: ING-14.9-11
    #[test]
    fn the_simulated_decision_is_the_one_of_a_commit() {
        let record = Record {
            key: "a".into(),
            version: version(5),
            fields: String::new(),
            payload: String::new().into(),
            content_hash: [1; 16],
        };
        let stored = |at, content, generation: &str| StoredVersion {
            key: "a".into(),
            version: version(at),
            content_hash: [content; 16],
            generation: generation.into(),
        };
        let check = |there: Option<&StoredVersion>, refresh, expected| {
            assert_eq!(verdict(&record, there, (refresh, false), "g"), expected, "{there:?} {refresh}");
        };
        check(None, false, ReplayDecision::Insert);
        check(Some(&stored(4, 1, "g")), false, ReplayDecision::Update);
        check(Some(&stored(6, 1, "g")), true, ReplayDecision::Skip);
        check(Some(&stored(5, 2, "g")), false, ReplayDecision::Skip);
        check(Some(&stored(5, 2, "g")), true, ReplayDecision::Update);
        check(Some(&stored(5, 1, "other")), true, ReplayDecision::Update);
        check(Some(&stored(5, 1, "g")), true, ReplayDecision::Skip);
    }
}
