//! The nine points of ING-4.17 and the checks of ING-3.3, each violated alone and then together; paging, windows and
//! limits.

use super::*;

/// Breaks one thing and expects one problem, with its file, its path and its reason.
fn broken(from: &str, to: &str, path: &str, reason: &str) {
    let (span, shown) = only(&BASE.replacen(from, to, 1));
    assert!(BASE.contains(from), "{from}");
    assert!(span.starts_with("t.yaml:"), "{span}");
    assert_eq!(shown, format!("{path}: {reason}"), "{to}");
}

/// The position and message of the only problem.
fn only(yaml: &str) -> (String, String) {
    let problems = read("t.yaml", yaml).unwrap_err();
    let [problem] = problems.as_slice() else { panic!("{problems}") };
    assert!(problem.line > 1 && problem.column > 0, "{problem}");
    let span = format!("{}:{}:{}", problem.file, problem.line, problem.column);
    (span, format!("{}: {}", problem.path, problem.message))
}

// covers: ING-4.17-01, ING-4.17-02, ING-4.17-03, ING-4.17-04, ING-4.17-05, ING-4.17-06, ING-4.17-07, ING-4.17-08
// covers: ING-4.17-09, ING-4.1-01
#[test]
fn each_point_of_the_checklist_is_checked() {
    let points = [
        // 1: the credential fits the endpoint.
        (
            "    query:",
            "    auth: { type: api_key, name: key, location: body }\n    query:",
            "endpoints.list.auth.location",
            "a GET request has no body that could carry a credential",
        ),
        // 2: paging has its paths.
        (
            "next_token_path: $.next, ",
            "",
            "endpoints.list.pagination.next_token_path",
            "token paging needs `next_token_path`",
        ),
        // 3: a declared window is sent.
        (
            "      from: \"${ window.from | date }\"\n",
            "",
            "endpoints.list.window.supports_updated_since",
            "`supports_updated_since` is true, but no template sends `window.from` or `window.to`",
        ),
        // 4: both phases exist.
        (
            "    query:",
            "    two_phase: { detail: work }\n    query:",
            "endpoints.list.two_phase.detail",
            "there is no endpoint `work`",
        ),
        // 5: the required paths are complete.
        ("id_path: $.id, ", "", "endpoints.list.response.id_path", "`id_path` is missing"),
        // 6: no value is above its limit.
        (
            "page_size: 100",
            "page_size: 100, max_page_size: 50",
            "endpoints.list.pagination.page_size",
            "page_size 100 is more than the 50 that the upstream returns",
        ),
        (
            "    query:",
            "    retry: { max_attempts: 21 }\n    query:",
            "endpoints.list.retry.max_attempts",
            "expected 1 to 20 attempts",
        ),
        (
            "    query:",
            "    rate_limit: { refill_rate_per_sec: 10001 }\n    query:",
            "endpoints.list.rate_limit.refill_rate_per_sec",
            "expected more than 0 and at most 10000 requests per second",
        ),
        // 7: keywords are valid.
        (
            "type: token",
            "type: cursor",
            "endpoints.list.pagination.type",
            "`cursor` is not one of token, offset, page, url, time",
        ),
        // 8: namespace and direction follow the operation: a manifest cannot set them.
        ("align: hour", "direction: backward", "endpoints.list.window.direction", "unknown key `direction`"),
        // 9: a signing hook has a name.
        (
            "    query:",
            "    auth: { type: custom }\n    query:",
            "endpoints.list.auth.signing_hook",
            "custom auth needs `signing_hook`",
        ),
    ];
    for (from, to, path, reason) in points {
        broken(from, to, path, reason);
    }
}

