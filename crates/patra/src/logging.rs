//! Log lines, for people or as JSON. A JSON line holds what the event says and what the spans around it say: where in the lineage
//! it happened (ING-14.5-01). People see the event alone; it names what matters.

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

/// Begins to log, and to take traces where the environment says to whom. What is given back must live as long as the program.
pub(crate) fn start(cli: &Cli) -> Result<Option<Traces>, Error> {
    let wish = std::env::var("RUST_LOG").unwrap_or_else(|_| cli.default_log().to_owned());
    let filter = EnvFilter::try_new(wish)
        .map_err(|error| Error::usage(format!("RUST_LOG is unreadable: {error}")).hint("for example RUST_LOG=info"))?;
    let colour = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_writer(LogWriter).with_ansi(colour);
    let lines = match cli.global.log_format {
        LogFormat::Json => lines.fmt_fields(JsonFields::new()).event_format(json::Line).boxed(),
        LogFormat::Text => lines.event_format(plain::Line).boxed(),
    };
    let traces = traces::start()?;
    let spans = traces.as_ref().map(Traces::layer);
    tracing_subscriber::registry().with(lines.with_filter(filter)).with(spans).init();
    Ok(traces)
}
