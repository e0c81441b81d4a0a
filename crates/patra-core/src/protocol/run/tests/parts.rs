//! Pages that have too many records for one transaction.

use super::*;

fn options() -> Options {
    Options { max_batch_records: 2, ..at_once() }
}

fn of_keys(keys: &[&str], next: Option<&str>) -> RunInput {
    RunInput::Fetched(Ok(Box::new(FetchedPage {
        facts: PageFacts { items: keys.len() as u32, next_token: next.map(str::to_owned), ..PageFacts::default() },
        records: keys.iter().map(|key| record(key, at(5))).collect(),
        content: [keys.len() as u8; 16],
        ..FetchedPage::default()
    })))
}

fn keys(batch: &CommitBatch) -> Vec<&str> {
    batch.records.iter().map(|record| record.key.as_str()).collect()
}

#[test]
fn large_page_is_committed_in_parts_and_only_the_last_one_leads_on() {
    let mut driver = Driver::reading(options(), tokens(), Some(Some(token("here"))));
    driver.fetch();
    let first = commit(&driver.on(of_keys(&["e", "d", "c", "b", "a", "a"], Some("next"))));
    let second = commit(&driver.on(committed()));
    let third = commit(&driver.on(committed()));
    assert_eq!([keys(&first), keys(&second), keys(&third)], [vec!["a", "b"], vec!["c", "d"], vec!["e"]]);
    for part in [&first, &second] {
        assert_eq!((&part.position, part.next.as_ref(), part.progress), (&token("here"), Some(&token("here")), false));
    }
    assert_eq!((&third.position, third.next.as_ref(), third.progress), (&token("here"), Some(&token("next")), true));
    assert_eq!([first.batch_no, second.batch_no, third.batch_no], [1, 2, 3]);
    let tokens = [&first, &second, &third].map(|part| part.before_token.clone());
    assert!(tokens[0] != tokens[1] && tokens[1] != tokens[2] && tokens[0] != tokens[2], "{tokens:?}");
    let items: u32 = [&first, &second, &third].iter().map(|part| part.stats.items_count).sum();
    let skipped: u32 = [&first, &second, &third].iter().map(|part| part.stats.skipped).sum();
    assert_eq!((items, skipped), (6, 1), "the numbers of the parts are those of the page");
}

#[test]
fn next_page_follows_the_last_part() {
    let mut driver = Driver::reading(options(), tokens(), None);
    driver.fetch();
    let mut wants = driver.on(of_keys(&["a", "b", "c"], Some("next")));
    while !requests_permit(&wants) {
        wants = driver.on(committed());
    }
    assert_eq!(driver.fetch().position, token("next"));
}

#[test]
fn run_ends_when_all_parts_are_committed() {
    let mut driver = Driver::reading(options(), tokens(), None);
    driver.fetch();
    commit(&driver.on(of_keys(&["a", "b", "c", "d", "e"], None)));
    commit(&driver.on(committed()));
    let last = commit(&driver.on(committed()));
    assert_eq!(last.next, None);
    assert_eq!(end(&driver.on(committed())).end, RunEnd::Succeeded);
}

#[test]
fn record_data_is_bounded_too() {
    let mut driver = Driver::reading(at_once(), tokens(), None);
    driver.fetch();
    let large = |key: &str| Record { fields: "x".repeat(5 << 20), ..record(key, at(5)) };
    let facts = PageFacts { items: 2, ..PageFacts::default() };
    let page = FetchedPage { facts, records: vec![large("a"), large("b")], ..FetchedPage::default() };
    let first = commit(&driver.on(RunInput::Fetched(Ok(Box::new(page)))));
    assert_eq!(keys(&first), ["a"]);
    assert_eq!(keys(&commit(&driver.on(committed()))), ["b"]);
}
