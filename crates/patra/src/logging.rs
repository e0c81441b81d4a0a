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
    let set = |name| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let filter = match (set("RUST_LOG"), set("LOG_LEVEL")) {
        (Some(directives), _) => EnvFilter::try_new(directives)
            .map_err(|error| Error::usage(format!("RUST_LOG is invalid: {error}")).hint("for example RUST_LOG=info"))?,
        (None, Some(level)) => EnvFilter::new(level_name(&level)?),
        (None, None) => EnvFilter::new(cli.default_log()),
    };
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

/// A level of `LOG_LEVEL`, in any of the usual spellings (TWEET-146).
fn level_name(text: &str) -> Result<&'static str, Error> {
    Ok(match text.trim().to_ascii_lowercase().as_str() {
        "trace" => "trace",
        "debug" => "debug",
        "info" => "info",
        "warn" | "warning" => "warn",
        "error" | "critical" | "fatal" => "error",
        "off" | "none" => "off",
        _ => {
            let message = format!("LOG_LEVEL is {text:?}: expected trace, debug, info, warn, error or off");
            return Err(Error::usage(message).hint("for example LOG_LEVEL=info"));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: TWEET-146
    #[test]
    fn log_level_is_read_in_its_usual_spellings() {
        for (text, level) in [("INFO", "info"), ("Warning", "warn"), (" debug ", "debug"), ("CRITICAL", "error")] {
            assert_eq!(level_name(text).unwrap(), level);
        }
        assert!(level_name("loud").unwrap_err().to_string().contains("LOG_LEVEL"));
    }
}
