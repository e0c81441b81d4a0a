//! What a harvest does not store is named: skipped records, windows that hold too much, and what a new manifest costs.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{On, Workspace};

/// Answers each request target with a body, and remembers the targets.
struct ScriptedApi {
    port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedApi {
    fn start(answer: impl Fn(&str) -> Value + Send + Sync + 'static) -> ScriptedApi {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (requests, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let seen = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, seen) = (Arc::clone(&answer), Arc::clone(&seen));
                std::thread::spawn(move || serve(&stream, &*answer, &seen));
            }
        });
        ScriptedApi { port, requests }
    }

    /// A manifest of one endpoint with these lines.
    fn manifest(&self, lines: &str) -> String {
        format!(
            "provenance: api{0}\nallow_http: true\nendpoints:\n  list:\n    http: {{ base_url: \"http://127.0.0.1:{0}\", path: /list }}\n    \
             rate_limit: {{ refill_rate_per_sec: 1000, burst: 1000 }}\n    {1}\n",
            self.port,
            lines.replace('\n', "\n    ")
        )
    }

    fn provenance(&self) -> String {
        format!("api{}", self.port)
    }

    fn requests(&self) -> usize {
        self.requests.lock().unwrap().len()
    }
}

fn serve(stream: &TcpStream, answer: &(impl Fn(&str) -> Value + ?Sized), seen: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let target = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let body = answer(&target).to_string();
        seen.lock().unwrap().push(target);
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

/// Exit code, and stdout with stderr.
fn patra(place: &Workspace, args: &[&str]) -> (i32, String) {
    let output = place.run(args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.code().unwrap(), text)
}

on_both!(fn skipped_records_are_counted_with_their_reason);
fn skipped_records_are_counted_with_their_reason(on: On) {
    for place in on.places() {
        let row = |id: u32, at: &str, kind: &str| json!({ "id": id, "at": at, "kind": kind });
        let rows = json!({ "rows": [
            row(1, "2024-01-10T00:00:00Z", "a"), row(2, "2024-01-11T00:00:00Z", "ad"),
            row(3, "2024-06-01T00:00:00Z", "a"), row(4, "2099-01-01T00:00:00Z", "a"),
        ] });
        let api = ScriptedApi::start(move |_| rows.clone());
        let lines = "window: { watermark_key: at, initial: 2024-01-01, max_window: P90D }
response: { items_path: $.rows, id_path: $.id, updated_at_path: $.at }
record: { filter: [{ path: $.kind, not_equals: ad }] }";
        place.apply(&api.manifest(lines));
        let run = ["run", &api.provenance(), "list", "--to", "2024-02-01"];
        let (code, text) = patra(&place, &run);
        assert_eq!(code, 0, "{text}");
        let expected = "1 new, 0 changed, 0 unchanged records in 1 pages; skipped: 2 outside their window, 1 left out \
                        by record.filter";
        assert!(text.contains(expected), "{text}");
        let batches = place.list(&["batches"]);
        assert_eq!(batches[0]["stats"]["skipped"], 3);
        assert_eq!(batches[0]["stats"]["skippedBy"], json!({ "outOfWindow": 2, "filtered": 1 }));
        assert_eq!(place.list(&["runs"])[0]["stats"]["skippedBy"]["outOfWindow"], 2);
        // Every record is kept where the manifest says so, whatever its time.
        place.apply(&api.manifest(&lines.replace("max_window: P90D", "max_window: P90D, out_of_range: keep")));
        let (code, text) = patra(&place, &run[..3]);
        assert_eq!(code, 0, "{text}");
        assert!(text.contains("2 new, 0 changed") && !text.contains("outside"), "{text}");
        assert_eq!(place.list(&["items"]).len(), 3);
    }
}

on_both!(fn run_without_a_param_of_the_path_sends_nothing);
fn run_without_a_param_of_the_path_sends_nothing(on: On) {
    for place in on.places() {
        let api = ScriptedApi::start(|_| json!({ "rows": [] }));
        let lines = "params: { user: {} }
window: { watermark_key: at, initial: 2024-01-01, max_window: P3650D }
response: { items_path: $.rows, id_path: $.id, updated_at_path: $.at }";
        place.apply(&api.manifest(lines).replace("path: /list", "path: \"/users/${ params.user }/posts\""));
        for given in [&[][..], &["--param", "user="]] {
            let (code, text) = patra(&place, &[&["run", &api.provenance(), "list"][..], given].concat());
            assert_ne!(code, 0, "{text}");
            assert!(text.contains("the parameter `user` is required"), "{text}");
        }
        assert_eq!(api.requests(), 0);
        let (code, text) = patra(&place, &["run", &api.provenance(), "list", "--param", "user=7"]);
        assert_eq!((code, &*api.requests.lock().unwrap()[0]), (0, "/users/7/posts"), "{text}");
    }
}

/// Records at these milliseconds of one second, in pages of ten, at most twenty per query.
fn crowded(target: &str, at: &[u64]) -> Value {
    let text = |name: &str| {
        let (_, value) = target.split_once(&format!("{name}="))?;
        value.split(['&', ' ']).next().map(|value| value.replace("%3A", ":"))
    };
    let number = |name: &str| text(name).and_then(|value| value.parse::<usize>().ok()).unwrap_or_default();
    let time = |name: &str| text(name).unwrap().parse::<patra_core::Ts>().unwrap();
    let (from, to, offset) = (time("from"), time("to"), number("offset"));
    let second: patra_core::Ts = "2024-01-10T00:00:00Z".parse().unwrap();
    let rows: Vec<_> = at
        .iter()
        .enumerate()
        .map(|(id, millis)| (id, second + std::time::Duration::from_millis(*millis)))
        .filter(|(_, at)| *at >= from && *at < to)
        .collect();
    let page = rows.iter().skip(offset).take(20usize.saturating_sub(offset).min(10));
    let page: Vec<_> = page.map(|(id, at)| json!({ "id": id, "at": at.to_string() })).collect();
    json!({ "total": rows.len(), "rows": page })
}

const CROWDED: &str =
    "query: { offset: \"${ page.offset }\", from: \"${ window.from | iso }\", to: \"${ window.to | iso }\" }
pagination: { type: offset, page_size: 10, result_ceiling: 20 }
window: { supports_updated_since: true, watermark_key: at, initial: 2024-01-01, max_window: P30D, min_window: PT0.01S }
response: { items_path: $.rows, id_path: $.id, updated_at_path: $.at, total_path: $.total }";

on_both!(fn window_is_split_down_to_the_declared_fraction_of_a_second);
fn window_is_split_down_to_the_declared_fraction_of_a_second(on: On) {
    for place in on.places() {
        let at: Vec<_> = (0..60).map(|n| n * 10).collect();
        let api = ScriptedApi::start(move |target| crowded(target, &at));
        place.apply(&api.manifest(CROWDED));
        let (code, text) = patra(&place, &["run", &api.provenance(), "list", "--to", "2024-01-20T00:00:00Z"]);
        assert_eq!((code, place.list(&["items"]).len()), (0, 60), "{text}");
        assert!(text.contains("read up to 2024-01-20T00:00:00"), "{text}");
    }
}

on_both!(fn window_that_stays_incomplete_is_passed_by_a_person_only);
fn window_that_stays_incomplete_is_passed_by_a_person_only(on: On) {
    for place in on.places() {
        // Thirty records of one instant: no window holds fewer.
        let mut at = vec![500; 30];
        at.extend([700, 900]);
        let api = ScriptedApi::start(move |target| crowded(target, &at));
        let (name, lines) = (api.provenance(), CROWDED);
        place.apply(&api.manifest(lines));
        let run = ["run", &name, "list", "--to", "2024-01-20T00:00:00Z"];
        for _ in 0..2 {
            let (code, text) = patra(&place, &run);
            assert_eq!((code, place.list(&["items"]).len()), (1, 22), "{text}");
        }
        let tasks = place.list(&["tasks", "--status", "PARTIAL"]);
        let why = |task: &Value| task["error"]["message"].as_str().unwrap_or_default().to_owned();
        let full = tasks.iter().find(|task| why(task).contains("30 records, more than the 20")).unwrap();
        let cursor = || place.list(&["cursors"])[0]["cursor_value"].as_str().unwrap_or_default().to_owned();
        let (from, to) = (full["window_from"].as_str().unwrap(), full["window_to"].as_str().unwrap());
        assert_eq!(cursor(), from, "it stands before the window");
        // A gap further on is none that the cursor could pass.
        let accept = |from: &str, to: &str| {
            let args = ["--from", from, "--to", to, "--reason", "the API has no finer filter", "--by", "ann"];
            patra(&place, &[&["cursor", "accept-gap", &name, "list"][..], &args].concat())
        };
        let (code, text) = accept(to, "2024-01-10T00:00:00.6Z");
        assert!(code != 0 && text.contains("another gap lies between"), "{text}");
        let (code, text) = accept(from, to);
        assert_eq!((code, &*cursor()), (0, "2024-01-20T00:00:00.000000000Z"), "{text}");
        let (code, text) = accept(from, to);
        assert!(code == 0 && text.contains("is past this window already"), "{text}");
        let events = place.list(&["cursor-events"]);
        let event = events.iter().find(|event| event["record_remarks"]["reason"] == "ACCEPTED_GAP").unwrap();
        assert_eq!(event["record_remarks"]["by"], "ann");
        assert_eq!(event["record_remarks"]["why"], "the API has no finer filter");
        let (code, text) = patra(&place, &run);
        assert!(code == 0 && text.contains("nothing to do"), "{text}");
    }
}

on_both!(fn apply_says_when_a_cursor_starts_again_and_what_that_costs);
fn apply_says_when_a_cursor_starts_again_and_what_that_costs(on: On) {
    for place in on.places() {
        let api = ScriptedApi::start(|_| json!({ "rows": [{ "id": 1, "at": "2024-01-10T00:00:00Z" }] }));
        let lines = "query: { kind: all, from: \"${ window.from | iso }\", to: \"${ window.to | iso }\" }
window: { supports_updated_since: true, watermark_key: at, initial: 2024-01-01, max_window: P1D }
response: { items_path: $.rows, id_path: $.id, updated_at_path: $.at }";
        let apply = |lines: &str, more: &[&str]| {
            let file = place.file("changed.yaml", &api.manifest(lines));
            let (code, text) = patra(&place, &[&["apply", "-f", &file][..], more].concat());
            assert_eq!(code, 0, "{text}");
            text
        };
        apply(lines, &[]);
        let (code, text) = patra(&place, &["run", &api.provenance(), "list", "--to", "2024-01-11T00:00:00Z"]);
        assert_eq!((code, api.requests()), (0, 10), "{text}");
        assert!(!apply(&lines.replace("P1D", "P2D"), &["--dry-run"]).contains("endpoints.list: the"));
        let text = apply(&lines.replace("kind: all", "kind: new"), &["--dry-run"]);
        let expected = "the query changes, so the cursor starts again: everything from 2024-01-01T00:00:00Z to \
                        2024-01-11T00:00:00Z is read again, about 10 requests";
        assert!(text.contains(expected), "{text}");
        let text = apply(&lines.replace("initial: 2024-01-01", "initial: 2023-01-01"), &[]);
        assert!(text.contains("the changed window.initial (2023-01-01T00:00:00Z) has no effect"), "{text}");
    }
}
