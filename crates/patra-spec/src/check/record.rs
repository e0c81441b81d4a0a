//! Items: filters, mapped fields, constants, and what is removed.

use super::Check;
use crate::manifest::{Condition, Endpoint, Field};
use crate::selector::{Segment, Selector};
use crate::timeform::TimeFormat;
use crate::words::{FieldType, OnError};

const MAX_CONDITIONS: usize = 32;

impl Check<'_> {
    pub(super) fn record(&mut self, path: &str, endpoint: &Endpoint) {
        let record = &endpoint.record;
        if record.filter.len() > MAX_CONDITIONS {
            self.report(&format!("{path}.record.filter"), format!("at most {MAX_CONDITIONS} conditions are looked at"));
        }
        for (at, condition) in record.filter.iter().enumerate() {
            let path = format!("{path}.record.filter[{at}]");
            self.condition(&path, condition);
            if *condition == (Condition { path: condition.path.clone(), ..Condition::default() }) {
                let hint = "add exists, equals, not_equals, in or matches";
                self.report_with(&path, "the condition says nothing about what it finds", hint);
            }
        }
        for (at, text) in record.remove.iter().enumerate() {
            self.removed(&format!("{path}.record.remove[{at}]"), text);
        }
        for name in record.add.keys() {
            let path = format!("{path}.record.add.{name}");
            if endpoint.fields.contains_key(name) {
                self.report(&path, format!("`{name}` is among `fields` as well"));
            }
        }
        for (name, field) in &endpoint.fields {
            self.field(&format!("{path}.fields.{name}"), field);
        }
    }

    /// An element taken out of a list would move those behind it, so only members can go.
    fn removed(&mut self, path: &str, text: &str) {
        self.selector(path, Some(text));
        if let Ok(selector) = Selector::parse(text)
            && !matches!(selector.segments().last(), Some(Segment::Key(_)))
        {
            self.report_with(path, "only members of objects can be removed", "for example $.indexed");
        }
    }

    fn field(&mut self, path: &str, field: &Field) {
        // A short field stands at its own path, a long one below.
        let short = *field == Field::at(field.path.as_str());
        let at = if short { path.to_owned() } else { format!("{path}.path") };
        self.selector(&at, Some(&field.path));
        if let Some(format) = &field.format {
            self.time_format(&format!("{path}.format"), Some(format));
            if field.r#type != Some(FieldType::Timestamp) {
                self.report(&format!("{path}.format"), "`format` has no meaning without `type: timestamp`");
            }
        }
        if field.required && field.on_error == Some(OnError::Null) {
            self.report_with(&format!("{path}.on_error"), "a required field cannot be left out", "remove one of them");
        }
    }

    pub(super) fn time_format(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if let Err(flaw) = TimeFormat::parse(text) {
            self.problems.push(self.manifest.origin.flaw(path, text, flaw));
        }
    }
}
