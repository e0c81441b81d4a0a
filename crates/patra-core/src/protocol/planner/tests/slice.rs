use super::*;
use crate::time::Ts;
use crate::tx::{IdRange, RefreshCriteria};

fn shape() -> SliceContext {
    SliceContext {
        project_key: "default".into(),
        provenance_code: "p".into(),
        endpoint_name: "e".into(),
        operation: Operation::Harvest,
        watermark_key: "updated\\at\n".into(),
        snapshot_hash: "v1:\"quoted\"".into(),
        first: Position::Token(Some("to\"ken".into())),
        params: Params::from([("user".into(), "a\"b".into()), ("lang".into(), "en".into())]),
        partition: Params::from([("user".into(), "a\"b".into())]),
        safety_lag: Duration::from_secs(600),
        phase: PhaseSpec { two_phase: true, id_batch_size: Some(200) },
        budget: SliceBudget::default(),
        priority: -3,
        job: "MANUAL:t".into(),
    }
}

fn w(from: i64, to: i64) -> Window {
    Window { from: Ts::from_micros(from), to: Ts::from_secs(to) }
}

// covers: ING-4.10-29, ING-4.12-02
#[test]
fn estimate_is_stored_in_the_slice_without_changing_its_keys() {
    let (plain, window) = (SliceTemplate::new(shape()), w(0, 60));
    let noted = plain.clone().with_estimate(SliceEstimate { expected_requests: 7, budget_hint: Some(90) });
    let (one, other) = (plain.derive(window, "0"), noted.derive(window, "0"));
    assert_eq!((&one.signature, &one.task_key), (&other.signature, &other.task_key));
    let spec: Value = serde_json::from_str(&other.spec).unwrap();
    assert_eq!(spec["budget"]["expectedRequests"], 7);
    assert_eq!(spec["budget"]["budgetHint"]["quotaRemaining"], 90);
    assert_eq!(canonical(&spec), other.spec);
    let ids =
        bounds::IdSegment { criteria: RefreshCriteria::Signalled, range: IdRange { after: None, through: "z".into() } };
    let (one, other) = (plain.derive_ids(&ids, 1, "0"), noted.derive_ids(&ids, 1, "0"));
    assert_eq!((&one.signature, &one.task_key), (&other.signature, &other.task_key));
    assert!(other.spec.contains("expectedRequests"));
}

// covers: ING-5.3-09, ING-8.2-04, ING-8.2-05, ING-8.2-06, ING-8.2-12, ING-8.2-13, ING-3.10-02, ING-9.1-02
// covers: ING-0.2-07, ING-2.4-03
#[test]
fn slice_spec_is_complete_canonical_json() {
    let window = w(-1, 1_767_225_600);
    let bounds = json!({ "from": window.from.to_micros_text(), "to": window.to.to_micros_text() });
    let initial = json!({ "offset": null, "page": null, "token": "to\"ken", "url": null });
    let pagination = json!({ "type": "TOKEN", "initial": initial });
    let (params, phase) = (shape().params, json!({ "twoPhase": true, "idBatchSize": 200 }));
    let slice = SliceTemplate::new(shape()).derive(window, "0");
    let spec = json!({
        "dimension": "TIME",
        "bounds": { "time": bounds },
        "phase": phase,
        "pagination": pagination,
        "partition": { "user": "a\"b" },
        "window": { "safetyLag": "PT10M", "watermarkKey": shape().watermark_key },
        "budget": { "maxRequests": 800, "maxDurationSec": 900, "priority": -3 },
    });
    assert_eq!(slice.spec, canonical(&spec));
    let proto = shape().snapshot_hash;
    let expr = json!({ "proto": proto, "window": bounds, "params": params, "pagination": pagination });
    assert_eq!(slice.expr_snapshot, canonical(&expr));
    let task = json!({ "window": bounds, "params": params, "pagination": pagination, "phase": phase });
    assert_eq!(slice.task_params, canonical(&task));
    assert_eq!(params::of_task(&slice.task_params).unwrap(), params);
}

#[test]
fn without_a_partition_the_spec_has_none() {
    let slice = SliceTemplate::new(SliceContext { partition: Params::new(), ..shape() }).derive(w(0, 1), "0");
    let spec: Value = serde_json::from_str(&slice.spec).unwrap();
    assert_eq!(spec.get("partition"), None);
    assert_eq!(slice.spec, canonical(&spec));
}

