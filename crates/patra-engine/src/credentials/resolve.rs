//! Resolves credentials: reads them from the store, caches them for a moment, opens them for one exchange.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use patra_core::credential::{Credential, CredentialQuery, CredentialRuntime, choose};
use patra_core::port::CredentialQueries;
use patra_core::port::credential::CredentialFilter;
use patra_core::secret::Secrets;
use patra_core::state::{AuthType, Operation};
use patra_core::tx::{Lease, TxError};
use patra_core::{Code, CredentialId, Fault, Level, Ts};
use patra_spec::{Overrides, snapshot};

use super::{CredentialsInner, OutgoingRequest, lock};
use crate::registry::{self, SpecRequest};

/// How long a read is cached. A revocation takes effect after this at the latest.
const BELIEVED: Duration = Duration::from_secs(5);
const MAX_ENTRIES: usize = 1_000;

/// The credential of a new task of an endpoint (G-15), to be frozen into `ing_task.credential_id`. Cookies are picked
/// for each request instead (MAP-X-19), and a source without authentication has none.
pub async fn credential_for(
    credentials: &dyn CredentialQueries,
    provenance_code: &str,
    endpoint_name: &str,
    auth: &snapshot::AuthSpec,
) -> Result<Option<CredentialId>, TxError> {
    let kind = auth.r#type.as_str().parse::<AuthType>().ok().filter(|kind| *kind != AuthType::Cookie);
    let Some(auth_type) = kind else { return Ok(None) };
    let found = credentials.credentials(bound(provenance_code, endpoint_name)).await?;
    let wanted =
        CredentialQuery { provenance_code, endpoint_name, alias: &auth.credential_ref, auth_type, pinned: None };
    Ok(choose(found, &wanted).first().map(|credential| credential.id))
}

fn bound(provenance_code: &str, endpoint_name: &str) -> CredentialFilter {
    CredentialFilter::Bound { provenance_code: provenance_code.to_owned(), endpoint_name: endpoint_name.to_owned() }
}

/// Time of the read, and how the manifest authenticates: the type, and the alias of the credential.
pub(super) type CachedAlias = (Ts, Option<AuthType>, String);

/// Time of the read, and its result.
type CachedCredentials = (Ts, Vec<Credential>);

/// Cache of the sealed credentials that are bound to an endpoint.
#[derive(Debug, Default)]
pub(super) struct CredentialCache {
    entries: Mutex<HashMap<(String, String), CachedCredentials>>,
}

impl CredentialCache {
    fn get(&self, place: (&str, &str), now: Ts) -> Option<Vec<Credential>> {
        let entries = lock(&self.entries);
        let (read, found) = entries.get(&(place.0.to_owned(), place.1.to_owned()))?;
        (now.since(*read) < BELIEVED).then(|| found.clone())
    }

    fn put(&self, place: (&str, &str), now: Ts, found: Vec<Credential>) {
        let mut entries = lock(&self.entries);
        if entries.len() >= MAX_ENTRIES {
            entries.clear();
        }
        entries.insert((place.0.to_owned(), place.1.to_owned()), (now, found));
    }

    /// Drops a credential from the cache, so that it is read again.
    pub(super) fn forget(&self, id: CredentialId) {
        lock(&self.entries).retain(|_, (_, found)| found.iter().all(|credential| credential.id != id));
    }
}

impl CredentialsInner {
    /// The credentials for a request, in the order in which they are tried.
    pub(super) async fn candidates(
        &self,
        outgoing: &OutgoingRequest,
        auth_type: AuthType,
    ) -> Result<Vec<Credential>, Fault> {
        let (provenance_code, endpoint_name) = outgoing.authoriser.place();
        let found = self.bound(provenance_code, endpoint_name).await?;
        let now = self.current_alias(provenance_code, endpoint_name, auth_type).await;
        let alias = now.as_deref().unwrap_or(&outgoing.authoriser.auth().credential_ref);
        let wanted = CredentialQuery { provenance_code, endpoint_name, alias, auth_type, pinned: outgoing.pinned };
        Ok(choose(found, &wanted))
    }

