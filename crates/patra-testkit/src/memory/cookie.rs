//! The pool of cookies.

use patra_core::cookie::{CookieUsage, DEFAULT_DAILY_LIMIT, DEFAULT_PRIORITY};
use patra_core::credential::Credential;
use patra_core::registry::WHOLE;
use patra_core::state::{AuthType, TokenStatus};
use patra_core::tx::{
    CookieOutcomeRecorded, CookiePaused, CookiePicked, CookieReactivated, CookieReleased, CookieSaved, PauseCookie,
    PickCookie, ReactivateCookie, RecordCookieOutcome, ReleaseCookie, Reseal, Resealed, SaveCookie, SealedText,
    TxError,
};
use patra_core::{CredentialId, Ts};

use super::rows::CookieLease;
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
        }
        self.change_usage(now, id, op, value.is_some());
        if value.is_some() {
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
        self.change_usage(now, id, op, true);
        Ok(id)
    }

    fn change_usage(&mut self, now: Ts, id: CredentialId, op: &SaveCookie, replaced: bool) {
        let Some(state) = self.state_for(now, id) else { return };
        let usage = &mut state.usage;
        usage.expires_at = op.expires_at.or(usage.expires_at.filter(|_| !replaced));
        usage.max_parallel = op.max_parallel.unwrap_or(usage.max_parallel);
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

    /// Ends the uses whose lease is over, of all cookies or of those of some credentials.
    fn end_leases(&mut self, now: Ts, of: impl Fn(&CookieLease) -> bool) {
        let ended: Vec<_> = self.cookie_leases.extract_if(.., |lease| of(lease) && lease.expires_at <= now).collect();
        for lease in ended {
            self.free_cookie(now, lease.credential);
        }
    }

    fn free_cookie(&mut self, now: Ts, id: CredentialId) {
        if let Some(state) = self.credential_states.iter_mut().find(|state| state.credential == id) {
            state.usage.in_use = state.usage.in_use.saturating_sub(1);
            state.what.updated_at = Some(now);
        }
    }

    pub(super) fn pick_cookie(&mut self, now: Ts, op: &PickCookie) -> CookiePicked {
        let of_source: Vec<_> =
            self.cookies().filter(|row| row.binding.provenance_code == op.provenance_code).cloned().collect();
        match &op.name {
            None => {
                self.end_leases(now, |lease| lease.provenance_code == op.provenance_code);
                for row in &of_source {
                    let usage = self.usage_of(row);
                    let refreshed = usage.refreshed(now, op.day);
                    if refreshed != usage {
                        self.set_usage(now, row.id, refreshed);
                    }
                }
            }
            Some(name) => {
                let meant: Vec<_> =
                    of_source.iter().filter(|row| row.binding.alias == *name).map(|row| row.id).collect();
                self.end_leases(now, |lease| meant.contains(&lease.credential));
            }
        }
        let bound = |row: &&CredentialRow| {
            let endpoint = &row.binding.endpoint_name;
            endpoint == WHOLE || *endpoint == op.endpoint_name
        };
        let pool = of_source.iter().filter(bound).map(|row| (self.view_credential(row), self.usage_of(row)));
        let (credential, usage) = match op.choose(pool.collect(), now) {
            Ok(chosen) => chosen,
            Err(CookiePicked::Exhausted { counts, next_active_at, .. }) => {
                let in_use = self.cookie_leases.iter().any(|lease| lease.provenance_code == op.provenance_code);
                return CookiePicked::Exhausted { counts, next_active_at, in_use };
            }
            Err(none) => return none,
        };
        let leased = usage.max_parallel > 0;
        if leased {
            self.cookie_leases.push(CookieLease {
                credential: credential.id,
                provenance_code: op.provenance_code.clone(),
                holder: op.holder.clone(),
                expires_at: now + op.lease,
            });
        }
        self.set_usage(now, credential.id, usage.used(now, op.day));
        let credential: Credential = self.view_credential(&self.credentials[place(credential.id.0)]);
        CookiePicked::Picked { credential: Box::new(credential), now, leased }
    }

    pub(super) fn release_cookie(&mut self, now: Ts, op: &ReleaseCookie) -> CookieReleased {
        let at = self.cookie_leases.iter().position(|lease| lease.holder == op.holder);
        if let Some(at) = at {
            let lease = self.cookie_leases.remove(at);
            self.free_cookie(now, lease.credential);
        }
        CookieReleased { released: at.is_some() }
    }

    pub(super) fn pause_cookie(&mut self, now: Ts, op: &PauseCookie) -> CookiePaused {
        let Some(row) = self.cookie(&op.name).cloned() else { return CookiePaused { id: None } };
        let usage = self.usage_of(&row);
        if usage.paused_at.is_some() != op.paused {
            self.set_usage(now, row.id, CookieUsage { paused_at: op.paused.then_some(now), ..usage });
        }
        CookiePaused { id: Some(row.id) }
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
