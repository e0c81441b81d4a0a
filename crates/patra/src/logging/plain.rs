//! A text line for people: time, level, message, fields, and the id of the HTTP request. The engine's spans are left
//! out: they are long, and events repeat the fields that matter.

use std::fmt;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, FormatFields as _, Writer};
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

use crate::traces::SPANS;

pub(super) struct TextLine;

impl<S> FormatEvent<S, DefaultFields> for TextLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, DefaultFields>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let (dim, colour, plain) = match writer.has_ansi_escapes() {
            true => ("\x1b[2m", colour(level), "\x1b[0m"),
            false => ("", "", ""),
        };
        write!(writer, "{dim}")?;
        SystemTime.format_time(&mut writer)?;
        write!(writer, "{plain} {colour}{level:>5}{plain} ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        let around = context.event_scope().into_iter().flat_map(Scope::from_root);
        for span in around.filter(|span| span.metadata().target() != SPANS) {
            if let Some(fields) = span.extensions().get::<FormattedFields<DefaultFields>>() {
                write!(writer, " {fields}")?;
            }
        }
        writeln!(writer)
    }
}

fn colour(level: Level) -> &'static str {
    match level {
        Level::ERROR => "\x1b[31m",
        Level::WARN => "\x1b[33m",
        Level::INFO => "\x1b[32m",
        Level::DEBUG => "\x1b[34m",
        Level::TRACE => "\x1b[35m",
    }
}
