//! Inputs of a run, template rules, and request parameters.

use super::*;

/// The problems of `BASE` with more lines in its endpoint and a parameter that sends `params.q`.
fn check_with(lines: &str, expected: &str) {
    let lines = lines.replace('\n', "\n    ");
    check("    query:", &format!("    {lines}\n    query:\n      q: \"${{ params.q }}\""), expected);
}

// covers: ING-3.3-01
#[test]
fn params_are_declared() {
    check_with("params: { q: {} }", "");
    check_with("params: { q: { default: 1, pattern: '[0-9]+', description: how many } }", "");
    check_with(
        "params: { query: {} }",
        "t.yaml:7:14: endpoints.list.query.q: there is no parameter `q`\n  hint: expected one of: query",
    );
    check_with(
        "params: { q: { default: abc, pattern: '[0-9]+', required: true } }",
        "t.yaml:5:29: endpoints.list.params.q.default: the default does not match [0-9]+\nt.yaml:5:63: endpoints.list.params.q.required: a parameter with a default is never missing\n  hint: remove `required`, or `default`",
    );
    check_with(
        "params: { q: { pattern: '(' }, 'a b': {} }",
        "t.yaml:5:30: endpoints.list.params.q.pattern: the pattern cannot be used: unclosed group\nt.yaml:5:36: endpoints.list.params.a b: \"a b\" cannot be used as a name\n  hint: letters, digits, `_` and `-`, a letter first, at most 64",
    );
    check_with(
        "params: { q: { pattern: 'a)|(b' } }",
        "t.yaml:5:30: endpoints.list.params.q.pattern: the pattern cannot be used: unopened group",
    );
    check_with(
        &format!("params: {{ q: {{ pattern: '{}' }} }}", "a".repeat(257)),
        "t.yaml:5:30: endpoints.list.params.q.pattern: the pattern has 257 bytes, at most 256 are allowed",
    );
    check_with(
        "params: { q: { required: true } }\nschedule: { every: PT1H }",
        "t.yaml:6:5: endpoints.list.schedule: a scheduled run has no params, but `q` is required\n  hint: give it a default, or a partition that binds it: [{ param: q, values: [..] }]",
    );
    let bound = "partitions: [{ param: q, values: [a] }]\nschedule: { every: PT1H }";
    check_with(&format!("params: {{ q: {{ required: true }} }}\n{bound}"), "");
    check_with(
        "params: { q: {} }\npolled: true\npartitions: [{ param: q, values: [a] }]",
        "t.yaml:7:5: endpoints.list.partitions: a polled endpoint is read once per source and has no partitions\n  hint: remove `partitions`, and give each source its own params: see `patra source add`",
    );
    let many: Vec<String> = (0..65).map(|n| format!("p{n}: {{}}")).collect();
    check_with(
        &format!("params: {{ q: {{}}, {} }}", many.join(", ")),
        "t.yaml:5:5: endpoints.list.params: at most 64 parameters can be given",
    );
}

#[test]
fn scheduled_endpoint_binds_the_params_of_its_path() {
    let path = "path: \"/users/${ params.user }\" }\n    params: { user: {} }\n    schedule: { every: PT1H }";
    check(
        "path: /list }",
        path,
        "t.yaml:6:5: endpoints.list.schedule: a scheduled run has no params, but `user` is required\n  hint: give it a default, or a partition that binds it: [{ param: user, values: [..] }]",
    );
    check("path: /list }", &path.replace("user: {}", "user: { default: a }"), "");
}

