//! The values that a template can read: the window, the page, the frozen time and the source's parameters. Nothing
//! secret: the transport inserts credentials when it sends (ING-3.9-03).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, Serde};

use patra_core::{Ts, Window};

use super::render_state::{self, RenderState};
use super::rules::TimeStyle;
use super::scan::TemplateVariable;
use super::{MAX_OUTPUT, RenderError};

/// Most bytes of the ids of one request, before they are joined.
const MAX_IDS: usize = 4 * MAX_OUTPUT;
/// Deepest nesting of a parameter.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct RenderContext {
    /// `None` if the endpoint does not filter by time; `window.from` is then null.
    pub window: Option<Window>,
    pub page: PageVariables,
    /// The source's own values: feed address, user name, query.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// The ids of the records that a detail request fetches.
    pub ids: Vec<String>,
    /// The result of `now()`. The caller freezes it, so that a replay renders the same (C-45). With the default value,
    /// `now()` is an error.
    pub now: Ts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageVariables {
    pub no: u64,
    pub offset: u64,
    pub size: Option<u32>,
    pub token: Option<String>,
}

/// The variables that the expressions of a template read. Only these are passed to the engine.
#[derive(Clone, Debug, Default)]
pub(super) struct VariablesRead {
    window: bool,
    page: bool,
    ids: bool,
    params: BTreeSet<String>,
    /// Set for `params['x-y']`, whose name is known only to the engine.
    any_param: bool,
}

impl VariablesRead {
    /// Adds a variable by its dotted name.
    pub(super) fn add(&mut self, name: &str) {
        let mut steps = name.split('.');
        match (steps.next(), steps.next()) {
            (Some("window"), _) => self.window = true,
            (Some("page"), _) => self.page = true,
            (Some("id" | "ids"), _) => self.ids = true,
            (Some("params"), Some(name)) => drop(self.params.insert(name.to_owned())),
            (Some("params"), None) => self.any_param = true,
            _ => {}
        }
    }
}

impl RenderContext {
    /// The value of a bare variable.
    pub(super) fn lookup(&self, variable: &TemplateVariable, times: &TimeStyle) -> Result<Value, RenderError> {
        let value = match variable {
            TemplateVariable::WindowFrom => self.window.map_or(Value::from(()), |window| times.write(window.from)),
            TemplateVariable::WindowTo => self.window.map_or(Value::from(()), |window| times.write(window.to)),
            TemplateVariable::PageNo => self.page.no.into(),
            TemplateVariable::PageOffset => self.page.offset.into(),
            TemplateVariable::PageSize => self.page.size.into(),
            TemplateVariable::PageToken => self.page.token.as_deref().into(),
            TemplateVariable::Param(name) => return self.param(name, false),
            TemplateVariable::Id => self.ids.first().map(String::as_str).into(),
            // A credential renders to a placeholder, never to a value.
            TemplateVariable::Credential(name) => return Err(RenderError::Undefined(format!("credential.{name}"))),
        };
        Ok(value)
    }

    /// The value of a parameter. A declared parameter that was not given is null.
    pub(super) fn param(&self, name: &str, declared: bool) -> Result<Value, RenderError> {
        match self.params.get(name) {
            Some(value) => Ok(Value::from(Serde(bounded(value)?))),
            None if declared => Ok(Value::from(())),
            None => Err(RenderError::Undefined(format!("params.{name}"))),
        }
    }

