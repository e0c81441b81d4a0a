//! Which expressions are let through to the engine: those in which every variable, function, test and operator is on our
//! lists. What the engine could do beyond is therefore out of reach, and a mistake is found where it stands, also in a
//! branch that no trial run takes.

use super::functions::{self, Allowed, Function};
use super::literal::Shelf;
use super::scan::{self, KEYWORDS, Sort, Token};
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

/// `open` is where the expression's `${` stands. Literals that functions need go on the shelf.
pub(super) fn admit(
    text: &str,
    open: usize,
    tokens: &[Token],
    allowed: &Allowed,
    shelf: &mut Shelf,
) -> Result<(), Flaw> {
    if tokens.len() == 1 {
        return Err(Flaw::new(open, "the expression is empty").hint("for example `${ page.token }`"));
    }
    sizes(text, tokens)?;
    for (place, name) in scan::names(text, tokens) {
        variable(tokens[place].at, &name)?;
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

fn variable(at: usize, name: &str) -> Result<(), Flaw> {
    let mut steps = name.split('.');
    let known = match (steps.next(), steps.next()) {
        (Some("params"), _) => true,
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
