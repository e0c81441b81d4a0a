//! Time of one page without the network: to render its request (target: 20 µs), and to read a thousand records of a
//! kilobyte from its response (target: 3 ms).

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::time::Duration;

use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use patra_connectors::{PageRequest, Pager};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::transport::HttpResponse;
use patra_core::{Ts, Window};
use patra_spec::Operation;

const RECORDS: usize = 1_000;
const RECORD_BYTES: usize = 1_024;

const MANIFEST: &str = r#"
provenance: bench
endpoints:
  works:
    http: { base_url: "https://api.example.org/v1", path: /works, headers: { Accept: application/json } }
    query:
      filter: "from:${ window.from | date },until:${ window.to | date }"
      rows: "${ page.size }"
      cursor: "${ page.token }"
    pagination: { type: token, next_token_path: "$.message['next-cursor']", page_size: 1000 }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    response:
      items_path: $.message.items
      id_path: $.DOI
      updated_at_path: $.deposited['date-time']
      total_path: $.message['total-results']
    fields:
      doi: $.DOI
      title: $.title[0]
      year: { path: $.issued.year, type: integer }
      created: { path: $.created, type: timestamp }
"#;

fn pager() -> Pager {
    let manifest = patra_spec::read("bench.yaml", MANIFEST).unwrap_or_else(|problems| panic!("{problems}"));
    Pager::new(&patra_spec::compile(&manifest, "works", Operation::Harvest).unwrap().snapshot).unwrap()
}

fn body() -> Bytes {
    let record = |n: usize| {
        let head = format!(
            r#"{{"DOI":"10.1000/{n}","title":["A title, number {n}"],"issued":{{"year":{}}},"created":"2024-05-01T08:00:00Z","deposited":{{"date-time":"2024-05-0{}T12:00:00Z"}},"authors":[{{"given":"A","family":"B"}},{{"given":"C","family":"D"}}],"abstract":""#,
            1990 + n % 30,
            1 + n % 9,
        );
        let rest = RECORD_BYTES.saturating_sub(head.len() + 2);
        format!("{head}{}\"}}", "Lorem ipsum dolor sit amet. ".repeat(40).chars().take(rest).collect::<String>())
    };
    let items: Vec<_> = (0..RECORDS).map(record).collect();
    let body = format!(r#"{{"message":{{"total-results":100000,"next-cursor":"abc","items":[{}]}}}}"#, items.join(","));
    Bytes::from(body)
}

fn page(c: &mut Criterion) {
    let (pager, params) = (pager(), Params::new());
    let position = Position::Token(Some("AoJ/abc==".into()));
    let window = Window { from: Ts::from_secs(1_700_000_000), to: Ts::from_secs(1_700_086_400) };
    let now = Ts::from_secs(1_700_100_000);
    let request = PageRequest { position: &position, window, page_size: 1_000, params: &params, now };
    c.bench_function("render a request", |b| b.iter(|| pager.request(black_box(&request)).unwrap()));

    let response = HttpResponse { status: 200, headers: Vec::new(), body: body(), redirected: None };
    let read = pager.read(pager.request(&request).unwrap(), Ok(response.clone()), Duration::ZERO, now).unwrap();
    assert_eq!((read.facts.items as usize, read.rejected.len()), (RECORDS, 0));
    let mut group = c.benchmark_group("read a page");
    group.throughput(Throughput::Bytes(response.body.len() as u64));
    group.bench_function("1000 records of 1 KB", |b| {
        let given = || (pager.request(&request).unwrap(), response.clone());
        b.iter_batched(
            given,
            |(exchange, response)| pager.read(exchange, Ok(response), Duration::ZERO, now),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(benches, page);
criterion_main!(benches);
