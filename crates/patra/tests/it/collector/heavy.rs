//! Hostile bodies within the limits, many at once, through a server with default settings: its memory stays bounded, other
//! work goes on, and it stops when it is asked to.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use super::feed_server::{listen, read_head, reply};
use super::*;

/// Most memory of the server at any time, in bytes.
const MAX_MEMORY: u64 = 256 << 20;

fn repeated(before: &str, piece: &str, times: usize, after: &str) -> Vec<u8> {
    let mut text = String::with_capacity(before.len() + piece.len() * times + after.len());
    text.push_str(before);
    (0..times).for_each(|_| text.push_str(piece));
    text.push_str(after);
    text.into_bytes()
}

fn packed(body: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(body).unwrap();
    packer.finish().unwrap()
}

/// Bodies of sources by path; of type `rss`, `website` or a mapping of CSV or JSON.
fn source_bodies() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let item = "<rss><channel><title>t</title><item><guid>1</guid><description><![CDATA[";
    let end = "]]></description></item></channel></rss>";
    let base = format!("<rss xml:base='http://x.test/{}/'><channel><title>t</title>", "x".repeat(100_000));
    let attributes: String = (0..250).map(|at| format!(" a{at}")).collect();
    vec![
        ("rss", "/links", repeated(item, "<a href=x>", 500_000, end)),
        ("rss", "/links-again", repeated(item, "<a href=y>", 500_000, end)),
        ("rss", "/elements", repeated("<rss><channel>", "<a/>", 1_000_000, "</channel></rss>")),
        (
            "rss",
            "/texts",
            repeated("<rss><channel><title>t</title><item>", "<a>x</a>", 240_000, "</item></channel></rss>"),
        ),
        (
            "rss",
            "/entries",
            repeated("<rss><channel><title>t</title>", "<item><title>x</title></item>", 50_000, "</channel></rss>"),
        ),
        ("rss", "/base", repeated(&base, "<item><link>x</link></item>", 4_000, "</channel></rss>")),
        (
            "rss",
            "/objects-of-a-feed",
            repeated(
                "{\"version\":\"https://jsonfeed.org/version/1\",\"title\":\"t\",\"items\":[{\"a\":[{}",
                ",{\"a\":1}",
                500_000,
                "]}]}",
            ),
        ),
        ("website", "/paragraphs", repeated("<html><body>", "<p>x", 1_200_000, "")),
        ("website", "/page", repeated("<html><body>", "<p>word</p>", 110_000, "")),
        ("website", "/attributes", repeated("<html><body>", &format!("<p{attributes}>"), 4_000, "")),
        ("json", "/objects", repeated("{\"items\":[{}", ",{}", 1_700_000, "]}")),
        ("csv", "/columns", repeated("", ",", 5_000_000, "")),
        ("csv", "/header", repeated(&format!("id,at,{}\n", "y".repeat(10_000)), "1,5,\n", 9_000, "")),
    ]
}

/// Bodies of endpoints by path, up to 16 MiB.
fn endpoint_bodies() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let wide = format!(",{{\"id\":\"NUMBER\",\"at\":5,\"text\":\"{}\"}}", "z".repeat(20));
    let records: String = (1..200_000).map(|number| wide.replace("NUMBER", &format!("{number:06}"))).collect();
    vec![
        ("objects4m", "json", repeated("{\"items\":[{}", ",{}", 4_000_000, "]}")),
        ("objects1m", "json", repeated("{\"items\":[{}", ",{}", 1_000_000, "]}")),
        ("objects200k", "json", repeated("{\"items\":[{}", ",{}", 200_000, "]}")),
        ("columns7m", "csv", repeated("", ",", 7_000_000, "")),
        ("rows5m", "csv", repeated("id,at\n", "1,\n", 5_000_000, "")),
        ("elements", "xml", repeated("<r>", "<items id='1'/>", 900_000, "</r>")),
        ("records", "json", format!("{{\"items\":[{{\"id\":\"000000\",\"at\":5}}{records}]}}").into_bytes()),
    ]
}

#[derive(Clone)]
struct HeavyServer {
    port: u16,
    bodies: Arc<BTreeMap<String, Vec<u8>>>,
    paths: Arc<Mutex<Vec<String>>>,
}

impl HeavyServer {
    fn start() -> HeavyServer {
        let mut bodies = BTreeMap::new();
        for (_, path, body) in source_bodies() {
            bodies.insert(path.to_owned(), body);
        }
        for (name, _, body) in endpoint_bodies() {
            bodies.insert(format!("/{name}"), body);
        }
        let zipped: Vec<_> = bodies.iter().map(|(path, body)| (format!("{path}.gz"), packed(body))).collect();
        bodies.extend(zipped);
        let mut server = HeavyServer { port: 0, bodies: Arc::new(bodies), paths: Arc::default() };
        let serving = server.clone();
        server.port = listen(move |_, stream| serving.serve(stream));
        server
    }

    fn url(&self, host: usize, path: &str) -> String {
        format!("http://127.0.1.{host}:{}{path}", self.port)
    }

    fn hits(&self) -> usize {
        self.paths.lock().unwrap().len()
    }

    fn serve(&self, mut stream: TcpStream) {
        let Some(head) = read_head(&mut stream) else { return };
        let path = head.split([' ', '?']).nth(1).unwrap_or_default().to_owned();
        let encoding = if path.ends_with(".gz") { "Content-Encoding: gzip\r\n" } else { "" };
        let body = self.bodies.get(&path).map_or(&b"no"[..], Vec::as_slice);
        self.paths.lock().unwrap().push(path);
        reply(&mut stream, "200 OK", encoding, body);
    }
}

