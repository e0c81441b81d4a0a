//! Two-phase endpoints: pages of ids, and the content behind them.

use super::*;

const MANIFEST: &str = r#"
provenance: far
name: Far
endpoints:
  search:
    http: { base_url: "https://api.example.org", path: /search }
    query: { since: "${ window.from }", retstart: "${ page.offset }" }
    pagination: { type: offset, page_size: 2 }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2020-01-01 }
    batching: { id_batch_size: 3 }
    response: { items_path: $.ids, id_path: $ID_PATH, total_path: $.count }
    two_phase: { detail: fetch$VERSION }
  fetch:
    role: detail
    http: { base_url: "https://api.example.org", path: /fetch }
    query: { id: "${ ids | join(',') }" }
    response: { items_path: $.docs, id_path: $.uid, updated_at_path: $.at }
    fields: { title: $.title }
"#;

fn two_phase(id_path: &str, version: &str) -> Pager {
    let yaml = MANIFEST.replace("$ID_PATH", id_path).replace("$VERSION", version);
    let manifest = patra_spec::read("far.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let compiled = patra_spec::compile(&manifest, "search", Operation::Harvest);
    let snapshot = compiled.unwrap_or_else(|problems| panic!("{problems}")).snapshot;
    let stored = patra_spec::Snapshot::from_body(&snapshot.body()).unwrap();
    assert_eq!((stored.batching.id_batch_size, &stored), (3, &snapshot));
    Pager::new(&stored).unwrap()
}

// covers: ING-4.6-01, ING-4.6-03, ING-4.6-06
#[test]
fn a_search_page_gives_ids_and_the_total() {
    let body = r#"{"count": "7", "ids": ["11", 12, "", "11"]}"#;
    let page = read_at(&two_phase("$", ""), &Position::Offset(0), answer(&[], body)).unwrap();
    let ids: Vec<_> = page.candidates.iter().map(|candidate| candidate.id.as_str()).collect();
    assert_eq!((ids, page.facts.items, page.facts.total), (vec!["11", "12", "11"], 4, Some(7)));
    assert_eq!((page.records.len(), page.rejected.len()), (0, 1), "an empty id is kept aside");
    let window = "1900-01-01T00:00:00.000000000Z/2100-01-01T00:00:00.000000000Z#";
    assert!(page.candidates[0].version.starts_with(window), "{}", page.candidates[0].version);
}

// covers: ING-15-06
#[test]
fn the_version_of_an_id_is_what_the_upstream_says() {
    let body = r#"{"ids": [{"uid": 1, "v": 3}, {"uid": 2}]}"#;
    let page = read_at(&two_phase("$.uid", ", version_path: $.v"), &Position::Offset(0), answer(&[], body)).unwrap();
    assert_eq!(page.candidates[0].id, "1");
    assert!(page.candidates[0].version.starts_with("3#"), "{}", page.candidates[0].version);
    assert!(page.candidates[1].version.contains('/'), "without one, the window that names it");
}

// covers: ING-4.6-04
#[test]
fn details_are_asked_for_by_id_and_kept_whatever_their_time() {
    let pager = two_phase("$", "");
    let position = Position::Ids { at: Box::new(Position::Offset(4)), ids: vec!["11".into(), "1,2&x=y".into()] };
    let sent = request(&pager, &position);
    assert_eq!(sent.url, "https://api.example.org/fetch?id=11%2C1%2C2%26x%3Dy");
    let body = r#"{"docs": [{"uid": "11", "at": "1850-05-05", "title": "old"}]}"#;
    let page = read_at(&pager, &position, answer(&[], body)).unwrap();
    assert_eq!((keys(&page), fields(&page, 0)["title"].as_str()), (vec!["11"], Some("old")));
    assert!(page.candidates.is_empty());
}

#[test]
fn a_detail_may_be_the_record_itself() {
    let yaml = MANIFEST
        .replace("$ID_PATH", "$")
        .replace("$VERSION", "")
        .replace("batching: { id_batch_size: 3 }", "")
        .replace("path: /fetch }", "path: \"/fetch/${ id }\" }")
        .replace("query: { id: \"${ ids | join(',') }\" }", "")
        .replace("items_path: $.docs", "items_path: $");
    let manifest = patra_spec::read("far.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let pager = Pager::new(&patra_spec::compile(&manifest, "search", Operation::Harvest).unwrap().snapshot).unwrap();
    let position = Position::Ids { at: Box::new(Position::Offset(0)), ids: vec!["11".into()] };
    let page = read_at(&pager, &position, answer(&[], r#"{"uid": 11, "at": "2024-05-05"}"#)).unwrap();
    assert_eq!(keys(&page), ["11"]);
    assert!(read_at(&pager, &position, answer(&[], "null")).unwrap().records.is_empty(), "it is gone");
    // In a page, an object would be a list that the path misses.
    let refusal = read_at(&pager, &Position::Offset(0), answer(&[], r#"{"ids": {}}"#)).unwrap_err();
    assert!(refusal.fault.message.contains("no list"), "{}", refusal.fault);
}
