//! An unstable upstream: temporary faults are waited for, and windows that are too large are split.

use std::collections::BTreeSet;

use patra_upstream::{Dataset, FaultSchedule, MockApi, RetryAfter, Script, TruncateMode};
use serde_json::Value;

use crate::support::{On, manifest};

/// About every third request fails, in one of four ways.
fn trouble() -> Script {
    Script {
        e500: FaultSchedule::every(9),
        e429: FaultSchedule::every(13),
        retry_after: RetryAfter::Absent,
        reset: FaultSchedule::every(17),
        truncate: FaultSchedule::every(11),
        truncate_mode: TruncateMode::Close,
        ..Script::default()
    }
}

fn number(row: &Value, name: &str) -> u64 {
    row["stats"][name].as_u64().unwrap_or_default()
}

// covers: ING-DOD-02, ING-DOD-07, ING-DOD-14
on_both!(temporary_faults_are_retried_and_the_cursor_reaches_the_end);
async fn temporary_faults_are_retried_and_the_cursor_reaches_the_end(on: On) {
    for place in on.places() {
        let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(3, 2_000), trouble()).unwrap();
        // The circuit breaker is for an upstream that is down, not for one with single faults.
        let patient = manifest(server.base_url()) + "    health: { circuit_after: 100 }\n";
        place.apply(&patient);
        let run = ["run", "far", "records", "--to", "2024-01-03", "-o", "json"];
        let report = place.run(&run);
        assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!(report["cursor"], "2024-01-03T00:00:00Z", "{report}");
        let expected: BTreeSet<String> = server.dataset().records().map(|(id, ..)| id.to_owned()).collect();
        let items = place.list(&["items"]);
        let stored: BTreeSet<String> =
            items.iter().map(|item| item["dedup_key"].as_str().unwrap().to_owned()).collect();
        assert_eq!((items.len(), stored), (expected.len(), expected));

        // Repeated batches that succeeded in the end.
        let batches = place.list(&["batches"]);
        let retried: Vec<_> = batches.iter().filter(|batch| number(batch, "retryCount") > 0).collect();
        let came = retried.iter().filter(|batch| batch["status_code"] == "SUCCEEDED").count();
        assert!(retried.len() >= 10, "{} batches were tried again", retried.len());
        assert!(came * 100 >= retried.len() * 95, "{came} of {}", retried.len());
        let mut seen = BTreeSet::new();
        assert!(batches.iter().all(|batch| seen.insert((batch["run_id"].to_string(), batch["batch_no"].to_string()))));

        // 429 slows down later requests, and the ledger shows it.
        let slowed = batches.iter().filter(|batch| batch["stats"]["selfHealing"]["qpsDownshift"] == true).count();
        assert!(server.stats().r429 > 0 && slowed > 0, "{slowed} batches under a lowered rate");
    }
}

/// Windows of twelve hours in pages of twenty; a slice may have three pages.
fn dense(base_url: &str) -> String {
    format!(
        r#"
provenance: far
allow_http: true
defaults: {{ rate_limit: {{ refill_rate_per_sec: 10000, burst: 1000 }} }}
endpoints:
  records:
    http: {{ base_url: "{base_url}", path: /offset }}
    query: {{ offset: "${{ page.offset }}", limit: "${{ page.size }}", from: "${{ window.from | iso }}", to: "${{ window.to | iso }}" }}
    pagination: {{ type: offset, page_size: 20 }}
    window: {{ supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: PT12H, align: min, initial: 2024-01-01 }}
    limits: {{ page_depth: 3 }}
    response: {{ items_path: $.items, id_path: $.id, updated_at_path: $.updated_at, total_path: $.total }}
"#
    )
}

// covers: ING-DOD-18
on_both!(window_with_too_many_pages_is_split_and_completed);
async fn window_with_too_many_pages_is_split_and_completed(on: On) {
    let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(5, 1_000), Script::default()).unwrap();
    for place in on.places() {
        place.apply(&dense(server.base_url()));
        let output = place.run(&["run", "far", "records", "--to", "2024-01-02"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let (replaced, read): (Vec<_>, Vec<_>) =
            place.list(&["tasks"]).into_iter().partition(|task| task["replaced"] == 1);
        assert!(!replaced.is_empty() && replaced.iter().all(|task| task["status_code"] == "PARTIAL"));
        assert!(read.len() > 8, "{} smaller windows", read.len());
        for task in &read {
            assert_eq!(task["status_code"], "SUCCEEDED", "{task}");
            // Three pages, and a request after their end: without a lag there may be more by then.
            assert!(task["items"].as_u64() <= Some(80), "{task}");
        }
        let mut windows: Vec<_> =
            read.iter().map(|task| (task["window_from"].to_string(), task["window_to"].to_string())).collect();
        windows.sort();
        assert_eq!(windows[0].0, r#""2024-01-01T00:00:00.000000000Z""#);
        assert_eq!(windows[windows.len() - 1].1, r#""2024-01-02T00:00:00.000000000Z""#);
        assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "{windows:?}");
        assert_eq!(place.list(&["items"]).len(), server.dataset().len());
        assert_eq!(place.list(&["cursors"])[0]["normalized_instant"], "2024-01-02T00:00:00.000000000Z");
    }
}

/// Tables that fail with an I/O error on their first writes, then no more.
const FAILING: &str = "
CREATE FUNCTION fail_a_few_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF nextval('writes_of_' || TG_TABLE_NAME) <= 4 THEN
    RAISE EXCEPTION 'could not write block 7: No space' USING ERRCODE = '58030';
  END IF;
  RETURN NEW;
END $$;";

/// The server's own trouble is not the fault of the task that meets it: it is tried until it passes.
#[tokio::test(flavor = "multi_thread")]
async fn passing_io_errors_of_postgres_fail_no_task() {
    for place in On::Postgres.places() {
        let server = MockApi::start(([127, 0, 0, 1], 0).into(), Dataset::new(3, 600), Script::default()).unwrap();
        place.apply(&manifest(server.base_url()));
        place.sql(FAILING);
        for table in ["ing_plan", "ing_task_run", "ing_task_run_batch", "item", "ing_cursor_event"] {
            place.sql(&format!(
                "CREATE SEQUENCE writes_of_{table}; CREATE TRIGGER failing BEFORE INSERT ON {table} FOR EACH ROW \
                 EXECUTE FUNCTION fail_a_few_times()"
            ));
        }
        place.sql(
            "CREATE SEQUENCE writes_of_ing_task; CREATE TRIGGER failing BEFORE UPDATE ON ing_task FOR EACH ROW \
             WHEN (NEW.status_code = 'SUCCEEDED') EXECUTE FUNCTION fail_a_few_times()",
        );
        let report = place.run(&["run", "far", "records", "--to", "2024-01-03", "-o", "json"]);
        assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
        let report: Value = serde_json::from_slice(&report.stdout).unwrap();
        assert_eq!((&report["tasks_failed"], &report["tasks_partial"]), (&0.into(), &0.into()), "{report}");
        assert_eq!(report["cursor"], "2024-01-03T00:00:00Z", "{report}");
        assert_eq!(place.list(&["items"]).len(), server.dataset().len());
        assert!(place.list(&["tasks"]).iter().all(|task| task["status_code"] == "SUCCEEDED"));
        let met = place.sql("SELECT min(last_value) FROM pg_sequences WHERE sequencename LIKE 'writes_of_%'");
        assert!(met[0].parse::<u64>().unwrap() > 4, "every table failed and recovered: {met:?}");
    }
}
