//! minijinja without its builtins and with only our functions. It evaluates single expressions; we render the text
//! around them.

use std::error::Error as _;
use std::sync::LazyLock;

use minijinja::value::Rest;
use minijinja::{Environment, Error, Expression, State, UndefinedBehavior, Value};

use super::{RenderError, functions, tilde};
use crate::problem::SyntaxError;

/// Most instructions of one expression; allowed expressions need a few hundred at most.
const FUEL: u64 = 50_000;

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(|| {
    // Empty: no builtin filter, test or function. There is no `range` and no `debug`, and `join` is ours.
    let mut engine = Environment::empty();
    engine.set_undefined_behavior(UndefinedBehavior::Strict);
    engine.set_fuel(Some(FUEL));
    engine.add_function(tilde::NAME, |state: &State<'_, '_>, args: Rest<Value>| functions::TILDE.call(state, &args));
    for function in functions::ALL {
        engine.add_filter(function.name, |state: &State<'_, '_>, args: Rest<Value>| function.call(state, &args));
        engine.add_function(function.name, |state: &State<'_, '_>, args: Rest<Value>| function.call(state, &args));
    }
    engine.add_test("defined", |value: Value| !value.is_undefined());
    engine.add_test("undefined", |value: Value| value.is_undefined());
    engine.add_test("none", |value: Value| value.is_none());
    engine
});

/// Compiles an expression. `at` is its offset in the template.
pub(super) fn compile(at: usize, source: &str) -> Result<Expression<'static, 'static>, SyntaxError> {
    ENGINE.compile_expression_owned(source.to_owned()).map_err(|error| {
        let offset = error.range().map_or(0, |range| range.start.min(source.len()));
        SyntaxError::new(at + offset, format!("the expression cannot be read: {}", reason(&error)))
    })
}

pub(super) fn eval(expression: &Expression<'static, 'static>, scope: &Value) -> Result<Value, RenderError> {
    expression.eval(scope.clone()).map_err(|error| {
        let own = error.source().and_then(|source| source.downcast_ref::<RenderError>());
        own.cloned().unwrap_or_else(|| RenderError::Failed(reason(&error)))
    })
}

/// The value of a quoted literal, with its escapes resolved by the engine.
pub(super) fn unquote(literal: &str) -> Option<String> {
    let value = ENGINE.compile_expression(literal).ok()?.eval(()).ok()?;
    value.as_str().map(str::to_owned)
}

/// The engine's reason, shortened, and without its debug output, which would show values.
fn reason(error: &Error) -> String {
    let text = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    text.chars().take(200).collect()
}
