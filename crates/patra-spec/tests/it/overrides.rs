//! Overrides of a job.

use patra_spec::{Manifest, Operation, Overrides, compile, compile_with};
use serde_json::json;

use crate::{EVERYTHING, WORKS, manifest};

/// The problems of the pairs, or the parsed overrides.
fn check(pairs: &[&str], expected: &str) {
    let shown = match Overrides::parse(pairs) {
        Ok(overrides) => {
            assert_eq!(Overrides::from_json(&overrides.to_json()).unwrap(), overrides, "JSON and back");
            overrides.to_json().to_string()
        }
        Err(problems) => problems.to_string(),
    };
    assert_eq!(shown, expected);
}

#[test]
fn overrides_are_parsed_and_problems_reported() {
    check(&[], "{}");
    check(
        &["pagination.page_size=50", " window.max_window = PT60M", "rate_limit.refill_rate_per_sec=0.5"],
        r#"{"pagination.page_size":50,"rate_limit.refill_rate_per_sec":0.5,"window.max_window":"PT1H"}"#,
    );
    check(
        &["pagination.pagesize=50"],
        "--set pagination.pagesize: \"pagination.pagesize\" cannot be overridden\n  hint: did you mean `pagination.page_size`?",
    );
    check(
        &["http.base_url=https://evil.example"],
        "--set http.base_url: \"http.base_url\" cannot be overridden\n  hint: expected one of: pagination.page_size, pagination.max_page, rate_limit.refill_rate_per_sec, rate_limit.burst, window.max_window, window.safety_lag, batching.id_batch_size, retry.max_attempts",
    );
    check(
        &["rate_limit.burst=-1", "window.safety_lag=10m", "retry.max_attempts"],
        "--set rate_limit.burst: \"-1\" is not a whole number\n  hint: write rate_limit.burst=10\n--set window.safety_lag: \"10m\" is not an ISO-8601 duration\n  hint: write window.safety_lag=PT1H\n--set retry.max_attempts: a value is missing\n  hint: write retry.max_attempts=10",
    );
    check(
        &["rate_limit.burst=1", "rate_limit.burst=2"],
        "--set rate_limit.burst: set twice\n  hint: write rate_limit.burst=10",
    );
    check(
        &["rate_limit.refill_rate_per_sec=NaN"],
        "--set rate_limit.refill_rate_per_sec: \"NaN\" is not a number\n  hint: write rate_limit.refill_rate_per_sec=0.5",
    );
    assert!(Overrides::from_json(&json!([1])).is_err());
    assert!(Overrides::from_json(&json!({ "rate_limit.burst": null })).is_err());
    assert_eq!(Overrides::from_json(&json!(null)).unwrap(), Overrides::default());
    assert_eq!(
        Overrides::from_json(&json!({ "rate_limit.burst": 2 })).unwrap(),
        Overrides::parse(["rate_limit.burst=2"]).unwrap()
    );
}

/// Compiles with one override; returns the problems, or an empty text.
fn compiled(manifest: &Manifest, name: &str, pair: &str) -> String {
    let overrides = Overrides::parse([pair]).unwrap();
    compile_with(manifest, name, Operation::Harvest, &overrides)
        .map_or_else(|problems| problems.to_string(), |_| String::new())
}

