//! The sections `batching`, `two_phase` and `update`.

use super::reader::Reader;
use crate::manifest::{Batching, TwoPhase, Update};
use crate::yaml::Node;

pub(super) fn batching(reader: &mut Reader, path: &str, node: &Node) -> Option<Batching> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let batching = Batching {
        id_batch_size: reader.get(s, "id_batch_size", Reader::whole),
        max_records_per_request: reader.get(s, "max_records_per_request", Reader::whole),
        combine_threshold: reader.get(s, "combine_threshold", Reader::whole),
    };
    reader.close(&section);
    Some(batching)
}

pub(super) fn two_phase(reader: &mut Reader, path: &str, node: &Node) -> Option<TwoPhase> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let two_phase = TwoPhase {
        detail: reader.get(s, "detail", Reader::code),
        version_path: reader.get(s, "version_path", Reader::text),
        missing: reader.get(s, "missing", Reader::word),
    };
    reader.close(&section);
    Some(two_phase)
}

pub(super) fn update(reader: &mut Reader, path: &str, node: &Node) -> Option<Update> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let update = Update {
        detail: reader.get(s, "detail", Reader::code),
        stale_after: reader.get(s, "stale_after", Reader::duration),
        segment_size: reader.get(s, "segment_size", Reader::whole),
    };
    reader.close(&section);
    Some(update)
}
