//! Values for tests: small, valid, and distinguishable by a tag.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use patra_core::cursor::{CursorName, CursorScope, CursorValue};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::record::{HeldMemory, Record, RecordStream, RecordVersion, RejectedRecord};
use patra_core::registry::{DictItem, DictType, RegistryRow, RegistryTable, WHOLE};
use patra_core::state::{Direction, Operation, PauseKind, TriggerType};
use patra_core::tx::{
    ApplyProvenance, BatchFailure, BatchStats, ChildJob, ClaimJob, ClaimTasks, ClaimedJob, CommitBatch, EndRun,
    EndpointRow, EndpointSchedule, FanOut, Lease, LeaseRef, MAX_PARTITIONS, NewPlan, NewSlice, PartitionKey,
    PauseSubject, PauseWork, PlanTarget, RawResponse, Recurrence, RequestJob, RunEnd, RunStats, SavePlan,
    SegmentPosition,
};
use patra_core::{Code, Fault, RunId, Ts, Window};

pub const PROVENANCE: &str = "demo";
pub const ENDPOINT: &str = "works";

/// More tasks than any case holds at once.
pub const C_MAX: u32 = 100_000;

/// The mapping of test records.
pub const GENERATION: &str = "generation 1";

/// A span longer than any case takes, on any clock.
pub const LONG: Duration = Duration::from_secs(600);
/// A lease that expires when a case passes [`BEYOND`].
pub const SHORT: Duration = Duration::from_millis(80);
pub const BEYOND: Duration = Duration::from_millis(120);

/// `[from, to)` in seconds since 1970.
pub fn window(from: i64, to: i64) -> Window {
    Window { from: Ts::from_secs(from), to: Ts::from_secs(to) }
}

/// A cursor's value, in seconds since 1970.
pub fn at(secs: i64) -> CursorValue {
    CursorValue::At(Ts::from_secs(secs))
}

/// `count` windows of 10 s that follow each other from `from` on.
pub fn windows(from: i64, count: i64) -> Vec<Window> {
    (0..count).map(|at| window(from + at * 10, from + at * 10 + 10)).collect()
}

pub fn namespace(operation: Operation, key: &str) -> CursorName {
    CursorName {
        project_key: "default".into(),
        provenance_code: PROVENANCE.into(),
        endpoint_name: ENDPOINT.into(),
        operation,
        cursor_key: "updated_at".into(),
        scope: if operation == Operation::Harvest { CursorScope::Expr } else { CursorScope::Custom },
        namespace_key: key.into(),
    }
}

/// The namespace of a trigger's work: one per endpoint and operation.
pub fn namespace_of(taken: &ClaimedJob) -> CursorName {
    let key = if taken.endpoint_name == ENDPOINT { "ns" } else { &taken.endpoint_name };
    let (project_key, endpoint_name) = (taken.project_key.clone(), taken.endpoint_name.clone());
    CursorName { project_key, endpoint_name, ..namespace(taken.operation, key) }
}

