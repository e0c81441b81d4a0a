//! Partitions: users, the posts of each user, the comments on each post; killed in between, then read again for new
//! records. And the operations on such an endpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Output;
use std::time::Duration;

use patra_core::rng::Rng;
use patra_upstream::{Dataset, FaultSchedule, MockApi, RetryAfter, Script};
use serde_json::Value;

use crate::cli::serve;
use crate::support::{Workspace, http, now_micros, run_through_kills};

const USERS: usize = 7;
/// One post a minute from 2024-01-01 on.
const POSTS: usize = 120;

fn manifest(base_url: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults:
  rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }}
  retry: {{ min_delay: PT0.01S, max_delay: PT0.05S }}
endpoints:
  users:
    http: {{ base_url: "{base_url}", path: /users }}
    query: {{ page: "${{ page.no }}", size: "${{ page.size }}" }}
    pagination: {{ type: page, base: 1, page_size: 3 }}
    window: {{ watermark_key: updated_at, safety_lag: PT0S, max_window: P30D, initial: 2024-01-01 }}
    response: {{ items_path: "$.items", id_path: "$.id", updated_at_path: "$.updated_at", has_more_path: "$.has_more" }}
  posts:
    params: {{ user: {{ required: true, pattern: "U[0-9]+" }} }}
    partitions: [{{ param: user, parent: {{ endpoint: users }} }}]
    http: {{ base_url: "{base_url}", path: "/users/${{ params.user }}/posts" }}
    query: {{ page: "${{ page.no }}", size: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: page, base: 1, page_size: 4 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT1H, align: hour, initial: 2024-01-01 }}
    response: {{ items_path: "$.items", id_path: "$.id", updated_at_path: "$.updated_at", has_more_path: "$.has_more" }}
  comments:
    params: {{ user: {{ required: true }}, post: {{}} }}
    partitions: [{{ param: post, parent: {{ endpoint: posts, path: "$.id" }} }}]
    http: {{ base_url: "{base_url}", path: "/users/${{ params.user }}/posts/${{ params.post }}/comments" }}
    query: {{ page: "${{ page.no }}", size: "${{ page.size }}" }}
    pagination: {{ type: page, base: 1, page_size: 2 }}
    window: {{ watermark_key: created_at, safety_lag: PT0S, max_window: P30D, initial: 2024-01-01 }}
    response: {{ items_path: "$.items", id_path: "$.id", updated_at_path: "$.created_at", has_more_path: "$.has_more" }}
"#
    )
}

fn upstream(seed: u64, script: Script) -> MockApi {
    let dataset = Dataset::builder().seed(seed).count(POSTS).build();
    MockApi::start(([127, 0, 0, 1], 0).into(), dataset, Script { users: USERS, ..script }).unwrap()
}

