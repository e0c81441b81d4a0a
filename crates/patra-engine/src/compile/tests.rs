mod budget;
mod operations;

use std::sync::Arc;
use std::time::Duration;

use patra_core::port::CommandsExt;
use patra_core::protocol::planner::PartitionBatch;
use patra_core::state::TriggerType;
use patra_core::tx::{
    ClaimTasks, Lease, LeaseRef, MAX_CHILDREN, NewSlice, OpenPlan, ReadCoverage, RemainingPlan, RunStarted, SavePlan,
    StartRun,
};
use patra_core::{Fence, JobId, PlanId, Ts, Window};
use patra_testkit::ManualClock;
use patra_testkit::contract::make;
use patra_testkit::memory::SharedMem;

use super::*;

/// A store with these endpoints applied, besides `works`, the parent that [`parents`] fills.
async fn store(endpoints: &str) -> SharedMem {
    let store = SharedMem::new(Arc::new(ManualClock::default()));
    apply(&store, endpoints).await;
    store
}

const COMMON: &str = r#"
    query: { offset: "${ page.offset }", from: "${ window.from | iso }", to: "${ window.to | iso }" }
    pagination: { type: offset, page_size: 10 }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT10M, max_window: PT1M, initial: 1970-01-01 }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.at" }
"#;

async fn apply(store: &SharedMem, endpoints: &str) {
    let text = format!(
        "provenance: demo\nendpoints:\n  works:\n    http: {{ base_url: \"https://far.example\", path: / }}\n    \
         rate_limit: {{ refill_rate_per_sec: 2, burst: 5 }}\n{COMMON}{}",
        endpoints.replace("COMMON", COMMON.trim_start())
    );
    let manifest = patra_spec::read("demo.yaml", &text).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    registry::apply(store, &manifest).await.unwrap();
}

/// An endpoint below `works`.
fn child(params: &str, partitions: &str, path: &str) -> String {
    format!(
        "  notes:\n    http: {{ base_url: \"https://far.example\", path: \"{path}\" }}\n    params: {params}\n    \
         partitions: {partitions}\n    COMMON"
    )
}

fn trigger(endpoint: &str) -> ClaimedJob {
    ClaimedJob {
        job: JobId(1),
        fence: Fence(1),
        public_id: "job".into(),
        trigger_type: TriggerType::Manual,
        project_key: "default".into(),
        provenance_code: make::PROVENANCE.into(),
        endpoint_name: endpoint.into(),
        operation: Operation::Harvest,
        reason: None,
        activity: None,
        window_from: None,
        window_to: None,
        priority: 0,
        params: "{}".into(),
        overrides: "{}".into(),
        position: None,
        plan: None,
        now: Ts::from_secs(1_000_000),
    }
}

fn given(pairs: &[(&str, &str)]) -> ClaimedJob {
    let params = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ClaimedJob { params: params::to_text(&params), ..trigger("notes") }
}

async fn compile(store: &SharedMem, trigger: &ClaimedJob) -> Result<CompiledJob, CompileError> {
    Compiler::default().compile(store, trigger).await
}

async fn plan(store: &SharedMem, trigger: &ClaimedJob) -> Box<PlanDraft> {
    match compile(store, trigger).await {
        Ok(CompiledJob::Plan(draft)) => draft,
        other => panic!("expected a draft: {other:?}"),
    }
}

async fn fan(store: &SharedMem, trigger: &ClaimedJob) -> PartitionBatch {
    match compile(store, trigger).await {
        Ok(CompiledJob::Fan(fan)) => fan,
        other => panic!("expected partitions: {other:?}"),
    }
}

async fn refusal(store: &SharedMem, trigger: &ClaimedJob) -> String {
    match compile(store, trigger).await {
        Err(CompileError::Refused(reason)) => reason,
        other => panic!("expected a refusal: {other:?}"),
    }
}

/// Values of the partitions, in the order of their names.
fn shown(fan: &PartitionBatch) -> Vec<String> {
    let one = |params: &Params| params.values().map(String::as_str).collect::<Vec<_>>().join("/");
    fan.partitions.iter().map(one).collect()
}

