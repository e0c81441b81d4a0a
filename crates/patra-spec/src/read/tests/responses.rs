//! The keys about responses, records and bodies: valid ones, and the problems of invalid ones.

use super::{BASE, check, check_whole, read};

/// `BASE` with its response section replaced.
fn response(section: &str, expected: &str) {
    check("{ items_path: $.items, id_path: $.id, updated_at_path: $.at }", section, expected);
}

/// `BASE` with more in its response section, and its paging without a path.
fn add(keys: &str, expected: &str) {
    check("updated_at_path: $.at }", &format!("updated_at_path: $.at, {keys} }}"), expected);
}

/// `BASE` with a section before `query`, which is on line 5.
fn section(text: &str, expected: &str) {
    check("    query:", &format!("    {text}\n    query:"), expected);
}

#[test]
fn valid_responses_have_no_problem() {
    add("lenient: true, errors: [{ path: $.e }, { path: $.c, not_equals: 0, level: l1, code: rate_limited }]", "");
    response("{ items_path: $.items, id_path: [$.a, \"$['b']\"], id_separator: '|', updated_at_path: $.at }", "");
    add("updated_at_format: \"%Y/%m/%d %H:%M\"", "");
    add("total_header: X-Total, has_more_header: X-More", "");
    response("{ format: xml, items_path: $.feed.entry, id_path: $.id, xml: { lists: [a], texts: ['b:c'] } }", "");
    section("fields: { a: $.a, b: { path: $.b, type: timestamp, format: epoch_ms, required: true } }", "");
    section(
        "record: { filter: [{ path: $.a, in: [1, x] }, { path: $.b, exists: false }], add: { n: 1, t: [a] }, remove: [$.x] }",
        "",
    );
}

// covers: ING-4.7-01, ING-4.7-02
#[test]
fn response_paths_formats_and_keywords() {
    let at = "t.yaml:10:";
    response(
        "{ items_path: $.items, id_path: [], updated_at_path: $.at }",
        &format!("{at}38: endpoints.list.response.id_path: the list is empty"),
    );
    response(
        "{ items_path: $.items, id_path: [$.a, b], updated_at_path: $.at }",
        &format!("{at}53: endpoints.list.response.id_path[1]: a path begins with `$`\n  hint: write `$.b`"),
    );
    add(
        "id_separator: ':'",
        &format!(
            "{at}90: endpoints.list.response.id_separator: `id_separator` has no meaning without several paths in `id_path`"
        ),
    );
    add(
        "updated_at_format: epoc",
        &format!(
            "{at}95: endpoints.list.response.updated_at_format: \"epoc\" is not a time format\n  hint: did you mean `epoch`?"
        ),
    );
    add(
        "total_header: 'a b'",
        &format!("{at}90: endpoints.list.response.total_header: \"a b\" is not a valid header name"),
    );
    add(
        "total_path: $.n, total_header: N",
        &format!(
            "{at}107: endpoints.list.response.total_header: `total_path` and `total_header` locate the same value\n  hint: keep one of them"
        ),
    );
    add(
        "csv: { columns: [a] }",
        &format!(
            "{at}76: endpoints.list.response.csv: `csv` has no meaning with json responses\n  hint: remove it, or set `format: csv`"
        ),
    );
    response(
        "{ format: xml, items_path: \"$.a[0]\", id_path: $.id }",
        &format!(
            "{at}42: endpoints.list.response.items_path: for XML, `items_path` must be element names from the root\n  hint: for example items_path: $.feed.entry"
        ),
    );
}

#[test]
fn tables() {
    check_whole(
        "provenance: t\nendpoints:\n  rows:\n    http: { base_url: \"https://x.org\" }\n    response: { format: csv, id_path: $.id, csv: { delimiter: ';', quote: none, columns: [id, at] } }\n",
        "",
    );
    check_whole(
        "provenance: t\nendpoints:\n  rows:\n    http: { base_url: \"https://x.org\" }\n    response:\n      format: csv\n      items_path: $.rows\n      id_path: $.id\n      total_path: $.n\n      csv: { delimiter: ';;', quote: '', header: false, columns: [] }\n",
        "t.yaml:7:19: endpoints.rows.response.items_path: the rows of a CSV response are `$`\n  hint: remove `items_path`\nt.yaml:9:19: endpoints.rows.response.total_path: a CSV response contains only rows\n  hint: use a header instead\nt.yaml:10:25: endpoints.rows.response.csv.delimiter: expected one ASCII character, or `tab`\n  hint: for example \";\"\nt.yaml:10:38: endpoints.rows.response.csv.quote: expected one ASCII character, or `none`\nt.yaml:10:57: endpoints.rows.response.csv.columns: without a header, `columns` must name the fields\n  hint: for example columns: [id, title]",
    );
}

