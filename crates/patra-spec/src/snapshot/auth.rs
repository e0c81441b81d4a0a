//! Authentication in a snapshot: a reference to the credential and where it goes, never its value (ING-3.8-01).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::iso_duration::IsoDuration;
use crate::keywords::{AuthLocation, AuthType, ClientAuth, OAuth2Grant, RequestMethod};

pub const DEFAULT_REFRESH_AHEAD: IsoDuration = IsoDuration::secs(60);
pub const DEFAULT_SESSION_LIFE: IsoDuration = IsoDuration::secs(3_600);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthSpec {
    pub r#type: AuthType,
    pub location: AuthLocation,
    /// Name of the header or parameter; empty only if a signing hook decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Text before the credential, including a space.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// Alias of the credential in the vault.
    pub credential_ref: String,
    /// If false, a request may be sent without a credential.
    pub required: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_hook: Option<String>,
    /// Statuses besides 401 that mean a rejected credential (C-38).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub credential_status: Vec<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oauth2: Option<OAuth2Spec>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionSpec>,
}

impl Default for AuthSpec {
    fn default() -> AuthSpec {
        AuthSpec {
            r#type: AuthType::None,
            location: AuthLocation::Header,
            name: String::new(),
            prefix: String::new(),
            credential_ref: String::new(),
            required: true,
            signing_hook: None,
            credential_status: Vec::new(),
            oauth2: None,
            session: None,
        }
    }
}

impl AuthSpec {
    pub fn is_none(&self) -> bool {
        self.r#type == AuthType::None
    }

    /// Whether the status means that the credential was rejected (C-38).
    pub fn is_rejection(&self, status: u16) -> bool {
        status == 401 || self.credential_status.contains(&status)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OAuth2Spec {
    pub grant: OAuth2Grant,
    pub token_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    pub client_auth: ClientAuth,
    pub token_path: String,
    pub expires_path: String,
    pub refresh_path: String,
    /// Token lifetime if the response does not contain one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<IsoDuration>,
    pub refresh_ahead: IsoDuration,
}

impl Default for OAuth2Spec {
    fn default() -> OAuth2Spec {
        OAuth2Spec {
            grant: OAuth2Grant::ClientCredentials,
            token_url: String::new(),
            scope: None,
            audience: None,
            client_auth: ClientAuth::Basic,
            token_path: "$.access_token".into(),
            expires_path: "$.expires_in".into(),
            refresh_path: "$.refresh_token".into(),
            expires_in: None,
            refresh_ahead: DEFAULT_REFRESH_AHEAD,
        }
    }
}

/// The login request. Its texts are templates that can read `credential.<name>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionSpec {
    pub method: RequestMethod,
    /// Absolute.
    pub url: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers_template: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_json: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_form: Option<BTreeMap<String, String>>,
    /// One of `token_path`, `token_header` and `cookie` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    /// Lower-case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    pub expires_in: IsoDuration,
}

impl Default for SessionSpec {
    fn default() -> SessionSpec {
        SessionSpec {
            method: RequestMethod::Post,
            url: String::new(),
            headers_template: BTreeMap::new(),
            body_template: None,
            body_json: None,
            body_form: None,
            token_path: None,
            token_header: None,
            cookie: None,
            expires_in: DEFAULT_SESSION_LIFE,
        }
    }
}
