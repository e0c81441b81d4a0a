//! The `auth` section.

use super::body::body;
use super::reader::ManifestReader;
use crate::manifest::{AuthConfig, OAuth2Config, SessionConfig};
use crate::yaml::YamlNode;

pub(super) fn auth(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<AuthConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let auth = AuthConfig {
        r#type: reader.get(s, "type", ManifestReader::keyword),
        location: reader.get(s, "location", ManifestReader::keyword),
        name: reader.get(s, "name", ManifestReader::text),
        prefix: reader.get(s, "prefix", ManifestReader::text),
        credential: reader.get(s, "credential", ManifestReader::code),
        required: reader.get(s, "required", ManifestReader::flag),
        signing_hook: reader.get(s, "signing_hook", ManifestReader::text),
        credential_status: reader.get(s, "credential_status", ManifestReader::integers).unwrap_or_default(),
        oauth2: reader.get(s, "oauth2", oauth2),
        session: reader.get(s, "session", session),
    };
    reader.close(&section);
    Some(auth)
}

fn oauth2(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<OAuth2Config> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let oauth2 = OAuth2Config {
        grant: reader.get(s, "grant", ManifestReader::keyword),
        token_url: reader.get(s, "token_url", ManifestReader::text),
        scope: reader.get(s, "scope", ManifestReader::text),
        audience: reader.get(s, "audience", ManifestReader::text),
        client_auth: reader.get(s, "client_auth", ManifestReader::keyword),
        token_path: reader.get(s, "token_path", ManifestReader::text),
        expires_path: reader.get(s, "expires_path", ManifestReader::text),
        refresh_path: reader.get(s, "refresh_path", ManifestReader::text),
        expires_in: reader.get(s, "expires_in", ManifestReader::duration),
        refresh_ahead: reader.get(s, "refresh_ahead", ManifestReader::duration),
    };
    reader.close(&section);
    Some(oauth2)
}

fn session(reader: &mut ManifestReader, path: &str, node: &YamlNode) -> Option<SessionConfig> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let session = SessionConfig {
        method: reader.get(s, "method", ManifestReader::keyword),
        url: reader.get(s, "url", ManifestReader::text),
        headers: reader.get(s, "headers", ManifestReader::texts).unwrap_or_default(),
        body: reader.get(s, "body", body),
        token_path: reader.get(s, "token_path", ManifestReader::text),
        token_header: reader.get(s, "token_header", ManifestReader::text),
        cookie: reader.get(s, "cookie", ManifestReader::text),
        expires_in: reader.get(s, "expires_in", ManifestReader::duration),
    };
    reader.close(&section);
    Some(session)
}