fn manifest(server: &HeavyServer) -> String {
    let mut manifest = format!(
        "provenance: heavy\nallow_http: true\ndefaults:\n  http: {{ base_url: \"{}\" }}\n  \
         rate_limit: {{ refill_rate_per_sec: 1000, burst: 100 }}\n  \
         retry: {{ max_attempts: 2, min_delay: PT0.01S, max_delay: PT0.05S }}\n  \
         window: {{ watermark_key: updated_at, initial: 1970-01-01, max_window: P36500D, out_of_range: keep }}\nendpoints:\n",
        server.url(200, "")
    );
    for (name, format, _) in endpoint_bodies() {
        for (name, path) in [(name.to_owned(), format!("/{name}")), (format!("{name}z"), format!("/{name}.gz"))] {
            let items = match format {
                "csv" => "",
                "xml" => "items_path: $.r.items, ",
                _ => "items_path: $.items, ",
            };
            manifest.push_str(&format!(
                "  {name}:\n    http: {{ path: {path} }}\n    \
                 response: {{ format: {format}, {items}id_path: $.id, updated_at_path: $.at }}\n"
            ));
        }
    }
    manifest
}

fn add_sources(place: &Workspace, server: &HeavyServer) -> usize {
    let mut count = 0;
    for (kind, path, _) in source_bodies() {
        for path in [path.to_owned(), format!("{path}.gz")] {
            count += 1;
            let url = server.url(count, &path);
            let mapping = |format: &str, items: Option<&str>| {
                let mut config = json!({ "url": url, "format": format, "id_path": "$.id", "updated_at_path": "$.at" });
                config["items_path"] = items.map_or(json!("$"), |path| json!(path));
                config.to_string()
            };
            match kind {
                "json" => {
                    ok(&place.run(&["source", "add", "custom_api", "--config", &mapping("json", Some("$.items"))]));
                }
                "csv" => {
                    ok(&place.run(&["source", "add", "custom_api", "--config", &mapping("csv", None)]));
                }
                kind => {
                    add(place, kind, &url);
                }
            }
        }
    }
    count
}

/// A line of the server's status, in bytes.
fn memory(running: &Running, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", running.child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

struct Api {
    address: String,
    key: String,
}

impl Api {
    fn get(&self, path: &str) -> Value {
        http(&format!("http://{}{path}", self.address), Some(&self.key), None).1
    }

    fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        http(&format!("http://{}{path}", self.address), Some(&self.key), Some(&body.to_string()))
    }

    fn request_jobs(&self, round: u32) {
        for (name, _, _) in endpoint_bodies() {
            for name in [name.to_owned(), format!("{name}z")] {
                let job = json!({ "provenance": "heavy", "endpoint": name, "public_id": format!("{name}-{round}") });
                let (status, answer) = self.post("/api/v1/jobs", &job);
                assert_eq!(status, 202, "{answer}");
            }
        }
    }
}

fn eventually(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(400);
    while !done() {
        assert!(Instant::now() < end, "{what} is not done");
        std::thread::sleep(Duration::from_millis(100));
    }
}

// covers: COLL-125
on_both!(fn hostile_bodies_take_bounded_memory_and_stop_nothing);
fn hostile_bodies_take_bounded_memory_and_stop_nothing(on: On) {
    everywhere(on, |place, feeds| {
        let server = HeavyServer::start();
        place.apply(&manifest(&server));
        let sources = add_sources(place, &server);
        let good = add(place, "rss", &feeds.url(1, "/feed/good"));
        let settings = [("SHUTDOWN_TIMEOUT_SECONDS", "5")];
        let running = Running::start(place, &["serve", "--listen", "127.0.0.1:0"], &settings);
        let log = running.wait_for("the API listens");
        let log = if log.contains("patra_") { log } else { running.wait_for("patra_") };
        let key = log.split_whitespace().find(|word| word.starts_with("patra_")).unwrap().to_owned();
        let address = log.split("address=").nth(1).unwrap().split_whitespace().next().unwrap().to_owned();
        let api = Api { address, key };
        api.request_jobs(1);
        let fetched = || {
            let status = api.get("/api/collector/status");
            let sources = status["sources"].as_array().cloned().unwrap_or_default();
            sources.into_iter().filter(|source| source["status"] != "pending").collect::<Vec<_>>()
        };
        eventually("the poll of every source", || fetched().len() == sources + 1);
        let jobs: Vec<_> =
            endpoint_bodies().iter().flat_map(|(name, _, _)| [format!("{name}-1"), format!("{name}z-1")]).collect();
        let finished = |job: &String| api.get(&format!("/api/v1/jobs/{job}"))["meta"]["finished"] == true;
        eventually("every job", || jobs.iter().all(finished));
        let most = memory(&running, "VmHWM");
        assert!(most < MAX_MEMORY, "{} MiB", most >> 20);
        // The others were not affected, and the large page of valid records is stored as a whole.
        let of = |id: i64| fetched().into_iter().find(|source| source["id"] == id).unwrap();
        assert_eq!(of(good)["status"], "ok");
        for name in ["records", "recordsz"] {
            let job = api.get(&format!("/api/v1/jobs/{name}-1"));
            assert_eq!(job["data"]["inserted"], 200_000, "{job}");
        }
        let refused = api.get("/api/v1/jobs/objects4m-1");
        assert!(refused.to_string().contains("4000001 records"), "{refused}");

        // A signal in the middle of the same again.
        let before = server.hits();
        for id in 1..=sources {
            api.post(&format!("/api/sources/{id}/collect"), &json!({}));
        }
        api.request_jobs(2);
        eventually("a second round", || server.hits() > before + 4);
        running.terminate();
        let (code, log) = running.end();
        assert!(code.is_some_and(|code| code <= 1), "{code:?} {log}");
        place.check_integrity();
    });
}
