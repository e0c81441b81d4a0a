//! Credentials: versions of a binding, and the runtime state with the lease on its refresh.

use patra_core::cookie::{CookieUsage, DEFAULT_DAILY_LIMIT};
use patra_core::credential::{Credential, CredentialRuntime};
use patra_core::port::credential::{CredentialFilter, MAX_CREDENTIALS};
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, CredentialStatus, TokenStatus};
use patra_core::tx::{
    CredentialMarked, CredentialSaved, CredentialsRevoked, FailRefresh, LeaseRefresh, MarkCredential, RefreshFailed,
    RefreshLeased, RevokeCredential, SaveCredential, StoreToken, TokenStored, TxError,
};
use patra_core::{CredentialId, Fence, Ts};

use super::{CredentialRow, CredentialState, MemStore, next_id, place};

impl MemStore {
    /// The rows that match a filter, by id.
    pub fn credentials(&self, ask: &CredentialFilter) -> Vec<Credential> {
        let fits = |bound: &str, asked: &str| bound == WHOLE || bound == asked;
        let meant = |row: &&CredentialRow| match ask {
            CredentialFilter::Id(id) => row.id == *id,
            CredentialFilter::Alias(alias) => row.binding.alias == *alias,
            CredentialFilter::SealedWithoutKey { key_id, after } => {
                let token = self.state_of(row.id).filter(|state| state.what.sealed.is_some());
                let other_token = token.is_some_and(|state| state.key_id.as_ref() != Some(key_id));
                row.revoked_at.is_none() && row.id > *after && (row.key_id != *key_id || other_token)
            }
            CredentialFilter::Bound { provenance_code, endpoint_name } => {
                row.revoked_at.is_none()
                    && fits(&row.binding.provenance_code, provenance_code)
                    && fits(&row.binding.endpoint_name, endpoint_name)
            }
        };
        let rows = self.credentials.iter().filter(meant).take(MAX_CREDENTIALS as usize);
        rows.map(|row| self.view_credential(row)).collect()
    }

