//! Rewrites `a ~ b ~ c` as a call of our own function. The engine's operator knows no bound, writes null as `None` and
//! true as `True`; ours is `concat`. Only the tokens are moved about: precedence stays what the engine makes of it.

use super::scan::{KEYWORDS, Sort, Token};

/// The function that takes the operands. No expression can name it: it is not on the list.
pub(super) const NAME: &str = "_tilde";

/// `None` when nothing is joined. The tokens end with the closing brace, and the expression is known to be well-formed.
pub(super) fn rewrite(text: &str, tokens: &[Token]) -> Option<String> {
    let first = tokens.first()?;
    if !tokens.iter().any(|token| token.sort == Sort::Mark && token.text(text) == "~") {
        return None;
    }
    let mut edits = Edits::default();
    let mut levels = vec![Level { start: first.at, open: false }];
    for (place, token) in tokens.iter().enumerate() {
        let end = place.checked_sub(1).map_or(token.at, |before| tokens[before].end);
        let word = if token.sort == Sort::Text { "" } else { token.text(text) };
        let level = levels.last_mut()?;
        match word {
            "~" => {
                if !level.open {
                    edits.insert(level.start, format!(" {NAME}("));
                    level.open = true;
                }
                edits.replace(token.at, ",");
            }
            "(" | "[" => levels.push(Level { start: token.end, open: false }),
            ")" | "]" => {
                level.close(end, &mut edits);
                levels.pop();
            }
            _ if token.sort == Sort::Close || parts(text, tokens, place, word) => {
                level.close(end, &mut edits);
                level.start = token.end;
            }
            _ => {}
        }
    }
    Some(edits.apply(text, first.at, tokens.last()?.at))
}

/// What stands between two brackets, or in none.
struct Level {
    /// Where the operand begins that comes first if a `~` follows.
    start: usize,
    open: bool,
}

impl Level {
    fn close(&mut self, end: usize, edits: &mut Edits) {
        if std::mem::take(&mut self.open) {
            edits.insert(end, ")".to_owned());
        }
    }
}

/// Whether the token binds less than `~` does, so that an operand ends before it.
fn parts(text: &str, tokens: &[Token], place: usize, word: &str) -> bool {
    let before = place.checked_sub(1).map(|before| tokens[before]);
    match word {
        "+" | "," | "==" | "!=" | "<" | ">" | "<=" | ">=" => true,
        // A name after a dot is a name, whatever it is.
        "and" | "or" | "in" | "if" | "else" => before.is_none_or(|before| before.text(text) != "."),
        "not" => before.is_none_or(|before| !matches!(before.text(text), "is" | ".")),
        // A sign belongs to its operand.
        "-" => before.is_some_and(|before| match before.sort {
            Sort::Text | Sort::Number => true,
            Sort::Name => {
                let word = before.text(text);
                !KEYWORDS.contains(&word) || matches!(word, "true" | "false" | "none" | "True" | "False" | "None")
            }
            Sort::Mark => matches!(before.text(text), ")" | "]"),
            Sort::Close => false,
        }),
        _ => false,
    }
}

/// Changes by offset. At one offset an insertion goes before a replacement; of two insertions the inner bracket, which is
/// found first when closing and last when opening, never shares its offset with the outer.
#[derive(Default)]
struct Edits(Vec<(usize, usize, String)>);

impl Edits {
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