fn parsed(canonical_text: &str) -> Value {
    let value: Value = serde_json::from_str(canonical_text).unwrap();
    assert_eq!(canonical(&value), canonical_text);
    value
}

// covers: ING-8.2-02, ING-8.2-04, ING-8.2-05, ING-8.2-06, ING-8.2-10, ING-8.2-12, ING-0.2-07, ING-2.4-03
#[test]
fn page_range_slice_names_window_and_pages() {
    let window = w(-1, 1_767_225_600);
    let time = json!({ "from": window.from.to_micros_text(), "to": window.to.to_micros_text() });
    let (form, rule) = (SliceTemplate::new(shape()), PagingRule::new(paging::PagingKind::Page { base: 1 }, 100));
    let pages = PageRange { from: 199, to: Some(399), total: None };
    let slice = form.derive_pages(window, pages, &rule, "0");
    assert_eq!((slice.window, &slice.segment), (Some(window), &None));
    let spec = parsed(&slice.spec);
    let page = json!({ "fromPage": 200, "toPage": 400, "pageSize": 100, "base1": true });
    assert_eq!(spec["bounds"], json!({ "time": time, "page": page }), "pages as the upstream counts them");
    let initial = json!({ "offset": null, "page": 200, "token": null, "url": null });
    assert_eq!(spec["pagination"], json!({ "type": "PAGE", "initial": initial }));
    assert_eq!((&spec["dimension"], &spec["budget"]["maxRequests"]), (&json!("PAGE"), &json!(800)));
    assert_eq!(spec["window"], json!({ "safetyLag": "PT10M", "watermarkKey": shape().watermark_key }));
    assert_eq!(spec["partition"], json!(shape().partition));
    for text in [&slice.expr_snapshot, &slice.task_params] {
        let made = parsed(text);
        assert_eq!((&made["window"], &made["pages"]), (&time, &json!({ "from": 199, "to": 399 })));
        assert_eq!(made["pagination"], spec["pagination"]);
    }
    assert_eq!(bounds::TaskBounds::of_task(&slice.task_params).unwrap().pages, Some(pages));
    assert_eq!(params::of_task(&slice.task_params).unwrap(), shape().params);

    let open = form.derive_pages(window, PageRange { to: None, ..pages }, &rule, "0");
    assert_eq!(parsed(&open.spec)["bounds"]["page"]["toPage"], json!(null));
    assert_ne!((&open.signature, &open.task_key), (&slice.signature, &slice.task_key));
    let offsets = form.derive_pages(window, pages, &PagingRule::new(paging::PagingKind::Offset, 100), "0");
    let spec = parsed(&offsets.spec);
    assert_eq!(spec["bounds"]["page"]["fromPage"], 199);
    assert_eq!(
        (&spec["bounds"]["page"]["base1"], &spec["pagination"]["initial"]["offset"]),
        (&json!(false), &json!(19_900))
    );
}

// covers: ING-8.2-03, ING-8.2-04, ING-8.2-05, ING-8.2-08, ING-8.2-10, ING-8.2-12, ING-0.2-07, ING-2.4-03
#[test]
fn id_segment_slice_names_range_and_id_batch_size() {
    let form = SliceTemplate::new(SliceContext { operation: Operation::Update, ..shape() });
    let before = Ts::from_micros(1_767_225_600_000_001);
    let segment = |after: Option<&str>, through: &str| bounds::IdSegment {
        criteria: RefreshCriteria::Stale { before },
        range: IdRange { after: after.map(str::to_owned), through: through.to_owned() },
    };
    let ids = segment(Some("a\"1"), "b");
    let slice = form.derive_ids(&ids, 7, "0");
    assert_eq!((slice.window, &slice.segment), (None, &Some(SegmentPosition { ordinal: 7, last_id: "b".into() })));
    let spec = parsed(&slice.spec);
    assert_eq!(spec["bounds"], json!({ "id": { "from": "a\"1", "to": "b" } }));
    assert_eq!((&spec["dimension"], &spec["pagination"]["type"]), (&json!("ID"), &json!("ID")));
    assert_eq!(spec["phase"], json!({ "twoPhase": true, "idBatchSize": 200 }));
    assert_eq!(spec["budget"], json!({ "maxRequests": 800, "maxDurationSec": 900, "priority": -3 }));
    assert_eq!(spec.get("window"), None);
    let frozen = parsed(&slice.expr_snapshot);
    assert_eq!(frozen["ids"]["wanted"]["stale"]["before"], json!(before.to_micros_text()));
    assert_eq!(frozen["ids"], parsed(&slice.task_params)["ids"]);
    assert_eq!(bounds::TaskBounds::of_task(&slice.task_params).unwrap().ids, Some(ids));
    for other in [segment(None, "b"), segment(Some("a\"1"), "c")] {
        let other = form.derive_ids(&other, 7, "0");
        assert_ne!((&other.signature, &other.task_key), (&slice.signature, &slice.task_key));
    }
}

