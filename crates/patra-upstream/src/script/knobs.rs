//! Sets the script by name and text, for `/knobs` and the command line: one list of names for both.

mod access;
mod content;
mod tweets;

use std::str::FromStr;

use super::{FaultSchedule, LateRecord, RetryAfter, Script, TruncateMode};

impl Script {
    /// Sets one knob; errors name it. `none` unsets an optional one.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "latency_ms" => self.latency_ms = number(name, value)?,
            "retry_after" => self.retry_after = retry_after(value)?,
            "truncate_mode" => self.truncate_mode = truncate_mode(value)?,
            "oversize_mib" => self.oversize_mib = number(name, value)?,
            "slow_chunk_bytes" => self.slow_chunk_bytes = number(name, value)?,
            "slow_pause_ms" => self.slow_pause_ms = number(name, value)?,
            "repeat_token_after" => self.repeat_token_after = optional(value, |v| number(name, v))?,
            "total_delta" => self.total_delta = number(name, value)?,
            "total_drift" => self.total_drift = number(name, value)?,
            "late" => self.late = list(value, late)?,
            "visible" => self.visible = optional(value, |v| number(name, v))?,
            "rate_per_sec" => self.rate_per_sec = number(name, value)?,
            "require_header" => self.require_header = optional(value, |v| pair(name, v))?,
            "require_query" => self.require_query = optional(value, |v| pair(name, v))?,
            "page_size" => self.page_size = number(name, value)?,
            "page_size_max" => self.page_size_max = number(name, value)?,
            "log_limit" => self.log_limit = number(name, value)?,
            _ if self.set_access(name, value)? || self.set_content(name, value)? => {}
            _ if self.set_tweets(name, value)? => {}
            _ => self.set_fault(name, value)?,
        }
        Ok(())
    }

    /// `e429=7` applies to every seventh request, `at_e429=3,5` to the third and the fifth.
    fn set_fault(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (fault, at) = name.strip_prefix("at_").map_or((name, false), |fault| (fault, true));
        let when: &mut FaultSchedule = match fault {
            "e429" => &mut self.e429,
            "e500" => &mut self.e500,
            "reset" => &mut self.reset,
            "truncate" => &mut self.truncate,
            "oversize" => &mut self.oversize,
            "slow" => &mut self.slow,
            "auth_e500" => &mut self.auth_e500,
            "graphql_error" => &mut self.graphql_error,
            _ => return Err(format!("there is no knob {name:?}")),
        };
        if at {
            when.at = list(value, |v| number(name, v))?;
        } else {
            when.every = number(name, value)?;
        }
        Ok(())
    }
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name} cannot be {text:?}"))
}

fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == "none" { Ok(None) } else { read(text).map(Some) }
}

fn list<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').filter(|element| !element.is_empty() && *element != "none").map(read).collect()
}

fn pair(name: &str, text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once(':').ok_or_else(|| format!("{name} must be name:value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

fn late(text: &str) -> Result<LateRecord, String> {
    let (index, after) = text.split_once(':').ok_or("late must be index:after,index:after")?;
    Ok(LateRecord { index: number("late", index)?, after: number("late", after)? })
}

fn retry_after(text: &str) -> Result<RetryAfter, String> {
    match text.strip_prefix("date:") {
        Some(secs) => Ok(RetryAfter::HttpDate(number("retry_after", secs)?)),
        None if text == "none" => Ok(RetryAfter::Absent),
        None => Ok(RetryAfter::Seconds(number("retry_after", text)?)),
    }
}

fn truncate_mode(text: &str) -> Result<TruncateMode, String> {
    match text {
        "close" => Ok(TruncateMode::Close),
        "cut" => Ok(TruncateMode::Cut),
        _ => Err(format!("truncate_mode is close or cut, not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Sets a knob and checks the field of the same name.
    #[track_caller]
    pub(super) fn check(name: &str, value: &str, field: &str, expected: &Value) {
        let mut script = Script::default();
        script.set(name, value).unwrap();
        let before = serde_json::to_value(Script::default()).unwrap();
        let after = serde_json::to_value(&script).unwrap();
        assert_eq!(&after[field], expected, "{name}={value}");
        for (other, value) in after.as_object().unwrap() {
            assert!(other == field || before[other] == *value, "{name} also changed {other}");
        }
    }

    /// Sets a knob of a group and checks the field of the group.
    #[track_caller]
    pub(super) fn check_in(group: &str, field: &str, value: &str, expected: &Value) {
        let mut expected_group = serde_json::to_value(Script::default()).unwrap()[group].clone();
        expected_group[field] = expected.clone();
        check(&format!("{group}_{field}"), value, group, &expected_group);
    }

    #[test]
    fn every_knob_sets_its_field() {
        for name in ["latency_ms", "oversize_mib", "slow_chunk_bytes", "slow_pause_ms", "rate_per_sec", "page_size"] {
            check(name, "37", name, &json!(37));
        }
        for name in ["repeat_token_after", "visible", "page_size_max", "log_limit"] {
            check(name, "37", name, &json!(37));
        }
        for name in ["e429", "e500", "reset", "truncate", "oversize", "slow", "auth_e500", "graphql_error"] {
            check(name, "7", name, &json!({"every": 7, "at": []}));
            check(&format!("at_{name}"), "3,5", name, &json!({"every": 0, "at": [3, 5]}));
        }
        check("total_delta", "-4", "total_delta", &json!(-4));
        check("total_drift", "true", "total_drift", &json!(true));
        check("retry_after", "0", "retry_after", &json!({"seconds": 0}));
        check("retry_after", "date:2", "retry_after", &json!({"http_date": 2}));
        check("retry_after", "none", "retry_after", &json!("absent"));
        check("truncate_mode", "cut", "truncate_mode", &json!("cut"));
        check("late", "4:10,6:11", "late", &json!([{"index": 4, "after": 10}, {"index": 6, "after": 11}]));
        check("require_header", "X-Key: s3", "require_header", &json!(["X-Key", "s3"]));
        check("require_query", "key:s3", "require_query", &json!(["key", "s3"]));
        check("visible", "none", "visible", &Value::Null);
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (name, value) in [("bogus", "1"), ("at_bogus", "1"), ("e429", "x"), ("late", "4"), ("truncate_mode", "")] {
            assert!(Script::default().set(name, value).is_err(), "{name}={value}");
        }
    }
}
