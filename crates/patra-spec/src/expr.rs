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
mod run;
mod scan;
mod tilde;
mod trial;

use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use minijinja::{Expression, Value};
use serde::{Deserialize, Serialize};

pub use context::{Context, Page};
pub use functions::{Allowed, functions};

use crate::problem::{Flaw, shorten};
use context::Reads;
use literal::Prepared;
use run::Run;

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
}

#[derive(Debug)]
enum Part {
    Literal(String),
    /// `${ page.token }`: looked up without the engine.
    Variable {
        variable: scan::Variable,
        span: Range<usize>,
    },
    Expression {
        expression: Expression<'static, 'static>,
        span: Range<usize>,
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
        Template::compile_with(text, &Allowed::all())
    }

    /// The same for a source that may use only some functions (ING-3.2-11).
    pub fn compile_with(text: &str, allowed: &Allowed) -> Result<Template, Flaw> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("the template has {} bytes, at most {MAX_TEMPLATE} are allowed", text.len());
            return Err(Flaw::new(0, message));
        }
        let (mut parts, mut prepared, mut reads) = (Vec::new(), literal::Shelf::default(), Reads::default());
        for piece in scan::split(text)? {
            parts.push(match piece {
                scan::Piece::Literal(text) => Part::Literal(text.to_owned()),
                scan::Piece::Code { span, tokens } => {
                    admit::admit(text, span.start, &tokens, allowed, &mut prepared)?;
                    match scan::variable(text, &tokens) {
                        Some(variable) => Part::Variable { variable, span },
                        None => {
                            scan::names(text, &tokens).for_each(|(_, name)| reads.add(&name));
                            let mut expression = engine::compile(span.start + 2, &text[span.start + 2..span.end - 1])?;
                            if let Some(source) = tilde::rewrite(text, &tokens) {
                                expression = engine::compile(span.start + 2, &source)?;
                            }
                            Part::Expression { expression, span }
                        }
                    }
                }
            });
        }
        Ok(Template { text: text.into(), parts: parts.into(), reads: Arc::new(reads), prepared: prepared.into() })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text for one request; `None` when it has no text of its own and everything in it is null, so that the
    /// parameter is left out (`nullPolicy=omit`, ING-4.8-02).
    pub fn render(&self, context: &Context) -> Result<Option<String>, RenderError> {
        self.render_with(context, NullPolicy::Omit)
    }

    /// The same under another policy for null. `None` comes of [`NullPolicy::Omit`] only.
    pub fn render_with(&self, context: &Context, nulls: NullPolicy) -> Result<Option<String>, RenderError> {
        let (mut out, mut seen) = (Capped::default(), self.parts.is_empty());
        let mut scope = None;
        for part in self.parts.iter() {
            let (value, span) = match part {
                Part::Literal(text) => {
                    out.push(text)?;
                    seen = true;
                    continue;
                }
                Part::Variable { variable, span } => (context.lookup(variable)?, span),
                Part::Expression { expression, span } => {
                    let scope = match &scope {
                        Some(scope) => scope,
                        None => scope.insert(context.scope(&self.reads, Run::new(context.now, &self.prepared))?),
                    };
                    (engine::eval(expression, scope)?, span)
                }
            };
            let source = || shorten(&self.text[span.clone()]);
            match (out.push_value(source, &value)?, nulls) {
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
            Part::Expression { expression, span } => {
                trial::run(expression, &self.text[span.clone()], &self.reads, &self.prepared)
            }
            _ => Ok(()),
        })
    }

    /// Whether an expression of this template reads the variable, for example `page` or `page.token`.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        scan::variables(&self.text)
            .iter()
            .any(|(_, name)| name == variable || name.strip_prefix(variable).is_some_and(|rest| rest.starts_with('.')))
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

    /// False when the value is null and nothing was written. `source` is asked for only to say what is wrong.
    fn push_value(&mut self, source: impl Fn() -> String, value: &Value) -> Result<bool, RenderError> {
        use minijinja::value::ValueKind;
        match value.kind() {
            ValueKind::None => Ok(false),
            ValueKind::Undefined => Err(RenderError::Undefined(source())),
            ValueKind::String => self.push(value.as_str().unwrap_or_default()).map(|()| true),
            // In small letters, as JSON and most APIs write it; the engine would write `True`.
            ValueKind::Bool => self.push(if value.is_true() { "true" } else { "false" }).map(|()| true),
            ValueKind::Number => write!(self, "{value}").map_err(|_| RenderError::TooLong).map(|()| true),
            other => Err(RenderError::NotScalar(source(), other.to_string())),
        }
    }
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
