//! Traces for the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names: OTLP as protobuf over HTTP. Without it there are
//! none.
//!
//! Only the engine's own spans are sent, with their fields. Log lines are not sent: they are masked and written here.

use opentelemetry::KeyValue;
use opentelemetry::trace::{TraceContextExt as _, TracerProvider as _};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::error::Error;

/// Target of the engine's spans.
pub(crate) const SPANS: &str = "patra_engine::spans";

/// Sends the remaining spans when it is dropped.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
}

/// Starts tracing; `None` if no collector is named. Call it outside of the runtime: the exporter has its own thread and
/// client, so that spans are sent even while the runtime shuts down.
pub(crate) fn start() -> Result<Option<Traces>, Error> {
    let names = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
    if !names.iter().any(|name| std::env::var_os(name).is_some_and(|endpoint| !endpoint.is_empty())) {
        return Ok(None);
    }
    patra_http::install_crypto();
    let exporter = SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).build();
    let exporter = exporter.map_err(|error| {
        Error::configuration(format!("cannot send traces: {error}"))
            .hint("OTEL_EXPORTER_OTLP_ENDPOINT is a URL such as http://127.0.0.1:4318")
    })?;
    let service = [KeyValue::new("service.name", "patra"), KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))];
    let provider = SdkTracerProvider::builder()
        .with_resource(Resource::builder().with_attributes(service).build())
        .with_batch_exporter(exporter)
        .build();
    Ok(Some(Traces { provider }))
}

impl Traces {
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.provider.tracer("patra");
        let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        layer.with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == SPANS))
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(error = %error, "the last traces could not be sent");
        }
    }
}

/// The header `traceparent` of the current span; `None` without tracing.
pub(crate) fn context() -> Option<String> {
    let context = Span::current().context();
    let span = context.span().span_context().clone();
    let header = || format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), span.trace_flags().to_u8());
    span.is_valid().then(header)
}
