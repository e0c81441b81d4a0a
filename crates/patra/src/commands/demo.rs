//! `demo`: everything in half a minute, without a network. A mock API that returns 429 now and then, a harvest in its
//! own process, a kill -9 in the middle, a second start, and a comparison with the data of the mock API.

mod check;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

use patra_core::Ts;
use patra_core::port::Clock as _;
use patra_upstream::{Dataset, FaultSchedule, MockApi, RetryAfter, Script};

use crate::cli::{Demo, Global};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;

/// The manifest that the demo applies; also the example to start from.
const MANIFEST: &str = include_str!("../../../../sources/demo.yaml");
const MANIFEST_ADDRESS: &str = "http://127.0.0.1:8900";
const MANIFEST_INITIAL: &str = "initial: 2024-01-01";
/// Marks a folder as the demo's own, which it may empty.
const MARKER: &str = "patra-demo";
const DAY: Duration = Duration::from_secs(86_400);

pub(crate) async fn run(global: &Global, args: &Demo) -> Result<Exit, Error> {
    if global.database_url.is_some() {
        return Err(Error::usage("the demo uses its own embedded database")
            .hint("leave out --database-url (PATRA_DATABASE_URL)"));
    }
    let folder = global.data.join("demo");
    prepare(&folder)?;
    let records = usize::try_from(args.records).unwrap_or(usize::MAX);
    let start = (SystemClock.now() - DAY * 8).floor_to(DAY);
    let server = mock_api(records, start)?;
    say(&format!(
        "1. A mock API with {records} records of the last days listens on {} and returns 429 now and then.",
        server.base_url()
    ));

    let demo = Harvest { folder: folder.clone(), program: std::env::current_exe()? };
    let manifest = folder.join("demo.yaml");
    let text = MANIFEST
        .replace(MANIFEST_ADDRESS, server.base_url())
        .replace(MANIFEST_INITIAL, &format!("initial: {}", day(start)));
    std::fs::write(&manifest, text)?;
    demo.patra(&["apply", "-f", &manifest.display().to_string()]).await?;
    say("2. Its manifest is applied.");

    say("3. Collecting in a separate process.");
    let mut child = demo.start()?;
    let half = records as u64 / 2;
    while server.stats().records < half && child.try_wait()?.is_none() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    child.start_kill()?;
    child.wait().await?;
    let before = check::stored(&folder).await?;
    say(&format!("4. Killed with -9 in the middle: {before} of {records} records are in the database."));

    say("5. Running the same command again: it continues where it stopped.");
    let status = demo.start()?.wait().await?;
    if !status.success() {
        return Err(Error::failed("the second harvest did not succeed")
            .hint(format!("patra --data {} get tasks", folder.display())));
    }
    check::compare(&folder, &server, before).await?;
    next_steps(&demo);
    if args.keep {
        return keep(&demo).await;
    }
    server.stop().await;
    Ok(Exit::Ok)
}

/// Empties the folder, if it belongs to the demo.
fn prepare(folder: &Path) -> Result<(), Error> {
    let marker = folder.join(MARKER);
    if folder.exists() && !marker.exists() {
        return Err(Error::configuration(format!("{} exists and does not belong to the demo", folder.display()))
            .hint("choose another folder with --data"));
    }
    let made = if folder.exists() { std::fs::remove_dir_all(folder) } else { Ok(()) };
    made.and_then(|()| std::fs::create_dir_all(folder)).and_then(|()| std::fs::write(&marker, "")).map_err(|error| {
        Error::configuration(format!("cannot prepare {}: {error}", folder.display()))
            .hint("choose another folder with --data")
    })
}

fn mock_api(records: usize, start: Ts) -> Result<MockApi, Error> {
    // One week, so that there are several slices, all in the past.
    let step = (DAY * 7).as_micros() as usize / records;
    let dataset = Dataset::builder()
        .count(records)
        .start_micros(start.micros())
        .step_micros(i64::try_from(step).unwrap_or(1))
        .build();
    let script = Script {
        latency_ms: 15,
        e429: FaultSchedule::at([12, 40]),
        retry_after: RetryAfter::Seconds(1),
        e500: FaultSchedule::every(31),
        ..Script::default()
    };
    let listen = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    MockApi::start(listen, dataset, script)
        .map_err(|error| Error::unexpected(format!("cannot start the mock API: {error}")))
}

/// Runs this program in other processes.
struct Harvest {
    folder: PathBuf,
    program: PathBuf,
}

impl Harvest {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .arg("--data")
            .arg(&self.folder)
            .args(["--allow-net", "127.0.0.0/8"])
            .env_remove("PATRA_DATABASE_URL")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true);
        command
    }

    fn start(&self) -> Result<Child, Error> {
        Ok(self.command().args(["run", "demo", "records", "--concurrency", "2"]).spawn()?)
    }

    async fn patra(&self, args: &[&str]) -> Result<(), Error> {
        let status = self.command().args(args).status().await?;
        if status.success() { Ok(()) } else { Err(Error::unexpected(format!("`patra {}` failed", args.join(" ")))) }
    }
}

fn day(at: Ts) -> String {
    at.to_short_text().chars().take(10).collect()
}

fn next_steps(demo: &Harvest) {
    // A path that works from the current folder, whether the program is installed or was just built.
    let here = std::env::current_dir().unwrap_or_default();
    let program = demo.program.strip_prefix(&here).unwrap_or(&demo.program).display();
    let data = demo.folder.display();
    say(&format!(
        "\nWhere to look next:\n  \
         {program} --data {data} get items --limit 5        the collected records\n  \
         {program} --data {data} get batches --limit 5      the ledger: every request\n  \
         {program} --data {data} get runs                   the attempts, including the killed one\n  \
         {program} --data {data} get cursors                how far it is collected\n  \
         {data}/demo.yaml    the manifest; docs/manifest.md shows how to write your own"
    ));
}

/// Keeps the server and the mock API running until Ctrl-C.
async fn keep(demo: &Harvest) -> Result<Exit, Error> {
    say("\nServing; press Ctrl-C to stop.");
    // The child gets the terminal's Ctrl-C too and stops by itself.
    let mut child = demo.command().args(["serve"]).spawn()?;
    let signals = crate::signals::Signals::listen()?;
    tokio::select! {
        status = child.wait() => {
            let status = status?;
            return if status.success() { Ok(Exit::Ok) } else { Err(Error::failed("the server stopped by itself")) };
        }
        () = signals.stop.cancelled() => {}
    }
    tokio::select! {
        _ = child.wait() => {}
        () = tokio::time::sleep(Duration::from_secs(35)) => {}
    }
    Ok(Exit::Ok)
}
