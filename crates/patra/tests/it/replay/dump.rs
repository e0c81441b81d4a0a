//! Every row of every table as text: two dumps are equal when nothing has changed.

use std::process::Command;

use rusqlite::types::Value;

use crate::support::Workspace;

/// Rows of all tables except the gate's, where every request counts, a replay's too, and the clock's, which is
/// recorded while a process runs.
pub(super) fn dump(place: &Workspace) -> String {
    match place.database_url() {
        Some(url) => postgres(&url),
        None => sqlite(place),
    }
}

fn sqlite(place: &Workspace) -> String {
    let connection = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    let mut tables = connection
        .prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('ing_gate', 'ing_clock') ORDER BY name")
        .unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert!(tables.iter().any(|table| table == "ing_task_run_batch"), "{tables:?}");
    let mut text = String::new();
    for table in tables {
        let mut rows = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
        let columns = rows.column_count();
        let mut lines: Vec<String> = rows
            .query_map([], |row| {
                let cells: Vec<Value> = (0..columns).map(|at| row.get(at)).collect::<Result<_, _>>()?;
                Ok(format!("{table} {cells:?}\n"))
            })
            .unwrap()
            .map(Result::unwrap)
            .collect();
        lines.sort();
        text.extend(lines);
    }
    text
}

fn postgres(url: &str) -> String {
    let dump = Command::new("pg_dump")
        .args(["--data-only", "--exclude-table=ing_(gate|clock)", "--inserts", url])
        .output()
        .unwrap();
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let text = String::from_utf8(dump.stdout).unwrap();
    // Newer versions start and end a dump with a random word.
    let mut lines: Vec<_> = text.lines().filter(|line| line.starts_with("INSERT") || line.contains("setval")).collect();
    assert!(lines.iter().any(|line| line.contains("ing_task_run_batch")));
    lines.sort_unstable();
    lines.join("\n")
}
