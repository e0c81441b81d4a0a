//! A manifest as it was written: every setting is optional here unless it names the manifest; merging and defaults are
//! the compiler's job. The registry stores it as a JSON document.

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

use crate::iso::Iso;
use crate::origin::Origin;
use crate::problem::{Problem, Problems};
use crate::words::{Kind, Method, OnMaxPage, OutOfRange, PagingType, Role};

pub use auth::{Auth, OAuth2, Session};
pub use body::Body;
pub use detail::{Batching, TwoPhase, Update};
pub use expr::Expr;
pub use inputs::{Param, Parent, Partition};
pub use limits::{HeaderAdaptive, Health, Limits, RateLimit, Raw, Retry};
pub use paths::Paths;
pub use record::{Field, Record};
pub use request_param::RequestParam;
pub use response::{Condition, Csv, ErrorRule, Html, Response, Xml};
pub use schedule::{Schedule, UpdateSchedule};

/// A provenance (who) and its endpoints (how).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The code, lower-case and trimmed (PLT-04).
    pub provenance: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The project that it is for; `None`: for all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// Plain HTTP is refused unless this says otherwise (C-46).
    #[serde(default)]
    pub allow_http: bool,
    /// What the endpoints share; an endpoint's own setting wins. Of an endpoint's keys it never has those that say what
    /// the one endpoint is: see `read::endpoint`.
    #[serde(default)]
    pub defaults: Endpoint,
    pub endpoints: BTreeMap<String, Endpoint>,
    /// Offline tests, kept as they are for the test runner.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<serde_json::Value>,
    #[serde(skip)]
    pub(crate) origin: Origin,
}

impl Manifest {
    /// The form that the registry stores; [`patra_core::hash::canonical`] of it is the same for every spelling of the
    /// same manifest.
    pub fn to_document(&self) -> serde_json::Value {
        // A manifest holds texts, numbers and maps with text keys: nothing that JSON could refuse.
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

/// One way to ask.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Endpoint {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Read as a whole again and again, for sources; it has no window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub polled: Option<bool>,
    /// Short for `http.method`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Short for `http.path`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Short for `response.items_path`, which wins over it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items_path: Option<String>,
    #[serde(skip_serializing_if = "Http::is_empty")]
    pub http: Http,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
    /// Inputs of a run.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Param>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<Partition>,
    #[serde(skip_serializing_if = "Expr::is_empty")]
    pub expr: Expr,
    /// Parameter to template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, RequestParam>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pagination: Option<Pagination>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub two_phase: Option<TwoPhase>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<Update>,
    #[serde(skip_serializing_if = "Batching::is_empty")]
    pub batching: Batching,
    #[serde(skip_serializing_if = "Response::is_empty")]
    pub response: Response,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    #[serde(skip_serializing_if = "Record::is_empty")]
    pub record: Record,
    /// Field of the record to where it comes from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<Schedule>,
    #[serde(skip_serializing_if = "Retry::is_empty")]
    pub retry: Retry,
    #[serde(skip_serializing_if = "RateLimit::is_empty")]
    pub rate_limit: RateLimit,
    #[serde(skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    #[serde(skip_serializing_if = "Health::is_empty")]
    pub health: Health,
    #[serde(skip_serializing_if = "Raw::is_empty")]
    pub raw: Raw,
}

/// How requests are made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The param that holds the whole URL, in the place of `base_url` and `path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_param: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, RequestParam>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_timeout: Option<Iso>,
    /// The whole of one attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Iso>,
    /// After decompression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_body_bytes: Option<u64>,
    /// Redirects to follow (ING-4.2-09).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_redirects: Option<u8>,
    /// Whether compressed answers are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
}

/// How a slice is read page by page. Without one, a single answer holds everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Pagination {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<PagingType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// The far side's own limit, which `page_size` must not exceed (ING-4.3-07).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page_size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_max_page: Option<OnMaxPage>,
    /// The order that the far side keeps (C-13).
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
    /// Hosts besides the base URL's that a next URL may lead to (G-25).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_hosts: Vec<String>,
    /// How many records of one query the far side gives out (ING-15-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ceiling: Option<u64>,
    /// How many pages one slice reads when there are more (ING-8.2-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_range: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_more_path: Option<String>,
    /// Number of the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// The far side gives a token on its last page too (C-65).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub always_token: Option<bool>,
    /// A token that came before is the end (ING-15-01).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unique_tokens: Option<bool>,
    /// A page without a new id is the end (TWEET-170).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat_ends: Option<bool>,
    /// The param that says after how many records a run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_param: Option<String>,
    /// The param that says how far it goes on while all is new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_max_param: Option<String>,
    /// The param that holds the id up to which records are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_param: Option<String>,
    /// Ask for the last page once more (ING-4.3-14).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_probe: Option<bool>,
}

/// How time is cut, and where HARVEST begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Window {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_updated_since: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watermark_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safety_lag: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_window: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_window: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub align: Option<Align>,
    /// The first watermark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial: Option<Ts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lookback: Option<Iso>,
    /// The watermark stands for records without an update time, and only grows (ING-4.4-16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub monotonic: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_range: Option<OutOfRange>,
    /// The far side reads a frozen state of its data (ING-4.5-02).
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

is_empty!(Batching, Expr, Health, Http, Limits, RateLimit, Raw, Record, Response, Retry);
