//! Cleaning and validation: a parsed tweet becomes a stored one, or a list of problems. Nothing panics, and a date is
//! never made up.

use super::{MAX_COLUMN, MAX_TEXT_LENGTH, Media, Reference, ReferenceType, Tweet};
use crate::time::Ts;

/// A nested text that is shorter than this and ends with an ellipsis was probably cut by the upstream (TWEET-36).
const WHOLE_LENGTH: usize = 300;

/// A parsed tweet; any field may be missing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TweetDraft {
    pub tweet_id: Option<String>,
    pub text: Option<String>,
    /// The time as the upstream wrote it.
    pub created_at: Option<String>,
    pub author_username: Option<String>,
    pub author_display_name: Option<String>,
    pub reference: Option<Reference>,
    pub media: Vec<Media>,
    pub referenced_tweet_text: Option<String>,
    pub referenced_tweet_media: Vec<Media>,
    pub referenced_tweet_author_username: Option<String>,
}

/// Why a tweet cannot be stored (TWEET-49).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InvalidTweet {
    /// Required fields that are missing.
    pub missing: Vec<&'static str>,
    /// Fields with unusable content, with the reason.
    pub unusable: Vec<(&'static str, String)>,
}

impl std::error::Error for InvalidTweet {}

impl std::fmt::Display for InvalidTweet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.missing.is_empty() {
            write!(f, "missing: {}", self.missing.join(", "))?;
        }
        for (at, (field, reason)) in self.unusable.iter().enumerate() {
            let joint = if at > 0 || !self.missing.is_empty() { "; " } else { "" };
            write!(f, "{joint}{field} {reason}")?;
        }
        Ok(())
    }
}

impl TweetDraft {
    /// The cleaned tweet; or all its problems (TWEET-48..55).
    pub fn validate(self) -> Result<Tweet, InvalidTweet> {
        let mut invalid = InvalidTweet::default();
        let tweet_id = required(self.tweet_id, "tweet_id", &mut invalid);
        let author_username = required(self.author_username, "author_username", &mut invalid);
        // A tweet without text must have something else (TWEET-55).
        let has_more = !self.media.is_empty() || self.reference.is_some();
        let text = self.text.map(|text| clean(&text)).filter(|text| !text.is_empty() || has_more);
        if text.is_none() {
            invalid.missing.push("text");
        }
        let created_at = match self.created_at.map(|text| (instant(&text), text)) {
            Some((Some(at), _)) => Some(at),
            Some((None, text)) if !text.trim().is_empty() => {
                let shown: String = text.chars().take(60).collect();
                invalid.unusable.push(("created_at", format!("is not a date: {shown:?}")));
                None
            }
            _ => {
                invalid.missing.push("created_at");
                None
            }
        };
        let reference = self.reference.filter(|reference| match fits(&reference.id) {
            Ok(()) => true,
            Err(reason) => {
                invalid.unusable.push(("referenced_tweet_id", reason));
                false
            }
        });
        match (tweet_id, text, created_at, author_username) {
            (Some(tweet_id), Some(text), Some(created_at), Some(author_username))
                if invalid == InvalidTweet::default() =>
            {
                let (referenced_tweet_id, reference_type) = reference.map(|one| (one.id, one.r#type)).unzip();
                Ok(Tweet {
                    tweet_id,
                    text,
                    created_at,
                    author_username,
                    author_display_name: self.author_display_name.and_then(|name| shortened(&name)),
                    referenced_tweet_id,
                    reference_type,
                    media: some(self.media),
                    referenced_tweet_text: self.referenced_tweet_text.map(|text| clean(&text)),
                    referenced_tweet_media: some(self.referenced_tweet_media),
                    referenced_tweet_author_username: self
                        .referenced_tweet_author_username
                        .and_then(|name| shortened(&name)),
                })
            }
            _ => Err(invalid),
        }
    }
}

impl ReferenceType {
    /// Precedence when a tweet has several references: smaller wins (TWEET-37).
    pub fn rank(self) -> u8 {
        match self {
            ReferenceType::Retweeted => 0,
            ReferenceType::Quoted => 1,
            ReferenceType::RepliedTo => 2,
        }
    }
}

/// Collapses white space, trims, and cuts a text that is too long (TWEET-50, TWEET-51). NUL, which no database
/// accepts, counts as white space.
pub fn clean(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len().min(4 * MAX_TEXT_LENGTH));
    let words = text.split(|c: char| c.is_whitespace() || c == '\0').filter(|word| !word.is_empty());
    let mut length = 0;
    for c in words.flat_map(|word| std::iter::once(' ').chain(word.chars())).skip(1).take(MAX_TEXT_LENGTH) {
        cleaned.push(c);
        length = if c == ' ' { length } else { cleaned.len() };
    }
    cleaned.truncate(length);
    cleaned
}

/// Creation time of a tweet: in X's format, `Fri Feb 06 09:31:48 +0000 2026`, or ISO 8601 (TWEET-38).
pub fn instant(text: &str) -> Option<Ts> {
    let text = text.trim();
    if let Ok(at) = text.parse() {
        return Some(at);
    }
    // The weekday is redundant.
    let (weekday, date) = text.split_once(' ')?;
    if weekday.is_empty() || !weekday.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        return None;
    }
    let at = jiff::fmt::strtime::parse("%b %d %H:%M:%S %z %Y", date.trim_start()).ok()?.to_timestamp().ok()?;
    Some(Ts::from_micros(at.as_microsecond()))
}

/// Whether the text of a referenced tweet looks as if the upstream had cut it (TWEET-36).
pub fn is_probably_cut(text: &str) -> bool {
    let text = text.trim_end();
    (text.ends_with('…') || text.ends_with("...")) && text.chars().count() < WHOLE_LENGTH
}

fn required(value: Option<String>, name: &'static str, invalid: &mut InvalidTweet) -> Option<String> {
    let Some(value) = value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty()) else {
        invalid.missing.push(name);
        return None;
    };
    match fits(&value) {
        Ok(()) => Some(value),
        Err(reason) => {
            invalid.unusable.push((name, reason));
            None
        }
    }
}

/// Identifiers are never cut: two could become one.
fn fits(value: &str) -> Result<(), String> {
    if value.chars().count() > MAX_COLUMN {
        return Err(format!("has more than {MAX_COLUMN} characters"));
    }
    if value.chars().any(char::is_control) {
        return Err("contains a control character".to_owned());
    }
    Ok(())
}

/// Texts for display may be cut.
fn shortened(text: &str) -> Option<String> {
    let text: String = clean(text).chars().take(MAX_COLUMN).collect();
    Some(text).filter(|text| !text.is_empty())
}

fn some(media: Vec<Media>) -> Option<Vec<Media>> {
    Some(media).filter(|media| !media.is_empty())
}

#[cfg(test)]
#[path = "tests/clean.rs"]
mod tests;
