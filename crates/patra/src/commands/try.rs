//! `try`: the author's loop. One endpoint of a manifest file is read for real, and everything is shown: the request, the
//! answer, the records, and what the next request would be or why there is none. Nothing is stored.

mod record;
mod show;

use std::sync::Arc;

use patra_core::params::Params;
use patra_core::port::{Clock, Transport};
use patra_engine::trial::{self, Trial, Wish};
use patra_engine::{Credentials, Look, Ports, Probe};
use patra_spec::Overrides;

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
    let overrides = Overrides::parse(&args.set).map_err(|problems| Error::usage(problems.to_string()))?;
    let given: Params = args.params.iter().cloned().collect();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.now();
    let wish = Wish {
        manifest: &manifest,
        endpoint: args.endpoint.as_deref(),
        overrides: &overrides,
        params: &given,
        from: args.from,
        to: args.to,
    };
    let trial = Trial::new(wish, now)?;
    let Trial { spec, params, window, .. } = &trial;
    for warning in &trial.warnings {
        say(&format!("warning: {warning}"));
    }
    let mut show = Show {
        format: global.output,
        records: args.records,
        pages: Vec::new(),
        failed: false,
        recorder: args.record.as_deref().map(|folder| Recorder {
            folder,
            manifest: &args.file,
            spec,
            window: *window,
            params,
            page_size: spec.pagination.as_ref().and_then(|paging| paging.page_size).filter(|_| !overrides.is_empty()),
            now,
            entries: Vec::new(),
        }),
        error: None,
    };
    show.begin(&trial)?;
    let transport = host::transport(global)?;
    let credentials = credentials(global, &trial, &transport, &clock).await?;
    let gate = store::shared_gate(global, &clock).await?;
    let probe = Probe {
        spec,
        window: *window,
        params,
        pages: args.pages,
        credentials: credentials.as_ref(),
        gate: gate.as_ref(),
    };
    let probed = patra_engine::probe(&transport, &clock, probe, |look| show.see(look)).await;
    if let Some(credentials) = &credentials {
        credentials.settled().await;
    }
    probed.map_err(|fault| Error::configuration(fault.message))?;
    show.end(trial.to_json())
}

/// What is seen, as it is shown and kept.
struct Show<'a> {
    format: Output,
    records: usize,
    pages: Vec<serde_json::Value>,
    failed: bool,
    recorder: Option<Recorder<'a>>,
    error: Option<Error>,
}

impl Show<'_> {
    fn begin(&self, trial: &Trial) -> Result<(), Error> {
        if self.format != Output::Table {
            return Ok(());
        }
        let Trial { spec, window, partitions, .. } = trial;
        let (from, to) = (window.from.to_short_text(), window.to.to_short_text());
        let partitions = partitions.iter().map(|partition| format!(", {partition}")).collect::<String>();
        output::line(&format!("{} {}, {from} to {to}{partitions}", spec.provenance_code, spec.endpoint_code))
    }

    fn see(&mut self, look: &Look) {
        self.failed |= trial::has_failed(look);
        if self.error.is_none() {
            self.error = self.show(look).err();
        }
    }

    fn show(&mut self, look: &Look) -> Result<(), Error> {
        match self.format {
            Output::Table => output::line(&show::text(look, self.records))?,
            Output::Ndjson => output::line(&trial::value(look, self.records).to_string())?,
            // One document, at the end.
            Output::Json => self.pages.push(trial::value(look, self.records)),
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
    trial: &Trial,
    transport: &Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Credentials>, Error> {
    if !trial.has_auth() || !store::is_there(global) {
        return Ok(None);
    }
    let opened = store::open(global).await?;
    let ports = Ports { store: opened.store, transport: Arc::clone(transport), clock: Arc::clone(clock) };
    let options = host::credentials(global, &*ports.store).await?;
    Ok(Some(Credentials::new(ports, options, host::owner()?)))
}
