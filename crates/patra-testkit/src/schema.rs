//! The expected catalogue of every database: the tables, columns, keys, words and indexes of the ledger that the
//! requirements name (ING-7 and ING-13.3, as settled by C-02, C-06, C-51 and C-52), the four tables of the crawler
//! (CRAWL-01..57) and those of the pool (POOL-100..110). A store reads its own catalogue, which is compared with this
//! list.

use std::collections::BTreeSet;

use patra_core::state::{
    AlertLevel, BatchStatus, CandidateStatus, CookieStatus, Direction, ExecutionStatus, JobStatus, Operation,
    PlanStatus, RunStatus, SliceStatus, TaskStatus, TriggerType,
};

#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    pub columns: Vec<Column>,
    pub indexes: Vec<Index>,
    /// Columns with fixed words: table, column, word.
    pub words: BTreeSet<(String, String, String)>,
}

#[derive(Clone, Debug)]
pub struct Column {
    pub table: String,
    pub name: String,
    pub required: bool,
    pub generated: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    pub table: String,
    pub name: String,
    pub unique: bool,
    /// Whether the index is partial.
    pub partial: bool,
    /// The columns in order; `""` stands for an expression.
    pub columns: Vec<String>,
}

/// Columns that are never null.
const REQUIRED: &[(&str, &str)] = &[
    (
        "ing_schedule_instance",
        "scheduler_code scheduler_job_id scheduler_log_id provenance_code endpoint_name operation_code \
         trigger_type_code params overrides status_code project_key job_type",
    ),
    ("ing_snapshot", "hash body"),
    (
        "ing_plan",
        "schedule_instance_id provenance_code endpoint_name operation_code plan_strategy expr_proto_hash \
         spec_fingerprint status_code created_at",
    ),
    ("ing_plan_slice", "plan_id provenance_code slice_spec slice_signature_hash expr_hash expr_snapshot status_code"),
    (
        "ing_task",
        "schedule_instance_id plan_id slice_id provenance_code endpoint_name operation_code params expr_hash \
         idempotent_key status_code scheduled_at priority lease_epoch lease_count attempt_count",
    ),
    ("ing_task_run", "task_id plan_id provenance_code endpoint_name operation_code attempt_no status_code created_at"),
    (
        "ing_task_run_batch",
        "run_id task_id slice_id plan_id schedule_instance_id provenance_code endpoint_name expr_hash batch_no \
         status_code has_next latency_ms stats request_digest response_digest idempotent_key created_at",
    ),
    (
        "ing_cursor",
        "provenance_code endpoint_name operation_code cursor_key namespace_scope_code namespace_key cursor_type_code \
         direction_code version",
    ),
    (
        "ing_cursor_event",
        "cursor_id provenance_code endpoint_name operation_code cursor_key namespace_scope_code namespace_key \
         direction_code new_value idempotent_key created_at",
    ),
    (
        "item_quarantine",
        "provenance_code endpoint_name task_id run_id batch_no error_code reason sample request_digest status_code",
    ),
    // A cookie is a credential with its runtime half: cookie_name, platform, cookie_encrypted, encryption_key_id and
    // on.
    (
        "reg_prov_credential",
        "alias provenance_code endpoint_name version type_code priority sealed key_id status_code created_at updated_at",
    ),
    (
        "ing_credential_state",
        "credential_id version cookie_code daily_used consecutive_errors total_errors priority daily_limit expired \
         max_parallel in_use updated_at",
    ),
    ("ing_cookie_lease", "credential_id provenance_code holder expires_at"),
    (
        "crawl_candidate",
        "project_key platform note_id note_url status retry_count tokens exec_meta created_at updated_at",
    ),
    (
        "ing_execution",
        "project_key workflow_name execution_id status started_at heartbeat_at items_processed items_failed",
    ),
    ("item_note", "item_id project_key platform note_id idempotency_key retry_count exec_meta"),
    ("item", "fields payload stored_at"),
    ("project", "project_key name created_at"),
    ("resource_pool_urls", "id url domain source source_ref scope project_key created_at"),
    ("resource_pool_capture", "project_key job_type scope enabled updated_at"),
    ("outbox_event", "project_key event_type topic idempotency_key payload status_code tries not_before created_at"),
    (
        "source_stats",
        "source_id last_fetch_at last_fetched_count last_new_count total_fetches avg_new_rate \
         consecutive_empty_fetches created_at updated_at",
    ),
    ("crawl_minute", "platform minute succeeded failed"),
    ("alert_state", "alert subject level firing value threshold detail"),
];

