//! Administration of credentials: add, rotate, revoke. Secrets come in and never go out again.

use patra_connectors::auth::{name, needed};
use patra_core::CredentialId;
use patra_core::credential::{Binding, Credential, DEFAULT_PRIORITY, MAX_NAMES, is_alias, is_name};
use patra_core::port::credential::CredentialFilter;
use patra_core::port::{CommandsExt as _, Store};
use patra_core::registry::WHOLE;
use patra_core::seal;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::{AuthType, CredentialStatus};
use patra_core::tx::{PauseSelector, PauseSubject, ResumeWork, RevokeCredential, SaveCredential, TxError, Versions};
use patra_core::vault::Vault;

/// Why a credential was not written. Shows no secret.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Invalid(String),
    #[error("there is a credential `{0}` already")]
    Exists(String),
    #[error("there is no credential `{0}`")]
    NotFound(String),
    #[error("there are several credentials `{alias}`: {bindings}")]
    Ambiguous { alias: String, bindings: String },
    #[error(transparent)]
    Seal(#[from] seal::Error),
    #[error(transparent)]
    Store(#[from] TxError),
}

/// A credential by its alias, and by its binding where several have that alias.
#[derive(Clone, Debug, Default)]
pub struct CredentialName {
    pub alias: String,
    pub provenance: Option<String>,
    pub endpoint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SavedCredential {
    pub id: CredentialId,
    pub version: i64,
    pub auth_type: AuthType,
}

/// Adds a credential that does not exist, or is revoked.
pub async fn add(
    store: &dyn Store,
    vault: &Vault,
    named: &CredentialName,
    auth_type: AuthType,
    priority: Option<i32>,
    secrets: Secrets,
) -> Result<SavedCredential, Error> {
    let binding = named.binding()?;
    let secrets = checked(auth_type, secrets)?;
    let known = store.credentials(CredentialFilter::Alias(named.alias.clone())).await?;
    let known: Vec<_> = known.into_iter().filter(|one| one.binding == binding).collect();
    if known.iter().any(|one| one.status == CredentialStatus::Active) {
        return Err(Error::Exists(named.alias.clone()));
    }
    if auth_type == AuthType::Cookie {
        return pooled(store, vault, &binding, priority, secrets).await;
    }
    let version = newest(&known) + 1;
    save(store, vault, binding, version, auth_type, priority.unwrap_or(DEFAULT_PRIORITY), &secrets).await
}

/// Adds a new version. Older versions stay valid for the tasks that were planned with them (C-59), unless they are to
/// be revoked.
pub async fn rotate(
    store: &dyn Store,
    vault: &Vault,
    named: &CredentialName,
    secrets: Secrets,
    revoke_old: bool,
) -> Result<SavedCredential, Error> {
    let known = find(store, named).await?;
    let last = known.iter().max_by_key(|one| one.version).ok_or_else(|| Error::NotFound(named.alias.clone()))?;
    let (binding, version) = (last.binding.clone(), last.version + 1);
    let secrets = checked(last.auth_type, secrets)?;
    if last.auth_type == AuthType::Cookie {
        return pooled(store, vault, &binding, None, secrets).await;
    }
    let saved = save(store, vault, binding.clone(), version, last.auth_type, last.priority, &secrets).await?;
    if revoke_old {
        store.run(RevokeCredential { binding, versions: Versions::Before(version) }).await?;
    }
    // Pauses that the old version caused end with the new version (C-59).
    for old in &known {
        let which = PauseSelector::On(PauseSubject { credential: Some(old.id), ..PauseSubject::default() });
        store.run(ResumeWork { target: which, by: format!("rotation of {}", named.alias) }).await?;
    }
    Ok(saved)
}

/// Revokes one version, or all of them. Returns how many were revoked.
pub async fn revoke(store: &dyn Store, named: &CredentialName, version: Option<i64>) -> Result<u32, Error> {
    let known = find(store, named).await?;
    let binding = known.first().map(|one| one.binding.clone()).ok_or_else(|| Error::NotFound(named.alias.clone()))?;
    let versions = version.map_or(Versions::All, Versions::One);
    let revoked = store.run(RevokeCredential { binding, versions }).await?.revoked;
    if revoked == 0 { Err(Error::NotFound(named.alias.clone())) } else { Ok(revoked) }
}

/// Every version of the named binding.
pub async fn find(store: &dyn Store, named: &CredentialName) -> Result<Vec<Credential>, Error> {
    let mut known = store.credentials(CredentialFilter::Alias(named.alias.clone())).await?;
    let meant = |named: &Option<String>, bound: &str| named.as_deref().is_none_or(|named| named == bound);
    known.retain(|one| {
        meant(&named.provenance, &one.binding.provenance_code) && meant(&named.endpoint, &one.binding.endpoint_name)
    });
    let mut bindings: Vec<_> = known.iter().map(|one| one.binding.clone()).collect();
    bindings.sort();
    bindings.dedup();
    match bindings.len() {
        0 => Err(Error::NotFound(named.alias.clone())),
        1 => Ok(known),
        _ => {
            let shown = bindings.iter().map(|one| format!("{}/{}", one.provenance_code, one.endpoint_name));
            let bindings = shown.collect::<Vec<_>>().join(", ");
            Err(Error::Ambiguous { alias: named.alias.clone(), bindings })
        }
    }
}

/// The secrets from a single value, where the type of credential allows one; `user:password` for basic.
pub fn single(auth_type: AuthType, value: Secret) -> Result<Secrets, Error> {
    if let (_, Some(only)) = needed(auth_type) {
        return Ok(Secrets::from([(only.to_owned(), value)]));
    }
    if let (AuthType::Basic, Some((user, password))) = (auth_type, value.expose().split_once(':')) {
        return Ok(Secrets::from([
            (name::USERNAME.to_owned(), Secret::new(user)),
            (name::PASSWORD.to_owned(), Secret::new(password)),
        ]));
    }
    let message = format!("{} needs named values, as a JSON object or one by one", auth_type.as_str().to_lowercase());
    Err(Error::Invalid(message))
}

impl CredentialName {
    fn binding(&self) -> Result<Binding, Error> {
        if !is_alias(&self.alias) {
            let message = "an alias has small letters, digits, `-`, `_` and `.`, at most 64 of them";
            return Err(Error::Invalid(message.to_owned()));
        }
        let or_whole = |named: &Option<String>| named.clone().unwrap_or_else(|| WHOLE.to_owned());
        if self.provenance.is_none() && self.endpoint.is_some() {
            return Err(Error::Invalid("an endpoint is named together with its provenance".to_owned()));
        }
        for text in [&self.provenance, &self.endpoint].into_iter().flatten() {
            if text.is_empty() || text.len() > 128 || text.chars().any(char::is_control) {
                return Err(Error::Invalid("provenance and endpoint are names of 1 to 128 characters".to_owned()));
            }
        }
        let (provenance_code, endpoint_name) = (or_whole(&self.provenance), or_whole(&self.endpoint));
        Ok(Binding { alias: self.alias.clone(), provenance_code, endpoint_name })
    }
}

async fn save(
    store: &dyn Store,
    vault: &Vault,
    binding: Binding,
    version: i64,
    auth_type: AuthType,
    priority: i32,
    secrets: &Secrets,
) -> Result<SavedCredential, Error> {
    let sealed = vault.seal(&binding, version, secrets)?;
    let key_id = vault.key_id().to_owned();
    let save = SaveCredential { binding, version, auth_type, priority, sealed, key_id };
    // The same text again after a lost reply: the store recognises it.
    for _ in 0..5 {
        match store.run(save.clone()).await {
            Err(TxError::Unknown(_) | TxError::Busy) => {}
            answer => return Ok(SavedCredential { id: answer?.id, version, auth_type }),
        }
    }
    Ok(SavedCredential { id: store.run(save).await?.id, version, auth_type })
}

/// Cookies are replaced in place: they have no versions.
async fn pooled(
    store: &dyn Store,
    vault: &Vault,
    binding: &Binding,
    priority: Option<i32>,
    mut secrets: Secrets,
) -> Result<SavedCredential, Error> {
    if binding.provenance_code == WHOLE || binding.endpoint_name != WHOLE {
        return Err(Error::Invalid("a cookie is for one platform as a whole: name its provenance".to_owned()));
    }
    let (Some(value), true) = (secrets.remove(name::COOKIE), secrets.is_empty()) else {
        return Err(Error::Invalid("a cookie has one value, `cookie`".to_owned()));
    };
    let (name, platform) = (binding.alias.clone(), binding.provenance_code.clone());
    let settings = super::cookies::CookieSettings { priority, ..Default::default() };
    let new = super::cookies::NewCookie { name, platform, value, settings };
    let saved = super::cookies::save(store, vault, &new).await?;
    let known = store.credentials(CredentialFilter::Id(saved.id)).await?;
    let version = known.first().map_or(1, |one| one.version);
    Ok(SavedCredential { id: saved.id, version, auth_type: AuthType::Cookie })
}

fn newest(known: &[Credential]) -> i64 {
    known.iter().map(|one| one.version).max().unwrap_or(0)
}

/// The values under their usual names; an error when a required one is missing.
fn checked(auth_type: AuthType, secrets: Secrets) -> Result<Secrets, Error> {
    if secrets.is_empty() || secrets.len() > MAX_NAMES {
        return Err(Error::Invalid(format!("a credential has 1 to {MAX_NAMES} values")));
    }
    let mut checked = Secrets::new();
    for (name, value) in secrets {
        let name = canonical(&name);
        if !is_name(&name) {
            let message = "a value's name has letters, digits and `_`, does not begin with a digit, and has at most 64";
            return Err(Error::Invalid(message.to_owned()));
        }
        if value.expose().is_empty() || value.expose().contains('\0') {
            return Err(Error::Invalid(format!("the value `{name}` is empty or holds NUL")));
        }
        if checked.insert(name.clone(), value).is_some() {
            return Err(Error::Invalid(format!("the value `{name}` is given twice")));
        }
    }
    for wanted in needed(auth_type).0 {
        if !checked.contains_key(*wanted) {
            let kind = auth_type.as_str().to_lowercase();
            return Err(Error::Invalid(format!("{kind} needs a value `{wanted}`")));
        }
    }
    Ok(checked)
}

/// The usual name of a value: `api_key` and `API_KEY` mean `apiKey`.
fn canonical(name: &str) -> String {
    let known = [
        name::API_KEY,
        name::TOKEN,
        name::USERNAME,
        name::PASSWORD,
        name::CLIENT_ID,
        name::CLIENT_SECRET,
        name::REFRESH_TOKEN,
        name::COOKIE,
    ];
    let bare = |text: &str| text.replace(['_', '-'], "").to_lowercase();
    known.into_iter().find(|known| bare(known) == bare(name)).unwrap_or(name).to_owned()
}
