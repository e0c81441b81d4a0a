//! The pool of cookies. A cookie is a credential of type COOKIE with one version that is replaced in place;
//! [`crate::cookie`] decides on its usage.

use std::time::Duration;

use crate::cookie::{CookieCounts, CookieLimits, CookieObstacle, CookieTotals, CookieUsage};
use crate::credential::{Binding, Credential};
use crate::id::CredentialId;
use crate::state::CookieStatus;
use crate::time::Ts;

/// A text and the key that sealed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SealedText {
    pub text: String,
    pub key_id: String,
}

/// Adds a cookie, or changes the one of this name. A name belongs to one ACTIVE cookie: when that one is bound to
/// something else, `Conflict`.
///
/// `version` is that of the ACTIVE one, or one more than the newest of the binding when there is none: otherwise
/// `Conflict`. A given value replaces the old one, raises [`crate::credential::CredentialRuntime::version`] and
/// resets the usage by [`CookieUsage::reactivated`] and the expiry; without a value, only what is given changes. The same
/// sealed text is the same value. A new cookie needs a value: otherwise `Conflict`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveCookie {
    pub binding: Binding,
    pub version: i64,
    /// Sealed for [`Binding::record`] of this version.
    pub value: Option<SealedText>,
    /// `None` keeps the stored priority, or sets the default.
    pub priority: Option<i32>,
    pub daily_limit: Option<u32>,
    /// `None` keeps the stored expiry; with another value, it removes it.
    pub expires_at: Option<Ts>,
    /// 0 removes the limit.
    pub max_parallel: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieSaved {
    pub id: CredentialId,
    pub created: bool,
}

/// Picks one cookie for one request, and counts the use. Candidates are the ACTIVE cookies that are bound to the
/// endpoint or its whole source and are [`CookieUsage::is_selectable`], without those excluded. The largest priority
/// wins, then the least recently used, then the smallest id (CRAWL-22). Concurrent callers never exceed a cookie's
/// limit.
///
/// Before that, the state of the source's cookies becomes that of now: [`CookieUsage::refreshed`], and uses whose
/// `lease` has ended no longer count.
///
/// With a `name`, only that cookie is considered, excluded or not, and only its uses are brought up to date.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PickCookie {
    pub provenance_code: String,
    pub endpoint_name: String,
    pub name: Option<String>,
    /// Names of cookies to skip.
    pub exclude: Vec<String>,
    /// When the current day began, in the time zone that counts days.
    pub day: Ts,
    /// With a `name`: a person checks the cookie, which may be cooling or paused.
    pub check: bool,
    /// Name of this use, unique. A cookie with a `max_parallel` counts it until [`ReleaseCookie`], or until `lease` has
    /// passed.
    pub holder: String,
    pub lease: Duration,
}

impl PickCookie {
    /// The refusal when the usage of the requested cookie does not allow this pick.
    pub fn refused(&self, usage: &CookieUsage, now: Ts) -> Option<CookiePicked> {
        let obstacle = usage.obstacle(now, self.day, self.check)?;
        Some(CookiePicked::Unusable { usage: Box::new(usage.after_cooling(now)), obstacle })
    }

    /// The cookie to use among those bound, with its usage before this use; or why there is none.
    pub fn choose(
        &self,
        mut pool: Vec<(Credential, CookieUsage)>,
        now: Ts,
    ) -> Result<(Credential, CookieUsage), CookiePicked> {
        let named = |credential: &Credential| self.name.as_ref().is_none_or(|name| *name == credential.binding.alias);
        pool.retain(|(credential, _)| named(credential));
        if self.name.is_some() {
            let (credential, usage) = pool.into_iter().next().ok_or(CookiePicked::Unknown)?;
            return match self.refused(&usage, now) {
                None => Ok((credential, usage)),
                Some(refused) => Err(refused),
            };
        }
        let mut totals = CookieTotals::default();
        pool.iter().for_each(|(_, usage)| totals.add(usage, now));
        let usable = |(credential, usage): &(Credential, CookieUsage)| {
            usage.is_selectable(now, self.day) && !self.exclude.contains(&credential.binding.alias)
        };
        // A cookie that was never used sorts before all others.
        let best = pool
            .into_iter()
            .filter(usable)
            .min_by_key(|(one, usage)| (std::cmp::Reverse(one.priority), usage.last_used_at, one.id));
        let CookieTotals { counts, next_active_at } = totals;
        best.ok_or(CookiePicked::Exhausted { counts, next_active_at, in_use: false })
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum CookiePicked {
    Picked {
        credential: Box<Credential>,
        /// The database's clock: the request counts as started now.
        now: Ts,
        /// The use counts towards the `max_parallel` of the cookie: release it.
        leased: bool,
    },
    /// No ACTIVE cookie that is bound there has the requested name.
    Unknown,
    /// The requested cookie may not be used now.
    Unusable { usage: Box<CookieUsage>, obstacle: CookieObstacle },
    /// No cookie is usable; excluded ones are counted like the others.
    Exhausted {
        counts: CookieCounts,
        /// When the first cooling cookie becomes usable again.
        next_active_at: Option<Ts>,
        /// Uses of cookies with a `max_parallel` are in progress: one may become usable soon.
        in_use: bool,
    },
}

/// Ends a use of a cookie with a `max_parallel`. One that has ended already stays so.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReleaseCookie {
    pub holder: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReleased {
    pub released: bool,
}

/// Pauses the ACTIVE cookie of this name, or resumes it. Repeating it changes nothing more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PauseCookie {
    pub name: String,
    pub paused: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookiePaused {
    /// `None`: no cookie has this name.
    pub id: Option<CredentialId>,
}

/// Records how a request with a cookie ended: [`CookieUsage::succeeded`], or with an error [`CookieUsage::failed`].
/// Written only while `seen_version` is the state's version: the outcome of an old value does not count for a new
/// one. The error stays the state's last error until the cookie succeeds again, and for good once it is invalid or
/// banned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordCookieOutcome {
    pub credential: CredentialId,
    pub seen_version: i64,
    pub started: Ts,
    /// The reason, redacted, when the cookie caused the failure.
    pub error: Option<String>,
    pub rules: CookieLimits,
}

impl RecordCookieOutcome {
    /// The usage and the last error after this outcome.
    pub fn apply(&self, usage: &CookieUsage, last_error: Option<String>, now: Ts) -> (CookieUsage, Option<String>) {
        if let Some(error) = &self.error {
            return (usage.failed(self.started, now, &self.rules), Some(error.clone()));
        }
        let after = usage.succeeded(now);
        let unusable = matches!(after.status, CookieStatus::Invalid | CookieStatus::Banned);
        (after, last_error.filter(|_| unusable))
    }
}

/// Both `None` when nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieOutcomeRecorded {
    pub before: Option<CookieStatus>,
    pub after: Option<CookieStatus>,
}

/// Reactivates the ACTIVE cookie of this name: [`CookieUsage::reactivated`], and its last error is cleared. Repeating
/// it changes nothing more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReactivateCookie {
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReactivated {
    /// `None`: no cookie has this name.
    pub id: Option<CredentialId>,
}

/// Replaces the sealed text of an ACTIVE credential with the same secret sealed again; only while the old text is
/// stored, and without another version. With `token`, the token of the runtime half instead of the secret itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reseal {
    pub credential: CredentialId,
    pub token: bool,
    pub old: String,
    pub new: SealedText,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resealed {
    pub resealed: bool,
}