// covers: ING-15-03
#[test]
fn error_rules_of_responses() {
    let at = "t.yaml:10:";
    let list = "endpoints.list.response.errors";
    add("errors: { path: $.e }", &format!("{at}84: {list}: expected a list, found a section"));
    add(
        "errors: [{ equals: 1 }]",
        &format!("{at}85: {list}[0].path: `path` is missing\n  hint: for example path: $.error"),
    );
    add(
        "errors: [{ path: $.e, level: L3 }]",
        &format!("{at}105: {list}[0].level: `l3` is not one of l1, l2, l4\n  hint: did you mean `l1`?"),
    );
    add(
        "errors: [{ path: $.e, when: present }]",
        &format!(
            "{at}98: {list}[0].when: unknown key `when`\n  hint: expected one of: path, exists, equals, not_equals, in, matches, status, level, code, message_path, throttle"
        ),
    );
    add(
        "errors: [{ path: $.e, matches: '(' }]",
        &format!("{at}108: {list}[0].matches: the pattern cannot be used: unclosed group"),
    );
    add(
        "errors: [{ path: $.e, throttle: true, level: L4 }]",
        &format!("{at}121: {list}[0].level: a throttling error has level L1 transient\n  hint: remove `level`"),
    );
    add(
        "errors: [{ path: $.e, exists: false, equals: 1 }]",
        &format!("{at}106: {list}[0].exists: an absent value cannot be compared"),
    );
}

#[test]
fn error_rules_may_match_statuses() {
    let (at, list) = ("t.yaml:10:", "endpoints.list.response.errors");
    add("errors: [{ status: [402], code: quota_exhausted, level: L4 }, { status: [403], path: $.e, equals: x }]", "");
    add(
        "errors: [{ status: [200, 401, 429, 404] }]",
        &format!(
            "{at}96: {list}[0].status[0]: 200 is not an error status: expected 400 to 599\n{at}101: {list}[0].status[1]: 401 has a fixed meaning: a rejected credential, or throttling\n{at}106: {list}[0].status[2]: 429 has a fixed meaning: a rejected credential, or throttling"
        ),
    );
    add(
        "errors: [{ status: [404], equals: gone }]",
        &format!("{at}85: {list}[0].path: `path` is missing\n  hint: for example path: $.error"),
    );
    add(
        "errors: [{ status: [404.5], path: $.e }]",
        &format!("{at}96: {list}[0].status[0]: expected a whole number, not negative, found the number 404.5"),
    );
}

#[test]
fn tweets_format_needs_no_paths() {
    response("{ format: tweets }", "");
    let known = |key: &str| {
        format!(
            "endpoints.list.response.{key}: `{key}` has no meaning with tweets: the format has built-in paths\n  hint: remove it"
        )
    };
    response(
        "{ format: tweets, items_path: $.tweets, id_path: $.id, updated_at_path: $.at }",
        &format!(
            "t.yaml:10:45: {}\nt.yaml:10:64: {}\nt.yaml:10:87: {}",
            known("items_path"),
            known("id_path"),
            known("updated_at_path")
        ),
    );
    let yaml = |lines: &str| {
        let tweets = BASE.replace("items_path: $.items, id_path: $.id, updated_at_path: $.at", "format: tweets");
        tweets.replacen("    query:", &format!("    {lines}\n    query:"), 1)
    };
    check_whole(&yaml("kind: tweet\n    record: { dedup_scope: tweet }\n    fields: { lang: $.lang }"), "");
    check_whole(
        &yaml("fields: { text: $.text }\n    record: { add: { media: 1 } }"),
        "t.yaml:5:21: endpoints.list.fields.text: `text` is a built-in field of tweets\n  hint: use another name\nt.yaml:6:29: endpoints.list.record.add.media: `media` is a built-in field of tweets\n  hint: use another name",
    );
}

