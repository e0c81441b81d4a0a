//! Templates: text with `${ … }` in it, rendered per request. Expressions only, no statements: a template can neither
//! assign, loop nor include, so its cost is bounded by its length.
//!
//! Limits, each with a test: length of text and expression; a tokenizer ([`scan`]) and allowlist ([`admit`]) that
//! accept only known names, functions and operators; fuel and no builtins ([`engine`]); arguments, results and output
//! of at most [`MAX_OUTPUT`] bytes; and a work budget per rendering ([`render_state`]).

mod admit;
mod context;
mod dry_run;
mod engine;
mod functions;
mod literal;
mod render_state;
mod rules;
mod scan;
mod tilde;
mod times;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use minijinja::{Expression, Value};
use serde::{Deserialize, Serialize};

pub use context::{PageVariables, RenderContext};
pub use functions::{AllowedFunctions, functions};
pub use rules::{TemplateRules, TimeStyle, VariableScope};

use crate::problem::{SyntaxError, shorten};
use context::VariablesRead;
use literal::PreparedLiteral;
use render_state::RenderState;
use scan::TemplateVariable;

/// Longest template, in bytes.
pub const MAX_TEMPLATE: usize = 16 * 1024;
/// Longest text that a template may render to, and longest value that enters or leaves a function.
pub const MAX_OUTPUT: usize = 64 * 1024;

/// A checked template. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Template {
    text: Arc<str>,
    parts: Arc<[TemplatePart]>,
    reads: Arc<VariablesRead>,
    /// Literals of function calls that are compiled once.
    prepared: Arc<[PreparedLiteral]>,
    nulls: NullPolicy,
    times: TimeStyle,
    /// Declared parameters; a declared parameter that was not given is null.
    declared: Option<Arc<BTreeSet<String>>>,
}

/// The placeholder that `credential.<name>` renders to. The transport replaces it when it sends (ING-3.9-03). Its
/// control character cannot occur in any other rendered text.
pub fn credential_placeholder(name: &str) -> String {
    format!("{CREDENTIAL_MARK}credential.{name}{CREDENTIAL_MARK}")
}

