//! The pool of cookies.

use patra_core::cookie::{CookieUsage, DEFAULT_DAILY_LIMIT, DEFAULT_PRIORITY};
use patra_core::credential::Credential;
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, TokenStatus};
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePicked, CookieReactivated, CookieSaved, PickCookie, ReactivateCookie,
    RecordCookieOutcome, Reseal, Resealed, SaveCookie, SealedText, TxError,
};
use patra_core::{CredentialId, Ts};

use super::{CredentialRow, MemStore, next_id, place, refused};

impl MemStore {
    /// The ACTIVE cookies.
    pub(super) fn cookies(&self) -> impl Iterator<Item = &CredentialRow> {
        self.credentials.iter().filter(|row| row.auth_type == AuthType::Cookie && row.revoked_at.is_none())
    }

    pub(super) fn cookie(&self, name: &str) -> Option<&CredentialRow> {
        self.cookies().find(|row| row.binding.alias == name)
    }

    pub(super) fn usage_of(&self, row: &CredentialRow) -> CookieUsage {
        let daily_limit = row.daily_limit.unwrap_or(DEFAULT_DAILY_LIMIT);
        let usage = self.state_of(row.id).map_or_else(|| CookieUsage::new(daily_limit), |state| state.usage.clone());
        CookieUsage { daily_limit, ..usage }
    }

    fn set_usage(&mut self, now: Ts, id: CredentialId, usage: CookieUsage) {
        let Some(state) = self.state_for(now, id) else { return };
        state.usage = usage;
        state.what.updated_at = Some(now);
    }

    pub(super) fn save_cookie(&mut self, now: Ts, op: &SaveCookie) -> Result<CookieSaved, TxError> {
        let Some(known) = self.cookie(&op.binding.alias) else {
            return Ok(CookieSaved { id: self.insert_cookie(now, op)?, created: true });
        };
        if known.binding != op.binding || known.version != op.version {
            return Err(TxError::Conflict);
        }
        let id = known.id;
        let value = op.value.as_ref().filter(|value| value.text != known.sealed);
        check_sealed(value)?;
        let row = &mut self.credentials[place(id.0)];
        row.priority = op.priority.unwrap_or(row.priority);
        row.daily_limit = op.daily_limit.or(row.daily_limit);
        row.updated_at = now;
        if let Some(SealedText { text, key_id }) = value {
            row.sealed.clone_from(text);
            row.key_id.clone_from(key_id);
            self.state_for(now, id);
            self.trust(now, id, true);
        }
        Ok(CookieSaved { id, created: false })
    }

    fn insert_cookie(&mut self, now: Ts, op: &SaveCookie) -> Result<CredentialId, TxError> {
        let versions = self.credentials.iter().filter(|row| row.binding == op.binding).map(|row| row.version);
        let next = versions.max().unwrap_or(0) + 1;
        let Some(SealedText { text, key_id }) = op.value.as_ref().filter(|_| op.version == next) else {
            return Err(TxError::Conflict);
        };
        check_sealed(op.value.as_ref())?;
        let id = CredentialId(next_id(&self.credentials));
        self.credentials.push(CredentialRow {
            id,
            binding: op.binding.clone(),
            version: op.version,
            auth_type: AuthType::Cookie,
            priority: op.priority.unwrap_or(DEFAULT_PRIORITY),
            sealed: text.clone(),
            key_id: key_id.clone(),
            daily_limit: op.daily_limit,
            created_at: now,
            updated_at: now,
            revoked_at: None,
        });
        Ok(id)
    }

    /// Reactivates a cookie after a check by hand or a new value.
    fn trust(&mut self, now: Ts, id: CredentialId, replaced: bool) {
        let trusted = self.usage_of(&self.credentials[place(id.0)]).reactivated();
        let Some(state) = self.credential_states.iter_mut().find(|state| state.credential == id) else { return };
        let what = &mut state.what;
        let blamed = what.status != TokenStatus::Active || what.fail_count > 0 || what.last_error.is_some();
        if replaced || blamed || trusted != (CookieUsage { daily_limit: trusted.daily_limit, ..state.usage.clone() }) {
            what.version += i64::from(replaced);
            (what.status, what.fail_count, what.last_error) = (TokenStatus::Active, 0, None);
            self.set_usage(now, id, trusted);
        }
    }