/// Nullable columns: windows and pages belong to some strategies of slicing and paging, the rest is set later.
const OPTIONAL: &[(&str, &str)] = &[
    (
        "ing_schedule_instance",
        "expr_proto_hash record_remarks window_from window_to request_id result started_at finished_at",
    ),
    ("ing_plan", "window_from window_to record_remarks"),
    ("ing_task", "credential_id window_from window_to lease_owner leased_until started_at finished_at error"),
    ("ing_task_run", "checkpoint stats window_from window_to error finished_at"),
    ("ing_task_run_batch", "page_no page_size before_token after_token before_url next_url error"),
    (
        "ing_cursor",
        "cursor_value normalized_instant normalized_numeric observed_max_value schedule_instance_id plan_id slice_id \
         task_id run_id batch_no expr_hash",
    ),
    (
        "ing_cursor_event",
        "prev_value prev_instant new_instant prev_numeric new_numeric observed_max_value schedule_instance_id plan_id \
         slice_id task_id run_id batch_no expr_hash record_remarks",
    ),
    ("reg_prov_credential", "daily_limit"),
    (
        "ing_credential_state",
        "used_day cooling_until cooling_since last_used_at cookie_name provenance_code endpoint_name cookie_expires_at \
         paused_at",
    ),
    ("crawl_candidate", "processing_lock locked_at source_keyword last_error_code"),
    ("ing_execution", "completed_at"),
    ("item_note", "note_url processing_lock locked_at last_error_code published_at"),
    ("alert_state", "since told_at"),
];

/// Columns that a plan does not have, because it is never executed and has no key of its own (ING-7.2-01, ING-7.2-05).
const NOT_OF_A_PLAN: &[&str] =
    &["idempotent_key", "lease_owner", "leased_until", "attempt_count", "started_at", "finished_at"];

/// Unique keys: no two rows have all of these in common.
const UNIQUE: &[(&str, &str, &str)] = &[
    ("uk_slice_sig", "ing_plan_slice", "plan_id slice_signature_hash"),
    ("uk_task_idem", "ing_task", "idempotent_key"),
    ("uk_run_attempt", "ing_task_run", "task_id attempt_no"),
    ("uk_run_batch_no", "ing_task_run_batch", "run_id batch_no"),
    ("uk_run_before_tok", "ing_task_run_batch", "run_id before_token"),
    ("uk_batch_idem", "ing_task_run_batch", "idempotent_key"),
    (
        "uk_cursor_ns",
        "ing_cursor",
        "project_key provenance_code operation_code cursor_key namespace_scope_code namespace_key",
    ),
    ("uk_cur_evt_idem", "ing_cursor_event", "idempotent_key"),
    ("uk_project", "project", "project_key"),
    ("uk_pool_url", "resource_pool_urls", "scope project_key url"),
    ("uk_pool_capture", "resource_pool_capture", "project_key job_type"),
    ("uk_execution_id", "ing_execution", "execution_id"),
    ("uk_crawl_candidate", "crawl_candidate", "project_key platform note_id"),
    ("uk_note_key", "item_note", "project_key platform idempotency_key"),
];

/// Partial unique indexes: the name of an active cookie (CRAWL-25), a running workflow (CRAWL-49).
const UNIQUE_OF_SOME: &[(&str, &str, &str)] = &[
    ("uk_cookie_name", "reg_prov_credential", "alias"),
    ("uk_execution_running", "ing_execution", "project_key workflow_name"),
];

