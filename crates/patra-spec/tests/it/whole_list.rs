//! `window.mode: snapshot`: endpoints that are read as a whole every time.

use patra_spec::{CompiledSnapshot, Operation, compile, read};

const LIST: &str = r#"provenance: shop
endpoints:
  list:
    http: { base_url: "https://x.org", path: /list }
    query: { offset: "${ page.offset }" }
    pagination: { type: offset, page_size: 100 }
    window: { mode: snapshot, missing: mark }
    response: { items_path: $.items, id_path: $.id, total_path: $.total }
    rate_limit: { refill_rate_per_sec: 5 }
"#;

fn compiled(yaml: &str, operation: Operation) -> Result<CompiledSnapshot, String> {
    let manifest = read("t.yaml", yaml).map_err(|problems| problems.to_string())?;
    compile(&manifest, "list", operation).map_err(|problems| problems.to_string())
}

/// The problems of the manifest with one change.
fn refused(from: &str, to: &str) -> String {
    assert!(LIST.contains(from), "{from}");
    compiled(&LIST.replace(from, to), Operation::Harvest).expect_err(to)
}

#[test]
fn whole_list_needs_neither_times_nor_a_watermark() {
    let CompiledSnapshot { snapshot, warnings, .. } = compiled(LIST, Operation::Harvest).unwrap();
    assert!(snapshot.reads_whole_list() && snapshot.marks_missing() && snapshot.is_undated());
    assert!(snapshot.keeps_out_of_range() && snapshot.safety_lag().is_zero() && snapshot.order().is_none());
    assert!(!snapshot.paging().tail_probe, "a record that joins meanwhile is in the next pass");
    assert_eq!(warnings, ["no response.updated_at_path: records are replaced when their content differs"]);
    let dated = LIST.replace("id_path: $.id,", "id_path: $.id, updated_at_path: $.at,");
    assert!(!compiled(&dated, Operation::Harvest).unwrap().snapshot.is_undated());
    let kept = LIST.replace(", missing: mark", "");
    assert!(!compiled(&kept, Operation::Harvest).unwrap().snapshot.marks_missing());
    let again = patra_spec::Snapshot::from_body(&snapshot.body()).unwrap();
    assert_eq!(again, snapshot);
}

#[test]
fn keys_of_windows_are_refused_for_whole_lists() {
    for key in [
        "supports_updated_since: true",
        "watermark_key: at",
        "safety_lag: PT1M",
        "max_window: P1D",
        "min_window: PT1M",
        "align: day",
        "initial: 2024-01-01",
        "lookback: PT1M",
        "monotonic: true",
        "out_of_range: keep",
        "as_of: true",
    ] {
        let found = refused("missing: mark", key);
        let name = key.split(':').next().unwrap();
        assert!(found.contains(&format!("window.{name}: `{name}` has no meaning with `mode: snapshot`")), "{found}");
    }
    let found = refused("type: offset, page_size: 100", "type: time");
    assert!(found.contains("`time` paging has no meaning with `mode: snapshot`"), "{found}");
    let found = refused("page_size: 100", "page_size: 100, page_range: 5");
    assert!(found.contains("pagination.page_range: `page_range` has no meaning"), "{found}");
    let found = refused("    window:", "    polled: true\n    window:");
    assert!(found.contains("window.mode: a polled endpoint reads its whole list already"), "{found}");
    let found = refused("offset: \"", "from: \"${ window.from | iso }\", offset: \"");
    assert!(found.contains("window.mode: a template sends the window"), "{found}");
    let found = refused("mode: snapshot, missing: mark", "missing: mark, watermark_key: at");
    assert!(found.contains("`missing` needs `mode: snapshot`"), "{found}");
}

#[test]
fn marks_need_passes_that_can_show_that_they_are_complete() {
    let pages = "type: page, base: 1, page_size: 10";
    let page = |paging: &str| {
        let yaml = LIST.replace("type: offset, page_size: 100", paging);
        compiled(&yaml.replace("offset: \"${ page.offset }\"", "page: \"${ page.no }\""), Operation::Harvest)
    };
    assert!(page(pages).expect_err("unverified").contains("window.missing: `mark` needs passes that can show"));
    page(&format!("{pages}, verify: twice")).expect("two passes agree");
    let url = page("type: url, next_url_path: $.next").expect_err("unverified");
    assert!(url.contains("set pagination.verify: twice"), "{url}");
    let none = refused("page_size: 100", "page_size: 100, verify: none");
    assert!(none.contains("`mark` needs passes"), "{none}");
    let repeats = refused("page_size: 100", "page_size: 100, repeat_ends: true");
    assert!(repeats.contains("`mark` cannot be used with `repeat_ends`"), "{repeats}");
    let single = LIST
        .replace("    query: { offset: \"${ page.offset }\" }\n    pagination: { type: offset, page_size: 100 }\n", "");
    compiled(&single, Operation::Harvest).expect("one response is the whole list");
}

#[test]
fn backfill_of_a_whole_list_is_refused() {
    let found = compiled(LIST, Operation::Backfill).expect_err("it has no past");
    assert!(found.contains("window.mode: BACKFILL reads windows of the past"), "{found}");
}

#[test]
fn window_of_another_mode_inherits_nothing() {
    let with = LIST.replace(
        "endpoints:\n",
        "defaults: { window: { watermark_key: at, initial: 2024-01-01, max_window: P7D } }\nendpoints:\n",
    );
    assert!(compiled(&with, Operation::Harvest).unwrap().snapshot.window.initial.is_none());
    let whole = with
        .replace("window: { watermark_key: at, initial: 2024-01-01, max_window: P7D }", "window: { mode: snapshot }");
    let inherited = whole.replace("    window: { mode: snapshot, missing: mark }\n", "");
    assert!(compiled(&inherited, Operation::Harvest).unwrap().snapshot.reads_whole_list());
    let marked = whole.replace("window: { mode: snapshot, missing: mark }", "window: { missing: mark }");
    assert!(compiled(&marked, Operation::Harvest).unwrap().snapshot.marks_missing());
}