    pub(super) fn view_credential(&self, row: &CredentialRow) -> Credential {
        Credential {
            id: row.id,
            binding: row.binding.clone(),
            version: row.version,
            auth_type: row.auth_type,
            priority: row.priority,
            sealed: row.sealed.clone(),
            status: row.status(),
            state: self.state_of(row.id).map(|state| state.what.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn save_credential(&mut self, now: Ts, op: &SaveCredential) -> Result<CredentialSaved, TxError> {
        let versions = self.credentials.iter().filter(|row| row.binding == op.binding);
        let newest = versions.max_by_key(|row| row.version);
        if let Some(row) = newest
            && row.version == op.version
            && row.sealed == op.sealed
        {
            return Ok(CredentialSaved { id: row.id });
        }
        if op.version != newest.map_or(0, |row| row.version) + 1 {
            return Err(TxError::Conflict);
        }
        if op.auth_type == AuthType::Cookie && self.cookie(&op.binding.alias).is_some() {
            return Err(TxError::Conflict);
        }
        let id = CredentialId(next_id(&self.credentials));
        self.credentials.push(CredentialRow {
            id,
            binding: op.binding.clone(),
            version: op.version,
            auth_type: op.auth_type,
            priority: op.priority,
            sealed: op.sealed.clone(),
            key_id: op.key_id.clone(),
            daily_limit: None,
            created_at: now,
            updated_at: now,
            revoked_at: None,
        });
        if op.auth_type == AuthType::Cookie {
            self.state_for(now, id);
        }
        Ok(CredentialSaved { id })
    }

    pub(super) fn revoke_credential(&mut self, now: Ts, op: &RevokeCredential) -> CredentialsRevoked {
        let (first, last) = op.versions.range();
        let mut revoked = 0;
        for row in &mut self.credentials {
            if row.binding != op.binding || row.revoked_at.is_some() || !(first..=last).contains(&row.version) {
                continue;
            }
            (row.revoked_at, row.updated_at) = (Some(now), now);
            row.sealed.clear();
            revoked += 1;
            if let Some(state) = self.credential_states.iter_mut().find(|state| state.credential == row.id) {
                (state.what.sealed, state.lease, state.fence) = (None, None, Fence(state.fence.0 + 1));
                state.what.updated_at = Some(now);
            }
        }
        CredentialsRevoked { revoked }
    }

    pub(super) fn lease_refresh(&mut self, now: Ts, op: &LeaseRefresh) -> RefreshLeased {
        let Some(state) = self.state_for(now, op.credential) else { return RefreshLeased::Gone };
        if state.what.version > op.seen_version {
            return RefreshLeased::Newer { state: state.what.clone(), now };
        }
        let held = state.lease.as_ref().filter(|(_, until)| now < *until);
        if let Some((_, until)) = held.filter(|(owner, _)| *owner != op.owner) {
            return RefreshLeased::Busy { until: *until, now };
        }
        if held.is_none() {
            state.fence = Fence(state.fence.0 + 1);
        }
        state.lease = Some((op.owner.clone(), now + op.lease));
        state.what.updated_at = Some(now);
        RefreshLeased::Go { fence: state.fence, state: state.what.clone(), now }
    }

    pub(super) fn store_token(&mut self, now: Ts, op: &StoreToken) -> Result<TokenStored, TxError> {
        let state = self.credential_states.iter_mut().find(|state| state.credential == op.credential);
        let state = state.filter(|state| state.fence == op.fence).ok_or(TxError::Fenced)?;
        if state.stored == op.fence {
            return Ok(TokenStored { version: state.what.version });
        }
        if state.lease.as_ref().is_none_or(|(owner, _)| *owner != op.owner) {
            return Err(TxError::Fenced);
        }
        state.what = CredentialRuntime {
            version: state.what.version + 1,
            sealed: Some(op.sealed.clone()),
            expires_at: op.expires_at,
            updated_at: Some(now),
            ..CredentialRuntime::default()
        };
        state.key_id = Some(op.key_id.clone());
        (state.stored, state.lease) = (op.fence, None);
        Ok(TokenStored { version: state.what.version })
    }

    pub(super) fn fail_refresh(&mut self, now: Ts, op: &FailRefresh) -> RefreshFailed {
        let holds = |state: &&mut CredentialState| {
            let owner = state.lease.as_ref().map(|(owner, _)| owner);
            state.credential == op.credential && state.fence == op.fence && owner == Some(&op.owner)
        };
        let Some(state) = self.credential_states.iter_mut().find(holds) else {
            return RefreshFailed { recorded: false };
        };
        state.lease = None;
        fail(&mut state.what, now, &op.error, op.rejected);
        RefreshFailed { recorded: true }
    }

    pub(super) fn mark_credential(&mut self, now: Ts, op: &MarkCredential) -> CredentialMarked {
        let state = self.state_for(now, op.credential).filter(|state| state.what.version == op.seen_version);
        let Some(state) = state else { return CredentialMarked { marked: false } };
        match &op.rejected {
            Some(error) => fail(&mut state.what, now, error, true),
            None => {
                state.what.status = TokenStatus::Active;
                (state.what.fail_count, state.what.last_error) = (0, None);
                state.what.updated_at = Some(now);
            }
        }
        CredentialMarked { marked: true }
    }

    /// At the start of the only process, every refresh lease belongs to a dead process.
    pub(super) fn free_refreshes(&mut self) {
        for state in &mut self.credential_states {
            state.lease = None;
        }
    }

    pub(super) fn state_of(&self, id: CredentialId) -> Option<&CredentialState> {
        self.credential_states.iter().find(|state| state.credential == id)
    }

    /// The runtime state of an ACTIVE credential, created if it is missing.
    pub(super) fn state_for(&mut self, now: Ts, id: CredentialId) -> Option<&mut CredentialState> {
        self.credentials.get(place(id.0)).filter(|row| row.revoked_at.is_none())?;
        let known = self.credential_states.iter().position(|state| state.credential == id);
        let at = known.unwrap_or_else(|| {
            let what = CredentialRuntime { updated_at: Some(now), ..CredentialRuntime::default() };
            let new = CredentialState {
                id: next_id(&self.credential_states),
                credential: id,
                what,
                usage: CookieUsage::new(DEFAULT_DAILY_LIMIT),
                key_id: None,
                lease: None,
                fence: Fence(0),
                stored: Fence(0),
            };
            self.credential_states.push(new);
            self.credential_states.len() - 1
        });
        self.credential_states.get_mut(at)
    }
}

fn fail(state: &mut CredentialRuntime, now: Ts, error: &str, rejected: bool) {
    if rejected {
        state.status = TokenStatus::Rejected;
    }
    state.fail_count += 1;
    state.last_error = Some(error.to_owned());
    state.updated_at = Some(now);
}

impl CredentialRow {
    pub(super) fn status(&self) -> CredentialStatus {
        if self.revoked_at.is_some() { CredentialStatus::Revoked } else { CredentialStatus::Active }
    }
}
