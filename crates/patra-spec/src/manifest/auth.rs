//! How we prove who we are. Names and aliases only: what is secret is in the vault, and never in a manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Body;
use crate::iso::Iso;
use crate::words::{AuthLocation, AuthType, ClientAuth, Grant, Method};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<AuthType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<AuthLocation>,
    /// Of the header or parameter that carries the credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The alias in the vault; the provenance's code without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// Whether a request may leave without a credential; never unless this is `false` (ING-4.2-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_hook: Option<String>,
    /// Statuses besides 401 that mean a rejected credential (C-38).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credential_status: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

/// Where tokens come from and how long they live (G-12).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OAuth2 {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_auth: Option<ClientAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_path: Option<String>,
    /// When the answer does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Iso>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_ahead: Option<Iso>,
}

/// The request that logs in, and where its answer holds what later requests carry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Session {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// Absolute, or a path on the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_header: Option<String>,
    /// The name of a cookie that the answer sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Iso>,
}
