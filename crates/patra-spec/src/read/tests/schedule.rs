//! Schedules, UPDATE, ranges of pages and thresholds.

use super::*;

fn with(lines: &str, expected: &str) {
    check("    query:", &format!("    {lines}\n    query:"), expected);
}

const FIELDS: &str = "\n  hint: five fields in UTC: minute, hour, day, month, weekday, as in \"*/15 6-18 * * mon-fri\"";
const NEEDS: &str = "UPDATE fetches stored records by id, but no detail endpoint is set\n  hint: add an endpoint with `role: detail` whose requests send `ids` or `id`, and name it: update: { detail: NAME }";

#[test]
fn schedule_needs_exactly_one_of_every_and_cron() {
    for valid in ["{ every: PT1S }", "{ cron: \"*/15  6-18 * * Mon-Fri\" }", "{ cron: \"0 0 29 2 *\" }"] {
        with(&format!("schedule: {valid}"), "");
    }
    let missing =
        "`every` or `cron` is missing\n  hint: for example every: PT1H, or cron: \"0 6 * * *\" for six o'clock in UTC";
    with("schedule: {}", &format!("t.yaml:5:5: endpoints.list.schedule.every: {missing}"));
    with(
        "schedule: { every: PT1H, cron: \"0 * * * *\" }",
        "t.yaml:5:36: endpoints.list.schedule.cron: `every` and `cron` cannot both be set\n  hint: keep one of them",
    );
    with(
        "schedule: { cron: \"0 24 * * *\" }",
        &format!("t.yaml:5:23: endpoints.list.schedule.cron: hour: `24` is not 0 to 23{FIELDS}"),
    );
    with(
        "schedule: { cron: \"0 0 30 2 *\" }",
        &format!("t.yaml:5:23: endpoints.list.schedule.cron: the pattern never fires, or hardly ever{FIELDS}"),
    );
    with("schedule: { cron: 5 }", "t.yaml:5:23: endpoints.list.schedule.cron: expected a text, found the number 5");
    with(
        "schedule: { every: 1h }",
        "t.yaml:5:24: endpoints.list.schedule.every: \"1h\" is not an ISO-8601 duration\n  hint: durations are ISO-8601: PT30S, PT10M, PT1H, P1D",
    );
    let manifest =
        read("t.yaml", &BASE.replacen("    query:", "    schedule: { cron: \" 0  6 * * * \" }\n    query:", 1));
    let schedule = manifest.unwrap().endpoints["list"].schedule.clone().unwrap();
    assert_eq!(schedule.cron.as_deref(), Some("0 6 * * *"), "one spelling");
}

/// `BASE` with an endpoint for its details.
fn check_detailed(lines: &str, expected: &str) {
    let detail = "  work:\n    role: detail\n    http: { base_url: \"https://x.org\", path: \"/w/${ id }\" }\n    response: { items_path: $, id_path: $.id }\n";
    check_whole(&(BASE.replacen("    query:", &format!("    {lines}\n    query:"), 1) + detail), expected);
}

#[test]
fn update_schedules_are_unique_per_reason() {
    let all = "[{ reason: staleness, cron: \"0 3 * * *\" }, { reason: EXPR_CHANGE, every: P1D }, { reason: signals, every: PT5M }]";
    check_detailed(&format!("update: {{ detail: work }}\n    schedule: {{ update: {all} }}"), "");
    check_detailed(&format!("two_phase: {{ detail: work }}\n    schedule: {{ every: PT1H, update: {all} }}"), "");
    check_detailed(
        "update: { detail: work }\n    schedule: { update: [{ reason: signals, every: PT5M }, { reason: signals, every: PT0S, cron: \"* * * * *\" }, { reason: age }, {}] }",
        "t.yaml:6:70: endpoints.list.schedule.update[1].reason: `signals` has a schedule already\nt.yaml:6:86: endpoints.list.schedule.update[1].every: a schedule needs at least one second\nt.yaml:6:98: endpoints.list.schedule.update[1].cron: `every` and `cron` cannot both be set\n  hint: keep one of them\nt.yaml:6:113: endpoints.list.schedule.update[2].every: `every` or `cron` is missing\n  hint: for example every: PT1H, or cron: \"0 6 * * *\" for six o'clock in UTC\nt.yaml:6:123: endpoints.list.schedule.update[2].reason: `age` is not one of staleness, expr_change, signals\nt.yaml:6:130: endpoints.list.schedule.update[3].reason: `reason` is missing\n  hint: one of staleness, expr_change, signals\nt.yaml:6:130: endpoints.list.schedule.update[3].every: `every` or `cron` is missing\n  hint: for example every: PT1H, or cron: \"0 6 * * *\" for six o'clock in UTC",
    );
    with(
        "schedule: { every: PT1H, update: [{ reason: signals, every: PT5M }] }",
        &format!("t.yaml:5:30: endpoints.list.schedule.update: {NEEDS}"),
    );
}

