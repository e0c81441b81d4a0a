//! The section `schedule`.

use super::reader::Reader;
use crate::manifest::{Schedule, UpdateSchedule};
use crate::yaml::Node;

pub(super) fn schedule(reader: &mut Reader, path: &str, node: &Node) -> Option<Schedule> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let schedule = Schedule {
        every: reader.get(s, "every", Reader::duration),
        cron: reader.get(s, "cron", cron),
        update: reader.get(s, "update", updates).unwrap_or_default(),
    };
    reader.close(&section);
    Some(schedule)
}

fn updates(reader: &mut Reader, path: &str, node: &Node) -> Option<Vec<UpdateSchedule>> {
    reader.list(path, node, update)
}

fn update(reader: &mut Reader, path: &str, node: &Node) -> Option<UpdateSchedule> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let update = UpdateSchedule {
        reason: reader.get(s, "reason", Reader::word),
        every: reader.get(s, "every", Reader::duration),
        cron: reader.get(s, "cron", cron),
    };
    reader.close(&section);
    Some(update)
}

/// One blank between fields: another spacing is no change. What is no text is there all the same, so that nobody calls it
/// missing.
#[expect(clippy::unnecessary_wraps, reason = "readers have one signature")]
fn cron(reader: &mut Reader, path: &str, node: &Node) -> Option<String> {
    let text = reader.text(path, node).unwrap_or_default();
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}