// covers: ING-4.17-08
#[test]
fn namespace_and_direction_follow_the_operation_alone() {
    use patra_core::state::{Direction, Operation};

    // No section has a key for them, so nothing can contradict the operation (C-16, C-17).
    let words = ["direction", "namespace", "namespace_scope", "namespace_key", "cursor_type", "cursor_key"];
    let keys: Vec<_> = crate::read::key_schema::key_schemas()
        .keys()
        .filter(|path| path.rsplit('.').next().is_some_and(|key| words.contains(&key)))
        .collect();
    assert!(keys.is_empty(), "{keys:?}");
    for word in words {
        let (path, reason) = (format!("endpoints.list.{word}"), format!("unknown key `{word}`"));
        broken("    query:", &format!("    {word}: GLOBAL\n    query:"), &path, &reason);
    }
    let directions: Vec<_> = Operation::ALL.iter().map(|operation| (*operation, operation.direction())).collect();
    assert_eq!(
        directions,
        [
            (Operation::Harvest, Direction::Forward),
            (Operation::Backfill, Direction::Backfill),
            (Operation::Update, Direction::Forward)
        ]
    );
}

// covers: ING-3.3-06, ING-3.3-07, ING-3.3-08, ING-3.3-09, ING-3.3-10, ING-3.3-11, ING-4.2-05
#[test]
fn each_check_before_freezing_reports_its_problem() {
    broken(
        "path: /list",
        "path: /list, method: patch",
        "endpoints.list.http.method",
        "`patch` is not one of get, post",
    );
    broken("base_url: \"https://x.org\", ", "", "endpoints.list.http.base_url", "`base_url` is missing");
    broken(
        "    query:",
        "    expr: { allowed_functions: [now] }\n    query:",
        "endpoints.list.query.from",
        "`date` is not allowed for this source",
    );
    broken("align: hour", "safety_lag: -PT1S", "endpoints.list.window.safety_lag", "\"-PT1S\" is negative");
    broken(
        "    query:",
        "    batching: { max_records_per_request: 10 }\n    query:",
        "endpoints.list.batching.max_records_per_request",
        "pagination.page_size 100 is more than the 10 records that one request may fetch",
    );
    broken(
        "    query:",
        "    two_phase: { detail: list }\n    query:",
        "endpoints.list.two_phase.detail",
        "`list` is not a detail endpoint",
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let yaml = BASE
        .replace("path: /list", "path: /list, method: patch")
        .replace("next_token_path: $.next, ", "")
        .replace("align: hour", "align: week")
        .replace("id_path: $.id, ", "")
        .replace(
            "    query:",
            "    auth: { type: custom }\n    retry: { max_attempts: 99 }\n    two_phase: { detail: work }\n    expr: { allowed_functions: [now] }\n    query:",
        );
    let problems = read("t.yaml", &yaml).unwrap_err();
    let paths: Vec<_> = problems.as_slice().iter().map(|problem| problem.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "endpoints.list.http.method",
            "endpoints.list.auth.signing_hook",
            "endpoints.list.retry.max_attempts",
            "endpoints.list.two_phase.detail",
            "endpoints.list.query.from",
            "endpoints.list.pagination.next_token_path",
            "endpoints.list.window.align",
            "endpoints.list.response.id_path",
        ],
        "{problems}"
    );
}

