//! The shipped rules in a real Prometheus, which scrapes a real Patra, which collects from upstreams in trouble.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use patra_upstream::{FaultSchedule, MockApi, Script};
use serde_json::Value;

use super::{read, serve};
use crate::cli::upstream;
use crate::support::{Workspace, free_port};

/// Turns minutes into seconds and shortens the allowed lag. Nothing else is changed.
fn hurried(rules: &str) -> String {
    let mut text = rules.to_owned();
    for (slow, quick) in [
        ("[5m]", "[10s]"),
        ("[10m]", "[10s]"),
        ("[30m]", "[5s]"),
        ("offset 5m", "offset 5s"),
        ("offset 30m", "offset 5s"),
        ("for: 30s", "for: 2s"),
        ("for: 1m", "for: 2s"),
        ("for: 5m", "for: 2s"),
        ("for: 10m", "for: 2s"),
        ("for: 30m", "for: 5s"),
        ("> 1800", "> 20"),
    ] {
        text = text.replace(slow, quick);
    }
    text
}

struct Prometheus {
    child: Child,
    address: String,
}

impl Prometheus {
    fn start(place: &Workspace, scraped: &str) -> Prometheus {
        place.file("rules.yml", &hurried(&read("deploy/prometheus/rules.yml")));
        let shipped = read("deploy/prometheus/prometheus.yml");
        let config = shipped.replace("127.0.0.1:9464", scraped).replace("15s", "1s");
        assert!(config.contains(scraped), "the shipped file names another port");
        let config = place.file("prometheus.yml", &config);
        let address = format!("127.0.0.1:{}", free_port());
        let child = Command::new("prometheus")
            .arg(format!("--config.file={config}"))
            .arg(format!("--storage.tsdb.path={}", place.folder.path().join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("prometheus: tests/prometheus/run installs it");
        Prometheus { child, address }
    }

    /// Alerts that are firing, as `name source`.
    fn firing(&self) -> BTreeSet<String> {
        let Some(answer) = get(&self.address, "/api/v1/alerts") else { return BTreeSet::new() };
        let alerts = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing
            .map(|alert| {
                let label = |name: &str| alert["labels"][name].as_str().unwrap_or_default().to_owned();
                format!("{} {}", label("alertname"), label("source")).trim_end().to_owned()
            })
            .collect()
    }

    fn wait_for(&self, wanted: &[&str]) {
        let (until, mut seen) = (Instant::now() + Duration::from_secs(120), BTreeSet::new());
        loop {
            seen.extend(self.firing());
            let missing: Vec<_> = wanted.iter().filter(|name| !seen.contains(**name)).collect();
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "{missing:?} did not fire, only {seen:?}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    fn wait_until_silent(&self, alert: &str) {
        let until = Instant::now() + Duration::from_secs(120);
        while self.firing().contains(alert) {
            assert!(Instant::now() < until, "{alert} still fires");
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `None` while the server is not listening.
fn get(address: &str, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// A source that is requested every second, with settings of its own.
fn source(code: &str, server: &MockApi, settings: &str) -> String {
    format!(
        r#"
provenance: {code}
allow_http: true
endpoints:
  records:
    http: {{ base_url: "{}", path: /offset }}
    query: {{ offset: "${{ page.offset }}", limit: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: offset, page_size: 50 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: P5000D, initial: "2024-01-01" }}
    retry: {{ min_delay: PT0.1S, max_delay: PT0.2S, max_attempts: 3 }}
    schedule: {{ every: PT1S }}
    health: {{ circuit_open: PT1S }}
    response: {{ items_path: "$.items", id_path: "$.id", updated_at_path: "$.updated_at" }}
{settings}
"#,
        server.base_url()
    )
}

// covers: ING-14.8-01, ING-14.8-02, ING-14.8-03, ING-14.8-04, ING-14.8-05, ING-14.8-06, ING-4.10-35, ING-12.0-01
// covers: ING-12.6-01, ING-12.6-02, ING-12.6-03, ING-12.6-04, ING-DOD-26, ING-DOD-27
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Prometheus: tests/prometheus/run installs it and runs this"]
async fn failing_upstreams_fire_the_alerts_and_recovery_resolves_them() {
    let place = Workspace::sqlite();
    let locked = upstream(50, Script { require_header: Some(("x-key".into(), "k".into())), ..Script::default() });
    let broken = upstream(50, Script { e500: FaultSchedule::every(1), ..Script::default() });
    let strict = upstream(50, Script { e429: FaultSchedule::every(2), ..Script::default() });
    // More pages than its quota allows.
    let fine = upstream(500, Script::default());
    let fast = "    rate_limit: { refill_rate_per_sec: 1000, burst: 100 }";
    let few = "    rate_limit: { refill_rate_per_sec: 1000, burst: 100, quota_hourly: 3 }";
    for manifest in [
        // In several windows: the rest waits behind the halt.
        source("locked", &locked, fast).replace("P5000D", "P60D"),
        source("broken", &broken, fast),
        source("strict", &strict, fast),
        source("few", &fine, few),
    ] {
        place.apply(&manifest);
    }
    let (_serving, address) = serve(&place);
    let prometheus = Prometheus::start(&place, &address);
    prometheus.wait_for(&[
        "PatraFatal locked",
        "PatraErrors broken",
        "PatraConsecutiveFailures broken",
        "PatraCursorStalled broken",
        "PatraCursorStill broken",
        "PatraThrottled strict",
        "PatraPlanNotConsumed locked",
        "PatraBudgetNear few",
        "PatraHardQuota few",
        "PatraSelfHealing",
    ]);
    // The upstream is fixed: the cursor catches up without any action.
    broken.script().set(Script::default());
    prometheus.wait_until_silent("PatraConsecutiveFailures broken");
    prometheus.wait_until_silent("PatraCursorStalled broken");
}
