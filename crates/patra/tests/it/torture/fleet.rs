//! Real processes of the program: started, killed, frozen and woken.

use std::fs::{File, OpenOptions};
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::time::Instant;

use super::world::Kind;
use crate::support::Workspace;

/// As short as possible, for short rounds; `PATRA_TORTURE_LEASE_SECS` makes it longer.
pub(super) fn lease() -> Duration {
    let secs = std::env::var("PATRA_TORTURE_LEASE_SECS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(secs.unwrap_or(1))
}

const SIGABRT: i32 = 6;

/// Role of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// All roles, as on an embedded database.
    All,
    Planner,
    Executor,
}

/// The processes on one store, each dead or alive. The first serves HTTP.
pub(super) struct Fleet {
    seats: Vec<Seat>,
    /// Variables of every process that starts from now on.
    pub(super) environment: Vec<(&'static str, String)>,
}

struct Seat {
    part: Part,
    name: String,
    process: Option<Process>,
}

pub(super) struct Process {
    child: Child,
    log: PathBuf,
    /// Offset of this process in the log.
    from: u64,
    address: Option<String>,
}

impl Fleet {
    pub(super) fn new(kind: Kind) -> Fleet {
        let parts: &[Part] = match kind {
            Kind::Sqlite => &[Part::All],
            Kind::Postgres => &[Part::Planner, Part::Executor, Part::Executor],
        };
        let seat = |(at, part): (usize, &Part)| Seat { part: *part, name: format!("{part:?}-{at}"), process: None };
        Fleet { seats: parts.iter().enumerate().map(seat).collect(), environment: Vec::new() }
    }

    pub(super) fn with(&self, part: Part) -> Vec<usize> {
        (0..self.seats.len()).filter(|at| self.seats[*at].part == part).collect()
    }

    pub(super) fn part(&self, at: usize) -> Part {
        self.seats[at].part
    }

    pub(super) fn len(&self) -> usize {
        self.seats.len()
    }

    /// Starts dead processes, and waits until all of them serve.
    pub(super) async fn complete(&mut self, place: &Workspace) -> Result<(), String> {
        for at in 0..self.seats.len() {
            self.start(place, at, None);
        }
        for at in 0..self.seats.len() {
            self.ready(at).await?;
        }
        Ok(())
    }

    /// Kills all processes.
    pub(super) fn kill_all(&mut self) {
        (0..self.seats.len()).for_each(|at| self.kill(at));
    }

    /// Starts a dead process, with a variable in its environment if one is given.
    pub(super) fn start(&mut self, place: &Workspace, at: usize, variable: Option<(&'static str, &str)>) {
        let seat = &mut self.seats[at];
        if seat.process.is_none() {
            let mut environment = self.environment.clone();
            environment.extend(variable.map(|(name, value)| (name, value.to_owned())));
            seat.process = Some(Process::start(place, &seat.name, seat.part, environment));
        }
    }

    /// Waits until the process serves. Fails if it exits instead.
    pub(super) async fn ready(&mut self, at: usize) -> Result<(), String> {
        let seat = &mut self.seats[at];
        let Some(process) = &mut seat.process else { return Err(format!("{} is not there", seat.name)) };
        match process.ready().await {
            Ok(()) => Ok(()),
            Err(why) => Err(format!("{} {why}", seat.name)),
        }
    }

    /// Kills the process with kill -9, if it is alive.
    pub(super) fn kill(&mut self, at: usize) {
        self.seats[at].process = None;
    }

    /// Whether the process is dead. Only its crash point may kill it.
    pub(super) fn has_crashed(&mut self, at: usize) -> Result<bool, String> {
        let seat = &mut self.seats[at];
        let Some(process) = &mut seat.process else { return Ok(true) };
        match process.child.try_wait().unwrap() {
            None => Ok(false),
            Some(status) if status.signal() == Some(SIGABRT) && process.said().contains("crash point") => {
                seat.process = None;
                Ok(true)
            }
            Some(status) => Err(format!("{} ended by itself: {}", seat.name, process.end(status))),
        }
    }

    /// Fails if a process has exited that should be alive.
    pub(super) fn check(&mut self) -> Result<(), String> {
        for seat in &mut self.seats {
            if let Some(process) = &mut seat.process
                && let Some(status) = process.child.try_wait().unwrap()
            {
                return Err(format!("{} ended by itself: {}", seat.name, process.end(status)));
            }
        }
        Ok(())
    }

    /// Address of HTTP; `None` while that process is dead.
    pub(super) fn address(&self) -> Option<&str> {
        self.seats[0].process.as_ref()?.address.as_deref()
    }

    pub(super) fn process(&self, at: usize) -> Option<&Process> {
        self.seats[at].process.as_ref()
    }

    /// The last output of all processes, to investigate a failure.
    pub(super) fn last_words(&self, place: &Workspace) -> String {
        let mut text = String::new();
        for seat in &self.seats {
            let log = std::fs::read_to_string(log_of(place, &seat.name)).unwrap_or_default();
            text.push_str(&format!("---- {}\n{}\n", seat.name, tail(&log, 30)));
        }
        text
    }

    /// Counts this text in the logs of all processes, dead ones too.
    pub(super) fn count(&self, place: &Workspace, text: &str) -> usize {
        let log = |seat: &Seat| std::fs::read_to_string(log_of(place, &seat.name)).unwrap_or_default();
        self.seats.iter().map(|seat| log(seat).matches(text).count()).sum()
    }
}

impl Process {
    fn start(place: &Workspace, name: &str, part: Part, environment: Vec<(&str, String)>) -> Process {
        let roles: &[&str] = match part {
            Part::All => &["--listen", "127.0.0.1:0"],
            Part::Planner => &["--listen", "127.0.0.1:0", "--role", "api,planner"],
            Part::Executor => &["--role", "executor"],
        };
        let log = log_of(place, name);
        let file = OpenOptions::new().create(true).append(true).open(&log).unwrap();
        let from = file.metadata().unwrap().len();
        let mut command = place.patra();
        command.arg("serve").args(roles).args(["--concurrency", "4", "--lease-secs", &lease().as_secs().to_string()]);
        command.envs(environment).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        Process { child: command.spawn().unwrap(), log, from, address: None }
    }

    async fn ready(&mut self) -> Result<(), String> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let start = Instant::now();
        loop {
            let said = self.said();
            if said.contains("serving;") {
                let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
                self.address = address.map(str::to_owned);
                return Ok(());
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                return Err(format!("ended while it started: {}", self.end(status)));
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("does not serve after {PATIENCE:?}: {}", tail(&said, 20)));
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by its name.
    pub(super) fn signal(&self, name: &str) {
        signal(name, &self.pid().to_string());
    }

    /// Whether SIGSTOP has stopped it.
    pub(super) fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
    }

    /// Log of this process.
    fn said(&self) -> String {
        use std::io::{Read as _, Seek as _, SeekFrom};
        let mut text = String::new();
        let mut file = File::open(&self.log).unwrap();
        file.seek(SeekFrom::Start(self.from)).unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    fn end(&self, status: ExitStatus) -> String {
        format!("{status}\n{}", tail(&self.said(), 20))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn signal(name: &str, pid: &str) {
    let status = Command::new("/bin/sh").args(["-c", &format!("kill -{name} {pid}")]).status().unwrap();
    assert!(status.success(), "kill -{name} {pid} failed");
}

fn log_of(place: &Workspace, name: &str) -> PathBuf {
    place.folder.path().join(format!("{name}.log"))
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
