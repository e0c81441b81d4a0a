//! The knobs of [`crate::script::access`].

use super::{number, optional};
use crate::script::{MockAuth, Script, SessionLocation, SignatureLocation};

impl Script {
    /// Sets one knob; returns `false` if the name is not known here.
    pub(super) fn set_access(&mut self, name: &str, value: &str) -> Result<bool, String> {
        let text = || value.to_owned();
        match name {
            "auth" => self.auth = auth(value)?,
            "auth_status" => self.auth_status = status(value)?,
            "oauth_client_id" => self.oauth.client_id = text(),
            "oauth_client_secret" => self.oauth.client_secret = text(),
            "oauth_refresh_token" => self.oauth.refresh_token = text(),
            "oauth_expires_in_secs" => self.oauth.expires_in_secs = number(name, value)?,
            "oauth_max_uses" => self.oauth.max_uses = number(name, value)?,
            "oauth_rotate" => self.oauth.rotate = number(name, value)?,
            "oauth_issue_refresh" => self.oauth.issue_refresh = number(name, value)?,
            "login_user" => self.login.user = text(),
            "login_password" => self.login.password = text(),
            "login_location" => self.login.location = session_location(value)?,
            "login_expires_in_secs" => self.login.expires_in_secs = number(name, value)?,
            "login_max_uses" => self.login.max_uses = number(name, value)?,
            "signing_key_id" => self.signing.key_id = text(),
            "signing_secret" => self.signing.secret = text(),
            "signing_tolerance_secs" => self.signing.tolerance_secs = number(name, value)?,
            "signing_location" => self.signing.location = signature_location(value)?,
            "signing_token" => self.signing.token = optional(value, |v| Ok(v.to_owned()))?,
            "auth_latency_ms" => self.auth_latency_ms = number(name, value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// Parses `header:NAME:VALUE` etc.
fn auth(text: &str) -> Result<MockAuth, String> {
    let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
    let pair = || {
        let (name, value) = rest.split_once(':').ok_or_else(|| format!("auth must be {kind}:NAME:VALUE"))?;
        Ok::<_, String>((name.trim().to_owned(), value.trim().to_owned()))
    };
    Ok(match kind {
        "open" | "none" => MockAuth::Open,
        "oauth" => MockAuth::OAuth,
        "session" => MockAuth::Session,
        "signed" => MockAuth::Signed,
        "bearer" if !rest.is_empty() => MockAuth::Bearer { token: rest.to_owned() },
        "header" => pair().map(|(name, value)| MockAuth::Header { name, value })?,
        "query" => pair().map(|(name, value)| MockAuth::Query { name, value })?,
        "body" => pair().map(|(name, value)| MockAuth::Body { name, value })?,
        "basic" => pair().map(|(user, password)| MockAuth::Basic { user, password })?,
        "cookie" => pair().map(|(name, value)| MockAuth::Cookie { name, value })?,
        _ => return Err(format!("auth cannot be {text:?}")),
    })
}

fn status(text: &str) -> Result<u16, String> {
    match text {
        "401" => Ok(401),
        "403" => Ok(403),
        _ => Err(format!("auth_status is 401 or 403, not {text:?}")),
    }
}

fn session_location(text: &str) -> Result<SessionLocation, String> {
    match text {
        "body" => Ok(SessionLocation::Body),
        "header" => Ok(SessionLocation::Header),
        "cookie" => Ok(SessionLocation::Cookie),
        _ => Err(format!("login_location is body, header or cookie, not {text:?}")),
    }
}

fn signature_location(text: &str) -> Result<SignatureLocation, String> {
    match text {
        "headers" => Ok(SignatureLocation::Headers),
        "query" => Ok(SignatureLocation::Query),
        _ => Err(format!("signing_location is headers or query, not {text:?}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{check, check_in};
    use super::*;

    #[test]
    fn every_knob_sets_its_field() {
        check("auth", "header:X-Key: s:3", "auth", &json!({"header": {"name": "X-Key", "value": "s:3"}}));
        check("auth", "query:key:s3", "auth", &json!({"query": {"name": "key", "value": "s3"}}));
        check("auth", "body:key:s3", "auth", &json!({"body": {"name": "key", "value": "s3"}}));
        check("auth", "bearer:t:1", "auth", &json!({"bearer": {"token": "t:1"}}));
        check("auth", "basic:me:secret", "auth", &json!({"basic": {"user": "me", "password": "secret"}}));
        check("auth", "cookie:sid:s3", "auth", &json!({"cookie": {"name": "sid", "value": "s3"}}));
        for (kind, expected) in [("oauth", "oauth"), ("session", "session"), ("signed", "signed"), ("none", "open")] {
            check("auth", kind, "auth", &json!(expected));
        }
        check("auth_status", "403", "auth_status", &json!(403));
        check("auth_latency_ms", "5", "auth_latency_ms", &json!(5));
        for field in ["client_id", "client_secret", "refresh_token"] {
            check_in("oauth", field, "x", &json!("x"));
        }
        check_in("oauth", "expires_in_secs", "5", &json!(5));
        check_in("oauth", "max_uses", "5", &json!(5));
        check_in("oauth", "rotate", "false", &json!(false));
        check_in("oauth", "issue_refresh", "true", &json!(true));
        check_in("login", "user", "x", &json!("x"));
        check_in("login", "password", "x", &json!("x"));
        check_in("login", "location", "cookie", &json!("cookie"));
        check_in("login", "expires_in_secs", "5", &json!(5));
        check_in("login", "max_uses", "5", &json!(5));
        check_in("signing", "key_id", "x", &json!("x"));
        check_in("signing", "secret", "x", &json!("x"));
        check_in("signing", "tolerance_secs", "5", &json!(5));
        check_in("signing", "location", "query", &json!("query"));
        check_in("signing", "token", "x", &json!("x"));
    }

    #[test]
    fn invalid_values_are_rejected() {
        for (name, value) in [
            ("auth", "header:X-Key"),
            ("auth", "bearer"),
            ("auth", "magic"),
            ("auth_status", "500"),
            ("login_location", "mail"),
            ("signing_location", "body"),
            ("oauth_rotate", "maybe"),
        ] {
            assert!(Script::default().set(name, value).is_err(), "{name}={value}");
        }
    }
}
