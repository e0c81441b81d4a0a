//! Administration of the cookie pool. Values come in and never go out again.

use patra_connectors::auth::name;
use patra_core::cookie_import;
use patra_core::credential::{Binding, is_alias};
use patra_core::port::credential::CredentialFilter;
use patra_core::port::{CommandsExt as _, Store};
use patra_core::registry::WHOLE;
use patra_core::seal::MAX_SECRET;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::{AuthType, CredentialStatus};
use patra_core::tx::{
    CookieSaved, PauseCookie, ReactivateCookie, Reseal, RevokeCredential, SaveCookie, SealedText, TxError, Versions,
};
use patra_core::vault::Vault;
use patra_core::{CredentialId, Ts};
use url::Url;

use super::admin::Error;

/// Highest daily limit.
const MAX_DAILY_LIMIT: u32 = 1_000_000;
/// Highest number of uses of one cookie at the same time.
const MAX_PARALLEL: u32 = 1_000;

/// A cookie to be stored.
#[derive(Clone, Debug)]
pub struct NewCookie {
    pub name: String,
    pub platform: String,
    pub value: Secret,
    pub settings: CookieSettings,
}

/// Settings of a cookie; `None` keeps the stored ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct CookieSettings {
    pub priority: Option<i32>,
    pub daily_limit: Option<u32>,
    pub expires_at: Option<Ts>,
    /// 0 removes the limit.
    pub max_parallel: Option<u32>,
}

impl CookieSettings {
    fn check(&self) -> Result<(), Error> {
        if self.daily_limit.is_some_and(|limit| limit > MAX_DAILY_LIMIT) {
            return Err(Error::Invalid(format!("daily_limit is at most {MAX_DAILY_LIMIT}")));
        }
        if self.max_parallel.is_some_and(|most| most > MAX_PARALLEL) {
            return Err(Error::Invalid(format!("max_parallel is at most {MAX_PARALLEL}")));
        }
        Ok(())
    }
}

/// Reads the value of a cookie, which may be a file that a browser has exported. Of a file, takes what a browser sends to
/// the host of the platform's manifest, or everything for `domain`.
pub async fn import(
    store: &dyn Store,
    platform: &str,
    domain: Option<&str>,
    value: &Secret,
    now: Ts,
) -> Result<(Secret, Option<Ts>), Error> {
    let host = host_of(store, platform).await?;
    let imported = cookie_import::read(value.expose(), host.as_deref(), domain, now)
        .map_err(|error| Error::Invalid(format!("cookie_value: {error}")))?;
    Ok((Secret::new(imported.value), imported.expires_at))
}

async fn host_of(store: &dyn Store, platform: &str) -> Result<Option<String>, Error> {
    let Some(stored) = store.registry(platform).await? else { return Ok(None) };
    let manifest = patra_spec::registry::manifest(platform, &stored.rows).ok();
    let base = manifest.and_then(|manifest| Url::parse(manifest.defaults.http.base_url.as_deref()?).ok());
    Ok(base.and_then(|url| url.host_str().map(str::to_owned)))
}

/// Stores a cookie, or replaces the value of the existing one of this name. The same value again changes only priority
/// and limit (CRAWL-RULE-2).
pub async fn save(store: &dyn Store, vault: &Vault, new: &NewCookie) -> Result<CookieSaved, Error> {
    if !is_alias(&new.name) {
        let message = "cookie_name has small letters, digits, `-`, `_` and `.`, at most 64 of them";
        return Err(Error::Invalid(message.to_owned()));
    }
    let value = new.value.expose();
    if value.len() > MAX_SECRET / 2 {
        return Err(Error::Invalid(format!("cookie_value has at most {} bytes", MAX_SECRET / 2)));
    }
    if value.trim().is_empty() || value.chars().any(char::is_control) {
        return Err(Error::Invalid("cookie_value is empty, or holds control characters".to_owned()));
    }
    new.settings.check()?;
    let CookieSettings { priority, daily_limit, expires_at, max_parallel } = new.settings;
    let secrets = Secrets::from([(name::COOKIE.to_owned(), new.value.clone())]);
    let binding =
        Binding { alias: new.name.clone(), provenance_code: new.platform.clone(), endpoint_name: WHOLE.to_owned() };
    // Another process may store the same name at the same time: then read again.
    for _ in 0..5 {
        let known = store.credentials(CredentialFilter::Alias(new.name.clone())).await?;
        let active =
            known.iter().find(|one| one.auth_type == AuthType::Cookie && one.status == CredentialStatus::Active);
        if let Some(other) = active.filter(|one| one.binding != binding) {
            return Err(Error::Invalid(format!(
                "the cookie `{}` is one of {}: delete it there first",
                new.name, other.binding.provenance_code
            )));
        }
        let newest = known.iter().filter(|one| one.binding == binding).map(|one| one.version).max().unwrap_or(0);
        let version = active.map_or(newest + 1, |one| one.version);
        let same = active.is_some_and(|one| vault.open(one).is_ok_and(|held| held == secrets));
        let sealed = match same {
            true => None,
            false => {
                Some(SealedText { text: vault.seal(&binding, version, &secrets)?, key_id: vault.key_id().to_owned() })
            }
        };
        let save = SaveCookie {
            binding: binding.clone(),
            version,
            value: sealed,
            priority,
            daily_limit,
            expires_at,
            max_parallel,
        };
        match store.run(save).await {
            Err(TxError::Conflict | TxError::Unknown(_) | TxError::Busy) => {}
            answer => return Ok(answer?),
        }
    }
    Err(TxError::Busy.into())
}