// covers: ING-3.2-10, ING-4.2-07
#[test]
fn request_params_may_have_conditions() {
    let q = "      cursor:";
    check(
        q,
        "      rows: { expr: 5 }\n      all: { expr: \"${ page.size }\", default: 9, required: true, pattern: '[0-9]*' }\n      cursor:",
        "",
    );
    check(q, "      a: { default: 5 }\n      cursor:", "t.yaml:6:7: endpoints.list.query.a.expr: `expr` is missing");
    check(
        q,
        "      a: { expr: \"x ${ page.tokn }\", pattern: '[' }\n      cursor:",
        "t.yaml:6:24: endpoints.list.query.a.expr: there is no variable `page.tokn`\n  hint: did you mean `page.token`?\nt.yaml:6:48: endpoints.list.query.a.pattern: the pattern cannot be used: unclosed character class",
    );
    check(
        "path: /list",
        "headers: { X-A: { expr: a, default: \"b\\nc\", patern: x } }",
        "t.yaml:4:51: endpoints.list.http.headers.X-A: a header must not contain line breaks or other control characters\nt.yaml:4:84: endpoints.list.http.headers.X-A.patern: unknown key `patern`\n  hint: did you mean `pattern`?",
    );
    check(
        q,
        "      a: [1]\n      cursor:",
        "t.yaml:6:10: endpoints.list.query.a: expected a text, a number, a boolean, or a section with `expr`, found a list",
    );
    check(
        q,
        "      a: { expr: x, default: \"\\x01\" }\n      cursor:",
        "t.yaml:6:30: endpoints.list.query.a.default: the control character U+0001 is not allowed",
    );
}

// covers: ING-3.3-08, ING-4.8-01, ING-3.2-11
#[test]
fn disallowed_functions_are_reported_at_their_offset() {
    check("    query:", "    expr: { allowed_functions: [date] }\n    query:", "");
    check(
        "    query:",
        "    expr: { allowed_functions: [now, formatDateTime] }\n    query:",
        "t.yaml:8:31: endpoints.list.query.from: `date` is not allowed for this source\n  hint: allowed functions: now, formatDateTime",
    );
    check(
        "    query:",
        "    expr: { allowed_functions: [date, sytem] }\n    query:",
        "t.yaml:5:39: endpoints.list.expr.allowed_functions[1]: there is no function \"sytem\"\n  hint: expected one of: now, format, formatDateTime, parse, add, sub, date, datetime, iso, epoch, epoch_ms, default, coalesce, concat, join, jsonPath, renderQuery, length, int, string, lower, upper, trim, replace, regex_search, urlencode, base64, base64_decode, sha256, md5",
    );
    check(
        "    query:",
        "    expr: { null_policy: skip, time_format: unix, timezone: Europe/Berlin }\n    query:",
        "t.yaml:5:26: endpoints.list.expr.null_policy: `skip` is not one of omit, empty, error\nt.yaml:5:45: endpoints.list.expr.time_format: \"unix\" is not a time format\n  hint: iso, epoch, epoch_ms, date, or a pattern such as %Y-%m-%d\nt.yaml:5:61: endpoints.list.expr.timezone: times are in UTC\n  hint: write UTC, and use format(time, pattern, '+02:00') if the upstream uses another zone",
    );
    check("    query:", "    expr: { null_policy: EMPTY, time_format: '%s', timezone: utc }\n    query:", "");
}

