//! Cuts a template into text and expressions, and admits an expression only when every name, filter and operator in it
//! is on our lists. What the engine could do beyond is therefore out of reach, and a typing mistake is found where it
//! stands, also in a branch that no trial run takes.

use crate::problem::Flaw;
use crate::suggest::{closest, suggest};

/// Longest expression, in bytes: parsing nests by length.
const MAX_EXPRESSION: usize = 1_024;
/// Joins double nothing without assignment, but each copies its operands.
const MAX_JOINS: usize = 16;

pub const FILTERS: &[&str] =
    &["date", "datetime", "iso", "epoch", "epoch_ms", "default", "lower", "upper", "trim", "replace"];
const TESTS: &[&str] = &["defined", "undefined", "none"];
const KEYWORDS: &[&str] =
    &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"];
const VARIABLES: &[&str] = &["window.from", "window.to", "page.no", "page.offset", "page.size", "page.token"];
const ROOTS: &[&str] = &["window", "page", "params"];

/// A variable that needs no engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Variable {
    WindowFrom,
    WindowTo,
    PageNo,
    PageOffset,
    PageSize,
    PageToken,
    Param(String),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Literal(&'t str),
    Variable(Variable),
    /// `at`: where the source begins in the template.
    Expression {
        at: usize,
        source: &'t str,
    },
}

/// The pieces of a template, every expression admitted.
pub(super) fn split(text: &str) -> Result<Vec<Piece<'_>>, Flaw> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("${").map(|found| at + found) {
        if open > at {
            pieces.push(Piece::Literal(&text[at..open]));
        }
        let start = open + 2;
        let tokens = tokens(text, start)?;
        let close = tokens.last().map_or(start, |token| token.at);
        let source = &text[start..close];
        if source.len() > MAX_EXPRESSION {
            return Err(Flaw::new(open, format!("an expression has at most {MAX_EXPRESSION} bytes")));
        }
        admit(text, open, &tokens)?;
        pieces.push(match variable(text, &tokens) {
            Some(variable) => Piece::Variable(variable),
            None => Piece::Expression { at: start, source },
        });
        at = close + 1;
    }
    if at < text.len() {
        pieces.push(Piece::Literal(&text[at..]));
    }
    Ok(pieces)
}

/// The variables of a template's expressions, dotted, each with the offset of its expression's `${`.
pub(super) fn variables(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("${").map(|found| at + found) {
        let Ok(tokens) = tokens(text, open + 2) else { break };
        found.extend(names(text, &tokens).map(|(_, name)| (open, name)));
        at = tokens.last().map_or(open + 2, |token| token.at) + 1;
    }
    found
}

/// See [`super::Template::meaning`].
pub(super) fn meaning(text: &str) -> Option<String> {
    let (mut kept, mut at, mut any) = (String::new(), 0, text.is_empty());
    while let Some(open) = text[at..].find("${").map(|found| at + found) {
        any |= open > at;
        kept.push_str(&text[at..open]);
        let Ok(tokens) = tokens(text, open + 2) else { break };
        at = tokens.last().map_or(open + 2, |token| token.at) + 1;
        let mut names = names(text, &tokens).map(|(_, name)| name).peekable();
        let moving = names.peek().is_some() && names.all(|name| !name.starts_with("params"));
        if moving {
            kept.push_str("${}");
        } else {
            kept.push_str(&text[open..at]);
            any = true;
        }
    }
    any |= at < text.len();
    kept.push_str(&text[at..]);
    any.then_some(kept)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Name,
    Text,
    Number,
    Mark,
    /// The closing brace: always the last token, and only there.
    Close,
}

#[derive(Clone, Copy, Debug)]
struct Token {
    sort: Sort,
    at: usize,
    end: usize,
}

impl Token {
    fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.at..self.end]
    }
}

/// The tokens from `start` to the closing brace.
fn tokens(text: &str, start: usize) -> Result<Vec<Token>, Flaw> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), start);
    while let Some(&byte) = bytes.get(at) {
        let run = |keep: fn(&u8) -> bool| at + bytes[at..].iter().take_while(|byte| keep(byte)).count();
        let (sort, end) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'}' => (Sort::Close, at + 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => (Sort::Name, run(|b| b.is_ascii_alphanumeric() || *b == b'_')),
            b'0'..=b'9' => (Sort::Number, run(u8::is_ascii_digit)),
            b'\'' | b'"' => (Sort::Text, string_end(text, at)?),
            b'=' | b'!' | b'<' | b'>' if bytes.get(at + 1) == Some(&b'=') => (Sort::Mark, at + 2),
            b'.' | b'|' | b'(' | b')' | b'[' | b']' | b',' | b'+' | b'-' | b'/' | b'%' | b'~' | b'<' | b'>' => {
                (Sort::Mark, at + 1)
            }
            b'*' => return Err(Flaw::new(at, "`*` is not allowed: it could repeat a text without limit")),
            _ => {
                let found = text[at..].chars().next().unwrap_or(' ');
                return Err(Flaw::new(at, format!("`{found}` is not allowed in an expression")));
            }
        };
        tokens.push(Token { sort, at, end });
        if sort == Sort::Close {
            return Ok(tokens);
        }
        at = end;
    }
    Err(Flaw::new(start - 2, "`${` has no closing `}`"))
}

