//! Templates: text with `${ … }` in it, rendered per request. Expressions only, no statements: a template can neither
//! assign, loop nor include, so its cost is bounded by its length.
//!
//! The reins, each with a test: text and expression length, an own scan ([`scan`]) and list ([`admit`]) that let only
//! known names, functions and operators through, fuel and no builtins ([`engine`]), arguments, results and output of at
//! most [`MAX_OUTPUT`] bytes, and a budget of work for one rendering ([`run`]).

mod admit;
mod context;
mod engine;
mod functions;
mod literal;
mod rules;
mod run;
mod scan;
mod tilde;
mod times;
mod trial;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use minijinja::{Expression, Value};
use serde::{Deserialize, Serialize};

pub use context::{Context, Page};
pub use functions::{Allowed, functions};
pub use rules::{Rules, Scope, TimeStyle};

use crate::problem::{Flaw, shorten};
use context::Reads;
use literal::Prepared;
use run::Run;
use scan::Variable;

/// Longest template, in bytes.
pub const MAX_TEMPLATE: usize = 16 * 1024;
/// Longest text that a template may render to, and longest value that enters or leaves a function.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// A checked template. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    parts: Arc<[Part]>,
    reads: Arc<Reads>,
    /// What the functions of the expressions need and what is worth making only once.
    prepared: Arc<[Prepared]>,
    nulls: NullPolicy,
    times: TimeStyle,
    /// The parameters that are declared: one that was not given is null.
    declared: Option<Arc<BTreeSet<String>>>,
}

/// What `credential.<name>` renders to: no value, but a mark that the transport replaces when it sends (ING-3.9-03). The
/// control character stands in no other rendered text.
pub fn credential_placeholder(name: &str) -> String {
    format!("{CREDENTIAL_MARK}credential.{name}{CREDENTIAL_MARK}")
}

/// Whether an expression of a template reads the variable, for example `page` or `page.token`.
pub(crate) fn reads(text: &str, variable: &str) -> bool {
    reads_any(text, &|name| name == variable || name.strip_prefix(variable).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether it reads a variable, by its dotted name, that passes.
pub(crate) fn reads_any(text: &str, wanted: &impl Fn(&str) -> bool) -> bool {
    scan::variables(text).iter().any(|(_, name)| wanted(name))
}

/// Around the name of a credential, and nowhere else.
const CREDENTIAL_MARK: char = '\u{1}';

#[derive(Debug)]
enum Part {
    Literal(String),
    /// `${ page.token }`: looked up without the engine.
    Variable {
        variable: Variable,
        span: Range<usize>,
    },
    Expression {
        expression: Expression<'static, 'static>,
        span: Range<usize>,
        /// It gives a time, which is written by the rules.
        is_time: bool,
    },
}

/// What becomes of an expression that gives null (ING-3.2-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NullPolicy {
    /// Nothing is written; a template of nothing else is left out of the request.
    #[default]
    Omit,
    /// An empty text is written: the parameter is sent, and empty.
    Empty,
    /// The request is not made.
    Error,
}

/// Why a template could not be rendered. That request is skipped and the error recorded (ING-4.8-05).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("`{0}` is not set")]
    Undefined(String),
    #[error("`{0}` is null")]
    Null(String),
    #[error("`{0}` gives a {1}; only text, numbers and booleans can be rendered")]
    NotScalar(String, String),
    #[error("`{0}` gives a text with the control character U+0001 in it")]
    Mark(String),
    #[error("a value or the rendered text is longer than {MAX_OUTPUT} bytes")]
    TooLong,
    #[error("rendering takes too much work: shorten the texts, or search with a simpler pattern")]
    TooMuchWork,
    #[error("{0}")]
    Failed(String),
}

impl From<&RenderError> for patra_core::Fault {
    fn from(error: &RenderError) -> patra_core::Fault {
        patra_core::Fault::new(patra_core::Code::ConfigError, patra_core::Level::L2, error.to_string())
    }
}

impl Template {
    /// Checks and prepares a template that may use every function. The offset of a flaw counts bytes of `text`.
    pub fn compile(text: &str) -> Result<Template, Flaw> {
        Template::compile_with(text, &Rules::default())
    }

