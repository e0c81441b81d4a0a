//! The `auth` section.

use super::body::body;
use super::reader::Reader;
use crate::manifest::{Auth, OAuth2, Session};
use crate::yaml::Node;

pub(super) fn auth(reader: &mut Reader, path: &str, node: &Node) -> Option<Auth> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let auth = Auth {
        r#type: reader.get(s, "type", Reader::word),
        location: reader.get(s, "location", Reader::word),
        name: reader.get(s, "name", Reader::text),
        prefix: reader.get(s, "prefix", Reader::text),
        credential: reader.get(s, "credential", Reader::code),
        required: reader.get(s, "required", Reader::flag),
        signing_hook: reader.get(s, "signing_hook", Reader::text),
        credential_status: reader.get(s, "credential_status", Reader::wholes).unwrap_or_default(),
        oauth2: reader.get(s, "oauth2", oauth2),
        session: reader.get(s, "session", session),
    };
    reader.close(&section);
    Some(auth)
}

fn oauth2(reader: &mut Reader, path: &str, node: &Node) -> Option<OAuth2> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let oauth2 = OAuth2 {
        grant: reader.get(s, "grant", Reader::word),
        token_url: reader.get(s, "token_url", Reader::text),
        scope: reader.get(s, "scope", Reader::text),
        audience: reader.get(s, "audience", Reader::text),
        client_auth: reader.get(s, "client_auth", Reader::word),
        token_path: reader.get(s, "token_path", Reader::text),
        expires_path: reader.get(s, "expires_path", Reader::text),
        refresh_path: reader.get(s, "refresh_path", Reader::text),
        expires_in: reader.get(s, "expires_in", Reader::duration),
        refresh_ahead: reader.get(s, "refresh_ahead", Reader::duration),
    };
    reader.close(&section);
    Some(oauth2)
}

fn session(reader: &mut Reader, path: &str, node: &Node) -> Option<Session> {
    let mut section = reader.section(path, node)?;
    let s = &mut section;
    let session = Session {
        method: reader.get(s, "method", Reader::word),
        url: reader.get(s, "url", Reader::text),
        headers: reader.get(s, "headers", Reader::texts).unwrap_or_default(),
        body: reader.get(s, "body", body),
        token_path: reader.get(s, "token_path", Reader::text),
        token_header: reader.get(s, "token_header", Reader::text),
        cookie: reader.get(s, "cookie", Reader::text),
        expires_in: reader.get(s, "expires_in", Reader::duration),
    };
    reader.close(&section);
    Some(session)
}
