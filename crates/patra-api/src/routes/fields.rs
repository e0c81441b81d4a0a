//! Fields of queries and bodies, for the OpenAPI document. Each list matches the type of the same name in the file of
//! its route, which refuses unknown fields.

use crate::openapi::{Field, any, flag, int, map, text, texts, time};

pub(super) const LIST: &[Field] = &[
    text("provenance"),
    text("endpoint"),
    text("status"),
    text("job_type"),
    int("plan"),
    int("task"),
    int("run"),
    time("from"),
    time("to"),
    time("since"),
    int("before_id"),
    int("limit"),
];
pub(super) const QUEUE: &[Field] = &[text("provenance"), text("endpoint"), text("operation")];
pub(super) const SPAN: &[Field] = &[text("provenance"), text("endpoint"), text("operation"), time("from"), time("to")];
pub(super) const SERIES: &[Field] =
    &[text("provenance"), text("endpoint"), text("operation"), time("from"), time("to"), int("step")];
pub(super) const ERRORS: &[Field] =
    &[text("provenance"), text("endpoint"), text("operation"), time("from"), time("to"), text("level"), int("limit")];
pub(super) const TIMELINE: &[Field] = &[
    text("provenance"),
    text("endpoint"),
    text("operation"),
    time("from"),
    time("to"),
    text("namespace"),
    int("limit"),
];

pub(super) const LINEAGE: &[Field] = &[int("after_batch"), int("limit")];

pub(super) const NEW_JOB: &[Field] = &[
    text("provenance").needed(),
    text("endpoint").needed(),
    text("operation"),
    text("reason"),
    text("activity"),
    time("from"),
    time("to"),
    map("params"),
    map("overrides"),
    int("priority"),
    text("public_id"),
];
pub(super) const CANCEL: &[Field] = &[text("reason"), text("by")];
pub(super) const NEW_PAUSE: &[Field] = &[
    text("provenance"),
    text("endpoint"),
    text("operation"),
    int("plan"),
    int("slice"),
    int("task"),
    text("reason"),
    text("by"),
];
pub(super) const NEW_GAP: &[Field] = &[
    text("provenance").needed(),
    text("endpoint").needed(),
    time("from").needed(),
    time("to").needed(),
    text("reason").needed(),
    text("operation"),
    int("cursor"),
    text("by"),
];
pub(super) const NEW_SIGNAL: &[Field] =
    &[text("provenance").needed(), text("endpoint").needed(), texts("ids").needed(), text("reason"), text("by")];
pub(super) const REPLAY: &[Field] = &[text("mode")];
pub(super) const REDRIVE: &[Field] = &[text("request"), text("by")];
pub(super) const EXPORT: &[Field] = &[text("reason").needed(), text("by"), flag("with_raw")];
pub(super) const SPEC: &[Field] = &[text("operation"), flag("explain"), text("set")];
pub(super) const DRY_RUN: &[Field] = &[flag("dry_run")];
pub(super) const NEW_CREDENTIAL: &[Field] = &[
    text("alias").needed(),
    text("provenance"),
    text("endpoint"),
    text("type"),
    int("priority"),
    map("secrets"),
    text("secret"),
    flag("rotate"),
    flag("revoke_old"),
];
pub(super) const REVOKE_CREDENTIAL: &[Field] = &[text("provenance"), text("endpoint"), int("version")];

pub(super) const EXTRACT: &[Field] = &[text("project_key"), text("scope"), map("filters"), flag("async_mode")];
pub(super) const LOOK_BACK: &[Field] = &[
    text("project_key"),
    text("scope"),
    texts("task_ids"),
    text("job_type"),
    time("since"),
    int("limit"),
    flag("async_mode"),
];
pub(super) const CAPTURE: &[Field] =
    &[text("project_key"), text("scope"), texts("job_types").needed(), flag("enabled")];
pub(super) const URLS: &[Field] =
    &[text("scope"), int("page"), int("page_size"), text("before"), int("limit"), text("source"), text("domain")];
pub(super) const RESOURCES: &[Field] = &[text("scope")];
pub(super) const DOCUMENT: &[Field] = &[
    text("project_key"),
    text("uri").needed(),
    text("title"),
    text("doc_type"),
    text("state"),
    text("content"),
    any("extracted_data"),
];
pub(super) const PROJECT: &[Field] = &[text("project_key").needed(), text("name")];
pub(super) const TWEETS: &[Field] = &[text("author"), time("since"), text("before"), int("limit")];
pub(super) const SCRAPE: &[Field] = &[any("usernames").needed(), any("limit")];
pub(super) const SCRAPES: &[Field] = &[text("status")];

pub(super) const NEW_SOURCE: &[Field] = &[
    text("name"),
    text("type").needed(),
    map("config"),
    flag("is_public"),
    flag("is_active"),
    time("last_fetched_at"),
];
pub(super) const CHANGE: &[Field] = &[text("name"), map("config"), flag("is_public"), flag("is_active")];
pub(super) const RAW_ITEMS: &[Field] =
    &[int("source_id"), text("source_ids"), time("since"), int("limit"), int("offset")];

pub(super) const SEARCH: &[Field] = &[
    text("platform").needed(),
    text("keyword").needed(),
    int("page"),
    int("page_size"),
    text("sort_type"),
    text("note_type"),
    text("search_id"),
    text("cookie_name"),
    texts("exclude_cookies"),
    map("params"),
];
pub(super) const DETAILS: &[Field] = &[
    text("platform").needed(),
    texts("note_ids").needed(),
    map("tokens"),
    text("cookie_name"),
    texts("exclude_cookies"),
];
pub(super) const PLATFORM: &[Field] = &[text("platform")];
pub(super) const COOKIES: &[Field] = &[text("platform"), text("after"), int("limit")];
pub(super) const CRAWL_LIST: &[Field] = &[
    text("workflow_name"),
    text("status"),
    text("platform"),
    text("source_keyword"),
    text("note_id"),
    int("after"),
    int("limit"),
];
pub(super) const COOKIE: &[Field] = &[
    text("cookie_name").needed(),
    text("platform").needed(),
    text("cookie_value").needed(),
    text("domain"),
    int("priority"),
    int("daily_limit"),
    time("expires_at"),
    int("max_parallel"),
];
pub(super) const ACQUIRE: &[Field] = &[text("workflow_name").needed()];
pub(super) const TALLY: &[Field] = &[text("status"), int("items_processed"), int("items_failed")];
pub(super) const CANDIDATES: &[Field] = &[text("platform").needed(), text("source_keyword"), any("items").needed()];
pub(super) const CLAIM: &[Field] = &[text("execution_id").needed(), int("batch_size"), text("platform")];
pub(super) const FAIL: &[Field] =
    &[text("execution_id").needed(), text("platform").needed(), text("error_code").needed(), map("exec_meta")];
pub(super) const REQUEUE: &[Field] = &[text("platform").needed(), text("note_id"), text("source_keyword")];
pub(super) const NOTE: &[Field] =
    &[text("execution_id"), map("record_info").needed(), map("crawl_result").needed(), map("exec_meta")];
