//! Tries a manifest: reads one endpoint for real and reports the request, the response, the records, and the next
//! request or why there is none. Nothing is stored. The command line and the console show the same.

mod describe;
mod hint;

use patra_core::params::Params;
use patra_core::{Ts, Window};
use patra_spec::manifest::EndpointConfig;
use patra_spec::{CompiledSnapshot, EndpointRole, Manifest, Operation, Overrides, Problems, Snapshot};
use serde_json::{Value, json};

use crate::try_pages::{NextStep, TriedPage};

pub use describe::{head, method_name, missing, next_value, one_line, record_value, skipped, value};
pub use hint::{advice, hint};

/// Parameters of a try.
#[derive(Clone, Copy, Debug)]
pub struct TryRequest<'a> {
    pub manifest: &'a Manifest,
    pub endpoint: Option<&'a str>,
    pub overrides: &'a Overrides,
    pub params: &'a Params,
    pub from: Option<Ts>,
    pub to: Option<Ts>,
}

/// Why an endpoint cannot be tried, and a hint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{message}")]
pub struct TryRefusal {
    pub kind: TryRefusalKind,
    pub message: String,
    pub hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryRefusalKind {
    /// The parameters of the try are wrong.
    Usage,
    /// There is no such endpoint.
    NotFound,
    /// The manifest has problems.
    Manifest,
}

impl TryRefusal {
    fn new(kind: TryRefusalKind, message: impl Into<String>) -> TryRefusal {
        TryRefusal { kind, message: message.into(), hint: None }
    }

    fn hint(self, hint: impl Into<String>) -> TryRefusal {
        TryRefusal { hint: Some(hint.into()), ..self }
    }
}

/// An endpoint that is ready to be read.
#[derive(Clone, Debug)]
pub struct TryTarget {
    pub spec: Snapshot,
    pub warnings: Vec<String>,
    pub params: Params,
    /// The first value of each partition that was not given.
    pub partitions: Vec<String>,
    pub window: Window,
}

impl TryTarget {
    pub fn new(request: TryRequest<'_>, now: Ts) -> Result<TryTarget, TryRefusal> {
        let name = endpoint(request.manifest, request.endpoint)?;
        let CompiledSnapshot { snapshot: spec, warnings, .. } = compiled(request.manifest, &name, request.overrides)
            .map_err(|problems| TryRefusal::new(TryRefusalKind::Manifest, problems.to_string()))?;
        if spec.role == EndpointRole::Detail {
            let message = format!("`{name}` is requested with ids that another endpoint names: try that one");
            let hint = format!("the one with `two_phase: {{ detail: {name} }}`");
            return Err(TryRefusal::new(TryRefusalKind::Usage, message).hint(hint));
        }
        let (params, partitions) = bound(&spec, request.params).map_err(|reason| {
            let known: Vec<_> = spec.params.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let hint = format!("--param NAME=VALUE gives one; the endpoint declares: {known}");
            TryRefusal::new(TryRefusalKind::Usage, reason).hint(hint)
        })?;
        let window = window(&spec, now, request.from, request.to)?;
        Ok(TryTarget { spec, warnings, params, partitions, window })
    }

    /// The target as the command line and the API show it.
    pub fn to_json(&self) -> Value {
        json!({
            "provenance": self.spec.provenance_code,
            "endpoint": self.spec.endpoint_code,
            "operation": self.spec.operation,
            "window": { "from": self.window.from.to_short_text(), "to": self.window.to.to_short_text() },
            "params": self.params,
            "partition": self.partitions,
            "warnings": self.warnings,
        })
    }

    /// Whether the endpoint, or its detail endpoint, uses a credential.
    pub fn has_auth(&self) -> bool {
        let detail = self.spec.two_phase.as_ref().is_some_and(|two_phase| !two_phase.detail.auth.is_none());
        !self.spec.auth.is_none() || detail
    }
}

/// Whether a run would stop at this page.
pub fn has_failed(look: &TriedPage) -> bool {
    look.result.is_err() || matches!(look.outlook, Some(NextStep::Broken { .. }))
}

/// The given window; by default the last window that a run would read.
fn window(spec: &Snapshot, now: Ts, from: Option<Ts>, to: Option<Ts>) -> Result<Window, TryRefusal> {
    let to = to.unwrap_or_else(|| now - spec.safety_lag());
    let widest = to - spec.cut().max_width;
    let from = from.unwrap_or_else(|| spec.initial().filter(|at| (widest..to).contains(at)).unwrap_or(widest));
    Window::new(from, to).ok_or_else(|| TryRefusal::new(TryRefusalKind::Usage, "--from must lie before --to"))
}
/// The named endpoint, or the only one that can be read by itself.
pub fn endpoint(manifest: &Manifest, named: Option<&str>) -> Result<String, TryRefusal> {
    let known: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
    let hint = format!("it has: {}", known.join(", "));
    let by_itself = |(_, endpoint): &(_, &EndpointConfig)| endpoint.role != Some(EndpointRole::Detail);
    let lone: Vec<_> = manifest.endpoints.iter().filter(by_itself).map(|(name, _)| name).collect();
    match (named, &lone[..]) {
        (Some(name), _) if known.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) => {
            Err(TryRefusal::new(TryRefusalKind::NotFound, format!("the manifest has no endpoint `{name}`")).hint(hint))
        }
        (None, [only]) => Ok((*only).clone()),
        (None, _) => {
            let message = "the manifest has several endpoints: name one with --endpoint";
            Err(TryRefusal::new(TryRefusalKind::Usage, message).hint(hint))
        }
    }
}

/// Compiles for HARVEST; an endpoint that cannot be harvested compiles for UPDATE. Problems are those of HARVEST.
pub fn compiled(manifest: &Manifest, name: &str, overrides: &Overrides) -> Result<CompiledSnapshot, Problems> {
    patra_spec::compile_with(manifest, name, Operation::Harvest, overrides)
        .or_else(|problems| patra_spec::inspect(manifest, name, Operation::Update, overrides).map_err(|_| problems))
}

/// The parameters of a request: the given ones, the defaults, and the first value of each partition that was not given.
/// Returns these partitions too.
pub fn bound(spec: &Snapshot, given: &Params) -> Result<(Params, Vec<String>), String> {
    let mut params = spec.resolve_params(given).map_err(|fault| fault.message)?;
    let mut chosen = Vec::new();
    for partition in spec.partitions.iter().filter(|partition| !given.contains_key(&partition.param)) {
        let Some(first) = partition.values.first() else {
            let parent = partition.parent.as_ref().map(|parent| parent.endpoint.as_str()).unwrap_or_default();
            let name = &partition.param;
            return Err(format!(
                "give `{name}`, which a run takes from the records of `{parent}`: --param {name}=VALUE"
            ));
        };
        chosen.push(format!("{}={first} (1 of {} values)", partition.param, partition.values.len()));
        params.insert(partition.param.clone(), first.clone());
    }
    Ok((params, chosen))
}