/// All pages.
async fn all(store: &SharedMem, mut trigger: ClaimedJob) -> (Vec<String>, PartitionBatch, usize) {
    let (mut found, mut pages) = (Vec::new(), 0);
    loop {
        let fan = fan(store, &trigger).await;
        assert!(fan.partitions.len() <= MAX_CHILDREN);
        found.extend(shown(&fan));
        pages += 1;
        if fan.complete {
            return (found, fan, pages);
        }
        trigger.position = Some(fan.position);
    }
}

/// Stores records of `works` that were collected with these params.
async fn parents(store: &SharedMem, task_params: &str, records: &[(&str, &str)]) {
    let name = format!("parents {}", records[0].0);
    store.run(make::fire(&name, Operation::Harvest)).await.unwrap();
    let taken = store.run(make::take(make::LONG)).await.unwrap().unwrap();
    let epoch = store.run(ReadCoverage { cursor: make::namespace(Operation::Harvest, "ns") }).await.unwrap().epoch;
    let plan = make::plan(&taken, epoch, &make::windows(epoch * 10, 1));
    let task_params = format!(r#"{{"params":{task_params}}}"#);
    let slices =
        plan.slices.iter().map(|slice| NewSlice { task_params: task_params.clone(), ..slice.clone() }).collect();
    store.run(Arc::new(SavePlan { slices, ..plan })).await.unwrap();
    let claim = ClaimTasks {
        owner: "worker".into(),
        limit: 1,
        lease: make::LONG,
        caps: Vec::new(),
        reverse_priority: false,
        only: None,
    };
    let lease: Lease = store.run(claim).await.unwrap().leases.pop().unwrap();
    let RunStarted::Go { run, .. } = store.run(StartRun { lease: LeaseRef::from(&lease) }).await.unwrap() else {
        panic!("a run")
    };
    let records = records.iter().map(|(key, payload)| patra_core::record::Record {
        payload: (*payload).to_owned().into(),
        ..make::record(key, 1)
    });
    store.run(Arc::new(make::page(&lease, run, 1, records.collect(), false))).await.unwrap();
    store.run(Arc::new(make::end(&lease, run, patra_core::tx::RunEnd::Succeeded))).await.unwrap();
}

const LISTS: &str = "[ { param: lang, values: [en, de] }, { param: year, values: ['3', '1', '2'] } ]";

// covers: ING-15-08
#[tokio::test]
async fn the_product_of_lists_is_read() {
    let store = store(&child("{ lang: {}, year: {} }", LISTS, "/${ params.lang }/${ params.year }")).await;
    let fan = fan(&store, &trigger("notes")).await;
    assert_eq!(shown(&fan), ["de/1", "de/2", "de/3", "en/1", "en/2", "en/3"]);
    assert!(fan.complete && fan.skipped == 0);
    // Given params are not open any more; a trigger with all params given is planned directly.
    let (found, ..) = all(&store, given(&[("lang", "en")])).await;
    assert_eq!(found, ["en/1", "en/2", "en/3"]);
    let draft = plan(&store, &given(&[("lang", "en"), ("year", "7")])).await;
    assert_eq!(draft.context.partition, draft.context.params);
    assert_eq!(params::to_text(&draft.context.params), r#"{"lang":"en","year":"7"}"#);
}

// covers: ING-15-08, ING-3.10-02
#[tokio::test]
async fn each_partition_has_its_own_cursor_and_what_has_no_params_keeps_its_name() {
    let endpoint = child(
        "{ lang: { default: en }, year: {} }",
        "[ { param: year, values: ['1'] } ]",
        "/${ params.lang }/${ params.year }",
    );
    let store = store(&endpoint).await;
    let key = async |trigger: &ClaimedJob| plan(&store, trigger).await.cursor.namespace_key;
    let (one, two) = (key(&given(&[("year", "1")])).await, key(&given(&[("year", "2")])).await);
    assert_ne!(one, two);
    assert_eq!(one, key(&given(&[("year", "1"), ("lang", "en")])).await, "a default that is written out is the same");
    assert_ne!(one, key(&given(&[("year", "1"), ("lang", "de")])).await);
    let works = key(&trigger("works")).await;
    assert_eq!(works.matches(':').count(), 2, "the endpoint and the hash of its meaning: {works}");
    let other = ClaimedJob { project_key: "mine".into(), ..trigger("works") };
    let cursor = plan(&store, &other).await.cursor;
    assert_eq!((cursor.project_key, cursor.namespace_key), ("mine".to_owned(), works), "each project has its own");
    let draft = plan(&store, &given(&[("year", "1")])).await;
    assert_eq!(params::to_text(&draft.context.partition), r#"{"year":"1"}"#, "a default binds no partition");
}

#[tokio::test]
async fn a_parent_gives_its_ids_and_what_does_not_fit_is_counted() {
    let partitions = "[ { param: user, parent: { endpoint: works } } ]";
    let store = store(&child("{ user: { pattern: '[a-z]+' } }", partitions, "/${ params.user }")).await;
    let (found, fan, _) = all(&store, trigger("notes")).await;
    assert_eq!((found.len(), fan.skipped), (0, 0), "no parent, no partition");
    parents(&store, "{}", &[("bob", "{}"), ("ann", "{}"), ("x1", "{}")]).await;
    let (found, fan, _) = all(&store, trigger("notes")).await;
    assert_eq!((found, fan.skipped), (vec!["ann".to_owned(), "bob".to_owned()], 1));
}

#[tokio::test]
async fn a_path_finds_the_value_in_the_record_and_equal_values_are_one_partition() {
    let partitions = "[ { param: user, parent: { endpoint: works, path: '$.by.id' } } ]";
    let store = store(&child("{ user: {} }", partitions, "/${ params.user }")).await;
    let records = [
        ("a", r#"{"by":{"id":7}}"#),
        ("b", r#"{"by":{"id":"7"}}"#),
        ("c", r#"{"by":{}}"#),
        ("d", r#"{"by":{"id":8}}"#),
    ];
    parents(&store, "{}", &records).await;
    let (found, fan, _) = all(&store, trigger("notes")).await;
    assert_eq!(fan.skipped, 1);
    // The same partition is the same child of the trigger, by whichever way it is named.
    let ids: std::collections::BTreeSet<_> = found.iter().collect();
    assert_eq!(ids.into_iter().collect::<Vec<_>>(), ["7", "8"]);
}

// covers: ING-15-08
#[tokio::test]
async fn params_of_a_parent_record_are_passed_on() {
    let partitions = "[ { param: post, parent: { endpoint: works } } ]";
    let endpoint = child(
        "{ user: { required: true }, post: {}, lang: { default: en } }",
        partitions,
        "/${ params.user }/${ params.post }/${ params.lang }",
    );
    let store = store(&endpoint).await;
    parents(&store, r#"{"user":"u1","lang":"de"}"#, &[("p1", "{}"), ("p2", "{}")]).await;
    parents(&store, r#"{"user":"u2","lang":"de"}"#, &[("p3", "{}")]).await;
    let (found, ..) = all(&store, trigger("notes")).await;
    assert_eq!(
        found,
        ["p1/u1", "p2/u1", "p3/u2"],
        "the user comes from the post, the language has a default of its own"
    );
    let (found, ..) = all(&store, given(&[("user", "u2")])).await;
    assert_eq!(found, ["p3/u2"]);
    let draft = plan(&store, &given(&[("user", "u2"), ("post", "p3")])).await;
    assert_eq!(params::to_text(&draft.context.partition), r#"{"post":"p3","user":"u2"}"#);
    assert_eq!(params::to_text(&draft.context.params), r#"{"lang":"en","post":"p3","user":"u2"}"#);
}

#[tokio::test]
async fn a_product_of_parents_meets_only_what_belongs_together() {
    let partitions = "[ { param: user, parent: { endpoint: users } }, { param: post, parent: { endpoint: works } }, { param: kind, values: [a, b] } ]";
    let endpoint =
        child("{ user: {}, post: {}, kind: {} }", partitions, "/${ params.user }/${ params.post }/${ params.kind }");
    let users = "\n  users:\n    http: { base_url: \"https://far.example\", path: /users }\n    COMMON";
    let store = store(&(endpoint + users)).await;
    parents(&store, r#"{"user":"u1"}"#, &[("p1", "{}")]).await;
    parents(&store, r#"{"user":"u2"}"#, &[("p2", "{}")]).await;
    let (found, ..) = all(&store, trigger("notes")).await;
    assert_eq!(found, ["a/p1/u1", "b/p1/u1", "a/p2/u2", "b/p2/u2"]);
}

#[tokio::test]
async fn independent_parents_meet_each_other() {
    let partitions =
        "[ { param: one, parent: { endpoint: works } }, { param: two, parent: { endpoint: works, path: '$.id' } } ]";
    let store = store(&child("{ one: {}, two: {} }", partitions, "/${ params.one }/${ params.two }")).await;
    parents(&store, "{}", &[("a", r#"{"id":1}"#), ("b", r#"{"id":2}"#)]).await;
    let (found, ..) = all(&store, trigger("notes")).await;
    assert_eq!(found, ["a/1", "b/1", "a/2", "b/2"]);
}

#[tokio::test]
async fn many_partitions_come_page_by_page_and_each_once() {
    let partitions = "[ { param: user, parent: { endpoint: works } }, { param: year, values: ['1', '2', '3'] } ]";
    let store = store(&child("{ user: {}, year: {} }", partitions, "/${ params.user }/${ params.year }")).await;
    let keys: Vec<_> = (0..401).map(|at| format!("u{at:04}")).collect();
    let records: Vec<_> = keys.iter().map(|key| (key.as_str(), "{}")).collect();
    parents(&store, "{}", &records).await;
    let (found, _, pages) = all(&store, trigger("notes")).await;
    let expected: Vec<_> = keys.iter().flat_map(|key| (1..4).map(move |year| format!("{key}/{year}"))).collect();
    assert_eq!((found, pages), (expected, 3));
    // A record that is added during a fan-out is included, and moves no other.
    let first = fan(&store, &trigger("notes")).await;
    parents(&store, "{}", &[("u0166a", "{}"), ("a", "{}")]).await;
    let half = ClaimedJob { position: Some(first.position.clone()), ..trigger("notes") };
    let (rest, ..) = all(&store, half).await;
    let mut found: Vec<_> = shown(&first).into_iter().chain(rest).collect();
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 402 * 3, "all that were there, and the one behind the place");
}

#[tokio::test]
async fn a_list_of_many_values_goes_on_within_itself() {
    let values: Vec<_> = (0..1_200).map(|at| format!("'{at:04}'")).collect();
    let partitions = format!("[ {{ param: year, values: [{}] }} ]", values.join(", "));
    let store = store(&child("{ year: {} }", &partitions, "/${ params.year }")).await;
    let (found, _, pages) = all(&store, trigger("notes")).await;
    assert_eq!((found.len(), pages), (1_200, 3));
    assert!(found.is_sorted() && found[0] == "0000");
}

#[tokio::test]
async fn a_product_beyond_the_limit_is_refused() {
    let values = |count| (0..count).map(|at| format!("'{at}'")).collect::<Vec<_>>().join(", ");
    let partitions =
        format!("[ {{ param: a, values: [{}] }}, {{ param: b, values: [{}] }} ]", values(400), values(251));
    let store = store(&child("{ a: {}, b: {} }", &partitions, "/${ params.a }/${ params.b }")).await;
    let reason = refusal(&store, &trigger("notes")).await;
    assert!(reason.starts_with("more than 100000 partitions"), "{reason}");
}

#[tokio::test]
async fn params_that_are_unknown_missing_or_unfit_are_refused_by_name() {
    let endpoint = child(
        "{ year: { pattern: '\\\\d+' }, key: { required: true } }",
        "[ { param: year, values: ['1'] } ]",
        "/${ params.year }/${ params.key }",
    );
    let store = store(&endpoint.replace("'\\\\d+'", "'[0-9]+'")).await;
    let check = async |pairs: &[(&str, &str)], expected: &str| {
        let reason = refusal(&store, &given(pairs)).await;
        assert!(reason.contains(expected), "{reason}");
    };
    check(&[("yaer", "1")], "did you mean `year`?").await;
    check(&[], "`key` is required").await;
    check(&[("year", "1")], "`key` is required").await;
    check(&[("key", "k"), ("year", "x")], "`year` does not match").await;
    assert_eq!(shown(&fan(&store, &given(&[("key", "k")])).await), ["k/1"]);
}

// covers: ING-3.3-03, ING-3.3-04, ING-3.3-05, ING-3.6-02, ING-4.8-04, ING-8.1-07
#[tokio::test]
async fn overrides_are_the_last_layer_and_the_plan_says_so() {
    let store = store("").await;
    let plain = plan(&store, &trigger("works")).await;
    let overrides = r#"{"pagination.page_size":5,"window.safety_lag":"PT1M"}"#;
    let draft = plan(&store, &ClaimedJob { overrides: overrides.into(), priority: -7, ..trigger("works") }).await;
    let snapshot = Snapshot::from_body(&draft.snapshot_body).unwrap();
    assert_eq!(snapshot.pagination.unwrap().page_size, Some(5));
    assert_eq!(
        (plain.context.safety_lag, draft.context.safety_lag),
        (Duration::from_secs(600), Duration::from_secs(60))
    );
    assert_ne!(plain.context.snapshot_hash, draft.context.snapshot_hash);
    assert_eq!(plain.cursor, draft.cursor, "how it is read does not change what is read");
    assert_eq!((plain.context.priority, draft.context.priority), (100, 93));
    assert_eq!(draft.labels["overrides"]["pagination.page_size"], 5);
    assert_eq!(draft.labels["hash"], draft.context.snapshot_hash.as_str());
    assert_eq!((&draft.labels["provenance"], &draft.labels["endpoint"]), (&"demo".into(), &"works".into()));
    assert!(draft.warnings.iter().any(|warning| warning.contains("total_path")), "{:?}", draft.warnings);
    let reason = refusal(&store, &ClaimedJob { overrides: r#"{"http.path":"/x"}"#.into(), ..trigger("works") }).await;
    assert!(reason.contains("cannot be overridden"), "{reason}");
    // Two requests a second for a quarter of an hour, and the burst: more than a slice may send.
    assert_eq!((draft.context.budget.max_requests, draft.context.budget.max_duration_secs), (800, 900));
    let slow = ClaimedJob { overrides: r#"{"rate_limit.refill_rate_per_sec":0.5}"#.into(), ..trigger("works") };
    assert_eq!(plan(&store, &slow).await.context.budget.max_requests, 455);
}

// covers: ING-3.5-01
#[tokio::test]
async fn a_plan_that_is_open_keeps_its_snapshot_and_its_params() {
    let endpoint = child("{ year: {} }", "[ { param: year, values: ['1'] } ]", "/${ params.year }");
    let store = store(&endpoint).await;
    let draft = plan(&store, &given(&[("year", "1")])).await;
    let hash = draft.context.snapshot_hash.clone();
    store.lock().snapshots.insert(hash.clone(), draft.snapshot_body.clone());
    apply(&store, &endpoint.replace("/${ params.year }", "/new/${ params.year }")).await;
    let window = Window { from: Ts::from_secs(0), to: Ts::from_secs(9) };
    let open = Some(OpenPlan { plan: PlanId(1), snapshot_hash: hash.clone(), rest: RemainingPlan::Time(window) });
    let again = plan(&store, &ClaimedJob { plan: open, ..given(&[("year", "1")]) }).await;
    assert_eq!((again.context, again.cursor), (draft.context, draft.cursor));
    assert_ne!(plan(&store, &given(&[("year", "1")])).await.context.snapshot_hash, hash);
}

#[tokio::test]
async fn compiled_spec_is_cached_until_the_manifest_changes() {
    let store = store("").await;
    let mut compiler = Compiler::default();
    for overrides in ["{}", "{}", r#"{"pagination.page_size":5}"#] {
        compiler.compile(&store, &ClaimedJob { overrides: overrides.into(), ..trigger("works") }).await.unwrap();
    }
    assert_eq!(compiler.known.len(), 2);
    apply(&store, "  more:\n    http: { base_url: \"https://far.example\", path: /more }\n    COMMON").await;
    compiler.compile(&store, &trigger("works")).await.unwrap();
    assert_eq!(compiler.known.len(), 3);
}
