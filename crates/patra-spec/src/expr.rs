//! Templates: text with `${ … }` in it, rendered per request. Expressions only, no statements: a template can neither
//! assign, loop nor include, so its cost is bounded by its length.
//!
//! The reins, each with a test: text and expression length, an own scan that admits only known names, filters and
//! operators ([`scan`]), fuel and no builtins ([`engine`]), values and output of at most [`MAX_OUTPUT`] bytes.

mod context;
mod engine;
mod scan;

use std::fmt::{self, Write};
use std::sync::Arc;

use minijinja::{Expression, Value};

pub use context::{Context, Page};
pub use scan::FILTERS;

use crate::problem::{Flaw, shorten};

/// Longest template, in bytes.
pub const MAX_TEMPLATE: usize = 16 * 1024;
/// Longest text that a template may render to, and longest value that enters an expression.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// A checked template. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Debug)]
enum Part {
    Literal(String),
    /// `${ page.token }`: looked up without the engine.
    Variable(scan::Variable),
    Expression(Expression<'static, 'static>),
}

/// Why a template could not be rendered. That request is skipped and the error recorded (ING-4.8-05).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("`{0}` is not set")]
    Undefined(String),
    #[error("`{0}` gives a {1}; only text, numbers and booleans can be rendered")]
    NotScalar(String, String),
    #[error("a value or the rendered text is longer than {MAX_OUTPUT} bytes")]
    TooLong,
    #[error("{0}")]
    Failed(String),
}

impl From<&RenderError> for patra_core::Fault {
    fn from(error: &RenderError) -> patra_core::Fault {
        patra_core::Fault::new(patra_core::Code::ConfigError, patra_core::Level::L2, error.to_string())
    }
}

impl Template {
    /// Checks and prepares a template. The offset of a flaw counts bytes of `text`.
    pub fn compile(text: &str) -> Result<Template, Flaw> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("the template has {} bytes, at most {MAX_TEMPLATE} are allowed", text.len());
            return Err(Flaw::new(0, message));
        }
        let parts = scan::split(text)?.into_iter().map(|piece| match piece {
            scan::Piece::Literal(text) => Ok(Part::Literal(text.to_owned())),
            scan::Piece::Variable(variable) => Ok(Part::Variable(variable)),
            scan::Piece::Expression { at, source } => engine::compile(at, source).map(Part::Expression),
        });
        Ok(Template { text: text.into(), parts: parts.collect::<Result<_, _>>()? })
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The text for one request; `None` when it has no text of its own and everything in it is null, so that the
    /// parameter is left out (`nullPolicy=omit`, ING-4.8-02).
    pub fn render(&self, context: &Context) -> Result<Option<String>, RenderError> {
        let (mut out, mut seen) = (Capped::default(), self.parts.is_empty());
        let mut values = None;
        for part in self.parts.iter() {
            let value = match part {
                Part::Literal(text) => {
                    out.push(text)?;
                    seen = true;
                    continue;
                }
                Part::Variable(variable) => context.lookup(variable, None)?,
                Part::Expression(expression) => {
                    let values = match &values {
                        Some(values) => values,
                        None => values.insert(context.values(None)?),
                    };
                    engine::eval(expression, values)?
                }
            };
            seen |= out.push_value(&self.text, &value)?;
        }
        Ok(seen.then_some(out.0))
    }

    /// Runs every expression against made-up values, to find what only shows when it runs.
    pub(crate) fn try_out(&self) -> Result<(), RenderError> {
        let context = Context::sample();
        for part in self.parts.iter() {
            let Part::Expression(expression) = part else { continue };
            // Parameters have no declared type: an expression is sound when it fits one of these.
            let samples = [Value::from("1"), Value::from(1), Value::from("2024-01-01T00:00:00Z")];
            let attempts = samples.map(|sample| {
                let value = engine::eval(expression, &context.values(Some(&sample))?)?;
                Capped::default().push_value(&self.text, &value)
            });
            if attempts.iter().all(Result::is_err) {
                let [first, ..] = attempts;
                first?;
            }
        }
        Ok(())
    }

    /// Whether an expression of this template reads the variable, for example `page` or `page.token`.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        scan::variables(&self.text)
            .iter()
            .any(|(_, name)| name == variable || name.strip_prefix(variable).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The template with every expression that reads only the page or the window struck out: what is left selects
    /// records (G-03). `None` when nothing is left.
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

    /// False when the value is null and nothing was written.
    fn push_value(&mut self, source: &str, value: &Value) -> Result<bool, RenderError> {
        use minijinja::value::ValueKind;
        match value.kind() {
            ValueKind::None => Ok(false),
            ValueKind::Undefined => Err(RenderError::Undefined(shorten(source))),
            ValueKind::Bool | ValueKind::Number | ValueKind::String => {
                write!(self, "{value}").map_err(|_| RenderError::TooLong).map(|()| true)
            }
            other => Err(RenderError::NotScalar(shorten(source), other.to_string())),
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
