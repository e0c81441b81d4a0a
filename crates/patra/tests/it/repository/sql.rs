//! Just enough SQL to compare two schemas: tables with their columns, indexes by name. Types, checks and triggers are
//! specific to each dialect.

use std::collections::BTreeSet;

/// `table x`, `column x.y`, `index x`, `unique index x` for everything that a migration creates.
pub(super) fn schema(text: &str) -> BTreeSet<String> {
    let text: Vec<_> = text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect();
    let text = text.join(" ");
    let mut found = BTreeSet::new();
    for (kind, before) in [("index", "CREATE INDEX "), ("unique index", "CREATE UNIQUE INDEX ")] {
        found.extend(text.split(before).skip(1).map(|rest| format!("{kind} {}", name(rest))));
    }
    for rest in text.split("CREATE TABLE ").skip(1) {
        let table = name(rest);
        let columns = parts(rest).into_iter().map(|part| name(part.trim()).to_owned()).filter(|word| is_column(word));
        found.extend(columns.map(|column| format!("column {table}.{column}")));
        found.insert(format!("table {table}"));
    }
    for rest in text.split("ALTER TABLE ").skip(1) {
        if let Some((_, column)) = rest.split(';').next().and_then(|statement| statement.split_once("ADD COLUMN ")) {
            found.insert(format!("column {}.{}", name(rest), name(column)));
        }
    }
    found
}

/// The first word.
fn name(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or_default()
}

/// Columns are lower-case; a capitalised word starts a constraint.
fn is_column(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase())
}

/// The parts between the commas of the first bracket.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            ',' if depth == 1 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            ')' => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&text[start..at]);
                    return parts;
                }
            }
            _ => {}
        }
    }
    parts
}

#[test]
fn tables_columns_and_indexes_are_found() {
    let found = schema(
        "CREATE TABLE a (id INTEGER PRIMARY KEY, -- the, key\n b TEXT CHECK (b IN ('x', 'y')), CHECK (id > 0));\n\
         CREATE UNIQUE INDEX uk ON a (id, b); CREATE INDEX ix ON a (b) WHERE b = 'x'; ALTER TABLE a ADD COLUMN c TEXT;",
    );
    let expected = ["column a.b", "column a.c", "column a.id", "index ix", "table a", "unique index uk"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected);
}
