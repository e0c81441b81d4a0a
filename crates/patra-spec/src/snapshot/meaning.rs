//! What a snapshot asks for, without how it asks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use patra_core::hash;

use super::Snapshot;
use crate::expr::{Rules, Scope, Template};
use crate::words::ParamLocation;

impl Snapshot {
    /// What selects records, and nothing of how they are fetched: a cursor outlives a changed page size, rate or
    /// header, but not a changed query (G-03).
    pub fn meaning_hash(&self) -> String {
        let mut json = json!({
            "provenance": self.provenance_code,
            "endpoint": self.endpoint_code,
            "path": meaning(&self.http.path_template),
            "query": meanings(&self.http.query_template),
            "body": self.http.body_template.as_deref().and_then(meaning),
        });
        // Only where they are used, so that the cursors of snapshots without them keep their names.
        if let Some(map) = json.as_object_mut() {
            if let Some(body) = &self.http.body_json {
                map.insert("json".into(), json_meaning(body).unwrap_or_default());
            }
            if let Some(form) = &self.http.body_form {
                map.insert("form".into(), json!(meanings(form)));
            }
            // What stands in for null selects as well; headers never do.
            let params = self.mapping.request_params.iter().filter(|param| param.location != ParamLocation::Header);
            let defaults: BTreeMap<_, _> = params
                .filter_map(|param| {
                    Some((format!("{} {}", param.location.as_str(), param.name), param.default.as_ref()?))
                })
                .collect();
            if !defaults.is_empty() {
                map.insert("defaults".into(), json!(defaults));
            }
            if let Some(two_phase) = &self.two_phase {
                map.insert("detail".into(), two_phase.detail.meaning_hash().into());
            }
            if !self.mapping.filter.is_empty() {
                map.insert("filter".into(), json!(self.mapping.filter));
            }
        }
        hash::digest(&[&hash::canonical(&json)])
    }
}

fn meaning(text: &str) -> Option<String> {
    let scope = Scope { params: None, credential: true, ids: true };
    match Template::compile_with(text, &Rules { scope, ..Rules::default() }) {
        Ok(template) => template.meaning(),
        Err(_) => Some(text.to_owned()),
    }
}

fn meanings(templates: &BTreeMap<String, String>) -> BTreeMap<&String, String> {
    templates.iter().filter_map(|(name, text)| Some((name, meaning(text)?))).collect()
}

fn json_meaning(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => meaning(text).map(Value::String),
        Value::Array(items) => Some(items.iter().filter_map(json_meaning).collect()),
        Value::Object(map) => {
            Some(map.iter().filter_map(|(key, value)| Some((key.clone(), json_meaning(value)?))).collect())
        }
        other => Some(other.clone()),
    }
}
