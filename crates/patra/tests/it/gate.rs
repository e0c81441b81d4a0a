//! Many processes on one key of the rate gate, on a real PostgreSQL: they die at any moment, their clocks are wrong,
//! and the upstream sometimes sends a Retry-After, and counts.
//!
//! `PATRA_GATE_PERMITS` is the number of requests per test, `PATRA_GATE_RATE` the declared rate per second, and
//! `PATRA_GATE_KILL_SECS` the seconds between two kills.

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_core::Ts;
use patra_core::gate::{GateLimits, Rate};
use patra_core::port::{Clock, Store};
use patra_engine::gate::{GateFeedback, PermitRequester, RateGate, RateLane};
use patra_store_postgres::{Options, PostgresStore};
use patra_upstream::{Dataset, MockApi, Script};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use crate::cli::serve;
use crate::support::{On, http, manifest};

const PROCESSES: usize = 8;
const WORKERS: usize = 12;

/// Each child runs this test, and this test only.
const CHILD: &str = "gate::a_process_of_many";

#[derive(Debug)]
struct SkewedClock {
    start: Instant,
    base: Ts,
}

impl Clock for SkewedClock {
    fn now(&self) -> Ts {
        self.base + self.start.elapsed()
    }
}

fn lane(class: &str, weight: u32) -> RateLane {
    RateLane {
        key: "shared".into(),
        class: class.into(),
        weight,
        cost: 1,
        limits: GateLimits { rate: Rate { per_sec: rate(), burst: burst() }, ..GateLimits::default() },
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn rate() -> f64 {
    setting("PATRA_GATE_RATE").unwrap_or(200) as f64
}

fn burst() -> f64 {
    rate() / 10.0
}

/// The child process: sends all requests that the gate permits, until it is killed.
#[tokio::test]
#[ignore = "run by the tests below, with the environment it needs"]
async fn a_process_of_many() {
    let variable = |name: &str| std::env::var(name).expect("the parent sets it");
    let mut options = Options::new(variable("PATRA_GATE_STORE"));
    options.schema = Some(variable("PATRA_GATE_SCHEMA"));
    let store: Arc<dyn Store> = Arc::new(PostgresStore::open(options).await.unwrap());
    let me = variable("PATRA_GATE_ME");
    // Clocks an hour ahead or two hours behind: no two agree.
    let skew = i64::from(std::process::id() % 7_200) - 3_600;
    let clock: Arc<dyn Clock> =
        Arc::new(SkewedClock { start: Instant::now(), base: Ts::from_secs(1_800_000_000 + skew) });
    let gate = RateGate::new(store, Arc::clone(&clock), me.clone(), u64::from(std::process::id()));
    tokio::spawn(Arc::clone(&gate).listen());
    let (class, weight) = if me.starts_with('a') { ("a", 3) } else { ("b", 1) };
    let (lane, upstream) = (Arc::new(lane(class, weight)), variable("PATRA_GATE_FAR"));
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..WORKERS {
        let (gate, lane, clock, upstream, me) =
            (Arc::clone(&gate), Arc::clone(&lane), Arc::clone(&clock), upstream.clone(), me.clone());
        workers.spawn(async move {
            let mut line = TcpStream::connect(&upstream).await.unwrap();
            loop {
                let asker =
                    PermitRequester { lane: &lane, first: true, percent: 100, deadline: Duration::from_secs(15) };
                match gate.acquire(asker).await {
                    Ok(token) => {
                        if !token.spend() {
                            continue;
                        }
                        let sent = clock.steady();
                        if let Some(silence) = exchange(&mut line, &me).await {
                            let feedback = GateFeedback { refused: false, retry_after: Some(silence), remaining: None };
                            gate.feedback(&lane, sent, &feedback);
                        }
                    }
                    Err((_, until)) => tokio::time::sleep(until.since(clock.steady())).await,
                }
            }
        });
    }
    workers.join_next().await;
}

/// One line per request and response: milliseconds to wait, or 0.
async fn exchange(line: &mut TcpStream, me: &str) -> Option<Duration> {
    line.write_all(&[me.as_bytes()[0]]).await.unwrap();
    let mut answer = [0; 4];
    line.read_exact(&mut answer).await.unwrap();
    let millis = u32::from_be_bytes(answer);
    (millis > 0).then(|| Duration::from_millis(u64::from(millis)))
}

#[derive(Default)]
struct Upstream {
    began: Option<Instant>,
    /// Arrival time of each request.
    arrivals: Vec<Duration>,
    /// Whether each request was of the first class.
    of_a: Vec<bool>,
    silent_until: Option<Duration>,
    silences: usize,
    silent: Duration,
    /// Requests during a Retry-After, half a second or more after every process could know of it.
    early: usize,
}

impl Upstream {
    /// Records a request and returns the milliseconds to wait.
    fn arrive(&mut self, class: u8, silence_every: usize) -> u32 {
        let now = self.began.get_or_insert_with(Instant::now).elapsed();
        self.arrivals.push(now);
        self.of_a.push(class == b'a');
        if let Some(until) = self.silent_until {
            // Requests that left before the Retry-After could reach every process do not count.
            let asked = until - Duration::from_secs(2);
            if now < until && now > asked + Duration::from_millis(500) {
                self.early += 1;
            }
            if now < until {
                return 0;
            }
            self.silent_until = None;
        }
        if silence_every > 0 && self.arrivals.len().is_multiple_of(silence_every) {
            self.silent_until = Some(now + Duration::from_secs(2));
            self.silences += 1;
            self.silent += Duration::from_secs(2);
            return 2_000;
        }
        0
    }

    /// Share of the first class, after all processes have started.
    fn share(&self) -> f64 {
        let later = &self.of_a[self.of_a.len() / 2..];
        later.iter().filter(|of_a| **of_a).count() as f64 / later.len() as f64
    }

    /// Most requests in any window of this length.
    fn worst(&self, window: Duration) -> usize {
        let (mut first, mut worst) = (0, 0);
        for (last, at) in self.arrivals.iter().enumerate() {
            while *at - self.arrivals[first] >= window {
                first += 1;
            }
            worst = worst.max(last + 1 - first);
        }
        worst
    }
}

struct Fleet {
    upstream: String,
    schema: String,
    url: String,
    children: Vec<(String, Child)>,
    lives: AtomicUsize,
}

impl Fleet {
    fn spawn(&self, class: char) -> (String, Child) {
        let me = format!("{class}{}", self.lives.fetch_add(1, Ordering::Relaxed));
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", CHILD])
            .env("PATRA_GATE_STORE", &self.url)
            .env("PATRA_GATE_SCHEMA", &self.schema)
            .env("PATRA_GATE_FAR", &self.upstream)
            .env("PATRA_GATE_ME", &me)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        (me, child)
    }

    fn kill(&mut self, nth: usize) {
        let (me, mut child) = self.children.remove(nth);
        child.kill().unwrap();
        child.wait().unwrap();
        let class = me.chars().next().unwrap();
        let next = self.spawn(class);
        self.children.insert(nth, next);
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs the fleet until so many requests have arrived.
#[expect(clippy::print_stdout, reason = "the figures")]
async fn run(permits: usize, kill_every: Option<Duration>, silence_every: usize, classes: &str) -> Option<Upstream> {
    let url = std::env::var("PATRA_TEST_POSTGRES_URL").ok()?;
    let schema = format!("gate_{}_{}", std::process::id(), permits + silence_every);
    let mut options = Options::new(url.clone());
    options.schema = Some(schema.clone());
    PostgresStore::open(options).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let upstream = Arc::new(Mutex::new(Upstream::default()));
    let server = tokio::spawn({
        let upstream = Arc::clone(&upstream);
        async move {
            while let Ok((mut line, _)) = listener.accept().await {
                let upstream = Arc::clone(&upstream);
                tokio::spawn(async move {
                    let mut class = [0];
                    while line.read_exact(&mut class).await.is_ok() {
                        let answer = upstream.lock().unwrap().arrive(class[0], silence_every);
                        if line.write_all(&answer.to_be_bytes()).await.is_err() {
                            break;
                        }
                    }
                });
            }
        }
    });
    let mut fleet = Fleet { upstream: address, schema, url, children: Vec::new(), lives: AtomicUsize::new(0) };
    for nth in 0..PROCESSES {
        let class = classes.as_bytes()[nth % classes.len()] as char;
        let child = fleet.spawn(class);
        fleet.children.push(child);
    }
    let (mut next, mut kills) = (0, 0);
    let mut last_kill = Instant::now();
    while upstream.lock().unwrap().arrivals.len() < permits {
        tokio::time::sleep(Duration::from_millis(50)).await;
        if kill_every.is_some_and(|every| last_kill.elapsed() >= every) {
            fleet.kill(next % PROCESSES);
            (next, kills, last_kill) = (next + 3, kills + 1, Instant::now());
        }
    }
    drop(fleet);
    server.abort();
    let upstream = std::mem::take(&mut *upstream.lock().unwrap());
    let lasted = *upstream.arrivals.last().unwrap();
    let busy = lasted.saturating_sub(upstream.silent).as_secs_f64();
    println!(
        "{} requests in {:.1} s, {kills} kills, {} silences ({} early); {:.1} % of the declared rate; worst second {} of {}, worst ten {} of {}; {:.3} of the later half by class a",
        upstream.arrivals.len(),
        lasted.as_secs_f64(),
        upstream.silences,
        upstream.early,
        upstream.arrivals.len() as f64 / busy / rate() * 100.0,
        upstream.worst(Duration::from_secs(1)),
        burst() + rate(),
        upstream.worst(Duration::from_secs(10)),
        burst() + rate() * 10.0,
        upstream.share(),
    );
    Some(upstream)
}

fn permits() -> usize {
    setting("PATRA_GATE_PERMITS").unwrap_or(2_000) as usize
}

/// The upstream measures milliseconds: with other tests running it would measure the load of the machine.
mod alone {
    use super::*;

    // covers: ING-4.10-01, ING-4.10-02, ING-4.10-42, ING-13.1-03, ING-5.2-07, ING-DOD-09
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs the machine for itself: ./test runs it at the end"]
    async fn eight_dying_processes_respect_the_rate_of_one() {
        let kill_every = Duration::from_secs(setting("PATRA_GATE_KILL_SECS").unwrap_or(3));
        let Some(upstream) = run(permits(), Some(kill_every), 0, "a").await else { return };
        for secs in [1, 10] {
            let worst = upstream.worst(Duration::from_secs(secs));
            let most = burst() + rate() * secs as f64;
            assert!(worst as f64 <= most, "{worst} requests in {secs} s, at most {most}");
        }
    }

    // covers: ING-4.10-17, ING-4.10-37
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs the machine for itself: ./test runs it at the end"]
    async fn retry_after_reaches_every_process() {
        let Some(upstream) = run(permits(), None, 700, "a").await else { return };
        assert!(upstream.silences > 0);
        assert_eq!(upstream.early, 0, "requests were sent although every process could know");
    }

    // covers: ING-4.10-39
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "needs the machine for itself: ./test runs it at the end"]
    async fn two_sources_share_a_key_by_their_weights() {
        let Some(upstream) = run(permits() * 2, None, 0, "ab").await else { return };
        // A long run meets the promised share; a short one only shows that the weights count.
        let near = if setting("PATRA_GATE_PERMITS").is_some() { 0.0375 } else { 0.125 };
        let share = upstream.share();
        assert!((share - 0.75).abs() <= near, "{share:.3} instead of 0.75");
    }
}

// covers: ING-4.10-42, ING-2.7-03
on_both!(gates_show_permits_and_try_uses_the_same_gate);
async fn gates_show_permits_and_try_uses_the_same_gate(on: On) {
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(5, 300), Script::default()).unwrap();
    for place in on.places() {
        let yaml = manifest(server.base_url()).replace("burst: 1000", "burst: 1000, quota_hourly: 5000");
        assert!(yaml.contains("quota_hourly"), "{yaml}");
        place.apply(&yaml);
        let output = place.run(&["run", "far", "records", "--to", "2024-01-02"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let batches = place.list(&["batches"]).len() as u64;
        let gates = place.list(&["gates"]);
        assert_eq!((gates.len(), &gates[0]["rateKey"]), (1, &"far/records".into()), "{gates:?}");
        let used = |gates: &[Value]| gates[0]["permits"].as_u64().unwrap();
        assert!(used(&gates) >= batches, "{gates:?}");
        assert_eq!(gates[0]["hourly"]["limit"], 5_000);
        let table = String::from_utf8(place.run(&["get", "gates"]).stdout).unwrap();
        assert!(table.contains("far/records") && table.contains("/5000"), "{table}");

        let file = place.file("tried.yaml", &yaml);
        let tried = place.run(&["try", &file, "--to", "2024-01-02"]);
        assert!(tried.status.success(), "{}", String::from_utf8_lossy(&tried.stderr));
        let after = place.list(&["gates"]);
        if place.database_url().is_some() {
            assert!(used(&after) > used(&gates), "{after:?}");
        }
        let serving = serve(&place);
        let (status, answer) = http(&format!("http://{}/api/v1/gates", serving.address), Some(&serving.key), None);
        assert_eq!((status, &answer["data"]["items"][0]["rateKey"]), (200, &"far/records".into()), "{answer}");
    }
}

// covers: ING-4.10-22, ING-4.10-24
on_both!(quota_is_used_up_by_requests_that_reach_the_upstream);
async fn quota_is_used_up_by_requests_that_reach_the_upstream(on: On) {
    // With SQLite one process can write.
    let processes: &[usize] = if matches!(on, On::Sqlite) { &[1] } else { &[1, 2] };
    for processes in processes {
        let script = Script { latency_ms: 30, ..Script::default() };
        let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(6, 2_500), script).unwrap();
        for place in on.places() {
            server.reset();
            let yaml = manifest(server.base_url())
                .replace("10000, burst: 1000", "50, burst: 20, quota_hourly: 100")
                .replace("page_size: 50", "page_size: 10");
            assert!(yaml.contains("quota_hourly"), "{yaml}");
            place.apply(&yaml);
            let run = ["run", "far", "records", "--to", "2024-01-03T12:00:00Z", "--concurrency", "4"];
            let spawn = |_| place.patra().args(run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            let mut children: Vec<Child> = (0..*processes).map(spawn).collect();
            let deadline = Instant::now() + Duration::from_secs(60);
            while server.stats().data_requests < 98 && Instant::now() < deadline {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            for child in &mut children {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            let requests = server.stats().data_requests;
            assert!((98..=100).contains(&requests), "{processes} processes: {requests} requests");
        }
    }
}

// covers: ING-4.10-30
on_both!(permits_counted_equal_requests_sent);
async fn permits_counted_equal_requests_sent(on: On) {
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, 600), Script::default()).unwrap();
    for place in on.places() {
        server.reset();
        place.apply(&manifest(server.base_url()));
        let output = place.run(&["run", "far", "records", "--to", "2024-01-02", "--concurrency", "4"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(place.list(&["gates"])[0]["permits"], server.stats().data_requests);
    }
}
