//! HTTP settings in a snapshot (ING-3.3-12).

use std::collections::BTreeMap;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::keywords::{RequestMethod, RobotsRule};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpSpec {
    pub method: RequestMethod,
    pub base_url: String,
    /// The param that holds the whole URL, instead of base URL and path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url_param: Option<String>,
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
    /// Deadline of one whole attempt, if set (C-44).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    pub max_body_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub max_redirects: u8,
    /// Whether compressed responses are requested.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub compression: bool,
    /// Proxy URL, without user and password.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Private networks that the requests may reach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_net: Vec<IpNet>,
    #[serde(skip_serializing_if = "is_ignored")]
    pub robots: RobotsRule,
}

impl Default for HttpSpec {
    fn default() -> HttpSpec {
        HttpSpec {
            method: RequestMethod::Get,
            base_url: String::new(),
            url_param: None,
            path_template: String::new(),
            headers_template: BTreeMap::new(),
            query_template: BTreeMap::new(),
            body_template: None,
            body_json: None,
            body_form: None,
            connect_timeout_ms: super::DEFAULT_CONNECT_TIMEOUT_MS,
            read_timeout_ms: super::DEFAULT_READ_TIMEOUT_MS,
            timeout_ms: None,
            max_body_bytes: super::DEFAULT_MAX_BODY_BYTES,
            max_redirects: 0,
            compression: true,
            proxy: None,
            allow_net: Vec::new(),
            robots: RobotsRule::default(),
        }
    }
}

fn is_ignored(robots: &RobotsRule) -> bool {
    *robots == RobotsRule::Ignore
}

fn is_zero(number: &u8) -> bool {
    *number == 0
}
