//! Evidence of a response for the ledger: enough to distinguish two responses and to find an error, without secrets or
//! personal data (ING-14.3-05, C-54).

use serde_json::{Map, Value, json};

use patra_core::hash::{body_hash, sha256_hex};
use patra_core::port::transport::HttpResponse;
use patra_spec::Snapshot;

use crate::classify::RefusedResponse;
use crate::decode::Decoded;
use crate::mask;

/// Bytes of the body that are hashed as the sample, and at most kept as text.
pub const MAX_SAMPLE: usize = 1_024;
/// Bytes beyond the sample that are searched, so that personal data at its end is recognised.
const MARGIN: usize = 128;

/// Result of keeping a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BodyRetention {
    NotRequested,
    Yes,
    TooLarge,
}

/// Paths of the digest's values in the pages of an endpoint.
#[derive(Debug)]
pub(crate) struct ResponseDigester {
    paths: Map<String, Value>,
}

impl ResponseDigester {
    pub(crate) fn new(spec: &Snapshot) -> ResponseDigester {
        let paging = spec.pagination.clone().unwrap_or_default();
        let paths = [
            ("itemsPath", Some(spec.response.items_path.clone())),
            ("nextTokenPath", paging.next_token_path),
            ("nextTokenHeader", paging.next_token_header),
            ("nextUrlPath", paging.next_url_path),
            ("nextUrlHeader", paging.next_url_header),
            ("totalPath", spec.response.total_path.clone()),
            ("hasMorePath", spec.response.has_more_path.clone()),
        ];
        let paths = paths.into_iter().filter_map(|(name, path)| Some((name.to_owned(), path?.into())));
        ResponseDigester { paths: paths.collect() }
    }

    /// JSON, for `response_digest`.
    pub(crate) fn of(
        &self,
        response: &HttpResponse,
        read: Result<&Decoded, &RefusedResponse>,
        kept: BodyRetention,
        rate: Option<Map<String, Value>>,
    ) -> String {
        let mut digest = json!({
            "status": response.status,
            "headerHints": {
                "retryAfter": response.header("retry-after"),
                "rateLimitRemaining": response.header("x-ratelimit-remaining"),
            },
            "bytes": response.body.len(),
            "bodyHash": body_hash(&response.body),
            "sample": format!("sha256:{}", sha256_hex(beginning(&response.body, MAX_SAMPLE))),
            "sampleText": sample_text(&response.body),
        });
        let Some(map) = digest.as_object_mut() else { return "{}".to_owned() };
        map.extend(self.paths.clone());
        map.extend(rate.unwrap_or_default());
        map.extend(match read {
            Ok(decoded) => page(decoded),
            Err(refused) => refusal(refused),
        });
        match kept {
            BodyRetention::NotRequested => {}
            BodyRetention::Yes => drop(map.insert("raw".into(), "kept".into())),
            BodyRetention::TooLarge => {
                let reason = format!("not kept: larger than {} bytes", crate::stored_response::MAX_KEPT);
                map.insert("raw".into(), reason.into());
            }
        }
        digest.to_string()
    }
}

/// The facts of the page, and a hash of everything that was decoded from it.
fn page(decoded: &Decoded) -> Map<String, Value> {
    let Decoded { facts, records, rejected, candidates, .. } = decoded;
    let next = json!({
        "token": facts.next_token, "url": facts.next_url, "hasMore": facts.has_more, "total": facts.total,
    });
    let rows = json!({
        "itemsCount": facts.items,
        "rows": records.len() + candidates.len(),
        "rejected": rejected.len(),
        "rowsHash": rows_hash(decoded),
        "next": next,
    });
    rows.as_object().cloned().unwrap_or_default()
}

fn refusal(refused: &RefusedResponse) -> Map<String, Value> {
    let RefusedResponse { fault, throttled, .. } = refused;
    let refused = json!({ "code": fault.code, "level": fault.level, "throttled": throttled });
    Map::from_iter([("refused".to_owned(), refused)])
}

/// Hash of keys, versions, content and mapped fields, in page order: equal for the same snapshot and bytes.
fn rows_hash(decoded: &Decoded) -> String {
    let mut all = Vec::new();
    let mut part = |bytes: &[u8]| {
        all.extend_from_slice(&(bytes.len() as u64).to_be_bytes());
        all.extend_from_slice(bytes);
    };
    for record in &decoded.records {
        part(record.key.as_bytes());
        part(&record.version.updated_at.micros().to_be_bytes());
        part(&record.version.source_version.to_be_bytes());
        part(&record.content_hash);
        part(record.fields.as_bytes());
    }
    for candidate in &decoded.candidates {
        part(candidate.id.as_bytes());
        part(candidate.version.as_bytes());
    }
    for rejected in &decoded.rejected {
        part(&rejected.index.to_be_bytes());
        part(rejected.reason.as_bytes());
    }
    body_hash(&all)
}

fn beginning(body: &[u8], len: usize) -> &[u8] {
    &body[..body.len().min(len)]
}

/// The beginning of the body for display: without personal data and characters that databases reject.
pub(crate) fn sample_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(beginning(body, MAX_SAMPLE + MARGIN));
    let text: String =
        text.chars().map(|c| if c.is_control() && !"\n\r\t".contains(c) { '\u{fffd}' } else { c }).collect();
    patra_core::text::beginning(&mask::personal(&text), MAX_SAMPLE).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: C-54, ING-14.9-03, ING-14.10-02
    #[test]
    fn a_sample_is_short_and_says_nothing_of_persons() {
        assert_eq!(sample_text(b"{\"id\":1}"), "{\"id\":1}");
        assert_eq!(sample_text(&[b'a', 0, 0xff, b'b', b'\n']), "a\u{fffd}\u{fffd}b\n");
        let mut body = vec![b'x'; MAX_SAMPLE - 6];
        body.extend(" ann@example.org and more".bytes());
        let sample = sample_text(&body);
        assert!(sample.len() <= MAX_SAMPLE && !sample.contains("ann"), "{sample}");
        for odd in ["ü".repeat(600), "€".repeat(400)] {
            assert!((MAX_SAMPLE - 3..=MAX_SAMPLE).contains(&sample_text(odd.as_bytes()).len()));
        }
    }
}
