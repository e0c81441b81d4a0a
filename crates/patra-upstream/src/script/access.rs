//! Who may read, and how they come by what they must show.

use serde::{Deserialize, Serialize};

/// What a data request must show. Where it does not, the answer is [`super::Script::auth_status`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auth {
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

/// `POST /oauth/token` with a form: `grant_type=client_credentials` or `refresh_token`, the client's id and secret in the
/// form or as Basic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OAuth {
    pub client_id: String,
    pub client_secret: String,
    /// Where the first family begins: the one refresh token that is known before anybody asked.
    pub refresh_token: String,
    /// Of access tokens; the answer says so too.
    pub expires_in_secs: u64,
    /// An access token is void after so many data requests; 0 for no end.
    pub max_uses: u64,
    /// Each refresh token works once, and its second use voids all that came of it. Without, it stays good.
    pub rotate: bool,
    /// `client_credentials` answers with a refresh token too.
    pub issue_refresh: bool,
}

impl Default for OAuth {
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
pub struct Login {
    pub user: String,
    pub password: String,
    pub answer: LoginAnswer,
    pub expires_in_secs: u64,
    /// A session is over after so many data requests; 0 for no end.
    pub max_uses: u64,
}

impl Default for Login {
    fn default() -> Self {
        Self {
            user: "user".to_owned(),
            password: "password".to_owned(),
            answer: LoginAnswer::Body,
            expires_in_secs: 3600,
            max_uses: 0,
        }
    }
}

/// Where the answer to a login has the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginAnswer {
    /// `{"token": …, "expires_in": …}`
    Body,
    /// `X-Session-Token: …`
    Header,
    /// `Set-Cookie: session=…`
    Cookie,
}

/// Signed requests, and `POST /sign`, which signs for those who cannot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Signing {
    pub key_id: String,
    pub secret: String,
    /// How far the time of a signature may lie from now.
    pub tolerance_secs: u64,
    /// Where `/sign` puts the signature; requests may have it in either.
    pub place: SignaturePlace,
    /// The bearer token that `/sign` asks for, if any.
    pub token: Option<String>,
}

impl Default for Signing {
    fn default() -> Self {
        Self {
            key_id: "key-1".to_owned(),
            secret: "signing-secret".to_owned(),
            tolerance_secs: 300,
            place: SignaturePlace::Headers,
            token: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignaturePlace {
    Headers,
    Query,
}
