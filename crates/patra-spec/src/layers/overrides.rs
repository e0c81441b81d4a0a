//! Settings that a job may override: a few, and rates may only be lowered.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::iso_duration::IsoDuration;
use crate::manifest::{EndpointConfig, RateLimitConfig};
use crate::problem::{Problem, Problems, quote};
use crate::snapshot;
use crate::suggest::suggest;

use OverrideKind::{Decimal, Duration, Whole};

/// Overrides of one plan (ING-3.3-03, the fifth layer).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides(BTreeMap<&'static str, Value>);

#[derive(Clone, Copy)]
enum OverrideKind {
    Whole,
    Decimal,
    Duration,
}

/// Settings that may be overridden. All others come from the registry.
const ALLOWED: &[(&str, OverrideKind)] = &[
    ("pagination.page_size", Whole),
    ("pagination.max_page", Whole),
    ("rate_limit.refill_rate_per_sec", Decimal),
    ("rate_limit.burst", Whole),
    ("window.max_window", Duration),
    ("window.safety_lag", Duration),
    ("batching.id_batch_size", Whole),
    ("retry.max_attempts", Whole),
];

impl Overrides {
    /// The paths that may be overridden.
    pub fn paths() -> impl Iterator<Item = &'static str> {
        ALLOWED.iter().map(|(path, _)| *path)
    }

    /// Parses `path=value` pairs, one per path. Returns every problem.
    pub fn parse<T: AsRef<str>>(pairs: impl IntoIterator<Item = T>) -> Result<Overrides, Problems> {
        let pairs = pairs.into_iter().map(|pair| match pair.as_ref().split_once('=') {
            Some((path, text)) => (path.trim().to_owned(), Some(Value::String(text.trim().to_owned()))),
            None => (pair.as_ref().trim().to_owned(), None),
        });
        Overrides::read(pairs)
    }

    /// Reads what [`Overrides::to_json`] wrote.
    pub fn from_json(json: &Value) -> Result<Overrides, Problems> {
        match json {
            Value::Null => Ok(Overrides::default()),
            Value::Object(map) => Overrides::read(map.iter().map(|(path, value)| (path.clone(), Some(value.clone())))),
            _ => Err(Problems::one(problem("", "expected an object from setting to value", None))),
        }
    }

    /// Setting to value: `{"pagination.page_size": 50}`.
    pub fn to_json(&self) -> Value {
        self.0.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect::<Map<_, _>>().into()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn overridden(&self) -> impl Iterator<Item = &'static str> {
        self.0.keys().copied()
    }

    /// The overrides as a settings document.
    pub(super) fn document(&self) -> Value {
        let mut document = Map::new();
        for (path, value) in &self.0 {
            let (section, key) = path.split_once('.').unwrap_or((path, ""));
            let section = document.entry(section).or_insert_with(|| Value::Object(Map::new()));
            if let Some(section) = section.as_object_mut() {
                section.insert(key.to_owned(), value.clone());
            }
        }
        document.into()
    }

    /// Problems of the overrides with the registered endpoint: a section that it does not have, or a higher rate.
    pub(crate) fn problems_for(&self, registry: &EndpointConfig) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (path, value) in &self.0 {
            let missing = match path.split('.').next() {
                Some("pagination") => registry.pagination.is_none(),
                Some("window") => registry.window.is_none(),
                Some("batching") => registry.details().next().is_none(),
                _ => false,
            };
            if missing {
                let message = "the endpoint does not have this section, so there is nothing to override";
                problems.push(problem(path, message, None));
            }
            if let Some((limit, requested)) = rate(path, &registry.rate_limit).zip(value.as_f64())
                && requested > limit
            {
                let message = format!("{requested} is more than the registry's {limit}");
                problems.push(problem(path, message, Some("a job may lower a rate, not raise it".into())));
            }
        }
        problems
    }

    /// Lowers the rates of a detail endpoint to those of the overrides.
    pub(crate) fn lower_rates(&self, rates: &mut RateLimitConfig) {
        let requested = |path: &str| {
            self.0.get(path).and_then(Value::as_f64).filter(|requested| rate(path, rates) > Some(*requested))
        };
        let (per_sec, burst) = (requested("rate_limit.refill_rate_per_sec"), requested("rate_limit.burst"));
        rates.refill_rate_per_sec = per_sec.or(rates.refill_rate_per_sec);
        // The value was parsed as a `u32`.
        rates.burst = burst.map(|burst| burst as u32).or(rates.burst);
    }

    fn read(pairs: impl Iterator<Item = (String, Option<Value>)>) -> Result<Overrides, Problems> {
        let (mut overrides, mut problems) = (Overrides::default(), Vec::new());
        for (path, value) in pairs {
            let Some((allowed, kind)) = ALLOWED.iter().find(|(allowed, _)| *allowed == path) else {
                let words: Vec<_> = Overrides::paths().collect();
                let message = format!("{} cannot be overridden", quote(&path));
                problems.push(problem(&path, message, suggest(&path, &words)));
                continue;
            };
            let result = match value {
                None => Err("a value is missing".to_owned()),
                Some(_) if overrides.0.contains_key(allowed) => Err("set twice".to_owned()),
                Some(value) => kind.read(&value),
            };
            match result {
                Ok(value) => drop(overrides.0.insert(allowed, value)),
                Err(message) => {
                    problems.push(problem(&path, message, Some(format!("write {path}={}", kind.example()))));
                }
            }
        }
        Problems::or(problems, overrides)
    }
}

impl OverrideKind {
    /// Parses a value. Numbers may be given as text; durations are normalised.
    fn read(self, value: &Value) -> Result<Value, String> {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return Err("expected a number or a text".to_owned()),
        };
        match self {
            Whole => {
                let number = text.parse::<u32>();
                number.map(Value::from).map_err(|_| format!("{} is not a whole number", quote(&text)))
            }
            Decimal => {
                // Six digits after the point, as in manifests.
                let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
                let number = number.map(|number| Value::from((number * 1e6).round() / 1e6));
                number.ok_or_else(|| format!("{} is not a number", quote(&text)))
            }
            Duration => text.parse::<IsoDuration>().map(|duration| duration.to_string().into()),
        }
    }

    fn example(self) -> &'static str {
        match self {
            Whole => "10",
            Decimal => "0.5",
            Duration => "PT1H",
        }
    }
}

/// The registered rate, if the path is a rate.
fn rate(path: &str, registry: &RateLimitConfig) -> Option<f64> {
    let platform = snapshot::RateLimitSpec::default();
    match path {
        "rate_limit.refill_rate_per_sec" => Some(registry.refill_rate_per_sec.unwrap_or(platform.qps)),
        "rate_limit.burst" => Some(f64::from(registry.burst.unwrap_or(platform.burst))),
        _ => None,
    }
}

/// A problem with an override. It has no file position; its path names the setting.
pub(crate) fn problem(path: &str, message: impl Into<String>, hint: Option<String>) -> Problem {
    let path = if path.is_empty() { "--set".to_owned() } else { format!("--set {path}") };
    Problem { file: String::new(), line: 0, column: 0, path, message: message.into(), hint }
}
