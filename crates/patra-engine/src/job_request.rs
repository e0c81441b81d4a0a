//! Requests for jobs, checked before they become triggers: a typo is reported at once, not by a failed job. Command
//! line and API both come through here.

use patra_core::Ts;
use patra_core::hash;
use patra_core::params::{self, Params};
use patra_core::port::Queries;
use patra_core::state::{Operation, UpdateReason};
use patra_spec::Overrides;

use crate::compile::check_params;
use crate::registry::{self, Error, SpecRequest};

/// Longest value of a param.
pub const MAX_PARAM_BYTES: usize = 4_096;

/// Longest name of an activity.
pub const MAX_ACTIVITY_BYTES: usize = 128;

/// Largest priority shift of a trigger within the band of its operation (G-19).
pub const MAX_PRIORITY_SHIFT: i32 = 50;

/// Parameters of a job.
#[derive(Clone, Copy, Debug)]
pub struct JobRequest<'a> {
    pub project: &'a str,
    pub provenance: &'a str,
    pub endpoint: &'a str,
    pub operation: Operation,
    /// Reason for an UPDATE.
    pub reason: Option<UpdateReason>,
    /// Activity that a BACKFILL or UPDATE belongs to.
    pub activity: Option<&'a str>,
    /// Bounds of the window.
    pub from: Option<Ts>,
    pub to: Option<Ts>,
    pub params: &'a Params,
    pub overrides: &'a Overrides,
    pub priority: i32,
}

/// The checked request in the form of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewJobFields {
    pub provenance_code: String,
    pub endpoint_name: String,
    pub params: String,
    pub overrides: String,
    /// The rate key of its requests.
    pub rate_key: String,
}

/// Checks that the endpoint exists, the overrides are allowed, and the params are known and valid.
pub async fn check(queries: &dyn Queries, ask: &JobRequest<'_>) -> Result<NewJobFields, Error> {
    let JobRequest { project, provenance, endpoint, operation, params, overrides, priority, .. } = *ask;
    purpose(ask)?;
    if priority.abs() > MAX_PRIORITY_SHIFT {
        let message = format!("{priority} is too far: at most {MAX_PRIORITY_SHIFT} up or down");
        return Err(problem("priority", message));
    }
    let asked = SpecRequest { project: Some(project), provenance, endpoint, operation, overrides };
    let spec = registry::spec(queries, &asked).await?;
    let snapshot = &spec.snapshot;
    if snapshot.reads_whole_list() && operation != Operation::Update && (ask.from.is_some() || ask.to.is_some()) {
        let bound = if ask.from.is_some() { "from" } else { "to" };
        let message = "the endpoint has `window.mode: snapshot`: every pass reads the whole list, which has no window";
        return Err(problem(bound, message.to_owned()));
    }
    check_params(snapshot, params).map_err(|fault| problem("params", fault.message))?;
    for (name, value) in params {
        if value.len() > MAX_PARAM_BYTES || value.contains('\0') {
            let message = format!("at most {MAX_PARAM_BYTES} bytes, and no NUL among them");
            return Err(problem(&format!("params.{name}"), message));
        }
    }
    Ok(NewJobFields {
        provenance_code: snapshot.provenance_code.clone(),
        endpoint_name: snapshot.endpoint_code.clone(),
        params: params::to_text(params),
        overrides: hash::canonical(&overrides.to_json()),
        rate_key: snapshot.gate_key(),
    })
}

/// A reason needs an UPDATE, a window an operation that reads one, and an activity an operation with a cursor of its
/// own.
fn purpose(ask: &JobRequest<'_>) -> Result<(), Error> {
    match (ask.operation, ask.from, ask.to) {
        (Operation::Update, None, None) => {}
        (Operation::Update, from, _) => {
            let bound = if from.is_some() { "from" } else { "to" };
            let message = "an UPDATE has no window: it fetches the stored records that its reason names";
            return Err(problem(bound, message.to_owned()));
        }
        (_, Some(from), Some(to)) if from >= to => {
            return Err(problem("from", "it must lie before the end of the window".to_owned()));
        }
        _ => {}
    }
    let known: Vec<_> = UpdateReason::ALL.iter().map(|reason| reason.as_str()).collect();
    match (ask.operation, ask.reason, ask.activity) {
        (Operation::Update, None, _) => Err(problem("reason", format!("an UPDATE must say why: {}", known.join(", ")))),
        (Operation::Harvest | Operation::Backfill, Some(_), _) => {
            Err(problem("reason", "only an UPDATE has a reason".to_owned()))
        }
        (Operation::Harvest, _, Some(_)) => {
            Err(problem("activity", "a HARVEST has one progress; only BACKFILL and UPDATE have activities".to_owned()))
        }
        (_, _, Some(name)) if name.is_empty() || name.len() > MAX_ACTIVITY_BYTES || name.contains('\0') => {
            Err(problem("activity", format!("expected 1 to {MAX_ACTIVITY_BYTES} bytes, and no NUL among them")))
        }
        _ => Ok(()),
    }
}

fn problem(path: &str, message: String) -> Error {
    registry::problem(&format!("trigger.{path}"), message)
}
