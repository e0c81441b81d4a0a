//! The immutable spec that plans, slices and executors work from (ING-3.9-01). Fields that a reader does not know are
//! ignored and those that are missing have defaults, so that a binary can read what an older or newer one has frozen.

mod meaning;
mod response;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patra_core::state::Operation;
use patra_core::window::Align;
use patra_core::{Ts, hash};

use crate::iso::Iso;
use crate::words::{Kind, Method, PagingType, Role};

pub use response::{Condition, ErrorRule, Mapping, OutputField, Response};

pub const DEFAULT_SAFETY_LAG: Iso = Iso::secs(600);
pub const DEFAULT_MAX_WINDOW: Iso = Iso::secs(86_400);
pub const DEFAULT_MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;
pub const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 10_000;
pub const DEFAULT_READ_TIMEOUT_MS: u64 = 30_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub provenance_code: String,
    pub endpoint_code: String,
    pub operation: Operation,
    #[serde(default)]
    pub role: Role,
    pub http: Http,
    /// `None`: one answer holds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
    #[serde(default)]
    pub window: Window,
    #[serde(default)]
    pub retry: Retry,
    #[serde(default)]
    pub rate_limit: RateLimit,
    pub response: Response,
    #[serde(default)]
    pub mapping: Mapping,
    #[serde(default)]
    pub kind: Kind,
    /// As it was when this was compiled; [`Snapshot::fingerprint`] computes it.
    #[serde(default)]
    pub spec_fingerprint: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Http {
    pub method: Method,
    pub base_url: String,
    pub path_template: String,
    pub headers_template: BTreeMap<String, String>,
    pub query_template: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_template: Option<String>,
    /// A JSON body; every text in it is a template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_json: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_form: Option<BTreeMap<String, String>>,
    pub connect_timeout_ms: u64,
    pub read_timeout_ms: u64,
    /// The deadline of one whole attempt, when there is one (C-44).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub max_body_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_redirects: u8,
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pagination {
    pub r#type: PagingType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_url_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_url_header: Option<String>,
    /// `host` or `host:port`, lower-case.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ceiling: Option<u64>,
    /// PAGE only: whether the first page is number 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base1: Option<bool>,
    pub always_token: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Window {
    pub supports_updated_since: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_key: Option<String>,
    pub safety_lag: Iso,
    pub max_window: Iso,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookback: Option<Iso>,
    pub timezone: String,
    pub boundary_policy: String,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            supports_updated_since: false,
            watermark_key: None,
            safety_lag: DEFAULT_SAFETY_LAG,
            max_window: DEFAULT_MAX_WINDOW,
            min_window: None,
            align: None,
            initial: None,
            lookback: None,
            timezone: "UTC".into(),
            boundary_policy: "[from,to)".into(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Retry {
    pub policy: String,
    pub max_attempts: u32,
    pub min_delay_ms: u64,
    pub max_delay_ms: u64,
    pub multiplier_percent: u32,
    pub jitter_percent: u32,
}

impl Default for Retry {
    fn default() -> Retry {
        let platform = patra_core::retry::Policy::default();
        Retry {
            policy: "exponential_jitter".into(),
            max_attempts: platform.max_attempts,
            min_delay_ms: platform.min_delay_ms,
            max_delay_ms: platform.max_delay_ms,
            multiplier_percent: platform.multiplier_percent,
            jitter_percent: platform.jitter_percent,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimit {
    pub qps: f64,
    pub burst: u32,
}

impl Default for RateLimit {
    /// ING-4.10-36.
    fn default() -> RateLimit {
        RateLimit { qps: 1.0, burst: 1 }
    }
}

impl Snapshot {
    /// Canonical JSON: what is stored, once per content.
    pub fn body(&self) -> String {
        hash::canonical(&self.to_json())
    }

    pub fn from_body(body: &str) -> Result<Snapshot, serde_json::Error> {
        serde_json::from_str(body)
    }

    /// The content address: over the canonical JSON without the fingerprint itself (G-20).
    pub fn fingerprint(&self) -> String {
        let mut json = self.to_json();
        if let Some(map) = json.as_object_mut() {
            map.remove("specFingerprint");
        }
        hash::digest(&[&hash::canonical(&json)])
    }

    fn to_json(&self) -> serde_json::Value {
        // Texts, numbers and maps with text keys: nothing that JSON could refuse.
        serde_json::to_value(self).unwrap_or_default()
    }
}
