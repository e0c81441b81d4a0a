//! The immutable spec that plans, slices and executors work from (ING-3.9-01). Unknown fields are ignored and missing
//! ones have defaults, so that a binary can read the snapshots of an older or newer one.

mod auth;
mod detail;
mod engine_values;
mod expr;
mod http;
mod inputs;
mod limits;
mod mapping;
mod response;
mod selection;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patra_core::state::Operation;
use patra_core::window::Align;
use patra_core::{Ts, hash};

use crate::iso_duration::IsoDuration;
use crate::keywords::{
    DedupScope, EndpointRole, MissingRecords, OnMaxPage, OutOfRange, PagingType, RecordKind, VerifyMode, WindowMode,
};
use response::is_false;

pub use auth::{AuthSpec, DEFAULT_REFRESH_AHEAD, DEFAULT_SESSION_LIFE, OAuth2Spec, SessionSpec};
pub use detail::{BatchingSpec, DEFAULT_ID_BATCH_SIZE, TwoPhaseSpec, UpdateSpec};
pub use engine_values::host_key;
pub use expr::ExprSpec;
pub use http::HttpSpec;
pub use inputs::{ParamSpec, ParentSpec, PartitionSpec};
pub use limits::{HealthSpec, LimitsSpec, RateLimitSpec, RetrySpec};
pub use response::{ConditionSpec, ErrorRuleSpec, MappingSpec, OutputFieldSpec, RequestParamSpec, ResponseSpec};

pub const DEFAULT_SAFETY_LAG: IsoDuration = IsoDuration::secs(600);
pub const DEFAULT_MAX_WINDOW: IsoDuration = IsoDuration::secs(86_400);
pub const DEFAULT_MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;
pub const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 10_000;
pub const DEFAULT_READ_TIMEOUT_MS: u64 = 30_000;
/// Newest first (ING-4.5-01).
pub const DEFAULT_ORDER_BY: &str = "updated desc";
/// Oldest first: the newest record of a page then bounds everything read so far (C-13).
pub const ASCENDING: &str = "updated asc";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub provenance_code: String,
    pub endpoint_code: String,
    pub operation: Operation,
    #[serde(default)]
    pub role: EndpointRole,
    pub http: HttpSpec,
    /// Absent if no authentication is needed.
    #[serde(default, skip_serializing_if = "AuthSpec::is_none")]
    pub auth: AuthSpec,
    /// Inputs of a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamSpec>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionSpec>,
    #[serde(default)]
    pub expr: ExprSpec,
    /// `None` if one response holds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<PaginationSpec>,
    #[serde(default)]
    pub window: WindowSpec,
    #[serde(default)]
    pub retry: RetrySpec,
    #[serde(default)]
    pub rate_limit: RateLimitSpec,
    #[serde(default)]
    pub limits: LimitsSpec,
    #[serde(default)]
    pub health: HealthSpec,
    /// Retention of raw responses; `None` if they are not stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_keep: Option<IsoDuration>,
    #[serde(default)]
    pub batching: BatchingSpec,
    /// `None` if the search returns the records themselves. UPDATE always has it: it is the second phase alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_phase: Option<TwoPhaseSpec>,
    /// Set for UPDATE only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateSpec>,
    pub response: ResponseSpec,
    #[serde(default)]
    pub mapping: MappingSpec,
    #[serde(default)]
    pub kind: RecordKind,
    /// Polled as a whole each time, without a window.
    #[serde(default, skip_serializing_if = "is_false")]
    pub polled: bool,
    #[serde(default, skip_serializing_if = "is_endpoint")]
    pub dedup_scope: DedupScope,
    /// Whether an event is emitted for each stored record.
    #[serde(default, skip_serializing_if = "is_false")]
    pub emit: bool,
    /// Fingerprint at compile time; [`Snapshot::fingerprint`] computes it.
    #[serde(default)]
    pub spec_fingerprint: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PaginationSpec {
    pub r#type: PagingType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// Largest page size that the upstream allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page: Option<u32>,
    pub on_max_page: OnMaxPage,
    /// The upstream's order; `updated desc` by default (ING-4.5-01).
    pub order_by: String,
    /// Whether the manifest declares the order; otherwise it is only the default.
    #[serde(skip_serializing_if = "is_false")]
    pub order_declared: bool,
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
    /// Pages per slice if the first total shows that there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_range: Option<u32>,
    /// PAGE only: whether the first page is number 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base1: Option<bool>,
    pub always_token: bool,
    /// A repeated token means the end (ING-15-01).
    #[serde(skip_serializing_if = "is_false")]
    pub unique_tokens: bool,
    /// A page without a new id means the end (TWEET-170).
    #[serde(skip_serializing_if = "is_false")]
    pub repeat_ends: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_max_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_param: Option<String>,
    /// Requests the last page once more (ING-4.3-14).
    #[serde(skip_serializing_if = "is_false")]
    pub tail_probe: bool,
    /// How completeness is checked while the list may move (G-23).
    #[serde(skip_serializing_if = "is_auto")]
    pub verify: VerifyMode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_empty_pages: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests_without_new_records: Option<u32>,
}

