//! Regular expressions of manifests, with reins: short, small when compiled, matched in linear time and against the
//! beginning of long texts only.

use regex::{Regex, RegexBuilder};

use crate::problem::Flaw;

const MAX_BYTES: usize = 256;
/// Compiled size.
const MAX_SIZE: usize = 256 * 1024;
/// How much of a text is looked at.
const MAX_TEXT: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Whether a text must match from end to end, and not only have the pattern in it.
    whole: bool,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, Flaw> {
        if text.len() > MAX_BYTES {
            let message = format!("the pattern has {} bytes, at most {MAX_BYTES} are allowed", text.len());
            return Err(Flaw::new(0, message));
        }
        Ok(Pattern { regex: build(text)?, whole: false })
    }

    /// A pattern that a text must match from end to end.
    pub fn whole(text: &str) -> Result<Pattern, Flaw> {
        // By itself first: one that is only sound within our brackets, such as `a)|(b`, would get out of them.
        Pattern::parse(text)?;
        Ok(Pattern { regex: build(&format!(r"\A(?:{text})\z"))?, whole: true })
    }

    /// Whether the pattern occurs in the text, or is all of it.
    pub fn matches(&self, text: &str) -> bool {
        if self.whole {
            return text.len() <= MAX_TEXT && self.regex.is_match(text);
        }
        self.regex.is_match(patra_core::text::beginning(text, MAX_TEXT))
    }
}

fn build(text: &str) -> Result<Regex, Flaw> {
    // No lazy automaton: a hostile pattern would fill it and empty it again and again.
    let built = RegexBuilder::new(text).size_limit(MAX_SIZE).dfa_size_limit(0).nest_limit(32).build();
    built.map_err(|error| Flaw::new(0, format!("the pattern cannot be used: {}", reason(&error))))
}

/// The last line of a drawing over several lines, or the sentence itself.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: &str) {
        let shown = Pattern::parse(pattern).map_or_else(|flaw| flaw.message, |p| p.matches(text).to_string());
        assert_eq!(shown, expected, "{pattern}");
    }

    #[test]
    fn patterns_are_searched_and_bounded() {
        check("rate limit", "API rate limit exceeded", "true");
        check("(?i)^api", "API rate limit exceeded", "true");
        check("^rate", "API rate limit exceeded", "false");
        check("x", &format!("{}x", "é".repeat(MAX_TEXT)), "false");
        check("(", "", "the pattern cannot be used: unclosed group");
        check(
            "(?=a)",
            "",
            "the pattern cannot be used: look-around, including look-ahead and look-behind, is not supported",
        );
        check(
            "((a{99}){99}){99}",
            "",
            "the pattern cannot be used: Compiled regex exceeds size limit of 262144 bytes.",
        );
        check(&"a".repeat(300), "", "the pattern has 300 bytes, at most 256 are allowed");
        check(&"(a*)*b".repeat(20), &"a".repeat(MAX_TEXT), "false");
    }

    #[test]
    fn a_whole_pattern_leaves_nothing_over() {
        let check = |pattern: &str, text: &str, expected: &str| {
            let shown = Pattern::whole(pattern).map_or_else(|flaw| flaw.message, |p| p.matches(text).to_string());
            assert_eq!(shown, expected, "{pattern} {text}");
        };
        check("a|ab", "ab", "true");
        check("[a-z]+", "cats", "true");
        check("[a-z]+", "cats\n", "false");
        check("[a-z]+$", "cats\n", "false");
        check("(?m)^[a-z]+$", "cats\nx", "false");
        check("", "", "true");
        check("", "a", "false");
        check("(?i)CATS", "cats", "true");
        check("a)|(?:b", "b", "the pattern cannot be used: unopened group");
        check("(?x) a # comment", "a", "the pattern cannot be used: unclosed group");
        check("(?s).*", &"x".repeat(MAX_TEXT), "true");
        check("(?s).*", &"x".repeat(MAX_TEXT + 1), "false");
    }
}
