//! Values for tests: small, valid, and distinguishable by a tag.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use patra_core::cursor::{Name, Scope};
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::record::{Record, Rejected, Stream, Version};
use patra_core::registry::{DictItem, DictType, Row, Table, WHOLE};
use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{
    ApplyProvenance, BatchStats, Child, CommitBatch, EndRun, EndpointRow, Failure, FanOut, Fire, Lease, LeaseRef,
    MAX_PARTITIONS, NewPlan, NewSlice, PlanTarget, RunEnd, RunStats, SavePlan, Schedule, TakeTrigger, TriggerTaken,
};
use patra_core::{Code, Fault, RunId, Ts, Window};

pub const PROVENANCE: &str = "demo";
pub const ENDPOINT: &str = "works";

/// Longer than any case takes, on any clock.
pub const LONG: Duration = Duration::from_secs(600);
/// For leases that a case lets expire, by passing [`BEYOND`].
pub const SHORT: Duration = Duration::from_millis(80);
pub const BEYOND: Duration = Duration::from_millis(120);

/// `[from, to)` in seconds since 1970.
pub fn window(from: i64, to: i64) -> Window {
    Window { from: Ts::from_secs(from), to: Ts::from_secs(to) }
}

/// `count` windows of 10 s that follow each other from `from` on.
pub fn windows(from: i64, count: i64) -> Vec<Window> {
    (0..count).map(|at| window(from + at * 10, from + at * 10 + 10)).collect()
}

pub fn namespace(operation: Operation, key: &str) -> Name {
    Name {
        provenance_code: PROVENANCE.into(),
        endpoint_name: ENDPOINT.into(),
        operation,
        cursor_key: "updated_at".into(),
        scope: if operation == Operation::Harvest { Scope::Expr } else { Scope::Custom },
        namespace_key: key.into(),
    }
}

pub fn provenance(hash: &str, endpoints: &[(&str, Option<Duration>)]) -> ApplyProvenance {
    ApplyProvenance {
        provenance_code: PROVENANCE.into(),
        name: format!("Demo {hash}"),
        rows: sections(hash, &endpoints.iter().map(|(name, _)| *name).collect::<Vec<_>>()),
        document_hash: hash.into(),
        endpoints: endpoints
            .iter()
            .map(|(name, every)| EndpointRow {
                endpoint_name: (*name).into(),
                role: "SEARCH".into(),
                schedule: every.map(|every| Schedule { every }),
            })
            .collect(),
    }
}

