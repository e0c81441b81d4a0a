//! Reader for the section `schedule`.

use super::reader::ManifestReader;
use crate::manifest::{ScheduleConfig, UpdateScheduleConfig};
use crate::yaml::YamlNode;

pub(super) fn schedule(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<ScheduleConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let schedule = ScheduleConfig {
        every: reader.get(s, "every", ManifestReader::duration),
        cron: reader.get(s, "cron", cron),
        update: reader.get(s, "update", updates).unwrap_or_default(),
    };
    reader.close(&section);
    Some(schedule)
}

fn updates(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<Vec<UpdateScheduleConfig>> {
    reader.list(path, node, update)
}

fn update(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<UpdateScheduleConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let update = UpdateScheduleConfig {
        reason: reader.get(s, "reason", ManifestReader::keyword),
        every: reader.get(s, "every", ManifestReader::duration),
        cron: reader.get(s, "cron", cron),
    };
    reader.close(&section);
    Some(update)
}

/// Normalises the spacing of a cron pattern. A value of the wrong type becomes an empty text, so that it is not also
/// reported as missing.
#[expect(clippy::unnecessary_wraps, reason = "readers have one signature")]
fn cron(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<String> {
    let text = reader.text(path, node).unwrap_or_default();
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
