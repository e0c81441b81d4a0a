//! The registry through the program: applying, changing, removing, exporting; the origin of each value of a spec;
//! changes never affect existing plans.

use std::process::{Output, Stdio};

use serde_json::{Value, json};

use patra_upstream::{Dataset, MockApi, Script};

use crate::support::{On, Workspace, manifest};

const EVERYTHING: &str = include_str!("../../../patra-spec/tests/it/everything.yaml");

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Output of a command that must succeed.
#[track_caller]
fn ok(output: &Output) -> String {
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

#[track_caller]
fn json_of(output: &Output) -> Value {
    serde_json::from_str(&ok(output)).unwrap()
}

#[track_caller]
fn check_error(output: &Output, exit: i32, parts: &[&str]) {
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "`{part}` is not in:\n{stderr}");
    }
}

/// The columns of a row, read from the database file.
fn row(place: &Workspace, sql: &str) -> Option<Vec<String>> {
    let db = rusqlite::Connection::open(place.folder.path().join("data/patra.db")).unwrap();
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let read = |row: &rusqlite::Row<'_>| (0..columns).map(|at| row.get::<_, String>(at)).collect();
    let mut rows = statement.query_map((), read).unwrap();
    rows.next().map(|row| row.unwrap())
}

// covers: ING-3.1-01, ING-3.1-04
on_both!(fn apply_reports_the_changes_and_makes_no_others);
fn apply_reports_the_changes_and_makes_no_others(on: On) {
    on.run(|place| {
        let one = manifest("http://127.0.0.1:1");
        let file = place.file("far.yaml", &one);
        let apply = |extra: &[&str]| ok(&place.run(&[&["apply", "-f", file.as_str()], extra].concat()));

        assert_eq!(apply(&["--dry-run"]), "far would be created\n");
        assert_eq!(apply(&[]), "far created\n");
        let before = place.list(&["provenances"]);
        assert_eq!(apply(&[]), "far unchanged\n");
        assert_eq!(apply(&["--dry-run"]), "far is unchanged\n");
        // Another spelling of the same manifest is no change.
        place.file("far.yaml", &one.replace("initial: 2024-01-01", "initial: \"2024-01-01T02:00:00+02:00\""));
        assert_eq!(apply(&[]), "far unchanged\n");
        assert_eq!(place.list(&["provenances"]), before);

        let changed = one
            .replace("page_size: 50", "page_size: 20")
            .replace("retry: { min_delay: PT0.01S, max_delay: PT0.05S }", "retry: { min_delay: PT0.01S }")
            .replace("fields: { title: \"$.title\" }", "fields: { title: \"$.title\", year: \"$.year\" }");
        place.file("far.yaml", &changed);
        let lines = "\n  + endpoints.records.fields.year: \"$.year\"\
                     \n  ~ endpoints.records.pagination.page_size: 50 -> 20\
                     \n  - endpoints.records.retry.max_delay\n";
        assert_eq!(apply(&["--dry-run"]), format!("far would be changed{lines}"));
        assert_eq!(place.list(&["provenances"]), before, "it was only a question");
        assert_eq!(apply(&[]), format!("far changed{lines}"));
        let after = place.list(&["provenances"]);
        assert_ne!(after[0]["document_hash"], before[0]["document_hash"]);

        place.file("far.yaml", &one);
        let report = json_of(&place.run(&["apply", "-f", &file, "-o", "json"]));
        assert_eq!((&report["result"], &report["dry_run"]), (&"changed".into(), &false.into()));
        assert_eq!(
            report["changes"][1],
            json!({ "path": "endpoints.records.pagination.page_size", "before": 20, "after": 50 })
        );
        assert_eq!(place.list(&["provenances"])[0]["document_hash"], before[0]["document_hash"]);
    });
}

