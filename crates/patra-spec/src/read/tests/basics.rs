//! Keys, types, keywords, requests, paging and windows.

use super::*;

#[test]
fn valid_manifests_have_no_problem() {
    check_whole(BASE, "");
    check_whole(include_str!("../../../../../sources/demo.yaml"), "");
    check_whole(include_str!("../../../../../sources/crossref.yaml"), "");
    let architecture = r#"
provenance: crossref
name: Crossref
defaults:
  rate_limit: { refill_rate_per_sec: 10, burst: 10 }
endpoints:
  works:
    role: search
    http: { base_url: "https://api.crossref.org", path: /works }
    query:
      filter: "from-update-date:${ window.from | date },until-update-date:${ window.to | date }"
      rows: "${ page.size }"
      cursor: "${ page.token }"
    pagination: { type: token, initial: "*", next_token_path: "$.message['next-cursor']", page_size: 100 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT10M, max_window: P1D, align: hour }
    response: { items_path: "$.message.items", id_path: "$.DOI", updated_at_path: "$.deposited['date-time']", total_path: "$.message['total-results']" }
    kind: work
    fields: { title: "$.title[0]", doi: "$.DOI" }
tests:
  - name: second page follows the cursor
    recorded: fixtures/crossref/works-page1.json
    expect: { items: 20, next: { token: "AoJ…" } }
"#;
    check_whole(architecture, "");
    let manifest = read("t.yaml", architecture).unwrap();
    assert_eq!(manifest.tests[0]["expect"]["items"], 20);
    assert_eq!(manifest.defaults.rate_limit.burst, Some(10));
}

// covers: ING-0.1-02
#[test]
fn keys_and_types() {
    check(
        "provenance: test",
        "provnance: test",
        "t.yaml:1:1: provnance: unknown key `provnance`\n  hint: did you mean `provenance`?",
    );
    check("provenance: test\n", "", "t.yaml:1:1: provenance: `provenance` is missing");
    check(
        "path: /list",
        "pth: /list",
        "t.yaml:4:40: endpoints.list.http.pth: unknown key `pth`\n  hint: did you mean `path`?",
    );
    check(
        "path: /list",
        "colour: red",
        "t.yaml:4:40: endpoints.list.http.colour: unknown key `colour`\n  hint: expected one of: base_url, url_param, path, method, headers, connect_timeout, read_timeout, timeout, max_body_bytes, max_redirects, compression, proxy, allow_net, robots",
    );
    check(
        "page_size: 100",
        "page_size: many",
        "t.yaml:8:68: endpoints.list.pagination.page_size: expected a whole number, not negative, found the text \"many\"",
    );
    check(
        "page_size: 100",
        "page_size: -1",
        "t.yaml:8:68: endpoints.list.pagination.page_size: expected a whole number, not negative, found the number -1",
    );
    check(
        "page_size: 100",
        "page_size: '100'",
        "t.yaml:8:68: endpoints.list.pagination.page_size: expected a whole number, not negative, found the text \"100\"",
    );
    check(
        "updated_since: true",
        "updated_since: yes",
        "t.yaml:9:39: endpoints.list.window.supports_updated_since: expected true or false, found the text \"yes\"",
    );
    check("path: /list", "path: [a]", "t.yaml:4:46: endpoints.list.http.path: expected a text, found a list");
    check(
        "{ items_path: $.items, id_path: $.id, updated_at_path: $.at }",
        "nothing",
        "t.yaml:10:15: endpoints.list.response: expected a section with keys, found the text \"nothing\"",
    );
    check(
        "      from: ",
        "      x: { y: 1 }\n      from: ",
        "t.yaml:7:7: endpoints.list.query.x.expr: `expr` is missing\nt.yaml:7:12: endpoints.list.query.x.y: unknown key `y`\n  hint: expected one of: expr, default, required, pattern",
    );
    check_whole("", "t.yaml:1:1: expected a section with keys, found nothing");
    check_whole("- a", "t.yaml:1:1: expected a section with keys, found a list");
    check_whole("provenance: x\nendpoints: {}", "t.yaml:2:1: endpoints: there is no endpoint");
    check_whole(
        "provenance: 'a b'\nendpoints: { x y: {} }\ntests: 1",
        "t.yaml:1:13: provenance: \"a b\" cannot be used as a name\n  hint: letters, digits, `_` and `-`, at most 64\nt.yaml:2:14: endpoints.x y: \"x y\" cannot be used as a name\n  hint: letters, digits, `_` and `-`, at most 64\nt.yaml:2:14: endpoints.x y.http.base_url: `base_url` is missing\n  hint: for example base_url: https://api.example.org\nt.yaml:2:14: endpoints.x y.response.items_path: `items_path` is missing\n  hint: for example items_path: $.items\nt.yaml:2:14: endpoints.x y.response.id_path: `id_path` is missing\n  hint: for example id_path: $.id\nt.yaml:3:8: tests: expected a list of tests, found the number 1",
    );
}

