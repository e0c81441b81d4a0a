//! A manifest as written. Every setting is optional, except those that name the manifest; merging and defaults are the
//! compiler's job. The registry stores the manifest as a JSON document.

mod auth;
mod body;
mod detail;
mod expr;
mod inputs;
mod limits;
mod paths;
mod record;
mod request_param;
mod response;
mod schedule;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use patra_core::Ts;
use patra_core::window::Align;

use crate::iso_duration::IsoDuration;
use crate::keywords::{
    EndpointRole, MissingRecords, OnMaxPage, OutOfRange, PagingType, RecordKind, RequestMethod, RobotsRule, VerifyMode,
    WindowMode,
};
use crate::origin::ManifestOrigin;
use crate::problem::{Problem, Problems};

pub use auth::{AuthConfig, OAuth2Config, SessionConfig};
pub use body::BodyConfig;
pub use detail::{BatchingConfig, TwoPhaseConfig, UpdateConfig};
pub use expr::ExprConfig;
pub use inputs::{ParamConfig, ParentConfig, PartitionConfig};
pub use limits::{HeaderAdaptive, HealthConfig, LimitsConfig, RateLimitConfig, RawConfig, RetryConfig};
pub use paths::IdPaths;
pub use record::{FieldConfig, RecordConfig};
pub use request_param::RequestParamConfig;
pub use response::{ConditionConfig, CsvConfig, ErrorRuleConfig, HtmlConfig, ResponseConfig, XmlConfig};
pub use schedule::{ScheduleConfig, UpdateScheduleConfig};

/// A provenance (the source API) and its endpoints.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Provenance code, lower-case and trimmed (PLT-04).
    pub provenance: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The project that the manifest belongs to; `None` for all projects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Allows plain HTTP (C-46).
    #[serde(default)]
    pub allow_http: bool,
    /// Settings that all endpoints inherit; an endpoint's own setting wins. Keys that define one endpoint are not
    /// allowed here: see `read::endpoint`.
    #[serde(default)]
    pub defaults: EndpointConfig,
    pub endpoints: BTreeMap<String, EndpointConfig>,
    /// Offline tests, stored unchanged for the test runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<serde_json::Value>,
    #[serde(skip)]
    pub(crate) origin: ManifestOrigin,
}

impl Manifest {
    /// Whether an endpoint may reach private networks, which only an administrator may allow.
    pub fn names_networks(&self) -> bool {
        let sections = std::iter::once(&self.defaults).chain(self.endpoints.values());
        sections.into_iter().any(|section| section.http.allow_net.as_ref().is_some_and(|networks| !networks.is_empty()))
    }

    /// The document that the registry stores. [`patra_core::hash::canonical`] of it is the same for every spelling of
    /// the same manifest.
    pub fn to_document(&self) -> serde_json::Value {
        // Serialisation cannot fail: a manifest has only texts, numbers and maps with text keys.
        serde_json::to_value(self).unwrap_or_default()
    }

    /// Reads what [`Manifest::to_document`] wrote. Its values are checked again when an endpoint is compiled.
    pub fn from_document(document: &serde_json::Value) -> Result<Manifest, Problems> {
        Manifest::deserialize(document).map_err(|error| {
            let message = format!("the stored manifest cannot be read: {error}");
            let (file, path) = (String::new(), String::new());
            Problems::one(Problem { file, line: 0, column: 0, path, message, hint: None })
        })
    }
}

