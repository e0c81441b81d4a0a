//! The immutable spec that plans, slices and executors work from (ING-3.9-01). Fields that a reader does not know are
//! ignored and those that are missing have defaults, so that a binary can read what an older or newer one has frozen.

mod auth;
mod detail;
mod expr;
mod http;
mod inputs;
mod limits;
mod mapping;
mod meaning;
mod response;
mod view;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patra_core::state::Operation;
use patra_core::window::Align;
use patra_core::{Ts, hash};

use crate::iso::Iso;
use crate::words::{DedupScope, Kind, OnMaxPage, OutOfRange, PagingType, Role};
use response::is_false;

pub use auth::{Auth, DEFAULT_REFRESH_AHEAD, DEFAULT_SESSION_LIFE, OAuth2, Session};
pub use detail::{Batching, DEFAULT_ID_BATCH_SIZE, TwoPhase, Update};
pub use expr::Expr;
pub use http::Http;
pub use inputs::{Param, Parent, Partition};
pub use limits::{Health, Limits, RateLimit, Retry};
pub use response::{Condition, ErrorRule, Mapping, OutputField, RequestParam, Response};
pub use view::host_key;

pub const DEFAULT_SAFETY_LAG: Iso = Iso::secs(600);
pub const DEFAULT_MAX_WINDOW: Iso = Iso::secs(86_400);
pub const DEFAULT_MAX_BODY_BYTES: u64 = 16 * 1024 * 1024;
pub const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 10_000;
pub const DEFAULT_READ_TIMEOUT_MS: u64 = 30_000;
/// Newest first (ING-4.5-01).
pub const DEFAULT_ORDER_BY: &str = "updated desc";
/// Oldest first: then the newest record of a page bounds all that is read (C-13).
pub const ASCENDING: &str = "updated asc";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    pub provenance_code: String,
    pub endpoint_code: String,
    pub operation: Operation,
    #[serde(default)]
    pub role: Role,
    pub http: Http,
    /// Absent: none is needed.
    #[serde(default, skip_serializing_if = "Auth::is_none")]
    pub auth: Auth,
    /// Inputs of a run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Param>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    #[serde(default)]
    pub expr: Expr,
    /// `None`: one answer holds everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
    #[serde(default)]
    pub window: Window,
    #[serde(default)]
    pub retry: Retry,
    #[serde(default)]
    pub rate_limit: RateLimit,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub health: Health,
    /// How long answers are kept as they came; `None`: not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_keep: Option<Iso>,
    #[serde(default)]
    pub batching: Batching,
    /// `None`: the search gives the records themselves. An UPDATE always has it: it is the second phase alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub two_phase: Option<TwoPhase>,
    /// UPDATE only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    pub response: Response,
    #[serde(default)]
    pub mapping: Mapping,
    #[serde(default)]
    pub kind: Kind,
    /// Read as a whole again and again, without a window.
    #[serde(default, skip_serializing_if = "is_false")]
    pub polled: bool,
    #[serde(default, skip_serializing_if = "is_endpoint")]
    pub dedup_scope: DedupScope,
    /// What is stored is told to the world outside.
    #[serde(default, skip_serializing_if = "is_false")]
    pub emit: bool,
    /// As it was when this was compiled; [`Snapshot::fingerprint`] computes it.
    #[serde(default)]
    pub spec_fingerprint: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pagination {
    pub r#type: PagingType,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The far side's limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page: Option<u32>,
    pub on_max_page: OnMaxPage,
    /// As the far side orders, `updated desc` unless declared (ING-4.5-01).
    pub order_by: String,
    /// Somebody said so; otherwise it is only what is most usual.
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
    /// How many pages one slice reads when the first total says that there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_range: Option<u32>,
    /// PAGE only: whether the first page is number 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base1: Option<bool>,
    pub always_token: bool,
    /// A token that came before is the end (ING-15-01).
    #[serde(skip_serializing_if = "is_false")]
    pub unique_tokens: bool,
    /// A page without a new id is the end (TWEET-170).
    #[serde(skip_serializing_if = "is_false")]
    pub repeat_ends: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_max_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_param: Option<String>,
    /// Ask for the last page once more (ING-4.3-14).
    #[serde(skip_serializing_if = "is_false")]
    pub tail_probe: bool,
}

impl Default for Pagination {
    fn default() -> Pagination {
        Pagination {
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
        }
    }
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
    /// Records have no update time of their own: they are of the window that they were found in (ING-4.4-16).
    #[serde(skip_serializing_if = "is_false")]
    pub monotonic: bool,
    /// What becomes of records outside the window; see [`Snapshot::keeps_out_of_range`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<OutOfRange>,
    /// The far side reads a frozen state of its data (ING-4.5-02).
    #[serde(skip_serializing_if = "is_false")]
    pub as_of: bool,
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
            monotonic: false,
            out_of_range: None,
            as_of: false,
            timezone: "UTC".into(),
            boundary_policy: "[from,to)".into(),
        }
    }
}

fn is_endpoint(scope: &DedupScope) -> bool {
    *scope == DedupScope::Endpoint
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
