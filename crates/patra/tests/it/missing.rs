//! `window.mode: snapshot` with `missing: mark`, against an API whose lists change between runs and in the middle of a
//! pass: what is gone is marked, what is there is not, and a pass that cannot know marks nothing.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use patra_core::rng::Rng;
use serde_json::{Value, json};

use crate::support::{On, Workspace, now_micros};

/// An API with one list per tag.
struct ListApi {
    port: u16,
    lists: Arc<Mutex<Lists>>,
}

#[derive(Default)]
struct Lists {
    /// Ids with the version of their content, in order, by tag.
    rows: BTreeMap<String, Vec<(u64, u32)>>,
    requests: u32,
    /// Rows that leave before the request with this number.
    leaves: Vec<(u32, u64)>,
    /// The next so many responses are empty.
    empty: u32,
    /// Requests from this number on fail.
    fails_from: Option<u32>,
    /// The reported total, instead of the right one.
    total: Option<u64>,
    /// A row of the first page has no id.
    nameless: bool,
    delay: Duration,
}

const SIZE: usize = 10;

impl ListApi {
    fn start(rows: u64) -> ListApi {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let first = (0..rows).map(|id| (id, 0)).collect();
        let lists = Lists { rows: BTreeMap::from([(String::new(), first)]), ..Lists::default() };
        let lists = Arc::new(Mutex::new(lists));
        let shared = Arc::clone(&lists);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let lists = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &lists));
            }
        });
        ListApi { port, lists }
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rows(&self, tag: &str, ids: impl IntoIterator<Item = u64>) {
        self.lists().rows.insert(tag.to_owned(), ids.into_iter().map(|id| (id, 0)).collect());
    }

    /// An endpoint without update times, read by offset with a total.
    fn manifest(&self, more: &str) -> String {
        self.manifest_with(more, "type: offset, page_size: 10", "offset: \"${ page.offset }\"")
    }

    fn manifest_with(&self, more: &str, pagination: &str, query: &str) -> String {
        format!(
            "provenance: list{0}\nallow_http: true\nendpoints:\n  rows:\n    http: {{ base_url: \"http://127.0.0.1:{0}\", path: /rows }}\n    \
             query: {{ {query} }}\n    pagination: {{ {pagination} }}\n    \
             window: {{ mode: snapshot, missing: mark }}\n    \
             response: {{ items_path: $.rows, id_path: $.id, total_path: $.total }}\n    \
             retry: {{ max_attempts: 1, min_delay: PT0.01S, max_delay: PT0.02S }}\n    \
             rate_limit: {{ refill_rate_per_sec: 1000, burst: 1000 }}\n{more}",
            self.port
        )
    }

    fn name(&self) -> String {
        format!("list{}", self.port)
    }
}

#[expect(clippy::disallowed_methods, reason = "the thread of a server that is slow on purpose")]
fn serve(stream: &TcpStream, lists: &Mutex<Lists>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(request) = lines.next() {
        lines.by_ref().take_while(|line| !line.is_empty()).for_each(drop);
        let (status, body, delay) = {
            let mut lists = lists.lock().unwrap_or_else(PoisonError::into_inner);
            let (status, body) = lists.answer(&request);
            (status, body.to_string(), lists.delay)
        };
        std::thread::sleep(delay);
        let head =
            format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        if (&*stream).write_all((head + &body).as_bytes()).is_err() {
            return;
        }
    }
}

impl Lists {
    fn answer(&mut self, request: &str) -> (u16, Value) {
        self.requests += 1;
        let now = self.requests;
        for (_, id) in self.leaves.iter().filter(|(before, _)| *before == now) {
            self.rows.values_mut().for_each(|rows| rows.retain(|(row, _)| row != id));
        }
        if self.fails_from.is_some_and(|from| now >= from) {
            return (400, json!({ "error": "broken" }));
        }
        if self.empty > 0 {
            self.empty -= 1;
            return (200, json!({ "rows": [] }));
        }
        let value = |name: &str| {
            let (_, value) = request.split_once(&format!("{name}="))?;
            value.split([' ', '&']).next().map(str::to_owned)
        };
        let rows = self.rows.get(&value("tag").unwrap_or_default()).cloned().unwrap_or_default();
        let offset = value("offset").and_then(|offset| offset.parse::<usize>().ok());
        let page = value("page").and_then(|page| page.parse::<usize>().ok());
        let from = offset.or(page.map(|page| (page - 1) * SIZE)).unwrap_or(0).min(rows.len());
        let mut shown: Vec<_> = rows[from..(from + SIZE).min(rows.len())]
            .iter()
            .map(|(id, version)| json!({ "id": id, "version": version }))
            .collect();
        if let (true, 0, Some(row)) = (self.nameless, from, shown.get_mut(4)) {
            *row = json!({ "name": "no id" });
        }
        (200, json!({ "rows": shown, "total": self.total.unwrap_or(rows.len() as u64) }))
    }
}

