//! Reads each listing from end to end without a socket, and checks edge cases.

use serde_json::Value;

use super::*;
use crate::query::escape;
use crate::script::LateRecord;

/// One response as JSON.
fn get(dataset: &Dataset, script: &Script, number: u64, target: &str) -> Result<Value, DataError> {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let listing = ListRequest { dataset, script, number, base_url: "http://api" };
    let page = listing.page(ListEndpoint::of(path).unwrap(), &Query::parse(query))?;
    let value: Value = serde_json::from_slice(&page.parts.concat()).unwrap();
    assert_eq!(page.records, items(&value).len());
    let next = value["next"].as_str().map(|url| format!("<{url}>; rel=\"next\""));
    assert_eq!(page.link, next);
    Ok(value)
}

fn items(page: &Value) -> &Vec<Value> {
    page.get("items").or_else(|| page["message"].get("items")).unwrap().as_array().unwrap()
}

fn ids(page: &Value) -> Vec<String> {
    items(page).iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
}

fn known(dataset: &Dataset) -> Vec<String> {
    dataset.records().map(|(id, ..)| id.to_owned()).collect()
}

/// Reads a listing to its end; `more` is appended to every query, `step` returns the next page.
fn walk(
    dataset: &Dataset,
    script: &Script,
    first: &str,
    more: &str,
    step: impl Fn(&Value, usize) -> Option<String>,
) -> Vec<String> {
    let (mut all, mut target) = (Vec::new(), first.to_owned());
    for number in 1..1000 {
        let page = get(dataset, script, number, &format!("{target}{more}")).unwrap();
        all.extend(ids(&page));
        match step(&page, all.len()) {
            Some(next) => target = next,
            None => return all,
        }
    }
    panic!("the listing does not end");
}

fn walk_all(dataset: &Dataset, script: &Script, more: &str) -> Vec<Vec<String>> {
    let offset =
        |page: &Value, count: usize| (!items(page).is_empty()).then(|| format!("/offset?limit=9&offset={count}"));
    let page = |page: &Value, _: usize| {
        (page["has_more"] == true).then(|| format!("/page?size=9&page={}", page["page"].as_u64().unwrap() + 1))
    };
    let page0 = |page: &Value, _: usize| {
        (page["has_more"] == true).then(|| format!("/page?base=0&size=9&page={}", page["page"].as_u64().unwrap() + 1))
    };
    let cursor = |page: &Value, _: usize| {
        let token = page["message"]["next-cursor"].as_str()?;
        Some(format!("/cursor?rows=9&cursor={}", escape(token)))
    };
    let keep = |page: &Value, _: usize| {
        let token = page["message"]["next-cursor"].as_str().unwrap();
        (!items(page).is_empty()).then(|| format!("/cursor?endcursor=keep&rows=9&cursor={}", escape(token)))
    };
    let link = |page: &Value, _: usize| Some(page["next"].as_str()?.strip_prefix("http://api")?.to_owned());
    vec![
        walk(dataset, script, "/offset?limit=9", more, offset),
        walk(dataset, script, "/page?size=9", more, page),
        walk(dataset, script, "/page?base=0&size=9", more, page0),
        walk(dataset, script, "/cursor?cursor=*&rows=9", more, cursor),
        walk(dataset, script, "/cursor?endcursor=keep&rows=9", more, keep),
        walk(dataset, script, "/link?size=9", more, link),
    ]
}

#[test]
fn union_of_pages_is_the_dataset() {
    for count in [0, 1, 9, 10, 100] {
        let dataset = Dataset::new(2, count);
        for all in walk_all(&dataset, &Script::default(), "&x=1") {
            assert_eq!(all, known(&dataset));
        }
        for all in walk_all(&dataset, &Script::default(), "&order=desc") {
            assert_eq!(all, known(&dataset).into_iter().rev().collect::<Vec<_>>());
        }
    }
}

#[test]
fn filters_hold_on_every_page() {
    let dataset = Dataset::new(2, 100);
    let (from, to) = (dataset.get(21).unwrap().1, dataset.get(70).unwrap().1);
    let known: Vec<&str> = dataset.ids_in(from, to).collect();
    assert_eq!(known.len(), 49);
    let more = "&from=2024-01-01T01:21:00%2B01:00&to=2024-01-01T01:10:00Z";
    for all in walk_all(&dataset, &Script::default(), more) {
        assert_eq!(all, known);
    }
    let all = ids(&get(&dataset, &Script::default(), 1, &format!("/window?limit=500{more}")).unwrap());
    assert_eq!(all, known);
}

#[test]
fn late_and_invisible_records_are_left_out() {
    let dataset = Dataset::new(2, 60);
    let hidden = [0, 10, 11, 49, 55];
    let late = hidden.iter().map(|index| LateRecord { index: *index, after: 999 }).collect();
    let script = Script { late, visible: Some(50), ..Script::default() };
    let expected: Vec<String> =
        (0..50).filter(|n| !hidden.contains(n)).map(|n| dataset.get(n).unwrap().0.to_owned()).collect();
    for all in walk_all(&dataset, &script, "&x=1") {
        assert_eq!(all, expected);
    }
    for all in walk_all(&dataset, &script, "&order=desc") {
        assert_eq!(all, expected.iter().rev().cloned().collect::<Vec<_>>());
    }
    assert_eq!(get(&dataset, &script, 1, "/offset").unwrap()["total"], 46);
}

