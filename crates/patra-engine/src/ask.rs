//! What a door is asked to run, checked before it becomes a trigger: a typo is told at once, not by a failed job. Command
//! line and API both come through here.

use patra_core::hash;
use patra_core::params::{self, Params};
use patra_core::port::Queries;
use patra_core::state::Operation;
use patra_spec::{Overrides, Problem};

use crate::compile::check_params;
use crate::registry::{self, Asked, Error};

/// Longest value of a param.
pub const MAX_PARAM_BYTES: usize = 4_096;

/// How far a trigger may move within the band of its operation (G-19).
pub const MAX_PRIORITY_SHIFT: i32 = 50;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    pub provenance: &'a str,
    pub endpoint: &'a str,
    pub operation: Operation,
    pub params: &'a Params,
    pub overrides: &'a Overrides,
    pub priority: i32,
}

/// The same in the words of a trigger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    pub provenance_code: String,
    pub endpoint_name: String,
    pub params: String,
    pub overrides: String,
}

/// Whether there is such an endpoint, the overrides are allowed, and the params are known and fit.
pub async fn check(queries: &dyn Queries, ask: &Ask<'_>) -> Result<Wanted, Error> {
    let Ask { provenance, endpoint, operation, params, overrides, priority } = *ask;
    if priority.abs() > MAX_PRIORITY_SHIFT {
        let message = format!("{priority} is too far: at most {MAX_PRIORITY_SHIFT} up or down");
        return Err(problem("priority", message));
    }
    let spec = registry::spec(queries, &Asked { provenance, endpoint, operation, overrides }).await?;
    let snapshot = &spec.snapshot;
    check_params(snapshot, params).map_err(|fault| problem("params", fault.message))?;
    for (name, value) in params {
        if value.len() > MAX_PARAM_BYTES || value.contains('\0') {
            let message = format!("at most {MAX_PARAM_BYTES} bytes, and no NUL among them");
            return Err(problem(&format!("params.{name}"), message));
        }
    }
    Ok(Wanted {
        provenance_code: snapshot.provenance_code.clone(),
        endpoint_name: snapshot.endpoint_code.clone(),
        params: params::to_text(params),
        overrides: hash::canonical(&overrides.to_json()),
    })
}

fn problem(path: &str, message: String) -> Error {
    let path = format!("trigger.{path}");
    Error::Problems(vec![Problem { file: String::new(), line: 0, column: 0, path, message, hint: None }])
}