#[test]
fn apply_reports_all_problems_of_all_files_before_writing() {
    let place = Workspace::sqlite();
    let one = manifest("http://127.0.0.1:1");
    std::fs::create_dir(place.folder.path().join("all")).unwrap();
    let folder = place.folder.path().join("all").display().to_string();
    place.file("all/1-sound.yaml", &one);
    place.file("all/2-wrong.yaml", &one.replace("far", "a").replace("type: token", "type: tokens"));
    place.file("all/3-wrong.yml", &one.replace("far", "b").replace("page_size", "pagesize"));
    place.file("all/4-twice.yaml", &one);
    place.file("all/5-no-manifest.txt", "no manifest");
    for arguments in [&["apply", "-f", &folder][..], &["apply", "-f", &folder, "--dry-run"], &["validate", &folder]] {
        let first = format!("`far` is also the provenance of {folder}/1-sound.yaml");
        let parts = ["2-wrong.yaml:9:", "3-wrong.yml:9:", &first, "problems in 3 manifests"];
        check_error(&place.run(arguments), 78, &parts);
    }
    assert!(!place.folder.path().join("data").exists(), "nothing was made");
}

on_both!(fn prune_removes_exactly_what_the_folder_lacks);
fn prune_removes_exactly_what_the_folder_lacks(on: On) {
    on.run(|place| {
        let one = manifest("http://127.0.0.1:1");
        let folder = place.folder.path().join("all");
        std::fs::create_dir(&folder).unwrap();
        let folder = folder.display().to_string();
        for code in ["a", "b", "c"] {
            place.file(&format!("all/{code}.yaml"), &one.replace("far", code));
        }
        assert_eq!(ok(&place.run(&["apply", "-f", &folder, "--prune"])), "a created\nb created\nc created\n");
        std::fs::remove_file(place.folder.path().join("all/b.yaml")).unwrap();

        let file = place.folder.path().join("all/a.yaml").display().to_string();
        check_error(&place.run(&["apply", "-f", &file, "--prune"]), 64, &["--prune", "needs folders", "hint: "]);
        assert_eq!(ok(&place.run(&["apply", "-f", &folder])), "a unchanged\nc unchanged\n", "only when asked");
        let stdout = ok(&place.run(&["apply", "-f", &folder, "--prune", "--dry-run"]));
        assert_eq!(stdout, "a is unchanged\nc is unchanged\nb would be removed\n");
        assert_eq!(place.list(&["provenances"]).len(), 3);
        let stdout = ok(&place.run(&["apply", "-f", &folder, "--prune"]));
        assert_eq!(stdout, "a unchanged\nc unchanged\nb removed\n");

        let codes: Vec<_> = place.list(&["provenances"]).iter().map(|row| row["provenance_code"].clone()).collect();
        assert_eq!(codes, ["c", "a"]);
        assert_eq!(place.list(&["endpoints"]).len(), 2);
        check_error(&place.run(&["get", "manifest", "b"]), 78, &["error[NOT_FOUND]", "no manifest is applied for `b`"]);
    });
}

on_both!(fn exported_manifest_equals_the_applied_one);
fn exported_manifest_equals_the_applied_one(on: On) {
    on.run(|place| {
        place.apply(EVERYTHING);
        place.apply(&manifest("http://127.0.0.1:1"));
        let yaml = ok(&place.run(&["get", "manifest", "Everything"]));
        let file = place.file("exported.yaml", &yaml);
        assert_eq!(ok(&place.run(&["apply", "-f", &file])), "everything unchanged\n");
        let document = json_of(&place.run(&["get", "manifest", "everything", "-o", "json"]));
        assert_eq!(document["endpoints"]["search"]["pagination"]["page_size"], 100);

        let folder = place.folder.path().join("backup").display().to_string();
        ok(&place.run(&["get", "manifest", "--all", &folder]));
        let stdout = ok(&place.run(&["apply", "-f", &folder, "--prune"]));
        assert_eq!(stdout, "everything unchanged\nfar unchanged\n");
    });
}

