//! Params of a job, a partition or a task: texts by name, read in templates as `params.<name>`.

use std::collections::BTreeMap;

use crate::hash;

pub type Params = BTreeMap<String, String>;

/// Canonical JSON: the form that is stored and that enters hashes. `{}` when there are none.
pub fn to_text(params: &Params) -> String {
    let mut text = String::from("{");
    for (name, value) in params {
        if text.len() > 1 {
            text.push(',');
        }
        text.push_str(&hash::canonical_text(name));
        text.push(':');
        text.push_str(&hash::canonical_text(value));
    }
    text.push('}');
    text
}

/// Parses the output of [`to_text`].
pub fn from_text(text: &str) -> Result<Params, serde_json::Error> {
    serde_json::from_str(text)
}

/// The params of a task, from `ing_task.params`. A task of an endpoint without params has none.
pub fn of_task(task_params: &str) -> Result<Params, serde_json::Error> {
    #[derive(serde::Deserialize)]
    struct Task {
        #[serde(default)]
        params: Params,
    }
    serde_json::from_str::<Task>(task_params).map(|task| task.params)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn params_are_canonical_json_and_read_back() {
        let params = Params::from([("b".into(), "say \"hi\"\n".into()), ("a".into(), String::new())]);
        let text = to_text(&params);
        assert_eq!(text, r#"{"a":"","b":"say \"hi\"\n"}"#);
        assert_eq!(hash::canonical(&serde_json::from_str(&text).unwrap()), text);
        assert_eq!(from_text(&text).unwrap(), params);
        assert_eq!(to_text(&Params::new()), "{}");
        assert!(from_text(r#"{"a":1}"#).is_err(), "texts only");
    }

    #[test]
    fn task_params_are_read_next_to_its_window() {
        let params = of_task(r#"{"params":{"user":"7"},"window":{"from":"x","to":"y"}}"#).unwrap();
        assert_eq!(params, Params::from([("user".into(), "7".into())]));
        assert_eq!(of_task(r#"{"window":{}}"#).unwrap(), Params::new());
    }
}
