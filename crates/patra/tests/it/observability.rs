//! Observability: metrics, and the alerts and dashboards that use them.

#![expect(clippy::disallowed_methods, reason = "the real program and a real Prometheus run alongside the test")]

mod prometheus;
mod traces;

use std::collections::BTreeSet;

use patra_upstream::Script;

use crate::cli::upstream;
use crate::collector::Running;
use crate::support::{On, Workspace, http, manifest, root};

pub(crate) fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `patra serve`, and the address of its metrics.
fn serve(place: &Workspace) -> (Running, String) {
    let args = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--no-collector"];
    let running = Running::start(place, &args, &[]);
    let log = running.wait_for("serving; press Ctrl-C");
    let line = log.lines().find(|line| line.contains("metrics can be scraped")).unwrap();
    let address = line.split("address=").nth(1).unwrap().trim().to_owned();
    (running, address)
}

// covers: ING-14.4-01, ING-14.4-05, ING-14.4-06, ING-14.4-07, MAP-R-15
on_both!(separate_metrics_address_needs_no_key);
async fn separate_metrics_address_needs_no_key(on: On) {
    let server = upstream(300, Script::default());
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        assert!(place.run(&["run", "far", "records", "--to", "2024-01-01T05:00:00Z"]).status.success());
        assert!(place.run(&["run", "far", "records", "--to", "2024-01-02T05:00:00Z", "--no-wait"]).status.success());
        let (_serving, address) = serve(place);
        let scrape = || match http(&format!("http://{address}/metrics"), None, None) {
            (200, text) => text.as_str().unwrap().to_owned(),
            (status, answer) => panic!("{status}: {answer}"),
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let partition = r#"source="far",endpoint="records",op="HARVEST""#;
        let done = format!("patra_ingest_task_runs_total{{{partition},status=\"SUCCEEDED\"}} 4\n");
        while !scrape().contains(&done) {
            assert!(std::time::Instant::now() < until, "{}", scrape());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let text = scrape();
        for sample in [
            format!("patra_ingest_tasks_queued{{{partition}}} 0\n"),
            format!("patra_ingest_executor_concurrency{{{partition}}} 0\n"),
            format!("patra_ingest_cursor_lag_seconds{{{partition},ns=\"EXPR\"}} "),
            format!("patra_ingest_qps_effective{{{partition}}} "),
            r#"patra_ingest_claims_total{outcome="success"} "#.to_owned(),
            r#"patra_ingest_cursor_advance_events_total{direction="FORWARD"} "#.to_owned(),
            format!("patra_ingest_http_latency_ms_bucket{{le=\"+Inf\",{partition}}} "),
        ] {
            assert!(text.contains(&sample), "{sample} is not in\n{text}");
        }
        assert_eq!(http(&format!("http://{address}/api/v1/items"), None, None).0, 404);
    });
}

on_both!(unplannable_job_is_counted);
async fn unplannable_job_is_counted(on: On) {
    let server = upstream(10, Script::default());
    on.run(|place| {
        place.apply(&manifest(server.base_url()));
        assert!(place.run(&["run", "far", "records", "--no-wait"]).status.success());
        // The manifest is removed before it was planned.
        place.apply(&manifest(server.base_url()).replace("  records:", "  others:"));
        let (serving, address) = serve(place);
        serving.wait_for("no plan could be made");
        let (_, text) = http(&format!("http://{address}/metrics"), None, None);
        let refused = r#"patra_ingest_plans_refused_total{source="far",endpoint="records",op="HARVEST"} 1"#;
        assert!(text.as_str().unwrap().contains(refused), "{text}");
        assert!(place.list(&["plans"]).is_empty());
    });
}

/// Names of metrics in a text, as registered.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named = words.filter(|word| word.starts_with("patra_"));
    let suffixes = ["_total", "_bucket", "_sum", "_count"];
    named.map(|name| suffixes.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name).to_owned()).collect()
}

// covers: ING-14.7-05
#[test]
fn alerts_and_pictures_use_only_metrics_that_exist() {
    let sources = ["crates/patra-engine/src/metrics.rs", "crates/patra-engine/src/metrics/text.rs"].map(read).concat();
    for file in ["deploy/prometheus/rules.yml", "tests/prometheus/rules_test.yml", "deploy/grafana/patra.json"] {
        let named = names(&read(file));
        assert!(named.len() > 10, "{file}: {named:?}");
        for name in named {
            assert!(sources.contains(&format!("\"{name}\"")), "{file}: there is no {name}");
        }
    }
}

#[test]
fn every_alert_is_tested_and_explained() {
    let (rules, tests, handbook) =
        (read("deploy/prometheus/rules.yml"), read("tests/prometheus/rules_test.yml"), read("docs/observability.md"));
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 20, "{alerts:?}");
    for alert in alerts {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
        assert!(handbook.contains(&format!("`{alert}`")), "{alert} is not in docs/observability.md");
    }
}
