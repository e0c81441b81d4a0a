//! Authoring with `try` and `test`, and the shipped manifests: from a file to a harvest.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;

use patra_upstream::{Dataset, FaultSchedule, MockApi, Script};

use crate::support::{Workspace, manifest};

const WINDOW: [&str; 4] = ["--from", "2024-01-01", "--to", "2024-01-02"];

fn upstream(records: usize, script: Script) -> MockApi {
    MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(7, records), script).unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn holds(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

fn sources() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../sources"))
}

fn attempt(place: &Workspace, file: &str, args: &[&str]) -> Output {
    place.patra().args(["try", file]).args(WINDOW).args(args).output().unwrap()
}

/// Ids first, then their content, with the key of the upstream in a header and in the query.
fn two_phase(base_url: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults:
  http: {{ base_url: "{base_url}" }}
  auth: {{ type: api_key, name: X-Key, prefix: "Key " }}
  rate_limit: {{ refill_rate_per_sec: 1000, burst: 100 }}
endpoints:
  search:
    path: /ids/offset
    query: {{ offset: "${{ page.offset }}", limit: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}", key: "${{ credential.apiKey }}" }}
    pagination: {{ type: offset, page_size: 40 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }}
    two_phase: {{ detail: fetch }}
    response: {{ items_path: $.items, id_path: $, total_path: $.total }}
  fetch:
    role: detail
    path: /details
    method: post
    body: {{ json: {{ ids: ["${{ id }}"], key: "${{ credential.apiKey }}" }} }}
    response: {{ items_path: $.items, id_path: $.id, updated_at_path: $.updated_at }}
    fields: {{ title: $.title }}
"#
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn try_shows_request_response_records_and_next_page_and_stores_nothing() {
    let server = upstream(100, Script::default());
    let place = Workspace::sqlite();
    let file = place.file(
        "far.yaml",
        &manifest(server.base_url())
            .replace("page_size: 50", "page_size: 50, tail_probe: true")
            .replace("path: /cursor }", "path: /cursor, headers: { X-Kind: all } }"),
    );
    let output = attempt(&place, &file, &["--pages", "5"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = server.dataset().get(0).unwrap().0;
    holds(
        &stdout(&output),
        &[
            "far records, 2024-01-01T00:00:00Z to 2024-01-02T00:00:00Z\npage 1\n",
            &format!("request   GET {}/cursor?", server.base_url()),
            "            X-Kind: all",
            "response  200, application/json, ",
            r#"            {"status":"ok""#,
            "items     50",
            &format!("record    {first}  2024-01-01T00:00:00Z  {{\"title\":"),
            "            and 47 more",
            "/cursor?cursor=",
            "            the response names the next token",
            "page 2\n",
            "next      the end\n            the response names no next token; a run asks for this page once more",
        ],
    );
    assert!(!place.folder.path().join("data").exists(), "nothing is stored");

    server.script().update(|script| script.e500 = FaultSchedule::every(1));
    let output = attempt(&place, &file, &[]);
    assert_eq!(output.status.code(), Some(1));
    holds(
        &stdout(&output),
        &[
            "refused   PLATFORM_ERROR: the upstream returned 500 (L1 transient)",
            "hint      the upstream has a problem of its own",
        ],
    );
    server.script().update(|script| script.e500 = FaultSchedule::never());
    let wrong = place.file("wrong.yaml", &manifest(server.base_url()).replace("$.updated_at", "$.changed"));
    holds(
        &stdout(&attempt(&place, &wrong, &["--records", "1"])),
        &[
            &format!("rejected  item 0 ({first}): updated_at_path $.changed finds no time"),
            "            and 49 more",
            "hint      most items were rejected",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn try_names_the_rule_that_ends_or_splits_a_slice() {
    let server = upstream(1_000, Script::default());
    let place = Workspace::sqlite();
    let numbered = |paging: &str| {
        manifest(server.base_url())
            .replace("path: /cursor", "path: /offset")
            .replace(
                r#"cursor: "${ page.token }", rows: "${ page.size }""#,
                r#"offset: "${ page.offset }", limit: "${ page.size }""#,
            )
            .replace(r#"type: token, next_token_path: "$.message['next-cursor']", page_size: 50"#, paging)
            .replace("$.message.items\"", "$.items\", total_path: \"$.total\"")
            .replace("safety_lag: PT0S", "safety_lag: PT1M")
    };
    for (paging, pages, parts) in [
        ("type: offset, page_size: 300", "5", &["the page is full (300 items)", "the page is short (103 of 300)"][..]),
        ("type: offset, page_size: 300, max_page: 2", "5", &["narrower ones", "2 pages were read, which is max_page"]),
        ("type: offset, page_size: 300, max_page: 2, on_max_page: partial", "5", &["a run ends here, PARTIAL"]),
        (
            "type: offset, page_size: 300, result_ceiling: 500",
            "1",
            &["narrower ones", "holds 1000 records and a query gives out 500"],
        ),
    ] {
        let output = attempt(&place, &place.file("far.yaml", &numbered(paging)), &["--pages", pages]);
        assert!(output.status.success(), "{}", stderr(&output));
        holds(&stdout(&output), parts);
    }
    server.script().update(|script| script.repeat_token_after = Some(1));
    let output = attempt(&place, &place.file("far.yaml", &manifest(server.base_url())), &["--pages", "5"]);
    assert_eq!(output.status.code(), Some(1));
    holds(&stdout(&output), &["next      none: a run fails here\n            the upstream serves the same page again"]);
}

// covers: ING-4.2-10
#[tokio::test(flavor = "multi_thread")]
async fn try_reads_details_and_never_shows_a_secret() {
    const CANARY: &str = "canary-7f3a91c2";
    let script = Script { require_header: Some(("X-Key".into(), format!("Key {CANARY}"))), ..Script::default() };
    let server = upstream(100, script);
    let place = Workspace::sqlite();
    let file = place.file("far.yaml", &two_phase(server.base_url()));

    let detail = attempt(&place, &file, &["--endpoint", "fetch"]);
    assert_eq!(detail.status.code(), Some(64));
    holds(&stderr(&detail), &["`fetch` is requested with ids that another endpoint names"]);
    let without = attempt(&place, &file, &[]);
    assert_eq!(without.status.code(), Some(1));
    holds(
        &stdout(&without),
        &["refused   NOT_CONFIGURED: far/search needs the credential `far`", "hint      `patra credential add`"],
    );
    assert_eq!(server.stats().data_requests, 0, "it was not asked without the credential");

    let add = ["credential", "add", "far", "--type", "api_key", "--provenance", "far", "--from-env", "apiKey=CANARY"];
    let added = place.patra().env("CANARY", CANARY).args(add).output().unwrap();
    assert!(added.status.success(), "{}", stderr(&added));
    let folder = place.folder.path().join("fixtures").display().to_string();
    let output = attempt(&place, &file, &["--record", &folder]);
    let text = stdout(&output);
    assert!(output.status.success(), "{text}{}", stderr(&output));
    holds(
        &text,
        &[
            "&key=***",
            "            X-Key: Key ***",
            "items     40, total 100",
            "ids       40: ",
            "page 1, details of 1 ids",
            r#""key":"***""#,
            "items     1\n  record    ",
            "offset=39",
        ],
    );
    let answers: String = ["search-page1.json", "search-page1-details.json"]
        .map(|name| fs::read_to_string(format!("{folder}/{name}")).unwrap())
        .concat();
    let json = stdout(&attempt(&place, &file, &["-o", "json"]));
    for shown in [&text, &stderr(&output), &answers, &json] {
        assert!(!shown.contains(CANARY), "{shown}");
    }
    let tests = text.split_once("\ntests:\n").unwrap().1;
    let tested = place.file("tested.yaml", &format!("{}tests:\n{tests}", two_phase(server.base_url())));
    let output = place.run(&["test", &tested]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stderr(&output).trim(), "2 passed, 0 failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn try_says_which_ids_have_no_detail() {
    let gone = patra_upstream::DetailEndpoints { gone: vec![1], ..patra_upstream::DetailEndpoints::default() };
    let server = upstream(10, Script { detail: gone, ..Script::default() });
    let place = Workspace::sqlite();
    let text = two_phase(server.base_url())
        .replace("  auth: { type: api_key, name: X-Key, prefix: \"Key \" }\n", "")
        .replace(", key: \"${ credential.apiKey }\"", "")
        .replace(
            "    method: post\n    body: { json: { ids: [\"${ id }\"] } }\n",
            "    query: { ids: \"${ ids | join(',') }\" }\n",
        );
    let shown = stdout(&attempt(&place, &place.file("far.yaml", &text), &[]));
    let lost = server.dataset().get(1).unwrap().0;
    holds(&shown, &["ids       10: ", "page 1, details of 10 ids", "items     9", &format!("missing   1: {lost}")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_try_passes_as_a_test_and_is_never_overwritten() {
    let server = upstream(500, Script::default());
    let place = Workspace::sqlite();
    let text = manifest(server.base_url());
    let file = place.file("far.yaml", &text);
    let folder = place.folder.path().join("fixtures");
    let record = ["--pages", "2", "--set", "pagination.page_size=7", "--record", folder.to_str().unwrap()];
    let first = attempt(&place, &file, &record);
    assert!(first.status.success(), "{}", stderr(&first));
    let kept = fs::read(folder.join("records-page1.json")).unwrap();
    let again = attempt(&place, &file, &[&record[..], &["-o", "json"]].concat());
    assert_eq!(fs::read(folder.join("records-page1.json")).unwrap(), kept);

    let document: Value = serde_json::from_str(&stdout(&again)).unwrap();
    assert_eq!(document["pages"].as_array().unwrap().len(), 2);
    assert_eq!(document["tests"][1]["recorded"], "fixtures/records-page2-2.json");
    let page = &document["pages"][0];
    assert_eq!((&page["items"], &page["record_count"], &page["answer"]["status"]), (&7.into(), &7.into(), &200.into()));
    assert_eq!(page["next"]["why"], "the response names the next token");
    assert_eq!(page["next"]["request"]["url"], document["pages"][1]["request"]["url"]);
    assert_eq!(page["records"][0]["id"], server.dataset().get(0).unwrap().0);

    let untested = place.run(&["test", &file]);
    assert!(untested.status.success());
    assert_eq!(stderr(&untested).trim(), "no tests in 1 manifest");
    let tests = stdout(&first).split_once("\ntests:\n").unwrap().1.to_owned();
    let tested = |text: &str| place.run(&["test", &place.file("tested.yaml", &format!("{text}tests:\n{tests}"))]);
    let output = tested(&text);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(stderr(&output).trim(), "2 passed, 0 failed");
    // The test compares the request and the parsed records with the recorded ones.
    let output = tested(&text.replace("rows:", "limit:").replace("$.id\"", "$.doi\""));
    assert_eq!(output.status.code(), Some(1));
    holds(&stdout(&output), &["FAILED far: page 1 of records", "  url\n", "expected \"rows=7\"", "record 0, id\n"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn try_refuses_params_that_do_not_fit_the_endpoint() {
    let server = upstream(100, Script { users: 4, ..Script::default() });
    let place = Workspace::sqlite();
    let text = manifest(server.base_url())
        .replace("path: /cursor }", "path: \"/users/${ params.user }/posts\" }")
        .replace(
            r#"cursor: "${ page.token }", rows: "${ page.size }""#,
            r#"page: "${ page.no }", size: "${ page.size }""#,
        )
        .replace(
            r#"type: token, next_token_path: "$.message['next-cursor']", page_size: 50"#,
            "type: page, base: 1, page_size: 50",
        )
        .replace("$.message.items", "$.items")
        + "    params: { user: { pattern: \"U[0-9]+\" } }\n    partitions: [{ param: user, values: [U1, U2, U3] }]\n";
    let file = place.file("far.yaml", &text);
    holds(&stdout(&attempt(&place, &file, &[])), &["user=U1 (1 of 3 values)", "/users/U1/posts?"]);
    holds(&stdout(&attempt(&place, &file, &["--param", "user=U3"])), &["/users/U3/posts?"]);
    for (args, parts) in [
        (&["--param", "usr=U1"][..], &["`records` has no parameter `usr`: did you mean `user`?", "declares: user"][..]),
        (&["--param", "user=me"], &["`user` does not match"]),
        (&["--param", "user"], &["expected NAME=VALUE"]),
        (&["--set", "pagination.page_sise=5"], &["cannot be overridden", "did you mean `pagination.page_size`?"]),
        (&["--endpoint", "record"], &["no endpoint `record`", "it has: records"]),
    ] {
        let output = attempt(&place, &file, args);
        assert!(matches!(output.status.code(), Some(64 | 78)), "{}", stderr(&output));
        holds(&stderr(&output), parts);
    }
    let parent = text.replace("values: [U1, U2, U3]", "parent: { endpoint: people }")
        + "  people: { http: { base_url: \"http://127.0.0.1:9\" }, window: { watermark_key: x, initial: 2024-01-01 }, response: { items_path: $, id_path: $, updated_at_path: $ } }\n";
    let output = attempt(&place, &place.file("far.yaml", &parent), &["--endpoint", "records"]);
    holds(&stderr(&output), &["give `user`, which a run takes from the records of `people`: --param user=VALUE"]);
}

#[test]
fn shipped_manifests_are_valid_and_pass_their_tests() {
    let place = Workspace::sqlite();
    let (all, examples) = (sources().display().to_string(), sources().join("examples").display().to_string());
    let output = place.run(&["validate", &all, &examples]);
    assert!(output.status.success(), "{}", stderr(&output));
    let output = place.run(&["test", &all, &examples, "-o", "json"]);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let report: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let tests = report["tests"].as_array().unwrap();
    assert_eq!((&report["failed"], report["passed"].as_u64()), (&0.into(), Some(tests.len() as u64)));
    for source in [
        "crossref",
        "hackernews",
        "pubmed",
        "reddit",
        "twitterapi_io",
        "shop",
        "example-export",
        "example-issues",
        "example-works",
    ] {
        let of = |test: &&Value| test["test"].as_str().unwrap().starts_with(&format!("{source}: "));
        assert!(tests.iter().filter(of).count() >= 2, "{source} has no tests");
    }
}

#[test]
fn test_command_reports_all_differences_at_once() {
    let place = Workspace::sqlite();
    place.file(
        "page.json",
        r#"{"message":{"items":[{"id":"a","updated_at":"2024-01-01","title":"x"},{"id":""}],"next-cursor":null}}"#,
    );
    let with = |tests: &str| {
        let file = place.file("tested.yaml", &format!("{}tests:\n{tests}", manifest("http://127.0.0.1:1")));
        place.run(&["test", &file])
    };
    let one = |expect: &str| with(&format!("  - {{ name: one, recorded: page.json, expect: {{ {expect} }} }}\n"));
    let right = "url: [rows=50, from=], method: get, items: 2, records: 1, rejected: 1, next: end, first: [{ id: a, updated_at: 2024-01-01, fields: { title: x, other: null } }]";
    let output = one(right);
    assert!(output.status.success(), "{}", stdout(&output));

    let wrong = one(
        "url: [rows=51], items: 3, rejected: 0, next: { token: x }, first: [{ id: b, fields: { title: y } }], warnings: []",
    );
    assert_eq!(wrong.status.code(), Some(1));
    holds(
        &stdout(&wrong),
        &[
            "FAILED far: one\n",
            "url\n           expected \"rows=51\"\n           found    \"http://127.0.0.1:1/cursor?",
            "items\n           expected 3\n           found    2\n",
            "rejected\n           expected 0\n           found    \"1: item 1: id_path $.id finds an empty text",
            "next\n           expected {\"token\":\"x\"}\n           found    \"end\"\n",
            "record 0, id\n           expected \"b\"\n           found    \"a\"",
            "record 0, fields.title\n           expected \"y\"\n           found    \"x\"",
            "warnings\n           expected nothing\n           found    \"no response.total_path",
        ],
    );
    holds(&stdout(&one("refused: L2")), &["refused\n           expected \"L2\"\n           found    nothing"]);
    let several = with(
        "  - { name: one, recorded: gone.json, expect: {} }\n  - { name: two, recorded: page.json, status: 500, expect: { items: 1 } }\n  - { name: three, recorded: page.json, expect: {} }\n",
    );
    assert_eq!(several.status.code(), Some(1));
    holds(
        &stdout(&several),
        &["FAILED far: one\n         ", "/gone.json: ", "FAILED far: two\n         refused\n", "ok     far: three"],
    );
    assert_eq!(stderr(&several).trim(), "1 passed, 2 failed");

    // An unreadable case is a configuration error; the other cases run all the same.
    for (tests, part) in [
        ("  - { name: one, recorded: page.json, expect: { itmes: 1 } }\n", "tests[0]: unknown field `itmes`"),
        ("  - { name: one, recorded: page.json, at: { tokn: x }, expect: {} }\n", "at: expected { token: … }"),
        ("  - { name: one, recorded: page.json, expect: { refused: no } }\n", "expected L1 to L4"),
    ] {
        let output = with(&format!("{tests}  - {{ name: good, recorded: page.json, expect: {{}} }}\n"));
        assert_eq!(output.status.code(), Some(78));
        holds(&stderr(&output), &[part, "1 passed, 0 failed", "docs/manifest.md describes tests"]);
    }
}

/// A folder with the three examples, unchanged except for the address of the upstream.
fn examples(place: &Workspace, base_url: &str) {
    for name in ["issues.yaml", "works.yaml", "export.yaml"] {
        let text = fs::read_to_string(sources().join("examples").join(name)).unwrap();
        place.apply(&text.replace("http://127.0.0.1:8900", base_url));
    }
}

/// Imitations of common APIs, read with the manifests that the documentation has for them: every record of the upstream
/// is stored once, and the cursor is at the end of the run.
// covers: ING-1.2-01, ING-0.2-06, ING-2.4-02
#[tokio::test(flavor = "multi_thread")]
async fn the_examples_harvest_what_the_upstream_has() {
    let script = Script {
        e429: FaultSchedule::at([5]),
        e500: FaultSchedule::at([9]),
        graphql_error: FaultSchedule::at([12, 20]),
        ..Script::default()
    };
    let dataset = Dataset::builder().seed(7).count(700).step_micros(600_000_000).build();
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), dataset, script).unwrap();
    let place = Workspace::sqlite();
    examples(&place, server.base_url());
    let add = [
        "credential",
        "add",
        "example-export",
        "--type",
        "api_key",
        "--provenance",
        "example-export",
        "--from-env",
        "apiKey=KEY",
    ];
    assert!(place.patra().env("KEY", "export-key").args(add).status().unwrap().success());
    let micros = "2024-01-04".parse::<patra_core::Ts>().unwrap().micros();
    let expected = server.dataset().ids_in(0, micros).count();
    assert!(expected > 300, "{expected}");
    for (provenance, endpoint) in [
        ("example-issues", "issues"),
        ("example-works", "works"),
        ("example-export", "rows"),
        ("example-export", "entries"),
    ] {
        let run = ["run", provenance, endpoint, "--to", "2024-01-04", "-o", "json"];
        let output = place.run(&run);
        assert!(output.status.success(), "{provenance} {endpoint}: {}", stderr(&output));
        let items = place.list(&["items", "--provenance", provenance, "--endpoint", endpoint]);
        assert_eq!(items.len(), expected, "{provenance} {endpoint}");
        assert!(items.iter().all(|item| item["fields"]["title"].is_string()));
        assert!(place.list(&["quarantine"]).is_empty());
        let again: Value = serde_json::from_str(&stdout(&place.run(&run))).unwrap();
        assert_eq!((&again["pages"], &again["cursor"]), (&0.into(), &"2024-01-04T00:00:00Z".into()));
    }
    let rest: Value = serde_json::from_str(&stdout(&place.run(&[
        "run",
        "example-issues",
        "issues",
        "--to",
        "2024-02-01",
        "-o",
        "json",
    ])))
    .unwrap();
    assert_eq!(rest["inserted"], server.dataset().len() - expected, "the next window takes the rest: {rest}");
}

/// The examples of docs/authoring.md work as documented.
#[tokio::test(flavor = "multi_thread")]
async fn walk_through_of_the_documentation_works() {
    let text = fs::read_to_string(sources().join("../docs/authoring.md")).unwrap();
    let yaml = text.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let dataset = Dataset::builder().seed(1).count(2_000).step_micros(600_000_000).build();
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), dataset, Script::default()).unwrap();
    let place = Workspace::sqlite();
    let file = place.file("library.yaml", &yaml.replace("http://127.0.0.1:8900", server.base_url()));
    assert!(place.run(&["validate", &file]).status.success());
    let shown = stdout(&attempt(&place, &file, &["--records", "2"]));
    // The output in the documentation, except for omitted parts and values that differ each time.
    let documented = text.split("$ patra try library.yaml").nth(1).unwrap().split("```").next().unwrap();
    for line in documented.lines().skip(1).filter(|line| !line.contains(" bytes in ")) {
        let line = line.replace("http://127.0.0.1:8900", server.base_url());
        holds(&shown, &[line.split('…').next().unwrap()]);
    }
    let recorded =
        attempt(&place, &file, &["--records", "0", "--record", place.folder.path().join("fixtures").to_str().unwrap()]);
    let tests = stdout(&recorded).split_once("\ntests:\n").unwrap().1.to_owned();
    fs::write(&file, format!("{}tests:\n{tests}", fs::read_to_string(&file).unwrap())).unwrap();
    assert!(place.run(&["test", &file]).status.success());
    assert!(place.run(&["apply", "-f", &file]).status.success());
    for inserted in [1_296, 0] {
        let run = place.run(&["run", "library", "works", "--to", "2024-01-10", "-o", "json"]);
        let report: Value = serde_json::from_str(&stdout(&run)).unwrap();
        assert_eq!(report["inserted"], inserted, "{report}");
    }
}