    /// The root object of an expression. Its values are bounded, because they may be joined several times.
    pub(super) fn scope(
        &self,
        reads: &VariablesRead,
        declared: Option<&BTreeSet<String>>,
        run: RenderState,
    ) -> Result<Value, RenderError> {
        if reads.any_param {
            let size = self.params.iter().map(|(key, value)| key.len() + size(value, 0)).sum::<usize>();
            if size > MAX_OUTPUT {
                return Err(RenderError::TooLong);
            }
        }
        let given = self.params.keys().filter(|_| reads.any_param);
        let declared = declared.into_iter().flatten();
        let null = declared.filter(|name| reads.any_param || reads.params.contains(*name));
        let mut params: BTreeMap<String, Value> = null.map(|name| (name.clone(), Value::from(()))).collect();
        for name in reads.params.iter().chain(given).filter(|name| self.params.contains_key(*name)) {
            params.insert(name.clone(), self.param(name, false)?);
        }
        self.scope_with(reads, params.into(), run)
    }

    pub(super) fn scope_with(
        &self,
        reads: &VariablesRead,
        params: Value,
        run: RenderState,
    ) -> Result<Value, RenderError> {
        if self.page.token.as_ref().is_some_and(|token| token.len() > MAX_OUTPUT) {
            return Err(RenderError::TooLong);
        }
        let map = |names: &[(&'static str, TemplateVariable)]| {
            // Within an expression a time is ISO-8601 text that functions parse.
            let entries = names.iter().map(|(name, variable)| Ok((*name, self.lookup(variable, &TimeStyle::Iso)?)));
            entries.collect::<Result<BTreeMap<_, _>, RenderError>>().map(Value::from)
        };
        let window = match reads.window {
            true => map(&[("from", TemplateVariable::WindowFrom), ("to", TemplateVariable::WindowTo)])?,
            false => Value::UNDEFINED,
        };
        let page = match reads.page {
            true => map(&[
                ("no", TemplateVariable::PageNo),
                ("offset", TemplateVariable::PageOffset),
                ("size", TemplateVariable::PageSize),
                ("token", TemplateVariable::PageToken),
            ])?,
            false => Value::UNDEFINED,
        };
        let (id, ids) = if reads.ids { self.ids()? } else { (Value::UNDEFINED, Value::UNDEFINED) };
        Ok(Value::from_object(ScopeObject { window, page, params, id, ids, run: Value::from_object(run) }))
    }

    fn ids(&self) -> Result<(Value, Value), RenderError> {
        if self.ids.iter().map(|id| id.len() + 16).sum::<usize>() > MAX_IDS {
            return Err(RenderError::TooLong);
        }
        let all: Vec<Value> = self.ids.iter().map(|id| Value::from(id.as_str())).collect();
        Ok((self.lookup(&TemplateVariable::Id, &TimeStyle::Iso)?, all.into()))
    }
}

/// The root variables by name.
#[derive(Debug)]
struct ScopeObject {
    window: Value,
    page: Value,
    params: Value,
    id: Value,
    ids: Value,
    run: Value,
}

impl Object for ScopeObject {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "window" => Some(self.window.clone()),
            "page" => Some(self.page.clone()),
            "params" | "expr" => Some(self.params.clone()),
            "id" => Some(self.id.clone()),
            "ids" => Some(self.ids.clone()),
            render_state::NAME => Some(self.run.clone()),
            _ => None,
        }
    }
}

fn bounded(value: &serde_json::Value) -> Result<&serde_json::Value, RenderError> {
    if size(value, 0) > MAX_OUTPUT { Err(RenderError::TooLong) } else { Ok(value) }
}

/// Approximate size of the value in bytes. A value that nests too deep counts as too large.
fn size(value: &serde_json::Value, depth: usize) -> usize {
    use serde_json::Value as Json;
    match value {
        Json::Null | Json::Bool(_) | Json::Number(_) => 16,
        Json::String(text) => text.len(),
        Json::Array(_) | Json::Object(_) if depth == MAX_DEPTH => MAX_OUTPUT + 1,
        Json::Array(items) => items.iter().fold(16, |sum, item| sum.saturating_add(16 + size(item, depth + 1))),
        Json::Object(map) => map
            .iter()
            .fold(16, |sum, (key, item)| sum.saturating_add(16).saturating_add(key.len() + size(item, depth + 1))),
    }
}
