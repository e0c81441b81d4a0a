//! Every kind of problem, with line, column and hint.

mod auth;
mod basics;
mod checklist;
mod detail;
mod inputs;
mod responses;
mod schedule;

use super::read;

const BASE: &str = "\
provenance: test
endpoints:
  list:
    http: { base_url: \"https://x.org\", path: /list }
    query:
      cursor: \"${ page.token }\"
      from: \"${ window.from | date }\"
    pagination: { type: token, next_token_path: $.next, page_size: 100 }
    window: { supports_updated_since: true, watermark_key: updated_at, max_window: P1D, align: hour }
    response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }
";

/// Reads a manifest and compares its problems; empty for a valid manifest.
fn check_whole(yaml: &str, expected: &str) {
    let shown = read("t.yaml", yaml).map_or_else(|problems| problems.to_string(), |_| String::new());
    assert_eq!(shown, expected, "{yaml}");
}

/// Checks `BASE` with `from` replaced by `to`.
fn check(from: &str, to: &str, expected: &str) {
    assert!(BASE.contains(from), "{from}");
    check_whole(&BASE.replacen(from, to, 1), expected);
}
