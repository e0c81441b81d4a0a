//! A trial run against made-up values. Parameters belong to sources, not to manifests, and have no declared type: an
//! expression is sound when there are values that it fits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use minijinja::value::Object;
use minijinja::{Expression, Value};

use patra_core::{Ts, Window};

use super::context::Reads;
use super::literal::Prepared;
use super::run::Run;
use super::{Capped, Context, Page, RenderError, engine, push_value, scan};
use crate::problem::shorten;

/// With more parameters than this in one expression, all of them are taken to be of one type.
const MAX_MIXED: usize = 3;

pub(super) fn run(
    expression: &Expression<'static, 'static>,
    source: &str,
    reads: &Reads,
    prepared: &Arc<[Prepared]>,
) -> Result<(), RenderError> {
    let context = sample();
    let attempt = |params: AnyParam| {
        let scope = context.scope_with(reads, Value::from_object(params), Run::trial(context.now, prepared))?;
        let value = engine::eval(expression, &scope)?;
        push_value(|| shorten(source), &value, |text| Capped::default().push(text)).map(drop)
    };
    let samples = [
        Value::from("1"),
        Value::from(1),
        Value::from("2024-01-01T00:00:00Z"),
        Value::from(vec![Value::from("1")]),
        Value::from_object(AnyParam { named: BTreeMap::new(), other: Value::from("1") }),
    ];
    let alike = |sample: &Value| attempt(AnyParam { named: BTreeMap::new(), other: sample.clone() });
    let Err(first) = alike(&samples[0]) else { return Ok(()) };
    if samples[1..].iter().any(|sample| alike(sample).is_ok()) {
        return Ok(());
    }
    let names = params(source);
    if !(2..=MAX_MIXED).contains(&names.len()) {
        return Err(first);
    }
    let mixed = (0..samples.len().pow(u32::try_from(names.len()).unwrap_or(0))).any(|mut number| {
        let named = names.iter().map(|name| {
            let sample = samples[number % samples.len()].clone();
            number /= samples.len();
            (name.clone(), sample)
        });
        attempt(AnyParam { named: named.collect(), other: samples[0].clone() }).is_ok()
    });
    if mixed { Ok(()) } else { Err(first) }
}

/// Typical values.
fn sample() -> Context {
    let from = Ts::from_secs(1_700_000_000);
    let window = Window { from, to: from + Duration::from_secs(3_600) };
    let page = Page { no: 1, offset: 100, size: Some(100), token: Some("sample".into()) };
    let ids = vec!["1".to_owned(), "2".to_owned()];
    Context { window: Some(window), page, ids, now: from + Duration::from_secs(7_200), ..Context::default() }
}

/// The names of the parameters that the expression reads, each once.
fn params(source: &str) -> Vec<String> {
    let mut names: Vec<String> = scan::variables(source)
        .iter()
        .filter_map(|(_, name)| name.strip_prefix("params.")?.split('.').next().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Has every key.
#[derive(Debug)]
struct AnyParam {
    named: BTreeMap<String, Value>,
    other: Value,
}

impl Object for AnyParam {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let named = key.as_str().and_then(|key| self.named.get(key));
        Some(named.unwrap_or(&self.other).clone())
    }
}
