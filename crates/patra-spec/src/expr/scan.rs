//! Cuts a template into text and expressions, and expressions into tokens. It knows how an expression is written, not
//! what may stand in it.

use std::ops::Range;

use crate::problem::Flaw;

/// Longest expression, in bytes: parsing nests by length.
const MAX_EXPRESSION: usize = 1_024;

/// Words that are neither variables nor functions.
pub(super) const KEYWORDS: &[&str] =
    &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"];

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
    /// The one id of a request that takes one.
    Id,
    Credential(String),
}

#[derive(Debug)]
pub(super) enum Piece<'t> {
    Literal(&'t str),
    /// From `${` to `}`, both included; the tokens are what stands between, and the closing brace.
    Code {
        span: Range<usize>,
        tokens: Vec<Token>,
    },
}

/// The pieces of a template.
pub(super) fn split(text: &str) -> Result<Vec<Piece<'_>>, Flaw> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("${").map(|found| at + found) {
        if open > at {
            pieces.push(Piece::Literal(&text[at..open]));
        }
        let tokens = tokens(text, open + 2)?;
        at = tokens.last().map_or(open + 2, |token| token.end);
        if at - open - 3 > MAX_EXPRESSION {
            return Err(Flaw::new(open, format!("an expression has at most {MAX_EXPRESSION} bytes")));
        }
        pieces.push(Piece::Code { span: open..at, tokens });
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
        let clock = tokens.windows(2).any(|pair| pair[0].text(text) == "now" && pair[1].text(text) == "(");
        let mut names = names(text, &tokens).map(|(_, name)| name).peekable();
        let moving = (clock || names.peek().is_some()) && names.all(|name| !name.starts_with("params"));
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
pub(super) enum Sort {
    Name,
    Text,
    Number,
    Mark,
    /// The closing brace: always the last token, and only there.
    Close,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) sort: Sort,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Token {
    pub(super) fn text<'t>(&self, text: &'t str) -> &'t str {
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

/// Whether the name at `place` is a test, as in `is not defined`.
pub(super) fn is_test(text: &str, tokens: &[Token], place: usize) -> bool {
    let word = |back: usize| place.checked_sub(back).map(|before| tokens[before].text(text));
    match (word(2), word(1)) {
        (_, Some("is")) => tokens[place].text(text) != "not",
        (Some("is"), Some("not")) => true,
        _ => false,
    }
}

/// What gives the parameter that holds the query of a run (C-45).
pub(super) const RENDER_QUERY: &str = "renderQuery";
/// That parameter.
pub(super) const QUERY: &str = "q";

/// The variables among the tokens: the token where each begins, and its dotted name. `expr` is another name for `params`
/// (ING-3.9-04), and `renderQuery()` reads one of these.
pub(super) fn names<'a>(text: &'a str, tokens: &'a [Token]) -> impl Iterator<Item = (usize, String)> + 'a {
    let is_variable = move |place: usize| {
        let before = place.checked_sub(1).map_or("", |before| tokens[before].text(text));
        tokens[place].sort == Sort::Name
            && !matches!(before, "." | "|")
            && !is_test(text, tokens, place)
            && !KEYWORDS.contains(&tokens[place].text(text))
            && (tokens[place].text(text) == RENDER_QUERY
                || tokens.get(place + 1).is_none_or(|next| next.text(text) != "("))
    };
    (0..tokens.len()).filter(move |place| is_variable(*place)).map(move |place| {
        let mut name = match tokens[place].text(text) {
            "expr" => "params".to_owned(),
            RENDER_QUERY if tokens.get(place + 1).is_some_and(|next| next.text(text) == "(") => {
                return (place, format!("params.{QUERY}"));
            }
            root => root.to_owned(),
        };
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
pub(super) fn variable(text: &str, tokens: &[Token]) -> Option<Variable> {
    if let [root, close] = tokens
        && root.text(text) == "id"
        && close.sort == Sort::Close
    {
        return Some(Variable::Id);
    }
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
        ("params" | "expr", name) => Variable::Param(name.to_owned()),
        ("credential", name) => Variable::Credential(name.to_owned()),
        _ => return None,
    })
}
