//! Stores issued access tokens, refresh tokens and sessions. All tokens of one grant are a family, so that the reuse of
//! a refresh token can revoke all tokens derived from it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::rng::mix;
use crate::script::{LoginEndpoint, TokenEndpoint};
use crate::stats::AccessStats;

/// Most stored tokens of each kind; the oldest are dropped first.
const MAX_KEPT: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct TokenStore {
    pub(crate) stats: AccessStats,
    serial: u64,
    tokens: HashMap<String, IssuedToken>,
    sessions: HashMap<String, IssuedToken>,
    refresh: HashMap<String, RefreshToken>,
}

/// An access token or session with an expiry and a number of uses.
#[derive(Debug)]
struct IssuedToken {
    serial: u64,
    family: u64,
    until: Instant,
    /// Remaining uses; `None` for unlimited.
    uses: Option<u64>,
}

#[derive(Debug)]
struct RefreshToken {
    serial: u64,
    family: u64,
    used: bool,
    revoked: bool,
}

/// The tokens that a client receives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TokenGrant {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
}

impl TokenStore {
    /// Issues tokens to an authenticated client.
    pub(crate) fn grant(&mut self, now: Instant, oauth: &TokenEndpoint) -> TokenGrant {
        let family = self.next();
        let refresh_token = oauth.issue_refresh.then(|| self.issue_refresh(family));
        self.issue_access(now, oauth, family, refresh_token)
    }

    /// Exchanges a refresh token. Returns `None` for an invalid token; a reused one revokes its whole family.
    pub(crate) fn refresh(&mut self, now: Instant, oauth: &TokenEndpoint, token: &str) -> Option<TokenGrant> {
        if token == oauth.refresh_token && !self.refresh.contains_key(token) {
            let serial = self.next();
            self.refresh.insert(token.to_owned(), RefreshToken { serial, family: serial, used: false, revoked: false });
        }
        let known = self.refresh.get_mut(token).filter(|refresh| !refresh.revoked)?;
        let family = known.family;
        if oauth.rotate && known.used {
            self.stats.refresh_reuses += 1;
            self.revoke_family(family);
            return None;
        }
        known.used = true;
        let next = if oauth.rotate { self.issue_refresh(family) } else { token.to_owned() };
        self.stats.refreshes += 1;
        Some(self.issue_access(now, oauth, family, Some(next)))
    }

    pub(crate) fn log_in(&mut self, now: Instant, login: &LoginEndpoint) -> String {
        let serial = self.next();
        let session = format!("session-{serial}-{:08x}", mix(serial) as u32);
        self.stats.logins += 1;
        let pass = IssuedToken::new(serial, serial, now, login.expires_in_secs, login.max_uses);
        insert_bounded(&mut self.sessions, session.clone(), pass, |pass| pass.serial);
        session
    }

    /// Whether the access token is valid; counts as one use.
    pub(crate) fn use_token(&mut self, now: Instant, token: &str) -> bool {
        self.tokens.get_mut(token).is_some_and(|pass| pass.use_once(now))
    }

    /// Whether the session is valid; counts as one use.
    pub(crate) fn use_session(&mut self, now: Instant, session: &str) -> bool {
        self.sessions.get_mut(session).is_some_and(|pass| pass.use_once(now))
    }

    /// Revokes all access tokens; refresh tokens stay valid.
    pub(crate) fn revoke_tokens(&mut self) {
        self.tokens.clear();
    }

    pub(crate) fn revoke_sessions(&mut self) {
        self.sessions.clear();
    }

    fn revoke_family(&mut self, family: u64) {
        self.tokens.retain(|_, pass| pass.family != family);
        self.refresh.values_mut().filter(|refresh| refresh.family == family).for_each(|refresh| refresh.revoked = true);
    }

    fn issue_access(
        &mut self,
        now: Instant,
        oauth: &TokenEndpoint,
        family: u64,
        refresh_token: Option<String>,
    ) -> TokenGrant {
        let serial = self.next();
        let access_token = format!("access-{serial}-{:08x}", mix(serial) as u32);
        let pass = IssuedToken::new(serial, family, now, oauth.expires_in_secs, oauth.max_uses);
        self.stats.tokens_issued += 1;
        insert_bounded(&mut self.tokens, access_token.clone(), pass, |pass| pass.serial);
        TokenGrant { access_token, refresh_token }
    }

    fn issue_refresh(&mut self, family: u64) -> String {
        let serial = self.next();
        let token = format!("refresh-{serial}-{:08x}", mix(serial) as u32);
        let refresh = RefreshToken { serial, family, used: false, revoked: false };
        insert_bounded(&mut self.refresh, token.clone(), refresh, |refresh| refresh.serial);
        token
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl IssuedToken {
    fn new(serial: u64, family: u64, now: Instant, expires_in_secs: u64, max_uses: u64) -> Self {
        // Capped at a year, because an `Instant` cannot hold an unlimited lifetime.
        let life = Duration::from_secs(expires_in_secs.min(365 * 86_400));
        Self { serial, family, until: now + life, uses: (max_uses > 0).then_some(max_uses) }
    }

    fn use_once(&mut self, now: Instant) -> bool {
        let good = now < self.until && self.uses != Some(0);
        if good {
            self.uses = self.uses.map(|uses| uses - 1);
        }
        good
    }
}

fn insert_bounded<T>(map: &mut HashMap<String, T>, key: String, value: T, serial: impl Fn(&T) -> u64) {
    if map.len() as u64 >= MAX_KEPT {
        // Drops half of the entries at once, so that not every insertion walks the whole map.
        let newest = serial(&value);
        map.retain(|_, kept| serial(kept).saturating_add(MAX_KEPT / 2) > newest);
    }
    map.insert(key, value);
}

#[cfg(test)]
mod tests;
