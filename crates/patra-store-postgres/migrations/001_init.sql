-- The first schema. Tables, columns, unique keys and index names are the same as in the SQLite file of this number.
-- Times are timestamptz with microseconds, in UTC. Small JSON is jsonb. Text from outside, and text that is hashed, is
-- stored as text, byte for byte. Codes and keys compare as bytes (COLLATE "C"), so that the order is the same in both
-- databases and under every locale. There are no foreign keys (ING-0.1-04).

-- The registry: the manifests that were applied. Each table holds one section of them as a JSON object in `config`.
-- `endpoint_name` is an endpoint; in the tables after the first two, '*' stands for all endpoints of the provenance.
CREATE TABLE reg_provenance (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  name text NOT NULL,
  -- Project that the manifest is for; NULL for all projects.
  project_key text COLLATE "C",
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  document_hash text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_provenance_code ON reg_provenance (provenance_code);

CREATE TABLE reg_prov_endpoint_def (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  role text COLLATE "C" NOT NULL CHECK (role IN ('SEARCH', 'DETAIL', 'METRICS')),
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_endpoint_def ON reg_prov_endpoint_def (provenance_code, endpoint_name);

CREATE TABLE reg_prov_http_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_http_cfg ON reg_prov_http_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_pagination_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_pagination_cfg ON reg_prov_pagination_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_window_offset_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_window_offset_cfg ON reg_prov_window_offset_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_retry_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_retry_cfg ON reg_prov_retry_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_rate_limit_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_rate_limit_cfg ON reg_prov_rate_limit_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_batching_cfg (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_batching_cfg ON reg_prov_batching_cfg (provenance_code, endpoint_name);

CREATE TABLE reg_prov_api_param_map (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_api_param_map ON reg_prov_api_param_map (provenance_code, endpoint_name);

CREATE TABLE reg_prov_expr_capability (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_expr_capability ON reg_prov_expr_capability (provenance_code, endpoint_name);

CREATE TABLE reg_prov_expr_render_rule (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_expr_render_rule ON reg_prov_expr_render_rule (provenance_code, endpoint_name);

CREATE TABLE reg_expr_field_dict (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  config text NOT NULL CHECK (json_typeof(config::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_expr_field_dict ON reg_expr_field_dict (provenance_code, endpoint_name);

-- When each endpoint and operation runs. Ids are never reused, because jobs refer to the schedule that fired them.
CREATE TABLE reg_schedule (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  -- Reason of an UPDATE, otherwise ''. Not NULL, because a unique key treats every NULL as different.
  reason_code text COLLATE "C" NOT NULL DEFAULT '' CHECK (reason_code IN ('', 'STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  -- `every <µs>` or `cron <five fields>`.
  when_text text COLLATE "C" NOT NULL CHECK (when_text LIKE 'every %' OR when_text LIKE 'cron %'),
  next_due_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_schedule ON reg_schedule (provenance_code, endpoint_name, operation_code, reason_code);
CREATE INDEX idx_schedule_due ON reg_schedule (next_due_at);

-- The dictionary: every code that the program uses, with its name and aliases, for people and other programs to look
-- up. All three tables are replaced together.
CREATE TABLE sys_dict_type (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type_code text COLLATE "C" NOT NULL,
  name text NOT NULL,
  sort_no integer NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_dict_type ON sys_dict_type (type_code);

CREATE TABLE sys_dict_item (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type_code text COLLATE "C" NOT NULL,
  item_code text COLLATE "C" NOT NULL,
  name text NOT NULL,
  sort_no integer NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_dict_item ON sys_dict_item (type_code, item_code);

CREATE TABLE sys_dict_item_alias (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  type_code text COLLATE "C" NOT NULL,
  item_code text COLLATE "C" NOT NULL,
  alias text COLLATE "C" NOT NULL,
  sort_no integer NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_dict_item_alias ON sys_dict_item_alias (type_code, alias);

-- Compiled manifests by hash. A plan keeps working with the snapshot that it was made with.
CREATE TABLE ing_snapshot (
  hash text COLLATE "C" PRIMARY KEY,
  body text NOT NULL CHECK (body::json IS NOT NULL),
  created_at timestamptz NOT NULL
);

-- Owners of data. Rows that belong to no other project belong to `default`.
CREATE TABLE project (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  name text NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_project ON project (project_key);
INSERT INTO project (project_key, name, created_at) VALUES ('default', 'default', clock_timestamp());

-- Jobs: one row per request for work. `schedule_id` is the schedule that fired the job, or NULL. `scheduler_code`,
-- `scheduler_job_id` and `scheduler_log_id` identify the request in the terms of an external scheduler.
CREATE TABLE ing_schedule_instance (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  public_id text COLLATE "C" NOT NULL,
  schedule_id bigint,
  scheduler_code text COLLATE "C" NOT NULL,
  scheduler_job_id text COLLATE "C" NOT NULL,
  scheduler_log_id text COLLATE "C" NOT NULL,
  trigger_type_code text COLLATE "C" NOT NULL CHECK (trigger_type_code IN ('SCHEDULE', 'MANUAL', 'API')),
  project_key text COLLATE "C" NOT NULL,
  -- Kind of work, as named by the client.
  job_type text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  -- Reason of an UPDATE.
  reason_code text COLLATE "C" CHECK (reason_code IN ('STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  -- Jobs of one activity share their progress.
  activity text COLLATE "C",
  window_from timestamptz,
  window_to timestamptz,
  -- Added to the priority of the operation. Smaller numbers run first.
  priority integer NOT NULL,
  params jsonb NOT NULL,
  overrides jsonb NOT NULL,
  -- Snapshot that the job was planned with.
  expr_proto_hash text COLLATE "C",
  -- The job that created this one for one of its partitions, and the first job of that chain.
  parent_id bigint,
  root_id bigint,
  -- How far the job has created its child jobs.
  fan_place jsonb,
  status_code text COLLATE "C" NOT NULL
    CHECK (status_code IN ('REQUESTED', 'PLANNED', 'FINISHED', 'FAILED', 'CANCELLED')),
  not_before timestamptz NOT NULL,
  lease_owner text COLLATE "C",
  leased_until timestamptz,
  lease_epoch bigint NOT NULL DEFAULT 0,
  record_remarks jsonb,
  -- Id of the HTTP request that created the job.
  request_id text,
  -- Only for background jobs, which have no plan: result, start and end.
  result jsonb,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_instance_public ON ing_schedule_instance (public_id);
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
CREATE INDEX idx_sched_src ON ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);

-- Plans: the work for one job, as one window of time on one snapshot.
CREATE TABLE ing_plan (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_instance_id bigint NOT NULL,
  cursor_id bigint NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  window_from timestamptz,
  window_to timestamptz,
  plan_strategy text COLLATE "C" NOT NULL,
  expr_proto_hash text COLLATE "C" NOT NULL,
  spec_fingerprint text COLLATE "C" NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('DRAFT', 'SLICING', 'READY', 'PARTIAL', 'FAILED', 'CANCELLED')),
  record_remarks jsonb,
  created_at timestamptz NOT NULL,
  CHECK (window_from < window_to)
);
CREATE INDEX idx_plan_srcop_time ON ing_plan (provenance_code, operation_code, created_at);
CREATE INDEX idx_plan_instance ON ing_plan (schedule_instance_id);
-- Finds the newest plan of a cursor namespace.
CREATE INDEX idx_plan_cursor ON ing_plan (cursor_id, id);

-- Slices: pieces of a plan that one worker can read.
CREATE TABLE ing_plan_slice (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  plan_id bigint NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  slice_spec jsonb NOT NULL,
  slice_signature_hash text COLLATE "C" NOT NULL,
  expr_hash text COLLATE "C" NOT NULL,
  expr_snapshot jsonb NOT NULL,
  window_from timestamptz,
  window_to timestamptz,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('PENDING', 'READY', 'PARTIAL', 'FAILED', 'CANCELLED')),
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_slice_sig ON ing_plan_slice (plan_id, slice_signature_hash);
CREATE INDEX idx_slice_status ON ing_plan_slice (plan_id, status_code);

-- Tasks: the queue. A task is a slice that waits for a process, is leased by one, or has ended.
CREATE TABLE ing_task (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_instance_id bigint NOT NULL,
  plan_id bigint NOT NULL,
  slice_id bigint NOT NULL,
  cursor_id bigint NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  credential_id bigint,
  params jsonb NOT NULL,
  expr_hash text COLLATE "C" NOT NULL,
  idempotent_key text COLLATE "C" NOT NULL,
  -- NULL for a segment of ids, which has `ordinal` and `last_id` instead.
  window_from timestamptz,
  window_to timestamptz,
  -- Completed part of the window, when the task ended before the end of the window.
  done_from timestamptz,
  done_to timestamptz,
  -- Number of an id segment in its cursor namespace, and the last id of the segment.
  ordinal bigint,
  last_id text COLLATE "C",
  -- 1: the task SUCCEEDED, but nothing proves that no record was missed while its pages were read.
  is_unverified integer NOT NULL DEFAULT 0 CHECK (is_unverified IN (0, 1)),
  -- 1: narrower tasks, or a new task of the same slice, have replaced this one.
  replaced integer NOT NULL DEFAULT 0 CHECK (replaced IN (0, 1)),
  -- The task that this one repeats, and the request for the repetition.
  redrive_of bigint,
  redrive_request text COLLATE "C",
  -- Only for polls: the source, and the host that the request goes to.
  source_id bigint,
  host text COLLATE "C",
  -- Most tasks of the partition that may be leased at the same time.
  c_max bigint NOT NULL,
  -- Number of records that the runs of this task received.
  items bigint NOT NULL DEFAULT 0,
  status_code text COLLATE "C" NOT NULL
    CHECK (status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')),
  priority integer NOT NULL,
  scheduled_at timestamptz NOT NULL,
  lease_owner text COLLATE "C",
  leased_until timestamptz,
  -- The fence: rises with every claim and never falls.
  lease_epoch bigint NOT NULL DEFAULT 0,
  -- Number of claims and renewals, for diagnosis.
  lease_count bigint NOT NULL DEFAULT 0,
  -- Claims since the last committed batch.
  attempt_count bigint NOT NULL DEFAULT 0,
  -- 1: the task was running when its process died, and has committed nothing since.
  is_suspect integer NOT NULL DEFAULT 0 CHECK (is_suspect IN (0, 1)),
  error jsonb,
  created_at timestamptz NOT NULL,
  started_at timestamptz,
  finished_at timestamptz,
  CHECK ((status_code IN ('DISPATCHED', 'EXECUTING')) = (leased_until IS NOT NULL)),
  CHECK ((leased_until IS NULL) = (lease_owner IS NULL)),
  CHECK ((window_from IS NULL) = (window_to IS NULL)),
  CHECK ((done_from IS NULL) = (done_to IS NULL)),
  CHECK ((ordinal IS NULL) = (last_id IS NULL)),
  CHECK ((redrive_of IS NULL) = (redrive_request IS NULL)),
  CHECK ((source_id IS NULL) = (host IS NULL))
);
-- Rows change often and most of them have ended, so autovacuum starts long before its default of a fifth dead rows.
ALTER TABLE ing_task SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task_id bigint NOT NULL,
  plan_id bigint NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  attempt_no bigint NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('PLANNED', 'RUNNING', 'SUCCEEDED', 'PARTIAL', 'FAILED', 'CANCELLED')),
  checkpoint jsonb,
  stats jsonb,
  window_from timestamptz,
  window_to timestamptz,
  error jsonb,
  -- Copied from the task.
  source_id bigint,
  created_at timestamptz NOT NULL,
  finished_at timestamptz
);
-- Recent polls, for the status of the collector.
CREATE INDEX idx_run_poll ON ing_task_run (finished_at, status_code, source_id) WHERE source_id IS NOT NULL;
CREATE UNIQUE INDEX uk_run_attempt ON ing_task_run (task_id, attempt_no);
CREATE INDEX idx_run_task ON ing_task_run (task_id, status_code, created_at);

-- Batches: one row per page, with its request, response and statistics. `position` and `next_position` are JSON and are
-- what the program reads; page number, tokens and URLs repeat them for people. Ids are never reused: the archive refers
-- to batches by id.
CREATE TABLE ing_task_run_batch (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id bigint NOT NULL,
  task_id bigint NOT NULL,
  slice_id bigint NOT NULL,
  plan_id bigint NOT NULL,
  schedule_instance_id bigint NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  expr_hash text COLLATE "C" NOT NULL,
  -- Copied from the task.
  window_from timestamptz,
  window_to timestamptz,
  batch_no bigint NOT NULL CHECK (batch_no > 0),
  position jsonb NOT NULL,
  next_position jsonb,
  page_no bigint,
  page_size bigint,
  before_token text COLLATE "C",
  after_token text,
  before_url text,
  next_url text,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('PLANNED', 'RUNNING', 'SUCCEEDED', 'SKIPPED', 'FAILED')),
  has_next integer NOT NULL CHECK (has_next IN (0, 1)),
  latency_ms bigint NOT NULL,
  inserted bigint NOT NULL,
  updated bigint NOT NULL,
  skipped bigint NOT NULL,
  -- Both are included in `skipped`.
  out_of_window bigint NOT NULL DEFAULT 0,
  filtered bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL,
  retries bigint NOT NULL,
  throttled bigint NOT NULL,
  stats jsonb NOT NULL,
  request_digest jsonb NOT NULL,
  response_digest jsonb NOT NULL,
  error jsonb,
  idempotent_key text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  cursor_key text COLLATE "C" NOT NULL,
  namespace_scope_code text COLLATE "C" NOT NULL CHECK (namespace_scope_code IN ('GLOBAL', 'EXPR', 'CUSTOM')),
  namespace_key text COLLATE "C" NOT NULL,
  cursor_type_code text COLLATE "C" NOT NULL CHECK (cursor_type_code IN ('TIME', 'ID', 'TOKEN')),
  direction_code text COLLATE "C" NOT NULL CHECK (direction_code IN ('FORWARD', 'BACKFILL')),
  -- Start of the namespace: until the cursor has a value, progress counts from here. Only for TIME cursors.
  origin_instant timestamptz,
  cursor_value text,
  normalized_instant timestamptz,
  -- Number of completed id segments. Only for ID cursors.
  normalized_numeric bigint,
  observed_max_value text COLLATE "C",
  -- The work that moved the cursor to its current value.
  schedule_instance_id bigint,
  plan_id bigint,
  slice_id bigint,
  task_id bigint,
  run_id bigint,
  batch_no bigint,
  expr_hash text COLLATE "C",
  version bigint NOT NULL DEFAULT 0,
  -- Rises with every plan of the namespace. A planner that has read an older epoch must read again.
  plan_epoch bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((cursor_type_code = 'TIME') = (origin_instant IS NOT NULL)),
  CHECK (cursor_type_code = 'TIME' OR normalized_instant IS NULL),
  CHECK (cursor_type_code = 'ID' OR normalized_numeric IS NULL),
  CHECK (direction_code <> 'FORWARD' OR normalized_instant >= origin_instant),
  CHECK (direction_code <> 'BACKFILL' OR normalized_instant <= origin_instant)
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  cursor_id bigint NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL,
  cursor_key text COLLATE "C" NOT NULL,
  namespace_scope_code text COLLATE "C" NOT NULL,
  namespace_key text COLLATE "C" NOT NULL,
  direction_code text COLLATE "C" NOT NULL CHECK (direction_code IN ('FORWARD', 'BACKFILL')),
  prev_value text,
  new_value text NOT NULL,
  prev_instant timestamptz,
  new_instant timestamptz,
  prev_numeric bigint,
  new_numeric bigint,
  observed_max_value text COLLATE "C",
  schedule_instance_id bigint,
  plan_id bigint,
  slice_id bigint,
  task_id bigint,
  run_id bigint,
  batch_no bigint,
  expr_hash text COLLATE "C",
  record_remarks jsonb,
  idempotent_key text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_cur_evt_idem ON ing_cursor_event (idempotent_key);
CREATE INDEX idx_cur_evt_timeline ON ing_cursor_event
  (provenance_code, operation_code, namespace_scope_code, namespace_key, created_at);
CREATE INDEX idx_cur_evt_instant ON ing_cursor_event (cursor_id, new_instant);
CREATE INDEX idx_cur_evt_numeric ON ing_cursor_event (cursor_id, new_numeric);
CREATE INDEX idx_cur_evt_lineage ON ing_cursor_event (schedule_instance_id, plan_id, slice_id, task_id, run_id);
-- Append-only (ING-7.8-05): the database refuses updates, and deletes rows only for the archive.
CREATE FUNCTION cursor_event_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND current_setting('patra.archiving', true) = 'on' THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ing_cursor_event is append-only';
END
$$;
CREATE TRIGGER trg_cursor_event_append_only BEFORE UPDATE OR DELETE ON ing_cursor_event
FOR EACH ROW EXECUTE FUNCTION cursor_event_append_only();
-- A cursor only moves in its direction, and the direction is fixed (ING-4.4-06). The database enforces this itself.
CREATE FUNCTION cursor_forward() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ing_cursor only moves onward';
END
$$;
CREATE TRIGGER trg_cursor_forward BEFORE UPDATE ON ing_cursor
FOR EACH ROW
WHEN (NEW.direction_code <> OLD.direction_code OR NEW.cursor_type_code <> OLD.cursor_type_code
  OR (OLD.normalized_instant IS NOT NULL AND (NEW.normalized_instant IS NULL
    OR (OLD.direction_code = 'FORWARD' AND NEW.normalized_instant < OLD.normalized_instant)
    OR (OLD.direction_code = 'BACKFILL' AND NEW.normalized_instant > OLD.normalized_instant)))
  OR (OLD.normalized_numeric IS NOT NULL
    AND (NEW.normalized_numeric IS NULL OR NEW.normalized_numeric < OLD.normalized_numeric)))
EXECUTE FUNCTION cursor_forward();

-- Scopes within which record ids are unique (MAP-C-10). A number of its own, because it precedes every key in the index
-- of records.
CREATE TABLE item_scope (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  dedup_scope text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX uk_item_scope ON item_scope (project_key, provenance_code, dedup_scope);
-- Returns the number of a scope, and creates it if needed. A concurrent caller waits and then reads it.
CREATE FUNCTION item_scope_of(project text, code text, scope text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  number bigint;
BEGIN
  LOOP
    SELECT id INTO number FROM item_scope WHERE project_key = project AND provenance_code = code AND dedup_scope = scope;
    EXIT WHEN number IS NOT NULL;
    INSERT INTO item_scope (project_key, provenance_code, dedup_scope) VALUES (project, code, scope)
    ON CONFLICT DO NOTHING RETURNING id INTO number;
    EXIT WHEN number IS NOT NULL;
  END LOOP;
  RETURN number;
END $$;

-- Records. `payload` is the record as received; `fields` is what the manifest maps from it, or '' when it maps nothing.
CREATE TABLE item (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  scope_id bigint NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  dedup_key text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  updated_at timestamptz NOT NULL,
  source_version bigint NOT NULL,
  content_hash bytea NOT NULL,
  fields text NOT NULL,
  payload text NOT NULL,
  run_id bigint NOT NULL,
  batch_no bigint NOT NULL,
  -- Version of the mapping that produced `fields`.
  mapping_generation text COLLATE "C" NOT NULL,
  -- Last time that the record was fetched from the API or found to be gone there.
  refresh_checked_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  stored_at timestamptz NOT NULL,
  -- Time when the content was deleted. The key stays, so that the record is not stored again.
  emptied_at timestamptz,
  -- Time since when no list contains the record any more, see item_listed.
  missing_since timestamptz
);
CREATE UNIQUE INDEX uk_item ON item (scope_id, dedup_key);
-- Records that a run has stored.
CREATE INDEX idx_item_run ON item (run_id, id);
-- Tweets by id, by author, by project and all together. `updated_at` of a tweet is the time of writing, `created_at` the
-- time of storing. The text type cannot hold the NUL character, which JSON can escape: it is read as a space.
CREATE INDEX idx_tweets_id ON item (dedup_key, project_key) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_author_created ON item
  (lower((replace(nullif(fields, ''), '\u0000', '\u0020')::jsonb ->> 'author_username') COLLATE "C"), updated_at DESC, id DESC)
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_created ON item (project_key, updated_at, id) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_stored ON item (project_key, created_at, id) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_written_at ON item (updated_at, id) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_db_created_at ON item (created_at, id) WHERE kind = 'tweet';
-- Newest records of a project, at the same cost however many records other projects have.
CREATE INDEX idx_item_project ON item (project_key, id);

-- Lists that are read as a whole (`window.mode: snapshot`, `missing: mark`): one per endpoint, or one per set of its
-- params.
CREATE TABLE item_list (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  -- '' or a hash of the params.
  list_key text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX uk_item_list ON item_list (project_key, provenance_code, endpoint_name, list_key);
-- Returns the number of a list, and creates it if needed.
CREATE FUNCTION item_list_of(project text, code text, endpoint text, list text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  number bigint;
BEGIN
  LOOP
    SELECT id INTO number FROM item_list
    WHERE project_key = project AND provenance_code = code AND endpoint_name = endpoint AND list_key = list;
    EXIT WHEN number IS NOT NULL;
    INSERT INTO item_list (project_key, provenance_code, endpoint_name, list_key) VALUES (project, code, endpoint, list)
    ON CONFLICT DO NOTHING RETURNING id INTO number;
    EXIT WHEN number IS NOT NULL;
  END LOOP;
  RETURN number;
END $$;
-- Records that a list contains or contained: the last slice that saw the record or found it missing, and since when it
-- is missing.
CREATE TABLE item_listed (
  list_id bigint NOT NULL,
  item_id bigint NOT NULL,
  slice_id bigint NOT NULL,
  missing_since timestamptz,
  PRIMARY KEY (list_id, item_id)
);
-- Lists that contain a record. Partial, so that the planner never reads a whole list with it.
CREATE INDEX idx_item_listed_item ON item_listed (item_id) WHERE missing_since IS NULL;

-- Tweets, with the column names that clients expect (TWEET-120..131). A tweet that two projects collected has a row for
-- each: filter by `project_key`. A JSON null is read as NULL. The author is spelled as in the index.
CREATE VIEW tweets AS
SELECT dedup_key AS tweet_id,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'text' AS text,
  updated_at AS created_at,
  (replace(nullif(fields, ''), '\u0000', '\u0020')::jsonb ->> 'author_username') COLLATE "C" AS author_username,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'author_display_name' AS author_display_name,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_id' AS referenced_tweet_id,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'reference_type' AS reference_type,
  CASE WHEN replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'media' IS NOT NULL
    THEN replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'media' END AS media,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_text' AS referenced_tweet_text,
  CASE WHEN replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_media' IS NOT NULL
    THEN replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'referenced_tweet_media' END AS referenced_tweet_media,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_author_username' AS referenced_tweet_author_username,
  created_at AS db_created_at,
  stored_at AS db_updated_at,
  project_key
FROM item
WHERE kind = 'tweet' AND emptied_at IS NULL;

-- Items as documents, whatever their source.
CREATE VIEW documents AS
SELECT id, project_key,
  coalesce(replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'doc_type', kind) AS doc_type,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'state' AS state,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'title' AS title,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'uri' AS uri,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'content' AS content,
  CASE WHEN replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'extracted_data' IS NOT NULL
    THEN replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'extracted_data' END AS extracted_data,
  created_at
FROM item
WHERE emptied_at IS NULL;

-- Sources in which an item was found, with the first time.
CREATE TABLE item_source (
  source_id bigint NOT NULL,
  item_id bigint NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  fetched_at timestamptz NOT NULL,
  PRIMARY KEY (source_id, item_id)
);
CREATE INDEX idx_item_source_time ON item_source (source_id, fetched_at, item_id);
CREATE INDEX idx_item_source_fetched ON item_source (project_key, fetched_at, item_id);
CREATE INDEX idx_item_source_item ON item_source (item_id);
-- Only articles are deleted by age (COLL-109).
CREATE INDEX idx_item_source_old ON item_source (fetched_at) WHERE kind = 'article';

-- Sources: feeds, pages and lists that are polled at an interval.
CREATE TABLE source (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  name text NOT NULL,
  config jsonb NOT NULL CHECK (jsonb_typeof(config) = 'object'),
  -- Identity of the source within its project.
  source_key text COLLATE "C" NOT NULL,
  -- Interval of this source; NULL for that of its type.
  minutes bigint CHECK (minutes > 0),
  is_public integer NOT NULL CHECK (is_public IN (0, 1)),
  is_active integer NOT NULL CHECK (is_active IN (0, 1)),
  is_deleted integer NOT NULL DEFAULT 0 CHECK (is_deleted IN (0, 1)),
  paused_reason text COLLATE "C" CHECK (paused_reason IN ('user', 'error', 'gone')),
  paused_at timestamptz,
  last_fetched_at timestamptz,
  fetch_count bigint NOT NULL DEFAULT 0,
  fetch_error_count bigint NOT NULL DEFAULT 0,
  last_error text,
  last_error_at timestamptz,
  probe_count bigint NOT NULL DEFAULT 0,
  -- Time of the next poll; NULL: not scheduled.
  next_due_at timestamptz,
  -- Polls that brought something new: time of the last one, their number, and the usual time between two of them.
  last_new_at timestamptz,
  new_count bigint NOT NULL DEFAULT 0,
  new_gap_seconds bigint NOT NULL DEFAULT 0,
  -- Number of polls that were queued.
  poll_count bigint NOT NULL DEFAULT 0,
  -- Validators of the last response (such as its ETag), to recognise an unchanged one.
  validators jsonb,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((is_active = 1) = (paused_reason IS NULL)),
  CHECK ((paused_reason IS NULL) = (paused_at IS NULL)),
  CHECK (is_deleted = 0 OR next_due_at IS NULL),
  CHECK (paused_reason IS NULL OR paused_reason <> 'user' OR next_due_at IS NULL)
);
-- Every poll changes its row, and mostly `next_due_at`.
ALTER TABLE source SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE UNIQUE INDEX uk_source_key ON source (project_key, source_key) WHERE is_deleted = 0;
CREATE INDEX idx_sources_active ON source (is_active) WHERE is_deleted = 0;
-- Sources that are due. A tick reads only these.
CREATE INDEX idx_source_due ON source (next_due_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX idx_source_type ON source (type) WHERE is_deleted = 0;

-- Statistics of successful fetches, kept for Twitter sources.
CREATE TABLE source_stats (
  source_id bigint PRIMARY KEY,
  last_fetch_at timestamptz NOT NULL,
  last_fetched_count bigint NOT NULL CHECK (last_fetched_count >= 0),
  last_new_count bigint NOT NULL CHECK (last_new_count >= 0),
  total_fetches bigint NOT NULL CHECK (total_fetches >= 0),
  avg_new_rate double precision NOT NULL CHECK (avg_new_rate BETWEEN 0 AND 1),
  consecutive_empty_fetches bigint NOT NULL CHECK (consecutive_empty_fetches >= 0),
  -- Id of the newest tweet up to which everything is stored.
  newest_id text COLLATE "C",
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

-- The same statistics by user name (TWEET-74..81). A user whom two projects follow has a row for each.
CREATE VIEW scraper_fetch_stats AS
SELECT lower((source.config ->> 'username') COLLATE "C") AS username,
  stats.last_fetch_at, stats.last_fetched_count, stats.last_new_count, stats.total_fetches, stats.avg_new_rate,
  stats.consecutive_empty_fetches, stats.created_at, stats.updated_at, source.project_key
FROM source_stats stats JOIN source ON source.id = stats.source_id
WHERE source.is_deleted = 0 AND source.config ->> 'username' IS NOT NULL;

-- Source types that the collector knows.
CREATE TABLE source_type (
  type text COLLATE "C" PRIMARY KEY,
  minutes bigint NOT NULL CHECK (minutes > 0),
  interval_from text COLLATE "C" NOT NULL CHECK (interval_from IN ('default', 'environment', 'config')),
  -- Why sources of this type cannot be fetched now.
  unsupported text,
  updated_at timestamptz NOT NULL
);

-- Heartbeats of collectors that are running, or were until recently.
CREATE TABLE collector_beat (
  owner text COLLATE "C" PRIMARY KEY,
  last_tick_at timestamptz NOT NULL,
  next_tick_at timestamptz NOT NULL,
  tick_seconds bigint NOT NULL,
  concurrency bigint NOT NULL,
  leaving integer NOT NULL CHECK (leaving IN (0, 1))
);

-- Settings that take effect while the program runs.
CREATE TABLE config (
  config_key text COLLATE "C" PRIMARY KEY,
  config_value text NOT NULL,
  updated_at timestamptz NOT NULL
);
-- Random salt, created once: encryption keys are derived with it from a passphrase.
INSERT INTO config (config_key, config_value, updated_at)
VALUES ('cookie_salt', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), now());

-- Records that could not be stored, each with a sample and the reason.
CREATE TABLE item_quarantine (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  task_id bigint NOT NULL,
  run_id bigint NOT NULL,
  batch_no bigint NOT NULL,
  item_index bigint NOT NULL,
  dedup_key text COLLATE "C",
  error_code text COLLATE "C" NOT NULL,
  reason text NOT NULL,
  sample text NOT NULL,
  -- Copied from the batch.
  request_digest jsonb NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN', 'SIGNALLED', 'RESOLVED', 'ABANDONED')),
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_quarantine_place ON item_quarantine (run_id, batch_no, item_index);
CREATE INDEX idx_quarantine_key ON item_quarantine (project_key, provenance_code, endpoint_name, dedup_key)
  WHERE status_code = 'SIGNALLED';

-- Counters of work per minute, so that boards do not have to read the ledger (ING-13.6). The triggers below update them
-- in the transaction that does the work. On PostgreSQL, connections that commit at the same time mostly write different
-- shards; SQLite has one writer and one shard.
CREATE TABLE ing_minute (
  minute timestamptz NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  -- Runs that started, and how runs ended.
  picks bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  partial bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  -- Pages that were committed, and pages that could not be read.
  batches bigint NOT NULL DEFAULT 0,
  batches_failed bigint NOT NULL DEFAULT 0,
  latency_ms bigint NOT NULL DEFAULT 0,
  inserted bigint NOT NULL DEFAULT 0,
  updated bigint NOT NULL DEFAULT 0,
  skipped bigint NOT NULL DEFAULT 0,
  rejected bigint NOT NULL DEFAULT 0,
  late bigint NOT NULL DEFAULT 0,
  retries bigint NOT NULL DEFAULT 0,
  throttled bigint NOT NULL DEFAULT 0,
  -- Events of the rate gate.
  permits bigint NOT NULL DEFAULT 0,
  wait_ms bigint NOT NULL DEFAULT 0,
  retry_after bigint NOT NULL DEFAULT 0,
  demoted bigint NOT NULL DEFAULT 0,
  quota_soft bigint NOT NULL DEFAULT 0,
  quota_hard bigint NOT NULL DEFAULT 0,
  -- What the program did by itself to recover.
  qps_downshift bigint NOT NULL DEFAULT 0,
  page_size_shrink bigint NOT NULL DEFAULT 0,
  concurrency_down bigint NOT NULL DEFAULT 0,
  circuit_open bigint NOT NULL DEFAULT 0,
  resliced bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (minute, project_key, provenance_code, endpoint_name, operation_code, shard)
) WITH (fillfactor = 50);

-- Errors per minute by code, with the last occurrence of each: runs that failed, runs that stopped at an unreadable
-- page, and records that went to quarantine.
CREATE TABLE ing_error_minute (
  minute timestamptz NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL,
  level text COLLATE "C" NOT NULL,
  error_code text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  errors bigint NOT NULL,
  message text NOT NULL,
  last_at timestamptz NOT NULL,
  task_id bigint NOT NULL,
  run_id bigint NOT NULL,
  batch_no bigint,
  PRIMARY KEY (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard)
) WITH (fillfactor = 50);

-- Each statement updates counters in key order, and ing_minute before ing_error_minute, so that two statements cannot
-- deadlock.
CREATE FUNCTION count_batches() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ing_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, shard,
    batches, batches_failed, latency_ms, inserted, updated, skipped, rejected, late, retries, throttled, permits,
    wait_ms, retry_after, demoted, quota_soft, quota_hard, qps_downshift, page_size_shrink, concurrency_down,
    circuit_open)
  SELECT date_trunc('minute', b.created_at), t.project_key, t.provenance_code, t.endpoint_name, t.operation_code, pg_backend_pid() % 16,
    count(*) FILTER (WHERE b.status_code = 'SUCCEEDED'), count(*) FILTER (WHERE b.status_code = 'FAILED'),
    sum(b.latency_ms), sum(b.inserted), sum(b.updated), sum(b.skipped), sum(b.failed),
    coalesce(sum((b.stats ->> 'late')::bigint), 0), sum(b.retries), sum(b.throttled),
    coalesce(sum((b.stats -> 'rate' ->> 'permitsTotal')::bigint), 0),
    coalesce(sum((b.stats -> 'rate' ->> 'waitTotalMs')::bigint), 0),
    coalesce(sum((b.stats -> 'rate' ->> 'retryAfterHits')::bigint), 0),
    coalesce(sum((b.stats -> 'rate' ->> 'demoteEvents')::bigint), 0),
    coalesce(sum((b.stats -> 'rate' ->> 'quotaSoftHits')::bigint), 0),
    coalesce(sum((b.stats -> 'rate' ->> 'quotaHardHits')::bigint), 0),
    count(*) FILTER (WHERE (b.stats -> 'selfHealing' ->> 'qpsDownshift')::boolean),
    count(*) FILTER (WHERE (b.stats -> 'selfHealing' ->> 'pageSizeShrink')::boolean),
    count(*) FILTER (WHERE (b.stats -> 'selfHealing' ->> 'concurrencyDown')::boolean),
    count(*) FILTER (WHERE (b.stats -> 'selfHealing' ->> 'circuitOpen')::boolean)
  FROM counted b JOIN ing_task t ON t.id = b.task_id
  GROUP BY 1, 2, 3, 4, 5, 6
  ORDER BY 1, 2, 3, 4, 5, 6
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET
    batches = m.batches + excluded.batches, batches_failed = m.batches_failed + excluded.batches_failed,
    latency_ms = m.latency_ms + excluded.latency_ms, inserted = m.inserted + excluded.inserted,
    updated = m.updated + excluded.updated, skipped = m.skipped + excluded.skipped,
    rejected = m.rejected + excluded.rejected, late = m.late + excluded.late, retries = m.retries + excluded.retries,
    throttled = m.throttled + excluded.throttled, permits = m.permits + excluded.permits,
    wait_ms = m.wait_ms + excluded.wait_ms, retry_after = m.retry_after + excluded.retry_after,
    demoted = m.demoted + excluded.demoted, quota_soft = m.quota_soft + excluded.quota_soft,
    quota_hard = m.quota_hard + excluded.quota_hard, qps_downshift = m.qps_downshift + excluded.qps_downshift,
    page_size_shrink = m.page_size_shrink + excluded.page_size_shrink,
    concurrency_down = m.concurrency_down + excluded.concurrency_down,
    circuit_open = m.circuit_open + excluded.circuit_open;
  RETURN NULL;
END
$$;
CREATE TRIGGER trg_count_batches AFTER INSERT ON ing_task_run_batch
REFERENCING NEW TABLE AS counted FOR EACH STATEMENT EXECUTE FUNCTION count_batches();

CREATE FUNCTION count_picks() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ing_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, shard, picks)
  SELECT date_trunc('minute', r.created_at), t.project_key, t.provenance_code, t.endpoint_name, t.operation_code, pg_backend_pid() % 16,
    count(*)
  FROM counted r JOIN ing_task t ON t.id = r.task_id
  GROUP BY 1, 2, 3, 4, 5, 6
  ORDER BY 1, 2, 3, 4, 5, 6
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET picks = m.picks + excluded.picks;
  RETURN NULL;
END
$$;
CREATE TRIGGER trg_count_picks AFTER INSERT ON ing_task_run
REFERENCING NEW TABLE AS counted FOR EACH STATEMENT EXECUTE FUNCTION count_picks();

CREATE FUNCTION count_ends() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ing_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, shard, succeeded,
    partial, failed)
  SELECT date_trunc('minute', r.finished_at), t.project_key, t.provenance_code, t.endpoint_name, t.operation_code, pg_backend_pid() % 16,
    count(*) FILTER (WHERE r.status_code = 'SUCCEEDED'), count(*) FILTER (WHERE r.status_code = 'PARTIAL'),
    count(*) FILTER (WHERE r.status_code = 'FAILED')
  FROM counted r JOIN before o ON o.id = r.id JOIN ing_task t ON t.id = r.task_id
  WHERE o.finished_at IS NULL AND r.status_code IN ('SUCCEEDED', 'PARTIAL', 'FAILED')
  GROUP BY 1, 2, 3, 4, 5, 6
  ORDER BY 1, 2, 3, 4, 5, 6
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET succeeded = m.succeeded + excluded.succeeded, partial = m.partial + excluded.partial, failed = m.failed + excluded.failed;
  INSERT INTO ing_error_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard,
    errors, message, last_at, task_id, run_id, batch_no)
  SELECT date_trunc('minute', r.finished_at), t.project_key, t.provenance_code, t.endpoint_name, t.operation_code,
    r.error ->> 'level', r.error ->> 'code', pg_backend_pid() % 16, count(*), (array_agg(r.error ->> 'message' ORDER BY r.id DESC))[1],
    max(r.finished_at), (array_agg(r.task_id ORDER BY r.id DESC))[1], max(r.id), (array_agg(b.batch_no ORDER BY r.id DESC))[1]
  FROM counted r JOIN before o ON o.id = r.id JOIN ing_task t ON t.id = r.task_id
  LEFT JOIN LATERAL (
    SELECT batch_no FROM ing_task_run_batch WHERE run_id = r.id AND status_code = 'FAILED' ORDER BY batch_no DESC LIMIT 1
  ) AS b ON true
  WHERE o.finished_at IS NULL AND r.error IS NOT NULL
    AND (r.status_code = 'FAILED' OR r.status_code = 'PARTIAL' AND b.batch_no IS NOT NULL)
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
  ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
  SET errors = m.errors + excluded.errors, message = excluded.message, last_at = excluded.last_at,
    task_id = excluded.task_id, run_id = excluded.run_id, batch_no = excluded.batch_no;
  RETURN NULL;
END
$$;
CREATE TRIGGER trg_count_ends AFTER UPDATE ON ing_task_run
REFERENCING OLD TABLE AS before NEW TABLE AS counted FOR EACH STATEMENT EXECUTE FUNCTION count_ends();

CREATE FUNCTION count_quarantine() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ing_error_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard,
    errors, message, last_at, task_id, run_id, batch_no)
  SELECT date_trunc('minute', q.created_at), t.project_key, t.provenance_code, t.endpoint_name, t.operation_code, 'L3',
    q.error_code, pg_backend_pid() % 16, count(*), (array_agg(q.reason ORDER BY q.id DESC))[1], max(q.created_at),
    (array_agg(q.task_id ORDER BY q.id DESC))[1], (array_agg(q.run_id ORDER BY q.id DESC))[1],
    (array_agg(q.batch_no ORDER BY q.id DESC))[1]
  FROM counted q JOIN ing_task t ON t.id = q.task_id
  GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
  ORDER BY 1, 2, 3, 4, 5, 6, 7, 8
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, level, error_code, shard) DO UPDATE
  SET errors = m.errors + excluded.errors, message = excluded.message, last_at = excluded.last_at,
    task_id = excluded.task_id, run_id = excluded.run_id, batch_no = excluded.batch_no;
  RETURN NULL;
END
$$;
CREATE TRIGGER trg_count_quarantine AFTER INSERT ON item_quarantine
REFERENCING NEW TABLE AS counted FOR EACH STATEMENT EXECUTE FUNCTION count_quarantine();

-- Counts tasks that are split while they run. A task that is repeated after its end is also `replaced`, but does not
-- count.
CREATE FUNCTION count_split() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO ing_minute AS m (minute, project_key, provenance_code, endpoint_name, operation_code, shard, resliced)
  VALUES (date_trunc('minute', NEW.finished_at), NEW.project_key, NEW.provenance_code, NEW.endpoint_name, NEW.operation_code,
    pg_backend_pid() % 16, 1)
  ON CONFLICT (minute, project_key, provenance_code, endpoint_name, operation_code, shard) DO UPDATE
  SET resliced = m.resliced + 1;
  RETURN NULL;
END
$$;
CREATE TRIGGER trg_count_split AFTER UPDATE OF replaced ON ing_task FOR EACH ROW
WHEN (OLD.replaced = 0 AND NEW.replaced = 1 AND OLD.status_code = 'EXECUTING') EXECUTE FUNCTION count_split();

-- Records that must be fetched again, and who requested it.
CREATE TABLE ing_signal (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  item_key text COLLATE "C" NOT NULL,
  origin_code text COLLATE "C" NOT NULL CHECK (origin_code IN ('QUARANTINE', 'READER')),
  reason text NOT NULL,
  created_by text NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN', 'RESOLVED', 'ABANDONED')),
  tries bigint NOT NULL DEFAULT 0,
  last_error text,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_signal_open ON ing_signal (project_key, provenance_code, endpoint_name, item_key)
  WHERE status_code = 'OPEN';

-- Pauses and halts. A row covers the work that matches all of its columns from `provenance_code` to `task_id` that are
-- not NULL. `subject` repeats these columns as one text.
CREATE TABLE ing_hold (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind_code text COLLATE "C" NOT NULL CHECK (kind_code IN ('PAUSE', 'BREAK', 'ADVISORY')),
  subject text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C",
  endpoint_name text COLLATE "C",
  operation_code text COLLATE "C",
  credential_id bigint,
  plan_id bigint,
  slice_id bigint,
  task_id bigint,
  reason text NOT NULL,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL,
  released_by text,
  released_at timestamptz
);
CREATE UNIQUE INDEX uk_hold_active ON ing_hold (kind_code, subject) WHERE released_at IS NULL;

-- Ids whose content is fetched in a second phase: the version that was fetched, or why the content cannot be fetched.
CREATE TABLE ing_candidate (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  candidate_id text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('FETCHED', 'BAD')),
  reason text,
  tries bigint NOT NULL,
  -- A bad id is not tried again before this time.
  expires_at timestamptz,
  updated_at timestamptz NOT NULL,
  CHECK ((status_code = 'BAD') = (expires_at IS NOT NULL))
);
CREATE UNIQUE INDEX uk_candidate ON ing_candidate (project_key, provenance_code, endpoint_name, candidate_id);

-- Responses as received, for replays. The manifest says how long they are kept.
CREATE TABLE ing_raw (
  run_id bigint NOT NULL,
  batch_no bigint NOT NULL,
  status integer NOT NULL,
  headers text NOT NULL CHECK (headers::json IS NOT NULL),
  body bytea NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (run_id, batch_no)
);
CREATE INDEX idx_raw_expires ON ing_raw (expires_at);

-- One row: the latest time that the store has seen. If the clock shows an earlier time, it was set back.
CREATE TABLE ing_clock (
  id bigint PRIMARY KEY CHECK (id = 1),
  seen_at timestamptz NOT NULL
);

-- State of the rate gate, by rate key.
CREATE TABLE ing_gate (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  rate_key text COLLATE "C" NOT NULL,
  state text NOT NULL CHECK (json_typeof(state::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_gate_key ON ing_gate (rate_key);

-- Batches and cursor events that were moved out of the ledger. `row_id` and `created_at` are those of the row, and
-- `body` is the whole row.
CREATE TABLE ing_archive (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind_code text COLLATE "C" NOT NULL CHECK (kind_code IN ('BATCH', 'EVENT')),
  row_id bigint NOT NULL,
  schedule_instance_id bigint,
  plan_id bigint,
  slice_id bigint,
  task_id bigint,
  run_id bigint,
  batch_no bigint,
  body text NOT NULL CHECK (json_typeof(body::json) = 'object'),
  created_at timestamptz NOT NULL,
  archived_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_archive ON ing_archive (kind_code, row_id);
CREATE INDEX idx_archive_plan ON ing_archive (plan_id);
CREATE INDEX idx_archive_run ON ing_archive (run_id, batch_no);

-- Diagnostic bundles that were exported.
CREATE TABLE ing_export (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id bigint NOT NULL,
  batch_no bigint NOT NULL,
  created_by text NOT NULL,
  reason text NOT NULL,
  package_hash text COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL
);

-- Credentials for upstream APIs, as people define them. `sealed` is encrypted with the master key that `key_id` names;
-- it is '' once the credential is revoked. Rotation adds a row with the next version.
CREATE TABLE reg_prov_credential (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  alias text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  version bigint NOT NULL CHECK (version > 0),
  type_code text COLLATE "C" NOT NULL
    CHECK (type_code IN ('API_KEY', 'BEARER', 'BASIC', 'OAUTH2', 'COOKIE', 'SESSION', 'CUSTOM')),
  priority integer NOT NULL,
  sealed text COLLATE "C" NOT NULL,
  key_id text COLLATE "C" NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('ACTIVE', 'REVOKED')),
  -- Only for cookies: uses per day; NULL for the default.
  daily_limit bigint CHECK (daily_limit >= 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  revoked_at timestamptz,
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  credential_id bigint NOT NULL,
  sealed text COLLATE "C",
  key_id text COLLATE "C",
  expires_at timestamptz,
  -- Rises with every stored token.
  version bigint NOT NULL DEFAULT 0,
  refresh_owner text COLLATE "C",
  refresh_until timestamptz,
  -- The fence: rises with every lease.
  refresh_epoch bigint NOT NULL DEFAULT 0,
  -- The fence under which the token was stored.
  stored_epoch bigint NOT NULL DEFAULT 0,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('ACTIVE', 'REJECTED')),
  fail_count bigint NOT NULL DEFAULT 0,
  last_error text,
  -- Status of a cookie.
  cookie_code text COLLATE "C" NOT NULL DEFAULT 'active' CHECK (cookie_code IN ('active', 'cooling', 'invalid', 'banned')),
  -- Uses since `used_day` began.
  daily_used bigint NOT NULL DEFAULT 0,
  used_day timestamptz,
  consecutive_errors bigint NOT NULL DEFAULT 0,
  total_errors bigint NOT NULL DEFAULT 0,
  cooling_until timestamptz,
  cooling_since timestamptz,
  last_used_at timestamptz,
  -- Copied from the definition of an ACTIVE cookie, otherwise NULL, so that picking a cookie reads only one index.
  cookie_name text COLLATE "C",
  provenance_code text COLLATE "C",
  endpoint_name text COLLATE "C",
  priority integer NOT NULL DEFAULT 1,
  daily_limit bigint NOT NULL DEFAULT 100,
  -- The cookie is not used after this time; `expired` is 1 once it has passed.
  cookie_expires_at timestamptz,
  expired bigint NOT NULL DEFAULT 0 CHECK (expired IN (0, 1)),
  -- Time when a person paused the cookie.
  paused_at timestamptz,
  -- Most uses at the same time (0: no limit), and the current number of rows in ing_cookie_lease.
  max_parallel bigint NOT NULL DEFAULT 0 CHECK (max_parallel >= 0),
  in_use bigint NOT NULL DEFAULT 0 CHECK (in_use >= 0),
  updated_at timestamptz NOT NULL,
  CHECK ((refresh_owner IS NULL) = (refresh_until IS NULL)),
  CHECK ((cookie_code = 'cooling') = (cooling_until IS NOT NULL)),
  CHECK ((provenance_code IS NULL) = (endpoint_name IS NULL) AND (provenance_code IS NULL) = (cookie_name IS NULL))
);
CREATE UNIQUE INDEX uk_credential_state ON ing_credential_state (credential_id);
CREATE INDEX idx_credential_refreshing ON ing_credential_state (refresh_until) WHERE refresh_owner IS NOT NULL;
CREATE INDEX idx_cookie_cooling ON ing_credential_state (cooling_until) WHERE cooling_until IS NOT NULL;
-- Usable cookies, in the order in which they are picked (CRAWL-22).
CREATE INDEX idx_cookie_ready ON ing_credential_state
  (provenance_code, endpoint_name, priority DESC, last_used_at NULLS FIRST, credential_id)
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  credential_id bigint NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  holder text COLLATE "C" NOT NULL,
  expires_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_cookie_lease ON ing_cookie_lease (holder);
CREATE INDEX idx_cookie_lease ON ing_cookie_lease (provenance_code, expires_at);
CREATE INDEX idx_cookie_lease_of ON ing_cookie_lease (credential_id, expires_at);

-- Named locks: one row per execution of a workflow. An execution without a heartbeat for too long loses its lock.
CREATE TABLE ing_execution (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  workflow_name text COLLATE "C" NOT NULL,
  execution_id text COLLATE "C" NOT NULL,
  status text COLLATE "C" NOT NULL CHECK (status IN ('running', 'completed', 'failed', 'timeout')),
  started_at timestamptz NOT NULL,
  heartbeat_at timestamptz NOT NULL,
  completed_at timestamptz,
  items_processed bigint NOT NULL DEFAULT 0,
  items_failed bigint NOT NULL DEFAULT 0,
  CHECK ((status = 'running') = (completed_at IS NULL))
);
CREATE UNIQUE INDEX uk_execution_id ON ing_execution (execution_id);
-- A workflow has at most one running execution (CRAWL-49).
CREATE UNIQUE INDEX uk_execution_running ON ing_execution (project_key, workflow_name) WHERE status = 'running';
CREATE INDEX idx_execution_beat ON ing_execution (heartbeat_at) WHERE status = 'running';

-- Notes whose details are to be fetched, or have been.
CREATE TABLE crawl_candidate (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  platform text COLLATE "C" NOT NULL,
  note_id text COLLATE "C" NOT NULL,
  note_url text NOT NULL,
  status text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'processing', 'collected', 'failed')),
  -- The execution that has claimed the note, and the time of the claim or its last renewal.
  processing_lock text COLLATE "C",
  locked_at timestamptz,
  retry_count bigint NOT NULL DEFAULT 0,
  source_keyword text COLLATE "C",
  -- Values that the platform requires for the details: a JSON object, or the same encrypted.
  tokens text NOT NULL,
  last_error_code text COLLATE "C",
  exec_meta text NOT NULL CHECK (json_typeof(exec_meta::json) = 'object'),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
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
  item_id bigint PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  platform text COLLATE "C" NOT NULL,
  note_id text COLLATE "C" NOT NULL,
  note_url text,
  idempotency_key text COLLATE "C" NOT NULL,
  processing_lock text COLLATE "C",
  locked_at timestamptz,
  retry_count bigint NOT NULL DEFAULT 0,
  last_error_code text COLLATE "C",
  exec_meta text NOT NULL CHECK (json_typeof(exec_meta::json) = 'object'),
  published_at timestamptz,
  CHECK ((processing_lock IS NULL) = (locked_at IS NULL))
);
CREATE UNIQUE INDEX uk_note_key ON item_note (project_key, platform, idempotency_key);

-- Crawl requests per minute, for the last hour.
CREATE TABLE crawl_minute (
  platform text COLLATE "C" NOT NULL,
  minute timestamptz NOT NULL,
  succeeded bigint NOT NULL,
  failed bigint NOT NULL,
  PRIMARY KEY (platform, minute)
);

-- State of each alert: `since` is when its condition began, `told_at` the time of the last notification.
CREATE TABLE alert_state (
  alert text COLLATE "C" NOT NULL,
  subject text COLLATE "C" NOT NULL,
  level text COLLATE "C" NOT NULL CHECK (level IN ('P0', 'P1', 'P2')),
  since timestamptz,
  firing integer NOT NULL CHECK (firing IN (0, 1)),
  told_at timestamptz,
  value double precision NOT NULL,
  threshold double precision NOT NULL,
  detail text COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (alert, subject),
  CHECK (firing = 0 OR since IS NOT NULL)
);

-- URLs found in documents and tasks: the shared library (with an empty project_key) and the library of each project.
-- Existing rows never change.
CREATE TABLE resource_pool_urls (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  url text COLLATE "C" NOT NULL,
  domain varchar(255) COLLATE "C" NOT NULL,
  source varchar(32) COLLATE "C" NOT NULL CHECK (source IN ('document', 'task')),
  -- Where the URL was found first.
  source_ref jsonb NOT NULL CHECK (jsonb_typeof(source_ref) = 'object'),
  scope varchar(16) COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key varchar(64) COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  CHECK ((scope = 'shared') = (project_key = ''))
);
CREATE UNIQUE INDEX uk_pool_url ON resource_pool_urls (scope, project_key, url);
-- Includes the columns that lists are filtered by, so that only matching rows are read from the table.
CREATE INDEX idx_pool_list ON resource_pool_urls (scope, project_key, created_at, id) INCLUDE (source, domain);
CREATE INDEX idx_pool_domain ON resource_pool_urls (scope, project_key, domain);
-- Shared rows have no project: the planner must know that the two columns depend on each other.
CREATE STATISTICS st_pool_library ON scope, project_key FROM resource_pool_urls;

-- Whether URLs are captured while jobs of a project and type run, and into which library.
CREATE TABLE resource_pool_capture (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  job_type text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  enabled integer NOT NULL CHECK (enabled IN (0, 1)),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_pool_capture ON resource_pool_capture (project_key, job_type);

-- Number of URLs in each library, so that nothing has to count them. `covered` is how many URLs of a project are also
-- shared. Read the sum over all shards: concurrent writers mostly write different ones.
CREATE TABLE resource_pool_count (
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  urls bigint NOT NULL,
  covered bigint NOT NULL,
  PRIMARY KEY (scope, project_key, shard)
) WITH (fillfactor = 50);

-- Events to deliver to external systems. Ids are never reused: receivers identify events by id.
CREATE TABLE outbox_event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  event_type text COLLATE "C" NOT NULL,
  -- Events of one topic are delivered one after the other.
  topic text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C" NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('PENDING', 'DELIVERED', 'FAILED')),
  tries bigint NOT NULL DEFAULT 0,
  last_error text,
  not_before timestamptz NOT NULL,
  lease_owner text COLLATE "C",
  leased_until timestamptz,
  created_at timestamptz NOT NULL,
  ended_at timestamptz,
  -- The last column, so that looking for deliverable events does not read payloads.
  payload jsonb NOT NULL CHECK (jsonb_typeof(payload) = 'object'),
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
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  prefix text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  name text NOT NULL,
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  -- Projects that the key may act for; an empty list for all.
  projects jsonb NOT NULL CHECK (jsonb_typeof(projects) = 'array'),
  -- 1: the key may write data that all projects see.
  shared integer NOT NULL CHECK (shared IN (0, 1)),
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE UNIQUE INDEX uk_key_prefix ON api_key (prefix);
