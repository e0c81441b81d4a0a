//! Dry run of an expression against sample values. Parameters belong to sources and have no declared type, so an
//! expression is valid if some sample values work.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use minijinja::value::Object;
use minijinja::{Expression, Value};

use patra_core::{Ts, Window};

use super::context::VariablesRead;
use super::literal::PreparedLiteral;
use super::render_state::RenderState;
use super::{CappedOutput, PageVariables, RenderContext, RenderError, engine, push_value, scan};
use crate::problem::shorten;

/// With more parameters than this in one expression, all samples have the same type.
const MAX_MIXED: usize = 3;

pub(super) fn run(
    expression: &Expression<'static, 'static>,
    source: &str,
    reads: &VariablesRead,
    prepared: &Arc<[PreparedLiteral]>,
) -> Result<(), RenderError> {
    let context = sample();
    let attempt = |params: AnyParam| {
        let scope =
            context.scope_with(reads, Value::from_object(params), RenderState::dry_run(context.now, prepared))?;
        let value = engine::eval(expression, &scope)?;
        push_value(|| shorten(source), &value, |text| CappedOutput::default().push(text)).map(drop)
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

/// Sample values.
fn sample() -> RenderContext {
    let from = Ts::from_secs(1_700_000_000);
    let window = Window { from, to: from + Duration::from_secs(3_600) };
    let page = PageVariables { no: 1, offset: 100, size: Some(100), token: Some("sample".into()) };
    let ids = vec!["1".to_owned(), "2".to_owned()];
    RenderContext {
        window: Some(window),
        page,
        ids,
        now: from + Duration::from_secs(7_200),
        ..RenderContext::default()
    }
}

/// The distinct names of the parameters that the expression reads.
fn params(source: &str) -> Vec<String> {
    let mut names: Vec<String> = scan::variables(source)
        .iter()
        .filter_map(|(_, name)| name.strip_prefix("params.")?.split('.').next().map(str::to_owned))
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// An object that has every key.
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
