//! Checks record mapping: filters, fields, constants, and removed members.

use super::ManifestChecker;
use crate::keywords::{FieldType, OnFieldError};
use crate::manifest::{ConditionConfig, EndpointConfig, FieldConfig};
use crate::selector::{PathSegment, Selector};
use crate::time_format::TimeFormat;

const MAX_CONDITIONS: usize = 32;

impl ManifestChecker<'_> {
    pub(super) fn record(&mut self, path: &str, endpoint: &EndpointConfig) {
        let record = &endpoint.record;
        if record.filter.len() > MAX_CONDITIONS {
            self.report(&format!("{path}.record.filter"), format!("at most {MAX_CONDITIONS} conditions are allowed"));
        }
        for (at, condition) in record.filter.iter().enumerate() {
            let path = format!("{path}.record.filter[{at}]");
            self.condition(&path, condition);
            if *condition == (ConditionConfig { path: condition.path.clone(), ..ConditionConfig::default() }) {
                let hint = "add exists, equals, not_equals, in or matches";
                self.report_with(&path, "the condition has no test", hint);
            }
        }
        for (at, text) in record.remove.iter().enumerate() {
            self.removed_path(&format!("{path}.record.remove[{at}]"), text);
        }
        for name in record.add.keys() {
            let path = format!("{path}.record.add.{name}");
            if endpoint.fields.contains_key(name) {
                self.report(&path, format!("`{name}` is also in `fields`"));
            }
        }
        for (name, field) in &endpoint.fields {
            self.field(&format!("{path}.fields.{name}"), field);
        }
    }

    /// Only object members can be removed: removing a list element would shift the elements after it.
    fn removed_path(&mut self, path: &str, text: &str) {
        self.selector(path, Some(text));
        if let Ok(selector) = Selector::parse(text)
            && !matches!(selector.segments().last(), Some(PathSegment::Key(_)))
        {
            self.report_with(path, "only members of objects can be removed", "for example $.indexed");
        }
    }

    fn field(&mut self, path: &str, field: &FieldConfig) {
        // In short form the selector is at the field's own path, in long form at `.path`.
        let short = *field == FieldConfig::at(field.path.as_str());
        let at = if short { path.to_owned() } else { format!("{path}.path") };
        self.selector(&at, Some(&field.path));
        if let Some(format) = &field.format {
            self.time_format(&format!("{path}.format"), Some(format));
            if field.r#type != Some(FieldType::Timestamp) {
                self.report(&format!("{path}.format"), "`format` has no meaning without `type: timestamp`");
            }
        }
        if field.required && field.on_error == Some(OnFieldError::Null) {
            self.report_with(&format!("{path}.on_error"), "a required field cannot be left out", "remove one of them");
        }
    }

    pub(super) fn time_format(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if let Err(syntax_error) = TimeFormat::parse(text) {
            self.problems.push(self.manifest.origin.syntax_problem(path, text, syntax_error));
        }
    }
}
