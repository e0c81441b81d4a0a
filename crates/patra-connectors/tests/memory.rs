//! Hostile bodies of every format: none takes more memory than its estimate says, and none takes more than the budget for
//! decoding allows. In its own binary, because it counts the allocations of the whole process.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

use std::time::Duration;

use bytes::Bytes;
use peak_alloc::PeakAlloc;

use patra_connectors::{PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpResponse;
use patra_core::{Ts, Window};
use patra_spec::Operation;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The budget for decoding.
const BUDGET: usize = 80 << 20;
/// What the estimates leave out.
const MARGIN: usize = 16 << 20;

/// An endpoint of a manifest, from the lines that follow its address.
fn pager(lines: &str) -> Pager {
    let window =
        if lines.contains("polled") { "" } else { "    window: { watermark_key: updated_at, initial: 2020-01-01 }\n" };
    let lines: String = lines.lines().map(|line| format!("    {line}\n")).collect();
    let yaml = format!(
        "provenance: far\nendpoints:\n  list:\n    http: {{ base_url: \"https://api.example.org/v1\", path: /list }}\n{window}{lines}"
    );
    let manifest = patra_spec::read("far.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"));
    let compiled = patra_spec::compile(&manifest, "list", Operation::Harvest);
    Pager::new(&compiled.unwrap_or_else(|problems| panic!("{problems}\n{yaml}")).snapshot).unwrap()
}

fn repeated(before: &str, piece: &str, times: usize, after: &str) -> String {
    let mut text = String::with_capacity(before.len() + piece.len() * times + after.len());
    text.push_str(before);
    (0..times).for_each(|_| text.push_str(piece));
    text.push_str(after);
    text
}

const JSON: &str = "response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }";
const CSV: &str = "response: { format: csv, id_path: $.id, updated_at_path: $.at }";
const LENIENT: &str = "response: { format: csv, id_path: $.id, updated_at_path: $.at, lenient: true }";
const XML: &str = "response: { format: xml, items_path: $.r.i, id_path: $.id, updated_at_path: $.at }";
const TWEETS: &str = "polled: true\nkind: tweet\nresponse: { format: tweets }";
const FEED: &str = "polled: true\nkind: article\nresponse: { format: feed, items_path: $.entries, id_path: $.key, updated_at_path: $.updated }\nfields: { text: $.content }";
const PAGE: &str = "polled: true\nkind: article\nresponse: { format: page, items_path: $.entries, id_path: $.key, updated_at_path: $.updated }\nfields: { text: $.content }";
const ROWS: &str = "polled: true\nkind: article\nresponse: { format: html, items_path: $, html: { rows: div, fields: { id: \"\", text: \"\" } }, id_path: $.id, updated_at_path: $.observed_on }";

