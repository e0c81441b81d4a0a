//! docs/expressions.md matches the code: every function has a row, every row a function, and each example gives the
//! documented result.

use std::collections::BTreeSet;

use super::*;

const DOCS: &str = include_str!("../../../../../docs/expressions.md");

/// The values of the examples, as in the document.
fn example() -> RenderContext {
    let block = DOCS.split("```json").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let values: serde_json::Value = serde_json::from_str(block).unwrap();
    let time = |value: &serde_json::Value| value.as_str().unwrap().parse().unwrap();
    let window = Window { from: time(&values["window"]["from"]), to: time(&values["window"]["to"]) };
    let page = PageVariables { no: 3, offset: 200, size: Some(100), token: None };
    RenderContext {
        window: Some(window),
        page,
        params: values["params"].as_object().unwrap().clone(),
        now: time(&values["now"]),
        ..RenderContext::default()
    }
}

/// The cells of the table under a heading, without the header row.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let section = DOCS.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let lines = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let cells = |line: &str| {
        let line = line.replace("\\|", "\u{1}");
        let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().replace('\u{1}', "|"));
        cells.collect::<Vec<_>>()
    };
    lines.map(cells).filter(|cells| !cells[0].starts_with("--")).collect()
}

fn code(cell: &str) -> &str {
    cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`')).unwrap_or(cell)
}

#[test]
fn every_function_is_documented_and_every_documented_function_exists() {
    let name = |row: &Vec<String>| code(&row[0]).split('(').next().unwrap().to_owned();
    let documented: Vec<String> = rows("Functions").iter().map(name).collect();
    let known: BTreeSet<String> = functions().map(str::to_owned).collect();
    assert_eq!(documented.iter().cloned().collect::<BTreeSet<_>>(), known);
    assert_eq!(documented.len(), known.len(), "a function has two rows");
}

#[test]
fn documented_examples_give_their_results() {
    let context = example();
    let (functions, operators) = (rows("Functions"), rows("Operators"));
    assert!(operators.len() > 5);
    for row in functions.iter().chain(&operators) {
        let [_, .., example, expected] = row.as_slice() else { panic!("{row:?}") };
        let expected = match code(expected) {
            "null" => "omitted".to_owned(),
            text => format!("= {text}"),
        };
        assert_eq!(show(code(example), &context), expected, "{example}");
        let name = code(&row[0]).split('(').next().unwrap();
        assert!(example.contains(name) || operators.contains(row), "{name}: {example}");
    }
}

#[test]
fn documented_limits_match_the_code() {
    for limit in ["16 KiB", "1,024 bytes", "64 KiB", "256 KiB", "8 groups", "32 deep", "16 times"] {
        assert!(DOCS.contains(limit), "{limit}");
    }
    assert_eq!((MAX_TEMPLATE, MAX_OUTPUT), (16 * 1024, 64 * 1024));
}