/// Each table has its part of the manifest.
// covers: ING-3.2-01, ING-3.2-02, ING-3.2-03, ING-3.2-05, ING-3.2-06, ING-3.2-07, ING-3.2-08, ING-3.2-09
// covers: ING-3.2-10, ING-3.2-11, ING-3.2-12, ING-3.2-13, ING-3.2-14
#[test]
fn every_table_of_the_registry_holds_its_section() {
    let place = Workspace::sqlite();
    place.apply(EVERYTHING);
    let config = |table: &str, endpoint: &str| -> Value {
        let place_of = |name: &str| {
            if table == "reg_provenance" { String::new() } else { format!(" AND endpoint_name = '{name}'") }
        };
        let sql = format!("SELECT config FROM {table} WHERE provenance_code = 'everything'{}", place_of(endpoint));
        let found = row(&place, &sql).unwrap_or_else(|| panic!("{table} has no row for {endpoint}"));
        serde_json::from_str(&found[0]).unwrap()
    };
    let provenance = config("reg_provenance", "*");
    assert_eq!(provenance["name"], "Every key: all of them");
    assert_eq!((&provenance["allow_http"], &provenance["defaults"]["rate_limit"]["burst"]), (&true.into(), &5.into()));
    assert!(provenance["description"].as_str().unwrap().starts_with("Several lines."));
    let definition = config("reg_prov_endpoint_def", "search");
    assert_eq!(
        (&definition["role"], &definition["method"], &definition["path"], &definition["items_path"]),
        (&"SEARCH".into(), &"GET".into(), &"/search".into(), &"$.ids".into())
    );
    assert_eq!(definition["two_phase"]["detail"], "work");
    let http = config("reg_prov_http_cfg", "children");
    assert_eq!((&http["base_url"], &http["auth"]["type"]), (&"https://other.example.org".into(), &"OAUTH2".into()));
    let pagination = config("reg_prov_pagination_cfg", "search");
    assert_eq!(
        (&pagination["type"], &pagination["page_size"], &pagination["max_page"]),
        (&"TOKEN".into(), &100.into(), &50.into())
    );
    assert_eq!((&pagination["initial"], &pagination["order_by"]), (&"*".into(), &"updated asc".into()));
    let window = config("reg_prov_window_offset_cfg", "search");
    assert_eq!((&window["supports_updated_since"], &window["out_of_range"]), (&true.into(), &"keep".into()));
    assert_eq!(provenance["defaults"]["window"]["safety_lag"], "PT5M");
    assert_eq!(config("reg_prov_retry_cfg", "search")["max_attempts"], 2);
    assert_eq!(provenance["defaults"]["retry"]["retryable_status"], json!([429, 503]));
    assert_eq!(config("reg_prov_rate_limit_cfg", "search")["header_adaptive"], json!(["retry-after"]));
    assert_eq!(provenance["defaults"]["rate_limit"]["quota_daily"], 10_000);
    let params = config("reg_prov_api_param_map", "search");
    assert_eq!(params["query"]["cursor"], "${ page.token }");
    assert_eq!(params["query"]["kind"]["pattern"], "[a-z]*");
    let fields = config("reg_expr_field_dict", "search");
    assert_eq!((&fields["total_path"], &fields["has_more_path"]), (&"$.total".into(), &"$.more".into()));

    // Values that are only in the defaults, overridden for one endpoint.
    let own = manifest("http://127.0.0.1:1").replace(
        "    fields:",
        "    expr: { allowed_functions: [iso], null_policy: empty }\n    batching: { max_records_per_request: 500 }\n    fields:",
    );
    place.apply(&own.replace("provenance: far", "provenance: everything").replace("  records:", "  search:"));
    assert_eq!(config("reg_prov_batching_cfg", "search")["max_records_per_request"], 500);
    assert_eq!(config("reg_prov_expr_capability", "search")["allowed_functions"], json!(["iso"]));
    assert_eq!(config("reg_prov_expr_render_rule", "search")["null_policy"], "empty");
    assert_eq!(row(&place, "SELECT config FROM reg_prov_http_cfg WHERE endpoint_name = 'children'"), None, "gone");

    let item = "SELECT name FROM sys_dict_item WHERE type_code = 'ing_operation' AND item_code = 'HARVEST'";
    assert!(row(&place, item).is_some());
    assert!(row(&place, "SELECT name FROM sys_dict_type WHERE type_code = 'http_method'").is_some());
    let alias = "SELECT item_code FROM sys_dict_item_alias WHERE type_code = 'window_align' AND alias = 'minute'";
    assert_eq!(row(&place, alias), Some(vec!["min".to_owned()]));
    let shown = ok(&place.run(&["get", "dictionary"]));
    assert!(shown.lines().any(|line| line.contains("window_align") && line.contains("minute")), "{shown}");
}