// covers: ING-3.3-06, ING-4.17-07
#[test]
fn unknown_keywords_are_rejected() {
    check(
        "type: token",
        "type: tokn",
        "t.yaml:8:25: endpoints.list.pagination.type: `tokn` is not one of token, offset, page, url, time\n  hint: did you mean `token`?",
    );
    check("type: token", "type: TOKEN", "");
    check(
        "align: hour",
        "align: week",
        "t.yaml:9:96: endpoints.list.window.align: `week` is not one of min, hour, day, minute",
    );
    check("align: hour", "align: minute", "");
    check(
        "path: /list",
        "path: /list, method: put",
        "t.yaml:4:61: endpoints.list.http.method: `put` is not one of get, post",
    );
    check(
        "    query:",
        "    role: serch\n    query:",
        "t.yaml:5:11: endpoints.list.role: `serch` is not one of search, detail, metrics\n  hint: did you mean `search`?",
    );
    check(
        "    query:",
        "    kind: 7\n    query:",
        "t.yaml:5:11: endpoints.list.kind: expected one of document, work, note, tweet, article, found the number 7",
    );
    check(
        "$.at }",
        "$.at, format: yml }",
        "t.yaml:10:84: endpoints.list.response.format: `yml` is not one of json, xml, csv, feed, page, html, tweets\n  hint: did you mean `xml`?",
    );
}

// covers: ING-4.2-07, ING-3.3-08
#[test]
fn template_and_path_errors_have_columns() {
    check(
        "window.from | date",
        "window.from | dat",
        "t.yaml:7:31: endpoints.list.query.from: there is no filter `dat`\n  hint: did you mean `date`?",
    );
    check(
        "${ page.token }",
        "x ${ page.tokn }",
        "t.yaml:6:21: endpoints.list.query.cursor: there is no variable `page.tokn`\n  hint: did you mean `page.token`?",
    );
    check(
        "${ window.from | date }",
        "${ window.from | date }${ page.no | date }",
        "t.yaml:7:13: endpoints.list.query.from: the template does not render: a time is needed here, not a number",
    );
    check(
        "items_path: $.items",
        "items_path: items",
        "t.yaml:10:29: endpoints.list.response.items_path: a path begins with `$`\n  hint: write `$.items`",
    );
    check(
        "next_token_path: $.next",
        "next_token_path: $.next-cursor",
        "t.yaml:8:51: endpoints.list.pagination.next_token_path: a dotted name has letters, digits and `_` only\n  hint: write `['next-cursor']`",
    );
    check(
        "    query:",
        "    fields: { a: '$..b' }\n    query:",
        "t.yaml:5:20: endpoints.list.fields.a: `..` is not supported: only plain paths are\n  hint: a plain path selects one value, as in `$.message['next-cursor']` or `$.title[0]`",
    );
}

