//! Lists that move while the program reads them: nothing that is there the whole time is lost without being named.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use patra_core::rng::Rng;
use serde_json::{Value, json};

use crate::support::{On, Workspace};

/// A list of records that changes between requests.
pub(crate) struct MovingApi {
    port: u16,
    pub(crate) list: Arc<Mutex<List>>,
}

pub(crate) struct List {
    pub(crate) rows: Vec<u64>,
    pub(crate) requests: u32,
    /// The number of a request, and the row that leaves before it.
    leaves: Vec<(u32, u64)>,
    /// As many rows join at the end as leave.
    swaps: bool,
    /// What the server says is the number of rows.
    total: Total,
    /// Rows that were there all the time.
    pub(crate) stayed: BTreeSet<u64>,
    /// Random edits, before one in so many requests.
    pub(crate) edits: Option<(Rng, u64)>,
    /// Rows of a page, whatever was requested.
    page: usize,
    /// Pages that are empty although more follow: numbers of requests.
    empty: Vec<u32>,
    /// Pages after which the next one is the first again.
    circle: usize,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Total {
    Silent,
    Exact,
    Says(Value),
}

impl MovingApi {
    pub(crate) fn start(list: List) -> MovingApi {
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

    pub(crate) fn provenance(&self) -> String {
        format!("moving{}", self.port)
    }

    pub(crate) fn manifest(&self, query: &str, pagination: &str, response: &str) -> String {
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
        let body = list.lock().unwrap_or_else(std::sync::PoisonError::into_inner).answer(&request, port).to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

impl List {
    pub(crate) fn new() -> List {
        List {
            rows: (0..60).collect(),
            requests: 0,
            leaves: Vec::new(),
            swaps: false,
            total: Total::Silent,
            stayed: (0..60).collect(),
            edits: None,
            page: 10,
            empty: Vec::new(),
            circle: usize::MAX,
        }
    }

    fn of(rows: u64) -> List {
        List { rows: (0..rows).collect(), stayed: (0..rows).collect(), ..List::new() }
    }

    pub(crate) fn with_total(self) -> List {
        List { total: Total::Exact, ..self }
    }

    /// A row leaves, joins at the end, or one leaves and another joins.
    fn edit(&mut self) {
        let Some((rng, every)) = &mut self.edits else { return };
        if rng.below(*every) > 0 {
            return;
        }
        let kind = rng.below(3);
        if kind != 1 && !self.rows.is_empty() {
            let at = rng.below(self.rows.len() as u64) as usize;
            self.stayed.remove(&self.rows.remove(at));
        }
        if kind != 0 {
            self.rows.push(1_000 + u64::from(self.requests));
        }
    }

    fn answer(&mut self, request: &str, port: u16) -> Value {
        self.requests += 1;
        self.edit();
        for (_, row) in self.leaves.iter().filter(|(before, _)| *before == self.requests) {
            self.rows.retain(|kept| kept != row);
            if self.swaps {
                self.rows.push(1_000 + row);
            }
        }
        let number = |name: &str| {
            let (_, value) = request.split_once(&format!("{name}="))?;
            value.split(|other: char| !other.is_ascii_digit()).next()?.parse::<u64>().ok()
        };
        let from = match (number("offset"), number("page"), number("after")) {
            (Some(offset), ..) => offset as usize,
            (_, Some(page), _) => (page as usize - 1) * 10,
            // Rows keep their order, so a token that names the last row keeps its place.
            (.., Some(after)) => self.rows.iter().filter(|row| **row <= after).count(),
            _ => 0,
        };
        let empty = self.empty.contains(&self.requests);
        let rows: Vec<_> = self.rows.iter().skip(from).take(if empty { 0 } else { self.page }).collect();
        let next = from + rows.len();
        let mut body = json!({
            "rows": rows.iter().map(|row| json!({ "id": row, "updated_at": "2024-01-10T00:00:00Z" })).collect::<Vec<_>>(),
        });
        match &self.total {
            Total::Silent => {}
            Total::Exact => body["total"] = self.rows.len().into(),
            Total::Says(total) => body["total"] = total.clone(),
        }
        if next < self.rows.len() {
            let there = if next >= self.circle.saturating_mul(10) { 0 } else { next };
            // Each response names the place in its own way.
            let mark = self.requests;
            body["next"] = format!("http://127.0.0.1:{port}/rows?offset={there}&request={mark}").into();
            let last = rows.last().map_or((from as u64).saturating_sub(1), |row| **row);
            body["token"] = format!("{last}x{mark}").into();
        }
        body
    }
}

pub(crate) const OFFSET: (&str, &str) =
    ("offset: \"${ page.offset }\", limit: \"${ page.size }\"", "type: offset, page_size: 10");
pub(crate) const PAGE: (&str, &str) = ("page: \"${ page.no }\"", "type: page, page_size: 10, base: 1");
pub(crate) const URL: (&str, &str) = ("", "type: url, page_size: 10, next_url_path: $.next");

/// Runs one harvest; its exit code, its output, and the stored ids.
fn harvest(place: &Workspace, list: List, paging: (&str, &str), more: &str, response: &str) -> (i32, String, Vec<u64>) {
    let api = MovingApi::start(list);
    place.apply(&api.manifest(paging.0, &format!("{}{more}", paging.1), response));
    let provenance = api.provenance();
    let output = place.run(&["run", &provenance, "rows", "--to", "2024-01-20T00:00:00Z"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let ids = stored(place, &provenance);
    let requests = api.list.lock().unwrap().requests;
    assert!(requests < 400, "{requests} requests");
    (output.status.code().unwrap(), text, ids)
}

/// The stored ids, in order.
pub(crate) fn stored(place: &Workspace, provenance: &str) -> Vec<u64> {
    let items = place.list(&["items", "--provenance", provenance]);
    let mut ids: Vec<u64> = items.iter().map(|item| item["dedup_key"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}

// covers: G-23
on_both!(fn record_that_leaves_takes_no_other_with_it);
fn record_that_leaves_takes_no_other_with_it(on: On) {
    for place in on.places() {
        let list = List { leaves: vec![(3, 4)], ..List::new() };
        let (code, text, ids) = harvest(&place, list, OFFSET, "", "");
        assert_eq!((code, ids.len()), (0, 60), "{text}");
        assert!(text.contains("all verified") && !text.contains("unverified"), "{text}");
    }
}

// covers: G-23
on_both!(fn list_that_cannot_be_checked_is_called_unverified);
fn list_that_cannot_be_checked_is_called_unverified(on: On) {
    for place in on.places() {
        // One leaves and one joins: the total stays the same, and row 20 is missed.
        let list = || List { leaves: vec![(3, 4)], swaps: true, total: Total::Says(60.into()), ..List::new() };
        for paging in [PAGE, URL] {
            let (code, text, _) = harvest(&place, list(), paging, "", ", total_path: $.total");
            assert_eq!(code, 0, "{text}");
            assert!(text.contains("1 slice unverified") && !text.contains("all verified"), "{text}");
        }
        let (code, text, ids) = harvest(&place, list(), PAGE, ", verify: twice", ", total_path: $.total");
        assert!(code == 0 && ids.contains(&20) && text.contains("all verified"), "{text}");
    }
}

/// The task belongs to the job of the process that was killed; the run that ends it says what it knows.
// covers: G-23
#[test]
fn run_that_continues_a_killed_one_says_unverified_too() {
    let place = Workspace::sqlite();
    let api = MovingApi::start(List { leaves: vec![(5, 4)], ..List::new() });
    place.apply(&api.manifest(PAGE.0, PAGE.1, ""));
    let provenance = api.provenance();
    let args = ["run", &provenance, "rows", "--to", "2024-01-20T00:00:00Z"];
    let killed = place.patra().env("PATRA_CRASH_POINT", "task.1:4").args(args).output().unwrap();
    assert_eq!(killed.status.code(), None, "{killed:?}");
    let output = place.run(&args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(stored(&place, &provenance).len(), 59, "one row moved past the reader: {text}");
    assert!(text.contains("1 slice unverified") && !text.contains("all verified"), "{text}");
}

// covers: C-65, G-23
on_both!(fn total_that_is_not_reached_is_reported_with_both_numbers);
fn total_that_is_not_reached_is_reported_with_both_numbers(on: On) {
    for place in on.places() {
        let list = || List { total: Total::Says(200.into()), ..List::new() };
        let (code, text, ids) = harvest(&place, list(), PAGE, "", ", total_path: $.total");
        assert_eq!((code, ids.len()), (1, 60), "{text}");
        assert!(text.contains("reports 200 records and returned 60"), "{text}");
        assert!(!text.contains("all verified"), "{text}");
        let (code, text, _) = harvest(&place, list(), PAGE, "", ", total_path: $.total, total: estimate");
        assert_eq!(code, 0, "{text}");
    }
}

// covers: G-23
on_both!(fn total_that_changes_is_noticed_with_every_paging_that_counts);
fn total_that_changes_is_noticed_with_every_paging_that_counts(on: On) {
    for place in on.places() {
        for paging in [PAGE, URL] {
            // A total that rises on every page: after two more readings the slice is PARTIAL.
            let rising = List { edits: Some((Rng::new(1), 1)), ..List::of(100) }.with_total();
            let (code, text, _) = harvest(&place, rising, paging, "", ", total_path: $.total");
            assert!(code == 1 && text.contains("keeps changing while it is read"), "{text}");
            // One change: the list is read again, and the row that moved is there.
            let once = List { leaves: vec![(3, 4)], ..List::new() }.with_total();
            let (code, text, ids) = harvest(&place, once, paging, "", ", total_path: $.total");
            assert!(code == 0 && ids.contains(&20), "{text}");
        }
        // Ranges of pages are read side by side: a row may have moved to a range that was read.
        let ranges = List { leaves: vec![(4, 4)], ..List::new() }.with_total();
        let (code, text, _) = harvest(&place, ranges, PAGE, ", page_range: 2", ", total_path: $.total");
        assert!(code == 1 && text.contains("while ranges of its pages were read"), "{text}");
    }
}

const TOKEN: (&str, &str) = ("after: \"${ page.token }\"", "type: token, next_token_path: $.token");

// covers: C-65
on_both!(fn empty_page_with_a_next_one_is_not_the_end);
fn empty_page_with_a_next_one_is_not_the_end(on: On) {
    for place in on.places() {
        for paging in [URL, TOKEN] {
            let (code, text, ids) = harvest(&place, List { empty: vec![3, 4], ..List::new() }, paging, "", "");
            assert_eq!((code, ids.len()), (0, 60), "{text}");
            let endless = List { empty: (3..300).collect(), ..List::new() };
            let (code, text, _) = harvest(&place, endless, URL, ", max_empty_pages: 4", "");
            assert!(code == 1 && text.contains("max_empty_pages"), "{text}");
        }
    }
}

// covers: ING-15-01
on_both!(fn circle_of_many_pages_ends_with_an_error);
fn circle_of_many_pages_ends_with_an_error(on: On) {
    for place in on.places() {
        let (code, text, ids) = harvest(&place, List { circle: 70, ..List::of(2_000) }, URL, "", "");
        assert_eq!((code, ids.len()), (1, 700), "{text}");
        assert!(text.contains("same page again") || text.contains("leads in a circle"), "{text}");
    }
}

on_both!(fn total_that_is_no_number_of_records_is_ignored);
fn total_that_is_no_number_of_records_is_ignored(on: On) {
    for place in on.places() {
        for total in [json!(-5), json!("many"), json!(null), json!(60.5), json!([60]), json!(0)] {
            let list = List { total: Total::Says(total.clone()), ..List::new() };
            let (code, text, ids) = harvest(&place, list, OFFSET, "", ", total_path: $.total");
            assert_eq!((code, ids.len()), (0, 60), "{total}: {text}");
        }
        let huge = List { total: Total::Says(json!(u64::MAX)), ..List::new() };
        let (code, text, ids) = harvest(&place, huge, OFFSET, "", ", total_path: $.total");
        assert!(code == 1 && ids.len() == 60 && text.contains("returned 60"), "{text}");
    }
}

on_both!(fn page_longer_than_requested_loses_nothing);
fn page_longer_than_requested_loses_nothing(on: On) {
    for place in on.places() {
        for paging in [OFFSET, URL] {
            let (code, text, ids) = harvest(&place, List { page: 15, ..List::new() }, paging, "", "");
            assert_eq!((code, ids.len()), (0, 60), "{text}");
        }
    }
}
