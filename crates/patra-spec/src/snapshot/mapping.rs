//! The generation of the mapping rules that produced a record.

use serde_json::{Value, json};

use patra_core::hash;

use super::Snapshot;

/// Keys of `response` that do not affect records: they only find the next page or detect errors.
const NOT_ABOUT_RECORDS: &[&str] =
    &["totalPath", "totalHeader", "total", "hasMorePath", "hasMoreHeader", "absent", "errors"];

impl Snapshot {
    /// Hash of the mapping rules (C-62). It stays the same as long as the same response gives the same records,
    /// regardless of query, paging and rate. If there is a detail endpoint, its rules count.
    pub fn mapping_generation(&self) -> String {
        if let Some(two_phase) = &self.two_phase {
            return two_phase.detail.mapping_generation();
        }
        let mut response = serde_json::to_value(&self.response).unwrap_or_default();
        remove(&mut response, NOT_ABOUT_RECORDS);
        let mut mapping = serde_json::to_value(&self.mapping).unwrap_or_default();
        remove(&mut mapping, &["requestParams"]);
        // With a monotonic watermark, records without an update time get one.
        let json = json!([self.kind, response, mapping, self.window.monotonic]);
        hash::digest(&["mapping", &hash::canonical(&json)])
    }
}

fn remove(section: &mut Value, keys: &[&str]) {
    if let Some(map) = section.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}
