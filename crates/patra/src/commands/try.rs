//! `try`: fetches pages of one endpoint of a manifest file and shows everything: the request, the response, the
//! records, and the next request or why there is none. Nothing is stored.

mod record;
mod show;

use std::sync::Arc;

use patra_core::params::Params;
use patra_core::port::{Clock, Transport};
use patra_engine::try_run::{self, TryRequest, TryTarget};
use patra_engine::{Credentials, Ports, TriedPage, TryOptions};
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
        Error::configuration(format!("{} has problems", args.file.display())).hint("fix the problems above")
    })?;
    let overrides = Overrides::parse(&args.set).map_err(|problems| Error::usage(problems.to_string()))?;
    let given: Params = args.params.iter().cloned().collect();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let now = clock.now();
    let request = TryRequest {
        manifest: &manifest,
        endpoint: args.endpoint.as_deref(),
        overrides: &overrides,
        params: &given,
        from: args.from,
        to: args.to,
    };
    let target = TryTarget::new(request, now)?;
    let TryTarget { spec, params, window, .. } = &target;
    for warning in &target.warnings {
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
    show.begin(&target)?;
    let transport = host::transport(global)?;
    let credentials = credentials(global, &target, &transport, &clock).await?;
    let gate = store::shared_gate(global, &clock).await?;
    let options = TryOptions {
        spec,
        window: *window,
        params,
        pages: args.pages,
        credentials: credentials.as_ref(),
        gate: gate.as_ref(),
    };
    let read = patra_engine::read_pages(&transport, &clock, options, |page| show.add(page)).await;
    if let Some(credentials) = &credentials {
        credentials.settled().await;
    }
    if let Some(gate) = &gate {
        gate.close().await;
    }
    read.map_err(|fault| Error::configuration(fault.message))?;
    show.end(target.to_json())
}

/// Prints and records the fetched pages.
struct Show<'a> {
    format: Output,
    records: usize,
    pages: Vec<serde_json::Value>,
    failed: bool,
    recorder: Option<Recorder<'a>>,
    error: Option<Error>,
}

impl Show<'_> {
    fn begin(&self, target: &TryTarget) -> Result<(), Error> {
        if self.format != Output::Table {
            return Ok(());
        }
        let TryTarget { spec, window, partitions, .. } = target;
        let (from, to) = (window.from.to_short_text(), window.to.to_short_text());
        let partitions = partitions.iter().map(|partition| format!(", {partition}")).collect::<String>();
        output::line(&format!("{} {}, {from} to {to}{partitions}", spec.provenance_code, spec.endpoint_code))
    }

    fn add(&mut self, page: &TriedPage) {
        self.failed |= try_run::has_failed(page);
        if self.error.is_none() {
            self.error = self.show(page).err();
        }
    }

    fn show(&mut self, page: &TriedPage) -> Result<(), Error> {
        match self.format {
            Output::Table => output::line(&show::text(page, self.records))?,
            Output::Ndjson => output::line(&try_run::value(page, self.records).to_string())?,
            // Printed as one document at the end.
            Output::Json => self.pages.push(try_run::value(page, self.records)),
        }
        self.recorder.as_mut().map_or(Ok(()), |recorder| recorder.keep(page))
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

/// The credentials, if the endpoint needs one and there is a database. Never creates a database.
async fn credentials(
    global: &Global,
    target: &TryTarget,
    transport: &Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
) -> Result<Option<Credentials>, Error> {
    if !target.has_auth() || !store::is_there(global) {
        return Ok(None);
    }
    let opened = store::open(global).await?;
    let ports = Ports { store: opened.store, transport: Arc::clone(transport), clock: Arc::clone(clock) };
    let options = host::credentials(global, &*ports.store).await?;
    Ok(Some(Credentials::new(ports, options, host::owner()?)))
}