fn string_end(text: &str, start: usize) -> Result<usize, Flaw> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if byte == bytes[start] => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err(Flaw::new(start, "the quoted text has no end"))
}

fn admit(text: &str, open: usize, tokens: &[Token]) -> Result<(), Flaw> {
    if tokens.len() == 1 {
        return Err(Flaw::new(open, "the expression is empty").hint("for example `${ page.token }`"));
    }
    for (place, name) in names(text, tokens) {
        admit_variable(tokens[place].at, &name)?;
    }
    let mut joins = 0;
    for (place, token) in tokens.iter().enumerate() {
        let word = token.text(text);
        let before = place.checked_sub(1).map(|before| tokens[before]);
        let after = |mark: &str| before.is_some_and(|before| before.text(text) == mark);
        match token.sort {
            Sort::Name if after("|") && !FILTERS.contains(&word) => {
                return Err(Flaw {
                    hint: suggest(word, FILTERS),
                    ..Flaw::new(token.at, format!("there is no filter `{word}`"))
                });
            }
            Sort::Name if is_test(text, tokens, place) && !TESTS.contains(&word) => {
                return Err(Flaw {
                    hint: suggest(word, TESTS),
                    ..Flaw::new(token.at, format!("there is no test `{word}`"))
                });
            }
            Sort::Mark
                if word == "["
                    && !before.is_some_and(|b| b.sort == Sort::Name || matches!(b.text(text), "]" | ")")) =>
            {
                return Err(Flaw::new(token.at, "a list is not allowed in an expression"));
            }
            Sort::Mark if matches!(word, "~" | "+") => {
                joins += 1;
                if joins > MAX_JOINS {
                    return Err(Flaw::new(token.at, format!("an expression joins at most {MAX_JOINS} times")));
                }
            }
            Sort::Mark if word == "(" && calls(text, tokens, place) => {
                return Err(Flaw::new(before.map_or(token.at, |b| b.at), "there are no functions, only filters")
                    .hint(format!("as in `${{ window.from | date }}`; filters: {}", FILTERS.join(", "))));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether the bracket at `place` calls something that is no filter.
fn calls(text: &str, tokens: &[Token], place: usize) -> bool {
    let Some(name) = place.checked_sub(1).map(|before| tokens[before]) else { return false };
    match name.sort {
        Sort::Name if KEYWORDS.contains(&name.text(text)) => false,
        Sort::Name => place.checked_sub(2).is_none_or(|before| tokens[before].text(text) != "|"),
        _ => matches!(name.text(text), ")" | "]"),
    }
}

fn is_test(text: &str, tokens: &[Token], place: usize) -> bool {
    let word = |back: usize| place.checked_sub(back).map(|before| tokens[before].text(text));
    match (word(2), word(1)) {
        (_, Some("is")) => tokens[place].text(text) != "not",
        (Some("is"), Some("not")) => true,
        _ => false,
    }
}

fn admit_variable(at: usize, name: &str) -> Result<(), Flaw> {
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
        Some(word) => format!("did you mean `{word}`?"),
        None => format!("known are: {}, params.<name>", VARIABLES.join(", ")),
    };
    Err(Flaw::new(at, format!("there is no variable `{name}`")).hint(hint))
}

/// The variables among the tokens: the token where each begins, and its dotted name.
fn names<'a>(text: &'a str, tokens: &'a [Token]) -> impl Iterator<Item = (usize, String)> + 'a {
    let is_variable = move |place: usize| {
        let before = place.checked_sub(1).map_or("", |before| tokens[before].text(text));
        tokens[place].sort == Sort::Name
            && !matches!(before, "." | "|")
            && !is_test(text, tokens, place)
            && !KEYWORDS.contains(&tokens[place].text(text))
            && tokens.get(place + 1).is_none_or(|next| next.text(text) != "(")
    };
    (0..tokens.len()).filter(move |place| is_variable(*place)).map(move |place| {
        let mut name = tokens[place].text(text).to_owned();
        for pair in tokens[place + 1..].chunks(2) {
            match pair {
                [dot, step] if dot.text(text) == "." && step.sort == Sort::Name => {
                    name.push('.');
                    name.push_str(step.text(text));
                }
                _ => break,
            }
        }
        (place, name)
    })
}

/// The variable, when the expression is nothing else.
fn variable(text: &str, tokens: &[Token]) -> Option<Variable> {
    let [root, dot, step, close] = tokens else { return None };
    if dot.text(text) != "." || step.sort != Sort::Name || close.sort != Sort::Close {
        return None;
    }
    Some(match (root.text(text), step.text(text)) {
        ("window", "from") => Variable::WindowFrom,
        ("window", "to") => Variable::WindowTo,
        ("page", "no") => Variable::PageNo,
        ("page", "offset") => Variable::PageOffset,
        ("page", "size") => Variable::PageSize,
        ("page", "token") => Variable::PageToken,
        ("params", name) => Variable::Param(name.to_owned()),
        _ => return None,
    })
}