// covers: ING-15-08, ING-3.10-02, ING-3.10-03, ING-DOD-08
#[tokio::test(flavor = "multi_thread")]
async fn users_posts_and_comments_survive_kill_9_on_sqlite() {
    everything(&Workspace::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_posts_and_comments_survive_kill_9_on_postgres() {
    let Some(place) = Workspace::postgres() else { return };
    everything(&place).await;
}

async fn everything(place: &Workspace) {
    let seed = now_micros();
    eprintln!("seed of the kill moments: {seed}");
    let mut rng = Rng::new(seed);
    let script = Script {
        latency_ms: 1,
        e500: FaultSchedule::every(23),
        e429: FaultSchedule::every(31),
        retry_after: RetryAfter::Absent,
        truncate: FaultSchedule::every(37),
        ..Script::default()
    };
    let server = upstream(rng.next_u64(), script);
    place.apply(&manifest(server.base_url()));
    harvest(place, &mut rng, "users", "2024-01-02", 0).await;
    harvest(place, &mut rng, "posts", "2024-01-01T01:00:00Z", 4).await;
    harvest(place, &mut rng, "comments", "2024-01-02", 4).await;
    compare(place, &server, 60);
    cursors(place, "posts", USERS, "2024-01-01T01:00:00.000000000Z");
    cursors(place, "comments", 60, "2024-01-02T00:00:00.000000000Z");

    // Completed partitions are not requested again.
    let asked = server.stats().data_requests;
    harvest(place, &mut rng, "posts", "2024-01-01T01:00:00Z", 0).await;
    assert_eq!(server.stats().data_requests, asked, "nothing was new");
    // Only new records are requested.
    harvest(place, &mut rng, "posts", "2024-01-01T02:00:00Z", 2).await;
    harvest(place, &mut rng, "comments", "2024-01-02", 2).await;
    compare(place, &server, POSTS);
    cursors(place, "posts", USERS, "2024-01-01T02:00:00.000000000Z");
    cursors(place, "comments", POSTS, "2024-01-02T00:00:00.000000000Z");
    for entry in server.log().iter().filter(|entry| entry.number > asked && entry.target.contains("/posts?")) {
        assert!(entry.target.contains("from=2024-01-01T01"), "{}", entry.target);
    }
    place.check_integrity();
}

/// Runs with some kills, and then to the end.
async fn harvest(place: &Workspace, rng: &mut Rng, endpoint: &str, to: &str, kills: usize) {
    let args = ["run", "far", endpoint, "--to", to, "--concurrency", "3", "--lease-secs", "1"];
    run_through_kills(place, rng, &args, kills, Duration::from_millis(300)).await;
    // If a process dies between the end of a task and the move of its cursor, the next plan moves it.
    place.run(&args);
}

/// Checks that all comments of the first posts are stored exactly once.
fn compare(place: &Workspace, server: &MockApi, posts: usize) {
    let people = server.dataset().people(USERS);
    let mut expected: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    expected.insert("users", (0..USERS).map(|user| people.user_id(user)).collect());
    expected.insert("posts", server.dataset().records().take(posts).map(|(id, ..)| id.to_owned()).collect());
    expected.insert("comments", (0..posts).flat_map(|post| people.comment_ids(post)).collect());
    let items = place.list(&["items"]);
    for (endpoint, ids) in &expected {
        let own = items.iter().filter(|item| item["endpoint_name"] == *endpoint);
        let keys: Vec<_> = own.map(|item| item["dedup_key"].as_str().unwrap().to_owned()).collect();
        assert_eq!(keys.len(), ids.len(), "{endpoint}");
        assert_eq!(keys.into_iter().collect::<BTreeSet<_>>(), *ids, "{endpoint}");
    }
    // Each record is counted as inserted exactly once in the ledger.
    let inserted: i64 = place.list(&["batches"]).iter().map(|batch| batch["stats"]["inserted"].as_i64().unwrap()).sum();
    assert_eq!(inserted as usize, expected.values().map(BTreeSet::len).sum::<usize>());
}

/// One row per partition, all with the same value.
fn cursors(place: &Workspace, endpoint: &str, count: usize, at: &str) {
    let cursors = place.list(&["cursors", "--endpoint", endpoint]);
    let names: BTreeSet<_> = cursors.iter().map(|cursor| cursor["namespace_key"].as_str().unwrap()).collect();
    assert_eq!((cursors.len(), names.len()), (count, count), "{endpoint}");
    for cursor in &cursors {
        assert_eq!(cursor["normalized_instant"], at, "{endpoint}");
    }
}

fn run(place: &Workspace, args: &[&str]) -> Output {
    let mut all = vec!["run", "far"];
    all.extend(args);
    place.run(&all)
}

fn says(output: &Output, code: i32, text: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert!(stderr.contains(text), "{stderr}");
}

// covers: ING-3.3-01, ING-3.3-03, ING-4.8-04
#[tokio::test(flavor = "multi_thread")]
async fn run_accepts_params_and_overrides() {
    let (place, server) = (Workspace::sqlite(), upstream(1, Script::default()));
    place.apply(&manifest(server.base_url()));
    let params = ["--param", "user=U000001", "--set", "pagination.page_size=5", "--priority", "-3", "-o", "json"];
    let output = run(&place, &[&["posts", "--to", "2024-01-01T01:00:00Z"][..], &params].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["inserted"], &report["partitions"]), (&9.into(), &0.into()));
    for entry in server.log() {
        assert!(
            entry.target.starts_with("/users/U000001/posts?") && entry.target.contains("size=5"),
            "{}",
            entry.target
        );
    }
    let task = &place.list(&["tasks"])[0];
    assert_eq!((&task["params"]["params"]["user"], &task["priority"]), (&"U000001".into(), &97.into()));
    let slice = &place.list(&["slices"])[0];
    assert_eq!(slice["slice_spec"]["partition"]["user"], "U000001");
    assert_eq!(slice["slice_spec"]["budget"]["priority"], 97);
    let plan = &place.list(&["plans"])[0];
    assert_eq!(plan["record_remarks"]["labels"]["overrides"]["pagination.page_size"], 5);
    assert_eq!(place.list(&["jobs"])[0]["params"]["user"], "U000001");

    says(&run(&place, &["posts", "--param", "usr=U000001"]), 64, "did you mean `user`?");
    says(&run(&place, &["posts", "--param", "user=../x"]), 64, "`user` does not match");
    says(&run(&place, &["posts", "--set", "pagination.pagesize=5"]), 64, "pagination.page_size");
    says(&run(&place, &["posts", "--param", "user=U1", "--param", "user=U2"]), 64, "twice");
    says(&run(&place, &["posts", "--priority", "5000"]), 64, "too far");
}

#[tokio::test(flavor = "multi_thread")]
async fn partitioned_run_reports_its_count_and_accepts_an_empty_parent() {
    let (place, server) = (Workspace::sqlite(), upstream(1, Script::default()));
    place.apply(&manifest(server.base_url()));
    let output = run(&place, &["posts", "--to", "2024-01-01T01:00:00Z"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("no partition to read"), "{output:?}");
    assert!(run(&place, &["users", "--to", "2024-01-02"]).status.success());
    let output = run(&place, &["posts", "--to", "2024-01-01T01:00:00Z"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("60 new") && text.contains("of 7 partitions"), "{text}");
    let jobs = place.list(&["jobs"]);
    let root = jobs.iter().find(|job| job["record_remarks"]["partitions"] == 7).unwrap();
    let children = jobs.iter().filter(|job| job["parent_id"] == root["id"]);
    let users: BTreeSet<_> = children.map(|job| job["params"]["user"].as_str().unwrap()).collect();
    assert_eq!(users.len(), USERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_by_http_takes_params_and_overrides() {
    let (place, server) = (Workspace::sqlite(), upstream(1, Script::default()));
    place.apply(&manifest(server.base_url()));
    let serving = serve(&place);
    let (jobs, key) = (format!("http://{}/api/v1/jobs", serving.address), serving.key.as_str());
    let post = |body: &str| http(&jobs, Some(key), Some(body));
    let (status, answer) = post(r#"{"provenance":"far","endpoint":"posts","params":{"usr":"U1"}}"#);
    assert_eq!((status, &answer["error"]["code"]), (400, &"INVALID_INPUT".into()), "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("did you mean `user`?"), "{answer}");
    let (status, answer) = post(r#"{"provenance":"far","endpoint":"posts","overrides":{"http.path":"/x"}}"#);
    assert_eq!(status, 400, "{answer}");
    let body = r#"{"provenance":"far","endpoint":"posts","to":"2024-01-01T01:00:00Z","public_id":"mine",
        "params":{"user":"U000002"},"overrides":{"pagination.page_size":2},"priority":-1}"#;
    assert_eq!(post(body).0, 202);
    for _ in 0..200 {
        let (_, answer) = http(&format!("{jobs}/mine"), Some(key), None);
        if answer["meta"]["finished"] == true {
            assert_eq!((&answer["data"]["inserted"], &answer["data"]["partitions"]), (&9.into(), &0.into()));
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the job does not end");
}
