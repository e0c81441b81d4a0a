//! `try`: the author's loop. One endpoint of a manifest file is read for real, and everything is shown: the request, the
//! answer, the records, and what the next request would be or why there is none. Nothing is stored.

mod hint;
mod record;
mod show;

use std::sync::Arc;

use serde_json::json;

use patra_core::params::Params;
use patra_core::port::{Clock, Transport};
use patra_core::{Ts, Window};
use patra_engine::{Credentials, Look, Outlook, Ports, Probe};
use patra_spec::manifest::Endpoint;
use patra_spec::{Compiled, Manifest, Operation, Overrides, Problems, Role, Snapshot};

use super::apply;
use crate::cli::{Global, Output, Try};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{host, output, store};

use record::Recorder;

pub(crate) async fn run(global: &Global, args: &Try) -> Result<Exit, Error> {
    let (manifest, _) = apply::read(&args.file)?.map_err(|problems| {
        say(&problems.to_string());
        Error::configuration(format!("{} has problems", args.file.display())).hint("mend what is listed above")
    })?;
    let name = endpoint(&manifest, args.endpoint.as_deref())?;
    let overrides = Overrides::parse(&args.set).map_err(|problems| Error::usage(problems.to_string()))?;
    let Compiled { snapshot: spec, warnings, .. } =
        compiled(&manifest, &name, &overrides).map_err(|problems| Error::configuration(problems.to_string()))?;
    if spec.role == Role::Detail {
        let message = format!("`{name}` is asked for ids that another endpoint names: try that one");
        return Err(Error::usage(message).hint(format!("the one with `two_phase: {{ detail: {name} }}`")));
    }
    let given: Params = args.params.iter().cloned().collect();
    let (params, partitions) = bound(&spec, &given).map_err(|reason| {
        let known: Vec<_> = spec.params.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Error::usage(reason).hint(format!("--param NAME=VALUE gives one; the endpoint declares: {known}"))
    })?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.now();
    let window = window(&spec, now, args)?;
    for warning in &warnings {
        say(&format!("warning: {warning}"));
    }
    let mut trial = Trial {
        format: global.output,
        records: args.records,
        pages: Vec::new(),
        failed: false,
        recorder: args.record.as_deref().map(|folder| Recorder {
            folder,
            manifest: &args.file,
            spec: &spec,
            window,
            params: &params,
            page_size: spec.pagination.as_ref().and_then(|paging| paging.page_size).filter(|_| !overrides.is_empty()),
            now,
            entries: Vec::new(),
        }),
        error: None,
    };
    trial.begin(&spec, window, &partitions)?;
    let transport = host::transport(global)?;
    let credentials = credentials(global, &spec, &transport, &clock).await?;
    let gate = store::shared_gate(global, &clock).await?;
    let probe = Probe {
        spec: &spec,
        window,
        params: &params,
        pages: args.pages,
        credentials: credentials.as_ref(),
        gate: gate.as_ref(),
    };
    let probed = patra_engine::probe(&transport, &clock, probe, |look| trial.see(look)).await;
    if let Some(credentials) = &credentials {
        credentials.settled().await;
    }
    probed.map_err(|fault| Error::configuration(fault.message))?;
    let head = json!({
        "provenance": spec.provenance_code,
        "endpoint": spec.endpoint_code,
        "operation": spec.operation,
        "window": { "from": window.from.to_short_text(), "to": window.to.to_short_text() },
        "params": params,
        "partition": partitions,
        "warnings": warnings,
    });
    trial.end(head)
}

/// What is seen, as it is shown and kept.
struct Trial<'a> {
    format: Output,
    records: usize,
    pages: Vec<serde_json::Value>,
    failed: bool,
    recorder: Option<Recorder<'a>>,
    error: Option<Error>,
}