/// The result of a run: its summary, and what it said.
fn run(place: &Workspace, api: &ListApi) -> (Value, String) {
    let output = place.patra().args(["run", &api.name(), "rows", "-o", "json"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let summary = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    assert!(output.status.success() || !said.is_empty(), "{said}");
    (summary, said)
}

/// Ids of the records that are marked, in order.
fn missing(place: &Workspace) -> Vec<u64> {
    let items = place.list(&["items"]);
    let marked = items.iter().filter(|item| !item["missing_since"].is_null());
    let mut ids: Vec<_> = marked.map(|item| item["dedup_key"].as_str().unwrap().parse().unwrap()).collect();
    ids.sort_unstable();
    ids
}

on_both!(fn records_that_left_the_list_are_marked_and_come_back);

fn records_that_left_the_list_are_marked_and_come_back(on: On) {
    on.run(|place| {
        let api = ListApi::start(25);
        place.apply(&api.manifest(""));
        let (first, _) = run(place, &api);
        assert_eq!((&first["inserted"], &first["missing"]), (&json!(25), &json!(0)), "{first}");
        let (again, _) = run(place, &api);
        // Each page begins with the last record of the page before.
        assert_eq!((&again["updated"], &again["unchanged"]), (&json!(0), &json!(27)), "unchanged without update times");
        assert_eq!(again["slices_unverified"], 0);
        // Two leave, one changes, one joins.
        {
            let mut lists = api.lists();
            let rows = lists.rows.get_mut("").unwrap();
            rows.retain(|(id, _)| ![3, 17].contains(id));
            rows[0].1 = 1;
            rows.push((99, 0));
        }
        let text = place.run(&["run", &api.name(), "rows"]);
        let text = String::from_utf8_lossy(&text.stdout).into_owned();
        assert!(text.starts_with("1 new, 1 changed, 24 unchanged records in 3 pages; 2 missing"), "{text}");
        assert_eq!(missing(place), [3, 17]);
        let runs = place.list(&["runs"]);
        assert_eq!(runs[0]["stats"]["missing"], 2, "{}", runs[0]);
        // Nothing more is marked the second time, and what comes back loses its mark although it is unchanged.
        let (same, _) = run(place, &api);
        assert_eq!(same["missing"], 0);
        assert_eq!(missing(place), [3, 17]);
        api.lists().rows.get_mut("").unwrap().insert(3, (3, 0));
        run(place, &api);
        assert_eq!(missing(place), [17]);
    });
}

on_both!(fn pass_that_is_not_complete_marks_nothing);

fn pass_that_is_not_complete_marks_nothing(on: On) {
    on.run(|place| {
        let api = ListApi::start(45);
        place.apply(&api.manifest(""));
        run(place, &api);
        let settled = |api: &ListApi| api.lists().requests;
        // A pass that fails on its last page.
        api.lists().rows.get_mut("").unwrap().retain(|(id, _)| *id != 40);
        let from = settled(&api) + 4;
        api.lists().fails_from = Some(from);
        let (failed, said) = run(place, &api);
        assert!(said.contains("slices failed"), "{failed} {said}");
        assert!(missing(place).is_empty());
        api.lists().fails_from = None;
        // A total that promises more than arrives.
        place.run(&["resume", "hold", "1"]);
        api.lists().total = Some(100);
        let (partial, said) = run(place, &api);
        assert_eq!(partial["tasks_partial"], 1, "{partial} {said}");
        assert!(missing(place).is_empty());
        api.lists().total = None;
        // An item without an id: it may be any record.
        api.lists().nameless = true;
        let (nameless, said) = run(place, &api);
        assert!(said.contains("no record was marked as missing: the list has an item without a usable id"), "{said}");
        assert_eq!(nameless["missing"], 0);
        assert!(missing(place).is_empty());
        api.lists().nameless = false;
        run(place, &api);
        assert_eq!(missing(place), [40]);
    });
}

on_both!(fn list_that_shrinks_while_it_is_read_marks_only_what_is_gone);

fn list_that_shrinks_while_it_is_read_marks_only_what_is_gone(on: On) {
    on.run(|place| {
        let api = ListApi::start(60);
        place.apply(&api.manifest(""));
        run(place, &api);
        let now = api.lists().requests;
        // One leaves before the reader gets there, two after it was read: these shift the rest.
        api.lists().leaves = vec![(now + 2, 55), (now + 3, 2), (now + 4, 7)];
        let (_, said) = run(place, &api);
        let marked = missing(place);
        assert!(marked.iter().all(|id| [55, 2, 7].contains(id)), "{marked:?} {said}");
        run(place, &api);
        assert_eq!(missing(place), [2, 7, 55]);
    });
}

on_both!(fn empty_list_and_a_great_loss_are_not_believed);

fn empty_list_and_a_great_loss_are_not_believed(on: On) {
    on.run(|place| {
        let api = ListApi::start(30);
        place.apply(&api.manifest(""));
        run(place, &api);
        api.lists().empty = 1;
        let (_, said) = run(place, &api);
        assert!(said.contains("none of the 30 known records is in the list"), "{said}");
        assert!(missing(place).is_empty());
        // More than half is gone: the limit says no until it is raised.
        api.rows("", 0..14);
        let (_, said) = run(place, &api);
        assert!(said.contains("16 of 30 known records are no longer in the list"), "{said}");
        assert!(missing(place).is_empty());
        place.apply(&api.manifest("    limits: { missing_ratio: 0.6 }\n"));
        let (raised, _) = run(place, &api);
        assert_eq!(raised["missing"], 16);
        // A small list that is empty by its own total.
        api.rows("", []);
        place.apply(&api.manifest("    limits: { missing_ratio: 0.6 }\n"));
        let (emptied, said) = run(place, &api);
        assert_eq!(emptied["missing"], 14, "{said}");
    });
}

const TAGS: &str = "    params: { tag: {} }\n    partitions: [{ param: tag, values: [a, b] }]\n";

on_both!(fn partitions_mark_their_own_records_and_share_what_both_list);

fn partitions_mark_their_own_records_and_share_what_both_list(on: On) {
    on.run(|place| {
        let api = ListApi::start(0);
        api.rows("a", [1, 2, 3]);
        api.rows("b", [3, 4, 5]);
        let query = "offset: \"${ page.offset }\", tag: \"${ params.tag }\"";
        place.apply(&api.manifest_with(TAGS, "type: offset, page_size: 10", query));
        let (first, said) = run(place, &api);
        assert_eq!(first["inserted"], 5, "{first} {said}");
        api.rows("a", [1]);
        api.rows("b", [3, 4]);
        let (second, _) = run(place, &api);
        assert_eq!((&second["missing"], &second["partitions"]), (&json!(2), &json!(2)), "{second}");
        assert_eq!(missing(place), [2, 5], "3 is still in the other list");
        api.rows("b", [4]);
        run(place, &api);
        assert_eq!(missing(place), [2, 3, 5]);
        api.rows("a", [1, 3]);
        run(place, &api);
        assert_eq!(missing(place), [2, 5]);
    });
}

on_both!(fn children_of_a_missing_parent_are_not_read);

fn children_of_a_missing_parent_are_not_read(on: On) {
    on.run(|place| {
        let api = ListApi::start(3);
        api.rows("0", [10, 11]);
        api.rows("1", [12]);
        let children = format!(
            "  children:\n    http: {{ base_url: \"http://127.0.0.1:{}\", path: /children }}\n    params: {{ tag: {{}} }}\n    \
             partitions: [{{ param: tag, parent: {{ endpoint: rows }} }}]\n    query: {{ tag: \"${{ params.tag }}\" }}\n    \
             window: {{ mode: snapshot }}\n    response: {{ items_path: $.rows, id_path: $.id }}\n    \
             rate_limit: {{ refill_rate_per_sec: 1000, burst: 1000 }}\n",
            api.port
        );
        place.apply(&api.manifest(&children));
        run(place, &api);
        let partitions = || {
            let output = place.run(&["run", &api.name(), "children", "-o", "json"]);
            serde_json::from_slice::<Value>(&output.stdout).unwrap()["partitions"].clone()
        };
        assert_eq!(partitions(), 3);
        api.rows("", [0, 2]);
        run(place, &api);
        assert_eq!(missing(place), [1]);
        assert_eq!(partitions(), 2);
    });
}

#[test]
fn numbered_pages_are_read_twice_before_anything_is_marked() {
    On::Sqlite.run(|place| {
        let api = ListApi::start(25);
        let pages = "type: page, base: 1, page_size: 10";
        let refused = api.manifest_with("", pages, "page: \"${ page.no }\"");
        let file = place.file("refused.yaml", &refused);
        let output = place.patra().args(["validate", &file]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("window.missing: `mark` needs passes that can show that they are complete"), "{said}");
        place.apply(&api.manifest_with("", &format!("{pages}, verify: twice"), "page: \"${ page.no }\""));
        run(place, &api);
        api.rows("", (0..25).filter(|id| *id != 11));
        let (second, said) = run(place, &api);
        assert_eq!(second["missing"], 1, "{second} {said}");
        assert_eq!(missing(place), [11]);
    });
}

#[test]
fn operations_that_need_windows_are_refused() {
    On::Sqlite.run(|place| {
        let api = ListApi::start(5);
        place.apply(&api.manifest(""));
        let refused = |args: &[&str]| {
            let name = api.name();
            let output = place.patra().args(["run", &name, "rows"]).args(args).output().unwrap();
            assert!(!output.status.success());
            String::from_utf8_lossy(&output.stderr).into_owned()
        };
        let backfill = refused(&["--operation", "backfill", "--from", "2024-01-01"]);
        assert!(backfill.contains("BACKFILL reads windows of the past"), "{backfill}");
        let bounded = refused(&["--from", "2024-01-01"]);
        assert!(bounded.contains("every pass reads the whole list"), "{bounded}");
        let name = api.name();
        let file = place.file("rows.yaml", &api.manifest(""));
        let tried = place.patra().args(["try", &file, "--endpoint", "rows", "-o", "json"]).output().unwrap();
        assert!(tried.status.success(), "{name}: {}", String::from_utf8_lossy(&tried.stderr));
    });
}

/// Kills in the middle of passes, of marks and between them.
#[tokio::test(flavor = "multi_thread")]
async fn marks_survive_kill_9_on_sqlite() {
    survive(&Workspace::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_survive_kill_9_on_postgres() {
    let Some(place) = Workspace::postgres() else { return };
    survive(&place).await;
}

async fn survive(place: &Workspace) {
    let seed = now_micros();
    eprintln!("seed: {seed}");
    let mut rng = Rng::new(seed);
    let api = ListApi::start(200);
    api.lists().delay = Duration::from_millis(2);
    place.apply(&api.manifest(""));
    run(place, &api);
    let mut there: Vec<u64> = (0..200).collect();
    for _ in 0..4 {
        there.retain(|_| !rng.chance(100));
        there.push(1_000 + rng.below(1_000_000));
        api.rows("", there.iter().copied());
        for _ in 0..4 {
            let args = ["run", &api.name(), "rows", "--lease-secs", "1"];
            let mut child = place.patra().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            tokio::time::sleep(Duration::from_micros(rng.below(400_000))).await;
            child.kill().unwrap();
            child.wait().unwrap();
            // A pass that was killed, or has ended meanwhile: nothing that is there is ever marked.
            let wrong: Vec<_> = missing(place).into_iter().filter(|id| there.contains(id)).collect();
            assert!(wrong.is_empty(), "{wrong:?}");
        }
        place.run(&["run", &api.name(), "rows", "--lease-secs", "1"]);
        // That run may have found a pass in progress, and ended it.
        place.run(&["run", &api.name(), "rows", "--lease-secs", "1"]);
        let items = place.list(&["items"]);
        for item in &items {
            let id: u64 = item["dedup_key"].as_str().unwrap().parse().unwrap();
            assert_eq!(item["missing_since"].is_null(), there.contains(&id), "{item}");
        }
    }
    place.check_integrity();
}
