//! Lists that move while the program reads them: nothing that is there the whole time is lost without being named.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::support::{On, Workspace};

/// A list of records that an editor changes before certain requests.
struct MovingApi {
    port: u16,
    list: Arc<Mutex<List>>,
}

struct List {
    rows: Vec<u32>,
    requests: u32,
    /// The number of a request, and the row that leaves before it.
    leaves: Vec<(u32, u32)>,
    /// As many rows join at the end as leave.
    swaps: bool,
    total: Option<u64>,
}

impl MovingApi {
    fn start(list: List) -> MovingApi {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let list = Arc::new(Mutex::new(list));
        let shared = Arc::clone(&list);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let list = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &list, port));
            }
        });
        MovingApi { port, list }
    }

    fn manifest(&self, query: &str, pagination: &str, response: &str) -> String {
        format!(
            "provenance: moving{0}\nallow_http: true\nendpoints:\n  rows:\n    http: {{ base_url: \"http://127.0.0.1:{0}\", path: /rows }}\n    \
             query: {{ {query} }}\n    pagination: {{ {pagination} }}\n    \
             window: {{ watermark_key: updated_at, initial: 2024-01-01T00:00:00Z, max_window: P30D, safety_lag: PT1M }}\n    \
             response: {{ items_path: $.rows, id_path: $.id, updated_at_path: $.updated_at{response} }}\n    \
             rate_limit: {{ refill_rate_per_sec: 1000, burst: 1000 }}\n",
            self.port
        )
    }
}

/// Answers the requests of one connection.
fn serve(stream: &TcpStream, list: &Mutex<List>, port: u16) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let body = list.lock().unwrap().answer(&request, port).to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

impl List {
    fn new() -> List {
        List { rows: (0..60).collect(), requests: 0, leaves: Vec::new(), swaps: false, total: None }
    }

    fn answer(&mut self, request: &str, port: u16) -> Value {
        self.requests += 1;
        for (_, row) in self.leaves.iter().filter(|(before, _)| *before == self.requests) {
            self.rows.retain(|kept| kept != row);
            if self.swaps {
                self.rows.push(1_000 + row);
            }
        }
        let number = |name: &str| {
            let (_, value) = request.split_once(&format!("{name}="))?;
            value.split(['&', ' ']).next()?.parse::<usize>().ok()
        };
        let from = number("offset").or_else(|| Some((number("page")? - 1) * 10)).unwrap_or(0);
        let rows: Vec<_> = self.rows.iter().skip(from).take(10).collect();
        let next = from + rows.len();
        let mut body = json!({
            "rows": rows.iter().map(|row| json!({ "id": row, "updated_at": "2024-01-10T00:00:00Z" })).collect::<Vec<_>>(),
        });
        if let Some(total) = self.total {
            body["total"] = total.into();
        }
        if next < self.rows.len() {
            body["next"] = format!("http://127.0.0.1:{port}/rows?offset={next}").into();
        }
        body
    }
}

const OFFSET: (&str, &str) = ("offset: \"${ page.offset }\", limit: \"${ page.size }\"", "type: offset, page_size: 10");
const PAGE: (&str, &str) = ("page: \"${ page.no }\"", "type: page, page_size: 10, base: 1");
const URL: (&str, &str) = ("", "type: url, page_size: 10, next_url_path: $.next");

/// Runs one harvest; its exit code, its output, and the stored ids.
fn harvest(place: &Workspace, list: List, paging: (&str, &str), more: &str, response: &str) -> (i32, String, Vec<u64>) {
    let api = MovingApi::start(list);
    place.apply(&api.manifest(paging.0, &format!("{}{more}", paging.1), response));
    let provenance = format!("moving{}", api.port);
    let output = place.run(&["run", &provenance, "rows", "--to", "2024-01-20T00:00:00Z"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let items = place.list(&["items"]);
    let own = items.iter().filter(|item| item["provenance_code"] == provenance.as_str());
    let mut ids: Vec<u64> = own.map(|item| item["dedup_key"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    assert!(api.list.lock().unwrap().requests < 60, "too many requests");
    (output.status.code().unwrap(), text, ids)
}

// covers: G-23
on_both!(fn record_that_leaves_takes_no_other_with_it);
fn record_that_leaves_takes_no_other_with_it(on: On) {
    for place in on.places() {
        let list = List { leaves: vec![(3, 4)], ..List::new() };
        let (code, text, ids) = harvest(&place, list, OFFSET, "", "");
        assert_eq!((code, ids.len()), (0, 60), "{text}");
        assert!(text.contains("is collected") && !text.contains("unverified"), "{text}");
    }
}

// covers: G-23
on_both!(fn list_that_cannot_be_checked_is_called_unverified);
fn list_that_cannot_be_checked_is_called_unverified(on: On) {
    for place in on.places() {
        // One leaves and one joins: the total stays the same, and row 20 is missed.
        let list = || List { leaves: vec![(3, 4)], swaps: true, total: Some(60), ..List::new() };
        for paging in [PAGE, URL] {
            let (code, text, _) = harvest(&place, list(), paging, "", ", total_path: $.total");
            assert_eq!(code, 0, "{text}");
            assert!(text.contains("1 slice unverified") && !text.contains("is collected"), "{text}");
        }
        let (code, text, ids) = harvest(&place, list(), PAGE, ", verify: twice", ", total_path: $.total");
        assert!(code == 0 && ids.contains(&20) && text.contains("is collected"), "{text}");
    }
}

// covers: C-65, G-23
on_both!(fn total_that_is_not_reached_is_reported_with_both_numbers);
fn total_that_is_not_reached_is_reported_with_both_numbers(on: On) {
    for place in on.places() {
        let list = || List { total: Some(200), ..List::new() };
        let (code, text, ids) = harvest(&place, list(), PAGE, "", ", total_path: $.total");
        assert_eq!((code, ids.len()), (1, 60), "{text}");
        assert!(text.contains("reports 200 records and returned 60"), "{text}");
        assert!(!text.contains("is collected"), "{text}");
        let (code, text, _) = harvest(&place, list(), PAGE, "", ", total_path: $.total, total_is_estimate: true");
        assert_eq!(code, 0, "{text}");
    }
}
