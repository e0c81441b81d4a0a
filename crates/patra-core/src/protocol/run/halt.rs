//! Effect of a failed run on similar work: the halt (BREAK) at L4, the advisory pause at an L2 that points at the
//! request (C-40).

use super::PlannedEnd;
use crate::error::{Code, Fault, Level};
use crate::state::PauseKind;
use crate::tx::{Lease, PauseSubject, PauseWork, RunEnd};

pub(super) fn pause_after(lease: &Lease, planned_end: &PlannedEnd) -> Option<PauseWork> {
    let RunEnd::Failed { error } = &planned_end.end else { return None };
    // One source says nothing about the others: it is paused by itself. Only a credential is shared.
    if lease.source.is_some() && !(error.level == Level::L4 && lease.credential.is_some() && concerns_credential(error))
    {
        return None;
    }
    let (kind, subject) = match error.level {
        // A bug of ours, a damaged database, or missing configuration: not the source's fault.
        Level::L4 if matches!(error.code, Code::InternalError | Code::NotConfigured) => return None,
        Level::L4 => (PauseKind::Break, broken(lease, error)),
        Level::L2 if concerns_request(planned_end, error) => (PauseKind::Advisory, partition(lease)),
        _ => return None,
    };
    Some(PauseWork { subject, kind, reason: error.to_string(), by: format!("task {}", lease.task) })
}

/// The narrowest subject that certainly stops the damage: the credential, or the endpoint; the source when the
/// refused credential is unknown.
fn broken(lease: &Lease, error: &Fault) -> PauseSubject {
    match lease.credential {
        Some(credential) if concerns_credential(error) => {
            PauseSubject { credential: Some(credential), ..PauseSubject::default() }
        }
        None if concerns_credential(error) => PauseSubject::source(&lease.provenance_code),
        _ => PauseSubject::endpoint(&lease.provenance_code, &lease.endpoint_name),
    }
}

/// All other users of the credential would be refused too, or have no balance left either.
fn concerns_credential(error: &Fault) -> bool {
    use Code::{CookieInvalid, Forbidden, QuotaExhausted, Unauthorized, UpstreamAuthFailed};
    matches!(error.code, UpstreamAuthFailed | CookieInvalid | Unauthorized | Forbidden | QuotaExhausted)
}

fn partition(lease: &Lease) -> PauseSubject {
    PauseSubject {
        operation: Some(lease.operation),
        ..PauseSubject::endpoint(&lease.provenance_code, &lease.endpoint_name)
    }
}

/// The upstream says that the request is wrong, or it could not even be rendered.
fn concerns_request(planned_end: &PlannedEnd, error: &Fault) -> bool {
    let status = planned_end.failure.as_ref().map_or(0, |failure| failure.stats.http.status);
    matches!(status, 400 | 422) || matches!(error.code, Code::ConfigError | Code::ValidationError)
}