#[test]
fn records_and_fields() {
    let at = "t.yaml:5:";
    section(
        "record: { filter: [{ path: $.a }] }",
        &format!(
            "{at}24: endpoints.list.record.filter[0]: the condition has no test\n  hint: add exists, equals, not_equals, in or matches"
        ),
    );
    section(
        "record: { remove: [$.a, \"$.b[1]\"] }",
        &format!(
            "{at}29: endpoints.list.record.remove[1]: only members of objects can be removed\n  hint: for example $.indexed"
        ),
    );
    section(
        "record: { add: { a: 1 } }\n    fields: { a: $.a }",
        &format!("{at}25: endpoints.list.record.add.a: `a` is also in `fields`"),
    );
    section(
        "fields: { a: { path: $.a, type: int } }",
        &format!(
            "{at}37: endpoints.list.fields.a.type: `int` is not one of json, string, integer, number, boolean, timestamp"
        ),
    );
    section("fields: { a: { type: integer } }", &format!("{at}15: endpoints.list.fields.a.path: `path` is missing"));
    section(
        "fields: { a: { path: $.a, format: epoch, required: true, on_error: 'null' } }",
        &format!(
            "{at}39: endpoints.list.fields.a.format: `format` has no meaning without `type: timestamp`\n{at}72: endpoints.list.fields.a.on_error: a required field cannot be left out\n  hint: remove one of them"
        ),
    );
    section(
        "fields: { a: [b] }",
        &format!("{at}18: endpoints.list.fields.a: expected a path, or a section with a path and a type, found a list"),
    );
}

// covers: ING-4.3-08, ING-4.3-15, ING-4.17-02
#[test]
fn paging_by_headers_and_ceilings() {
    let paging = |keys: &str, expected: &str| check("type: token, next_token_path: $.next", keys, expected);
    let at = "t.yaml:8:";
    paging("type: token, next_token_header: X-Next", "");
    paging(
        "type: token, next_token_header: X-Next, next_token_path: $.n",
        &format!(
            "{at}51: endpoints.list.pagination.next_token_header: `next_token_path` and `next_token_header` locate the same value\n  hint: keep one of them"
        ),
    );
    paging("type: url, next_url_header: link, allow_hosts: [cdn.x.org, 'y.org:8443']", "");
    paging(
        "type: url, next_url_header: link, allow_hosts: ['https://cdn.x.org']",
        &format!(
            "{at}67: endpoints.list.pagination.allow_hosts[0]: \"https://cdn.x.org\" is not a valid host\n  hint: for example cdn.example.org"
        ),
    );
    paging(
        "type: token, next_token_path: $.next, next_url_header: link",
        &format!(
            "{at}74: endpoints.list.pagination.next_url_header: `next_url_header` has no meaning with token paging\n  hint: remove it, or change `type`"
        ),
    );
    paging(
        "type: token, next_token_path: $.next, result_ceiling: 9999",
        &format!(
            "{at}73: endpoints.list.pagination.result_ceiling: `result_ceiling` needs a total to compare with\n  hint: add response.total_path or response.total_header"
        ),
    );
}

// covers: ING-4.2-07, ING-4.2-09
#[test]
fn bodies_and_redirects() {
    let post = |body: &str, expected: &str| {
        check("path: /list }", &format!("path: /list, method: post }}\n    body: {body}"), expected);
    };
    let at = "t.yaml:5:";
    post("{ json: { variables: { n: \"${ page.size }\", l: [1, \"x\"] } } }", "");
    post("{ form: { a: 1 } }", "");
    post("\"${ page.size }\"", "");
    post(
        "{ form: { a: 1 }, raw: x }",
        &format!("{at}5: endpoints.list.body: a body is one of `json`, `form` and `raw`"),
    );
    let unknown = "path: /list, method: post }\n    body: { json: { a: [1, \"${ nope }\"] } }";
    let problems = read("t.yaml", &BASE.replacen("path: /list }", unknown, 1)).unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{problems}") };
    assert_eq!((problem.line, problem.column, problem.path.as_str()), (5, 32, "endpoints.list.body.json.a[1]"));
    check(
        "path: /list }",
        "path: /list }\n    body: { json: {} }",
        &format!(
            "{at}5: endpoints.list.body: a GET request has no body\n  hint: set http.method to post, or remove `body`"
        ),
    );
    check("path: /list", "path: /list, max_redirects: 3", "");
    check(
        "path: /list",
        "path: /list, max_redirects: 4",
        "t.yaml:4:68: endpoints.list.http.max_redirects: expected 0 to 3",
    );
}
