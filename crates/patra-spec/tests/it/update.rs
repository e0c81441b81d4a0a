//! UPDATE: its settings, and the generation of mapping rules.

use patra_core::state::UpdateReason;
use patra_spec::{Operation, Overrides, Snapshot, compile, compile_with, registry};

use crate::{EVERYTHING, manifest};

/// A search that returns whole records, and an endpoint that returns one by id.
const LIST: &str = "\
provenance: shop
endpoints:
  orders:
    http: { base_url: \"https://x.org\", path: /orders, headers: { X-A: b } }
    query: { since: \"${ window.from | iso }\" }
    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }
    update: { detail: order }
    response: { items_path: $.orders, id_path: $.id, updated_at_path: $.at, total_path: $.n }
    record: { filter: [{ path: $.kind, equals: order }] }
    fields: { title: $.title }
    rate_limit: { refill_rate_per_sec: 5 }
  order:
    role: detail
    http: { base_url: \"https://x.org\", path: \"/orders/${ id }\" }
    response: { items_path: $.order, id_path: $.id, updated_at_path: $.at }
    fields: { title: $.title }
    rate_limit: { refill_rate_per_sec: 5 }
";

fn compiled(yaml: &str, operation: Operation) -> Snapshot {
    compile(&manifest(yaml), "orders", operation).unwrap_or_else(|problems| panic!("{problems}\n{yaml}")).snapshot
}

// covers: ING-6.3-05
#[test]
fn update_is_the_second_phase_alone() {
    let spec = compiled(LIST, Operation::Update);
    let details = spec.two_phase.as_ref().unwrap();
    assert_eq!((details.linked_endpoint.as_str(), details.enabled), ("order", true));
    assert_eq!((details.detail.operation, details.detail.endpoint_code.as_str()), (Operation::Update, "order"));
    assert_eq!(details.detail.fingerprint(), details.detail.spec_fingerprint);
    assert_eq!((details.detail.two_phase.is_some(), &details.detail.update), (false, &None));
    assert_eq!(spec.batching.id_batch_size, 1, "one id at a time");
    let update = spec.update.as_ref().unwrap();
    assert_eq!((update.stale_after.to_string().as_str(), update.segment_size), ("P30D", 500));
    assert_eq!(Snapshot::from_body(&spec.body()).unwrap(), spec);
    // The other operations still read the records of the search.
    for operation in [Operation::Harvest, Operation::Backfill] {
        let spec = compiled(LIST, operation);
        assert_eq!((spec.two_phase.is_none(), &spec.update, spec.batching.id_batch_size), (true, &None, 200));
    }
    let compiled_update = compiled(
        &LIST.replace("detail: order }", "detail: order, stale_after: P7D, segment_size: 100000 }"),
        Operation::Update,
    );
    let update = compiled_update.update.unwrap();
    assert_eq!((update.stale_after.to_string().as_str(), update.segment_size), ("P7D", 100_000));
}

/// C-51: UPDATE reads no window.
#[test]
fn update_needs_neither_window_nor_watermark() {
    let window = "    window: { supports_updated_since: true, watermark_key: updated_at, initial: 2024-01-01 }\n";
    let yaml = LIST.replace(window, "").replace("    query: { since: \"${ window.from | iso }\" }\n", "");
    assert!(compile(&manifest(&yaml), "orders", Operation::Harvest).is_err());
    let warnings = compile(&manifest(&yaml), "orders", Operation::Update).unwrap().warnings;
    assert_eq!(warnings, [""; 0], "no warnings about windows and totals");
}

#[test]
fn update_uses_the_two_phase_detail() {
    let yaml = LIST.replace("update: { detail: order }", "two_phase: { detail: order, missing: ignore }");
    let (update, harvest) = (compiled(&yaml, Operation::Update), compiled(&yaml, Operation::Harvest));
    let (details, same) = (update.two_phase.unwrap(), harvest.two_phase.unwrap());
    assert_eq!((&details.linked_endpoint, details.missing), (&same.linked_endpoint, same.missing));
    assert_eq!(details.detail.http, same.detail.http);
    assert_eq!(update.update, Some(Default::default()));
    // Each operation uses its own detail endpoint.
    let other = "  whole:\n    role: detail\n    http: { base_url: \"https://x.org\", path: /w }\n    query: { ids: \"${ ids | join(',') }\" }\n    response: { items_path: $, id_path: $.id, updated_at_path: $.at }\n";
    let yaml = yaml.replace(
        "    two_phase:",
        "    batching: { id_batch_size: 50 }\n    update: { detail: whole }\n    two_phase:",
    ) + other;
    let (update, harvest) = (compiled(&yaml, Operation::Update), compiled(&yaml, Operation::Harvest));
    assert_eq!((update.two_phase.unwrap().linked_endpoint.as_str(), update.batching.id_batch_size), ("whole", 50));
    assert_eq!((harvest.two_phase.unwrap().linked_endpoint.as_str(), harvest.batching.id_batch_size), ("order", 1));
}

#[test]
fn overrides_lower_the_rate_of_update_details() {
    let overrides = Overrides::parse(["rate_limit.refill_rate_per_sec=0.5", "batching.id_batch_size=7"]).unwrap();
    let many = LIST.replace("path: \"/orders/${ id }\"", "path: \"/orders/${ ids | join(',') }\"");
    let spec = compile_with(&manifest(&many), "orders", Operation::Update, &overrides).unwrap().snapshot;
    assert_eq!((spec.two_phase.unwrap().detail.rate_limit.qps, spec.batching.id_batch_size), (0.5, 7));
}

/// A stored manifest is checked again, including its detail endpoint.
#[test]
fn detail_problems_fail_the_update() {
    let mut document = manifest(LIST).to_document();
    document["endpoints"]["order"]["query"] = serde_json::json!({ "x": "${ nope }" });
    let stored = patra_spec::Manifest::from_document(&document).unwrap();
    let problems = compile(&stored, "orders", Operation::Update).unwrap_err().to_string();
    assert!(problems.starts_with("endpoints.order.query.x: there is no variable `nope`"), "{problems}");
    assert!(compile(&stored, "orders", Operation::Harvest).is_ok(), "HARVEST does not use it");
}

/// C-62: which records UPDATE with reason EXPR_CHANGE selects.
#[test]
fn mapping_generation_changes_with_the_mapping_rules() {
    let generation = |yaml: &str, operation| compiled(yaml, operation).mapping_generation();
    for operation in [Operation::Harvest, Operation::Update] {
        let base = generation(LIST, operation);
        let changed = |from: &str, to: &str| {
            // Both endpoints contain the same text, so both are changed.
            assert!(LIST.contains(from), "{from}");
            generation(&LIST.replace(from, to), operation) != base
        };
        for (from, to) in [
            ("title: $.title", "title: $.name"),
            ("title: $.title", "title: { path: $.title, type: string }"),
            ("title: $.title", "title: $.title, more: $.more"),
            ("updated_at_path: $.at", "updated_at_path: $.changed"),
            ("updated_at_path: $.at", "updated_at_path: $.at, updated_at_format: epoch"),
            ("id_path: $.id", "id_path: [$.id, $.b]"),
            ("items_path: $.", "lenient: true, items_path: $."),
            ("    fields:", "    kind: work\n    fields:"),
        ] {
            assert!(changed(from, to), "{operation} {from} -> {to}");
        }
        for (from, to) in [
            ("refill_rate_per_sec: 5", "refill_rate_per_sec: 2, burst: 3"),
            ("X-A: b", "X-A: c"),
            ("https://x.org", "https://y.org"),
            ("    rate_limit:", "    limits: { concurrency: 1 }\n    health: { circuit_after: 9 }\n    rate_limit:"),
            ("initial: 2024-01-01", "initial: 2023-01-01, max_window: PT1H"),
            (", total_path: $.n", ", total_path: $.m, errors: [{ path: $.error }]"),
            ("window.from | iso", "window.from | date"),
            ("update: { detail: order }", "update: { detail: order, stale_after: P1D }"),
            ("    rate_limit:", "    retry: { max_attempts: 2 }\n    raw: { keep: P1D }\n    rate_limit:"),
        ] {
            assert!(!changed(from, to), "{operation} {from} -> {to}");
        }
    }
    // Only the endpoint that returns the records counts.
    let filter = "    record: { filter: [{ path: $.kind, equals: order }] }\n";
    for (operation, differs) in [(Operation::Harvest, true), (Operation::Update, false)] {
        let without = generation(&LIST.replace(filter, ""), operation);
        assert_eq!(without != generation(LIST, operation), differs, "{operation}");
    }
}

// covers: ING-5.2-01, all but triggers by hand
#[test]
fn each_operation_has_its_own_schedule() {
    let manifest = manifest(EVERYTHING);
    let schedules = |name: &str| {
        let all = registry::schedules(&manifest.endpoints[name]);
        let shown = all.iter().map(|one| {
            let reason = one.reason.map_or("-", UpdateReason::as_str);
            format!("{} {reason} {}", one.operation, one.recurrence.to_text())
        });
        shown.collect::<Vec<_>>()
    };
    assert_eq!(
        schedules("search"),
        [
            "HARVEST - every 3600000000",
            "UPDATE STALENESS cron 0 3 * * *",
            "UPDATE EXPR_CHANGE every 86400000000",
            "UPDATE SIGNALS every 600000000"
        ]
    );
    assert_eq!(schedules("by-link"), ["HARVEST - cron */15 6-18 * * mon-fri"]);
    assert_eq!(schedules("work"), [""; 0]);
}

#[test]
fn schedules_are_kept_as_they_were_written() {
    let manifest = manifest(EVERYTHING);
    let schedule = manifest.endpoints["search"].schedule.clone().unwrap();
    let update: Vec<_> =
        schedule.update.iter().map(|one| (one.reason, one.cron.as_deref(), one.every.is_some())).collect();
    assert_eq!(
        update,
        [
            (Some(UpdateReason::Staleness), Some("0 3 * * *"), false),
            (Some(UpdateReason::ExprChange), None, true),
            (Some(UpdateReason::Signals), None, true),
        ]
    );
    let yaml = patra_spec::to_yaml(&manifest);
    assert!(yaml.contains("      update:\n        - reason: staleness\n          cron: \"0 3 * * *\"\n"), "{yaml}");
}