// covers: ING-3.3-01, ING-3.3-02, ING-3.3-03, ING-3.3-04, ING-3.3-05
on_both!(fn spec_names_the_layer_of_each_value);
fn spec_names_the_layer_of_each_value(on: On) {
    on.run(|place| {
        let own = manifest("http://127.0.0.1:1").replace("    http:", "    kind: work\n    http:");
        place.apply(&own);
        let explain = |extra: &[&str]| {
            let arguments = ["get", "spec", "far", "records", "--explain", "-o", "json"];
            json_of(&place.run(&[&arguments[..], extra].concat()))
        };
        let of = |values: &Value, path: &str| {
            let found = values.as_array().unwrap().iter().find(|value| value["path"] == path);
            let found = found.unwrap_or_else(|| panic!("{path}: {values}"));
            (found["value"].clone(), found["layer"].as_str().unwrap().to_owned())
        };
        let values = explain(&["--set", "pagination.page_size=7"]);
        assert_eq!(of(&values, "pagination.page_size"), (7.into(), "trigger".into()));
        assert_eq!(of(&values, "pagination.type").1, "endpoint settings (reg_prov_pagination_cfg)");
        assert_eq!(of(&values, "kind").1, "endpoint definition");
        assert_eq!(of(&values, "rate_limit.burst"), (1_000.into(), "provenance defaults".into()));
        assert_eq!(of(&values, "http.read_timeout").1, "platform");
        assert_eq!(of(&explain(&[]), "pagination.page_size").0, 50);
        let table = ok(&place.run(&["get", "spec", "far", "records", "--explain"]));
        assert!(table.lines().next().is_some_and(|line| line.contains("path") && line.contains("layer")), "{table}");

        let spec = json_of(&place.run(&["get", "spec", "FAR", "Records", "--operation", "backfill"]));
        assert_eq!((&spec["operation"], &spec["pagination"]["pageSize"]), (&"BACKFILL".into(), &50.into()));
        assert_eq!((&spec["provenanceCode"], &spec["endpointCode"]), (&"far".into(), &"records".into()));
        assert!(spec["specFingerprint"].as_str().is_some_and(|hash| hash.starts_with("v1:")));
        let get = |extra: &[&str]| place.run(&[&["get", "spec"], extra].concat());
        let before = place.run(&["get", "-o", "ndjson", "spec", "far", "records"]);
        assert_eq!(ok(&before).lines().count(), 1, "options may stand before the word, too");
        for wrong in
            [&["get", "tasks", "spec", "far", "records"][..], &["get", "--plan", "1", "spec", "far", "records"]]
        {
            check_error(&place.run(wrong), 64, &["for lists"]);
        }
        check_error(&get(&["far", "recods"]), 78, &["`far` has no endpoint `recods`", "it has: records"]);
        check_error(&get(&["fare", "records"]), 78, &["no manifest is applied for `fare`"]);
        check_error(&get(&["far", "records", "--set", "http.path=/x"]), 64, &["cannot be overridden", "--set takes:"]);
        check_error(&get(&["far", "records", "--set", "rate_limit.burst=2000"]), 78, &["not raise it"]);
    });
}

#[test]
fn the_schema_is_json_and_knows_the_sections() {
    let schema = json_of(&Workspace::sqlite().run(&["schema"]));
    assert!(schema["properties"]["provenance"].is_object() && schema["$schema"].is_string(), "{schema}");
}