pub fn provenance(hash: &str, endpoints: &[(&str, Option<Duration>)]) -> ApplyProvenance {
    ApplyProvenance {
        provenance_code: PROVENANCE.into(),
        name: format!("Demo {hash}"),
        project_key: None,
        rows: sections(hash, &endpoints.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
        document_hash: hash.into(),
        endpoints: endpoints
            .iter()
            .map(|(name, every)| EndpointRow {
                endpoint_name: (*name).into(),
                role: "SEARCH".into(),
                schedules: every.map(|every| harvest(Recurrence::Every(every))).into_iter().collect(),
            })
            .collect(),
    }
}

/// A schedule that harvests.
pub fn harvest(when: Recurrence) -> EndpointSchedule {
    EndpointSchedule { operation: Operation::Harvest, reason: None, recurrence: when }
}

/// A row in every table for the provenance as a whole where that makes sense, and for each endpoint, sorted. The
/// config of each contains its table, its owner and the tag; that of the paging table always has the same tag.
pub fn sections(tag: &str, endpoints: &[&str]) -> Vec<RegistryRow> {
    let mut rows = Vec::new();
    for table in RegistryTable::ALL {
        let owners = match table {
            RegistryTable::Provenance => vec![WHOLE],
            RegistryTable::EndpointDef => endpoints.to_vec(),
            _ => [&[WHOLE], endpoints].concat(),
        };
        rows.extend(owners.into_iter().map(|owner| {
            let tag = if *table == RegistryTable::PaginationCfg { "always" } else { tag };
            let config = format!(r#"{{"of":"{} {owner}","tag":"{tag}"}}"#, table.name());
            RegistryRow { table: *table, endpoint_name: owner.into(), config }
        }));
    }
    rows.sort();
    rows
}

/// A dictionary: number 0 is empty, 1 and 2 differ in every table, and 3 has one word twice, which no store accepts.
pub fn dictionary(number: u64) -> Vec<DictType> {
    let item = |code: &str, aliases: &[&str]| DictItem {
        code: code.into(),
        name: format!("the word {code} of {number}"),
        aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(),
    };
    let kind =
        |code: &str, items: Vec<DictItem>| DictType { code: code.into(), name: format!("{code} {number}"), items };
    match number {
        0 => Vec::new(),
        1 => vec![
            kind("ing_operation", vec![item("HARVEST", &["harvest", "h"]), item("BACKFILL", &[])]),
            kind("empty", vec![]),
            kind("http_method", vec![item("POST", &["post"]), item("GET", &["get", "a"])]),
        ],
        2 => vec![kind("http_method", vec![item("GET", &["a", "get"]), item("PUT", &["post"])])],
        _ => vec![kind("http_method", vec![item("GET", &[]), item("GET", &[])])],
    }
}

/// The partition of [`fire`].
pub fn key(operation: Operation) -> PartitionKey {
    PartitionKey { provenance_code: PROVENANCE.into(), endpoint_name: ENDPOINT.into(), operation }
}

pub fn fire(public_id: &str, operation: Operation) -> RequestJob {
    RequestJob {
        public_id: public_id.into(),
        trigger_type: TriggerType::Manual,
        project_key: "default".into(),
        provenance_code: PROVENANCE.into(),
        endpoint_name: ENDPOINT.into(),
        operation,
        reason: None,
        activity: None,
        window_from: None,
        window_to: None,
        priority: 0,
        params: "{}".into(),
        overrides: "{}".into(),
    }
}

/// A planner's claim of a trigger.
pub fn take(lease: Duration) -> ClaimJob {
    ClaimJob { owner: "planner".into(), lease, full: Vec::new(), only: None }
}

pub fn claim(limit: u32, lease: Duration) -> ClaimTasks {
    ClaimTasks { owner: "worker".into(), limit, lease, caps: Vec::new(), reverse_priority: false, only: None }
}

pub fn hold(kind: PauseKind, subject: PauseSubject) -> PauseWork {
    PauseWork { subject, kind, reason: format!("a {kind}"), by: "somebody".into() }
}

/// The partition of all work that cases plan.
pub fn partition(operation: Operation) -> PauseSubject {
    PauseSubject { operation: Some(operation), ..PauseSubject::endpoint(PROVENANCE, ENDPOINT) }
}

/// Partitions of a taken trigger, one per user.
pub fn fan(taken: &ClaimedJob, users: &[&str], complete: bool) -> FanOut {
    let partition = |user: &&str| Params::from([("user".into(), (*user).into())]);
    FanOut {
        job: taken.job,
        fence: taken.fence,
        children: users.iter().map(|user| ChildJob::of(&taken.public_id, &partition(user))).collect(),
        position: r#"{"item":"x"}"#.into(),
        skipped: 0,
        complete,
        limit: MAX_PARTITIONS,
        wait: Duration::ZERO,
    }
}

/// A slice whose signature and task key follow from tag and window.
pub fn slice(tag: &str, window: Window) -> NewSlice {
    let place = format!("{tag}:{}:{}", window.from.micros(), window.to.micros());
    NewSlice { window: Some(window), ..slice_at(&place) }
}

/// A range of the pages of a window.
pub fn pages(tag: &str, window: Window, from: u64) -> NewSlice {
    let place = format!("{tag}:{}:{}:page {from}", window.from.micros(), window.to.micros());
    let task_params = format!(r#"{{"pages":{{"from":{from},"to":null}},"params":"{place}"}}"#);
    NewSlice { window: Some(window), task_params, ..slice_at(&place) }
}

/// A segment of ids.
pub fn segment(tag: &str, ordinal: i64, last_id: &str) -> NewSlice {
    let place = format!("{tag}:{ordinal}:{last_id}");
    NewSlice { segment: Some(SegmentPosition { ordinal, last_id: last_id.into() }), ..slice_at(&place) }
}

fn slice_at(place: &str) -> NewSlice {
    NewSlice {
        window: None,
        segment: None,
        spec: format!(r#"{{"slice":"{place}"}}"#),
        signature: format!("signature:{place}"),
        expr_snapshot: format!(r#"{{"expr":"{place}"}}"#),
        expr_hash: format!("expr:{place}"),
        task_params: format!(r#"{{"params":"{place}"}}"#),
        task_key: format!("task:{place}"),
    }
}

/// A complete new plan over these windows for a taken trigger.
pub fn plan(taken: &ClaimedJob, epoch: i64, windows: &[Window]) -> SavePlan {
    let from = windows.iter().map(|window| window.from).min().unwrap_or(Ts::from_secs(0));
    let to = windows.iter().map(|window| window.to).max().unwrap_or(Ts::from_secs(1));
    SavePlan {
        job: taken.job,
        fence: taken.fence,
        target: PlanTarget::New(NewPlan {
            window: Some(Window { from, to }),
            strategy: "TIME",
            snapshot_hash: "snapshot".into(),
            snapshot_body: r#"{"snapshot":1}"#.into(),
            remarks: r#"{"estimate":1}"#.into(),
        }),
        project_key: taken.project_key.clone(),
        cursor: namespace_of(taken),
        origin: Some(match taken.operation.direction() {
            Direction::Forward => from,
            Direction::Backfill => to,
        }),
        epoch,
        slices: windows.iter().map(|window| slice(&taken.public_id, *window)).collect(),
        complete: true,
        resume_delay: Duration::ZERO,
        priority: taken.operation.priority(),
        c_max: C_MAX,
        credential: None,
    }
}

/// A complete new plan over segments of ids, which end at these ids; the first is number `first` of the namespace.
pub fn id_plan(taken: &ClaimedJob, epoch: i64, first: i64, ids: &[&str]) -> SavePlan {
    let mut plan = plan(taken, epoch, &[]);
    if let PlanTarget::New(new) = &mut plan.target {
        (new.window, new.strategy) = (None, "ID");
    }
    let slices = (first..).zip(ids).map(|(ordinal, id)| segment(&taken.public_id, ordinal, id)).collect();
    SavePlan { origin: None, slices, ..plan }
}

/// The first part of a plan over `whole`; the trigger can be claimed again at once.
pub fn part(taken: &ClaimedJob, epoch: i64, whole: Window, windows: &[Window]) -> SavePlan {
    let mut part = SavePlan { complete: false, ..plan(taken, epoch, windows) };
    if let PlanTarget::New(new) = &mut part.target {
        new.window = Some(whole);
    }
    part
}

/// Key, update time in seconds, and a payload that names both.
pub fn record(key: &str, at: i64) -> Record {
    let payload = ByteString::from(format!(r#"{{"id":"{key}","at":{at}}}"#));
    Record {
        key: key.into(),
        version: RecordVersion { updated_at: Ts::from_secs(at), source_version: 0 },
        fields: format!(r#"{{"at":{at}}}"#),
        content_hash: patra_core::hash::content_hash(payload.as_bytes()),
        payload,
    }
}

pub fn rejected(index: u32) -> RejectedRecord {
    RejectedRecord {
        index,
        key: Some(format!("bad-{index}")),
        code: Code::ParseError,
        reason: "no update time".into(),
        sample: "{\"id\":…".into(),
    }
}

pub fn stream() -> RecordStream {
    RecordStream {
        project_key: "default".into(),
        provenance_code: PROVENANCE.into(),
        endpoint_name: ENDPOINT.into(),
        dedup_scope: ENDPOINT.into(),
        kind: "work".into(),
    }
}

/// Page `batch_no` of a run read by offset; `more` says whether another follows.
pub fn page(lease: &Lease, run: RunId, batch_no: u32, mut records: Vec<Record>, more: bool) -> CommitBatch {
    records.sort_by(|a, b| a.key.cmp(&b.key));
    CommitBatch {
        lease: LeaseRef::from(lease),
        lineage: lease.lineage,
        run,
        batch_no,
        expr_hash: lease.expr_hash.clone(),
        idempotent_key: format!("{run}:{batch_no}"),
        before_token: None,
        position: Position::Offset(u64::from(batch_no - 1) * 10),
        next: more.then_some(Position::Offset(u64::from(batch_no) * 10)),
        page_size: 10,
        stream: Arc::new(stream()),
        source: lease.source,
        stats: BatchStats { items_count: records.len() as u32, latency_ms: 7, has_next: more, ..BatchStats::default() },
        records,
        rejected: Vec::new(),
        marks: Vec::new(),
        progress: true,
        checked: Vec::new(),
        generation: GENERATION.into(),
        emit: false,
        refresh: false,
        pass: None,
        raw: None,
        request_digest: r#"{"url":"http://demo/works"}"#.into(),
        response_digest: r#"{"items":1}"#.into(),
        capture: None,
        memory: HeldMemory::default(),
    }
}

pub fn fault(message: &str) -> Fault {
    Fault::transient(Code::NetworkError, message)
}

pub fn end(lease: &Lease, run: RunId, end: RunEnd) -> EndRun {
    EndRun {
        lease: LeaseRef::from(lease),
        lineage: lease.lineage,
        run,
        end,
        stats: RunStats { req_count: 3, ..RunStats::default() },
        failure: None,
        done: None,
        pause: None,
        max_attempts: 3,
        poll: None,
    }
}

pub fn failure(lease: &Lease, run: RunId, batch_no: u32) -> BatchFailure {
    BatchFailure {
        batch_no,
        expr_hash: lease.expr_hash.clone(),
        idempotent_key: format!("{run}:{batch_no}"),
        position: Position::Offset(u64::from(batch_no - 1) * 10),
        page_size: 10,
        error: fault("no answer"),
        stats: BatchStats { retry_count: 4, ..BatchStats::default() },
        request_digest: "{}".into(),
        response_digest: "{}".into(),
        raw: None,
    }
}

/// A raw response.
pub fn raw(body: &'static str, keep: Duration) -> RawResponse {
    let headers = r#"[["content-type","application/json"]]"#.into();
    RawResponse { status: 200, headers, body: Bytes::from_static(body.as_bytes()), keep }
}