/// Changes settings of a cookie.
pub async fn configure(store: &dyn Store, name: &str, settings: CookieSettings) -> Result<(), Error> {
    settings.check()?;
    let known = store.credentials(CredentialFilter::Alias(name.to_owned())).await?;
    let active = known.iter().find(|one| one.auth_type == AuthType::Cookie && one.status == CredentialStatus::Active);
    let one = active.ok_or_else(|| Error::Invalid("only cookies have these settings".to_owned()))?;
    let (binding, version) = (one.binding.clone(), one.version);
    let CookieSettings { priority, daily_limit, expires_at, max_parallel } = settings;
    let save = SaveCookie { binding, version, value: None, priority, daily_limit, expires_at, max_parallel };
    store.run(save).await?;
    Ok(())
}

/// Makes an `invalid` or `banned` cookie active again.
pub async fn reactivate(store: &dyn Store, name: &str) -> Result<CredentialId, Error> {
    let answer = store.run(ReactivateCookie { name: name.to_owned() }).await?;
    answer.id.ok_or_else(|| Error::NotFound(name.to_owned()))
}

/// Pauses a cookie, or resumes it.
pub async fn pause(store: &dyn Store, name: &str, paused: bool) -> Result<CredentialId, Error> {
    let answer = store.run(PauseCookie { name: name.to_owned(), paused }).await?;
    answer.id.ok_or_else(|| Error::NotFound(name.to_owned()))
}

/// Deletes a cookie; true when there was one.
pub async fn delete(store: &dyn Store, name: &str) -> Result<bool, Error> {
    let known = store.credentials(CredentialFilter::Alias(name.to_owned())).await?;
    let mut deleted = false;
    for one in known.iter().filter(|one| one.auth_type == AuthType::Cookie && one.status == CredentialStatus::Active) {
        let revoke = RevokeCredential { binding: one.binding.clone(), versions: Versions::All };
        deleted |= store.run(revoke).await?.revoked > 0;
    }
    Ok(deleted)
}

/// Seals every secret again that was not sealed with the first key of the vault (CRAWL-146). Safe to interrupt and
/// repeat: each secret is replaced in one step, and only while it is the one that was read. Returns how many were
/// sealed, and the credentials that cannot be opened.
pub async fn reseal(
    store: &dyn Store,
    vault: &Vault,
    mut progress: impl FnMut(u64),
) -> Result<(u64, Vec<String>), Error> {
    let (mut after, mut done, mut stuck) = (CredentialId(0), 0, Vec::new());
    loop {
        let filter = CredentialFilter::SealedWithoutKey { key_id: vault.key_id().to_owned(), after };
        let found = store.credentials(filter).await?;
        let Some(last) = found.last() else { return Ok((done, stuck)) };
        after = last.id;
        for credential in &found {
            let key_id = vault.key_id().to_owned();
            let opened = vault.open(credential).and_then(|secrets| {
                let token = credential.state.sealed.as_deref();
                Ok((secrets, token.map(|sealed| vault.open_token(credential.id, sealed)).transpose()?))
            });
            let Ok((secrets, token)) = opened else {
                stuck.push(credential.binding.alias.clone());
                continue;
            };
            let text = vault.seal(&credential.binding, credential.version, &secrets)?;
            let new = SealedText { text, key_id: key_id.clone() };
            let reseal = Reseal { credential: credential.id, token: false, old: credential.sealed.clone(), new };
            // A secret that was replaced meanwhile is sealed with the new key already.
            done += u64::from(store.run(reseal).await?.resealed);
            if let (Some(token), Some(old)) = (token, &credential.state.sealed) {
                let new = SealedText { text: vault.seal_token(credential.id, &token)?, key_id };
                store.run(Reseal { credential: credential.id, token: true, old: old.clone(), new }).await?;
            }
            progress(done);
        }
    }
}
