//! Which rules a record was made by.

use serde_json::{Value, json};

use patra_core::hash;

use super::Snapshot;

/// Of `response`: what finds the next page and what refuses an answer leaves records as they are.
const NOT_OF_RECORDS: &[&str] =
    &["totalPath", "totalHeader", "totalIsEstimate", "hasMorePath", "hasMoreHeader", "errors"];

impl Snapshot {
    /// The generation of the mapping (C-62): the same as long as the same answer becomes the same records, whatever is
    /// asked, how it is paged and how fast. Records come from the detail endpoint where there is one.
    pub fn mapping_generation(&self) -> String {
        if let Some(two_phase) = &self.two_phase {
            return two_phase.detail.mapping_generation();
        }
        let mut response = serde_json::to_value(&self.response).unwrap_or_default();
        remove(&mut response, NOT_OF_RECORDS);
        let mut mapping = serde_json::to_value(&self.mapping).unwrap_or_default();
        remove(&mut mapping, &["requestParams"]);
        // A monotonic watermark gives records the time that they lack.
        let json = json!([self.kind, response, mapping, self.window.monotonic]);
        hash::digest(&["mapping", &hash::canonical(&json)])
    }
}

fn remove(section: &mut Value, keys: &[&str]) {
    if let Some(map) = section.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
}