/// Name, endpoint and body.
fn bodies() -> Vec<(&'static str, &'static str, String)> {
    let item = "<rss><channel><title>t</title><item><guid>1</guid><description>";
    let end = "</description></item></channel></rss>";
    let long = "x".repeat(8_000);
    let attributes: String = (0..250).map(|at| format!(" a{at}")).collect();
    let record = "{\"id\":1,\"at\":5},";
    vec![
        ("four million objects", JSON, repeated("{\"items\":[{}", ",{}", 4_000_000, "]}")),
        ("200,000 objects", JSON, repeated("{\"items\":[{}", ",{}", 200_000, "]}")),
        ("as many records as are read", JSON, repeated("{\"items\":[", record, 249_999, "{\"id\":1,\"at\":5}]}")),
        ("one record of 16 MB", JSON, repeated("{\"items\":[{\"id\":1,\"at\":5,\"t\":\"", "x", 16_000_000, "\"}]}")),
        ("five million numbers", JSON, repeated("{\"items\":[1", ",1", 5_000_000, "]}")),
        (
            "500,000 links in a feed",
            FEED,
            repeated(&format!("{item}<![CDATA["), "<a href=x>", 500_000, &format!("]]>{end}")),
        ),
        ("250,000 escaped links", FEED, repeated(item, "&lt;a href=x&gt;", 250_000, end)),
        (
            "links to a long base",
            FEED,
            repeated(
                &format!("<rss xml:base='http://x.test/{long}/'><channel><title>t</title>"),
                "<item><link>x</link></item>",
                40_000,
                "</channel></rss>",
            ),
        ),
        (
            "a base of 100 KB",
            FEED,
            repeated(
                &format!("<rss xml:base='http://x.test/{}/'><channel><title>t</title>", "x".repeat(100_000)),
                "<item><link>x</link></item>",
                4_000,
                "</channel></rss>",
            ),
        ),
        (
            "250,000 elements",
            FEED,
            repeated("<rss><channel><title>t</title><item>", "<a>x</a>", 249_000, "</item></channel></rss>"),
        ),
        ("a million elements", FEED, repeated("<rss><channel>", "<a/>", 1_000_000, "</channel></rss>")),
        (
            "50,000 entries",
            FEED,
            repeated("<rss><channel><title>t</title>", "<item><title>x</title></item>", 50_000, "</channel></rss>"),
        ),
        ("ampersands", FEED, repeated(&format!("{item}<![CDATA[<b>"), "&", 4_900_000, &format!("]]>{end}"))),
        (
            "a JSON feed of many objects",
            FEED,
            repeated(
                "{\"version\":\"https://jsonfeed.org/version/1\",\"title\":\"t\",\"items\":[{\"a\":[{}",
                ",{\"a\":1}",
                500_000,
                "]}]}",
            ),
        ),
        (
            "a JSON feed of many members",
            FEED,
            repeated(
                "{\"version\":\"https://jsonfeed.org/version/1\",\"title\":\"t\",\"items\":[]",
                ",\"a\":1",
                800_000,
                "}",
            ),
        ),
        (
            "nested categories",
            FEED,
            repeated(
                "<rss><channel><title>t</title><item>",
                "<itunes:category>y",
                200,
                &format!("{}</item></channel></rss>", "x".repeat(2_000_000)),
            ),
        ),
        ("a million elements of a page", PAGE, repeated("<html><body>", "<p>x", 1_000_000, "")),
        ("120,000 elements of a page", PAGE, repeated("<html><body>", "<p>x", 120_000, "")),
        ("many attributes", PAGE, repeated("<html><body>", &format!("<p{attributes}>"), 4_000, "")),
        ("rows inside of rows", ROWS, repeated("<html><body>", "<div>", 400, &"word ".repeat(400_000))),
        ("seven million columns", CSV, repeated("", ",", 7_000_000, "")),
        ("one row of seven million fields", CSV, repeated("id,at\n", ",", 7_000_000, "\n")),
        ("a long header", CSV, repeated(&format!("id,at,{}\n", "y".repeat(10_000)), "1,5,\n", 10_000, "")),
        ("seven million rows", CSV, repeated("id,at\n", "1,\n", 5_000_000, "")),
        ("one field of 16 MB", CSV, repeated("id,at\n\"", "\"\"", 8_000_000, "\",1\n")),
        ("control characters in a table", LENIENT, repeated("id,at\n", "\u{1}", 16_000_000, ",1\n")),
        ("a million elements of XML", XML, repeated("<r>", "<i id='1'/>", 900_000, "</r>")),
        ("one text of XML", XML, repeated("<r><i><id>1</id><at>5</at><t>", "\u{2}", 15_000_000, "</t></i></r>")),
        ("a tweet of many objects", TWEETS, repeated("{\"tweets\":[{\"a\":[{}", ",{\"a\":1}", 1_000_000, "]}]}")),
        ("31,000 tweets", TWEETS, repeated("{\"tweets\":[{\"id\":\"1\"}", ",{\"id\":\"1\"}", 28_000, "]}")),
        ("500,000 numbers for tweets", TWEETS, repeated("{\"tweets\":[1", ",1", 499_000, "]}")),
    ]
}

#[test]
fn hostile_body_takes_no_more_memory_than_was_estimated() {
    for (name, endpoint, body) in bodies() {
        let pager = pager(endpoint);
        let window = Window { from: Ts::from_secs(0), to: Ts::from_secs(4_000_000_000) };
        let (position, params) = (Position::Time, Params::new());
        let ask = PageRequest { position: &position, window, page_size: 20, params: &params, now: Ts::from_secs(9) };
        let exchange = pager.request(&ask).map_err(|failure| failure.fault).unwrap();
        let length = body.len();
        let response = HttpResponse { status: 200, headers: Vec::new(), body: Bytes::from(body), redirected: None };
        let estimate = pager.decoding_cost(&exchange, &response);
        MEMORY.reset_peak_usage();
        let before = MEMORY.current_usage();
        let read = pager.read(exchange, Ok(response), Duration::ZERO, Ts::from_secs(9));
        let peak = MEMORY.peak_usage().saturating_sub(before);
        let outcome = match &read {
            Ok(page) => format!("{} records, {} bytes held", page.records.len(), page.memory_bytes()),
            Err(failure) => failure.fault.to_string(),
        };
        println!("{name}: {length} bytes, estimate {estimate}, peak {peak}: {outcome}");
        // While a buffer grows, the old and the new one are counted. The system moves the pages of a large one instead.
        let most = 2 * estimate.min(BUDGET) + MARGIN;
        assert!(peak <= most, "{name}: {peak} bytes, {estimate} were estimated");
        if let Ok(page) = &read {
            let after = MEMORY.current_usage().saturating_sub(before);
            assert!(after <= 2 * page.memory_bytes() + length + (4 << 20), "{name} holds {after} bytes");
        }
    }
}