/// Indexes over all rows.
const INDEXES: &[(&str, &str, &str)] = &[
    ("idx_sched_src", "ing_schedule_instance", "scheduler_code scheduler_job_id scheduler_log_id"),
    ("idx_plan_srcop_time", "ing_plan", "provenance_code operation_code created_at"),
    ("idx_slice_status", "ing_plan_slice", "plan_id status_code"),
    ("idx_task_slice", "ing_task", "slice_id"),
    // The board by source, operation, state and time (ING-7.11-04); it covers the shorter one of ING-7.4-05.
    ("idx_task_src_op", "ing_task", "provenance_code operation_code status_code created_at"),
    ("idx_run_task", "ing_task_run", "task_id status_code created_at"),
    ("idx_batch_time", "ing_task_run_batch", "run_id created_at"),
    ("idx_batch_status", "ing_task_run_batch", "run_id status_code"),
    ("idx_cursor_time", "ing_cursor", "provenance_code operation_code normalized_instant"),
    ("idx_cursor_id", "ing_cursor", "provenance_code operation_code normalized_numeric"),
    (
        "idx_cur_evt_timeline",
        "ing_cursor_event",
        "provenance_code operation_code namespace_scope_code namespace_key created_at",
    ),
    ("idx_cur_evt_instant", "ing_cursor_event", "cursor_id new_instant"),
    ("idx_cur_evt_numeric", "ing_cursor_event", "cursor_id new_numeric"),
    ("idx_cur_evt_lineage", "ing_cursor_event", "schedule_instance_id plan_id slice_id task_id run_id"),
    // Lookup of the lineage, from any of its ids (ING-7.11-02).
    ("idx_plan_instance", "ing_plan", "schedule_instance_id"),
    ("idx_task_instance", "ing_task", "schedule_instance_id status_code"),
    ("idx_task_plan", "ing_task", "plan_id status_code"),
    ("idx_batch_instance", "ing_task_run_batch", "schedule_instance_id"),
    ("idx_batch_task", "ing_task_run_batch", "task_id run_id batch_no"),
    // The oldest waiting candidates (CRAWL-43).
    ("idx_crawl_status", "crawl_candidate", "status created_at id"),
    // The list of the pool, and its filter (POOL-110).
    ("idx_pool_list", "resource_pool_urls", "scope project_key created_at id"),
    ("idx_pool_domain", "resource_pool_urls", "scope project_key domain"),
    ("idx_instance_job", "ing_schedule_instance", "project_key job_type id"),
];

/// Partial indexes over waiting or leased rows, or rows with a value: ended rows cost nothing (C-02).
const PARTIAL: &[(&str, &str, &str)] = &[
    (
        "idx_task_pick",
        "ing_task",
        "provenance_code endpoint_name operation_code c_max <expression> priority scheduled_at id",
    ),
    ("idx_task_queue", "ing_task", "leased_until id provenance_code endpoint_name operation_code"),
    ("idx_task_cred", "ing_task", "credential_id"),
    ("idx_cookie_pick", "reg_prov_credential", "provenance_code status_code priority"),
    ("idx_cookie_cooling", "ing_credential_state", "cooling_until"),
    ("idx_cookie_ready", "ing_credential_state", "provenance_code endpoint_name priority last_used_at credential_id"),
    ("idx_cookie_cooled", "ing_credential_state", "provenance_code cooling_until"),
    ("idx_cookie_expiry", "ing_credential_state", "provenance_code cookie_expires_at"),
    ("idx_cookie_spent", "ing_credential_state", "provenance_code used_day"),
    ("idx_execution_beat", "ing_execution", "heartbeat_at"),
    ("idx_crawl_lock", "crawl_candidate", "processing_lock"),
    ("idx_crawl_locked", "crawl_candidate", "locked_at"),
];

/// The parts of the schema. A store checks each in its own test, which names the covered requirements.
pub const JOBS: &[&str] = &["ing_schedule_instance"];
pub const PLANS: &[&str] = &["ing_snapshot", "ing_plan", "ing_plan_slice"];
pub const TASKS: &[&str] = &["ing_task"];
pub const RUNS: &[&str] = &["ing_task_run", "ing_task_run_batch", "item_quarantine"];
pub const CURSORS: &[&str] = &["ing_cursor", "ing_cursor_event"];
pub const CRAWLER: &[&str] = &[
    "reg_prov_credential",
    "ing_credential_state",
    "ing_cookie_lease",
    "crawl_candidate",
    "ing_execution",
    "item_note",
    "crawl_minute",
    "alert_state",
];
pub const POOL: &[&str] =
    &["project", "resource_pool_urls", "resource_pool_capture", "outbox_event", "item", "source_stats"];

/// Panics with all differences of these tables.
pub fn check(catalogue: &Catalogue, tables: &[&str]) {
    let mut wrong = Vec::new();
    columns(catalogue, tables, &mut wrong);
    indexes(catalogue, tables, &mut wrong);
    words(catalogue, tables, &mut wrong);
    assert!(wrong.is_empty(), "the catalogue is not what it should be:\n{}", wrong.join("\n"));
}

/// No table has a generated column: indexes are on columns and expressions (ING-13.3-01).
pub fn check_generated(catalogue: &Catalogue) {
    let generated: Vec<_> = catalogue.columns.iter().filter(|column| column.generated).collect();
    assert!(!catalogue.columns.is_empty() && generated.is_empty(), "{generated:?}");
}

