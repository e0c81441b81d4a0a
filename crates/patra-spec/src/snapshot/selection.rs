//! Hash of what a snapshot selects, independent of how it is fetched.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use patra_core::hash;

use super::Snapshot;
use crate::expr::{Template, TemplateRules, VariableScope};
use crate::keywords::ParamLocation;

impl Snapshot {
    /// Hash of the settings that select records, without those that control fetching: a cursor survives a changed page
    /// size, rate or header, but not a changed query (G-03).
    pub fn selection_hash(&self) -> String {
        let mut json = json!({
            "provenance": self.provenance_code,
            "endpoint": self.endpoint_code,
            "path": selection(&self.http.path_template),
            "query": selections(&self.http.query_template),
            "body": self.http.body_template.as_deref().and_then(selection),
        });
        // Added only if used, so that the cursors of other snapshots keep their names.
        if let Some(map) = json.as_object_mut() {
            if let Some(body) = &self.http.body_json {
                map.insert("json".into(), json_selection(body).unwrap_or_default());
            }
            if let Some(form) = &self.http.body_form {
                map.insert("form".into(), json!(selections(form)));
            }
            // Defaults for null also select records; headers never do.
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
                map.insert("detail".into(), two_phase.detail.selection_hash().into());
            }
            if !self.mapping.filter.is_empty() {
                map.insert("filter".into(), json!(self.mapping.filter));
            }
        }
        hash::digest(&[&hash::canonical(&json)])
    }
}

fn selection(text: &str) -> Option<String> {
    let scope = VariableScope { params: None, credential: true, ids: true };
    match Template::compile_with(text, &TemplateRules { scope, ..TemplateRules::default() }) {
        Ok(template) => template.selection(),
        Err(_) => Some(text.to_owned()),
    }
}

fn selections(templates: &BTreeMap<String, String>) -> BTreeMap<&String, String> {
    templates.iter().filter_map(|(name, text)| Some((name, selection(text)?))).collect()
}

fn json_selection(value: &Value) -> Option<Value> {
    match value {
        Value::String(text) => selection(text).map(Value::String),
        Value::Array(items) => Some(items.iter().filter_map(json_selection).collect()),
        Value::Object(map) => {
            Some(map.iter().filter_map(|(key, value)| Some((key.clone(), json_selection(value)?))).collect())
        }
        other => Some(other.clone()),
    }
}
