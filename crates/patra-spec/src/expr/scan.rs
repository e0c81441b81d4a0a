//! Splits a template into text and expressions, and expressions into tokens. It knows the syntax of an expression, not
//! which names are allowed.

use std::ops::Range;

use crate::problem::SyntaxError;

/// Longest expression, in bytes: the parser's nesting depth grows with it.
const MAX_EXPRESSION: usize = 1_024;

/// Keywords of the expression language: neither variables nor functions.
pub(super) const KEYWORDS: &[&str] =
    &["and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "True", "False", "None"];

/// A variable that is looked up without the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplateVariable {
    WindowFrom,
    WindowTo,
    PageNo,
    PageOffset,
    PageSize,
    PageToken,
    Param(String),
    /// The id of a request that fetches one record.
    Id,
    Credential(String),
}

#[derive(Debug)]
pub(super) enum TemplatePiece<'t> {
    Literal(&'t str),
    /// From `${` to `}`, both included. The tokens are those in between, and the closing brace.
    Code {
        span: Range<usize>,
        tokens: Vec<ExprToken>,
    },
}

/// Splits a template into its pieces.
pub(super) fn split(text: &str) -> Result<Vec<TemplatePiece<'_>>, SyntaxError> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find("${").map(|found| at + found) {
        if open > at {
            pieces.push(TemplatePiece::Literal(&text[at..open]));
        }
        let tokens = tokens(text, open + 2)?;
        at = tokens.last().map_or(open + 2, |token| token.end);
        if at - open - 3 > MAX_EXPRESSION {
            return Err(SyntaxError::new(open, format!("an expression has at most {MAX_EXPRESSION} bytes")));
        }
        pieces.push(TemplatePiece::Code { span: open..at, tokens });
    }
    if at < text.len() {
        pieces.push(TemplatePiece::Literal(&text[at..]));
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

/// See [`super::Template::selection`].
pub(super) fn selection(text: &str) -> Option<String> {
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
pub(super) enum TokenKind {
    Name,
    Text,
    Number,
    Mark,
    /// The closing brace: always and only the last token.
    Close,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ExprToken {
    pub(super) kind: TokenKind,
    pub(super) at: usize,
    pub(super) end: usize,
}

impl ExprToken {
    pub(super) fn text<'t>(&self, text: &'t str) -> &'t str {
        &text[self.at..self.end]
    }
}

/// The tokens from `start` to the closing brace.
fn tokens(text: &str, start: usize) -> Result<Vec<ExprToken>, SyntaxError> {
    let bytes = text.as_bytes();
    let (mut tokens, mut at) = (Vec::new(), start);
    while let Some(&byte) = bytes.get(at) {
        let run = |keep: fn(&u8) -> bool| at + bytes[at..].iter().take_while(|byte| keep(byte)).count();
        let (sort, end) = match byte {
            b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                continue;
            }
            b'}' => (TokenKind::Close, at + 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => (TokenKind::Name, run(|b| b.is_ascii_alphanumeric() || *b == b'_')),
            b'0'..=b'9' => (TokenKind::Number, run(u8::is_ascii_digit)),
            b'\'' | b'"' => (TokenKind::Text, string_end(text, at)?),
            b'=' | b'!' | b'<' | b'>' if bytes.get(at + 1) == Some(&b'=') => (TokenKind::Mark, at + 2),
            b'.' | b'|' | b'(' | b')' | b'[' | b']' | b',' | b'+' | b'-' | b'/' | b'%' | b'~' | b'<' | b'>' => {
                (TokenKind::Mark, at + 1)
            }
            b'*' => return Err(SyntaxError::new(at, "`*` is not allowed: it could repeat a text without limit")),
            _ => {
                let found = text[at..].chars().next().unwrap_or(' ');
                return Err(SyntaxError::new(at, format!("`{found}` is not allowed in an expression")));
            }
        };
        tokens.push(ExprToken { kind: sort, at, end });
        if sort == TokenKind::Close {
            return Ok(tokens);
        }
        at = end;
    }
    Err(SyntaxError::new(start - 2, "`${` has no closing `}`"))
}

fn string_end(text: &str, start: usize) -> Result<usize, SyntaxError> {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if byte == bytes[start] => return Ok(at + 1),
            _ => at += 1,
        }
    }
    Err(SyntaxError::new(start, "the quoted text has no end"))
}

/// Whether the name at `index` is a test, as in `is not defined`.
pub(super) fn is_test(text: &str, tokens: &[ExprToken], index: usize) -> bool {
    let word = |back: usize| index.checked_sub(back).map(|before| tokens[before].text(text));
    match (word(2), word(1)) {
        (_, Some("is")) => tokens[index].text(text) != "not",
        (Some("is"), Some("not")) => true,
        _ => false,
    }
}

/// The function that returns the query parameter of a run (C-45).
pub(super) const RENDER_QUERY: &str = "renderQuery";
/// The name of the query parameter.
pub(super) const QUERY: &str = "q";

/// The variables among the tokens: the index of the first token, and the dotted name. `expr` is an alias of `params`
/// (ING-3.9-04), and `renderQuery()` reads `params.q`.
pub(super) fn names<'a>(text: &'a str, tokens: &'a [ExprToken]) -> impl Iterator<Item = (usize, String)> + 'a {
    let is_variable = move |index: usize| {
        let before = index.checked_sub(1).map_or("", |before| tokens[before].text(text));
        tokens[index].kind == TokenKind::Name
            && !matches!(before, "." | "|")
            && !is_test(text, tokens, index)
            && !KEYWORDS.contains(&tokens[index].text(text))
            && (tokens[index].text(text) == RENDER_QUERY
                || tokens.get(index + 1).is_none_or(|next| next.text(text) != "("))
    };
    (0..tokens.len()).filter(move |index| is_variable(*index)).map(move |index| {
        let mut name = match tokens[index].text(text) {
            "expr" => "params".to_owned(),
            RENDER_QUERY if tokens.get(index + 1).is_some_and(|next| next.text(text) == "(") => {
                return (index, format!("params.{QUERY}"));
            }
            root => root.to_owned(),
        };
        for pair in tokens[index + 1..].chunks(2) {
            match pair {
                [dot, step] if dot.text(text) == "." && step.kind == TokenKind::Name => {
                    name.push('.');
                    name.push_str(step.text(text));
                }
                _ => break,
            }
        }
        (index, name)
    })
}

/// The variable, if the expression consists of it alone.
pub(super) fn variable(text: &str, tokens: &[ExprToken]) -> Option<TemplateVariable> {
    if let [root, close] = tokens
        && root.text(text) == "id"
        && close.kind == TokenKind::Close
    {
        return Some(TemplateVariable::Id);
    }
    let [root, dot, step, close] = tokens else { return None };
    if dot.text(text) != "." || step.kind != TokenKind::Name || close.kind != TokenKind::Close {
        return None;
    }
    Some(match (root.text(text), step.text(text)) {
        ("window", "from") => TemplateVariable::WindowFrom,
        ("window", "to") => TemplateVariable::WindowTo,
        ("page", "no") => TemplateVariable::PageNo,
        ("page", "offset") => TemplateVariable::PageOffset,
        ("page", "size") => TemplateVariable::PageSize,
        ("page", "token") => TemplateVariable::PageToken,
        ("params" | "expr", name) => TemplateVariable::Param(name.to_owned()),
        ("credential", name) => TemplateVariable::Credential(name.to_owned()),
        _ => return None,
    })
}
