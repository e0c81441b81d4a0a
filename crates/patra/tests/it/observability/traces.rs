//! Logs with their lineage, and traces as received by a collector.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use patra_upstream::{FaultSchedule, Script};
use prost::Message as _;
use serde_json::Value;

use crate::cli::upstream;
use crate::support::{On, Workspace, manifest};

/// Receives requests to `/v1/traces`, like any collector.
struct Collector {
    address: String,
    got: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, got) = (listener.local_addr().unwrap().to_string(), Arc::<Mutex<Vec<_>>>::default());
        let taken = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut reader = BufReader::new(stream.unwrap());
                while let Some(body) = request(&mut reader) {
                    taken.lock().unwrap().push(ExportTraceServiceRequest::decode(&body[..]).unwrap());
                    let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";
                    reader.get_mut().write_all(answer.as_bytes()).unwrap();
                }
            }
        });
        Collector { address, got }
    }

    fn spans(&self) -> Vec<Span> {
        let got = self.got.lock().unwrap();
        let scopes = got.iter().flat_map(|request| &request.resource_spans).flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

/// Reads the body of the next request of a connection.
fn request(reader: &mut impl std::io::BufRead) -> Option<Vec<u8>> {
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).ok()? > 0 && line != "\r\n" {
        let lower = line.to_lowercase();
        assert!(!lower.starts_with("post ") || lower.starts_with("post /v1/traces "), "{line}");
        length = lower.strip_prefix("content-length:").map_or(length, |value| value.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    (length > 0).then_some(body)
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let text = |value: &Attribute| match value {
        Attribute::StringValue(text) => text.clone(),
        Attribute::IntValue(number) => number.to_string(),
        Attribute::BoolValue(flag) => flag.to_string(),
        other => format!("{other:?}"),
    };
    let value = |attribute: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        attribute.value.as_ref().and_then(|value| value.value.as_ref()).map(text).unwrap_or_default()
    };
    span.attributes.iter().map(|attribute| (attribute.key.clone(), value(attribute))).collect()
}

/// Names of the spans from the root to this one.
fn path(span: &Span, spans: &[Span]) -> String {
    let parent = spans.iter().find(|other| other.span_id == span.parent_span_id);
    match parent {
        Some(parent) => format!("{} > {}", path(parent, spans), span.name),
        None => span.name.clone(),
    }
}

// covers: ING-14.6-01, ING-14.6-02, ING-14.6-03, ING-14.2-02, ING-DOD-28
#[tokio::test(flavor = "multi_thread")]
async fn traces_are_complete_and_propagate_to_the_upstream() {
    let server = upstream(120, Script { e500: FaultSchedule::at([2]), ..Script::default() });
    let (place, collector) = (Workspace::sqlite(), Collector::start());
    place.apply(&manifest(server.base_url()));
    let output = place
        .patra()
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{}", collector.address))
        .args(["run", "far", "records", "--to", "2024-01-01T05:00:00Z"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let spans = collector.spans();
    let paths: Vec<_> = spans.iter().map(|span| path(span, &spans)).collect();
    for wanted in ["PlannerTrigger > CompileSpec > Slice", "ExecutorTrigger > PickTask > Run > Batch > HTTP Call"] {
        assert!(paths.iter().any(|path| path == wanted), "{wanted} is not among {paths:?}");
    }
    let of = |name: &str| spans.iter().filter(|span| span.name == name).map(attributes).collect::<Vec<_>>();
    let run = &of("Run")[0];
    for name in
        ["source", "endpoint", "op", "priority", "task_id", "run_id", "spec_fingerprint", "slice_signature_hash"]
    {
        assert!(run.contains_key(name), "{name}: {run:?}");
    }
    let batches = of("Batch");
    assert!(batches.iter().all(|batch| batch.contains_key("hasNext") && batch["status"] == "SUCCEEDED"), "{batches:?}");
    assert!(batches.iter().any(|batch| batch.contains_key("token")), "{batches:?}");
    let calls = of("HTTP Call");
    let failed: Vec<_> = calls.iter().filter(|call| call["http.status"] == "500").collect();
    assert_eq!((failed.len(), failed[0]["error.level"].as_str()), (1, "L1"));
    assert_eq!(calls.len() as u64, server.stats().data_requests, "one span for each request");
    // The upstream sees which of our spans sent a request.
    let log = server.log();
    let parents: Vec<_> = log.iter().filter_map(|entry| entry.traceparent.clone()).collect();
    for span in spans.iter().filter(|span| span.name == "HTTP Call") {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let parent = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert!(parents.contains(&parent), "{parent} is not among {parents:?}");
    }
    let sent = &batches[0]["correlation_id"];
    assert!(log.iter().any(|entry| entry.correlation.as_ref() == Some(sent)), "{sent} is not in {log:?}");
}

// covers: ING-14.2-01, ING-14.2-03, ING-14.5-01, ING-14.5-02, ING-14.5-03, ING-14.5-04, ING-14.11-03, ING-14.1-01
on_both!(every_log_line_of_a_run_has_its_lineage);
async fn every_log_line_of_a_run_has_its_lineage(on: On) {
    let server = upstream(300, Script { e500: FaultSchedule::at([2]), ..Script::default() });
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        let lines = |percent: &str, to: &str| {
            server.reset();
            let output = place
                .patra()
                .env("RUST_LOG", "info")
                .env("PATRA_LOG_BATCH_PERCENT", percent)
                .args(["--log-format", "json", "run", "far", "records", "--to", to])
                .output()
                .unwrap();
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(output.status.success(), "{text}");
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
        };
        let named = |lines: &[Value], message: &str| {
            lines.iter().filter(|line| line["message"] == message).cloned().collect::<Vec<_>>()
        };
        let all = lines("100", "2024-01-01T12:00:00Z");
        let (batches, failed) = (named(&all, "batch committed"), named(&all, "a request failed"));
        assert!(batches.len() > 2 && failed.len() == 1, "{all:#?}");
        for line in batches.iter().chain(&failed) {
            for name in ["schedule_instance_id", "plan_id", "slice_id", "task_id", "run_id", "batch_no"] {
                assert!(line[name].is_i64(), "{name} is not in {line}");
            }
            for name in
                ["spec_fingerprint", "expr_proto_hash", "expr_hash", "slice_signature_hash", "source", "endpoint", "op"]
            {
                assert!(line[name].is_string(), "{name} is not in {line}");
            }
            let correlation = format!("ing-{}-{}", line["run_id"], line["batch_no"]);
            assert_eq!(line["correlation_id"], correlation.as_str(), "{line}");
        }
        assert!(batches.iter().all(|line| line["batch_id"].is_i64()), "{batches:?}");
        assert_eq!((&failed[0]["error.level"], &failed[0]["http_status"]), (&"L1".into(), &500.into()));
        let claimed = named(&all, "task claimed");
        assert!(!claimed.is_empty() && claimed.iter().all(|line| line["leased_until"].is_string()), "{all:#?}");
        // One in a hundred successes is logged, and every failure.
        let some = lines("1", "2024-01-02T12:00:00Z");
        assert_eq!(named(&some, "batch committed").len(), 1, "{some:#?}");
        assert_eq!(named(&some, "a request failed").len(), 1, "{some:#?}");
    });
}