/// A row in every table for the provenance as a whole where that makes sense, and for each endpoint, sorted. Each
/// tells its place and the tag; those of the first endpoint's paging are always the same.
pub fn sections(tag: &str, endpoints: &[&str]) -> Vec<Row> {
    let mut rows = Vec::new();
    for table in Table::ALL {
        let owners = match table {
            Table::Provenance => vec![WHOLE],
            Table::EndpointDef => endpoints.to_vec(),
            _ => [&[WHOLE], endpoints].concat(),
        };
        rows.extend(owners.into_iter().map(|owner| {
            let tag = if *table == Table::PaginationCfg { "always" } else { tag };
            let config = format!(r#"{{"of":"{} {owner}","tag":"{tag}"}}"#, table.name());
            Row { table: *table, endpoint_name: owner.into(), config }
        }));
    }
    rows.sort();
    rows
}

/// Number 0 is empty, 1 and 2 differ in every table, and 3 names one word twice, which no store accepts.
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

pub fn fire(public_id: &str, operation: Operation) -> Fire {
    Fire {
        public_id: public_id.into(),
        trigger_type: TriggerType::Manual,
        project_key: "default".into(),
        provenance_code: PROVENANCE.into(),
        endpoint_name: ENDPOINT.into(),
        operation,
        window_from: None,
        window_to: None,
        priority: 0,
        params: "{}".into(),
        overrides: "{}".into(),
    }
}

/// A planner's look for work.
pub fn take(lease: Duration) -> TakeTrigger {
    TakeTrigger { owner: "planner".into(), lease, full: Vec::new() }
}

/// Partitions of a taken trigger, one per user.
pub fn fan(taken: &TriggerTaken, users: &[&str], complete: bool) -> FanOut {
    let partition = |user: &&str| Params::from([("user".into(), (*user).into())]);
    FanOut {
        instance: taken.instance,
        fence: taken.fence,
        children: users.iter().map(|user| Child::of(&taken.public_id, &partition(user))).collect(),
        place: r#"{"item":"x"}"#.into(),
        skipped: 0,
        complete,
        limit: MAX_PARTITIONS,
        wait: Duration::ZERO,
    }
}

/// A slice whose signature and task key follow from tag and window.
pub fn slice(tag: &str, window: Window) -> NewSlice {
    let place = format!("{tag}:{}:{}", window.from.micros(), window.to.micros());
    NewSlice {
        window,
        spec: format!(r#"{{"slice":"{place}"}}"#),
        signature: format!("signature:{place}"),
        expr_snapshot: format!(r#"{{"expr":"{place}"}}"#),
        expr_hash: format!("expr:{place}"),
        task_params: format!(r#"{{"params":"{place}"}}"#),
        task_key: format!("task:{place}"),
    }
}

/// A complete new plan over these windows for a taken trigger.
pub fn plan(taken: &TriggerTaken, epoch: i64, windows: &[Window]) -> SavePlan {
    let from = windows.iter().map(|window| window.from).min().unwrap_or(Ts::from_secs(0));
    let to = windows.iter().map(|window| window.to).max().unwrap_or(Ts::from_secs(1));
    SavePlan {
        instance: taken.instance,
        fence: taken.fence,
        target: PlanTarget::New(NewPlan {
            window: Window { from, to },
            snapshot_hash: "snapshot".into(),
            snapshot_body: r#"{"snapshot":1}"#.into(),
            remarks: r#"{"estimate":1}"#.into(),
        }),
        project_key: taken.project_key.clone(),
        cursor: namespace(taken.operation, "ns"),
        origin: from,
        epoch,
        slices: windows.iter().map(|window| slice(&taken.public_id, *window)).collect(),
        complete: true,
        resume_delay: Duration::ZERO,
        priority: taken.operation.priority(),
        credential: None,
    }
}

/// The first part of a plan over `whole`; the trigger may be taken again at once.
pub fn part(taken: &TriggerTaken, epoch: i64, whole: Window, windows: &[Window]) -> SavePlan {
    let mut part = SavePlan { complete: false, ..plan(taken, epoch, windows) };
    if let PlanTarget::New(new) = &mut part.target {
        new.window = whole;
    }
    part
}

/// Key, update time in seconds, and a payload that names both.
pub fn record(key: &str, at: i64) -> Record {
    let payload = Bytes::from(format!(r#"{{"id":"{key}","at":{at}}}"#));
    Record {
        key: key.into(),
        version: Version { updated_at: Ts::from_secs(at), source_version: 0 },
        fields: format!(r#"{{"at":{at}}}"#),
        content_hash: patra_core::hash::content_hash(&payload),
        payload,
    }
}

pub fn rejected(index: u32) -> Rejected {
    Rejected {
        index,
        key: Some(format!("bad-{index}")),
        code: Code::ParseError,
        reason: "no update time".into(),
        sample: "{\"id\":…".into(),
    }
}

pub fn stream() -> Stream {
    Stream {
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
        stats: BatchStats { items_count: records.len() as u32, latency_ms: 7, has_next: more, ..BatchStats::default() },
        records,
        rejected: Vec::new(),
        marks: Vec::new(),
        progress: true,
        request_digest: r#"{"url":"http://demo/works"}"#.into(),
        response_digest: r#"{"items":1}"#.into(),
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
        max_attempts: 3,
    }
}

pub fn failure(lease: &Lease, run: RunId, batch_no: u32) -> Failure {
    Failure {
        batch_no,
        expr_hash: lease.expr_hash.clone(),
        idempotent_key: format!("{run}:{batch_no}"),
        position: Position::Offset(u64::from(batch_no - 1) * 10),
        page_size: 10,
        error: fault("no answer"),
        stats: BatchStats { retry_count: 4, ..BatchStats::default() },
        request_digest: "{}".into(),
        response_digest: "{}".into(),
    }
}
