//! The functions of templates: one list for the engine, the checks and the allowlist per source. Each is written `f(x,
//! y)` or `x | f(y)`. A function sees its arguments and the frozen time, and does no I/O.

mod hash;
mod text;
pub(super) mod time;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::literal::{LiteralKind, PreparedLiterals};
use super::render_state::{self, RenderState};
use super::scan::{self, ExprToken, TokenKind};
use super::{MAX_OUTPUT, RenderError, tilde};
use crate::problem::SyntaxError;
use crate::suggest::suggest;
pub(super) use hash::percent_encoded;

type FunctionBody = fn(&FunctionCall<'_>) -> Result<Value, Error>;

pub(super) struct TemplateFunction {
    pub(super) name: &'static str,
    /// Number of arguments, including the one before `|`.
    arity: RangeInclusive<usize>,
    /// Arguments that must be literals and are checked at compile time.
    literals: &'static [(usize, LiteralKind)],
    body: FunctionBody,
}

const fn function(name: &'static str, takes: RangeInclusive<usize>, body: FunctionBody) -> TemplateFunction {
    TemplateFunction { name, arity: takes, literals: &[], body }
}

impl TemplateFunction {
    const fn with(self, literals: &'static [(usize, LiteralKind)]) -> TemplateFunction {
        TemplateFunction { literals, ..self }
    }
}

/// Most arguments of `coalesce` and `concat`, and most joins in an expression.
pub(super) const MAX_VARIADIC: usize = 16;
const FORMAT: &[(usize, LiteralKind)] = &[(1, LiteralKind::Format), (2, LiteralKind::Offset)];

pub(super) static ALL: &[TemplateFunction] = &[
    function("now", 0..=0, time::now),
    function("format", 2..=3, time::format_call).with(FORMAT),
    // The name used by ING-4.8-03.
    function("formatDateTime", 2..=3, time::format_call).with(FORMAT),
    function("parse", 2..=2, time::parse_call).with(&[(1, LiteralKind::ParseFormat)]),
    function("add", 2..=2, time::add).with(&[(1, LiteralKind::Duration)]),
    function("sub", 2..=2, time::sub).with(&[(1, LiteralKind::Duration)]),
    function("date", 1..=1, time::date),
    function("datetime", 1..=1, time::datetime),
    function("iso", 1..=1, time::iso),
    function("epoch", 1..=1, time::epoch),
    function("epoch_ms", 1..=1, time::epoch_ms),
    function("default", 2..=2, value::default),
    function("coalesce", 1..=MAX_VARIADIC, value::coalesce),
    function("concat", 1..=MAX_VARIADIC, text::concat),
    function("join", 1..=2, text::join),
    function("jsonPath", 2..=2, value::json_path).with(&[(1, LiteralKind::Path)]),
    // The name used by C-45.
    function(scan::RENDER_QUERY, 0..=0, value::render_query),
    function("length", 1..=1, value::length),
    function("int", 1..=1, value::int),
    function("string", 1..=1, value::string),
    function("lower", 1..=1, text::lower),
    function("upper", 1..=1, text::upper),
    function("trim", 1..=1, text::trim),
    function("replace", 3..=3, text::replace),
    function("regex_search", 2..=3, text::regex_search).with(&[(1, LiteralKind::Pattern)]),
    function("urlencode", 1..=1, hash::urlencode),
    function("base64", 1..=1, hash::base64),
    function("base64_decode", 1..=1, hash::base64_decode),
    function("sha256", 1..=1, hash::sha256),
    function("md5", 1..=1, hash::md5),
];

/// The function that replaces `~`; templates cannot call it by name.
pub(super) static TILDE: TemplateFunction = function(tilde::NAME, 2..=MAX_VARIADIC + 1, text::concat);

/// The names of all functions, in the order of the documentation.
pub fn functions() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|function| function.name)
}

pub(super) fn find(name: &str) -> Option<&'static TemplateFunction> {
    ALL.iter().find(|function| function.name == name)
}

/// The functions that a source may use (`reg_prov_expr_capability`, ING-3.2-11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedFunctions {
    /// `None` allows all functions.
    names: Option<BTreeSet<&'static str>>,
}

impl AllowedFunctions {
    pub fn all() -> AllowedFunctions {
        AllowedFunctions::default()
    }

    /// Allows only these functions. For an unknown name, the offset of the error is the index in the list.
    pub fn only<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<AllowedFunctions, SyntaxError> {
        let mut allowed = BTreeSet::new();
        for (at, name) in names.into_iter().enumerate() {
            match find(name) {
                Some(function) => drop(allowed.insert(function.name)),
                None => {
                    let hint = suggest(name, &functions().collect::<Vec<_>>());
                    let message = format!("there is no function {}", crate::problem::quote(name));
                    return Err(SyntaxError { hint, ..SyntaxError::new(at, message) });
                }
            }
        }
        Ok(AllowedFunctions { names: Some(allowed) })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// Allowed names in the order of the documentation.
    pub fn names(&self) -> Vec<&'static str> {
        functions().filter(|name| self.contains(name)).collect()
    }
}