// covers: ING-4.3-07, ING-4.3-15, ING-4.3-16, ING-4.5-01
#[test]
fn paging_is_bounded_and_unambiguous() {
    let paging = "page_size: 100 }";
    for valid in [
        "page_size: 100, max_page_size: 100, max_page: 7, on_max_page: split, order_by: published, tail_probe: true, unique_tokens: true }",
        "page_size: 100, max_page: 7, on_max_page: PARTIAL, order_by: updated asc }",
    ] {
        check(paging, valid, "");
    }
    check(
        paging,
        "max_page_size: 0, on_max_page: stop, order_by: ' ' }",
        "t.yaml:8:72: endpoints.list.pagination.max_page_size: expected 1 to 10000 items\nt.yaml:8:88: endpoints.list.pagination.on_max_page: `stop` is not one of partial, split\nt.yaml:8:104: endpoints.list.pagination.order_by: expected a text of up to 64 bytes\n  hint: updated desc, updated asc, or another order of the upstream",
    );
    check(
        paging,
        "on_max_page: partial }",
        "t.yaml:8:70: endpoints.list.pagination.on_max_page: `on_max_page` has no meaning without `max_page`",
    );
    let unfiltered = BASE.replace("supports_updated_since: true, ", "").replace("${ window.from | date }", "x");
    check_whole(
        &unfiltered.replace(paging, "max_page: 5, on_max_page: split }"),
        "t.yaml:8:83: endpoints.list.pagination.on_max_page: a window can only be split if `supports_updated_since` is true\n  hint: use on_max_page: partial",
    );
    let has_no = |key: &str, kind: &str| {
        format!("`{key}` has no meaning with {kind} paging\n  hint: remove it, or change `type`")
    };
    check_whole(
        &BASE
            .replace(
                "type: token, next_token_path: $.next, page_size: 100",
                "type: page, base: 1, page_size: 9, unique_tokens: true, next_url_path: $.u",
            )
            .replace("page.token", "page.no"),
        &format!(
            "t.yaml:8:69: endpoints.list.pagination.unique_tokens: {}\nt.yaml:8:90: endpoints.list.pagination.next_url_path: {}",
            has_no("unique_tokens", "page"),
            has_no("next_url_path", "page")
        ),
    );
    check_whole(
        &BASE.replace("type: token, next_token_path: $.next, page_size: 100", "type: time, tail_probe: true"),
        &format!("t.yaml:8:43: endpoints.list.pagination.tail_probe: {}", has_no("tail_probe", "time")),
    );
}

#[test]
fn run_limits_are_for_polled_endpoints_only() {
    let polled = |paging: &str| {
        let lines = "    polled: true\n    params: { limit: {}, since: {} }\n    query:";
        BASE.replacen("    query:", lines, 1).replace("page_size: 100 }", paging)
    };
    check_whole(&polled("repeat_ends: true, limit_param: limit, limit_max_param: limit, until_param: since }"), "");
    check_whole(
        &polled("until_param: id, limit_max_param: limit }"),
        "t.yaml:10:70: endpoints.list.pagination.until_param: there is no param \"id\"\n  hint: declare it: params: { id: {} }\nt.yaml:10:91: endpoints.list.pagination.limit_max_param: `limit_max_param` has no meaning without `limit_param`",
    );
    let windowed = polled("limit_param: limit }").replace("    polled: true\n", "");
    check_whole(
        &windowed,
        "t.yaml:9:70: endpoints.list.pagination.limit_param: `limit_param` is for polled endpoints that return whole records\n  hint: set `polled: true`, or remove it",
    );
    check_whole(
        &BASE.replace("type: token, next_token_path: $.next, page_size: 100", "type: time, repeat_ends: true"),
        "t.yaml:8:44: endpoints.list.pagination.repeat_ends: `repeat_ends` has no meaning with time paging\n  hint: remove it, or change `type`",
    );
}

// covers: ING-4.4-15, ING-3.3-09
#[test]
fn windows_are_whole_units() {
    check("align: hour", "align: hour, as_of: true, monotonic: true, out_of_range: keep", "");
    check("align: hour", "align: hour, out_of_range: SKIP", "");
    check(
        "max_window: P1D",
        "max_window: PT90M",
        "t.yaml:9:98: endpoints.list.window.align: windows of PT1H30M are not a multiple of the unit\n  hint: choose a max_window of whole units",
    );
    check(
        "align: hour",
        "align: hour, min_window: PT2H, out_of_range: drop",
        "t.yaml:9:134: endpoints.list.window.out_of_range: `drop` is not one of skip, keep",
    );
    let unfiltered = BASE.replace("supports_updated_since: true, ", "").replace("${ window.from | date }", "x");
    check_whole(&unfiltered.replace("align: hour", "out_of_range: keep"), "");
}

