//! The functions of templates: one list, from which the engine, the checks and the narrowing per source are made. Each is
//! written `f(x, y)` or `x | f(y)`. A function sees its arguments and the frozen time, and nothing of the world.

mod hash;
mod text;
pub(super) mod time;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, State, Value};

use super::literal::{Kind, Shelf};
use super::run::{self, Run};
use super::scan::{self, Sort, Token};
use super::{MAX_OUTPUT, RenderError, tilde};
use crate::problem::Flaw;
use crate::suggest::suggest;
pub(super) use hash::percent_encoded;

type Body = fn(&Call<'_>) -> Result<Value, Error>;

pub(super) struct Function {
    pub(super) name: &'static str,
    /// How many values it takes, the one before `|` among them.
    takes: RangeInclusive<usize>,
    /// Arguments that are checked where they stand.
    literals: &'static [(usize, Kind)],
    body: Body,
}

const fn function(name: &'static str, takes: RangeInclusive<usize>, body: Body) -> Function {
    Function { name, takes, literals: &[], body }
}

impl Function {
    const fn with(self, literals: &'static [(usize, Kind)]) -> Function {
        Function { literals, ..self }
    }
}

/// Most arguments of `coalesce` and `concat`, and most joins.
pub(super) const MANY: usize = 16;
const FORMAT: &[(usize, Kind)] = &[(1, Kind::Format), (2, Kind::Offset)];

pub(super) static ALL: &[Function] = &[
    function("now", 0..=0, time::now),
    function("format", 2..=3, time::format_call).with(FORMAT),
    // The word of ING-4.8-03.
    function("formatDateTime", 2..=3, time::format_call).with(FORMAT),
    function("parse", 2..=2, time::parse_call).with(&[(1, Kind::Reading)]),
    function("add", 2..=2, time::add).with(&[(1, Kind::Duration)]),
    function("sub", 2..=2, time::sub).with(&[(1, Kind::Duration)]),
    function("date", 1..=1, time::date),
    function("datetime", 1..=1, time::datetime),
    function("iso", 1..=1, time::iso),
    function("epoch", 1..=1, time::epoch),
    function("epoch_ms", 1..=1, time::epoch_ms),
    function("default", 2..=2, value::default),
    function("coalesce", 1..=MANY, value::coalesce),
    function("concat", 1..=MANY, text::concat),
    function("join", 1..=2, text::join),
    function("jsonPath", 2..=2, value::json_path).with(&[(1, Kind::Path)]),
    // The word of C-45.
    function(scan::RENDER_QUERY, 0..=0, value::render_query),
    function("length", 1..=1, value::length),
    function("int", 1..=1, value::int),
    function("string", 1..=1, value::string),
    function("lower", 1..=1, text::lower),
    function("upper", 1..=1, text::upper),
    function("trim", 1..=1, text::trim),
    function("replace", 3..=3, text::replace),
    function("regex_search", 2..=3, text::regex_search).with(&[(1, Kind::Pattern)]),
    function("urlencode", 1..=1, hash::urlencode),
    function("base64", 1..=1, hash::base64),
    function("base64_decode", 1..=1, hash::base64_decode),
    function("sha256", 1..=1, hash::sha256),
    function("md5", 1..=1, hash::md5),
];

/// What `~` becomes; not a function for authors.
pub(super) static TILDE: Function = function(tilde::NAME, 2..=MANY + 1, text::concat);

/// The names of all functions, in the order of the documentation.
pub fn functions() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|function| function.name)
}

pub(super) fn find(name: &str) -> Option<&'static Function> {
    ALL.iter().find(|function| function.name == name)
}

/// The functions that a source may use (`reg_prov_expr_capability`, ING-3.2-11).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// `None`: all.
    names: Option<BTreeSet<&'static str>>,
}

impl Allowed {
    pub fn all() -> Allowed {
        Allowed::default()
    }

    /// Only these. A name that no function has is a flaw; its offset is the place in the list.
    pub fn only<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Allowed, Flaw> {
        let mut allowed = BTreeSet::new();
        for (at, name) in names.into_iter().enumerate() {
            match find(name) {
                Some(function) => drop(allowed.insert(function.name)),
                None => {
                    let hint = suggest(name, &functions().collect::<Vec<_>>());
                    let message = format!("there is no function {}", crate::problem::quote(name));
                    return Err(Flaw { hint, ..Flaw::new(at, message) });
                }
            }
        }
        Ok(Allowed { names: Some(allowed) })
    }

    pub fn contains(&self, name: &str) -> bool {
        self.names.as_ref().is_none_or(|names| names.contains(name))
    }

    /// In the order of the documentation.
    pub fn names(&self) -> Vec<&'static str> {
        functions().filter(|name| self.contains(name)).collect()
    }
}

impl Function {
    /// Checks a use of the function whose name stands at `place`; `piped` values come from before the `|`.
    pub(super) fn check(
        &self,
        text: &str,
        tokens: &[Token],
        place: usize,
        piped: usize,
        shelf: &mut Shelf,
    ) -> Result<(), Flaw> {
        let arguments = arguments(text, &tokens[place + 1..]);
        let (count, name) = (arguments.len() + piped, self.name);
        if !self.takes.contains(&count) {
            let message = match (self.takes.start(), self.takes.end()) {
                (0, 0) => format!("`{name}` takes no value, not {count}"),
                (min, max) if min == max => {
                    format!("`{name}` takes {min} values, the one before `|` included, not {count}")
                }
                (min, max) => format!("`{name}` takes {min} to {max} values, the one before `|` included, not {count}"),
            };
            return Err(Flaw::new(
                tokens[place].at,
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
        let run = state.lookup(run::NAME);
        let run = run.as_ref().and_then(|run| run.downcast_object_ref::<Run>());
        let run = run.ok_or_else(|| invalid("functions work in templates only"))?;
        if !self.takes.contains(&args.len()) {
            return Err(invalid(format!("`{}` does not take {} values", self.name, args.len())));
        }
        let value = (self.body)(&Call { run, args, state })?;
        match value.as_str() {
            Some(text) if text.len() > MAX_OUTPUT => Err(failed(RenderError::TooLong)),
            _ => Ok(value),
        }
    }
}

/// The arguments between the brackets that the tokens begin with; none when they begin with something else.
fn arguments<'t>(text: &str, tokens: &'t [Token]) -> Vec<&'t [Token]> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0usize, 1);
    for (at, token) in tokens.iter().enumerate() {
        let mark = if token.sort == Sort::Mark { token.text(text) } else { "" };
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

/// One call: the arguments, already counted, and what the rendering carries along.
struct Call<'c> {
    run: &'c Run,
    args: &'c [Value],
    state: &'c State<'c, 'c>,
}

impl Call<'_> {
    /// An argument as text; `None` when it is null or was left out. Numbers and booleans are written as they render.
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
            _ => return Err(needed("text", value)),
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

    /// The text is not what the function can read. Made-up values say nothing about that.
    fn unfit(&self, message: String) -> Result<Value, Error> {
        if self.run.is_trial() { Ok(null()) } else { Err(invalid(message)) }
    }
}

fn null() -> Value {
    Value::from(())
}

fn needed(what: &str, value: &Value) -> Error {
    match value.kind() {
        ValueKind::Undefined => invalid(format!("a {what} is needed here, but the value is not set")),
        kind => invalid(format!("a {what} is needed here, not a {kind}")),
    }
}

fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// An error of our own, which comes out of the engine as it went in.
fn failed(error: RenderError) -> Error {
    Error::new(ErrorKind::InvalidOperation, error.to_string()).with_source(error)
}