#[test]
fn partitions_bind_declared_and_sent_params() {
    check_with("params: { q: {} }\npartitions: [{ param: q, values: [a, 1, true] }]", "");
    check_with(
        "params: { q: {} }\npartitions: [{ param: q, parent: { endpoint: LIST } }]",
        "t.yaml:6:50: endpoints.list.partitions[0].parent.endpoint: the parents form a cycle: list -> list\n  hint: a parent must be read before its children",
    );
    let which = "exactly one of `values` and `parent` is required\n  hint: for example values: [a, b], or parent: { endpoint: authors }";
    check_with(
        "params: { q: {}, r: {} }\npartitions: [{ values: [a] }, { param: Q, values: [a] }, { param: q }, { param: r, values: [a] }]",
        &format!(
            "t.yaml:6:18: endpoints.list.partitions[0].param: `param` is missing\n  hint: the parameter that takes the values, for example param: year\nt.yaml:6:44: endpoints.list.partitions[1].param: there is no parameter `Q`\n  hint: did you mean `q`?\nt.yaml:6:62: endpoints.list.partitions[2]: {which}\nt.yaml:6:85: endpoints.list.partitions[3].param: no template sends `params.r`, so every partition would read the same records"
        ),
    );
    check_with(
        "params: { q: { pattern: '[a-z]' } }\npartitions: [{ param: q, values: [a, a, b1] }]",
        "t.yaml:6:42: endpoints.list.partitions[0].values[1]: this value is a duplicate\nt.yaml:6:45: endpoints.list.partitions[0].values[2]: the value does not match the pattern of `q`",
    );
    check_with(
        "params: { q: {} }\npartitions: [{ param: q, values: [a] }, { param: q, values: [b] }]",
        "t.yaml:6:54: endpoints.list.partitions[1].param: `q` is bound twice",
    );
    check_with(
        "params: { q: {} }\npartitions: [{ param: q, parent: { endpoint: lisst, path: x } }, { param: q, parent: {} }]",
        "t.yaml:6:50: endpoints.list.partitions[0].parent.endpoint: there is no endpoint `lisst`\n  hint: did you mean `list`?\nt.yaml:6:63: endpoints.list.partitions[0].parent.path: a path begins with `$`\n  hint: write `$.x`\nt.yaml:6:79: endpoints.list.partitions[1].param: `q` is bound twice\nt.yaml:6:82: endpoints.list.partitions[1].parent.endpoint: `endpoint` is missing\n  hint: the endpoint whose records give the values",
    );
}

#[test]
fn partitions_are_bounded() {
    let values = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    check_with(
        &format!("params: {{ q: {{}} }}\npartitions: [{{ param: q, values: [{}] }}]", values(10_001)),
        "t.yaml:6:30: endpoints.list.partitions[0].values: at most 10000 values are allowed",
    );
    let names = ["a", "b", "c", "d", "e"];
    let declared: Vec<_> = names.iter().map(|name| format!("{name}: {{}}")).collect();
    let bound: Vec<_> = names.iter().map(|name| format!("{{ param: {name}, values: [{}] }}", values(20))).collect();
    let sent: Vec<_> = names.iter().map(|name| format!("${{ params.{name} }}")).collect();
    let yaml = BASE.replace(
        "    query:",
        &format!(
            "    params: {{ {} }}\n    partitions: [{}]\n    query:\n      all: \"{}\"",
            declared.join(", "),
            bound.join(", "),
            sent.join("")
        ),
    );
    check_whole(
        &yaml,
        "t.yaml:6:5: endpoints.list.partitions: at most 4 dimensions are allowed\nt.yaml:6:5: endpoints.list.partitions: together they make more than 1000000 combinations",
    );
}

#[test]
fn cyclic_parents_are_rejected() {
    let endpoint = |name: &str, parent: &str| {
        format!(
            "  {name}:\n    params: {{ q: {{}} }}\n    partitions: [{{ param: q, parent: {{ endpoint: {parent} }} }}]\n    http: {{ base_url: \"https://x.org\", path: \"/${{ params.q }}\" }}\n    response: {{ items_path: $, id_path: $.id }}\n"
        )
    };
    let yaml = format!("provenance: t\nendpoints:\n{}{}{}", endpoint("a", "b"), endpoint("b", "c"), endpoint("c", "a"));
    let circle = |line: u32, name: &str, way: &str| {
        format!(
            "t.yaml:{line}:50: endpoints.{name}.partitions[0].parent.endpoint: the parents form a cycle: {way}\n  hint: a parent must be read before its children"
        )
    };
    check_whole(
        &yaml,
        &[circle(5, "a", "a -> b -> c -> a"), circle(10, "b", "b -> c -> a -> b"), circle(15, "c", "c -> a -> b -> c")]
            .join("\n"),
    );
    // A diamond is not a cycle.
    let open = yaml.replace("    partitions: [{ param: q, parent: { endpoint: a } }]\n", "");
    check_whole(&open, "");
}