// covers: ING-3.2-07, ING-3.2-08, ING-4.17-06
#[test]
fn retries_rates_and_proxies_are_checked() {
    let with = |lines: &str, expected: &str| check("    query:", &format!("    {lines}\n    query:"), expected);
    with("retry: { retryable_status: [409, 429, 503], retryable_codes: [busy, 17] }", "");
    with("retry: { retryable_status: [] }", "");
    with(
        "retry: { retryable_status: [200, 401], retryable_codes: [''] }",
        "t.yaml:5:33: endpoints.list.retry.retryable_status[0]: 200 is not an error status: expected 400 to 599\nt.yaml:5:38: endpoints.list.retry.retryable_status[1]: 401 rejects the credential: a retry does not help\nt.yaml:5:62: endpoints.list.retry.retryable_codes[0]: the code is empty",
    );
    with(
        "rate_limit: { quota_daily: 10, quota_hourly: 10, header_adaptive: true, warmup_sec: 0, retry_after_respect: false }",
        "",
    );
    with("rate_limit: { header_adaptive: [Retry-After, 'X-RateLimit-*'] }", "");
    with(
        "rate_limit: { quota_daily: 10, quota_hourly: 11, header_adaptive: ['a b'], warmup_sec: 86401 }",
        "t.yaml:5:50: endpoints.list.rate_limit.quota_hourly: 11 requests an hour are more than the 10 of a whole day\nt.yaml:5:72: endpoints.list.rate_limit.header_adaptive[0]: \"a b\" is not a valid header name\nt.yaml:5:92: endpoints.list.rate_limit.warmup_sec: expected at most 86400 seconds",
    );
    with(
        "rate_limit: { quota_daily: 0, header_adaptive: yes }",
        "t.yaml:5:32: endpoints.list.rate_limit.quota_daily: expected at least 1\nt.yaml:5:52: endpoints.list.rate_limit.header_adaptive: expected true, false or a list of header names, found the text \"yes\"",
    );
    with("rate_limit: { scope: credential, weight: 3, burst: 2, cost: 2, demote_rate: 2.5 }", "");
    with(
        "rate_limit: { burst: 2, cost: 3 }",
        "t.yaml:5:35: endpoints.list.rate_limit.cost: a request takes 3 permits, but there are never more than the burst of 2\n  hint: for example burst: 3",
    );
    with(
        "rate_limit: { cost: 2 }",
        "t.yaml:5:25: endpoints.list.rate_limit.cost: a request takes 2 permits, but there are never more than the burst of 1\n  hint: for example burst: 2",
    );
    with(
        "rate_limit: { scope: planet, weight: 0, cost: 101, demote_rate: 0.5 }",
        "t.yaml:5:26: endpoints.list.rate_limit.scope: `planet` is not one of endpoint, source, credential, host\nt.yaml:5:42: endpoints.list.rate_limit.weight: expected 1 to 1000\nt.yaml:5:51: endpoints.list.rate_limit.cost: expected 1 to 100 permits\nt.yaml:5:69: endpoints.list.rate_limit.demote_rate: expected 1 to 4",
    );
    check("path: /list", "path: /list, compression: false, proxy: \"http://proxy.x.org:3128\"", "");
    check(
        "path: /list",
        "proxy: \"http://me:pw@proxy.x.org/a\"",
        "t.yaml:4:47: endpoints.list.http.proxy: credentials do not belong in a manifest\nt.yaml:4:47: endpoints.list.http.proxy: a proxy URL has a scheme, a host and a port only",
    );
    check(
        "path: /list",
        "proxy: socks5://x",
        "t.yaml:4:47: endpoints.list.http.proxy: \"socks5://x\" is not a valid proxy URL\n  hint: for example http://proxy.example.org:3128",
    );
}