    /// The credential that a task uses now. The manifest may name another one than when the task was planned, or the
    /// source may have got its own; another version of the same one changes nothing (C-59).
    pub(super) async fn current(&self, lease: &Lease) -> Option<CredentialId> {
        let planned = lease.credential?;
        let (provenance_code, endpoint_name) = (&*lease.provenance_code, &*lease.endpoint_name);
        let Ok(found) = self.bound(provenance_code, endpoint_name).await else { return Some(planned) };
        let Some(before) = found.iter().find(|one| one.id == planned).map(|one| (one.binding.clone(), one.auth_type))
        else {
            return Some(planned);
        };
        let (binding, auth_type) = before;
        let Some(alias) = self.current_alias(provenance_code, endpoint_name, auth_type).await else {
            return Some(planned);
        };
        let wanted = CredentialQuery { provenance_code, endpoint_name, alias: &alias, auth_type, pinned: None };
        let first = choose(found, &wanted).into_iter().next();
        first.filter(|one| one.binding != binding).map_or(Some(planned), |one| Some(one.id))
    }

    async fn bound(&self, provenance_code: &str, endpoint_name: &str) -> Result<Vec<Credential>, Fault> {
        let now = self.ports.clock.steady();
        if let Some(found) = self.cache.get((provenance_code, endpoint_name), now) {
            return Ok(found);
        }
        let found = self.ports.store.credentials(bound(provenance_code, endpoint_name)).await;
        let found = found.map_err(|error| {
            Fault::transient(Code::InternalError, format!("the credentials cannot be read: {error}"))
        })?;
        self.cache.put((provenance_code, endpoint_name), now, found.clone());
        Ok(found)
    }

    /// The alias that the manifest names now, read from the registry at most once in a while. `None` where there is no
    /// such manifest any more, or it authenticates in another way: then the snapshot's alias counts.
    async fn current_alias(&self, provenance: &str, endpoint: &str, auth_type: AuthType) -> Option<String> {
        let (now, key) = (self.ports.clock.steady(), (provenance.to_owned(), endpoint.to_owned()));
        let cached = lock(&self.aliases).get(&key).filter(|(read, ..)| now.since(*read) < BELIEVED).cloned();
        let (_, kind, alias) = match cached {
            Some(known) => known,
            None => {
                let (overrides, operation) = (Overrides::default(), Operation::Harvest);
                let asked = SpecRequest { project: None, provenance, endpoint, operation, overrides: &overrides };
                let spec = registry::spec(&*self.ports.store, &asked).await.ok();
                let auth = spec.map(|spec| spec.snapshot.auth);
                let kind = auth.as_ref().and_then(|auth| auth.r#type.as_str().parse::<AuthType>().ok());
                let known = (now, kind, auth.map(|auth| auth.credential_ref).unwrap_or_default());
                let mut aliases = lock(&self.aliases);
                if aliases.len() >= MAX_ENTRIES {
                    aliases.clear();
                }
                aliases.insert(key, known.clone());
                known
            }
        };
        (kind == Some(auth_type) && !alias.is_empty()).then_some(alias)
    }

    pub(super) fn open(&self, credential: &Credential) -> Result<Secrets, Fault> {
        let alias = &credential.binding.alias;
        let vault = self.options.vault.get().ok_or_else(|| {
            let message = format!(
                "the credential `{alias}` is sealed and no master key is given: set PATRA_MASTER_KEY or --master-key-file"
            );
            Fault::new(Code::NotConfigured, Level::L4, message)
        })?;
        vault.open(credential).map_err(|error| {
            let message = format!(
                "the credential `{alias}` cannot be opened: {error}; give the master key it was sealed with, or replace it \
                 with `patra credential rotate {alias}`"
            );
            Fault::new(Code::NotConfigured, Level::L4, message)
        })
    }

    /// The newest known runtime state of the credential.
    pub(super) fn newest(&self, credential: &Credential) -> CredentialRuntime {
        let newest = lock(&self.newest);
        let known = newest.get(&credential.id).filter(|known| known.version > credential.state.version);
        known.unwrap_or(&credential.state).clone()
    }

    pub(super) fn missing(&self, outgoing: &OutgoingRequest) -> Fault {
        let (provenance, endpoint) = outgoing.authoriser.place();
        let (auth, kind) = (outgoing.authoriser.auth(), outgoing.authoriser.auth().r#type.as_str().to_lowercase());
        let message = format!(
            "{provenance}/{endpoint} needs the credential `{0}`: add it with `patra credential add {0} --type {kind} \
             --provenance {provenance}`",
            auth.credential_ref
        );
        Fault::new(Code::NotConfigured, Level::L4, message)
    }
}
