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
pub struct Pattern(Regex);

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, Flaw> {
        if text.len() > MAX_BYTES {
            let message = format!("the pattern has {} bytes, at most {MAX_BYTES} are allowed", text.len());
            return Err(Flaw::new(0, message));
        }
        let built = RegexBuilder::new(text).size_limit(MAX_SIZE).dfa_size_limit(MAX_SIZE).nest_limit(32).build();
        built.map(Pattern).map_err(|error| Flaw::new(0, format!("the pattern cannot be used: {}", reason(&error))))
    }

    /// Whether the pattern occurs in the text.
    pub fn matches(&self, text: &str) -> bool {
        let end = (0..=MAX_TEXT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        self.0.is_match(&text[..end])
    }
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
}
