//! What a template can see: the window, the page and the source's parameters. Nothing secret: credentials are put in by
//! the transport when it sends (ING-3.9-03).

use std::collections::BTreeMap;
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, Serde};

use patra_core::{Ts, Window};

use super::scan::Variable;
use super::{MAX_OUTPUT, RenderError};

#[derive(Clone, Debug, Default)]
pub struct Context {
    /// `None`: nothing is filtered by time, and `window.from` is null.
    pub window: Option<Window>,
    pub page: Page,
    /// The source's own values: feed address, user name, query.
    pub params: serde_json::Map<String, serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub no: u64,
    pub offset: u64,
    pub size: Option<u32>,
    pub token: Option<String>,
}

impl Context {
    /// Typical values, to try a template out.
    pub(super) fn sample() -> Context {
        let from = Ts::from_secs(1_700_000_000);
        let window = Window { from, to: from + std::time::Duration::from_secs(3_600) };
        let page = Page { no: 1, offset: 100, size: Some(100), token: Some("sample".into()) };
        Context { window: Some(window), page, ..Context::default() }
    }

    /// The value of a bare variable. `sample` stands in for every parameter while a manifest is checked: parameters
    /// belong to sources, not to manifests.
    pub(super) fn lookup(&self, variable: &Variable, sample: Option<&Value>) -> Result<Value, RenderError> {
        let value = match variable {
            Variable::WindowFrom => self.window.map(|window| window.from.to_string()).into(),
            Variable::WindowTo => self.window.map(|window| window.to.to_string()).into(),
            Variable::PageNo => self.page.no.into(),
            Variable::PageOffset => self.page.offset.into(),
            Variable::PageSize => self.page.size.into(),
            Variable::PageToken => self.page.token.as_deref().into(),
            Variable::Param(name) => match (sample, self.params.get(name)) {
                (Some(sample), _) => sample.clone(),
                (None, Some(value)) => Value::from(Serde(value)),
                (None, None) => return Err(RenderError::Undefined(format!("params.{name}"))),
            },
        };
        Ok(value)
    }

    /// The same for the engine, as one value. What goes in is bounded, as it may be joined several times.
    pub(super) fn values(&self, sample: Option<&Value>) -> Result<Value, RenderError> {
        let token = self.page.token.as_ref().map_or(0, String::len);
        if token > MAX_OUTPUT || size(&self.params) > MAX_OUTPUT {
            return Err(RenderError::TooLong);
        }
        let map = |entries: &[(&'static str, Value)]| entries.iter().cloned().collect::<BTreeMap<_, _>>();
        let lookup = |variable| self.lookup(&variable, sample);
        let window = [("from", lookup(Variable::WindowFrom)?), ("to", lookup(Variable::WindowTo)?)];
        let page = [
            ("no", lookup(Variable::PageNo)?),
            ("offset", lookup(Variable::PageOffset)?),
            ("size", lookup(Variable::PageSize)?),
            ("token", lookup(Variable::PageToken)?),
        ];
        let params = match sample {
            Some(sample) => Value::from_object(AnyParam(sample.clone())),
            None => Value::from(Serde(&self.params)),
        };
        Ok(map(&[("window", map(&window).into()), ("page", map(&page).into()), ("params", params)]).into())
    }
}

/// Bytes of the texts in the parameters.
fn size(params: &serde_json::Map<String, serde_json::Value>) -> usize {
    params.iter().map(|(key, value)| key.len() + value_size(value)).sum()
}

fn value_size(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::String(text) => text.len(),
        serde_json::Value::Array(items) => items.iter().map(value_size).sum(),
        serde_json::Value::Object(map) => size(map),
        _ => 8,
    }
}

/// Has every key.
#[derive(Debug)]
struct AnyParam(Value);

impl Object for AnyParam {
    fn get_value(self: &Arc<Self>, _: &Value) -> Option<Value> {
        Some(self.0.clone())
    }
}