// covers: ING-3.3-11, ING-4.17-04
#[test]
fn update_requires_a_detail_endpoint() {
    check_detailed("update: { detail: Work, stale_after: PT1S, segment_size: 100000 }", "");
    check_detailed("two_phase: { detail: work }\n    update: { segment_size: 1 }", "");
    with("update: { segment_size: 4 }", &format!("t.yaml:5:5: endpoints.list.update.detail: {NEEDS}"));
    check_detailed(
        "update: { detail: works }",
        "t.yaml:5:23: endpoints.list.update.detail: there is no endpoint `works`\n  hint: did you mean `work`?",
    );
    with(
        "update: { detail: list }",
        "t.yaml:5:23: endpoints.list.update.detail: `list` is not a detail endpoint\n  hint: give `list` a `role: detail`",
    );
    check_detailed(
        "update: { detail: work, stale_after: PT0S, segment_size: 0 }",
        "t.yaml:5:42: endpoints.list.update.stale_after: expected at least PT1S\nt.yaml:5:62: endpoints.list.update.segment_size: expected 1 to 100000 records",
    );
    check_detailed(
        "update: { detail: work, segment_size: 100001 }\n    batching: { id_batch_size: 5 }",
        "t.yaml:5:43: endpoints.list.update.segment_size: expected 1 to 100000 records\nt.yaml:6:32: endpoints.list.batching.id_batch_size: `work` fetches one `id` per request\n  hint: remove id_batch_size, or send `${ ids | join(',') }` there",
    );
    check_detailed(
        "role: metrics\n    update: { detail: work }",
        "t.yaml:6:5: endpoints.list.update: a metrics endpoint cannot have a detail endpoint\n  hint: `update` belongs to a search endpoint",
    );
    let nested = "  work:\n    role: detail\n    update: { detail: work }\n    http: { base_url: \"https://x.org\", path: \"/w/${ id }\" }\n    response: { items_path: $, id_path: $.id }\n";
    let yaml = BASE.replacen("    query:", "    two_phase: { detail: work }\n    query:", 1) + nested;
    let problems = read("t.yaml", &yaml).unwrap_err().to_string();
    assert!(
        problems.contains("endpoints.work.update: `work` fetches records by id and cannot have its own `update`"),
        "{problems}"
    );
    with(
        "schedules: {}",
        "t.yaml:5:5: endpoints.list.schedules: unknown key `schedules`\n  hint: did you mean `schedule`?",
    );
}

#[test]
fn page_range_needs_numbered_pages_and_a_total() {
    let paged = |paging: &str, total: &str| {
        BASE.replace("{ type: token, next_token_path: $.next, page_size: 100 }", paging)
            .replace("page.token", if paging.contains("offset") { "page.offset" } else { "page.no" })
            .replace("$.at }", &format!("$.at{total} }}"))
    };
    for total in [", total_path: $.n", ", total_header: X-Total"] {
        check_whole(&paged("{ type: page, base: 1, page_size: 9, page_range: 2 }", total), "");
        check_whole(&paged("{ type: offset, page_size: 9, page_range: 50 }", total), "");
    }
    check_whole(
        &paged("{ type: offset, page_size: 9, page_range: 1 }", ""),
        "t.yaml:8:59: endpoints.list.pagination.page_range: expected at least 2 pages\n  hint: remove it to read a window as one slice\nt.yaml:8:59: endpoints.list.pagination.page_range: `page_range` needs a total to compute the number of pages\n  hint: add response.total_path or response.total_header",
    );
    check_whole(
        &BASE.replace("page_size: 100", "page_range: 5").replace("$.at }", "$.at, total_path: $.n }"),
        "t.yaml:8:69: endpoints.list.pagination.page_range: `page_range` has no meaning with token paging\n  hint: remove it, or change `type`",
    );
}

