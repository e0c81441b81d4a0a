//! The sections `batching`, `two_phase` and `update`.

use super::reader::ManifestReader;
use crate::manifest::{BatchingConfig, TwoPhaseConfig, UpdateConfig};
use crate::yaml::YamlNode;

pub(super) fn batching(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<BatchingConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let batching = BatchingConfig {
        id_batch_size: reader.get(s, "id_batch_size", ManifestReader::integer),
        max_records_per_request: reader.get(s, "max_records_per_request", ManifestReader::integer),
        combine_threshold: reader.get(s, "combine_threshold", ManifestReader::integer),
    };
    reader.close(&section);
    Some(batching)
}

pub(super) fn two_phase(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<TwoPhaseConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let two_phase = TwoPhaseConfig {
        detail: reader.get(s, "detail", ManifestReader::code),
        version_path: reader.get(s, "version_path", ManifestReader::text),
        missing: reader.get(s, "missing", ManifestReader::keyword),
    };
    reader.close(&section);
    Some(two_phase)
}

pub(super) fn update(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<UpdateConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let update = UpdateConfig {
        detail: reader.get(s, "detail", ManifestReader::code),
        stale_after: reader.get(s, "stale_after", ManifestReader::duration),
        segment_size: reader.get(s, "segment_size", ManifestReader::integer),
    };
    reader.close(&section);
    Some(update)
}
