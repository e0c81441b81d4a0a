//! How we prove who we are, as frozen: a reference to the credential and where it goes, never its value (ING-3.8-01).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::iso::Iso;
use crate::words::{AuthLocation, AuthType, ClientAuth, Grant, Method};

pub const DEFAULT_REFRESH_AHEAD: Iso = Iso::secs(60);
pub const DEFAULT_SESSION_LIFE: Iso = Iso::secs(3_600);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Auth {
    pub r#type: AuthType,
    pub location: AuthLocation,
    /// Of the header or parameter; empty only where a hook decides.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// What stands before the credential, a space included.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prefix: String,
    /// The alias that the vault knows.
    pub credential_ref: String,
    /// False: a request may leave without a credential when there is none.
    pub required: bool,
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

impl Default for Auth {
    fn default() -> Auth {
        Auth {
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

impl Auth {
    pub fn is_none(&self) -> bool {
        self.r#type == AuthType::None
    }

    /// Whether the status says that the credential was not accepted (C-38).
    pub fn is_rejection(&self, status: u16) -> bool {
        status == 401 || self.credential_status.contains(&status)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OAuth2 {
    pub grant: Grant,
    pub token_url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    pub client_auth: ClientAuth,
    pub token_path: String,
    pub expires_path: String,
    pub refresh_path: String,
    /// How long a token lives when the answer does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<Iso>,
    pub refresh_ahead: Iso,
}

impl Default for OAuth2 {
    fn default() -> OAuth2 {
        OAuth2 {
            grant: Grant::ClientCredentials,
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

/// The request that logs in. Its texts are templates, in which `credential.<name>` is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Session {
    pub method: Method,
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
    /// One of these three.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_path: Option<String>,
    /// Lower-case.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_header: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    pub expires_in: Iso,
}

impl Default for Session {
    fn default() -> Session {
        Session {
            method: Method::Post,
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
