//! What was handed out: access tokens, refresh tokens, sessions. All of one login or grant are a family, so that a refresh
//! token that comes a second time can take back whatever grew from it.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::rng::mix;
use crate::script::{Login, OAuth};
use crate::stats::AccessStats;

/// Of each kind; the oldest are forgotten first.
const MAX_KEPT: u64 = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Vault {
    pub(crate) stats: AccessStats,
    serial: u64,
    tokens: HashMap<String, Pass>,
    sessions: HashMap<String, Pass>,
    refresh: HashMap<String, Refresh>,
}

/// Good for a time and for a number of uses.
#[derive(Debug)]
struct Pass {
    serial: u64,
    family: u64,
    until: Instant,
    /// `None` for no end.
    uses: Option<u64>,
}

#[derive(Debug)]
struct Refresh {
    serial: u64,
    family: u64,
    used: bool,
    revoked: bool,
}

/// What a client gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) access_token: String,
    pub(crate) refresh_token: Option<String>,
}

impl Vault {
    /// For a client that has proved who it is.
    pub(crate) fn grant(&mut self, now: Instant, oauth: &OAuth) -> Granted {
        let family = self.next();
        let refresh_token = oauth.issue_refresh.then(|| self.issue_refresh(family));
        self.granted(now, oauth, family, refresh_token)
    }

    /// `None` for a token that is not good. One that was used before takes its whole family with it.
    pub(crate) fn refresh(&mut self, now: Instant, oauth: &OAuth, token: &str) -> Option<Granted> {
        if token == oauth.refresh_token && !self.refresh.contains_key(token) {
            let serial = self.next();
            self.refresh.insert(token.to_owned(), Refresh { serial, family: serial, used: false, revoked: false });
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
        Some(self.granted(now, oauth, family, Some(next)))
    }

    pub(crate) fn log_in(&mut self, now: Instant, login: &Login) -> String {
        let serial = self.next();
        let session = format!("session-{serial}-{:08x}", mix(serial) as u32);
        self.stats.logins += 1;
        let pass = Pass::new(serial, serial, now, login.expires_in_secs, login.max_uses);
        keep(&mut self.sessions, session.clone(), pass, |pass| pass.serial);
        session
    }

    /// Whether the access token is good; counts as one of its uses.
    pub(crate) fn use_token(&mut self, now: Instant, token: &str) -> bool {
        self.tokens.get_mut(token).is_some_and(|pass| pass.take(now))
    }

    /// Whether the session is good; counts as one of its uses.
    pub(crate) fn use_session(&mut self, now: Instant, session: &str) -> bool {
        self.sessions.get_mut(session).is_some_and(|pass| pass.take(now))
    }

    /// Every access token is void from now on; refresh tokens stay.
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

    fn granted(&mut self, now: Instant, oauth: &OAuth, family: u64, refresh_token: Option<String>) -> Granted {
        let serial = self.next();
        let access_token = format!("access-{serial}-{:08x}", mix(serial) as u32);
        let pass = Pass::new(serial, family, now, oauth.expires_in_secs, oauth.max_uses);
        self.stats.tokens_issued += 1;
        keep(&mut self.tokens, access_token.clone(), pass, |pass| pass.serial);
        Granted { access_token, refresh_token }
    }

    fn issue_refresh(&mut self, family: u64) -> String {
        let serial = self.next();
        let token = format!("refresh-{serial}-{:08x}", mix(serial) as u32);
        let refresh = Refresh { serial, family, used: false, revoked: false };
        keep(&mut self.refresh, token.clone(), refresh, |refresh| refresh.serial);
        token
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl Pass {
    fn new(serial: u64, family: u64, now: Instant, expires_in_secs: u64, max_uses: u64) -> Self {
        // A year stands for a life without end, which an instant cannot hold.
        let life = Duration::from_secs(expires_in_secs.min(365 * 86_400));
        Self { serial, family, until: now + life, uses: (max_uses > 0).then_some(max_uses) }
    }

    fn take(&mut self, now: Instant) -> bool {
        let good = now < self.until && self.uses != Some(0);
        if good {
            self.uses = self.uses.map(|uses| uses - 1);
        }
        good
    }
}

fn keep<T>(map: &mut HashMap<String, T>, key: String, value: T, serial: impl Fn(&T) -> u64) {
    if map.len() as u64 >= MAX_KEPT {
        // Half of them at once: one by one, each further one would cost a walk over all.
        let newest = serial(&value);
        map.retain(|_, kept| serial(kept).saturating_add(MAX_KEPT / 2) > newest);
    }
    map.insert(key, value);
}

#[cfg(test)]
mod tests;
