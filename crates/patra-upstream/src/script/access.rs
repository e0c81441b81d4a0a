//! Authentication of data requests, and the endpoints that issue credentials.

use serde::{Deserialize, Serialize};

/// How a data request must authenticate. Otherwise the response has [`super::Script::auth_status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MockAuth {
    #[default]
    Open,
    /// An API key in a header.
    Header {
        name: String,
        value: String,
    },
    /// An API key in the query.
    Query {
        name: String,
        value: String,
    },
    /// An API key in the body, as a field of a JSON object or of a form.
    Body {
        name: String,
        value: String,
    },
    /// `Authorization: Bearer …`
    Bearer {
        token: String,
    },
    /// `Authorization: Basic …`
    Basic {
        user: String,
        password: String,
    },
    Cookie {
        name: String,
        value: String,
    },
    /// An access token of `/oauth/token`, as bearer.
    #[serde(rename = "oauth")]
    OAuth,
    /// A session of `/login`: as bearer, in the header `X-Session-Token` or in the cookie `session`.
    Session,
    /// A signature; see [`crate::sign`].
    Signed,
}

/// `POST /oauth/token` with a form: `grant_type=client_credentials` or `refresh_token`, client id and secret in the
/// form or as Basic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenEndpoint {
    pub client_id: String,
    pub client_secret: String,
    /// The initial refresh token, valid without a prior grant.
    pub refresh_token: String,
    /// Lifetime of access tokens, also in the response.
    pub expires_in_secs: u64,
    /// Data requests after which an access token expires; 0 for unlimited.
    pub max_uses: u64,
    /// Each refresh token works once, and its reuse revokes all tokens derived from it. If false, it stays valid.
    pub rotate: bool,
    /// `client_credentials` returns a refresh token too.
    pub issue_refresh: bool,
}

impl Default for TokenEndpoint {
    fn default() -> Self {
        Self {
            client_id: "client".to_owned(),
            client_secret: "client-secret".to_owned(),
            refresh_token: "refresh-0".to_owned(),
            expires_in_secs: 3600,
            max_uses: 0,
            rotate: true,
            issue_refresh: false,
        }
    }
}

/// `POST /login` with `user` and `password`, as a JSON object or as a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoginEndpoint {
    pub user: String,
    pub password: String,
    pub location: SessionLocation,
    pub expires_in_secs: u64,
    /// Data requests after which a session expires; 0 for unlimited.
    pub max_uses: u64,
}

impl Default for LoginEndpoint {
    fn default() -> Self {
        Self {
            user: "user".to_owned(),
            password: "password".to_owned(),
            location: SessionLocation::Body,
            expires_in_secs: 3600,
            max_uses: 0,
        }
    }
}

/// Where the login response contains the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionLocation {
    /// `{"token": …, "expires_in": …}`
    Body,
    /// `X-Session-Token: …`
    Header,
    /// `Set-Cookie: session=…`
    Cookie,
}

/// Signed requests, and `POST /sign`, which signs on behalf of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RequestSigning {
    pub key_id: String,
    pub secret: String,
    /// Largest difference between the time of a signature and now.
    pub tolerance_secs: u64,
    /// Where `/sign` puts the signature; requests may use either location.
    pub location: SignatureLocation,
    /// The bearer token that `/sign` requires, if any.
    pub token: Option<String>,
}

impl Default for RequestSigning {
    fn default() -> Self {
        Self {
            key_id: "key-1".to_owned(),
            secret: "signing-secret".to_owned(),
            tolerance_secs: 300,
            location: SignatureLocation::Headers,
            token: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureLocation {
    Headers,
    Query,
}