impl TemplateFunction {
    /// Checks a call of the function whose name is the token at `index`; `piped` values come from before the `|`.
    pub(super) fn check(
        &self,
        text: &str,
        tokens: &[ExprToken],
        index: usize,
        piped: usize,
        shelf: &mut PreparedLiterals,
    ) -> Result<(), SyntaxError> {
        let arguments = arguments(text, &tokens[index + 1..]);
        let (count, name) = (arguments.len() + piped, self.name);
        if !self.arity.contains(&count) {
            let message = match (self.arity.start(), self.arity.end()) {
                (0, 0) => format!("`{name}` takes no value, not {count}"),
                (min, max) if min == max => {
                    format!("`{name}` takes {min} values, the one before `|` included, not {count}")
                }
                (min, max) => format!("`{name}` takes {min} to {max} values, the one before `|` included, not {count}"),
            };
            return Err(SyntaxError::new(
                tokens[index].at,
                message.replace("1 values, the one before `|` included", "1 value"),
            ));
        }
        for (at, kind) in self.literals {
            if let Some(argument) = at.checked_sub(piped).and_then(|at| arguments.get(at)) {
                shelf.check(name, *kind, text, argument)?;
            }
        }
        Ok(())
    }

    pub(super) fn call(&self, state: &State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        let run = state.lookup(render_state::NAME);
        let run = run.as_ref().and_then(|run| run.downcast_object_ref::<RenderState>());
        let run = run.ok_or_else(|| invalid("functions work in templates only"))?;
        if !self.arity.contains(&args.len()) {
            return Err(invalid(format!("`{}` does not take {} values", self.name, args.len())));
        }
        let value = (self.body)(&FunctionCall { run, args, state })?;
        match value.as_str() {
            Some(text) if text.len() > MAX_OUTPUT => Err(failed(RenderError::TooLong)),
            _ => Ok(value),
        }
    }
}

/// The arguments between the brackets that the tokens begin with; empty if they begin with something else.
fn arguments<'t>(text: &str, tokens: &'t [ExprToken]) -> Vec<&'t [ExprToken]> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, 1);
    for (at, token) in tokens.iter().enumerate() {
        let mark = if token.kind == TokenKind::Mark { token.text(text) } else { "" };
        match mark {
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 || (depth == 1 && mark == ",") {
            found.extend(tokens.get(start..at).filter(|argument| !argument.is_empty()));
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    found
}

/// One function call: its arguments, already counted, and the state of the rendering.
struct FunctionCall<'c> {
    run: &'c RenderState,
    args: &'c [Value],
    state: &'c State<'c, 'c>,
}

impl FunctionCall<'_> {
    /// An argument as text; `None` if it is null or missing. Numbers and booleans are converted as they render.
    fn text(&self, at: usize) -> Result<Option<Cow<'_, str>>, Error> {
        match self.args.get(at) {
            Some(value) => self.text_of(value),
            None => Ok(None),
        }
    }

    fn text_of<'v>(&self, value: &'v Value) -> Result<Option<Cow<'v, str>>, Error> {
        let text = match value.kind() {
            ValueKind::None => return Ok(None),
            ValueKind::String => Cow::Borrowed(value.as_str().unwrap_or_default()),
            ValueKind::Number => Cow::Owned(value.to_string()),
            ValueKind::Bool => Cow::Borrowed(if value.is_true() { "true" } else { "false" }),
            _ => return Err(wrong_type("text", value)),
        };
        if text.len() > MAX_OUTPUT {
            return Err(failed(RenderError::TooLong));
        }
        self.charge(text.len())?;
        Ok(Some(text))
    }

    fn charge(&self, work: usize) -> Result<(), Error> {
        self.run.charge(work).map_err(failed)
    }

    /// The function cannot use the text. In a dry run this is no error, because the values are samples.
    fn unusable_value(&self, message: String) -> Result<Value, Error> {
        if self.run.is_dry_run() { Ok(null()) } else { Err(invalid(message)) }
    }
}

fn null() -> Value {
    Value::from(())
}

fn wrong_type(what: &str, value: &Value) -> Error {
    match value.kind() {
        ValueKind::Undefined => invalid(format!("a {what} is needed here, but the value is not set")),
        kind => invalid(format!("a {what} is needed here, not a {kind}")),
    }
}

fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// Wraps an error of our own, so that it can be recovered from the engine's error.
fn failed(error: RenderError) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string()).with_source(error)
}
