//! What a template can see: the window, the page, the frozen time and the source's parameters. Nothing secret:
//! credentials are put in by the transport when it sends (ING-3.9-03).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Object, Serde};

use patra_core::{Ts, Window};

use super::rules::TimeStyle;
use super::run::{self, Run};
use super::scan::Variable;
use super::{MAX_OUTPUT, RenderError};

/// Bytes that the ids of one request may take, before they are joined.
const MAX_IDS: usize = 4 * MAX_OUTPUT;
/// Parameters nest no deeper than this.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, Default)]
pub struct Context {
    /// `None`: nothing is filtered by time, and `window.from` is null.
    pub window: Option<Window>,
    pub page: Page,
    /// The source's own values: feed address, user name, query.
    pub params: serde_json::Map<String, serde_json::Value>,
    /// The records that a detail request asks for.
    pub ids: Vec<String>,
    /// What `now()` gives: frozen by the caller, never the clock, so that a replay renders the same (C-45). Left at its
    /// default, `now()` is an error.
    pub now: Ts,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub no: u64,
    pub offset: u64,
    pub size: Option<u32>,
    pub token: Option<String>,
}

/// What the expressions of a template read, so that nothing else is handed to the engine.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    window: bool,
    page: bool,
    ids: bool,
    params: BTreeSet<String>,
    /// `params['x-y']`: the name is known only to the engine.
    any_param: bool,
}

impl Reads {
    /// Takes note of a dotted name.
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

impl Context {
    /// The value of a bare variable.
    pub(super) fn lookup(&self, variable: &Variable, times: &TimeStyle) -> Result<Value, RenderError> {
        let value = match variable {
            Variable::WindowFrom => self.window.map_or(Value::from(()), |window| times.write(window.from)),
            Variable::WindowTo => self.window.map_or(Value::from(()), |window| times.write(window.to)),
            Variable::PageNo => self.page.no.into(),
            Variable::PageOffset => self.page.offset.into(),
            Variable::PageSize => self.page.size.into(),
            Variable::PageToken => self.page.token.as_deref().into(),
            Variable::Param(name) => return self.param(name, false),
            Variable::Id => self.ids.first().map(String::as_str).into(),
            // Its place in the text is taken by a mark, never by a value.
            Variable::Credential(name) => return Err(RenderError::Undefined(format!("credential.{name}"))),
        };
        Ok(value)
    }

    /// A parameter. One that was declared and not given is null.
    pub(super) fn param(&self, name: &str, declared: bool) -> Result<Value, RenderError> {
        match self.params.get(name) {
            Some(value) => Ok(Value::from(Serde(bounded(value)?))),
            None if declared => Ok(Value::from(())),
            None => Err(RenderError::Undefined(format!("params.{name}"))),
        }
    }

    /// The root of what an expression sees. What goes in is bounded, as it may be joined several times.
    pub(super) fn scope(
        &self,
        reads: &Reads,
        declared: Option<&BTreeSet<String>>,
        run: Run,
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

    pub(super) fn scope_with(&self, reads: &Reads, params: Value, run: Run) -> Result<Value, RenderError> {
        if self.page.token.as_ref().is_some_and(|token| token.len() > MAX_OUTPUT) {
            return Err(RenderError::TooLong);
        }
        let map = |names: &[(&'static str, Variable)]| {
            // Within an expression a time is text that functions read.
            let entries = names.iter().map(|(name, variable)| Ok((*name, self.lookup(variable, &TimeStyle::Iso)?)));
            entries.collect::<Result<BTreeMap<_, _>, RenderError>>().map(Value::from)
        };
        let window = match reads.window {
            true => map(&[("from", Variable::WindowFrom), ("to", Variable::WindowTo)])?,
            false => Value::UNDEFINED,
        };
        let page = match reads.page {
            true => map(&[
                ("no", Variable::PageNo),
                ("offset", Variable::PageOffset),
                ("size", Variable::PageSize),
                ("token", Variable::PageToken),
            ])?,
            false => Value::UNDEFINED,
        };
        let (id, ids) = if reads.ids { self.ids()? } else { (Value::UNDEFINED, Value::UNDEFINED) };
        Ok(Value::from_object(Scope { window, page, params, id, ids, run: Value::from_object(run) }))
    }

    fn ids(&self) -> Result<(Value, Value), RenderError> {
        if self.ids.iter().map(|id| id.len() + 16).sum::<usize>() > MAX_IDS {
            return Err(RenderError::TooLong);
        }
        let all: Vec<Value> = self.ids.iter().map(|id| Value::from(id.as_str())).collect();
        Ok((self.lookup(&Variable::Id, &TimeStyle::Iso)?, all.into()))
    }
}

/// The roots by name.
#[derive(Debug)]
struct Scope {
    window: Value,
    page: Value,
    params: Value,
    id: Value,
    ids: Value,
    run: Value,
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        match key.as_str()? {
            "window" => Some(self.window.clone()),
            "page" => Some(self.page.clone()),
            "params" | "expr" => Some(self.params.clone()),
            "id" => Some(self.id.clone()),
            "ids" => Some(self.ids.clone()),
            run::NAME => Some(self.run.clone()),
            _ => None,
        }
    }
}

fn bounded(value: &serde_json::Value) -> Result<&serde_json::Value, RenderError> {
    if size(value, 0) > MAX_OUTPUT { Err(RenderError::TooLong) } else { Ok(value) }
}

/// Bytes that the value takes, roughly; what nests too deep is too large.
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
