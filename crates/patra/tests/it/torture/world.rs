//! A store and a growing upstream. The visible records of the upstream are known exactly, so the store can be compared
//! with them.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::time::Duration;

use serde_json::Value;

use patra_core::Ts;
use patra_core::rng::Rng;
use patra_upstream::{Dataset, FaultSchedule, MockApi, RetryAfter, Script};

use crate::support::Workspace;

/// Rounds per store. More would only make its checks slow.
pub(super) const ROUNDS_OF_A_STORE: u64 = 100;
/// Hours that a round adds; each is a slice of sixty records in pages of fifteen.
const HOURS: Range<u64> = 3..7;
const RECORDS: u64 = (ROUNDS_OF_A_STORE + 2) * HOURS.end * 60;
const HOUR: Duration = Duration::from_secs(3_600);

/// Ways to read the upstream; a store uses one of them for its life: path, query, pagination, items and their total.
const SHAPES: [[&str; 4]; 3] = [
    [
        "/cursor",
        r#"cursor: "${ page.token }", rows: "${ page.size }""#,
        "type: token, next_token_path: \"$.message['next-cursor']\"",
        "items_path: $.message.items",
    ],
    [
        "/offset",
        r#"offset: "${ page.offset }", limit: "${ page.size }""#,
        "type: offset",
        "items_path: $.items, total_path: $.total",
    ],
    [
        "/page",
        r#"page: "${ page.no }", size: "${ page.size }""#,
        "type: page, base: 1",
        "items_path: $.items, total_path: $.total",
    ],
];

/// The upstream's 429 responses do not depend on the rate: lowering it would only make the rounds longer.
fn manifest(base_url: &str, [path, query, pagination, items]: [&str; 4]) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults: {{ rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000, demote_rate: 1 }} }}
endpoints:
  records:
    http: {{ base_url: "{base_url}", path: {path} }}
    query: {{ {query}, from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ {pagination}, page_size: 15 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, as_of: true, max_window: PT1H, align: hour, initial: 2024-01-01 }}
    retry: {{ min_delay: PT0.01S, max_delay: PT0.05S }}
    response: {{ {items}, id_path: $.id, updated_at_path: $.updated_at, version_path: $.rev }}
"#
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Sqlite,
    Postgres,
}

pub(super) struct World {
    pub(super) place: Workspace,
    pub(super) mock_api: MockApi,
    pub(super) key: String,
    /// Everything before this is visible, and no job requests more.
    pub(super) shown: Ts,
    jobs: u64,
}

/// The job of a round.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) public_id: String,
    body: String,
}

impl World {
    /// `None` if there is no such server.
    pub(super) fn new(kind: Kind, rng: &mut Rng) -> Option<World> {
        let place = match kind {
            Kind::Sqlite => Workspace::sqlite(),
            Kind::Postgres => Workspace::postgres()?,
        };
        let dataset = Dataset::builder().seed(rng.next_u64()).count(RECORDS as usize).build();
        let script = Script {
            latency_ms: 1 + rng.below(4),
            visible: Some(0),
            e500: FaultSchedule::every(41),
            e429: FaultSchedule::every(53),
            retry_after: RetryAfter::Absent,
            truncate: FaultSchedule::every(61),
            reset: FaultSchedule::every(67),
            ..Script::default()
        };
        let mock_api = MockApi::start(([127, 0, 0, 1], 0).into(), dataset, script).unwrap();
        place.apply(&manifest(mock_api.base_url(), SHAPES[rng.below(SHAPES.len() as u64) as usize]));
        let key = place.run(&["key", "create", "torture", "--scope", "write"]);
        assert!(key.status.success(), "{}", String::from_utf8_lossy(&key.stderr));
        let key = String::from_utf8(key.stdout).unwrap().trim().to_owned();
        let shown = "2024-01-01T00:00:00Z".parse().unwrap();
        Some(World { place, mock_api, key, shown, jobs: 0 })
    }

    /// Makes more hours visible. Returns the job for them, and the indexes of their records.
    pub(super) fn grow(&mut self, rng: &mut Rng) -> (Job, Range<usize>) {
        let before = self.shown;
        for _ in 0..HOURS.start + rng.below(HOURS.end - HOURS.start) {
            self.shown = self.shown + HOUR;
        }
        let new = self.mock_api.dataset().range(before.micros(), self.shown.micros());
        self.mock_api.script().update(|script| script.visible = Some(new.end));
        (self.job(), new)
    }

    /// Creates a job for everything that is visible.
    pub(super) fn job(&mut self) -> Job {
        self.jobs += 1;
        let public_id = format!("job-{}", self.jobs);
        let to = self.shown;
        let body = format!(r#"{{"provenance":"far","endpoint":"records","to":"{to}","public_id":"{public_id}"}}"#);
        Job { public_id, body }
    }

    /// Submits the job and returns whether it was accepted. A dying server may give no response, or an error.
    pub(super) fn post(&self, address: &str, job: &Job) -> bool {
        let answer = ask(address, &self.key, "/api/v1/jobs", Some(&job.body));
        if let Ok((400..500, answer)) = &answer {
            panic!("{job:?} was refused: {answer}");
        }
        matches!(answer, Ok((200 | 202, _)))
    }

    /// Whether an accepted job has ended; `None` without a response.
    pub(super) fn is_finished(&self, address: &str, job: &Job) -> Option<bool> {
        let (status, answer) = ask(address, &self.key, &format!("/api/v1/jobs/{}", job.public_id), None).ok()?;
        assert_ne!(status, 404, "{} was accepted and is gone", job.public_id);
        (status == 200).then(|| answer["meta"]["finished"] == true)
    }
}

/// Sends one request to a server that may die while it responds.
fn ask(address: &str, key: &str, path: &str, body: Option<&str>) -> io::Result<(u16, Value)> {
    const PATIENCE: Duration = Duration::from_secs(12);
    let method = if body.is_some() { "POST" } else { "GET" };
    let body = body.unwrap_or_default();
    let mut stream = TcpStream::connect_timeout(&address.parse().map_err(io::Error::other)?, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| io::Error::other("no whole answer"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| io::Error::other("no status"))?;
    Ok((status, serde_json::from_str(body).map_err(io::Error::other)?))
}
