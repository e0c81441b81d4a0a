-- The first schema. Tables, columns, unique keys and index names are the same as in the PostgreSQL file of this number.
-- Times are INTEGER microseconds since 1970, in UTC. JSON is stored as TEXT. There are no foreign keys (ING-0.1-04).

-- The registry: the manifests that were applied. Each table holds one section of them as a JSON object in `config`.
-- `endpoint_name` is an endpoint; in the tables after the first two, '*' stands for all endpoints of the provenance.
CREATE TABLE reg_provenance (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  name TEXT NOT NULL,
  -- Project that the manifest is for; NULL for all projects.
  project_key TEXT,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  document_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_provenance_code ON reg_provenance (provenance_code);

CREATE TABLE reg_prov_endpoint_def (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('SEARCH', 'DETAIL', 'METRICS')),
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_endpoint_def ON reg_prov_endpoint_def (provenance_code, endpoint_name);

CREATE TABLE reg_prov_http_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_http_cfg ON reg_prov_http_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_pagination_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_pagination_cfg ON reg_prov_pagination_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_window_offset_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_window_offset_cfg ON reg_prov_window_offset_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_retry_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_retry_cfg ON reg_prov_retry_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_rate_limit_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_rate_limit_cfg ON reg_prov_rate_limit_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_batching_cfg (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_batching_cfg ON reg_prov_batching_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_api_param_map (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_api_param_map ON reg_prov_api_param_map (provenance_code, endpoint_name);

CREATE TABLE reg_prov_expr_capability (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_expr_capability ON reg_prov_expr_capability (provenance_code, endpoint_name);

CREATE TABLE reg_prov_expr_render_rule (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_expr_render_rule ON reg_prov_expr_render_rule (provenance_code, endpoint_name);

CREATE TABLE reg_expr_field_dict (
  id INTEGER PRIMARY KEY,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_expr_field_dict ON reg_expr_field_dict (provenance_code, endpoint_name);

-- When each endpoint and operation runs. Ids are never reused, because jobs refer to the schedule that fired them.
CREATE TABLE reg_schedule (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  -- Reason of an UPDATE, otherwise ''. Not NULL, because a unique key treats every NULL as different.
  reason_code TEXT NOT NULL DEFAULT '' CHECK (reason_code IN ('', 'STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  -- `every <µs>` or `cron <five fields>`.
  when_text TEXT NOT NULL,
  next_due_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_schedule ON reg_schedule (provenance_code, endpoint_name, operation_code, reason_code);
CREATE INDEX idx_schedule_due ON reg_schedule (next_due_at);

-- The dictionary: every code that the program uses, with its name and aliases, for people and other programs to look
-- up. All three tables are replaced together.
CREATE TABLE sys_dict_type (
  id INTEGER PRIMARY KEY,
  type_code TEXT NOT NULL,
  name TEXT NOT NULL,
  sort_no INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_dict_type ON sys_dict_type (type_code);

CREATE TABLE sys_dict_item (
  id INTEGER PRIMARY KEY,
  type_code TEXT NOT NULL,
  item_code TEXT NOT NULL,
  name TEXT NOT NULL,
  sort_no INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_dict_item ON sys_dict_item (type_code, item_code);

CREATE TABLE sys_dict_item_alias (
  id INTEGER PRIMARY KEY,
  type_code TEXT NOT NULL,
  item_code TEXT NOT NULL,
  alias TEXT NOT NULL,
  sort_no INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_dict_item_alias ON sys_dict_item_alias (type_code, alias);

-- Compiled manifests by hash. A plan keeps working with the snapshot that it was made with.
CREATE TABLE ing_snapshot (
  hash TEXT PRIMARY KEY,
  body TEXT NOT NULL CHECK (json_valid(body)),
  created_at INTEGER NOT NULL
);

-- Owners of data. Rows that belong to no other project belong to `default`.
CREATE TABLE project (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_project ON project (project_key);
INSERT INTO project (project_key, name, created_at)
VALUES ('default', 'default', CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- Jobs: one row per request for work. `schedule_id` is the schedule that fired the job, or NULL. `scheduler_code`,
-- `scheduler_job_id` and `scheduler_log_id` identify the request in the terms of an external scheduler.
CREATE TABLE ing_schedule_instance (
  id INTEGER PRIMARY KEY,
  public_id TEXT NOT NULL,
  schedule_id INTEGER,
  scheduler_code TEXT NOT NULL,
  scheduler_job_id TEXT NOT NULL,
  scheduler_log_id TEXT NOT NULL,
  trigger_type_code TEXT NOT NULL CHECK (trigger_type_code IN ('SCHEDULE', 'MANUAL', 'API')),
  project_key TEXT NOT NULL,
  -- Kind of work, as named by the client.
  job_type TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  -- Reason of an UPDATE.
  reason_code TEXT CHECK (reason_code IN ('STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  -- Jobs of one activity share their progress.
  activity TEXT,
  window_from INTEGER,
  window_to INTEGER,
  -- Added to the priority of the operation. Smaller numbers run first.
  priority INTEGER NOT NULL,
  params TEXT NOT NULL CHECK (json_valid(params)),
  overrides TEXT NOT NULL CHECK (json_valid(overrides)),
  -- The job that created this one for one of its partitions, and the first job of that chain.
  parent_id INTEGER,
  root_id INTEGER,
  -- How far the job has created its child jobs.
  fan_place TEXT CHECK (fan_place IS NULL OR json_valid(fan_place)),
  -- Snapshot that the job was planned with.
  expr_proto_hash TEXT,
  status_code TEXT NOT NULL CHECK (status_code IN ('REQUESTED', 'PLANNED', 'FINISHED', 'FAILED', 'CANCELLED')),
  not_before INTEGER NOT NULL,
  lease_owner TEXT,
  leased_until INTEGER,
  lease_epoch INTEGER NOT NULL DEFAULT 0,
  record_remarks TEXT CHECK (record_remarks IS NULL OR json_valid(record_remarks)),
  -- Id of the HTTP request that created the job.
  request_id TEXT,
  -- Only for background jobs, which have no plan: result, start and end.
  result TEXT CHECK (result IS NULL OR json_valid(result)),
  started_at INTEGER,
  finished_at INTEGER,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_instance_public ON ing_schedule_instance (public_id);
CREATE INDEX idx_sched_src ON ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);
CREATE INDEX idx_instance_waiting ON ing_schedule_instance (id) WHERE status_code = 'REQUESTED';
-- Finds out whether the last job of a schedule is still waiting.
CREATE INDEX idx_instance_schedule ON ing_schedule_instance (schedule_id) WHERE status_code = 'REQUESTED';
CREATE INDEX idx_instance_parent ON ing_schedule_instance (parent_id, status_code) WHERE parent_id IS NOT NULL;
CREATE INDEX idx_instance_root ON ing_schedule_instance (root_id, status_code) WHERE root_id IS NOT NULL;
-- Lists the jobs of a project.
CREATE INDEX idx_instance_job ON ing_schedule_instance (project_key, job_type, id);
-- Background jobs that wait.
CREATE INDEX idx_instance_chore ON ing_schedule_instance (id)
  WHERE status_code = 'REQUESTED' AND provenance_code = 'resource_pool';
-- Finished background jobs, for retention.
CREATE INDEX idx_instance_finished ON ing_schedule_instance (finished_at) WHERE finished_at IS NOT NULL;
-- Jobs that poll sources, for retention.
CREATE INDEX idx_instance_scrape ON ing_schedule_instance (id) WHERE scheduler_code = 'scrape';

-- Plans: the work for one job, as one window of time on one snapshot.
CREATE TABLE ing_plan (
  id INTEGER PRIMARY KEY,
  schedule_instance_id INTEGER NOT NULL,
  cursor_id INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  window_from INTEGER,
  window_to INTEGER,
  plan_strategy TEXT NOT NULL,
  expr_proto_hash TEXT NOT NULL,
  spec_fingerprint TEXT NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('DRAFT', 'SLICING', 'READY', 'PARTIAL', 'FAILED', 'CANCELLED')),
  record_remarks TEXT CHECK (record_remarks IS NULL OR json_valid(record_remarks)),
  created_at INTEGER NOT NULL,
  CHECK (window_from < window_to)
);
CREATE INDEX idx_plan_srcop_time ON ing_plan (provenance_code, operation_code, created_at);
CREATE INDEX idx_plan_instance ON ing_plan (schedule_instance_id);
-- Finds the newest plan of a cursor namespace.
CREATE INDEX idx_plan_cursor ON ing_plan (cursor_id);

-- Slices: pieces of a plan that one worker can read.
CREATE TABLE ing_plan_slice (
  id INTEGER PRIMARY KEY,
  plan_id INTEGER NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  slice_spec TEXT NOT NULL CHECK (json_valid(slice_spec)),
  slice_signature_hash TEXT NOT NULL,
  expr_hash TEXT NOT NULL,
  expr_snapshot TEXT NOT NULL CHECK (json_valid(expr_snapshot)),
  window_from INTEGER,
  window_to INTEGER,
  status_code TEXT NOT NULL CHECK (status_code IN ('PENDING', 'READY', 'PARTIAL', 'FAILED', 'CANCELLED')),
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_slice_sig ON ing_plan_slice (plan_id, slice_signature_hash);
CREATE INDEX idx_slice_status ON ing_plan_slice (plan_id, status_code);

-- Tasks: the queue. A task is a slice that waits for a process, is leased by one, or has ended.
CREATE TABLE ing_task (
  id INTEGER PRIMARY KEY,
  schedule_instance_id INTEGER NOT NULL,
  plan_id INTEGER NOT NULL,
  slice_id INTEGER NOT NULL,
  cursor_id INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  credential_id INTEGER,
  params TEXT NOT NULL CHECK (json_valid(params)),
  expr_hash TEXT NOT NULL,
  idempotent_key TEXT NOT NULL,
  -- NULL for a segment of ids, which has `ordinal` and `last_id` instead.
  window_from INTEGER,
  window_to INTEGER,
  -- Completed part of the window, when the task ended before the end of the window.
  done_from INTEGER,
  done_to INTEGER,
  -- Number of an id segment in its cursor namespace, and the last id of the segment.
  ordinal INTEGER,
  last_id TEXT,
  status_code TEXT NOT NULL
    CHECK (status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')),
  priority INTEGER NOT NULL,
  scheduled_at INTEGER NOT NULL,
  lease_owner TEXT,
  leased_until INTEGER,
  -- The fence: rises with every claim and never falls.
  lease_epoch INTEGER NOT NULL DEFAULT 0,
  -- Number of claims and renewals, for diagnosis.
  lease_count INTEGER NOT NULL DEFAULT 0,
  -- Claims since the last committed batch.
  attempt_count INTEGER NOT NULL DEFAULT 0,
  -- 1: the task was running when its process died, and has committed nothing since.
  is_suspect INTEGER NOT NULL DEFAULT 0 CHECK (is_suspect IN (0, 1)),
  -- 1: the task SUCCEEDED, but nothing proves that no record was missed while its pages were read.
  is_unverified INTEGER NOT NULL DEFAULT 0 CHECK (is_unverified IN (0, 1)),
  -- 1: narrower tasks, or a new task of the same slice, have replaced this one.
  replaced INTEGER NOT NULL DEFAULT 0 CHECK (replaced IN (0, 1)),
  -- Only for polls: the source, and the host that the request goes to.
  source_id INTEGER,
  host TEXT,
  -- The task that this one repeats, and the request for the repetition.
  redrive_of INTEGER,
  redrive_request TEXT,
  -- Most tasks of the partition that may be leased at the same time.
  c_max INTEGER NOT NULL,
  -- Number of records that the runs of this task received.
  items INTEGER NOT NULL DEFAULT 0,
  error TEXT CHECK (error IS NULL OR json_valid(error)),
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  CHECK ((status_code IN ('DISPATCHED', 'EXECUTING')) = (leased_until IS NOT NULL)),
  CHECK ((leased_until IS NULL) = (lease_owner IS NULL)),
  CHECK ((window_from IS NULL) = (window_to IS NULL)),
  CHECK ((done_from IS NULL) = (done_to IS NULL)),
  CHECK ((ordinal IS NULL) = (last_id IS NULL)),
  CHECK ((redrive_of IS NULL) = (redrive_request IS NULL)),
  CHECK ((source_id IS NULL) = (host IS NULL))
);
CREATE UNIQUE INDEX uk_task_idem ON ing_task (idempotent_key);
-- Used by the claim, which steps from one group of equivalent tasks to the next and reads the first task of each.
-- Partial, so finished tasks cost nothing.
CREATE INDEX idx_task_pick ON ing_task
  (provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority, scheduled_at, id)
  WHERE status_code = 'QUEUED' AND source_id IS NULL;
-- The queue of polls.
CREATE INDEX idx_task_poll ON ing_task (scheduled_at, id) WHERE status_code = 'QUEUED' AND source_id IS NOT NULL;
-- Polls that run before the regular ones.
CREATE INDEX idx_task_poll_urgent ON ing_task (priority, scheduled_at, id)
  WHERE status_code = 'QUEUED' AND source_id IS NOT NULL AND priority < 100;
-- A source has at most one open poll (COLL-33).
CREATE UNIQUE INDEX uk_task_polled ON ing_task (source_id)
  WHERE source_id IS NOT NULL AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING');
-- Polls that have ended, for retention.
CREATE INDEX idx_task_poll_ended ON ing_task (finished_at) WHERE source_id IS NOT NULL AND finished_at IS NOT NULL;
-- Leased tasks: finds expired leases, and counts the leased tasks of each partition.
CREATE INDEX idx_task_queue ON ing_task (leased_until, id, provenance_code, endpoint_name, operation_code)
  WHERE status_code IN ('DISPATCHED', 'EXECUTING');
-- Windows beyond the cursor: which of them are covered, and which are completed. Rows are read in the order in which
-- they are grouped.
CREATE INDEX idx_task_cover ON ing_task (cursor_id, window_to, window_from, ordinal, plan_id);
-- The same for a cursor that moves towards the past.
CREATE INDEX idx_task_cover_past ON ing_task (cursor_id, window_from, window_to, plan_id)
  WHERE operation_code = 'BACKFILL';
CREATE INDEX idx_task_cred ON ing_task (credential_id) WHERE credential_id IS NOT NULL;
CREATE INDEX idx_task_src_op ON ing_task (provenance_code, operation_code, status_code, created_at);
-- Open tasks, for the counts on boards.
CREATE INDEX idx_task_open ON ing_task
  (provenance_code, endpoint_name, operation_code, project_key, status_code, scheduled_at, c_max)
  WHERE status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING');
CREATE INDEX idx_task_slice ON ing_task (slice_id);
CREATE INDEX idx_task_plan ON ing_task (plan_id, status_code);
CREATE INDEX idx_task_instance ON ing_task (schedule_instance_id, status_code);

-- Runs: one row per attempt at a task. Ids are never reused: items refer to the run that stored them, even after the
-- run is deleted.
CREATE TABLE ing_task_run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  task_id INTEGER NOT NULL,
  plan_id INTEGER NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  attempt_no INTEGER NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('PLANNED', 'RUNNING', 'SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED')),
  checkpoint TEXT CHECK (checkpoint IS NULL OR json_valid(checkpoint)),
  stats TEXT CHECK (stats IS NULL OR json_valid(stats)),
  window_from INTEGER,
  window_to INTEGER,
  error TEXT CHECK (error IS NULL OR json_valid(error)),
  -- Copied from the task.
  source_id INTEGER,
  created_at INTEGER NOT NULL,
  finished_at INTEGER
);
-- Recent polls, for the status of the collector.
CREATE INDEX idx_run_poll ON ing_task_run (finished_at, status_code, source_id) WHERE source_id IS NOT NULL;
CREATE UNIQUE INDEX uk_run_attempt ON ing_task_run (task_id, attempt_no);
CREATE INDEX idx_run_task ON ing_task_run (task_id, status_code, created_at);

-- Batches: one row per page, with its request, response and statistics. `position` and `next_position` are JSON and are
-- what the program reads; page number, tokens and URLs repeat them for people. Ids are never reused: the archive refers
-- to batches by id.
CREATE TABLE ing_task_run_batch (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id INTEGER NOT NULL,
  task_id INTEGER NOT NULL,
  slice_id INTEGER NOT NULL,
  plan_id INTEGER NOT NULL,
  schedule_instance_id INTEGER NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  expr_hash TEXT NOT NULL,
  -- Copied from the task.
  window_from INTEGER,
  window_to INTEGER,
  batch_no INTEGER NOT NULL CHECK (batch_no > 0),
  position TEXT NOT NULL CHECK (json_valid(position)),
  next_position TEXT CHECK (next_position IS NULL OR json_valid(next_position)),
  page_no INTEGER,
  page_size INTEGER,
  before_token TEXT,
  after_token TEXT,
  before_url TEXT,
  next_url TEXT,
  status_code TEXT NOT NULL CHECK (status_code IN ('PLANNED', 'RUNNING', 'SUCCEEDED', 'SKIPPED', 'FAILED')),
  has_next INTEGER NOT NULL CHECK (has_next IN (0, 1)),
  latency_ms INTEGER NOT NULL,
  inserted INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  skipped INTEGER NOT NULL,
  -- Both are included in `skipped`.
  out_of_window INTEGER NOT NULL DEFAULT 0,
  filtered INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  throttled INTEGER NOT NULL,
  stats TEXT NOT NULL CHECK (json_valid(stats)),
  request_digest TEXT NOT NULL CHECK (json_valid(request_digest)),
  response_digest TEXT NOT NULL CHECK (json_valid(response_digest)),
  error TEXT CHECK (error IS NULL OR json_valid(error)),
  idempotent_key TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_run_batch_no ON ing_task_run_batch (run_id, batch_no);
CREATE UNIQUE INDEX uk_run_before_tok ON ing_task_run_batch (run_id, before_token);
CREATE UNIQUE INDEX uk_batch_idem ON ing_task_run_batch (idempotent_key);
CREATE INDEX idx_batch_task ON ing_task_run_batch (task_id, run_id, batch_no);
CREATE INDEX idx_batch_instance ON ing_task_run_batch (schedule_instance_id);
CREATE INDEX idx_batch_time ON ing_task_run_batch (run_id, created_at);
CREATE INDEX idx_batch_status ON ing_task_run_batch (run_id, status_code);
-- Batches that are old enough for the archive.
CREATE INDEX idx_batch_created ON ing_task_run_batch (created_at);

-- Cursors: the point up to which a namespace is completely collected.
CREATE TABLE ing_cursor (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  cursor_key TEXT NOT NULL,
  namespace_scope_code TEXT NOT NULL CHECK (namespace_scope_code IN ('GLOBAL', 'EXPR', 'CUSTOM')),
  namespace_key TEXT NOT NULL,
  cursor_type_code TEXT NOT NULL CHECK (cursor_type_code IN ('TIME', 'ID', 'TOKEN')),
  direction_code TEXT NOT NULL CHECK (direction_code IN ('FORWARD', 'BACKFILL')),
  -- Start of the namespace: until the cursor has a value, progress counts from here. Only for TIME cursors.
  origin_instant INTEGER,
  cursor_value TEXT,
  normalized_instant INTEGER,
  -- Number of completed id segments. Only for ID cursors.
  normalized_numeric INTEGER,
  observed_max_value TEXT,
  -- The work that moved the cursor to its current value.
  schedule_instance_id INTEGER,
  plan_id INTEGER,
  slice_id INTEGER,
  task_id INTEGER,
  run_id INTEGER,
  batch_no INTEGER,
  expr_hash TEXT,
  version INTEGER NOT NULL DEFAULT 0,
  -- Rises with every plan of the namespace. A planner that has read an older epoch must read again.
  plan_epoch INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((cursor_type_code = 'TIME') = (origin_instant IS NOT NULL)),
  CHECK (cursor_type_code = 'TIME' OR normalized_instant IS NULL),
  CHECK (cursor_type_code = 'ID' OR normalized_numeric IS NULL),
  CHECK (direction_code <> 'FORWARD' OR normalized_instant IS NULL OR normalized_instant >= origin_instant),
  CHECK (direction_code <> 'BACKFILL' OR normalized_instant IS NULL OR normalized_instant <= origin_instant)
);
CREATE UNIQUE INDEX uk_cursor_ns ON ing_cursor
  (project_key, provenance_code, operation_code, cursor_key, namespace_scope_code, namespace_key);
CREATE INDEX idx_cursor_time ON ing_cursor (provenance_code, operation_code, normalized_instant);
-- Cursors that are furthest behind.
CREATE INDEX idx_cursor_lag ON ing_cursor (normalized_instant, id);
CREATE INDEX idx_cursor_id ON ing_cursor (provenance_code, operation_code, normalized_numeric);
-- Namespaces that are still collected, for the gauges.
CREATE INDEX idx_cursor_moved ON ing_cursor (updated_at) WHERE direction_code = 'FORWARD';

-- History of cursors: one row per move.
CREATE TABLE ing_cursor_event (
  id INTEGER PRIMARY KEY,
  cursor_id INTEGER NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL,
  cursor_key TEXT NOT NULL,
  namespace_scope_code TEXT NOT NULL,
  namespace_key TEXT NOT NULL,
  direction_code TEXT NOT NULL CHECK (direction_code IN ('FORWARD', 'BACKFILL')),
  prev_value TEXT,
  new_value TEXT NOT NULL,
  prev_instant INTEGER,
  new_instant INTEGER,
  prev_numeric INTEGER,
  new_numeric INTEGER,
  observed_max_value TEXT,
  schedule_instance_id INTEGER,
  plan_id INTEGER,
  slice_id INTEGER,
  task_id INTEGER,
  run_id INTEGER,
  batch_no INTEGER,
  expr_hash TEXT,
  record_remarks TEXT CHECK (record_remarks IS NULL OR json_valid(record_remarks)),
  idempotent_key TEXT NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_cur_evt_idem ON ing_cursor_event (idempotent_key);
CREATE INDEX idx_cur_evt_timeline ON ing_cursor_event
  (provenance_code, operation_code, namespace_scope_code, namespace_key, created_at);
CREATE INDEX idx_cur_evt_instant ON ing_cursor_event (cursor_id, new_instant);
CREATE INDEX idx_cur_evt_numeric ON ing_cursor_event (cursor_id, new_numeric);
CREATE INDEX idx_cur_evt_lineage ON ing_cursor_event (schedule_instance_id, plan_id, slice_id, task_id, run_id);
-- Append-only (ING-7.8-05): the database refuses updates, and deletes rows only for the archive.
CREATE TRIGGER trg_cursor_event_append_only BEFORE UPDATE ON ing_cursor_event
BEGIN
  SELECT RAISE(ABORT, 'ing_cursor_event is append-only');
END;
CREATE TRIGGER trg_cursor_event_archived BEFORE DELETE ON ing_cursor_event
WHEN NOT EXISTS (SELECT 1 FROM ing_archive WHERE kind_code = 'EVENT' AND row_id = OLD.id)
BEGIN
  SELECT RAISE(ABORT, 'ing_cursor_event is append-only: an event leaves it for the archive alone');
END;
-- A cursor only moves in its direction, and the direction is fixed (ING-4.4-06). The database enforces this itself.
CREATE TRIGGER trg_cursor_forward BEFORE UPDATE OF normalized_instant, normalized_numeric ON ing_cursor
WHEN (OLD.normalized_instant IS NOT NULL
      AND (NEW.normalized_instant IS NULL
           OR (OLD.direction_code = 'FORWARD' AND NEW.normalized_instant < OLD.normalized_instant)
           OR (OLD.direction_code = 'BACKFILL' AND NEW.normalized_instant > OLD.normalized_instant)))
  OR (OLD.normalized_numeric IS NOT NULL
      AND (NEW.normalized_numeric IS NULL OR NEW.normalized_numeric < OLD.normalized_numeric))
BEGIN
  SELECT RAISE(ABORT, 'ing_cursor only moves onward');
END;
CREATE TRIGGER trg_cursor_direction BEFORE UPDATE OF direction_code ON ing_cursor
WHEN NEW.direction_code <> OLD.direction_code
BEGIN
  SELECT RAISE(ABORT, 'the direction of a cursor is fixed');
END;

-- Scopes within which record ids are unique (MAP-C-10). A number of its own, because it precedes every key in the index
-- of records.
CREATE TABLE item_scope (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  dedup_scope TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_item_scope ON item_scope (project_key, provenance_code, dedup_scope);

-- Records. `payload` is the record as received; `fields` is what the manifest maps from it, or '' when it maps nothing.
CREATE TABLE item (
  id INTEGER PRIMARY KEY,
  scope_id INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  dedup_key TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  kind TEXT NOT NULL,
  updated_at INTEGER NOT NULL,
  source_version INTEGER NOT NULL,
  content_hash BLOB NOT NULL,
  -- Version of the mapping that produced `fields`. These two columns precede the payload, which may fill many pages.
  mapping_generation TEXT NOT NULL,
  -- Last time that the record was fetched from the API or found to be gone there.
  refresh_checked_at INTEGER NOT NULL,
  fields TEXT NOT NULL,
  payload TEXT NOT NULL,
  run_id INTEGER NOT NULL,
  batch_no INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  stored_at INTEGER NOT NULL,
  -- Time when the content was deleted. The key stays, so that the record is not stored again.
  emptied_at INTEGER,
  -- Time since when no list contains the record any more, see item_listed.
  missing_since INTEGER
);
CREATE UNIQUE INDEX uk_item ON item (scope_id, dedup_key);
-- Records that a run has stored.
CREATE INDEX idx_item_run ON item (run_id);
-- Tweets by id, by author, by project and all together. `updated_at` of a tweet is the time of writing, `created_at` the
-- time of storing. The indexes have the times and the author as the view shows them, so that they serve the view too.
CREATE INDEX idx_tweets_id ON item (dedup_key, project_key) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_author_created ON item
  (lower(json_extract(nullif(fields, ''), '$.author_username') COLLATE BINARY), updated_at DESC, id DESC)
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_created ON item
  (project_key, (strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000 - (updated_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (updated_at % 1000000 + 1000000) % 1000000)))
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_stored ON item
  (project_key, (strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000 - (created_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (created_at % 1000000 + 1000000) % 1000000)))
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_written_at ON item
  ((strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000 - (updated_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (updated_at % 1000000 + 1000000) % 1000000)))
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_db_created_at ON item
  ((strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000 - (created_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (created_at % 1000000 + 1000000) % 1000000)))
  WHERE kind = 'tweet';
-- Newest records of a project, at the same cost however many records other projects have.
CREATE INDEX idx_item_project ON item (project_key, id);

-- Lists that are read as a whole (`window.mode: snapshot`, `missing: mark`): one per endpoint, or one per set of its
-- params.
CREATE TABLE item_list (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  -- '' or a hash of the params.
  list_key TEXT NOT NULL
);
CREATE UNIQUE INDEX uk_item_list ON item_list (project_key, provenance_code, endpoint_name, list_key);
-- Records that a list contains or contained: the last slice that saw the record or found it missing, and since when it
-- is missing.
CREATE TABLE item_listed (
  list_id INTEGER NOT NULL,
  item_id INTEGER NOT NULL,
  slice_id INTEGER NOT NULL,
  missing_since INTEGER,
  PRIMARY KEY (list_id, item_id)
) WITHOUT ROWID;
-- Lists that contain a record. Partial, so that the planner never reads a whole list with it.
CREATE INDEX idx_item_listed_item ON item_listed (item_id) WHERE missing_since IS NULL;

-- Tweets, with the column names that clients expect (TWEET-120..131). Times are ISO 8601 text in UTC, always with six
-- digits of a second, so that they sort and compare as text. A tweet that two projects collected has a row for each:
-- filter by `project_key`.
CREATE VIEW tweets AS
SELECT dedup_key AS tweet_id,
  json_extract(nullif(fields, ''), '$.text') AS text,
  strftime('%Y-%m-%dT%H:%M:%S', updated_at / 1000000 - (updated_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (updated_at % 1000000 + 1000000) % 1000000) AS created_at,
  json_extract(nullif(fields, ''), '$.author_username') AS author_username,
  json_extract(nullif(fields, ''), '$.author_display_name') AS author_display_name,
  json_extract(nullif(fields, ''), '$.referenced_tweet_id') AS referenced_tweet_id,
  json_extract(nullif(fields, ''), '$.reference_type') AS reference_type,
  json_extract(nullif(fields, ''), '$.media') AS media,
  json_extract(nullif(fields, ''), '$.referenced_tweet_text') AS referenced_tweet_text,
  json_extract(nullif(fields, ''), '$.referenced_tweet_media') AS referenced_tweet_media,
  json_extract(nullif(fields, ''), '$.referenced_tweet_author_username') AS referenced_tweet_author_username,
  strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000 - (created_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (created_at % 1000000 + 1000000) % 1000000) AS db_created_at,
  strftime('%Y-%m-%dT%H:%M:%S', stored_at / 1000000 - (stored_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (stored_at % 1000000 + 1000000) % 1000000) AS db_updated_at,
  project_key
FROM item
WHERE kind = 'tweet' AND emptied_at IS NULL;

-- Items as documents, whatever their source.
CREATE VIEW documents AS
SELECT id, project_key,
  coalesce(json_extract(nullif(fields, ''), '$.doc_type'), kind) AS doc_type,
  json_extract(nullif(fields, ''), '$.state') AS state,
  json_extract(nullif(fields, ''), '$.title') AS title,
  json_extract(nullif(fields, ''), '$.uri') AS uri,
  json_extract(nullif(fields, ''), '$.content') AS content,
  json_extract(nullif(fields, ''), '$.extracted_data') AS extracted_data,
  strftime('%Y-%m-%dT%H:%M:%S', created_at / 1000000 - (created_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (created_at % 1000000 + 1000000) % 1000000) AS created_at
FROM item
WHERE emptied_at IS NULL;

-- Sources in which an item was found, with the first time.
CREATE TABLE item_source (
  source_id INTEGER NOT NULL,
  item_id INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  kind TEXT NOT NULL,
  fetched_at INTEGER NOT NULL,
  PRIMARY KEY (source_id, item_id)
) WITHOUT ROWID;
CREATE INDEX idx_item_source_time ON item_source (source_id, fetched_at, item_id);
CREATE INDEX idx_item_source_fetched ON item_source (project_key, fetched_at, item_id);
CREATE INDEX idx_item_source_item ON item_source (item_id);
-- Only articles are deleted by age (COLL-109).
CREATE INDEX idx_item_source_old ON item_source (fetched_at) WHERE kind = 'article';

-- Sources: feeds, pages and lists that are polled at an interval.
CREATE TABLE source (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project_key TEXT NOT NULL,
  type TEXT NOT NULL,
  name TEXT NOT NULL,
  config TEXT NOT NULL CHECK (json_valid(config) AND json_type(config) = 'object'),
  -- Identity of the source within its project.
  source_key TEXT NOT NULL,
  -- Interval of this source; NULL for that of its type.
  minutes INTEGER CHECK (minutes > 0),
  is_public INTEGER NOT NULL CHECK (is_public IN (0, 1)),
  is_active INTEGER NOT NULL CHECK (is_active IN (0, 1)),
  is_deleted INTEGER NOT NULL DEFAULT 0 CHECK (is_deleted IN (0, 1)),
  paused_reason TEXT CHECK (paused_reason IN ('user', 'error', 'gone')),
  paused_at INTEGER,
  last_fetched_at INTEGER,
  fetch_count INTEGER NOT NULL DEFAULT 0,
  fetch_error_count INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  last_error_at INTEGER,
  probe_count INTEGER NOT NULL DEFAULT 0,
  -- Time of the next poll; NULL: not scheduled.
  next_due_at INTEGER,
  -- Polls that brought something new: time of the last one, their number, and the usual time between two of them.
  last_new_at INTEGER,
  new_count INTEGER NOT NULL DEFAULT 0,
  new_gap_seconds INTEGER NOT NULL DEFAULT 0,
  -- Number of polls that were queued.
  poll_count INTEGER NOT NULL DEFAULT 0,
  -- Validators of the last response (such as its ETag), to recognise an unchanged one.
  validators TEXT CHECK (validators IS NULL OR json_valid(validators)),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((is_active = 1) = (paused_reason IS NULL)),
  CHECK ((paused_reason IS NULL) = (paused_at IS NULL)),
  CHECK (is_deleted = 0 OR next_due_at IS NULL),
  CHECK (paused_reason IS NULL OR paused_reason <> 'user' OR next_due_at IS NULL)
);
CREATE UNIQUE INDEX uk_source_key ON source (project_key, source_key) WHERE is_deleted = 0;
CREATE INDEX idx_sources_active ON source (is_active) WHERE is_deleted = 0;
-- Sources that are due. A tick reads only these.
CREATE INDEX idx_source_due ON source (next_due_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX idx_source_type ON source (type) WHERE is_deleted = 0;

-- Statistics of successful fetches, kept for Twitter sources.
CREATE TABLE source_stats (
  source_id INTEGER PRIMARY KEY,
  last_fetch_at INTEGER NOT NULL,
  last_fetched_count INTEGER NOT NULL CHECK (last_fetched_count >= 0),
  last_new_count INTEGER NOT NULL CHECK (last_new_count >= 0),
  total_fetches INTEGER NOT NULL CHECK (total_fetches >= 0),
  avg_new_rate REAL NOT NULL CHECK (avg_new_rate BETWEEN 0 AND 1),
  consecutive_empty_fetches INTEGER NOT NULL CHECK (consecutive_empty_fetches >= 0),
  -- Id of the newest tweet up to which everything is stored.
  newest_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

-- The same statistics by user name (TWEET-74..81). A user whom two projects follow has a row for each.
CREATE VIEW scraper_fetch_stats AS
SELECT lower(json_extract(source.config, '$.username')) AS username,
  strftime('%Y-%m-%dT%H:%M:%S', stats.last_fetch_at / 1000000 - (stats.last_fetch_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (stats.last_fetch_at % 1000000 + 1000000) % 1000000) AS last_fetch_at,
  stats.last_fetched_count, stats.last_new_count, stats.total_fetches, stats.avg_new_rate, stats.consecutive_empty_fetches,
  strftime('%Y-%m-%dT%H:%M:%S', stats.created_at / 1000000 - (stats.created_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (stats.created_at % 1000000 + 1000000) % 1000000) AS created_at,
  strftime('%Y-%m-%dT%H:%M:%S', stats.updated_at / 1000000 - (stats.updated_at % 1000000 < 0), 'unixepoch')
    || printf('.%06dZ', (stats.updated_at % 1000000 + 1000000) % 1000000) AS updated_at,
  source.project_key
FROM source_stats stats JOIN source ON source.id = stats.source_id
WHERE source.is_deleted = 0 AND json_extract(source.config, '$.username') IS NOT NULL;

-- Source types that the collector knows.
CREATE TABLE source_type (
  type TEXT PRIMARY KEY,
  minutes INTEGER NOT NULL CHECK (minutes > 0),
  interval_from TEXT NOT NULL CHECK (interval_from IN ('default', 'environment', 'config')),
  -- Why sources of this type cannot be fetched now.
  unsupported TEXT,
  updated_at INTEGER NOT NULL
);

-- Heartbeats of collectors that are running, or were until recently.
CREATE TABLE collector_beat (
  owner TEXT PRIMARY KEY,
  last_tick_at INTEGER NOT NULL,
  next_tick_at INTEGER NOT NULL,
  tick_seconds INTEGER NOT NULL,
  concurrency INTEGER NOT NULL,
  leaving INTEGER NOT NULL CHECK (leaving IN (0, 1))
);

-- Settings that take effect while the program runs.
CREATE TABLE config (
  config_key TEXT PRIMARY KEY,
  config_value TEXT NOT NULL,
  updated_at INTEGER NOT NULL
);
-- Random salt, created once: encryption keys are derived with it from a passphrase.
INSERT INTO config (config_key, config_value, updated_at)
VALUES ('cookie_salt', lower(hex(randomblob(32))), CAST(unixepoch('subsec') * 1000000 AS INTEGER));

-- Records that could not be stored, each with a sample and the reason.
CREATE TABLE item_quarantine (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  task_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  batch_no INTEGER NOT NULL,
  item_index INTEGER NOT NULL,
  dedup_key TEXT,
  error_code TEXT NOT NULL,
  reason TEXT NOT NULL,
  sample TEXT NOT NULL,
  -- Copied from the batch.
  request_digest TEXT NOT NULL CHECK (json_valid(request_digest)),
  status_code TEXT NOT NULL CHECK (status_code IN ('OPEN', 'SIGNALLED', 'RESOLVED', 'ABANDONED')),
  created_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_quarantine_place ON item_quarantine (run_id, batch_no, item_index);
CREATE INDEX idx_quarantine_key ON item_quarantine (project_key, provenance_code, endpoint_name, dedup_key)
  WHERE status_code = 'SIGNALLED';

-- Counters of work per minute, so that boards do not have to read the ledger (ING-13.6). The triggers below update them
-- in the transaction that does the work. On PostgreSQL, connections that commit at the same time mostly write different
-- shards; SQLite has one writer and one shard.
CREATE TABLE ing_minute (
  minute INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL,
  shard INTEGER NOT NULL DEFAULT 0,
  -- Runs that started, and how runs ended.
  picks INTEGER NOT NULL DEFAULT 0,
  succeeded INTEGER NOT NULL DEFAULT 0,
  partial INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  -- Pages that were committed, and pages that could not be read.
  batches INTEGER NOT NULL DEFAULT 0,
  batches_failed INTEGER NOT NULL DEFAULT 0,
  latency_ms INTEGER NOT NULL DEFAULT 0,
  inserted INTEGER NOT NULL DEFAULT 0,
  updated INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  rejected INTEGER NOT NULL DEFAULT 0,
  late INTEGER NOT NULL DEFAULT 0,
  retries INTEGER NOT NULL DEFAULT 0,
  throttled INTEGER NOT NULL DEFAULT 0,
  -- Events of the rate gate.
  permits INTEGER NOT NULL DEFAULT 0,
  wait_ms INTEGER NOT NULL DEFAULT 0,
  retry_after INTEGER NOT NULL DEFAULT 0,
  demoted INTEGER NOT NULL DEFAULT 0,
  quota_soft INTEGER NOT NULL DEFAULT 0,
  quota_hard INTEGER NOT NULL DEFAULT 0,
  -- What the program did by itself to recover.
  qps_downshift INTEGER NOT NULL DEFAULT 0,
  page_size_shrink INTEGER NOT NULL DEFAULT 0,
  concurrency_down INTEGER NOT NULL DEFAULT 0,
  circuit_open INTEGER NOT NULL DEFAULT 0,
  resliced INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (minute, project_key, provenance_code, endpoint_name, operation_code, shard)
) WITHOUT ROWID;

-- Errors per minute by code, with the last occurrence of each: runs that failed, runs that stopped at an unreadable
-- page, and records that went to quarantine.
CREATE TABLE ing_error_minute (
  minute INTEGER NOT NULL,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  operation_code TEXT NOT NULL,
  level TEXT NOT NULL,
  error_code TEXT NOT NULL,
  shard INTEGER NOT NULL DEFAULT 0,
  errors INTEGER NOT NULL,
  message TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  task_id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  batch_no INTEGER,
  PRIMARY KEY (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard)
) WITHOUT ROWID;

CREATE TRIGGER trg_count_batches AFTER INSERT ON ing_task_run_batch
BEGIN
  INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code,
    batches, batches_failed, latency_ms, inserted, updated, skipped, rejected, late, retries, throttled, permits,
    wait_ms, retry_after, demoted, quota_soft, quota_hard, qps_downshift, page_size_shrink, concurrency_down,
    circuit_open)
  SELECT NEW.created_at - NEW.created_at % 60000000, project_key, provenance_code, endpoint_name, operation_code,
    NEW.status_code = 'SUCCEEDED', NEW.status_code = 'FAILED', NEW.latency_ms, NEW.inserted, NEW.updated,
    NEW.skipped, NEW.failed, coalesce(NEW.stats ->> '$.late', 0), NEW.retries, NEW.throttled,
    coalesce(NEW.stats ->> '$.rate.permitsTotal', 0), coalesce(NEW.stats ->> '$.rate.waitTotalMs', 0),
    coalesce(NEW.stats ->> '$.rate.retryAfterHits', 0), coalesce(NEW.stats ->> '$.rate.demoteEvents', 0),
    coalesce(NEW.stats ->> '$.rate.quotaSoftHits', 0), coalesce(NEW.stats ->> '$.rate.quotaHardHits', 0),
    coalesce(NEW.stats ->> '$.selfHealing.qpsDownshift', 0),
    coalesce(NEW.stats ->> '$.selfHealing.pageSizeShrink', 0),
    coalesce(NEW.stats ->> '$.selfHealing.concurrencyDown', 0),
    coalesce(NEW.stats ->> '$.selfHealing.circuitOpen', 0)
  FROM ing_task WHERE id = NEW.task_id
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET
    batches = batches + excluded.batches, batches_failed = batches_failed + excluded.batches_failed,
    latency_ms = latency_ms + excluded.latency_ms, inserted = inserted + excluded.inserted,
    updated = updated + excluded.updated, skipped = skipped + excluded.skipped,
    rejected = rejected + excluded.rejected, late = late + excluded.late, retries = retries + excluded.retries,
    throttled = throttled + excluded.throttled, permits = permits + excluded.permits,
    wait_ms = wait_ms + excluded.wait_ms, retry_after = retry_after + excluded.retry_after,
    demoted = demoted + excluded.demoted, quota_soft = quota_soft + excluded.quota_soft,
    quota_hard = quota_hard + excluded.quota_hard, qps_downshift = qps_downshift + excluded.qps_downshift,
    page_size_shrink = page_size_shrink + excluded.page_size_shrink,
    concurrency_down = concurrency_down + excluded.concurrency_down,
    circuit_open = circuit_open + excluded.circuit_open;
END;

CREATE TRIGGER trg_count_picks AFTER INSERT ON ing_task_run
BEGIN
  INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, picks)
  SELECT NEW.created_at - NEW.created_at % 60000000, project_key, provenance_code, endpoint_name, operation_code, 1
  FROM ing_task WHERE id = NEW.task_id
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET picks = picks + excluded.picks;
END;

CREATE TRIGGER trg_count_ends AFTER UPDATE OF finished_at ON ing_task_run
WHEN OLD.finished_at IS NULL AND NEW.status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED')
BEGIN
  INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, succeeded, partial, failed)
  SELECT NEW.finished_at - NEW.finished_at % 60000000, project_key, provenance_code, endpoint_name, operation_code,
    NEW.status_code = 'SUCCEEDED', NEW.status_code = 'PARTIAL', NEW.status_code = 'FAILED'
  FROM ing_task WHERE id = NEW.task_id
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET succeeded = succeeded + excluded.succeeded, partial = partial + excluded.partial, failed = failed + excluded.failed;
  INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, errors,
    message, last_at, task_id, run_id, batch_no)
  SELECT NEW.finished_at - NEW.finished_at % 60000000, project_key, provenance_code, endpoint_name, operation_code,
    NEW.error ->> '$.level', NEW.error ->> '$.code', 1, NEW.error ->> '$.message', NEW.finished_at, NEW.task_id, NEW.id,
    (SELECT max(batch_no) FROM ing_task_run_batch WHERE run_id = NEW.id AND status_code = 'FAILED')
  FROM ing_task
  WHERE id = NEW.task_id AND NEW.error IS NOT NULL AND (NEW.status_code = 'FAILED' OR NEW.status_code = 'PARTIAL'
    AND EXISTS (SELECT 1 FROM ing_task_run_batch WHERE run_id = NEW.id AND status_code = 'FAILED'))
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
  SET errors = errors + excluded.errors, message = excluded.message, last_at = excluded.last_at,
    task_id = excluded.task_id, run_id = excluded.run_id, batch_no = excluded.batch_no;
END;

CREATE TRIGGER trg_count_quarantine AFTER INSERT ON item_quarantine
BEGIN
  INSERT INTO ing_error_minute (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, errors,
    message, last_at, task_id, run_id, batch_no)
  SELECT NEW.created_at - NEW.created_at % 60000000, project_key, provenance_code, endpoint_name, operation_code, 'L3',
    NEW.error_code, 1, NEW.reason, NEW.created_at, NEW.task_id, NEW.run_id, NEW.batch_no
  FROM ing_task WHERE id = NEW.task_id
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
  SET errors = errors + excluded.errors, message = excluded.message, last_at = excluded.last_at,
    task_id = excluded.task_id, run_id = excluded.run_id, batch_no = excluded.batch_no;
END;

-- Counts tasks that are split while they run. A task that is repeated after its end is also `replaced`, but does not
-- count.
CREATE TRIGGER trg_count_split AFTER UPDATE OF replaced ON ing_task
WHEN OLD.replaced = 0 AND NEW.replaced = 1 AND OLD.status_code = 'EXECUTING'
BEGIN
  INSERT INTO ing_minute (minute, project_key, provenance_code, endpoint_name, operation_code, resliced)
  VALUES (NEW.finished_at - NEW.finished_at % 60000000, NEW.project_key, NEW.provenance_code, NEW.endpoint_name,
    NEW.operation_code, 1)
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET resliced = resliced + 1;
END;

-- Records that must be fetched again, and who requested it.
CREATE TABLE ing_signal (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  item_key TEXT NOT NULL,
  origin_code TEXT NOT NULL CHECK (origin_code IN ('QUARANTINE', 'READER')),
  reason TEXT NOT NULL,
  created_by TEXT NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('OPEN', 'RESOLVED', 'ABANDONED')),
  tries INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_signal_open ON ing_signal (project_key, provenance_code, endpoint_name, item_key)
  WHERE status_code = 'OPEN';

-- Pauses and halts. A row covers the work that matches all of its columns from `provenance_code` to `task_id` that are
-- not NULL. `subject` repeats these columns as one text.
CREATE TABLE ing_hold (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind_code TEXT NOT NULL CHECK (kind_code IN ('PAUSE', 'BREAK', 'ADVISORY')),
  subject TEXT NOT NULL,
  provenance_code TEXT,
  endpoint_name TEXT,
  operation_code TEXT CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  credential_id INTEGER,
  plan_id INTEGER,
  slice_id INTEGER,
  task_id INTEGER,
  reason TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  released_by TEXT,
  released_at INTEGER,
  CHECK ((released_by IS NULL) = (released_at IS NULL))
);
CREATE UNIQUE INDEX uk_hold_active ON ing_hold (kind_code, subject) WHERE released_at IS NULL;

-- Responses as received, for replays. The manifest says how long they are kept.
CREATE TABLE ing_raw (
  run_id INTEGER NOT NULL,
  batch_no INTEGER NOT NULL,
  status INTEGER NOT NULL,
  headers TEXT NOT NULL CHECK (json_valid(headers)),
  body BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (run_id, batch_no)
);
CREATE INDEX idx_raw_expires ON ing_raw (expires_at);

-- One row: the latest time that the store has seen. If the clock shows an earlier time, it was set back.
CREATE TABLE ing_clock (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  seen_at INTEGER NOT NULL
);

-- State of the rate gate, by rate key.
CREATE TABLE ing_gate (
  id INTEGER PRIMARY KEY,
  rate_key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (json_type(state) = 'object'),
  updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX uk_gate_key ON ing_gate (rate_key);

-- Batches and cursor events that were moved out of the ledger. `row_id` and `created_at` are those of the row, and
-- `body` is the whole row.
CREATE TABLE ing_archive (
  id INTEGER PRIMARY KEY,
  kind_code TEXT NOT NULL CHECK (kind_code IN ('BATCH', 'EVENT')),
  row_id INTEGER NOT NULL,
  schedule_instance_id INTEGER,
  plan_id INTEGER,
  slice_id INTEGER,
  task_id INTEGER,
  run_id INTEGER,
  batch_no INTEGER,
  body TEXT NOT NULL CHECK (json_valid(body)),
  created_at INTEGER NOT NULL,
  archived_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_archive ON ing_archive (kind_code, row_id);
CREATE INDEX idx_archive_plan ON ing_archive (plan_id);
CREATE INDEX idx_archive_run ON ing_archive (run_id, batch_no);

-- Diagnostic bundles that were exported.
CREATE TABLE ing_export (
  id INTEGER PRIMARY KEY,
  run_id INTEGER NOT NULL,
  batch_no INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  reason TEXT NOT NULL,
  package_hash TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);

-- Ids whose content is fetched in a second phase: the version that was fetched, or why the content cannot be fetched.
CREATE TABLE ing_candidate (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  candidate_id TEXT NOT NULL,
  version TEXT NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('FETCHED', 'BAD')),
  reason TEXT,
  tries INTEGER NOT NULL,
  -- A bad id is not tried again before this time.
  expires_at INTEGER,
  updated_at INTEGER NOT NULL,
  CHECK ((status_code = 'BAD') = (expires_at IS NOT NULL))
);
CREATE UNIQUE INDEX uk_candidate ON ing_candidate (project_key, provenance_code, endpoint_name, candidate_id);

-- Credentials for upstream APIs, as people define them. `sealed` is encrypted with the master key that `key_id` names;
-- it is '' once the credential is revoked. Rotation adds a row with the next version.
CREATE TABLE reg_prov_credential (
  id INTEGER PRIMARY KEY,
  alias TEXT NOT NULL,
  provenance_code TEXT NOT NULL,
  endpoint_name TEXT NOT NULL,
  version INTEGER NOT NULL CHECK (version > 0),
  type_code TEXT NOT NULL
    CHECK (type_code IN ('API_KEY', 'BEARER', 'BASIC', 'OAUTH2', 'COOKIE', 'SESSION', 'CUSTOM')),
  priority INTEGER NOT NULL,
  sealed TEXT NOT NULL,
  key_id TEXT NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('ACTIVE', 'REVOKED')),
  -- Only for cookies: uses per day; NULL for the default.
  daily_limit INTEGER CHECK (daily_limit >= 0),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  revoked_at INTEGER,
  CHECK ((status_code = 'REVOKED') = (revoked_at IS NOT NULL)),
  CHECK ((status_code = 'REVOKED') = (sealed = '')),
  CHECK (type_code = 'COOKIE' OR daily_limit IS NULL)
);
CREATE UNIQUE INDEX uk_credential ON reg_prov_credential (alias, provenance_code, endpoint_name, version);
CREATE INDEX idx_credential_bound ON reg_prov_credential (provenance_code, endpoint_name) WHERE status_code = 'ACTIVE';
-- The name of an active cookie is unique (CRAWL-25).
CREATE UNIQUE INDEX uk_cookie_name ON reg_prov_credential (alias) WHERE type_code = 'COOKIE' AND status_code = 'ACTIVE';
CREATE INDEX idx_cookie_pick ON reg_prov_credential (provenance_code, status_code, priority) WHERE type_code = 'COOKIE';

-- Runtime state of a credential: the newest token (encrypted), the lease for refreshing it, and the usage of a cookie.
CREATE TABLE ing_credential_state (
  id INTEGER PRIMARY KEY,
  credential_id INTEGER NOT NULL,
  sealed TEXT,
  key_id TEXT,
  expires_at INTEGER,
  -- Rises with every stored token.
  version INTEGER NOT NULL DEFAULT 0,
  refresh_owner TEXT,
  refresh_until INTEGER,
  -- The fence: rises with every lease.
  refresh_epoch INTEGER NOT NULL DEFAULT 0,
  -- The fence under which the token was stored.
  stored_epoch INTEGER NOT NULL DEFAULT 0,
  status_code TEXT NOT NULL CHECK (status_code IN ('ACTIVE', 'REJECTED')),
  fail_count INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  -- Status of a cookie.
  cookie_code TEXT NOT NULL DEFAULT 'active' CHECK (cookie_code IN ('active', 'cooling', 'invalid', 'banned')),
  -- Uses since `used_day` began.
  daily_used INTEGER NOT NULL DEFAULT 0,
  used_day INTEGER,
  consecutive_errors INTEGER NOT NULL DEFAULT 0,
  total_errors INTEGER NOT NULL DEFAULT 0,
  cooling_until INTEGER,
  cooling_since INTEGER,
  last_used_at INTEGER,
  -- Copied from the definition of an ACTIVE cookie, otherwise NULL, so that picking a cookie reads only one index.
  cookie_name TEXT,
  provenance_code TEXT,
  endpoint_name TEXT,
  priority INTEGER NOT NULL DEFAULT 1,
  daily_limit INTEGER NOT NULL DEFAULT 100,
  -- The cookie is not used after this time; `expired` is 1 once it has passed.
  cookie_expires_at INTEGER,
  expired INTEGER NOT NULL DEFAULT 0 CHECK (expired IN (0, 1)),
  -- Time when a person paused the cookie.
  paused_at INTEGER,
  -- Most uses at the same time (0: no limit), and the current number of rows in ing_cookie_lease.
  max_parallel INTEGER NOT NULL DEFAULT 0 CHECK (max_parallel >= 0),
  in_use INTEGER NOT NULL DEFAULT 0 CHECK (in_use >= 0),
  updated_at INTEGER NOT NULL,
  CHECK ((refresh_owner IS NULL) = (refresh_until IS NULL)),
  CHECK ((cookie_code = 'cooling') = (cooling_until IS NOT NULL)),
  CHECK ((provenance_code IS NULL) = (endpoint_name IS NULL) AND (provenance_code IS NULL) = (cookie_name IS NULL))
);
CREATE UNIQUE INDEX uk_credential_state ON ing_credential_state (credential_id);
CREATE INDEX idx_credential_refreshing ON ing_credential_state (refresh_until) WHERE refresh_owner IS NOT NULL;
CREATE INDEX idx_cookie_cooling ON ing_credential_state (cooling_until) WHERE cooling_until IS NOT NULL;
-- Usable cookies, in the order in which they are picked (CRAWL-22).
CREATE INDEX idx_cookie_ready ON ing_credential_state
  (provenance_code, endpoint_name, priority DESC, last_used_at, credential_id)
  WHERE provenance_code IS NOT NULL AND cookie_code = 'active' AND daily_used < daily_limit
    AND (max_parallel = 0 OR in_use < max_parallel) AND paused_at IS NULL AND expired = 0;
-- Cookies whose state changes with time: their cooling ends, they expire, or a new day begins.
CREATE INDEX idx_cookie_cooled ON ing_credential_state (provenance_code, cooling_until)
  WHERE provenance_code IS NOT NULL AND cooling_until IS NOT NULL;
CREATE INDEX idx_cookie_expiry ON ing_credential_state (provenance_code, cookie_expires_at)
  WHERE provenance_code IS NOT NULL AND cookie_expires_at IS NOT NULL AND expired = 0;
CREATE INDEX idx_cookie_spent ON ing_credential_state (provenance_code, used_day)
  WHERE provenance_code IS NOT NULL AND daily_used > 0 AND daily_used >= daily_limit;
-- Counts the cookies of a platform by status, and lists them.
CREATE INDEX idx_cookie_count ON ing_credential_state
  (provenance_code, endpoint_name, cookie_code, cooling_until, paused_at, cookie_expires_at)
  WHERE provenance_code IS NOT NULL;
CREATE INDEX idx_cookie_list ON ing_credential_state (provenance_code, cookie_name) WHERE provenance_code IS NOT NULL;

-- Uses in progress of cookies that have a `max_parallel`. A use that is not released expires.
CREATE TABLE ing_cookie_lease (
  id INTEGER PRIMARY KEY,
  credential_id INTEGER NOT NULL,
  provenance_code TEXT NOT NULL,
  holder TEXT NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_cookie_lease ON ing_cookie_lease (holder);
CREATE INDEX idx_cookie_lease ON ing_cookie_lease (provenance_code, expires_at);
CREATE INDEX idx_cookie_lease_of ON ing_cookie_lease (credential_id, expires_at);

-- Named locks: one row per execution of a workflow. An execution without a heartbeat for too long loses its lock.
CREATE TABLE ing_execution (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  workflow_name TEXT NOT NULL,
  execution_id TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'timeout')),
  started_at INTEGER NOT NULL,
  heartbeat_at INTEGER NOT NULL,
  completed_at INTEGER,
  items_processed INTEGER NOT NULL DEFAULT 0,
  items_failed INTEGER NOT NULL DEFAULT 0,
  CHECK ((status = 'running') = (completed_at IS NULL))
);
CREATE UNIQUE INDEX uk_execution_id ON ing_execution (execution_id);
-- A workflow has at most one running execution (CRAWL-49).
CREATE UNIQUE INDEX uk_execution_running ON ing_execution (project_key, workflow_name) WHERE status = 'running';
CREATE INDEX idx_execution_beat ON ing_execution (heartbeat_at) WHERE status = 'running';

-- Notes whose details are to be fetched, or have been.
CREATE TABLE crawl_candidate (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  platform TEXT NOT NULL,
  note_id TEXT NOT NULL,
  note_url TEXT NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'collected', 'failed')),
  -- The execution that has claimed the note, and the time of the claim or its last renewal.
  processing_lock TEXT,
  locked_at INTEGER,
  retry_count INTEGER NOT NULL DEFAULT 0,
  source_keyword TEXT,
  -- Values that the platform requires for the details: a JSON object, or the same encrypted.
  tokens TEXT NOT NULL,
  last_error_code TEXT,
  exec_meta TEXT NOT NULL CHECK (json_valid(exec_meta) AND json_type(exec_meta) = 'object'),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((status = 'processing') = (processing_lock IS NOT NULL)),
  CHECK ((processing_lock IS NULL) = (locked_at IS NULL))
);
CREATE UNIQUE INDEX uk_crawl_candidate ON crawl_candidate (project_key, platform, note_id);
-- Used by the claim: oldest waiting notes first.
CREATE INDEX idx_crawl_status ON crawl_candidate (status, created_at, id);
CREATE INDEX idx_crawl_lock ON crawl_candidate (processing_lock) WHERE processing_lock IS NOT NULL;
CREATE INDEX idx_crawl_locked ON crawl_candidate (locked_at) WHERE locked_at IS NOT NULL;

-- Crawl state of a stored note. The note itself is in item.
CREATE TABLE item_note (
  item_id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  platform TEXT NOT NULL,
  note_id TEXT NOT NULL,
  note_url TEXT,
  idempotency_key TEXT NOT NULL,
  processing_lock TEXT,
  locked_at INTEGER,
  retry_count INTEGER NOT NULL DEFAULT 0,
  last_error_code TEXT,
  exec_meta TEXT NOT NULL CHECK (json_valid(exec_meta) AND json_type(exec_meta) = 'object'),
  published_at INTEGER,
  CHECK ((processing_lock IS NULL) = (locked_at IS NULL))
);
CREATE UNIQUE INDEX uk_note_key ON item_note (project_key, platform, idempotency_key);

-- Crawl requests per minute, for the last hour.
CREATE TABLE crawl_minute (
  platform TEXT NOT NULL,
  minute INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  PRIMARY KEY (platform, minute)
) WITHOUT ROWID;

-- State of each alert: `since` is when its condition began, `told_at` the time of the last notification.
CREATE TABLE alert_state (
  alert TEXT NOT NULL,
  subject TEXT NOT NULL,
  level TEXT NOT NULL CHECK (level IN ('P0', 'P1', 'P2')),
  since INTEGER,
  firing INTEGER NOT NULL CHECK (firing IN (0, 1)),
  told_at INTEGER,
  value REAL NOT NULL,
  threshold REAL NOT NULL,
  detail TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (alert, subject),
  CHECK (firing = 0 OR since IS NOT NULL)
) WITHOUT ROWID;

-- URLs found in documents and tasks: the shared library (with an empty project_key) and the library of each project.
-- Existing rows never change.
CREATE TABLE resource_pool_urls (
  id INTEGER PRIMARY KEY,
  url TEXT NOT NULL,
  domain TEXT NOT NULL CHECK (length(domain) <= 255),
  source TEXT NOT NULL CHECK (source IN ('document', 'task')),
  -- Where the URL was found first.
  source_ref TEXT NOT NULL CHECK (json_valid(source_ref) AND json_type(source_ref) = 'object'),
  scope TEXT NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  CHECK ((scope = 'shared') = (project_key = ''))
);
CREATE UNIQUE INDEX uk_pool_url ON resource_pool_urls (scope, project_key, url);
CREATE INDEX idx_pool_list ON resource_pool_urls (scope, project_key, created_at, id);
CREATE INDEX idx_pool_domain ON resource_pool_urls (scope, project_key, domain);

-- Whether URLs are captured while jobs of a project and type run, and into which library.
CREATE TABLE resource_pool_capture (
  id INTEGER PRIMARY KEY,
  project_key TEXT NOT NULL,
  job_type TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('shared', 'project')),
  enabled INTEGER NOT NULL CHECK (enabled IN (0, 1)),
  updated_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX uk_pool_capture ON resource_pool_capture (project_key, job_type);

-- Number of URLs in each library, so that nothing has to count them. `covered` is how many URLs of a project are also
-- shared. Read the sum over all shards: concurrent writers mostly write different ones.
CREATE TABLE resource_pool_count (
  scope TEXT NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key TEXT NOT NULL,
  shard INTEGER NOT NULL,
  urls INTEGER NOT NULL,
  covered INTEGER NOT NULL,
  PRIMARY KEY (scope, project_key, shard)
) WITHOUT ROWID;

-- Events to deliver to external systems. Ids are never reused: receivers identify events by id.
CREATE TABLE outbox_event (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  project_key TEXT NOT NULL,
  event_type TEXT NOT NULL,
  -- Events of one topic are delivered one after the other.
  topic TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  status_code TEXT NOT NULL CHECK (status_code IN ('PENDING', 'DELIVERED', 'FAILED')),
  tries INTEGER NOT NULL DEFAULT 0,
  last_error TEXT,
  not_before INTEGER NOT NULL,
  lease_owner TEXT,
  leased_until INTEGER,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  -- The last column, so that looking for deliverable events does not read payloads.
  payload TEXT NOT NULL CHECK (json_valid(payload) AND json_type(payload) = 'object'),
  CHECK ((status_code = 'PENDING') = (ended_at IS NULL)),
  CHECK ((lease_owner IS NULL) = (leased_until IS NULL))
);
CREATE UNIQUE INDEX uk_outbox_idem ON outbox_event (idempotency_key);
CREATE INDEX idx_outbox_pending ON outbox_event (id) WHERE status_code = 'PENDING';
CREATE INDEX idx_outbox_topic ON outbox_event (topic, id) WHERE status_code = 'PENDING';
CREATE INDEX idx_outbox_leased ON outbox_event (topic) WHERE leased_until IS NOT NULL;
CREATE INDEX idx_outbox_failed ON outbox_event (id) WHERE status_code = 'FAILED';
CREATE INDEX idx_outbox_ended ON outbox_event (ended_at) WHERE ended_at IS NOT NULL;

-- API keys. `hash` is the SHA-256 of the whole key, `prefix` its public part.
CREATE TABLE api_key (
  id INTEGER PRIMARY KEY,
  prefix TEXT NOT NULL,
  hash TEXT NOT NULL,
  name TEXT NOT NULL,
  scope TEXT NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  -- Projects that the key may act for; an empty list for all.
  projects TEXT NOT NULL CHECK (json_valid(projects) AND json_type(projects) = 'array'),
  -- 1: the key may write data that all projects see.
  shared INTEGER NOT NULL CHECK (shared IN (0, 1)),
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
);
CREATE UNIQUE INDEX uk_key_prefix ON api_key (prefix);