// covers: ING-4.2-06, ING-4.2-08, ING-4.17-09
#[test]
fn requests() {
    check(
        "https://x.org",
        "http://x.org",
        "t.yaml:4:23: endpoints.list.http.base_url: plain HTTP is not allowed\n  hint: use https, or set `allow_http: true`",
    );
    check_whole(
        &BASE.replace("https://x.org", "http://x.org").replace("endpoints:", "allow_http: true\nendpoints:"),
        "",
    );
    check(
        "https://x.org",
        "x.org",
        "t.yaml:4:23: endpoints.list.http.base_url: \"x.org\" is not a valid URL: relative URL without a base\n  hint: for example https://api.example.org",
    );
    check(
        "https://x.org",
        "ftp://x.org",
        "t.yaml:4:23: endpoints.list.http.base_url: `ftp` is not supported, expected https",
    );
    check(
        "https://x.org",
        "https://me:pw@x.org/?k=1",
        "t.yaml:4:23: endpoints.list.http.base_url: credentials do not belong in a manifest\nt.yaml:4:23: endpoints.list.http.base_url: a base URL must not contain a query\n  hint: put parameters under `query`",
    );
    check(
        "base_url: \"https://x.org\", ",
        "",
        "t.yaml:4:5: endpoints.list.http.base_url: `base_url` is missing\n  hint: for example base_url: https://api.example.org",
    );
    check(
        "path: /list",
        "path: list?x=1",
        "t.yaml:4:46: endpoints.list.http.path: a path begins with `/`\n  hint: write /list?x=1\nt.yaml:4:46: endpoints.list.http.path: a path must not contain a query\n  hint: put parameters under `query`",
    );
    check(
        "path: /list",
        "read_timeout: PT3M",
        "t.yaml:4:54: endpoints.list.http.read_timeout: PT3M is out of range: expected more than PT0S and at most PT2M",
    );
    check(
        "path: /list",
        "timeout: 30s",
        "t.yaml:4:49: endpoints.list.http.timeout: \"30s\" is not an ISO-8601 duration\n  hint: durations are ISO-8601: PT30S, PT10M, PT1H, P1D",
    );
    check(
        "path: /list",
        "timeout: 30",
        "t.yaml:4:49: endpoints.list.http.timeout: expected an ISO-8601 duration such as PT10M, found the number 30",
    );
    check(
        "path: /list",
        "headers: { authorization: x }",
        "t.yaml:4:66: endpoints.list.http.headers.authorization: credentials do not belong in a manifest\n  hint: use `auth` to reference the credential; its value is in the vault",
    );
    check(
        "path: /list",
        "headers: { transfer-Encoding: chunked, te: trailers }",
        "t.yaml:4:70: endpoints.list.http.headers.transfer-Encoding: \"transfer-Encoding\" is set by the HTTP client\n  hint: remove it; the URL and the body determine its value\nt.yaml:4:83: endpoints.list.http.headers.te: \"te\" is set by the HTTP client\n  hint: remove it; the URL and the body determine its value",
    );
    check(
        "path: /list",
        "headers: { 'a b': \"x\\ny\" }",
        "t.yaml:4:58: endpoints.list.http.headers.a b: \"a b\" is not a valid header name\nt.yaml:4:58: endpoints.list.http.headers.a b: a header must not contain line breaks or other control characters",
    );
    check(
        "    query:",
        "    body: x\n    query:",
        "t.yaml:5:11: endpoints.list.body: a GET request has no body\n  hint: set http.method to post, or remove `body`",
    );
    check(
        "path: /list",
        "max_body_bytes: 0",
        "t.yaml:4:56: endpoints.list.http.max_body_bytes: expected 1 to 268435456 bytes",
    );
}

// covers: ING-4.3-07, ING-4.3-08, ING-4.3-09, ING-4.3-15, ING-4.17-02
#[test]
fn paging() {
    let paging = "{ type: token, next_token_path: $.next, page_size: 100 }";
    check(
        paging,
        "{ type: token }",
        "t.yaml:8:5: endpoints.list.pagination.next_token_path: token paging needs `next_token_path`\n  hint: for example next_token_path: $.next",
    );
    check(
        paging,
        "{ type: url }",
        "t.yaml:8:5: endpoints.list.pagination.next_url_path: url paging needs `next_url_path`\n  hint: for example next_url_path: $.links.next",
    );
    check(
        paging,
        "{ page_size: 0, max_page: 0 }",
        "t.yaml:8:5: endpoints.list.pagination.type: `type` is missing\n  hint: one of token, offset, page, url, time\nt.yaml:8:30: endpoints.list.pagination.page_size: expected 1 to 10000 items\nt.yaml:8:43: endpoints.list.pagination.max_page: expected at least 1\n  hint: remove it for no limit",
    );
    check_whole(
        &BASE.replace(paging, "{ type: page }").replace("page.token", "page.no"),
        "t.yaml:8:5: endpoints.list.pagination.page_size: page paging needs `page_size`\n  hint: for example page_size: 100\nt.yaml:8:5: endpoints.list.pagination.base: page paging needs `base`\n  hint: for example base: 1 when the first page is number 1, base: 0 when it is 0",
    );
    check_whole(
        &BASE
            .replace(paging, "{ type: page, page_size: 9, base: 2, next_token_path: $.n }")
            .replace("page.token", "page.no"),
        "t.yaml:8:51: endpoints.list.pagination.base: expected 0 or 1\nt.yaml:8:71: endpoints.list.pagination.next_token_path: `next_token_path` has no meaning with page paging\n  hint: remove it, or change `type`",
    );
    check(
        paging,
        "{ type: offset, page_size: 9 }",
        "t.yaml:5:5: endpoints.list.query: no template sends `page.offset`, so every request would read the same page\n  hint: add a parameter such as offset: \"${ page.offset }\"",
    );
    check("page_size: 100 }", "has_more_path: $.a }\n    fields: {}", "");
    check_whole(
        &BASE.replace("page_size: 100", "has_more_path: $.a").replace("$.at", "$.at, has_more_path: $.b"),
        "t.yaml:8:72: endpoints.list.pagination.has_more_path: \"$.a\" here, but \"$.b\" in response.has_more_path: set it once",
    );
}

