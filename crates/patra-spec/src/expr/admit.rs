//! Allowlist for expressions: every variable, function, test and operator must be on our lists before the engine sees
//! the expression. Anything else that the engine could do is out of reach, and a mistake is reported at its offset,
//! even in a branch that no dry run takes.

use super::engine;
use super::functions::{self, AllowedFunctions, TemplateFunction};
use super::literal::PreparedLiterals;
use super::rules::{TemplateRules, VariableScope};
use super::scan::{self, ExprToken, KEYWORDS, TemplateVariable, TokenKind};
use crate::problem::SyntaxError;
use crate::suggest::{closest, suggest};

/// Each join copies its operands, and `+` is evaluated by the engine, outside our work budget.
const MAX_JOINS: usize = functions::MAX_VARIADIC;
/// Most `-` and `not` operators: repeated ones nest in the parser.
const MAX_SIGNS: usize = 32;
/// Deepest nesting of brackets.
const MAX_DEPTH: usize = 32;

const TESTS: &[&str] = &["defined", "undefined", "none"];
const VARIABLES: &[&str] = &["window.from", "window.to", "page.no", "page.offset", "page.size", "page.token"];
const ROOTS: &[&str] = &["window", "page", "params"];
/// Variables of detail endpoints only.
const IDS: &[&str] = &["ids", "id"];

