//! Decodes a page of tweets to records: each keeps its original bytes and adds its columns.

use bytestring::ByteString;

use patra_core::hash::{content_hash, id_hash};
use patra_core::record::{DetailCandidate, Record, RecordVersion};
use patra_core::tweet::{Tweet, is_probably_cut};
use patra_core::{Code, Fault, Level};

use super::item::check_size;
use super::memory::too_large;
use super::{Decoded, Decoder, PageContext, check_rejected};
use crate::classify::RefusedResponse;
use crate::tweet::{self, FoundTweet, MappedTweet, TweetPageError};

impl Decoder {
    pub(super) fn tweets(&self, body: &ByteString, asked: &PageContext<'_>) -> Result<Decoded, RefusedResponse> {
        let found = self.body.find(body).map_err(|error| super::unreadable("JSON", error))?;
        if let Some(refused) = self.errors.iter().find_map(|rule| rule.refusal(&found)) {
            return Err(refused);
        }
        // A response of another form: the upstream has changed.
        let tweets = tweet::read(body).map_err(|error| match error {
            TweetPageError::Size(_) | TweetPageError::TooMany(_) => too_large(&error.to_string()),
            error => Fault::new(Code::ParseError, Level::L4, error.to_string()),
        })?;
        let count = tweets.len();
        let mut decoded = Decoded { facts: self.facts(&found, 0)?, ..Decoded::nothing() };
        let (mut hashes, mut items, mut picked) = (Vec::new(), 0, Vec::new());
        for (index, FoundTweet { raw, pinned, id, read }) in tweets.into_iter().enumerate() {
            check_rejected(&decoded.rejected, count)?;
            if id.as_deref().is_some_and(|id| asked.knows(id)) {
                // A pinned tweet may be of any age, and says nothing about the tweets after it.
                if pinned {
                    continue;
                }
                decoded.facts.has_more = Some(false);
                break;
            }
            items += 1;
            let payload = self.items.payload(body, raw);
            let hash = content_hash(payload.as_bytes());
            hashes.extend_from_slice(&hash);
            decoded.facts.ids.push(id.as_ref().map_or(hash, |id| id_hash(id.as_bytes())));
            let mapped = match read {
                Ok(mapped) => mapped,
                Err(invalid) => {
                    let named = id.as_deref().map_or_else(|| "without an id".to_owned(), str::to_owned);
                    decoded.warnings.push(format!("tweet {named} is skipped: {invalid}"));
                    decoded.rejected.push(super::item::ItemRejection::new(id, invalid.to_string()).reject(index, raw));
                    continue;
                }
            };
            if self.outside && !asked.window.contains(mapped.tweet.created_at) {
                decoded.skipped.out_of_window += 1;
            } else {
                decoded.warnings.extend(warning(&mapped.tweet));
                match self.items.fields(raw, &mut picked) {
                    Ok(Some(declared)) => {
                        let record = record(&mapped, &declared, payload, hash);
                        match check_size(id.as_deref(), record.payload.len() + record.fields.len()) {
                            Ok(()) => decoded.records.push(record),
                            Err(flaw) => decoded.rejected.push(flaw.reject(index, raw)),
                        }
                    }
                    // The id is known, so it is not missing although its record is filtered out.
                    Ok(None) => {
                        decoded.skipped.filtered += 1;
                        if self.single {
                            decoded.candidates.extend(id.map(|id| DetailCandidate { id, version: String::new() }));
                        }
                    }
                    Err(flaw) => decoded.rejected.push(flaw.of(id).reject(index, raw)),
                }
            }
        }
        check_rejected(&decoded.rejected, count)?;
        decoded.facts.items = items;
        decoded.content = content_hash(&hashes);
        Ok(decoded)
    }
}

fn record(mapped: &MappedTweet, declared: &str, payload: ByteString, content_hash: [u8; 16]) -> Record {
    let mut fields = serde_json::to_string(mapped).unwrap_or_default();
    // Fields that the manifest maps; their names differ from those of the columns.
    if let Some(rest) = declared.strip_prefix('{').filter(|rest| *rest != "}") {
        fields.pop();
        fields.push(',');
        fields.push_str(rest);
    }
    let version = RecordVersion { updated_at: mapped.tweet.created_at, source_version: 0 };
    Record { key: mapped.tweet.tweet_id.clone(), version, fields, payload, content_hash }
}

/// A warning that the referenced text is probably cut (TWEET-36).
fn warning(tweet: &Tweet) -> Option<String> {
    let text = tweet.referenced_tweet_text.as_deref().filter(|text| is_probably_cut(text))?;
    let (id, length) = (&tweet.tweet_id, text.chars().count());
    Some(format!("the text that tweet {id} refers to was probably cut: {length} characters that end with an ellipsis"))
}
