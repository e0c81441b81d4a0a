//! Shared by the tests: a place to work in (a folder with SQLite, or a PostgreSQL schema) and the program itself.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, SystemTime};

use patra_core::rng::Rng;
use patra_store_postgres::{Options, PostgresStore};
use patra_testkit::postgres::Database;
use serde_json::Value;

/// Root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// A database of its own, dropped at the end.
pub(crate) struct Workspace {
    pub(crate) folder: tempfile::TempDir,
    postgres: Option<Database>,
}

/// The store of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) enum On {
    Sqlite,
    Postgres,
}

impl On {
    /// Places on this store; none if there is no server.
    pub(crate) fn places(self) -> impl Iterator<Item = Workspace> {
        match self {
            On::Sqlite => Some(Workspace::sqlite()),
            On::Postgres => Workspace::postgres(),
        }
        .into_iter()
    }

    /// Like [`On::run`], on an empty database.
    pub(crate) fn run_on_empty(self, test: impl Fn(&Workspace)) {
        let place = match self {
            On::Sqlite => Some(Workspace::sqlite()),
            On::Postgres => Workspace::empty_postgres(),
        };
        if let Some(place) = place {
            test(&place);
        }
    }

    pub(crate) fn run(self, test: impl Fn(&Workspace)) {
        for place in self.places() {
            test(&place);
        }
    }
}

