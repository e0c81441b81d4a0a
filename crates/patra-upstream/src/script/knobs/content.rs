//! The knobs of [`crate::script::content`].

use super::{list, number, optional};
use crate::script::{CeilingMode, FailingItem, Script, UnknownIdPolicy};

impl Script {
    /// Sets one knob; returns `false` if the name is not known here.
    pub(super) fn set_content(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "detail_max_ids" => self.detail.max_ids = number(name, value)?,
            "detail_unknown" => self.detail.unknown = unknown(value)?,
            "detail_gone" => self.detail.gone = list(value, |v| number(name, v))?,
            "detail_poison" => self.detail.poison = list(value, |v| failing(name, v))?,
            "ceiling" => self.ceiling = optional(value, |v| number(name, v))?,
            "ceiling_mode" => self.ceiling_mode = ceiling_mode(value)?,
            "users" => self.users = number(name, value)?,
            "users_closed" => self.users_closed = list(value, |v| failing(name, v))?,
            "graphql_code" => value.clone_into(&mut self.graphql_code),
            "export_key" => value.clone_into(&mut self.export_key),
            "notes" => self.notes = number(name, value)?,
            "notes_gone" => self.notes_gone = list(value, |v| number(name, v))?,
            "notes_broken" => self.notes_broken = list(value, |v| number(name, v))?,
            "notes_slow" => self.notes_slow = list(value, |v| number(name, v))?,
            "notes_slow_ms" => self.notes_slow_ms = number(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

fn unknown(text: &str) -> Result<UnknownIdPolicy, String> {
    if text == "omit" {
        Ok(UnknownIdPolicy::Omit)
    } else {
        error_status("detail_unknown", text).map(UnknownIdPolicy::Status)
    }
}

fn failing(name: &str, text: &str) -> Result<FailingItem, String> {
    let (index, status) = text.split_once(':').ok_or_else(|| format!("{name} must be index:status,index:status"))?;
    Ok(FailingItem { index: number(name, index)?, status: error_status(name, status)? })
}

pub(super) fn error_status(name: &str, text: &str) -> Result<u16, String> {
    let status = number(name, text)?;
    if (400..600).contains(&status) { Ok(status) } else { Err(format!("{name} needs a status from 400 on")) }
}

fn ceiling_mode(text: &str) -> Result<CeilingMode, String> {
    match text {
        "refuse" => Ok(CeilingMode::Refuse),
        "clamp" => Ok(CeilingMode::Clamp),
        _ => Err(format!("ceiling_mode is refuse or clamp, not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, check_in};
    use super::*;

    #[test]
    fn every_knob_sets_its_field() {
        check_in("detail", "max_ids", "5", &json!(5));
        check_in("detail", "unknown", "404", &json!({"status": 404}));
        check_in("detail", "unknown", "omit", &json!("omit"));
        check_in("detail", "gone", "3,4", &json!([3, 4]));
        check_in("detail", "poison", "3:400,4:500", &json!([{"index": 3, "status": 400}, {"index": 4, "status": 500}]));
        check("ceiling", "20", "ceiling", &json!(20));
        check("ceiling_mode", "clamp", "ceiling_mode", &json!("clamp"));
        check("users", "3", "users", &json!(3));
        check("users_closed", "1:403", "users_closed", &json!([{"index": 1, "status": 403}]));
        check("graphql_code", "INTERNAL", "graphql_code", &json!("INTERNAL"));
        check("export_key", "k", "export_key", &json!("k"));
        check("notes", "9", "notes", &json!(9));
        check("notes_gone", "3,4", "notes_gone", &json!([3, 4]));
        check("notes_broken", "1", "notes_broken", &json!([1]));
        check("notes_slow", "2", "notes_slow", &json!([2]));
        check("notes_slow_ms", "50", "notes_slow_ms", &json!(50));
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (name, value) in [
            ("detail_unknown", "200"),
            ("detail_poison", "3"),
            ("detail_poison", "3:200"),
            ("ceiling", "x"),
            ("ceiling_mode", "soft"),
        ] {
            assert!(Script::default().set(name, value).is_err(), "{name}={value}");
        }
    }
}