    /// The same for a source that may use only some functions and knows other variables (ING-3.2-11).
    pub fn compile_with(text: &str, rules: &Rules) -> Result<Template, Flaw> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("the template has {} bytes, at most {MAX_TEMPLATE} are allowed", text.len());
            return Err(Flaw::new(0, message));
        }
        if let Some(at) = text.find(CREDENTIAL_MARK) {
            return Err(Flaw::new(at, "the control character U+0001 is not allowed in a template"));
        }
        let (mut parts, mut prepared, mut reads) = (Vec::new(), literal::Shelf::default(), Reads::default());
        for piece in scan::split(text)? {
            parts.push(match piece {
                scan::Piece::Literal(text) => Part::Literal(text.to_owned()),
                scan::Piece::Code { span, tokens } => {
                    admit::admit(text, span.start, &tokens, rules, &mut prepared)?;
                    match scan::variable(text, &tokens) {
                        Some(variable) => Part::Variable { variable, span },
                        None => {
                            scan::names(text, &tokens).for_each(|(_, name)| reads.add(&name));
                            let mut expression = engine::compile(span.start + 2, &text[span.start + 2..span.end - 1])?;
                            if let Some(source) = tilde::rewrite(text, &tokens) {
                                expression = engine::compile(span.start + 2, &source)?;
                            }
                            let is_time = times::is_time(text, &tokens);
                            Part::Expression { expression, span, is_time }
                        }
                    }
                }
            });
        }
        Ok(Template {
            text: text.into(),
            parts: parts.into(),
            reads: Arc::new(reads),
            prepared: prepared.into(),
            nulls: rules.nulls,
            times: rules.times.clone(),
            declared: rules.scope.params.clone(),
        })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text for one request; `None` when it has no text of its own and everything in it is null, so that the
    /// parameter is left out (`nullPolicy=omit`, ING-4.8-02). Under another policy when it was compiled with one.
    pub fn render(&self, context: &Context) -> Result<Option<String>, RenderError> {
        self.render_with(context, self.nulls)
    }

    /// The same under another policy for null. `None` comes of [`NullPolicy::Omit`] only.
    pub fn render_with(&self, context: &Context, nulls: NullPolicy) -> Result<Option<String>, RenderError> {
        self.render_by(context, nulls, Capped::push)
    }

    /// As a path: what an expression gives is percent-encoded, so that it stays within its segment (G-25).
    pub fn render_path(&self, context: &Context) -> Result<String, RenderError> {
        let path = self.render_by(context, self.nulls, |out, text| out.push(&functions::percent_encoded(text)))?;
        Ok(path.unwrap_or_default())
    }

    fn render_by(
        &self,
        context: &Context,
        nulls: NullPolicy,
        push: impl Fn(&mut Capped, &str) -> Result<(), RenderError>,
    ) -> Result<Option<String>, RenderError> {
        let (mut out, mut seen) = (Capped::default(), self.parts.is_empty());
        let mut scope = None;
        for part in self.parts.iter() {
            let (value, span) = match part {
                Part::Literal(text) => {
                    out.push(text)?;
                    seen = true;
                    continue;
                }
                Part::Variable { variable: Variable::Credential(name), .. } => {
                    out.push(&credential_placeholder(name))?;
                    seen = true;
                    continue;
                }
                Part::Variable { variable: Variable::Param(name), span } => {
                    (context.param(name, self.declared.is_some())?, span)
                }
                Part::Variable { variable, span } => (context.lookup(variable, &self.times)?, span),
                Part::Expression { expression, span, is_time } => {
                    let scope = match &scope {
                        Some(scope) => scope,
                        None => {
                            let run = Run::new(context.now, &self.prepared);
                            scope.insert(context.scope(&self.reads, self.declared.as_deref(), run)?)
                        }
                    };
                    let value = engine::eval(expression, scope)?;
                    (if *is_time { times::written(value, &self.times) } else { value }, span)
                }
            };
            let source = || shorten(&self.text[span.clone()]);
            match (push_value(source, &value, |text| push(&mut out, text))?, nulls) {
                (true, _) | (false, NullPolicy::Empty) => seen = true,
                (false, NullPolicy::Omit) => {}
                (false, NullPolicy::Error) => return Err(RenderError::Null(source())),
            }
        }
        Ok(seen.then_some(out.0))
    }

    /// Runs every expression against made-up values, to find what only shows when it runs.
    pub(crate) fn try_out(&self) -> Result<(), RenderError> {
        self.parts.iter().try_for_each(|part| match part {
            Part::Expression { expression, span, .. } => {
                trial::run(expression, &self.text[span.clone()], &self.reads, &self.prepared)
            }
            _ => Ok(()),
        })
    }

    /// Whether an expression of this template reads the variable, for example `page` or `page.token`.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        reads(&self.text, variable)
    }

    /// The template with every expression that reads only the page, the window or the clock struck out: what is left
    /// selects records (G-03). `None` when nothing is left.
    pub(crate) fn meaning(&self) -> Option<String> {
        scan::meaning(&self.text)
    }
}

/// Collects output and refuses what does not fit, before it is allocated.
#[derive(Default)]
struct Capped(String);

impl Capped {
    fn push(&mut self, text: &str) -> Result<(), RenderError> {
        self.write_str(text).map_err(|_| RenderError::TooLong)
    }
}

/// False when the value is null and nothing was written. `source` is asked for only to say what is wrong.
fn push_value(
    source: impl Fn() -> String,
    value: &Value,
    push: impl FnOnce(&str) -> Result<(), RenderError>,
) -> Result<bool, RenderError> {
    use minijinja::value::ValueKind;
    let text = match value.kind() {
        ValueKind::None => return Ok(false),
        ValueKind::Undefined => return Err(RenderError::Undefined(source())),
        ValueKind::String => Cow::Borrowed(value.as_str().unwrap_or_default()),
        // In small letters, as JSON and most APIs write it; the engine would write `True`.
        ValueKind::Bool => Cow::Borrowed(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => Cow::Owned(value.to_string()),
        other => return Err(RenderError::NotScalar(source(), other.to_string())),
    };
    // A value that could pass for a mark would be given a secret.
    if text.contains(CREDENTIAL_MARK) {
        return Err(RenderError::Mark(source()));
    }
    push(&text).map(|()| true)
}

impl Write for Capped {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > MAX_OUTPUT {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