/// Two tests of one function, one on each store.
macro_rules! on_both {
    (fn $test:ident) => {
        mod $test {
            #[test]
            fn on_sqlite() {
                super::$test(crate::support::On::Sqlite);
            }

            #[test]
            fn on_postgres() {
                super::$test(crate::support::On::Postgres);
            }
        }
    };
    ($test:ident) => {
        mod $test {
            #[tokio::test(flavor = "multi_thread")]
            async fn on_sqlite() {
                super::$test(crate::support::On::Sqlite).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn on_postgres() {
                super::$test(crate::support::On::Postgres).await;
            }
        }
    };
}

impl Workspace {
    pub(crate) fn sqlite() -> Workspace {
        Workspace { folder: tempfile::tempdir().unwrap(), postgres: None }
    }

    /// `None` if no server is configured, with a line that says so.
    pub(crate) fn postgres() -> Option<Workspace> {
        let migrate = async |url| drop(PostgresStore::open(Options::new(url)).await.unwrap());
        Database::new(migrate).map(Workspace::on)
    }

    /// On an empty PostgreSQL database: the program migrates it.
    pub(crate) fn empty_postgres() -> Option<Workspace> {
        Database::empty().map(Workspace::on)
    }

    fn on(database: Database) -> Workspace {
        Workspace { folder: tempfile::tempdir().unwrap(), postgres: Some(database) }
    }

    pub(crate) fn database_url(&self) -> Option<String> {
        self.postgres.as_ref().map(Database::url)
    }

    /// The program, set up for this place.
    pub(crate) fn patra(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_patra"));
        command.env_clear().env("PATRA_ALLOW_NET", "127.0.0.0/8").env("PATRA_DATA", self.folder.path().join("data"));
        if let Some(url) = self.database_url() {
            command.env("PATRA_DATABASE_URL", url);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.patra().args(args).output().unwrap()
    }

    pub(crate) fn apply(&self, manifest: &str) {
        let file = self.file("manifest.yaml", manifest);
        let output = self.run(&["apply", "-f", &file]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    pub(crate) fn file(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// All rows of a view.
    pub(crate) fn list(&self, view: &[&str]) -> Vec<Value> {
        let output = self.patra().arg("get").args(view).args(["--limit", "0", "-o", "ndjson"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Runs a statement on the database itself; the cells of each row are joined by `|`.
    pub(crate) fn sql(&self, statement: &str) -> Vec<String> {
        if let Some(url) = self.database_url() {
            return psql(&url, statement).lines().map(str::to_owned).collect();
        }
        let db = rusqlite::Connection::open(self.folder.path().join("data/patra.db")).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        let mut prepared = db.prepare(statement).unwrap();
        let columns = prepared.column_count();
        if columns == 0 {
            prepared.execute([]).unwrap();
            return Vec::new();
        }
        let row = |row: &rusqlite::Row<'_>| {
            let cells = (0..columns).map(|at| row.get::<_, rusqlite::types::Value>(at));
            let cells = cells.collect::<Result<Vec<_>, _>>()?.into_iter().map(|cell| match cell {
                rusqlite::types::Value::Text(text) => text,
                rusqlite::types::Value::Integer(number) => number.to_string(),
                rusqlite::types::Value::Null => String::new(),
                other => format!("{other:?}"),
            });
            Ok(cells.collect::<Vec<_>>().join("|"))
        };
        prepared.query_map([], row).unwrap().map(Result::unwrap).collect()
    }

    /// Runs SQLite's integrity check.
    pub(crate) fn check_integrity(&self) {
        if self.postgres.is_some() {
            return;
        }
        let file: &Path = &self.folder.path().join("data/patra.db");
        let connection = rusqlite::Connection::open(file).unwrap();
        let verdict: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(verdict, "ok");
    }
}

/// The server's output, without headings.
pub(crate) fn psql(url: &str, statement: &str) -> String {
    let output = Command::new("psql").args(["-qtA", "-v", "ON_ERROR_STOP=1", "-c", statement, url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Beginning of manifests for the mock API: fast, with few retries. Endpoints follow.
pub(crate) fn preamble(base_url: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults:
  http: {{ base_url: "{base_url}" }}
  rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }}
  retry: {{ min_delay: PT0.01S, max_delay: PT0.05S }}
endpoints:
"#
    )
}

/// The cursor endpoint of the mock API, in slices of six hours and pages of fifty.
pub(crate) fn manifest(base_url: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults: {{ rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }} }}
endpoints:
  records:
    http: {{ base_url: "{base_url}", path: /cursor }}
    query: {{ cursor: "${{ page.token }}", rows: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: token, next_token_path: "$.message['next-cursor']", page_size: 50 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, as_of: true, max_window: PT6H, align: hour, initial: 2024-01-01 }}
    retry: {{ min_delay: PT0.01S, max_delay: PT0.05S }}
    response: {{ items_path: "$.message.items", id_path: "$.id", updated_at_path: "$.updated_at", version_path: "$.rev" }}
    fields: {{ title: "$.title" }}
"#
    )
}

/// Sends one request to a server on this host, without any other program.
pub(crate) fn http(url: &str, key: Option<&str>, body: Option<&str>) -> (u16, Value) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let method = if body.is_some() { "POST" } else { "GET" };
    let mut request =
        format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nX-Request-ID: mine\r\n");
    if let Some(key) = key {
        request.push_str(&format!("Authorization: Bearer {key}\r\n"));
    }
    let body = body.unwrap_or_default();
    request.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
    let mut stream = TcpStream::connect(host).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.to_lowercase().contains("x-request-id: mine"), "{head}");
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap_or_else(|_| body.into()))
}

/// Runs the program with these arguments, killed so many times at a random moment, and then to its end.
pub(crate) async fn run_through_kills(
    place: &Workspace,
    rng: &mut Rng,
    args: &[&str],
    kills: usize,
    longest: Duration,
) {
    for _ in 0..kills {
        let mut child = place.patra().args(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_micros(rng.below(longest.as_micros() as u64))).await;
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let mut last = place.patra();
    last.args(args);
    let output = tokio::task::spawn_blocking(move || last.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{args:?} undisturbed: {}", String::from_utf8_lossy(&output.stderr));
}

#[expect(clippy::disallowed_methods, reason = "a seed that differs between runs")]
pub(crate) fn now_micros() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros() as u64
}

/// A free port below those that the system gives to outgoing connections: nothing takes it before the server does.
pub(crate) fn free_port() -> u16 {
    static TAKEN: AtomicU16 = AtomicU16::new(0);
    let first = (std::process::id() % 12_000) as u16;
    loop {
        let port = 20_000 + (first + TAKEN.fetch_add(1, Ordering::Relaxed)) % 12_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
