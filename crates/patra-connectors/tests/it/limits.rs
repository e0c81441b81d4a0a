//! Limits of one page: each is refused with the number and a remedy.

use patra_connectors::{MAX_COLUMNS, MAX_PAGE_RECORDS};
use patra_core::Level;
use patra_core::record::{MAX_RECORD_BYTES, RejectedRecord};

use super::*;

const LIST: &str = "response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }";
const TABLE: &str = "response: { format: csv, id_path: $.id, updated_at_path: $.at }";

#[track_caller]
fn refused(endpoint: &str, body: &str, parts: &[&str]) {
    let fault = read(endpoint, body).unwrap_err().fault;
    assert_eq!(fault.level, Level::L2, "another try would read the same: {fault}");
    for part in parts {
        assert!(fault.message.contains(part), "{part}: {fault}");
    }
}

fn list(records: usize, record: &str) -> String {
    format!("{{\"items\":[{}]}}", vec![record; records].join(","))
}

#[test]
fn page_with_too_many_records_is_refused() {
    let most = list(MAX_PAGE_RECORDS, "{\"id\":1,\"at\":5}");
    assert_eq!(page(LIST, &most).records.len(), MAX_PAGE_RECORDS);
    refused(LIST, &list(MAX_PAGE_RECORDS + 5, "{}"), &["it has 250005 records", "at most 250000", "page_size"]);
    let ids = "response: { items_path: $, id_path: $, updated_at_path: $.at }";
    refused(ids, &format!("[{}1]", "1,".repeat(MAX_PAGE_RECORDS)), &["250001 records"]);
    refused(TABLE, &format!("id,at\n{}", "1,5\n".repeat(MAX_PAGE_RECORDS + 1)), &["250000 rows"]);
}

#[test]
fn page_with_too_many_records_that_cannot_be_stored_is_refused() {
    let most = page(LIST, &list(RejectedRecord::MAX_PER_PAGE, "{}"));
    assert_eq!((most.rejected.len(), most.records.len()), (1_000, 0));
    let body = list(RejectedRecord::MAX_PER_PAGE + 1, "{}");
    refused(LIST, &body, &["more than 1000 of its 1001 records", "id_path $.id finds no text", "none is"]);
}

#[test]
fn record_that_is_too_large_is_set_aside() {
    let of = |bytes: usize| {
        format!("{{\"items\":[{{\"id\":1,\"at\":5,\"t\":\"{}\"}},{{\"id\":2,\"at\":5}}]}}", "x".repeat(bytes))
    };
    assert_eq!(keys(&page(LIST, &of(MAX_RECORD_BYTES - 100))), ["1", "2"]);
    let large = page(LIST, &of(MAX_RECORD_BYTES));
    assert_eq!(keys(&large), ["2"], "the others are stored");
    let reason = &large.rejected[0].reason;
    assert!(reason.contains("at most 4194304 are stored"), "{reason}");
    let mapped = format!("{LIST}\nfields: {{ t: $.t, again: $.t }}");
    assert_eq!(keys(&page(&mapped, &of(MAX_RECORD_BYTES / 2))), ["2"], "fields count too");
}

#[test]
fn table_with_too_many_columns_is_refused() {
    let columns: Vec<_> =
        ["id".to_owned(), "at".to_owned()].into_iter().chain((2..MAX_COLUMNS).map(|at| format!("c{at}"))).collect();
    let row = format!("1,5{}", ",".repeat(MAX_COLUMNS - 2));
    assert_eq!(page(TABLE, &format!("{}\n{row}\n", columns.join(","))).records.len(), 1);
    refused(TABLE, &format!("{},more\n{row},\n", columns.join(",")), &["more than 1024 fields", "delimiter"]);
    refused(TABLE, &",".repeat(100_000), &["more than 1024 fields"]);
    refused(TABLE, &format!("id,at\n1,5{}", ",".repeat(100_000)), &["more than 1024 fields"]);
}

#[test]
fn table_that_grows_too_much_is_refused() {
    let small = "http: { base_url: \"https://api.example.org\", path: /list, max_body_bytes: 65536 }\n";
    let body = format!("id,at,{}\n{}", "y".repeat(10_000), "1,5,\n".repeat(27));
    refused(&format!("{small}{TABLE}"), &body, &["262144 bytes", "max_body_bytes"]);
    assert_eq!(page(TABLE, &body).records.len(), 27, "a larger limit allows it");
}

#[test]
fn tweets_with_too_many_values_are_refused() {
    let tweets = "polled: true\nkind: tweet\nresponse: { format: tweets }";
    refused(tweets, &format!("{{\"tweets\":[{}1]}}", "1,".repeat(500_000)), &["500000 JSON values"]);
    refused(tweets, &format!("{{\"tweets\":[{}{{}}]}}", "{},".repeat(11_000)), &["11001 tweets", "10000"]);
}

#[test]
fn feed_that_grows_too_much_is_refused() {
    let feed = "polled: true\nkind: article\nresponse: { format: feed, items_path: $.entries, id_path: $.key, updated_at_path: $.updated }";
    let base = format!("<rss xml:base='http://x.test/{}/'><channel><title>t</title>", "x".repeat(8_000));
    let items = |count: usize| format!("{base}{}</channel></rss>", "<item><link>x</link></item>".repeat(count));
    assert_eq!(page(feed, &items(50)).facts.items, 50);
    refused(feed, &items(500), &["texts and addresses grow", "base address"]);
    let json = |values: usize| {
        format!(
            "{{\"version\":\"https://jsonfeed.org/version/1\",\"items\":[{{\"id\":1,\"a\":[{}0]}}]}}",
            "0,".repeat(values)
        )
    };
    assert_eq!(page(feed, &json(1_000)).facts.items, 1);
    refused(feed, &json(500_000), &["500000 JSON values"]);
}