// covers: ING-4.17-06, ING-12.2-08
#[test]
fn thresholds_are_bounded() {
    with(
        "limits: { concurrency: 64, inventory: 1, page_depth: 1, max_requests: 1, max_duration: PT1S, error_ratio: 1, missing_ratio: 1 }",
        "",
    );
    with(
        "health: { throttle_ratio: 0.000001, throttle_window: PT1S, failure_ratio: 1, slow_batch: PT0.001S, circuit_after: 1, circuit_open: PT1S, rate_floor: 1, min_page_size: 1, large_response_bytes: 1 }",
        "",
    );
    with("raw: { keep: PT1H }", "");
    with("raw:", "");
    let share = "expected more than 0 and at most 1\n  hint: a share: 0.05 is 5 %";
    with("limits: { concurrency: 0 }", "t.yaml:5:28: endpoints.list.limits.concurrency: expected 1 to 64 tasks");
    with(
        "limits: { concurrency: 65, inventory: 0, page_depth: 0, max_requests: 0, max_duration: PT0S, error_ratio: 0 }",
        &format!(
            "t.yaml:5:28: endpoints.list.limits.concurrency: expected 1 to 64 tasks\nt.yaml:5:43: endpoints.list.limits.inventory: expected at least 1\nt.yaml:5:58: endpoints.list.limits.page_depth: expected at least 1\nt.yaml:5:75: endpoints.list.limits.max_requests: expected at least 1\nt.yaml:5:92: endpoints.list.limits.max_duration: expected at least PT1S\nt.yaml:5:111: endpoints.list.limits.error_ratio: {share}"
        ),
    );
    with("limits: { error_ratio: 1.1 }", &format!("t.yaml:5:28: endpoints.list.limits.error_ratio: {share}"));
    with("health: { failure_ratio: 0 }", &format!("t.yaml:5:30: endpoints.list.health.failure_ratio: {share}"));
    with("health: { throttle_ratio: 5 }", &format!("t.yaml:5:31: endpoints.list.health.throttle_ratio: {share}"));
    with(
        "health: { throttle_window: PT0S, slow_batch: PT0S, circuit_after: 0, circuit_open: PT0S, rate_floor: 0, min_page_size: 0, large_response_bytes: 0 }",
        &format!(
            "t.yaml:5:32: endpoints.list.health.throttle_window: expected at least PT1S\nt.yaml:5:50: endpoints.list.health.slow_batch: expected at least PT0.001S\nt.yaml:5:71: endpoints.list.health.circuit_after: expected at least 1\nt.yaml:5:88: endpoints.list.health.circuit_open: expected at least PT1S\nt.yaml:5:106: endpoints.list.health.rate_floor: {share}\nt.yaml:5:124: endpoints.list.health.min_page_size: expected 1 to 10000 items\nt.yaml:5:149: endpoints.list.health.large_response_bytes: expected at least 1"
        ),
    );
    with("raw: { keep: PT59M }", "t.yaml:5:18: endpoints.list.raw.keep: expected at least PT1H");
    with(
        "limits: { parallel: 3 }",
        "t.yaml:5:15: endpoints.list.limits.parallel: unknown key `parallel`\n  hint: expected one of: concurrency, inventory, page_depth, max_requests, max_duration, error_ratio, missing_ratio",
    );
    // A problem in `defaults` is reported once, at `defaults`.
    check(
        "endpoints:",
        "defaults: { limits: { concurrency: 99 }, health: { rate_floor: 2 }, raw: { keep: PT1S } }\nendpoints:",
        &format!(
            "t.yaml:2:36: defaults.limits.concurrency: expected 1 to 64 tasks\nt.yaml:2:64: defaults.health.rate_floor: {share}\nt.yaml:2:82: defaults.raw.keep: expected at least PT1H"
        ),
    );
}