// covers: ING-8.2-09, ING-8.2-10, ING-8.2-11
#[test]
fn telemetry_changes_neither_signature_nor_key() {
    let form = SliceTemplate::new(shape());
    let plain = form.derive(w(0, 9), "1");
    let noted = form.derive_with(w(0, 9), "1", &json!({ "totalEstimated": 42_000, "comment": "cut in two" }));
    let spec: Value = serde_json::from_str(&noted.spec).unwrap();
    assert_eq!(spec["telemetry"]["totalEstimated"], 42_000);
    assert_eq!(noted.spec, canonical(&spec));
    assert_eq!(NewSlice { spec: plain.spec.clone(), ..noted }, plain);
}

// covers: ING-8.2-09, ING-8.2-13, ING-5.3-14, ING-11.3-01
#[test]
fn changed_request_makes_another_slice() {
    let plain = SliceTemplate::new(shape()).derive(w(0, 9), "1");
    let other = |change: fn(&mut SliceContext)| {
        let mut shape = shape();
        change(&mut shape);
        SliceTemplate::new(shape).derive(w(0, 9), "1")
    };
    let signs: [fn(&mut SliceContext); 6] = [
        |shape| drop(shape.params.insert("lang".into(), "de".into())),
        |shape| shape.snapshot_hash = "other".into(),
        |shape| shape.first = Position::Token(None),
        |shape| shape.endpoint_name = "f".into(),
        |shape| shape.operation = Operation::Backfill,
        |shape| shape.priority = 7,
    ];
    for change in signs {
        let other = other(change);
        assert_ne!(other.signature, plain.signature);
        assert_ne!(other.task_key, plain.task_key);
    }
    // The same slice requested by another job or elsewhere is the same slice and another task.
    let keys: [fn(&mut SliceContext); 2] =
        [|shape| shape.job = "MANUAL:u".into(), |shape| shape.project_key = "mine".into()];
    for change in keys {
        let other = other(change);
        assert_eq!(other.signature, plain.signature);
        assert_ne!(other.task_key, plain.task_key);
    }
    let later = SliceTemplate::new(shape()).derive(w(0, 9), "split:4");
    assert_eq!(later.signature, plain.signature);
    assert_ne!(later.task_key, plain.task_key);
}

#[test]
fn every_kind_of_paging_names_its_first_page() {
    let first = |position: Position| canonical(&pagination(&position));
    let is = |kind: &str, offset: &str, page: &str, token: &str, url: &str| {
        format!(r#"{{"initial":{{"offset":{offset},"page":{page},"token":{token},"url":{url}}},"type":"{kind}"}}"#)
    };
    assert_eq!(first(Position::Offset(0)), is("OFFSET", "0", "null", "null", "null"));
    assert_eq!(first(Position::Page(1)), is("PAGE", "null", "1", "null", "null"));
    assert_eq!(first(Position::Token(None)), is("TOKEN", "null", "null", "null", "null"));
    assert_eq!(first(Position::Url(Some("u".into()))), is("URL", "null", "null", "null", "\"u\""));
    assert_eq!(first(Position::Time), is("TIME", "null", "null", "null", "null"));
    assert_eq!(first(Position::Keys { after: Some("k".into()) }), is("ID", "null", "null", "\"k\"", "null"));
}