/// Settings of one endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EndpointConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<EndpointRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The endpoint is polled for sources and read as a whole each time; it has no window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled: Option<bool>,
    /// Short for `http.method`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<RequestMethod>,
    /// Short for `http.path`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Short for `response.items_path`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_path: Option<String>,
    #[serde(skip_serializing_if = "HttpConfig::is_empty")]
    pub http: HttpConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<AuthConfig>,
    /// Inputs of a run, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, ParamConfig>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionConfig>,
    #[serde(skip_serializing_if = "ExprConfig::is_empty")]
    pub expr: ExprConfig,
    /// Query parameters, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, RequestParamConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagination: Option<PaginationConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<WindowConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_phase: Option<TwoPhaseConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateConfig>,
    #[serde(skip_serializing_if = "BatchingConfig::is_empty")]
    pub batching: BatchingConfig,
    #[serde(skip_serializing_if = "ResponseConfig::is_empty")]
    pub response: ResponseConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<RecordKind>,
    #[serde(skip_serializing_if = "RecordConfig::is_empty")]
    pub record: RecordConfig,
    /// Mapped fields of the record, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, FieldConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleConfig>,
    #[serde(skip_serializing_if = "RetryConfig::is_empty")]
    pub retry: RetryConfig,
    #[serde(skip_serializing_if = "RateLimitConfig::is_empty")]
    pub rate_limit: RateLimitConfig,
    #[serde(skip_serializing_if = "LimitsConfig::is_empty")]
    pub limits: LimitsConfig,
    #[serde(skip_serializing_if = "HealthConfig::is_empty")]
    pub health: HealthConfig,
    #[serde(skip_serializing_if = "RawConfig::is_empty")]
    pub raw: RawConfig,
}

/// The `http` section: how requests are sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The param that holds the whole URL, instead of `base_url` and `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<RequestMethod>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, RequestParamConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_timeout: Option<IsoDuration>,
    /// Timeout of one whole attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<IsoDuration>,
    /// Largest body, after decompression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// Most redirects to follow (ING-4.2-09).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_redirects: Option<u8>,
    /// Whether compressed responses are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Private networks that the requests may reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_net: Option<Vec<String>>,
    /// Whether the robots.txt of the host decides; by default only for pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robots: Option<RobotsRule>,
}

/// The `pagination` section. Without it, a single response holds everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PaginationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<PagingType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The upstream's own limit, which `page_size` must not exceed (ING-4.3-07).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_max_page: Option<OnMaxPage>,
    /// The order in which the upstream returns records (C-13).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_by: Option<String>,
    /// The token of the first request (C-65).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_token_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_url_path: Option<String>,
    /// `link`: RFC 8288, the link with rel="next". Any other header holds the URL itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_url_header: Option<String>,
    /// Hosts that a next URL may point to, besides the base URL's (G-25).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// Most records of one query that the upstream returns (ING-15-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ceiling: Option<u64>,
    /// Pages per slice if a query has more (ING-8.2-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_range: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    /// Number of the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The upstream returns a token on its last page too (C-65).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_token: Option<bool>,
    /// A repeated token means the end (ING-15-01).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_tokens: Option<bool>,
    /// A page without a new id means the end (TWEET-170).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_ends: Option<bool>,
    /// The param that holds the number of records after which a run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_param: Option<String>,
    /// The param that holds the number of records up to which a run continues while all records are new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_max_param: Option<String>,
    /// The param that holds the newest known id; the run stops there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_param: Option<String>,
    /// Requests the last page once more (ING-4.3-14).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_probe: Option<bool>,
    /// How completeness is checked while the list may move (G-23).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifyMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_empty_pages: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_requests_without_new_records: Option<u32>,
}

/// The `window` section: how time is split into slices, and where HARVEST begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WindowConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<WindowMode>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRecords>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_updated_since: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_lag: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    /// The first watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookback: Option<IsoDuration>,
    /// Records have no update time; the watermark replaces it and only grows (ING-4.4-16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monotonic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<OutOfRange>,
    /// The upstream returns a frozen state of its data (ING-4.5-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<bool>,
}

macro_rules! is_empty {
    ($($name:ident),*) => {$(
        impl $name {
            fn is_empty(&self) -> bool {
                *self == $name::default()
            }
        }
    )*};
}

is_empty!(
    BatchingConfig,
    ExprConfig,
    HealthConfig,
    HttpConfig,
    LimitsConfig,
    RateLimitConfig,
    RawConfig,
    RecordConfig,
    ResponseConfig,
    RetryConfig
);
