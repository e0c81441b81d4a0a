//! Login sessions. A session names an API key, which every request checks again, so that revoking the key ends its
//! sessions at once. Sessions live in this process; a restart ends them all.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use subtle::ConstantTimeEq as _;

use patra_core::Ts;
use patra_core::hash::sha256_hex;

use super::page::Note;
use crate::key::random_hex;

/// Lifetime of a session.
pub(super) const LASTS: Duration = Duration::from_secs(12 * 3_600);
/// Lifetime of a login form.
const FORM_LASTS: Duration = Duration::from_secs(3_600);
/// Most sessions; a new one replaces the one that ends first.
const MAX_SESSIONS: usize = 1_000;
/// Cookie with the secret of a session.
const SESSION_COOKIE: &str = "patra_session";
/// Cookie that proves where the login form came from, before there is a session.
const LOGIN_COOKIE: &str = "patra_login";

#[derive(Clone, Debug)]
pub(super) struct Session {
    /// Public part of the key.
    pub(super) prefix: String,
    /// Token that every form must return.
    pub(super) csrf: String,
    /// The selected project; `None` for all.
    pub(super) project: Option<String>,
    expires_at: Ts,
    /// Notice for the next page.
    notice: Option<Note>,
}

/// Sessions of this process by the hash of their secret, so that memory contains no secrets.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<HashMap<String, Session>>>);

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sessions")
    }
}

impl Sessions {
    /// Begins a session and returns its secret.
    pub(super) fn begin(&self, prefix: String, project: Option<String>, now: Ts) -> Result<String, getrandom::Error> {
        let (secret, csrf) = (random_hex::<32>()?, random_hex::<16>()?);
        let session = Session { prefix, csrf, project, expires_at: now + LASTS, notice: None };
        self.with(|sessions| {
            sessions.retain(|_, session| session.expires_at > now);
            if sessions.len() >= MAX_SESSIONS {
                let first = sessions.iter().min_by_key(|(_, session)| session.expires_at).map(|(id, _)| id.clone());
                first.and_then(|id| sessions.remove(&id));
            }
            sessions.insert(sha256_hex(secret.as_bytes()), session);
        });
        Ok(secret)
    }

    /// The session of a request, and its id.
    pub(super) fn of(&self, headers: &HeaderMap, now: Ts) -> Option<(String, Session)> {
        let id = sha256_hex(cookie(headers, SESSION_COOKIE)?.as_bytes());
        self.with(|sessions| sessions.get(&id).filter(|session| session.expires_at > now).cloned())
            .map(|session| (id, session))
    }

    pub(super) fn end(&self, id: &str) {
        self.with(|sessions| sessions.remove(id));
    }

    pub(super) fn look_at(&self, id: &str, project: Option<String>) {
        self.change(id, |session| session.project = project);
    }

    pub(super) fn set_notice(&self, id: &str, notice: Note) {
        self.change(id, |session| session.notice = Some(notice));
    }

    /// Takes the notice, which is shown once.
    pub(super) fn take_notice(&self, id: &str) -> Option<Note> {
        self.with(|sessions| sessions.get_mut(id).and_then(|session| session.notice.take()))
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Session)) {
        self.with(|sessions| sessions.get_mut(id).map(change));
    }

    fn with<T>(&self, work: impl FnOnce(&mut HashMap<String, Session>) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Session {
    pub(super) fn owns(&self, csrf: &str) -> bool {
        is_same(&self.csrf, csrf)
    }
}

/// Header that begins a session in the browser.
pub(super) fn begun(headers: &HeaderMap, secret: &str) -> String {
    set(headers, SESSION_COOKIE, secret, LASTS)
}

/// Header that ends the session in the browser.
pub(super) fn ended(headers: &HeaderMap) -> String {
    set(headers, SESSION_COOKIE, "", Duration::ZERO)
}

/// Header that accompanies a login form.
pub(super) fn offered(headers: &HeaderMap, token: &str) -> String {
    set(headers, LOGIN_COOKIE, token, FORM_LASTS)
}

/// Whether this browser got the login form with this token.
pub(super) fn was_offered(headers: &HeaderMap, token: &str) -> bool {
    !token.is_empty() && cookie(headers, LOGIN_COOKIE).is_some_and(|offered| is_same(offered, token))
}

fn set(headers: &HeaderMap, name: &str, value: &str, lasts: Duration) -> String {
    // Without TLS in front, a browser would not return a `Secure` cookie.
    let tls = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let secure = if tls { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={}{secure}", lasts.as_secs())
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

fn is_same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_cookie(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(COOKIE, text.parse().unwrap())])
    }

    #[test]
    fn session_is_found_by_its_secret_until_it_ends() {
        let (sessions, now) = (Sessions::default(), Ts::from_secs(1_000));
        let secret = sessions.begin("12345678".into(), None, now).unwrap();
        let headers = with_cookie(&format!("a=b; patra_session={secret}"));
        let (id, session) = sessions.of(&headers, now).expect("it has begun");
        assert_eq!(session.prefix, "12345678");
        assert_ne!(id, secret);
        assert!(sessions.of(&with_cookie(&format!("patra_session={id}")), now).is_none(), "its id is not its secret");
        assert!(sessions.of(&headers, now + LASTS).is_none());
        sessions.end(&id);
        assert!(sessions.of(&headers, now).is_none());
    }

    #[test]
    fn oldest_session_is_replaced_at_the_limit() {
        let sessions = Sessions::default();
        let first = sessions.begin("first".into(), None, Ts::from_secs(0)).unwrap();
        for second in 1..=MAX_SESSIONS {
            sessions.begin("next".into(), None, Ts::from_secs(second as i64)).unwrap();
        }
        assert_eq!(sessions.with(|sessions| sessions.len()), MAX_SESSIONS);
        assert!(sessions.of(&with_cookie(&format!("patra_session={first}")), Ts::from_secs(2)).is_none());
    }

    #[test]
    fn cookie_is_same_site_and_secure_behind_tls() {
        let mut headers = HeaderMap::new();
        assert_eq!(begun(&headers, "s"), "patra_session=s; Path=/; HttpOnly; SameSite=Strict; Max-Age=43200");
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        assert!(begun(&headers, "s").ends_with("; Secure"));
    }
}