// covers: ING-3.3-03, ING-3.3-10, ING-4.17-06
#[test]
fn overrides_may_lower_rates_but_not_raise_them() {
    let works = manifest(WORKS);
    let with = |pair: &str| compiled(&works, "works", pair);
    assert_eq!(with("rate_limit.refill_rate_per_sec=10"), "");
    assert_eq!(with("rate_limit.refill_rate_per_sec=0.5"), "");
    assert_eq!(with("rate_limit.burst=1"), "");
    assert_eq!(
        with("rate_limit.refill_rate_per_sec=10.5"),
        "--set rate_limit.refill_rate_per_sec: 10.5 is more than the registry's 10\n  hint: a job may lower a rate, not raise it"
    );
    assert_eq!(
        with("rate_limit.burst=11"),
        "--set rate_limit.burst: 11 is more than the registry's 10\n  hint: a job may lower a rate, not raise it"
    );
    // Without a registered rate, the platform's is the limit.
    let silent = manifest(&WORKS.replace("rate_limit: { refill_rate_per_sec: 10, burst: 10 }", "retry: {}"));
    assert!(compiled(&silent, "works", "rate_limit.refill_rate_per_sec=2").contains("more than the registry's 1"));
    // The same checks as for a file, but without a file position.
    assert_eq!(with("pagination.page_size=0"), "--set pagination.page_size: expected 1 to 10000 items");
    assert_eq!(with("rate_limit.refill_rate_per_sec=0").lines().count(), 1);
    assert!(with("window.max_window=PT30M").starts_with("--set ") || with("window.max_window=PT30M").contains("align"));
}

// covers: ING-3.3-03
#[test]
fn overrides_are_in_the_snapshot() {
    let works = manifest(WORKS);
    let overrides = Overrides::parse([
        "pagination.page_size=7",
        "pagination.max_page=3",
        "rate_limit.refill_rate_per_sec=0.25",
        "rate_limit.burst=2",
        "window.max_window=PT2H",
        "window.safety_lag=PT1M",
        "retry.max_attempts=2",
    ])
    .unwrap();
    let snapshot = compile_with(&works, "works", Operation::Harvest, &overrides).unwrap().snapshot;
    let paging = snapshot.pagination.as_ref().unwrap();
    assert_eq!((paging.page_size, paging.max_page, snapshot.retry.max_attempts), (Some(7), Some(3), 2));
    assert_eq!((snapshot.rate_limit.qps, snapshot.rate_limit.burst), (0.25, 2));
    assert_eq!((snapshot.cut().max_width.as_secs(), snapshot.safety_lag().as_secs()), (7_200, 60));
    // The page size is not part of the selection: the cursor continues.
    let plain = compile(&works, "works", Operation::Harvest).unwrap().snapshot;
    assert_eq!(snapshot.selection_hash(), plain.selection_hash());
    assert_eq!(compile_with(&works, "works", Operation::Harvest, &Overrides::default()).unwrap().snapshot, plain);
}

#[test]
fn overrides_require_their_section() {
    let works = manifest(WORKS);
    let nothing = "the endpoint does not have this section, so there is nothing to override";
    assert_eq!(
        compiled(&works, "works", "batching.id_batch_size=5"),
        format!("--set batching.id_batch_size: {nothing}")
    );
    let everything = manifest(EVERYTHING);
    assert_eq!(compiled(&everything, "search", "batching.id_batch_size=25"), "");
    let table = Overrides::parse(["pagination.page_size=5"]).unwrap();
    let problems = compile_with(&everything, "table", Operation::Update, &table).unwrap_err();
    assert_eq!(problems.to_string(), format!("--set pagination.page_size: {nothing}"));
    assert!(compiled(&works, "wroks", "rate_limit.burst=1").contains("did you mean `works`?"));
}

/// The detail endpoint is on the same upstream, so the lowered rate applies to it too.
#[test]
fn lowered_rate_applies_to_details() {
    let everything = manifest(EVERYTHING);
    let overrides = Overrides::parse(["rate_limit.refill_rate_per_sec=0.5", "rate_limit.burst=2"]).unwrap();
    let snapshot = compile_with(&everything, "search", Operation::Harvest, &overrides).unwrap().snapshot;
    let detail = &snapshot.two_phase.as_ref().unwrap().detail.rate_limit;
    assert_eq!((detail.qps, detail.burst), (0.5, 2));
    let plain = compile(&everything, "search", Operation::Harvest).unwrap().snapshot;
    assert_eq!(plain.two_phase.unwrap().detail.rate_limit.qps, 2.5);
}
