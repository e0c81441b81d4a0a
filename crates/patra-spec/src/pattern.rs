//! Regular expressions of manifests, with limits: short, small when compiled, linear time, and matched against the
//! beginning of long texts only.

use regex::{Regex, RegexBuilder};

use crate::problem::SyntaxError;

const MAX_BYTES: usize = 256;
/// Largest compiled size.
const MAX_SIZE: usize = 256 * 1024;
/// Most bytes of a text that are searched.
const MAX_TEXT: usize = 16 * 1024;

#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Whether the pattern must match the whole text.
    whole: bool,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, SyntaxError> {
        if text.len() > MAX_BYTES {
            let message = format!("the pattern has {} bytes, at most {MAX_BYTES} are allowed", text.len());
            return Err(SyntaxError::new(0, message));
        }
        Ok(Pattern { regex: build(text)?, whole: false })
    }

    /// A pattern that must match the whole text.
    pub fn whole(text: &str) -> Result<Pattern, SyntaxError> {
        // Parsed alone first: a pattern such as `a)|(b` would otherwise escape from our brackets.
        Pattern::parse(text)?;
        Ok(Pattern { regex: build(&format!(r"\A(?:{text})\z"))?, whole: true })
    }

    /// Whether the pattern occurs in the text or, if `whole` is set, matches all of it.
    pub fn matches(&self, text: &str) -> bool {
        if self.whole {
            return text.len() <= MAX_TEXT && self.regex.is_match(text);
        }
        self.regex.is_match(patra_core::text::beginning(text, MAX_TEXT))
    }
}

fn build(text: &str) -> Result<Regex, SyntaxError> {
    // No lazy DFA: a hostile pattern would fill and clear its cache repeatedly.
    let built = RegexBuilder::new(text).size_limit(MAX_SIZE).dfa_size_limit(0).nest_limit(32).build();
    built.map_err(|error| SyntaxError::new(0, format!("the pattern cannot be used: {}", reason(&error))))
}

/// The last line of the library's message, which may be a drawing over several lines.
fn reason(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, text: &str, expected: &str) {
        let shown =
            Pattern::parse(pattern).map_or_else(|syntax_error| syntax_error.message, |p| p.matches(text).to_string());
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
    fn whole_pattern_matches_the_whole_text() {
        let check = |pattern: &str, text: &str, expected: &str| {
            let shown = Pattern::whole(pattern)
                .map_or_else(|syntax_error| syntax_error.message, |p| p.matches(text).to_string());
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