/// Checks one expression. `open` is the offset of its `${`. Literals that functions need are added to `literals`.
pub(super) fn admit(
    text: &str,
    open: usize,
    tokens: &[ExprToken],
    rules: &TemplateRules,
    shelf: &mut PreparedLiterals,
) -> Result<(), SyntaxError> {
    let TemplateRules { allowed, scope, .. } = rules;
    if tokens.len() == 1 {
        return Err(SyntaxError::new(open, "the expression is empty").hint("for example `${ page.token }`"));
    }
    sizes(text, tokens)?;
    for (index, name) in scan::names(text, tokens) {
        let at = tokens[index].at;
        match name.split('.').next() {
            Some("credential") => credential(text, at, tokens, scope)?,
            Some("params") => param(text, tokens, index, scope)?,
            _ => variable(at, &name, scope)?,
        }
    }
    for (index, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let before = index.checked_sub(1).map(|before| tokens[before]);
        let after = |mark: &str| before.is_some_and(|before| before.text(text) == mark);
        let closed = before.is_some_and(|before| matches!(before.text(text), "]" | ")"));
        let opens = tokens.get(index + 1).is_some_and(|next| next.text(text) == "(");
        match token.kind {
            TokenKind::Name if after("|") => {
                function(token.at, word, "filter", allowed)?.check(text, tokens, index, 1, shelf)?;
            }
            TokenKind::Name if scan::is_test(text, tokens, index) && !TESTS.contains(&word) => {
                return Err(SyntaxError {
                    hint: suggest(word, TESTS),
                    ..SyntaxError::new(token.at, format!("there is no test `{word}`"))
                });
            }
            TokenKind::Name if opens && after(".") => {
                let hint = format!("write `upper(params.name)` or `params.name | upper`; {}", known(allowed));
                return Err(SyntaxError::new(token.at, format!("there is no method `{word}`")).hint(hint));
            }
            TokenKind::Name if opens && !KEYWORDS.contains(&word) => {
                function(token.at, word, "function", allowed)?.check(text, tokens, index, 0, shelf)?;
            }
            TokenKind::Mark if word == "(" && closed => {
                return Err(SyntaxError::new(token.at, "only functions can be called").hint(known(allowed)));
            }
            TokenKind::Mark if word == "[" && !closed && before.is_none_or(|before| before.kind != TokenKind::Name) => {
                return Err(SyntaxError::new(token.at, "a list is not allowed in an expression"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Limits the engine's stack and the copies it makes.
fn sizes(text: &str, tokens: &[ExprToken]) -> Result<(), SyntaxError> {
    let (mut joins, mut signs, mut depth) = (0, 0, 0usize);
    for token in tokens.iter().filter(|token| token.kind != TokenKind::Text) {
        match token.text(text) {
            "~" | "+" => joins += 1,
            "-" | "not" => signs += 1,
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if joins > MAX_JOINS {
            return Err(SyntaxError::new(token.at, format!("an expression joins at most {MAX_JOINS} times")));
        }
        if signs > MAX_SIGNS {
            return Err(SyntaxError::new(
                token.at,
                format!("an expression has `-` and `not` at most {MAX_SIGNS} times"),
            ));
        }
        if depth > MAX_DEPTH {
            return Err(SyntaxError::new(token.at, format!("brackets nest at most {MAX_DEPTH} deep")));
        }
    }
    Ok(())
}

fn function(
    at: usize,
    word: &str,
    sort: &str,
    allowed: &AllowedFunctions,
) -> Result<&'static TemplateFunction, SyntaxError> {
    match functions::find(word) {
        Some(function) if allowed.contains(word) => Ok(function),
        Some(_) => Err(SyntaxError::new(at, format!("`{word}` is not allowed for this source")).hint(known(allowed))),
        None => {
            let hint = closest(word, &allowed.names()).map(|word| format!("did you mean `{word}`?"));
            Err(SyntaxError::new(at, format!("there is no {sort} `{word}`"))
                .hint(hint.unwrap_or_else(|| known(allowed))))
        }
    }
}

fn known(allowed: &AllowedFunctions) -> String {
    match allowed.names() {
        names if names.is_empty() => "no function is allowed".to_owned(),
        names => format!("allowed functions: {}", names.join(", ")),
    }
}

/// The transport inserts the credential, so an expression cannot compute with it (ING-3.9-03).
fn credential(text: &str, at: usize, tokens: &[ExprToken], scope: &VariableScope) -> Result<(), SyntaxError> {
    if !scope.credential {
        let hint =
            "a credential goes into query, headers and body, and only with an `auth` section whose type is not none";
        return Err(SyntaxError::new(at, "there is no credential here").hint(hint));
    }
    let alone =
        matches!(scan::variable(text, tokens), Some(TemplateVariable::Credential(name)) if is_credential_name(&name));
    if alone {
        return Ok(());
    }
    let hint = "write `${ credential.name }`, with text around it if needed; to compute a value from a credential, use a \
                signing hook: auth.type: custom with auth.signing_hook";
    Err(SyntaxError::new(
        at,
        "a credential must be alone in its expression: functions and operators cannot use its value",
    )
    .hint(hint))
}

fn is_credential_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Checks `params.name` and `params['odd-name']`: if parameters are declared, the name must be one of them.
fn param(text: &str, tokens: &[ExprToken], index: usize, scope: &VariableScope) -> Result<(), SyntaxError> {
    let Some(declared) = &scope.params else { return Ok(()) };
    let at = tokens[index].at;
    let name = match tokens.get(index + 1..) {
        _ if tokens[index].text(text) == scan::RENDER_QUERY => Some(scan::QUERY.to_owned()),
        Some([dot, step, ..]) if dot.text(text) == "." => Some(step.text(text).to_owned()),
        Some([open, name, close, ..])
            if open.text(text) == "[" && name.kind == TokenKind::Text && close.text(text) == "]" =>
        {
            engine::unquote(name.text(text))
        }
        _ => None,
    };
    let Some(name) = name else {
        return Err(
            SyntaxError::new(at, "`params` needs a name").hint("for example `params.query` or `params['odd-name']`")
        );
    };
    if declared.contains(&name) {
        return Ok(());
    }
    let known: Vec<_> = declared.iter().map(String::as_str).collect();
    let hint = suggest(&name, &known).unwrap_or_else(|| format!("declare it: params: {{ {name}: {{}} }}"));
    Err(SyntaxError::new(at, format!("there is no parameter `{name}`")).hint(hint))
}

fn variable(at: usize, name: &str, scope: &VariableScope) -> Result<(), SyntaxError> {
    let mut steps = name.split('.');
    let known = match (steps.next(), steps.next()) {
        (Some(root), None) if IDS.contains(&root) => {
            if scope.ids {
                return Ok(());
            }
            let hint = "give the endpoint `role: detail`, and name it in `two_phase.detail` of a search";
            return Err(SyntaxError::new(at, format!("`{root}` exists in detail endpoints only")).hint(hint));
        }
        (Some(root), Some(step)) => VARIABLES.contains(&format!("{root}.{step}").as_str()),
        (Some(root), None) => ROOTS.contains(&root),
        (None, _) => false,
    };
    if known {
        return Ok(());
    }
    let hint = match closest(name, VARIABLES) {
        _ if functions::find(name).is_some() => format!("a function needs brackets: `{name}(…)`"),
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known variables: {}, params.<name>", VARIABLES.join(", ")),
    };
    Err(SyntaxError::new(at, format!("there is no variable `{name}`")).hint(hint))
}