/// An offset shifts when a record appears before it, a cursor does not.
#[test]
fn late_record_shifts_offsets_but_not_cursors() {
    let dataset = Dataset::new(2, 20);
    let script = Script { late: vec![LateRecord { index: 3, after: 1 }], ..Script::default() };
    let first = get(&dataset, &script, 1, "/cursor?rows=9").unwrap();
    let token = escape(first["message"]["next-cursor"].as_str().unwrap());
    let second = get(&dataset, &script, 2, &format!("/cursor?rows=9&cursor={token}")).unwrap();
    assert_eq!(ids(&second)[0], dataset.get(10).unwrap().0);
    let second = get(&dataset, &script, 2, "/offset?limit=9&offset=9").unwrap();
    assert_eq!(ids(&second)[0], dataset.get(9).unwrap().0);
    assert_eq!(ids(&first).last(), Some(&ids(&second)[0]));
}

#[test]
fn envelopes_have_the_announced_fields() {
    let dataset = Dataset::new(2, 25);
    let head = |target: &str| {
        let mut page = get(&dataset, &Script::default(), 1, target).unwrap();
        page.as_object_mut().unwrap().remove("items");
        page.to_string()
    };
    assert_eq!(head("/offset?offset=20&limit=10"), r#"{"limit":10,"offset":20,"total":25}"#);
    assert_eq!(head("/page?page=2&size=10"), r#"{"has_more":true,"page":2,"pages":3,"size":10,"total":25}"#);
    assert_eq!(head("/page?base=0&page=2&size=10"), r#"{"has_more":false,"page":2,"pages":3,"size":10,"total":25}"#);
    assert_eq!(head("/link?page=3&size=10"), r#"{"next":null,"total":25}"#);
    assert_eq!(
        head("/link?size=10&to=2030-01-01"),
        r#"{"next":"http://api/link?page=2&size=10&to=2030-01-01","total":25}"#
    );
    assert_eq!(head("/window?limit=10"), r#"{"count":10,"truncated":true}"#);
    assert_eq!(head("/window?limit=25"), r#"{"count":25,"truncated":false}"#);
}

#[test]
fn sizes_are_bounded() {
    let dataset = Dataset::new(2, 1500);
    let count = |target: &str| items(&get(&dataset, &Script::default(), 1, target).unwrap()).len();
    assert_eq!(count("/offset"), 100);
    assert_eq!(count("/offset?limit=5000"), 1000);
    assert_eq!(count("/page?page=18446744073709551615&size=1000"), 0);
    assert_eq!(get(&dataset, &Script::default(), 1, "/page?size=5000").unwrap()["size"], 1000);
}

#[test]
fn bad_parameters_are_named() {
    let dataset = Dataset::new(2, 5);
    let bad = [
        ("/offset?offset=-1", "offset"),
        ("/offset?limit=0", "limit"),
        ("/page?page=0", "page"),
        ("/page?base=2", "base"),
        ("/cursor?rows=x", "rows"),
        ("/cursor?cursor=", "cursor"),
        ("/cursor?cursor=garbage", "cursor"),
        ("/link?order=up", "order"),
        ("/window?from=yesterday", "from"),
        ("/window?to=2024-02-30", "to"),
    ];
    for (target, name) in bad {
        let DataError { message, .. } = get(&dataset, &Script::default(), 1, target).unwrap_err();
        assert!(message.starts_with(name), "{target}: {message}");
    }
}

#[test]
fn unescaped_cursor_is_rejected() {
    let dataset = Dataset::new(2, 50);
    let first = get(&dataset, &Script::default(), 1, "/cursor?rows=9").unwrap();
    let token = first["message"]["next-cursor"].as_str().unwrap();
    assert!(get(&dataset, &Script::default(), 1, &format!("/cursor?rows=9&cursor={token}")).is_err());
    assert!(get(&dataset, &Script::default(), 1, &format!("/cursor?rows=9&cursor={}", escape(token))).is_ok());
}

#[test]
fn repeated_token_leads_to_the_same_page() {
    let dataset = Dataset::new(2, 50);
    let script = Script { repeat_token_after: Some(1), ..Script::default() };
    let next =
        |page: &Value| format!("/cursor?rows=9&cursor={}", escape(page["message"]["next-cursor"].as_str().unwrap()));
    let first = get(&dataset, &script, 1, "/cursor?rows=9").unwrap();
    let second = get(&dataset, &script, 2, &next(&first)).unwrap();
    let third = get(&dataset, &script, 3, &next(&second)).unwrap();
    assert_ne!(first, second);
    assert_eq!(second, third);
    assert_eq!(next(&first), next(&second));

    let second = get(&dataset, &script, 2, "/link?size=9&page=2").unwrap();
    assert_eq!(second["next"], "http://api/link?page=2&size=9");
}

#[test]
fn totals_lie_on_request() {
    let dataset = Dataset::new(2, 50);
    let script = Script { total_delta: -8, ..Script::default() };
    let page = get(&dataset, &script, 1, "/page?size=9&page=5").unwrap();
    assert_eq!((&page["total"], &page["pages"], &page["has_more"]), (&42.into(), &5.into(), &true.into()));
    let script = Script { total_drift: true, ..Script::default() };
    assert_eq!(get(&dataset, &script, 1, "/cursor").unwrap()["message"]["total-results"], 51);
    assert_eq!(get(&dataset, &script, 2, "/cursor").unwrap()["message"]["total-results"], 52);
}