impl Trial<'_> {
    fn begin(&self, spec: &Snapshot, window: Window, partitions: &[String]) -> Result<(), Error> {
        if self.format != Output::Table {
            return Ok(());
        }
        let (from, to) = (window.from.to_short_text(), window.to.to_short_text());
        let partitions = partitions.iter().map(|partition| format!(", {partition}")).collect::<String>();
        output::line(&format!("{} {}, {from} to {to}{partitions}", spec.provenance_code, spec.endpoint_code))
    }

    fn see(&mut self, look: &Look) {
        self.failed |= look.result.is_err() || matches!(look.outlook, Some(Outlook::Broken { .. }));
        if self.error.is_none() {
            self.error = self.show(look).err();
        }
    }

    fn show(&mut self, look: &Look) -> Result<(), Error> {
        match self.format {
            Output::Table => output::line(&show::text(look, self.records))?,
            Output::Ndjson => output::line(&show::value(look, self.records).to_string())?,
            // One document, at the end.
            Output::Json => self.pages.push(show::value(look, self.records)),
        }
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.keep(look))
    }

    fn end(self, mut head: serde_json::Value) -> Result<Exit, Error> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let tests = self.recorder.map(|recorder| recorder.entries);
        match (self.format, tests) {
            (Output::Table, Some(tests)) if !tests.is_empty() => {
                let entries: String = tests.iter().map(record::Entry::to_yaml).collect();
                output::line(&format!("\ntests:\n{}", entries.trim_end()))?;
            }
            (Output::Json, tests) => {
                head["pages"] = self.pages.into();
                head["tests"] = tests.iter().flatten().map(record::Entry::to_json).collect();
                output::result(Output::Json, "", &head)?;
            }
            (Output::Table | Output::Ndjson, _) => {}
        }
        Ok(if self.failed { Exit::Failures } else { Exit::Ok })
    }
}

/// The vault, where the endpoint asks for a credential and there is one. It is opened like a run opens it; looking makes
/// no database.
async fn credentials(
    global: &Global,
    spec: &Snapshot,
    transport: &Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Credentials>, Error> {
    let detail = spec.two_phase.as_ref().is_some_and(|two_phase| !two_phase.detail.auth.is_none());
    if (spec.auth.is_none() && !detail) || !store::is_there(global) {
        return Ok(None);
    }
    let opened = store::open(global).await?;
    let ports = Ports { store: opened.store, transport: Arc::clone(transport), clock: Arc::clone(clock) };
    let options = host::credentials(global, &*ports.store).await?;
    Ok(Some(Credentials::new(ports, options, host::owner()?)))
}

/// By default the last window that a run would read.
fn window(spec: &Snapshot, now: Ts, args: &Try) -> Result<Window, Error> {
    let to = args.to.unwrap_or_else(|| now - spec.safety_lag());
    let widest = to - spec.cut().max_width;
    let from = args.from.unwrap_or_else(|| spec.initial().filter(|at| (widest..to).contains(at)).unwrap_or(widest));
    Window::new(from, to).ok_or_else(|| Error::usage("--from must lie before --to"))
}

/// The one that is named, or the only one that can be read by itself.
pub(crate) fn endpoint(manifest: &Manifest, wish: Option<&str>) -> Result<String, Error> {
    let known: Vec<_> = manifest.endpoints.keys().map(String::as_str).collect();
    let hint = format!("it has: {}", known.join(", "));
    let by_itself = |(_, endpoint): &(_, &Endpoint)| endpoint.role != Some(Role::Detail);
    let lone: Vec<_> = manifest.endpoints.iter().filter(by_itself).map(|(name, _)| name).collect();
    match (wish, &lone[..]) {
        (Some(wish), _) if known.contains(&wish) => Ok(wish.to_owned()),
        (Some(wish), _) => Err(Error::not_found(format!("the manifest has no endpoint `{wish}`")).hint(hint)),
        (None, [only]) => Ok((*only).clone()),
        (None, _) => Err(Error::usage("the manifest has several endpoints: name one with --endpoint").hint(hint)),
    }
}

/// For harvesting; an endpoint that cannot be harvested is read as it stands. Problems are those of harvesting.
pub(crate) fn compiled(manifest: &Manifest, name: &str, overrides: &Overrides) -> Result<Compiled, Problems> {
    patra_spec::compile_with(manifest, name, Operation::Harvest, overrides)
        .or_else(|problems| patra_spec::inspect(manifest, name, Operation::Update, overrides).map_err(|_| problems))
}

/// The parameters of a request: what was given, the defaults, and for partitions that were not given their first value,
/// which is told.
pub(crate) fn bound(spec: &Snapshot, given: &Params) -> Result<(Params, Vec<String>), String> {
    let mut params = spec.resolve_params(given).map_err(|fault| fault.message)?;
    let mut told = Vec::new();
    for partition in spec.partitions.iter().filter(|partition| !given.contains_key(&partition.param)) {
        let Some(first) = partition.values.first() else {
            let parent = partition.parent.as_ref().map(|parent| parent.endpoint.as_str()).unwrap_or_default();
            let name = &partition.param;
            return Err(format!(
                "give `{name}`, which a run takes from the records of `{parent}`: --param {name}=VALUE"
            ));
        };
        told.push(format!("{}={first} (1 of {} values)", partition.param, partition.values.len()));
        params.insert(partition.param.clone(), first.clone());
    }
    Ok((params, told))
}
