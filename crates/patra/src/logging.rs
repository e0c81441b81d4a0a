//! Log lines, as text or as JSON. A JSON line holds the fields of the event and of the spans around it, which place it
//! in the lineage (ING-14.5-01). A text line holds the event alone.

mod json;
mod plain;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::cli::{Cli, LogFormat};
use crate::error::Error;
use crate::progress::LogWriter;
use crate::traces::{self, Traces};

/// Starts logging, and tracing if the environment names a collector. Keep the returned guard until the program ends.
pub(crate) fn start(cli: &Cli) -> Result<Option<Traces>, Error> {
    let directives = std::env::var("RUST_LOG").unwrap_or_else(|_| cli.default_log().to_owned());
    let filter = EnvFilter::try_new(directives)
        .map_err(|error| Error::usage(format!("RUST_LOG is invalid: {error}")).hint("for example RUST_LOG=info"))?;
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(LogWriter).with_ansi(colour);
    let lines = match cli.global.log_format {
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(json::JsonLine).boxed(),
        LogFormat::Text => lines.event_format(plain::TextLine).boxed(),
    };
    let traces = traces::start()?;
    let spans = traces.as_ref().map(Traces::layer);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).init();
    Ok(traces)
}