/// Whether an expression of a template reads the variable, for example `page` or `page.token`.
pub(crate) fn reads(text: &str, variable: &str) -> bool {
    reads_any(text, &|name| name == variable || name.strip_prefix(variable).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether an expression of a template reads a variable whose dotted name passes `matches`.
pub(crate) fn reads_any(text: &str, matches: &impl Fn(&str) -> bool) -> bool {
    scan::variables(text).iter().any(|(_, name)| matches(name))
}

/// The parameters that an expression of the template consists of, such as `user` of `/users/${ params.user }/posts`.
pub(crate) fn bare_params(text: &str) -> Vec<String> {
    let pieces = scan::split(text).unwrap_or_default();
    let param = |piece| match piece {
        scan::TemplatePiece::Code { tokens, .. } => match scan::variable(text, &tokens) {
            Some(TemplateVariable::Param(name)) => Some(name),
            _ => None,
        },
        scan::TemplatePiece::Literal(_) => None,
    };
    pieces.into_iter().filter_map(param).collect()
}

/// Surrounds the name of a credential, and occurs nowhere else.
const CREDENTIAL_MARK: char = '\u{1}';

#[derive(Debug)]
enum TemplatePart {
    Literal(String),
    /// `${ page.token }`: looked up without the engine.
    Variable {
        variable: TemplateVariable,
        span: Range<usize>,
    },
    Expression {
        expression: Expression<'static, 'static>,
        span: Range<usize>,
        /// The result is a time and is formatted by the rules.
        is_time: bool,
    },
}

/// How an expression that gives null is rendered (ING-3.2-12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NullPolicy {
    /// Nothing is written. If the template renders nothing else, the parameter is left out of the request.
    #[default]
    Omit,
    /// An empty text is written, so the parameter is sent empty.
    Empty,
    /// Rendering fails and the request is not sent.
    Error,
}

/// Why a template could not be rendered. That request is skipped and the error recorded (ING-4.8-05).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RenderError {
    #[error("`{0}` is not set")]
    Undefined(String),
    #[error("`{0}` is null")]
    Null(String),
    #[error("a part of `{0}` between two slashes is empty")]
    EmptySegment(String),
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
    /// Checks and prepares a template that may use every function. The offset of a syntax_error counts bytes of `text`.
    pub fn compile(text: &str) -> Result<Template, SyntaxError> {
        Template::compile_with(text, &TemplateRules::default())
    }

    /// Compiles a template for a source that may use only some functions and variables (ING-3.2-11).
    pub fn compile_with(text: &str, rules: &TemplateRules) -> Result<Template, SyntaxError> {
        if text.len() > MAX_TEMPLATE {
            let message = format!("the template has {} bytes, at most {MAX_TEMPLATE} are allowed", text.len());
            return Err(SyntaxError::new(0, message));
        }
        if let Some(at) = text.find(CREDENTIAL_MARK) {
            return Err(SyntaxError::new(at, "the control character U+0001 is not allowed in a template"));
        }
        let (mut parts, mut prepared, mut reads) =
            (Vec::new(), literal::PreparedLiterals::default(), VariablesRead::default());
        for piece in scan::split(text)? {
            parts.push(match piece {
                scan::TemplatePiece::Literal(text) => TemplatePart::Literal(text.to_owned()),
                scan::TemplatePiece::Code { span, tokens } => {
                    admit::admit(text, span.start, &tokens, rules, &mut prepared)?;
                    match scan::variable(text, &tokens) {
                        Some(variable) => TemplatePart::Variable { variable, span },
                        None => {
                            scan::names(text, &tokens).for_each(|(_, name)| reads.add(&name));
                            let mut expression = engine::compile(span.start + 2, &text[span.start + 2..span.end - 1])?;
                            if let Some(source) = tilde::rewrite(text, &tokens) {
                                expression = engine::compile(span.start + 2, &source)?;
                            }
                            let is_time = times::is_time(text, &tokens);
                            TemplatePart::Expression { expression, span, is_time }
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

    /// Renders the text for one request, with the null policy it was compiled with. Returns `None` if there is no
    /// literal text and every expression is null, so that the parameter is left out (`nullPolicy=omit`, ING-4.8-02).
    pub fn render(&self, context: &RenderContext) -> Result<Option<String>, RenderError> {
        self.render_with(context, self.nulls)
    }

    /// Renders with another null policy. Only [`NullPolicy::Omit`] can return `None`.
    pub fn render_with(&self, context: &RenderContext, nulls: NullPolicy) -> Result<Option<String>, RenderError> {
        self.render_by(context, nulls, CappedOutput::push)
    }

    /// Renders a URL path. Values of expressions are percent-encoded, so that they stay within their segment (G-25). A
    /// null is always an error, and so is an empty segment that is not the last: the URL would be another one.
    pub fn render_path(&self, context: &RenderContext) -> Result<String, RenderError> {
        let encode = |out: &mut CappedOutput, text: &str| out.push(&functions::percent_encoded(text));
        let path = self.render_by(context, NullPolicy::Error, encode)?.unwrap_or_default();
        if path.contains("//") && !self.text.contains("//") {
            return Err(RenderError::EmptySegment(shorten(&self.text)));
        }
        Ok(path)
    }

    fn render_by(
        &self,
        context: &RenderContext,
        nulls: NullPolicy,
        push: impl Fn(&mut CappedOutput, &str) -> Result<(), RenderError>,
    ) -> Result<Option<String>, RenderError> {
        let (mut out, mut seen) = (CappedOutput::default(), self.parts.is_empty());
        let mut scope = None;
        for part in self.parts.iter() {
            let (value, span) = match part {
                TemplatePart::Literal(text) => {
                    out.push(text)?;
                    seen = true;
                    continue;
                }
                TemplatePart::Variable { variable: TemplateVariable::Credential(name), .. } => {
                    out.push(&credential_placeholder(name))?;
                    seen = true;
                    continue;
                }
                TemplatePart::Variable { variable: TemplateVariable::Param(name), span } => {
                    (context.param(name, self.declared.is_some())?, span)
                }
                TemplatePart::Variable { variable, span } => (context.lookup(variable, &self.times)?, span),
                TemplatePart::Expression { expression, span, is_time } => {
                    let scope = match &scope {
                        Some(scope) => scope,
                        None => {
                            let run = RenderState::new(context.now, &self.prepared);
                            scope.insert(context.scope(&self.reads, self.declared.as_deref(), run)?)
                        }
                    };
                    let value = engine::eval(expression, scope)?;
                    (if *is_time { times::format_time(value, &self.times) } else { value }, span)
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

    /// Runs every expression against sample values, to find errors that only appear at run time.
    pub(crate) fn dry_run(&self) -> Result<(), RenderError> {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Expression { expression, span, .. } => {
                dry_run::run(expression, &self.text[span.clone()], &self.reads, &self.prepared)
            }
            _ => Ok(()),
        })
    }

    /// Whether an expression of this template reads the variable, for example `page` or `page.token`.
    pub(crate) fn uses(&self, variable: &str) -> bool {
        reads(&self.text, variable)
    }

    /// The template without the expressions that read only the page, the window or the clock: the rest selects records
    /// (G-03). `None` if nothing is left.
    pub(crate) fn selection(&self) -> Option<String> {
        scan::selection(&self.text)
    }
}

/// Collects output and refuses what does not fit, before it is allocated.
#[derive(Default)]
struct CappedOutput(String);

impl CappedOutput {
    fn push(&mut self, text: &str) -> Result<(), RenderError> {
        self.write_str(text).map_err(|_| RenderError::TooLong)
    }
}

/// Returns false if the value is null and nothing was written. `source` is called only to build an error.
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
        // Lower case, as in JSON and most APIs; the engine would write `True`.
        ValueKind::Bool => Cow::Borrowed(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => Cow::Owned(value.to_string()),
        other => return Err(RenderError::NotScalar(source(), other.to_string())),
    };
    // A value that looks like a placeholder would be replaced by a secret.
    if text.contains(CREDENTIAL_MARK) {
        return Err(RenderError::Mark(source()));
    }
    push(&text).map(|()| true)
}

impl Write for CappedOutput {
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
