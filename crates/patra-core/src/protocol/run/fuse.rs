//! What a run that fails does to the work like it: the fuse at L4, the advisory pause at an L2 that points at the request
//! (C-40).

use super::Verdict;
use crate::error::{Code, Fault, Level};
use crate::state::HoldKind;
use crate::tx::{Hold, Lease, RunEnd, Subject};

pub(super) fn hold(lease: &Lease, verdict: &Verdict) -> Option<Hold> {
    let RunEnd::Failed { error } = &verdict.end else { return None };
    // One source says nothing about the others: it is paused by itself. Only a credential is common to all.
    if lease.source.is_some() && !(error.level == Level::L4 && lease.credential.is_some() && is_about_the_key(error)) {
        return None;
    }
    let (kind, subject) = match error.level {
        // A bug of ours, a damaged database, or something that is not set up here: no fault of the source.
        Level::L4 if matches!(error.code, Code::InternalError | Code::NotConfigured) => return None,
        Level::L4 => (HoldKind::Break, broken(lease, error)),
        Level::L2 if is_about_the_request(verdict, error) => (HoldKind::Advisory, partition(lease)),
        _ => return None,
    };
    Some(Hold { subject, kind, reason: error.to_string(), by: format!("task {}", lease.task) })
}

/// The narrowest that certainly stops the damage: what uses the credential, or the endpoint; the source when a credential is
/// refused that nobody named.
fn broken(lease: &Lease, error: &Fault) -> Subject {
    match lease.credential {
        Some(credential) if is_about_the_key(error) => Subject { credential: Some(credential), ..Subject::default() },
        None if is_about_the_key(error) => Subject::source(&lease.provenance_code),
        _ => Subject::endpoint(&lease.provenance_code, &lease.endpoint_name),
    }
}

/// Whoever else uses the credential would be refused too, or has no balance left either.
fn is_about_the_key(error: &Fault) -> bool {
    use Code::{CookieInvalid, Forbidden, QuotaExhausted, Unauthorized, UpstreamAuthFailed};
    matches!(error.code, UpstreamAuthFailed | CookieInvalid | Unauthorized | Forbidden | QuotaExhausted)
}

fn partition(lease: &Lease) -> Subject {
    Subject { operation: Some(lease.operation), ..Subject::endpoint(&lease.provenance_code, &lease.endpoint_name) }
}

/// The far side says that the request is wrong, or it could not even be written.
fn is_about_the_request(verdict: &Verdict, error: &Fault) -> bool {
    let status = verdict.failure.as_ref().map_or(0, |failure| failure.stats.http.status);
    matches!(status, 400 | 422) || matches!(error.code, Code::ConfigError | Code::ValidationError)
}