fn is_auto(verify: &VerifyMode) -> bool {
    *verify == VerifyMode::Auto
}

impl Default for PaginationSpec {
    fn default() -> PaginationSpec {
        PaginationSpec {
            r#type: PagingType::default(),
            page_size: None,
            max_page_size: None,
            max_page: None,
            on_max_page: OnMaxPage::Partial,
            order_by: DEFAULT_ORDER_BY.into(),
            order_declared: false,
            initial: None,
            next_token_path: None,
            next_token_header: None,
            next_url_path: None,
            next_url_header: None,
            allow_hosts: Vec::new(),
            result_ceiling: None,
            page_range: None,
            base1: None,
            always_token: false,
            unique_tokens: false,
            repeat_ends: false,
            limit_param: None,
            limit_max_param: None,
            until_param: None,
            tail_probe: false,
            verify: VerifyMode::Auto,
            max_empty_pages: None,
            max_requests_without_new_records: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WindowSpec {
    #[serde(skip_serializing_if = "is_time")]
    pub mode: WindowMode,
    #[serde(skip_serializing_if = "is_kept")]
    pub missing: MissingRecords,
    pub supports_updated_since: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_key: Option<String>,
    pub safety_lag: IsoDuration,
    pub max_window: IsoDuration,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookback: Option<IsoDuration>,
    /// Records have no update time: they belong to the window that they were found in (ING-4.4-16).
    #[serde(skip_serializing_if = "is_false")]
    pub monotonic: bool,
    /// How records outside the window are treated; see [`Snapshot::keeps_out_of_range`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<OutOfRange>,
    /// The upstream returns a frozen state of its data (ING-4.5-02).
    #[serde(skip_serializing_if = "is_false")]
    pub as_of: bool,
    pub timezone: String,
    pub boundary_policy: String,
}

impl Default for WindowSpec {
    fn default() -> WindowSpec {
        WindowSpec {
            mode: WindowMode::Time,
            missing: MissingRecords::Keep,
            supports_updated_since: false,
            watermark_key: None,
            safety_lag: DEFAULT_SAFETY_LAG,
            max_window: DEFAULT_MAX_WINDOW,
            min_window: None,
            align: None,
            initial: None,
            lookback: None,
            monotonic: false,
            out_of_range: None,
            as_of: false,
            timezone: "UTC".into(),
            boundary_policy: "[from,to)".into(),
        }
    }
}

fn is_time(mode: &WindowMode) -> bool {
    *mode == WindowMode::Time
}

fn is_kept(missing: &MissingRecords) -> bool {
    *missing == MissingRecords::Keep
}

fn is_endpoint(scope: &DedupScope) -> bool {
    *scope == DedupScope::Endpoint
}

impl Snapshot {
    /// Canonical JSON, as stored.
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
        // Serialisation cannot fail: the value has only texts, numbers and maps with text keys.
        serde_json::to_value(self).unwrap_or_default()
    }
}
