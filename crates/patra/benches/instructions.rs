//! Counts the instructions of hot paths with callgrind, which does not depend on the load of the machine.
//!
//! `cargo bench -p patra --bench instructions` compares the counts with `instructions.txt` and fails if a path takes
//! over 5 % more. `PATRA_RENEW=1` writes the counts to the file: after an improvement, or with another toolchain.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench that cannot be set up has nothing to measure")]

use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs};

use patra_connectors::{PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpResponse;
use patra_core::{Ts, Window};
use patra_spec::Operation;
use patra_store_sqlite::{Options, SqliteStore, Synchronous};
use patra_testkit::clock::ManualClock;
use patra_testkit::contract::{Fixture, Subject, make};
use patra_testkit::sim::simulate;

const KNOWN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/instructions.txt");
/// Tolerated increase in percent.
const LEEWAY: u64 = 5;
/// Records per page.
const RECORDS: usize = 100;

/// Name, repetitions and function of a path.
type Work = (&'static str, usize, fn(usize));
const PATHS: &[Work] = &[
    ("compile a manifest", 20, compile),
    ("render a request, read a page of 100 records", 40, read),
    ("commit a page of 100 new records to SQLite", 40, commit),
    ("one schedule of the simulator", 40, machines),
];

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args().collect();
    if let [_, name, times] = &arguments[..]
        && let Some((_, _, work)) = PATHS.iter().find(|(known, ..)| known == name)
    {
        work(times.parse().unwrap());
        return ExitCode::SUCCESS;
    }
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: nothing was counted");
        return ExitCode::SUCCESS;
    }
    let known = fs::read_to_string(KNOWN).unwrap_or_default();
    let known = |name: &str| known.lines().find_map(|line| line.strip_suffix(name)?.trim().parse::<u64>().ok());
    let (mut counted, mut slower) = (String::new(), false);
    for (name, times, _) in PATHS {
        // The difference cancels the cost of the setup.
        let each = (count(name, 2 * times) - count(name, *times)) / *times as u64;
        let (before, after) = (known(name), each);
        let too_many = before.is_some_and(|before| after * 100 > before * (100 + LEEWAY));
        let change = before.map_or(0.0, |before| (after as f64 / before as f64 - 1.0) * 100.0);
        println!("{after:>12} {change:>+6.1} %  {name}{}", if too_many { "  <- too many" } else { "" });
        counted.push_str(&format!("{after:>12} {name}\n"));
        slower |= too_many;
    }
    if env::var_os("PATRA_RENEW").is_some() {
        fs::write(KNOWN, counted).unwrap();
        return ExitCode::SUCCESS;
    }
    if slower { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn count(name: &str, times: usize) -> u64 {
    let program = env::current_exe().unwrap();
    let mut callgrind = Command::new("valgrind");
    callgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let output = callgrind.args([name, &times.to_string()]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {stderr}");
    let collected = stderr.lines().find_map(|line| line.split_once("Collected :")).unwrap();
    collected.1.trim().parse().unwrap()
}

const MANIFEST: &str = r#"
provenance: bench
endpoints:
  works:
    http: { base_url: "https://api.example.org/v1", path: /works, headers: { Accept: application/json } }
    query: { filter: "from:${ window.from | date },until:${ window.to | date }", rows: "${ page.size }", cursor: "${ page.token }" }
    pagination: { type: token, next_token_path: "$.next", page_size: 100 }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.updated_at }
    fields: { title: "$.title[0]", year: { path: $.issued.year, type: integer } }
"#;

fn pager() -> Pager {
    let manifest = patra_spec::read("bench.yaml", MANIFEST).unwrap_or_else(|problems| panic!("{problems}"));
    Pager::new(&patra_spec::compile(&manifest, "works", Operation::Harvest).unwrap().snapshot).unwrap()
}

fn compile(times: usize) {
    for _ in 0..times {
        std::hint::black_box(pager());
    }
}

/// About 1 KB.
fn item(n: usize) -> String {
    let (year, day) = (1990 + n % 30, 1 + n % 9);
    let words = "Lorem ipsum dolor sit amet. ".repeat(32);
    format!(
        r#"{{"id":"10.1000/{n:08}","title":["A title, number {n}"],"issued":{{"year":{year}}},"updated_at":"2024-05-0{day}T12:00:00Z","authors":[{{"given":"A","family":"B"}}],"abstract":"{words}"}}"#
    )
}

fn read(times: usize) {
    let (pager, params) = (pager(), Params::new());
    let position = Position::Token(Some("AoJ/abc==".into()));
    let window = Window { from: Ts::from_secs(1_700_000_000), to: Ts::from_secs(1_700_086_400) };
    let now = Ts::from_secs(1_700_100_000);
    let ask = PageRequest { position: &position, window, page_size: 100, params: &params, now };
    let items: Vec<_> = (0..RECORDS).map(item).collect();
    let body = format!(r#"{{"next":"abc","items":[{}]}}"#, items.join(",")).into();
    let response = HttpResponse { status: 200, headers: Vec::new(), body, redirected: None };
    for _ in 0..times {
        let exchange = pager.request(&ask).unwrap();
        let page = pager.read(exchange, Ok(response.clone()), Duration::ZERO, now).unwrap();
        assert_eq!(page.records.len(), RECORDS);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn commit(times: usize) {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(ManualClock::new(Ts::from_secs(1_700_000_000)));
    let mut options = Options::new(folder.path().join("patra.db"), clock.clone());
    options.synchronous = Synchronous::Normal;
    let store = Arc::new(SqliteStore::open(&options).unwrap());
    let fx = Fixture::new(Subject { store, time: clock });
    fx.plan("a", &make::windows(0, 1)).await;
    let lease = fx.next().await;
    let run = fx.start(&lease).await;
    for page in 0..times {
        let records = (0..RECORDS).map(|n| {
            let n = page * RECORDS + n;
            // Scattered like real ids.
            let key = format!("{:016x}", (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            patra_core::record::Record { payload: item(n).into(), ..make::record(&key, 1) }
        });
        let page = make::page(&lease, run, u32::try_from(page + 1).unwrap(), records.collect(), true);
        assert_eq!(fx.ok(Arc::new(page)).await.stats.inserted as usize, RECORDS);
    }
}

fn machines(times: usize) {
    for seed in 0..times as u64 {
        simulate(seed, None, false).unwrap();
    }
}
