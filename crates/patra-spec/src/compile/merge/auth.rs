//! Authentication. Everything that a type implies is written out, so that the transport decides nothing.

use url::Url;

use super::inputs::templates;
use super::response::lower;
use crate::keywords::{AuthLocation, AuthType};
use crate::manifest::{self, EndpointConfig, Manifest};
use crate::snapshot::{AuthSpec, OAuth2Spec, SessionSpec};

pub(super) fn auth(manifest: &Manifest, endpoint: &EndpointConfig) -> AuthSpec {
    let base_url = endpoint.http.base_url.as_deref().unwrap_or_default();
    let declared = endpoint.auth.clone().unwrap_or_default();
    let kind = declared.r#type.unwrap_or_default();
    if kind == AuthType::None {
        return AuthSpec::default();
    }
    let location = declared.location.unwrap_or_default();
    // A session stored in a cookie is sent as a cookie.
    let cookie = declared.session.as_ref().is_some_and(|session| session.cookie.is_some());
    let like = if kind == AuthType::Session && cookie { AuthType::Cookie } else { kind };
    AuthSpec {
        r#type: kind,
        location,
        name: declared.name.unwrap_or_else(|| default_name(like, location).to_owned()),
        prefix: declared.prefix.unwrap_or_else(|| default_prefix(like, location).to_owned()),
        credential_ref: declared.credential.unwrap_or_else(|| manifest.provenance.clone()),
        required: declared.required.unwrap_or(true),
        signing_hook: declared.signing_hook,
        credential_status: declared.credential_status,
        oauth2: declared.oauth2.filter(|_| kind == AuthType::OAuth2).map(oauth2),
        session: declared.session.filter(|_| kind == AuthType::Session).map(|session| self::session(session, base_url)),
    }
}

fn default_name(kind: AuthType, location: AuthLocation) -> &'static str {
    match (kind, location) {
        (AuthType::Cookie, _) => "Cookie",
        (AuthType::Bearer | AuthType::Basic | AuthType::OAuth2 | AuthType::Session, AuthLocation::Header) => {
            "Authorization"
        }
        _ => "",
    }
}

fn default_prefix(kind: AuthType, location: AuthLocation) -> &'static str {
    match (kind, location) {
        (AuthType::Bearer | AuthType::OAuth2 | AuthType::Session, AuthLocation::Header) => "Bearer ",
        _ => "",
    }
}

fn oauth2(declared: manifest::OAuth2Config) -> OAuth2Spec {
    let platform = OAuth2Spec::default();
    OAuth2Spec {
        grant: declared.grant.unwrap_or(platform.grant),
        token_url: declared.token_url.unwrap_or_default(),
        scope: declared.scope,
        audience: declared.audience,
        client_auth: declared.client_auth.unwrap_or(platform.client_auth),
        token_path: declared.token_path.unwrap_or(platform.token_path),
        expires_path: declared.expires_path.unwrap_or(platform.expires_path),
        refresh_path: declared.refresh_path.unwrap_or(platform.refresh_path),
        expires_in: declared.expires_in,
        refresh_ahead: declared.refresh_ahead.unwrap_or(platform.refresh_ahead),
    }
}

fn session(declared: manifest::SessionConfig, base_url: &str) -> SessionSpec {
    let (platform, body) = (SessionSpec::default(), declared.body.unwrap_or_default());
    SessionSpec {
        method: declared.method.unwrap_or(platform.method),
        url: absolute(base_url, &declared.url.unwrap_or_default()),
        headers_template: declared.headers,
        body_template: body.raw,
        body_json: body.json,
        body_form: body.form.map(templates),
        token_path: declared.token_path,
        token_header: lower(declared.token_header),
        cookie: declared.cookie,
        expires_in: declared.expires_in.unwrap_or(platform.expires_in),
    }
}

/// A path is appended to the base URL, like the endpoint's own path.
fn absolute(base_url: &str, url: &str) -> String {
    match Url::parse(base_url) {
        Ok(base) if url.starts_with('/') => format!("{}{url}", base.as_str().trim_end_matches('/')),
        _ => url.to_owned(),
    }
}
