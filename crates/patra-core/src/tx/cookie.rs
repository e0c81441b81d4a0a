//! The pool of cookies. A cookie is a credential of type COOKIE with one version that is replaced in place; its wear is
//! decided by [`crate::cookie`].

use crate::cookie::{Counts, Rules, Wear};
use crate::credential::{Binding, Credential};
use crate::id::CredentialId;
use crate::state::CookieStatus;
use crate::time::Ts;

/// A text and the key that sealed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub text: String,
    pub key_id: String,
}

/// Adds a cookie, or changes the one of this name. Of all cookies only one ACTIVE has a name: when that one is bound to
/// something else, `Conflict`.
///
/// `version` is that of the ACTIVE one, or one more than the newest of the binding when there is none: otherwise `Conflict`.
/// A value that is given replaces the old one, raises [`crate::credential::State::version`] and makes the wear what
/// [`Wear::trusted`] says; without one, only priority and limit change. The same sealed text is the same value. A new cookie
/// needs a value: otherwise `Conflict`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveCookie {
    pub binding: Binding,
    pub version: i64,
    /// Sealed for [`Binding::record`] of this version.
    pub value: Option<Sealed>,
    /// `None`: as it is, or the default.
    pub priority: Option<i32>,
    pub daily_limit: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieSaved {
    pub id: CredentialId,
    pub created: bool,
}

/// Takes one cookie for one request, and counts the use: of the ACTIVE ones that are bound to the endpoint or its whole
/// source and are [`Wear::is_selectable`], without those excluded, the one with the largest priority, then the least
/// recently used, then the smallest id (CRAWL-22). However many ask at once, none is used more often than its limit.
///
/// With a `name`, only that one is looked at, excluded or not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PickCookie {
    pub provenance_code: String,
    pub endpoint_name: String,
    pub name: Option<String>,
    /// Names.
    pub exclude: Vec<String>,
    /// When the present day began, where the counting is done.
    pub day: Ts,
}

impl PickCookie {
    /// The one that is taken of those that are bound there, with its wear before it is used; or why none is.
    pub fn choose(&self, mut pool: Vec<(Credential, Wear)>, now: Ts) -> Result<(Credential, Wear), CookiePicked> {
        let named = |credential: &Credential| self.name.as_ref().is_none_or(|name| *name == credential.binding.alias);
        pool.retain(|(credential, _)| named(credential));
        if self.name.is_some() {
            let (credential, wear) = pool.into_iter().next().ok_or(CookiePicked::Unknown)?;
            return match wear.is_selectable(now, self.day) {
                true => Ok((credential, wear)),
                false => Err(CookiePicked::Unusable { wear: Box::new(wear.rested(now)) }),
            };
        }
        let mut counts = Counts::default();
        pool.iter().for_each(|(_, wear)| counts.add(wear.rested(now).status));
        let next_active_at = pool.iter().filter_map(|(_, wear)| wear.rested(now).cooling_until).min();
        let usable = |(credential, wear): &(Credential, Wear)| {
            wear.is_selectable(now, self.day) && !self.exclude.contains(&credential.binding.alias)
        };
        // Never used goes before every time.
        let best = pool
            .into_iter()
            .filter(usable)
            .min_by_key(|(one, wear)| (std::cmp::Reverse(one.priority), wear.last_used_at, one.id));
        best.ok_or(CookiePicked::Exhausted { counts, next_active_at })
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum CookiePicked {
    Picked {
        credential: Box<Credential>,
        /// The database's clock: when the request counts as begun.
        now: Ts,
    },
    /// No ACTIVE cookie that is bound there has the name that was asked for.
    Unknown,
    /// The one that was asked for may not be used now.
    Unusable { wear: Box<Wear> },
    /// None is left; excluded ones are counted like the others.
    Exhausted {
        counts: Counts,
        /// When the first of those that cool is usable again.
        next_active_at: Option<Ts>,
    },
}

/// What a request has shown of its cookie: [`Wear::worked`], or with an error [`Wear::failed`]. Written only while `seen` is
/// the state's version: what is said about an old value does not count for a new one. The reason is the state's last error
/// until the cookie works again, and for good once it is worn out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JudgeCookie {
    pub credential: CredentialId,
    pub seen: i64,
    pub started: Ts,
    /// The reason, redacted, when the cookie is to blame.
    pub error: Option<String>,
    pub rules: Rules,
}

impl JudgeCookie {
    /// The wear and the last error that follow from these.
    pub fn judged(&self, wear: &Wear, last_error: Option<String>, now: Ts) -> (Wear, Option<String>) {
        if let Some(error) = &self.error {
            return (wear.failed(self.started, now, &self.rules), Some(error.clone()));
        }
        let after = wear.worked(now);
        let worn = matches!(after.status, CookieStatus::Invalid | CookieStatus::Banned);
        (after, last_error.filter(|_| worn))
    }
}

/// Both `None` when nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieJudged {
    pub before: Option<CookieStatus>,
    pub after: Option<CookieStatus>,
}

/// A person trusts the ACTIVE cookie of this name again: [`Wear::trusted`], and no error is held against it. Repeating it
/// changes nothing more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReactivateCookie {
    pub name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CookieReactivated {
    /// `None`: there is none of this name.
    pub id: Option<CredentialId>,
}

/// Puts the same secret, sealed anew, in the place of the old text of an ACTIVE credential; only while the old text is there,
/// and without another version. `token`: that of the
/// runtime half, instead of the secret itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reseal {
    pub credential: CredentialId,
    pub token: bool,
    pub old: String,
    pub new: Sealed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resealed {
    pub resealed: bool,
}
