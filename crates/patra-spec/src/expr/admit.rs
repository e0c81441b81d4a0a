//! Which expressions are let through to the engine: those in which every variable, function, test and operator is on our
//! lists. What the engine could do beyond is therefore out of reach, and a mistake is found where it stands, also in a
//! branch that no trial run takes.

use super::engine;
use super::functions::{self, Allowed, Function};
use super::literal::Shelf;
use super::rules::{Rules, Scope};
use super::scan::{self, KEYWORDS, Sort, Token, Variable};
use crate::problem::Flaw;
use crate::suggest::{closest, suggest};

/// Joins double nothing without assignment, but each copies its operands; `+` does so beyond our reach.
const MAX_JOINS: usize = functions::MANY;
/// `-` and `not` nest when they are repeated.
const MAX_SIGNS: usize = 32;
/// Brackets in brackets.
const MAX_DEPTH: usize = 32;

const TESTS: &[&str] = &["defined", "undefined", "none"];
const VARIABLES: &[&str] = &["window.from", "window.to", "page.no", "page.offset", "page.size", "page.token"];
const ROOTS: &[&str] = &["window", "page", "params"];
/// Known in detail endpoints only.
const IDS: &[&str] = &["ids", "id"];

/// `open` is where the expression's `${` stands. Literals that functions need go on the shelf.
pub(super) fn admit(text: &str, open: usize, tokens: &[Token], rules: &Rules, shelf: &mut Shelf) -> Result<(), Flaw> {
    let Rules { allowed, scope, .. } = rules;
    if tokens.len() == 1 {
        return Err(Flaw::new(open, "the expression is empty").hint("for example `${ page.token }`"));
    }
    sizes(text, tokens)?;
    for (place, name) in scan::names(text, tokens) {
        let at = tokens[place].at;
        match name.split('.').next() {
            Some("credential") => credential(text, at, tokens, scope)?,
            Some("params") => param(text, tokens, place, scope)?,
            _ => variable(at, &name, scope)?,
        }
    }
    for (place, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let before = place.checked_sub(1).map(|before| tokens[before]);
        let after = |mark: &str| before.is_some_and(|before| before.text(text) == mark);
        let closed = before.is_some_and(|before| matches!(before.text(text), "]" | ")"));
        let opens = tokens.get(place + 1).is_some_and(|next| next.text(text) == "(");
        match token.sort {
            Sort::Name if after("|") => {
                function(token.at, word, "filter", allowed)?.check(text, tokens, place, 1, shelf)?;
            }
            Sort::Name if scan::is_test(text, tokens, place) && !TESTS.contains(&word) => {
                return Err(Flaw {
                    hint: suggest(word, TESTS),
                    ..Flaw::new(token.at, format!("there is no test `{word}`"))
                });
            }
            Sort::Name if opens && after(".") => {
                let hint =
                    format!("functions stand before or after a `|`, as in `upper(params.name)`; {}", known(allowed));
                return Err(Flaw::new(token.at, format!("there is no method `{word}`")).hint(hint));
            }
            Sort::Name if opens && !KEYWORDS.contains(&word) => {
                function(token.at, word, "function", allowed)?.check(text, tokens, place, 0, shelf)?;
            }
            Sort::Mark if word == "(" && closed => {
                return Err(Flaw::new(token.at, "only functions can be called").hint(known(allowed)));
            }
            Sort::Mark if word == "[" && !closed && before.is_none_or(|before| before.sort != Sort::Name) => {
                return Err(Flaw::new(token.at, "a list is not allowed in an expression"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What bounds the engine's stack and the copies it makes.
fn sizes(text: &str, tokens: &[Token]) -> Result<(), Flaw> {
    let (mut joins, mut signs, mut depth) = (0, 0, 0usize);
    for token in tokens.iter().filter(|token| token.sort != Sort::Text) {
        match token.text(text) {
            "~" | "+" => joins += 1,
            "-" | "not" => signs += 1,
            "(" | "[" => depth += 1,
            ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if joins > MAX_JOINS {
            return Err(Flaw::new(token.at, format!("an expression joins at most {MAX_JOINS} times")));
        }
        if signs > MAX_SIGNS {
            return Err(Flaw::new(token.at, format!("an expression has `-` and `not` at most {MAX_SIGNS} times")));
        }
        if depth > MAX_DEPTH {
            return Err(Flaw::new(token.at, format!("brackets nest at most {MAX_DEPTH} deep")));
        }
    }
    Ok(())
}

fn function(at: usize, word: &str, sort: &str, allowed: &Allowed) -> Result<&'static Function, Flaw> {
    match functions::find(word) {
        Some(function) if allowed.contains(word) => Ok(function),
        Some(_) => Err(Flaw::new(at, format!("`{word}` is not allowed for this source")).hint(known(allowed))),
        None => {
            let hint = closest(word, &allowed.names()).map(|word| format!("did you mean `{word}`?"));
            Err(Flaw::new(at, format!("there is no {sort} `{word}`")).hint(hint.unwrap_or_else(|| known(allowed))))
        }
    }
}

fn known(allowed: &Allowed) -> String {
    match allowed.names() {
        names if names.is_empty() => "no function is allowed".to_owned(),
        names => format!("allowed are: {}", names.join(", ")),
    }
}

/// A credential is put in by the transport, so nothing can be done with it here (ING-3.9-03).
fn credential(text: &str, at: usize, tokens: &[Token], scope: &Scope) -> Result<(), Flaw> {
    if !scope.credential {
        let hint =
            "a credential goes into query, headers and body, and only with an `auth` section whose type is not none";
        return Err(Flaw::new(at, "there is no credential here").hint(hint));
    }
    let alone = matches!(scan::variable(text, tokens), Some(Variable::Credential(name)) if is_credential_name(&name));
    if alone {
        return Ok(());
    }
    let hint = "write `${ credential.name }`, with text around it if need be; what must be computed from a credential is \
                done by a signing hook: auth.type: custom with auth.signing_hook";
    Err(Flaw::new(at, "a credential stands alone in its expression: no function or operator sees its value").hint(hint))
}

fn is_credential_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// `params.name` or `params['odd-name']`, and where they are declared, only such as are.
fn param(text: &str, tokens: &[Token], place: usize, scope: &Scope) -> Result<(), Flaw> {
    let Some(declared) = &scope.params else { return Ok(()) };
    let at = tokens[place].at;
    let name = match tokens.get(place + 1..) {
        _ if tokens[place].text(text) == scan::RENDER_QUERY => Some(scan::QUERY.to_owned()),
        Some([dot, step, ..]) if dot.text(text) == "." => Some(step.text(text).to_owned()),
        Some([open, name, close, ..])
            if open.text(text) == "[" && name.sort == Sort::Text && close.text(text) == "]" =>
        {
            engine::unquote(name.text(text))
        }
        _ => None,
    };
    let Some(name) = name else {
        return Err(Flaw::new(at, "`params` needs a name").hint("for example `params.query` or `params['odd-name']`"));
    };
    if declared.contains(&name) {
        return Ok(());
    }
    let known: Vec<_> = declared.iter().map(String::as_str).collect();
    let hint = suggest(&name, &known).unwrap_or_else(|| format!("declare it: params: {{ {name}: {{}} }}"));
    Err(Flaw::new(at, format!("there is no parameter `{name}`")).hint(hint))
}

fn variable(at: usize, name: &str, scope: &Scope) -> Result<(), Flaw> {
    let mut steps = name.split('.');
    let known = match (steps.next(), steps.next()) {
        (Some(root), None) if IDS.contains(&root) => {
            if scope.ids {
                return Ok(());
            }
            let hint = "give the endpoint `role: detail`, and name it in `two_phase.detail` of a search";
            return Err(Flaw::new(at, format!("`{root}` is known in detail endpoints only")).hint(hint));
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
        None => format!("known are: {}, params.<name>", VARIABLES.join(", ")),
    };
    Err(Flaw::new(at, format!("there is no variable `{name}`")).hint(hint))
}