// covers: ING-4.3-10, ING-4.4-14, ING-4.4-15, ING-4.17-03
#[test]
fn windows() {
    check(
        "max_window: P1D",
        "max_window: PT30M",
        "t.yaml:9:98: endpoints.list.window.align: windows of PT30M cannot be aligned to a wider unit\n  hint: choose a smaller unit, or a wider max_window",
    );
    check(
        "align: hour",
        "min_window: P2D",
        "t.yaml:9:101: endpoints.list.window.min_window: min_window P2D is wider than max_window P1D",
    );
    check(
        "align: hour",
        "safety_lag: -PT5M",
        "t.yaml:9:101: endpoints.list.window.safety_lag: \"-PT5M\" is negative\n  hint: durations are ISO-8601: PT30S, PT10M, PT1H, P1D",
    );
    check(
        "align: hour",
        "lookback: P1M",
        "t.yaml:9:99: endpoints.list.window.lookback: \"P1M\" counts months or years, whose length varies\n  hint: durations are ISO-8601: PT30S, PT10M, PT1H, P1D",
    );
    check(
        "align: hour",
        "initial: yesterday",
        "t.yaml:9:98: endpoints.list.window.initial: `yesterday` is not a time: expected RFC 3339, as in 2026-01-31T08:00:00Z, or a date",
    );
    check(
        "${ window.from | date }",
        "x",
        "t.yaml:9:39: endpoints.list.window.supports_updated_since: `supports_updated_since` is true, but no template sends `window.from` or `window.to`\n  hint: add a parameter such as from: \"${ window.from | iso }\"",
    );
    check(
        "updated_since: true",
        "updated_since: false",
        "t.yaml:9:39: endpoints.list.window.supports_updated_since: a template sends the window, but `supports_updated_since` is not true",
    );
    check_whole(
        &BASE
            .replace("{ type: token, next_token_path: $.next, page_size: 100 }", "{ type: time }")
            .replace("updated_since: true", "updated_since: false")
            .replace("window.from", "page.token"),
        "t.yaml:7:13: endpoints.list.query.from: the template does not render: `sample` is not a time: expected RFC 3339, as in 2026-01-31T08:00:00Z, or a date\nt.yaml:9:39: endpoints.list.window.supports_updated_since: time paging needs `supports_updated_since: true`: only the window selects records",
    );
}

#[test]
fn names_are_compared_without_case() {
    let twice = format!("{BASE}  LIST: {{}}\n");
    let problems = read("t.yaml", &twice).unwrap_err();
    assert!(
        problems.to_string().contains("t.yaml:11:3: endpoints.list: the endpoint `list` is defined twice"),
        "{problems}"
    );
    let manifest = read("t.yaml", &BASE.replace("provenance: test", "provenance: ' TeSt '")).unwrap();
    assert_eq!(manifest.provenance, "test");
}

#[test]
fn limits_and_schedules() {
    check(
        "    query:",
        "    rate_limit: { refill_rate_per_sec: 0, burst: 0 }\n    retry: { max_attempts: 0, min_delay: PT2S, max_delay: PT1S }\n    schedule: { every: PT0S }\n    query:",
        "t.yaml:5:40: endpoints.list.rate_limit.refill_rate_per_sec: expected more than 0 and at most 10000 requests per second\nt.yaml:5:50: endpoints.list.rate_limit.burst: expected at least 1\nt.yaml:6:28: endpoints.list.retry.max_attempts: expected 1 to 20 attempts\nt.yaml:6:42: endpoints.list.retry.min_delay: min_delay PT2S is longer than max_delay PT1S\nt.yaml:7:24: endpoints.list.schedule.every: a schedule needs at least one second",
    );
}

/// Reading any input gives a manifest or problems.
#[test]
fn truncated_and_mangled_manifests_never_panic() {
    for end in 0..BASE.len() {
        let _ = read("t.yaml", &BASE[..end]);
        let _ = read("t.yaml", &format!("{}{}", &BASE[..end], &BASE[(end + 7).min(BASE.len())..]));
        let _ = read("t.yaml", &format!("{}é*&${{{}", &BASE[..end], &BASE[end..]));
    }
}

#[test]
fn nul_characters_are_rejected_at_their_position() {
    let problems = read("t.yaml", "provenance: a\nname: \"x\\0y\"\nendpoints: {}\n").unwrap_err().to_string();
    assert!(problems.contains("t.yaml:2:") && problems.contains("NUL"), "{problems}");
}