fn columns(catalogue: &Catalogue, part: &[&str], wrong: &mut Vec<String>) {
    for (tables, required) in [(REQUIRED, true), (OPTIONAL, false)] {
        for (table, names) in tables.iter().filter(|(table, _)| part.contains(table)) {
            for name in names.split(' ') {
                match catalogue.columns.iter().find(|column| column.table == *table && column.name == name) {
                    None => wrong.push(format!("there is no column {table}.{name}")),
                    Some(column) if column.required != required => {
                        wrong.push(format!("{table}.{name} is required: {}", column.required));
                    }
                    Some(_) => {}
                }
            }
        }
    }
    for column in &catalogue.columns {
        if column.table == "ing_plan" && part.contains(&"ing_plan") && NOT_OF_A_PLAN.contains(&column.name.as_str()) {
            wrong.push(format!("a plan has {}", column.name));
        }
    }
}

fn indexes(catalogue: &Catalogue, part: &[&str], wrong: &mut Vec<String>) {
    let lists = [(UNIQUE, true, false), (UNIQUE_OF_SOME, true, true), (INDEXES, false, false), (PARTIAL, false, true)];
    for (list, unique, partial) in lists {
        for (name, table, columns) in list.iter().filter(|(_, table, _)| part.contains(table)) {
            let columns = columns.split(' ').map(|name| if name == "<expression>" { "" } else { name }.to_owned());
            let expected =
                Index { table: (*table).into(), name: (*name).into(), unique, partial, columns: columns.collect() };
            match catalogue.indexes.iter().find(|index| index.name == *name) {
                None => wrong.push(format!("there is no index {name}")),
                Some(index) if *index != expected => wrong.push(format!("{index:?}\n  instead of {expected:?}")),
                Some(_) => {}
            }
        }
    }
    let plans = part.contains(&"ing_plan");
    let of_plans = catalogue.indexes.iter().filter(|index| plans && index.table == "ing_plan" && index.unique);
    let keys: Vec<_> = of_plans.filter(|index| index.columns != ["id"]).map(|index| &index.name).collect();
    if !keys.is_empty() {
        wrong.push(format!("a plan has keys of its own: {keys:?}"));
    }
}

fn words(catalogue: &Catalogue, part: &[&str], wrong: &mut Vec<String>) {
    let mut check = |table: &str, column: &str, words: Vec<&str>| {
        if !part.contains(&table) {
            return;
        }
        let of_column = catalogue.words.iter().filter(|(t, c, _)| t == table && c == column);
        let found: BTreeSet<_> = of_column.map(|(_, _, word)| word.as_str()).collect();
        let expected: BTreeSet<_> = words.into_iter().collect();
        if found != expected {
            wrong.push(format!("{table}.{column} takes {found:?} instead of {expected:?}"));
        }
    };
    check("ing_schedule_instance", "status_code", JobStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_schedule_instance", "trigger_type_code", TriggerType::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_plan", "status_code", PlanStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_plan_slice", "status_code", SliceStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_task", "status_code", TaskStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_task_run", "status_code", RunStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_task_run_batch", "status_code", BatchStatus::ALL.iter().map(|word| word.as_str()).collect());
    for table in ["ing_schedule_instance", "ing_plan", "ing_task", "ing_task_run", "ing_cursor"] {
        check(table, "operation_code", Operation::ALL.iter().map(|word| word.as_str()).collect());
    }
    for table in ["ing_cursor", "ing_cursor_event"] {
        check(table, "direction_code", Direction::ALL.iter().map(|word| word.as_str()).collect());
    }
    check("ing_cursor", "namespace_scope_code", vec!["GLOBAL", "EXPR", "CUSTOM"]);
    check("ing_cursor", "cursor_type_code", vec!["TIME", "ID", "TOKEN"]);
    check("ing_credential_state", "cookie_code", CookieStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("crawl_candidate", "status", CandidateStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("ing_execution", "status", ExecutionStatus::ALL.iter().map(|word| word.as_str()).collect());
    check("alert_state", "level", AlertLevel::ALL.iter().map(|word| word.as_str()).collect());
}

/// Checks the lists of this module against each other: every table with columns or indexes is in exactly one part.
pub fn check_lists() {
    let parts = [JOBS, PLANS, TASKS, RUNS, CURSORS, CRAWLER, POOL].concat();
    let of_columns = REQUIRED.iter().chain(OPTIONAL).map(|(table, _)| *table);
    let of_indexes = [UNIQUE, UNIQUE_OF_SOME, INDEXES, PARTIAL].concat().into_iter().map(|(_, table, _)| table);
    let listed: BTreeSet<_> = of_columns.chain(of_indexes).collect();
    assert_eq!(listed, parts.iter().copied().collect::<BTreeSet<_>>());
    assert_eq!(listed.len(), parts.len(), "a table is in two parts");
}
