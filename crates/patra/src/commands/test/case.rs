//! One entry under `tests:` in a manifest.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::{Code, Level, Ts};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Required when the manifest has several endpoints.
    pub(crate) endpoint: Option<String>,
    /// File with the body of the response, relative to the manifest.
    pub(crate) recorded: String,
    #[serde(default = "ok")]
    pub(crate) status: u16,
    /// Headers of the response.
    #[serde(default, deserialize_with = "pairs")]
    pub(crate) headers: Vec<(String, String)>,
    /// Position of the request; the first page when left out.
    #[serde(default, deserialize_with = "place")]
    pub(crate) at: Option<Position>,
    pub(crate) page_size: Option<u32>,
    #[serde(default, deserialize_with = "texts")]
    pub(crate) params: Params,
    pub(crate) from: Option<Ts>,
    pub(crate) to: Option<Ts>,
    /// Value of `now()`; the end of the window when left out.
    pub(crate) now: Option<Ts>,
    pub(crate) expect: Expect,
}

/// Expectations. A field that is left out is not compared.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Expect {
    /// Parts that the request's URL must contain.
    #[serde(deserialize_with = "one_or_several")]
    pub(crate) url: Vec<String>,
    pub(crate) method: Option<String>,
    /// Headers that the request must have.
    #[serde(deserialize_with = "texts")]
    pub(crate) headers: Params,
    /// Text of the body, or members that its JSON must have.
    pub(crate) body: Option<Value>,
    pub(crate) items: Option<u32>,
    pub(crate) records: Option<usize>,
    pub(crate) rejected: Option<usize>,
    pub(crate) total: Option<u64>,
    /// Number of ids, or the ids.
    pub(crate) candidates: Option<Value>,
    /// A position, `end`, `cut` or `partial`.
    pub(crate) next: Option<Value>,
    /// Members of the first records.
    pub(crate) first: Vec<Value>,
    pub(crate) refused: Option<Refused>,
    /// A part of each warning about the endpoint.
    pub(crate) warnings: Option<Vec<String>>,
}

/// The level of the refusal alone, or with code and message.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "expected L1 to L4, or { level: L2, code: PLATFORM_ERROR, message: a part of it }")]
pub(crate) enum Refused {
    Level(Level),
    #[serde(deserialize_with = "long")]
    Long(Long),
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Long {
    pub(crate) level: Option<Level>,
    pub(crate) code: Option<Code>,
    pub(crate) message: Option<String>,
}

fn long<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Long, D::Error> {
    Long::deserialize(deserializer)
}

fn ok() -> u16 {
    200
}

/// `{ ids: [1, 2] }`, or a position as the ledger writes it: `{ token: x }`, `{ offset: 100 }`.
fn place<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Position>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    if let Some(ids) = value.get("ids").and_then(Value::as_array) {
        let ids = ids
            .iter()
            .map(text)
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| de::Error::custom("ids are texts or numbers"))?;
        return Ok(Some(Position::Ids { at: Box::new(Position::Time), ids }));
    }
    Position::deserialize(&value).map(Some).map_err(|_| {
        de::Error::custom("at: expected { token: … }, { offset: … }, { page: … }, { url: … } or { ids: [ … ] }")
    })
}

fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Params, D::Error> {
    let map = serde_json::Map::deserialize(deserializer)?;
    let texts = map.into_iter().map(|(name, value)| Some((name, text(&value)?)));
    texts.collect::<Option<_>>().ok_or_else(|| de::Error::custom("expected names and texts"))
}

/// An object, or a list of pairs for names that occur twice.
fn pairs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, String)>, D::Error> {
    let wrong = || de::Error::custom("headers: expected { name: value } or [[name, value]]");
    let pair = |name: &str, value: &Value| Some((name.to_lowercase(), text(value)?));
    let pairs: Option<Vec<_>> = match Value::deserialize(deserializer)? {
        Value::Object(map) => map.iter().map(|(name, value)| pair(name, value)).collect(),
        Value::Array(list) => list
            .iter()
            .map(|entry| match entry.as_array().map(Vec::as_slice) {
                Some([name, value]) => pair(name.as_str()?, value),
                _ => None,
            })
            .collect(),
        _ => None,
    };
    pairs.ok_or_else(wrong)
}

fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let several: Option<Vec<_>> = match &value {
        Value::Array(list) => list.iter().map(text).collect(),
        one => text(one).map(|one| vec![one]),
    };
    several.ok_or_else(|| de::Error::custom("expected a text or a list of texts"))
}

/// Numbers and booleans count as text, as everywhere in a manifest.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}
