//! Rewrites `a ~ b ~ c` as a call of our own `concat`. The engine's operator is unbounded, and renders null as `None`
//! and true as `True`. Only tokens are replaced: the engine still decides precedence.

use super::scan::{ExprToken, KEYWORDS, TokenKind};

/// The function that takes the operands. Expressions cannot call it: it is not on the allowlist.
pub(super) const NAME: &str = "_tilde";

/// Returns `None` if there is no `~`. The tokens end with the closing brace, and the expression is well-formed.
pub(super) fn rewrite(text: &str, tokens: &[ExprToken]) -> Option<String> {
    let first = tokens.first()?;
    if !tokens.iter().any(|token| token.kind == TokenKind::Mark && token.text(text) == "~") {
        return None;
    }
    let mut edits = TextEdits::default();
    let mut levels = vec![BracketLevel { start: first.at, open: false }];
    for (index, token) in tokens.iter().enumerate() {
        let end = index.checked_sub(1).map_or(token.at, |before| tokens[before].end);
        let word = if token.kind == TokenKind::Text { "" } else { token.text(text) };
        let level = levels.last_mut()?;
        match word {
            "~" => {
                if !level.open {
                    edits.insert(level.start, format!(" {NAME}("));
                    level.open = true;
                }
                edits.replace(token.at, ",");
            }
            "(" | "[" => levels.push(BracketLevel { start: token.end, open: false }),
            ")" | "]" => {
                level.close(end, &mut edits);
                levels.pop();
            }
            _ if token.kind == TokenKind::Close || ends_operand(text, tokens, index, word) => {
                level.close(end, &mut edits);
                level.start = token.end;
            }
            _ => {}
        }
    }
    Some(edits.apply(text, first.at, tokens.last()?.at))
}

/// The state of one bracket level.
struct BracketLevel {
    /// Start of the first operand if a `~` follows.
    start: usize,
    open: bool,
}

impl BracketLevel {
    fn close(&mut self, end: usize, edits: &mut TextEdits) {
        if std::mem::take(&mut self.open) {
            edits.insert(end, ")".to_owned());
        }
    }
}

/// Whether the token binds less tightly than `~`, so that an operand ends before it.
fn ends_operand(text: &str, tokens: &[ExprToken], index: usize, word: &str) -> bool {
    let before = index.checked_sub(1).map(|before| tokens[before]);
    match word {
        "+" | "," | "==" | "!=" | "<" | ">" | "<=" | ">=" => true,
        // After a dot a keyword is an ordinary name.
        "and" | "or" | "in" | "if" | "else" => before.is_none_or(|before| before.text(text) != "."),
        "not" => before.is_none_or(|before| !matches!(before.text(text), "is" | ".")),
        // A sign belongs to its operand.
        "-" => before.is_some_and(|before| match before.kind {
            TokenKind::Text | TokenKind::Number => true,
            TokenKind::Name => {
                let word = before.text(text);
                !KEYWORDS.contains(&word) || matches!(word, "true" | "false" | "none" | "True" | "False" | "None")
            }
            TokenKind::Mark => matches!(before.text(text), ")" | "]"),
            TokenKind::Close => false,
        }),
        _ => false,
    }
}

/// Text edits by offset. At the same offset an insertion goes before a replacement. Two insertions never share an
/// offset.
#[derive(Default)]
struct TextEdits(Vec<(usize, usize, String)>);

impl TextEdits {
    fn insert(&mut self, at: usize, what: String) {
        self.0.push((at, 0, what));
    }

    fn replace(&mut self, at: usize, what: &str) {
        self.0.push((at, 1, what.to_owned()));
    }

    fn apply(mut self, text: &str, start: usize, end: usize) -> String {
        self.0.sort_by_key(|(at, taken, _)| (*at, *taken));
        let (mut out, mut from) = (String::with_capacity(end - start + 64), start);
        for (at, taken, what) in &self.0 {
            out.push_str(&text[from..*at]);
            out.push_str(what);
            from = at + taken;
        }
        out.push_str(&text[from..end]);
        out
    }
}
