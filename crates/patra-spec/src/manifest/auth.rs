//! The `auth` section. Names and aliases only: secrets are in the vault, never in a manifest.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BodyConfig;
use crate::iso_duration::IsoDuration;
use crate::keywords::{AuthLocation, AuthType, ClientAuth, OAuth2Grant, RequestMethod};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuthConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r#type: Option<AuthType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<AuthLocation>,
    /// Name of the header or parameter that carries the credential.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Alias of the credential in the vault; defaults to the provenance code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
    /// `false` allows requests without a credential (ING-4.2-02).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_hook: Option<String>,
    /// Statuses besides 401 that mean a rejected credential (C-38).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credential_status: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2Config>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionConfig>,
}

/// The `auth.oauth2` section: where tokens come from and how long they live (G-12).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OAuth2Config {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<OAuth2Grant>,
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
    /// Token lifetime if the response does not contain one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<IsoDuration>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refresh_ahead: Option<IsoDuration>,
}

/// The `auth.session` section: the login request, and where its response holds the session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SessionConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<RequestMethod>,
    /// Absolute URL, or a path on the base URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<BodyConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_header: Option<String>,
    /// Name of the cookie that the response sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<IsoDuration>,
}