    pub(super) fn pick_cookie(&mut self, now: Ts, op: &PickCookie) -> CookiePicked {
        let bound = |row: &&CredentialRow| {
            let binding = &row.binding;
            let endpoint = binding.endpoint_name == WHOLE || binding.endpoint_name == op.endpoint_name;
            endpoint && binding.provenance_code == op.provenance_code
        };
        let pool = self.cookies().filter(bound).map(|row| (self.view_credential(row), self.usage_of(row)));
        let (credential, usage) = match op.choose(pool.collect(), now) {
            Ok(chosen) => chosen,
            Err(none) => return none,
        };
        self.set_usage(now, credential.id, usage.used(now, op.day));
        let credential: Credential = self.view_credential(&self.credentials[place(credential.id.0)]);
        CookiePicked::Picked { credential: Box::new(credential), now }
    }

    pub(super) fn judge_cookie(&mut self, now: Ts, op: &RecordCookieOutcome) -> CookieOutcomeRecorded {
        let id = op.credential;
        let none = CookieOutcomeRecorded { before: None, after: None };
        let Some(row) = self.cookies().find(|row| row.id == id) else { return none };
        let before = self.usage_of(row);
        let state = self.state_for(now, id).filter(|state| state.what.version == op.seen_version);
        let Some(state) = state else { return none };
        let (after, last_error) = op.apply(&before, state.what.last_error.take(), now);
        let same = before.status == after.status;
        assert!(same || before.status.may_become(after.status), "{} becomes {}", before.status, after.status);
        state.what.last_error = last_error;
        let judged = CookieOutcomeRecorded { before: Some(before.status), after: Some(after.status) };
        self.set_usage(now, id, after);
        judged
    }

    pub(super) fn reactivate_cookie(&mut self, now: Ts, op: &ReactivateCookie) -> CookieReactivated {
        let id = self.cookie(&op.name).map(|row| row.id);
        if let Some(id) = id {
            self.trust(now, id, false);
        }
        CookieReactivated { id }
    }

    pub(super) fn reseal(&mut self, now: Ts, op: &Reseal) -> Result<Resealed, TxError> {
        let row = self.credentials.get_mut(place(op.credential.0)).filter(|row| row.revoked_at.is_none());
        let Some(row) = row else { return Ok(Resealed { resealed: false }) };
        if !op.token {
            let resealed = row.sealed == op.old;
            if resealed {
                check_sealed(Some(&op.new))?;
                (row.sealed, row.key_id, row.updated_at) = (op.new.text.clone(), op.new.key_id.clone(), now);
            }
            return Ok(Resealed { resealed });
        }
        let state = self.credential_states.iter_mut().find(|state| state.credential == op.credential);
        let Some(state) = state.filter(|state| state.what.sealed.as_ref() == Some(&op.old)) else {
            return Ok(Resealed { resealed: false });
        };
        state.what.sealed = Some(op.new.text.clone());
        state.key_id = Some(op.new.key_id.clone());
        state.what.updated_at = Some(now);
        Ok(Resealed { resealed: true })
    }

    /// Reactivates cookies whose cooling has ended, and returns their number.
    pub(super) fn rest_cookies(&mut self, now: Ts) -> u64 {
        let usages = self.cookies().map(|row| (row.id, self.usage_of(row)));
        let rested: Vec<_> = usages.filter(|(_, usage)| *usage != usage.after_cooling(now)).collect();
        for (id, usage) in &rested {
            self.set_usage(now, *id, usage.after_cooling(now));
        }
        rested.len() as u64
    }
}

/// Only a revoked cookie has no secret.
fn check_sealed(value: Option<&SealedText>) -> Result<(), TxError> {
    if value.is_some_and(|value| value.text.is_empty()) { refused("an empty secret") } else { Ok(()) }
}
