//! Reading in two phases.

use super::*;

const TWO: &str = "\
provenance: test
endpoints:
  search:
    http: { base_url: \"https://x.org\", path: /search }
    query: { from: \"${ window.from | date }\" }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    two_phase: { detail: work, version_path: $.rev, missing: ignore }
    batching: { id_batch_size: 50 }
    response: { items_path: $.ids, id_path: $ }
  work:
    role: detail
    http: { base_url: \"https://x.org\", path: /works }
    query: { id: \"${ ids | join(',') }\" }
    response: { items_path: $.works, id_path: $.id, updated_at_path: $.at }
";

fn check_two(from: &str, to: &str, expected: &str) {
    assert!(TWO.contains(from), "{from}");
    check_whole(&TWO.replacen(from, to, 1), expected);
}

// covers: ING-3.3-11, ING-4.6-02, ING-4.17-04
#[test]
fn both_phases_must_exist_and_fit() {
    check_whole(TWO, "");
    check_two(
        "detail: work, ",
        "",
        "t.yaml:7:5: endpoints.search.two_phase.detail: `detail` is missing\n  hint: the endpoint that returns the records, for example detail: work",
    );
    check_two(
        "detail: work",
        "detail: works",
        "t.yaml:7:26: endpoints.search.two_phase.detail: there is no endpoint `works`\n  hint: did you mean `work`?",
    );
    check_two(
        "    role: detail\n    http: { base_url: \"https://x.org\", path: /works }\n    query: { id: \"${ ids | join(',') }\" }\n",
        "    http: { base_url: \"https://x.org\", path: /works }\n",
        "t.yaml:7:26: endpoints.search.two_phase.detail: `work` is not a detail endpoint\n  hint: give `work` a `role: detail`",
    );
    check_two(
        "    query: { id: \"${ ids | join(',') }\" }\n",
        "",
        "t.yaml:10:3: endpoints.work.query: no template sends `ids` or `id`, so every request would fetch the same records\n  hint: add a parameter such as id: \"${ ids | join(',') }\", or a path such as /works/${ id }",
    );
    check_two(
        "{ id: \"${ ids",
        "{ one: \"${ id }\", id: \"${ ids",
        "t.yaml:8:32: endpoints.search.batching.id_batch_size: `work` fetches one `id` per request\n  hint: remove id_batch_size, or send `${ ids | join(',') }` there\nt.yaml:13:5: endpoints.work.query: `ids` fetches several records and `id` one\n  hint: keep one of them",
    );
    check_two(
        "version_path: $.rev",
        "version_path: rev",
        "t.yaml:7:46: endpoints.search.two_phase.version_path: a path begins with `$`\n  hint: write `$.rev`",
    );
    check_two(
        "missing: ignore",
        "missing: skip",
        "t.yaml:7:62: endpoints.search.two_phase.missing: `skip` is not one of bad, ignore",
    );
}

#[test]
fn detail_endpoint_rejects_keys_of_a_search() {
    let remove = "\n  hint: remove it, or remove `endpoints.search.two_phase`";
    check_two(
        "    role: detail\n",
        "    role: detail\n    pagination: { type: time }\n    params: { p: {} }\n    partitions: [{ param: p, values: [\"a\"] }]\n    two_phase: { detail: work }\n",
        &format!(
            "t.yaml:10:3: endpoints.work.window.supports_updated_since: time paging needs `supports_updated_since: true`: only the window selects records\nt.yaml:12:5: endpoints.work.pagination: `work` fetches records by id and cannot have its own `pagination`{remove}\nt.yaml:14:5: endpoints.work.partitions: `work` fetches records by id and cannot have its own `partitions`{remove}\nt.yaml:14:27: endpoints.work.partitions[0].param: no template sends `params.p`, so every partition would read the same records\nt.yaml:15:5: endpoints.work.two_phase: `work` fetches records by id and cannot have its own `two_phase`{remove}\nt.yaml:15:5: endpoints.work.two_phase: a detail endpoint cannot have a detail endpoint\n  hint: `two_phase` belongs to a search endpoint"
        ),
    );
    let only = "exists in detail endpoints only\n  hint: give the endpoint `role: detail`, and name it in `two_phase.detail` of a search";
    check_two(
        "from: \"${ window",
        "a: \"${ ids | join }\", b: \"${ id }\", from: \"${ window",
        &format!(
            "t.yaml:5:21: endpoints.search.query.a: `ids` {only}\nt.yaml:5:43: endpoints.search.query.b: `id` {only}"
        ),
    );
}

// covers: ING-3.3-10, ING-3.2-09
#[test]
fn batches_are_bounded() {
    for (batching, expected) in [
        ("{ id_batch_size: 0 }", "t.yaml:8:32: endpoints.search.batching.id_batch_size: expected 1 to 10000 ids"),
        ("{ id_batch_size: 10001 }", "t.yaml:8:32: endpoints.search.batching.id_batch_size: expected 1 to 10000 ids"),
        (
            "{ max_records_per_request: 0, combine_threshold: 0 }",
            "t.yaml:8:42: endpoints.search.batching.max_records_per_request: expected at least 1\nt.yaml:8:42: endpoints.search.batching.max_records_per_request: batching.id_batch_size 200 is more than the 0 records that one request may fetch\nt.yaml:8:64: endpoints.search.batching.combine_threshold: expected at least 1",
        ),
        (
            "{ id_batch_size: 60, max_records_per_request: 50 }",
            "t.yaml:8:61: endpoints.search.batching.max_records_per_request: batching.id_batch_size 60 is more than the 50 records that one request may fetch",
        ),
        (
            "{ id_batch_size: 60, combine_threshold: 61 }",
            "t.yaml:8:55: endpoints.search.batching.combine_threshold: a batch has at most 60 ids and would never be combined\n  hint: lower it, or raise id_batch_size",
        ),
        ("{ id_batch_size: 10000, max_records_per_request: 10000, combine_threshold: 10000 }", ""),
    ] {
        check_two("{ id_batch_size: 50 }", batching, expected);
    }
    check(
        "    query:",
        "    batching: { max_records_per_request: 99 }\n    query:",
        "t.yaml:5:42: endpoints.list.batching.max_records_per_request: pagination.page_size 100 is more than the 99 records that one request may fetch",
    );
}
