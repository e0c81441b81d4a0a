//! Databases on the server that `PATRA_TEST_POSTGRES_URL` names: one for each test, copied from a template whose
//! migrations ran once, and gone when the test ends.
//!
//! # Time
//!
//! The store asks the server for the time, by `clock_timestamp()` and `now()`. PostgreSQL looks for a function in
//! `pg_catalog` first, unless the `search_path` names that schema in another place. A session that was opened with
//! [`Database::url_in_test_time`] finds both functions in the schema `test_time` instead, where they read a sequence.
//! The test sets it by [`ServerTime`]. A sequence knows no transactions: every session sees the new time at once. The
//! program has no part in this.

use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use patra_core::Ts;
use patra_core::hash;
use patra_core::port::{BoxFuture, Clock};
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::ManualClock;
use crate::contract::TestTime;

/// Runs in the template only. The time of a test begins where [`ManualClock`]'s does.
const TEST_TIME: &str = "
CREATE SCHEMA test_time;
CREATE SEQUENCE test_time.micros START 1767225600000000;
CREATE FUNCTION test_time.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
  $$ SELECT timestamptz 'epoch' + last_value * interval '1 microsecond' FROM test_time.micros $$;
CREATE FUNCTION test_time.now() RETURNS timestamptz LANGUAGE sql STABLE AS
  $$ SELECT test_time.clock_timestamp() $$";

/// The server under test, or `None` after a line with the reason.
#[expect(clippy::print_stdout, reason = "whoever reads the test log must see that nothing was tested")]
pub fn server() -> Option<String> {
    let url = std::env::var("PATRA_TEST_POSTGRES_URL").ok();
    if url.is_none() {
        println!("skipped: PATRA_TEST_POSTGRES_URL is not set");
    }
    url
}

/// A database of one test; dropped with this handle.
#[derive(Debug)]
pub struct Database {
    server: String,
    name: String,
}

impl Database {
    /// Creates a migrated database. `migrate` is called with the URL of an empty database if the server has no template
    /// yet. `None` if there is no server.
    pub fn new<M: Future<Output = ()> + Send>(migrate: impl FnOnce(String) -> M + Send) -> Option<Database> {
        static TEMPLATE: OnceLock<String> = OnceLock::new();
        let server = server()?;
        let template = TEMPLATE.get_or_init(|| wait_for(template(&server, migrate)));
        Some(Database::copy_of(server, template))
    }

    /// Creates a database without tables. `None` if there is no server.
    pub fn empty() -> Option<Database> {
        Some(Database::copy_of(server()?, "template0"))
    }

    fn copy_of(server: String, template: &str) -> Database {
        let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let name = format!("patra_test_{random:016x}");
        wait_for(async {
            let session = connect(&server).await;
            // Three times as fast as by way of the log. Servers before version 15 know only this way, and no word for
            // it.
            let version = "SELECT current_setting('server_version_num')::int";
            let version: i32 = session.query_one(version, &[]).await.expect("a version").get(0);
            let strategy = if version >= 150_000 { " STRATEGY file_copy" } else { "" };
            let create = format!("CREATE DATABASE {name} TEMPLATE {template}{strategy}");
            session.batch_execute(&create).await.expect("a database");
        });
        Database { server, name }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn url(&self) -> String {
        url_of(&self.server, &self.name)
    }

    /// URL for sessions whose time the test sets. See [`ServerTime`].
    pub fn url_in_test_time(&self) -> String {
        format!("{}?options=-csearch_path%3Dpublic,test_time,pg_catalog", self.url())
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        wait_for(async {
            let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
            connect(&self.server).await.batch_execute(&drop).await.expect("a database to drop");
        });
    }
}

/// The time of a database. It stands still until a test lets it pass.
#[derive(Debug)]
pub struct ServerTime {
    clock: ManualClock,
    session: Mutex<Client>,
}

impl ServerTime {
    pub async fn of(database: &Database) -> ServerTime {
        ServerTime { clock: ManualClock::default(), session: Mutex::new(connect(&database.url()).await) }
    }
}

impl Clock for ServerTime {
    fn now(&self) -> Ts {
        self.clock.now()
    }
}

impl ServerTime {
    async fn change(&self, change: impl FnOnce(&ManualClock) + Send) {
        let session = self.session.lock().await;
        change(&self.clock);
        let set = "SELECT setval('test_time.micros', $1)";
        session.execute(set, &[&self.clock.now().micros()]).await.expect("the server's time");
    }
}

impl TestTime for ServerTime {
    fn pass(&self, span: Duration) -> BoxFuture<'_, ()> {
        Box::pin(self.change(move |clock| clock.advance(span)))
    }

    fn step(&self, micros: i64) -> BoxFuture<'_, ()> {
        Box::pin(self.change(move |clock| clock.step(micros)))
    }
}

/// Creates the template unless the server has it, from this process or another. Its name contains the hash of the
/// migrations.
async fn template<M: Future<Output = ()>>(server: &str, migrate: impl FnOnce(String) -> M) -> String {
    let name = format!("patra_template_{}", &migrations()[..16]);
    let session = connect(server).await;
    // Held until the session ends.
    session.execute("SELECT pg_advisory_lock(hashtext('patra_template'))", &[]).await.expect("the lock");
    let found =
        session.query_opt("SELECT 1 FROM pg_database WHERE datname = $1", &[&name]).await.expect("the databases");
    if found.is_none() {
        // Renamed only once it is complete.
        let made = format!("{name}_making");
        session
            .batch_execute(&format!("DROP DATABASE IF EXISTS {made} WITH (FORCE)"))
            .await
            .expect("what a crash left");
        session.batch_execute(&format!("CREATE DATABASE {made}")).await.expect("a database");
        let url = url_of(server, &made);
        migrate(url.clone()).await;
        connect(&url).await.batch_execute(TEST_TIME).await.expect("the test's time");
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = $1";
        session.execute(end, &[&made]).await.expect("sessions to end");
        session.batch_execute(&format!("ALTER DATABASE {made} RENAME TO {name}")).await.expect("the template's name");
    }
    name
}

/// The hash of all migrations.
fn migrations() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../patra-store-postgres/migrations");
    let files = std::fs::read_dir(folder).expect("the migrations").map(|file| file.expect("a migration").path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    let text: String = files.iter().map(|file| std::fs::read_to_string(file).expect("a migration")).collect();
    hash::sha256_hex((text + TEST_TIME).as_bytes())
}

fn url_of(server: &str, database: &str) -> String {
    let (base, _) = server.rsplit_once('/').expect("a database in the URL");
    format!("{base}/{database}")
}

async fn connect(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Runs on a thread with its own runtime: the caller may be inside of one, or outside.
fn wait_for<T: Send>(work: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(work)
        });
        waiting.join().expect("the server to do it")
    })
}
