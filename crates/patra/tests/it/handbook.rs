//! Runs every command of the pages that readers follow, in order: getting started, the API quickstart, the handbook.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{free_port, psql, root};

/// A page, with the readers' addresses replaced by those of the test.
struct Page {
    text: String,
    folder: tempfile::TempDir,
    listen: String,
}

impl Page {
    fn open(name: &str) -> Page {
        let (listen, mock_api) = (free_address(), free_address());
        let folder = tempfile::tempdir().unwrap();
        let demo = std::fs::read_to_string(root().join("sources/demo.yaml")).unwrap();
        std::fs::create_dir(folder.path().join("sources")).unwrap();
        std::fs::write(folder.path().join("sources/demo.yaml"), demo.replace("127.0.0.1:8900", &mock_api)).unwrap();
        let text = std::fs::read_to_string(root().join("docs").join(name)).unwrap();
        // Readers are slower than a test: the mock API is up when they type the next command.
        let started = "--step-secs 600 &\n";
        let wait = format!("until (: < /dev/tcp/{}) 2> /dev/null; do sleep 0.1; done\n", mock_api.replace(':', "/"));
        assert!(text.contains(started), "{name} starts the mock API");
        let text = text.replace(started, &format!("{started}{wait}")).replace("127.0.0.1:8900", &mock_api);
        let text = text.replace("127.0.0.1:8080", &listen);
        Page { text, folder, listen }
    }

    /// Runs all commands in one shell, which stops at the first failure.
    #[track_caller]
    fn follow(&self) -> String {
        let blocks: Vec<_> = self.text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(blocks.len() > 5, "the page has commands");
        // The program is built already; processes that still run at the end are killed.
        let before = "set -euo pipefail\ncargo() { :; }\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n\
                      command -v sqlite3 > /dev/null || sqlite3() { echo 'skipped: sqlite3 is not installed'; }\nset -x\n";
        let log = self.folder.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        // Some loops of the pages wait for a server, and would do so for ever.
        let status = Command::new("timeout")
            .args(["300", "bash", "-c", &(before.to_owned() + &blocks.concat())])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{}", programs().display(), std::env::var("PATH").unwrap()))
            .env("PATRA_LISTEN", &self.listen)
            .envs(server())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .status()
            .unwrap();
        let log = std::fs::read_to_string(&log).unwrap();
        assert!(status.success(), "a command of the page failed:\n{log}");
        log
    }
}

fn free_address() -> String {
    format!("127.0.0.1:{}", free_port())
}

/// Folder of `patra` and `patra-upstream`.
fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_patra")).parent().unwrap().to_owned();
    if !folder.join("patra-upstream").exists() {
        let build = ["build", "--quiet", "--locked", "-p", "patra-upstream"];
        assert!(Command::new(env!("CARGO")).args(build).current_dir(root()).status().unwrap().success());
    }
    folder
}

/// Environment that points `psql` to the test's PostgreSQL.
fn server() -> Vec<(&'static str, String)> {
    let Some((user, host, port, database)) = parts() else { return Vec::new() };
    vec![("PGUSER", user), ("PGHOST", host), ("PGPORT", port), ("PGDATABASE", database)]
}

fn parts() -> Option<(String, String, String, String)> {
    let url = std::env::var("PATRA_TEST_POSTGRES_URL").ok()?;
    let (user, rest) = url.strip_prefix("postgres://").unwrap().split_once('@').unwrap();
    let (address, database) = rest.split_once('/').unwrap();
    let (host, port) = address.split_once(':').unwrap_or((address, "5432"));
    Some((user.to_owned(), host.to_owned(), port.to_owned(), database.to_owned()))
}

#[test]
fn every_command_of_getting_started_works() {
    let log = Page::open("getting-started.md").follow();
    assert!(log.contains("feb-05"), "the job is requested and logged:\n{log}");
}

#[test]
fn every_command_of_the_api_quickstart_works() {
    let log = Page::open("quickstart-api.md").follow();
    assert!(log.contains("next_before_id"), "items come back over HTTP:\n{log}");
}

#[test]
fn every_command_of_the_handbook_works() {
    let mut page = Page::open("handbook.md");
    match parts() {
        None => {
            eprintln!("skipped from PostgreSQL on: PATRA_TEST_POSTGRES_URL is not set");
            page.text.truncate(page.text.find("## Move to PostgreSQL").unwrap());
            page.follow();
        }
        Some((_, host, port, _)) => {
            let name = format!("handbook_{}", std::process::id());
            page.text = page
                .text
                .replace("ROLE patra ", &format!("ROLE {name} "))
                .replace("DATABASE patra OWNER patra", &format!("DATABASE {name} OWNER {name}"))
                .replace("patra:secret@localhost:5432/patra", &format!("{name}:secret@{host}:{port}/{name}"));
            let _gone = Gone(name);
            page.follow();
        }
    }
}

/// Drops the objects that the page created on the server.
struct Gone(String);

impl Drop for Gone {
    fn drop(&mut self) {
        let url = std::env::var("PATRA_TEST_POSTGRES_URL").unwrap();
        psql(&url, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.0));
        psql(&url, &format!("DROP ROLE IF EXISTS {}", self.0));
    }
}