on_both!(manifest_change_affects_only_later_plans);
/// The manifest changes while a plan is in progress, and another plan is made after it.
// covers: ING-3.1-02, ING-3.1-03, ING-3.1-05, ING-3.3-21, ING-3.5-01, ING-3.5-02, ING-3.5-04
// covers: ING-3.10-01, ING-3.10-02, ING-3.10-03, ING-8.1-04
async fn manifest_change_affects_only_later_plans(on: On) {
    let server = MockApi::start(
        ([127, 0, 0, 1], 0).into(),
        Dataset::new(7, 1_000),
        Script { latency_ms: 300, ..Script::default() },
    )
    .unwrap();
    let one = manifest(server.base_url());
    // Another page size does not change the meaning: the cursor stays, and only the requests change.
    let other = one.replace("page_size: 50", "page_size: 20");
    for place in on.places() {
        server.script().update(|script| script.latency_ms = 300);
        let seen = server.stats().data_requests;
        place.apply(&one);
        let run = ["run", "far", "records", "--to", "2024-01-01T12:00:00Z", "--concurrency", "1", "--lease-secs", "2"];
        let mut child = place.patra().args(run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        while server.stats().data_requests < seen + 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let planned = place.list(&["plans"]);
        let spec = planned[0]["spec_fingerprint"].clone();
        assert_eq!(planned.len(), 1);
        assert!(place.list(&["tasks"]).iter().any(|task| task["status_code"] != "SUCCEEDED"), "it is still open");
        // The initial watermark of the manifest is UTC, and windows are half-open.
        assert_eq!(planned[0]["window_from"], "2024-01-01T00:00:00.000000000Z");
        assert_eq!(planned[0]["window_to"], "2024-01-01T12:00:00.000000000Z");

        server.script().update(|script| script.latency_ms = 0);
        place.apply(&other);
        let registered = place.list(&["provenances"]);
        assert!(place.run(&["run", "far", "records", "--to", "2024-01-01T12:00:00Z"]).status.success());
        let run = ["run", "far", "records", "--to", "2024-01-02"];
        assert!(place.run(&run).status.success());
        assert_eq!(place.list(&["provenances"]), registered, "running changes no configuration");

        let plans = place.list(&["plans"]);
        let (old, new) = (plans.iter().find(|plan| plan["id"] == planned[0]["id"]).unwrap(), &plans[0]);
        assert_eq!(old["spec_fingerprint"], spec, "the old plan has its old spec");
        assert_ne!(new["spec_fingerprint"], spec);
        for batch in place.list(&["batches"]) {
            let expected = if batch["plan_id"] == old["id"] { 50 } else { 20 };
            assert_eq!(batch["page_size"], expected, "{batch}");
        }
        let ids: std::collections::BTreeSet<_> =
            place.list(&["items"]).iter().map(|item| item["dedup_key"].to_string()).collect();
        assert_eq!(ids.len(), 1_000, "and nothing was left out");

        if place.database_url().is_none() {
            check_context(&place, old["id"].as_i64().unwrap());
        }
    }
}

/// Plan, slice and task contain everything to repeat the work; the snapshot is stored once, under the plan's hash.
fn check_context(place: &Workspace, plan: i64) {
    let found = row(
        place,
        &format!(
            "SELECT plan.spec_fingerprint, plan.expr_proto_hash, snapshot.hash, snapshot.body, slice.expr_hash,
               slice.slice_signature_hash, slice.slice_spec, slice.expr_snapshot, task.params, task.expr_hash,
               task.idempotent_key
             FROM ing_plan AS plan JOIN ing_snapshot AS snapshot ON snapshot.hash = plan.spec_fingerprint
             JOIN ing_plan_slice AS slice ON slice.plan_id = plan.id JOIN ing_task AS task ON task.slice_id = slice.id
             WHERE plan.id = {plan} ORDER BY slice.id"
        ),
    );
    let found = found.expect("a slice with its plan and its snapshot");
    let body: Value = serde_json::from_str(&found[3]).unwrap();
    assert_eq!(body["specFingerprint"], found[0].as_str());
    assert_eq!(body["pagination"]["pageSize"], 50, "the snapshot is that of the old manifest");
    for hash in [0, 1, 2, 4, 5, 9] {
        assert!(found[hash].starts_with("v1:"), "{found:?}");
    }
    assert_eq!(found[4], found[9], "the task runs the slice's expression");
    let slice: Value = serde_json::from_str(&found[6]).unwrap();
    assert!(slice["window"].is_object(), "{slice}");
    let local: Value = serde_json::from_str(&found[7]).unwrap();
    assert!(local.to_string().contains("2024-01-01T00:00:00"), "the slice's own window: {local}");
    assert!(serde_json::from_str::<Value>(&found[8]).unwrap().is_object());
    assert!(!found[10].is_empty());
}
