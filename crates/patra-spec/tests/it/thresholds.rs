//! Thresholds: defaults, settings, and their documentation in the reference.

use patra_spec::{Operation, Overrides, SettingLayer, Snapshot, compile, explain};
use serde_json::{Value, json};

use crate::{EVERYTHING, WORKS, manifest};

const REFERENCE: &str = include_str!("../../../../docs/manifest.md");

pub(crate) fn limits() -> Value {
    json!({
        "concurrency": 4, "inventory": 1000, "pageDepth": 200, "maxRequests": 800, "maxDuration": "PT15M",
        "errorRatio": 0.1,
    })
}

pub(crate) fn health() -> Value {
    json!({
        "throttleRatio": 0.05, "throttleWindow": "PT5M", "failureRatio": 0.02, "slowBatch": "PT3S", "circuitAfter": 3,
        "circuitOpen": "PT1M", "rateFloor": 0.3, "minPageSize": 10, "largeResponseBytes": 5_242_880,
    })
}

fn snapshot(yaml: &str, endpoint: &str) -> Snapshot {
    compile(&manifest(yaml), endpoint, Operation::Harvest).unwrap_or_else(|problems| panic!("{problems}")).snapshot
}

/// `WORKS` with more lines in its endpoint.
fn works(lines: &str) -> String {
    WORKS.replace("    kind: work\n", &format!("    kind: work\n    {lines}\n"))
}

// covers: ING-12.2-08
#[test]
fn reference_documents_the_defaults() {
    let all = explain(&manifest(WORKS), "works", Operation::Harvest, &Overrides::default()).unwrap();
    let found = all.iter().filter(|one| one.path.starts_with("limits.") || one.path.starts_with("health."));
    let found: Vec<_> = found.collect();
    assert_eq!(found.len(), 16);
    for one in found {
        assert_eq!(one.layer, SettingLayer::Platform);
        let line = REFERENCE.lines().find(|line| line.starts_with(&format!("| `{}` |", one.path)));
        let cells: Vec<_> = line.unwrap_or_else(|| panic!("no line for {}", one.path)).split(" | ").collect();
        let value = one.value.as_str().map_or_else(|| one.value.to_string(), str::to_owned);
        assert_eq!(cells[2].trim_matches('`'), value, "{}", one.path);
    }
}

// covers: ING-12.2-08, ING-13.1-01, the share of a partition
#[test]
fn thresholds_can_be_set_by_provenance_and_endpoint() {
    let spec = snapshot(EVERYTHING, "search");
    let json: Value = serde_json::from_str(&spec.body()).unwrap();
    assert_eq!(
        json["limits"],
        json!({
            "concurrency": 1, "inventory": 500, "pageDepth": 100, "maxRequests": 400, "maxDuration": "PT10M",
            "errorRatio": 0.25, "missingRatio": 0.75,
        })
    );
    assert_eq!(
        json["health"],
        json!({
            "throttleRatio": 0.1, "throttleWindow": "PT2M", "failureRatio": 0.04, "slowBatch": "PT5S",
            "circuitAfter": 2, "circuitOpen": "PT30S", "rateFloor": 0.5, "minPageSize": 20, "largeResponseBytes": 1_048_576,
        })
    );
    assert_eq!(spec.raw_keep.map(|keep| keep.to_string()).as_deref(), Some("P7D"));
    assert_eq!(snapshot(WORKS, "works").raw_keep, None);
    assert_eq!(snapshot(&works("raw: {}"), "works").raw_keep, None);
    // Another endpoint has its own thresholds, and so has another operation of the same endpoint.
    let own = snapshot(&works("limits: { concurrency: 9 }"), "works");
    assert_eq!((own.limits.concurrency, own.limits.inventory), (9, 1_000));
    let backfill = compile(&manifest(EVERYTHING), "search", Operation::Backfill).unwrap().snapshot;
    assert_eq!(backfill.limits.concurrency, 1);
}

/// A changed threshold changes the snapshot but not the cursor.
#[test]
fn thresholds_are_in_the_snapshot_but_not_in_the_selection() {
    let base = snapshot(WORKS, "works");
    for lines in [
        "limits: { concurrency: 9 }",
        "limits: { error_ratio: 0.9, page_depth: 7 }",
        "health: { circuit_after: 9 }",
        "health: { rate_floor: 1, slow_batch: PT9S }",
        "raw: { keep: PT1H }",
    ] {
        let other = snapshot(&works(lines), "works");
        assert_ne!(other.fingerprint(), base.fingerprint(), "{lines}");
        assert_eq!(other.selection_hash(), base.selection_hash(), "{lines}");
        assert_eq!(other.mapping_generation(), base.mapping_generation(), "{lines}");
        assert_eq!(Snapshot::from_body(&other.body()).unwrap(), other);
    }
}

#[test]
fn page_range_is_in_the_snapshot() {
    let spec = snapshot(EVERYTHING, "by-offset");
    assert_eq!(spec.pagination.as_ref().unwrap().page_range, Some(10));
    let without = snapshot(&EVERYTHING.replace(", page_range: 10", ""), "by-offset");
    assert_eq!(without.pagination.as_ref().unwrap().page_range, None);
    assert_eq!(without.selection_hash(), spec.selection_hash());
    assert_ne!(without.fingerprint(), spec.fingerprint());
}

// covers: ING-4.10-04, ING-4.10-06, ING-4.10-36, ING-4.10-39
#[test]
fn rate_key_follows_the_scope() {
    let key = |lines: &str| snapshot(&works(lines), "works").gate_key();
    let base = snapshot(WORKS, "works");
    let (source, host) = (base.provenance_code.clone(), base.http.base_url.split('/').nth(2).unwrap().to_owned());
    assert_eq!(base.gate_key(), format!("{source}/works"));
    assert_eq!(key("rate_limit: { scope: source }"), source);
    assert_eq!(key("rate_limit: { scope: host }"), format!("host:{host}"));
    assert_eq!(key("rate_limit: { scope: credential }"), format!("credential:{source}"), "it names none");
    let shared = "rate_limit: { scope: credential }\n    auth: { type: bearer, credential: team }";
    assert_eq!(key(shared), "credential:team", "whoever names it shares it");
    let limits =
        snapshot(&works("rate_limit: { quota_hourly: 7, quota_daily: 70, warmup_sec: 9, demote_rate: 3 }"), "works")
            .gate_limits();
    assert_eq!((limits.quotas.hourly, limits.quotas.daily), (Some(7), Some(70)));
    assert_eq!((limits.warmup.as_secs(), limits.demote), (9, 3.0));
    let platform = patra_spec::snapshot::RateLimitSpec::default();
    assert_eq!((platform.qps, platform.burst, platform.demote_rate, platform.quota_daily), (1.0, 1, 2.0, None));
}
