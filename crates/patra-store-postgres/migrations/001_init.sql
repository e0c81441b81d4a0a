-- The first schema. Same tables, columns, unique keys and index names as the SQLite file of this number.
-- Times are timestamptz, microseconds, UTC. Small JSON is jsonb; what came from outside or enters a hash is text, byte for
-- byte. Codes and keys compare as bytes (COLLATE "C"), so that order is the same in both databases and under every locale.
-- There are no foreign keys (ING-0.1-04).

-- The registry. Each table holds one section of the manifests: `config` is a JSON object, and `endpoint_name` an endpoint
-- or, in the tables below the first two, '*' for what all endpoints of the provenance share.
CREATE TABLE reg_provenance (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  name text NOT NULL,
  -- For whom it is; null for everybody.
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

-- A number is never used again: triggers name the schedule that fired them.
CREATE TABLE reg_schedule (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  -- Why, for an UPDATE; '' and not null, or the unique key would not hold.
  reason_code text COLLATE "C" NOT NULL DEFAULT '' CHECK (reason_code IN ('', 'STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  when_text text COLLATE "C" NOT NULL CHECK (when_text LIKE 'every %' OR when_text LIKE 'cron %'),
  next_due_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_schedule ON reg_schedule (provenance_code, endpoint_name, operation_code, reason_code);
CREATE INDEX idx_schedule_due ON reg_schedule (next_due_at);

-- The dictionary: what the program knows as codes, for people and other programs to look up. It is written as a whole.
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

CREATE TABLE ing_snapshot (
  hash text COLLATE "C" PRIMARY KEY,
  body text NOT NULL CHECK (body::json IS NOT NULL),
  created_at timestamptz NOT NULL
);

-- Whose everything is. What belongs to no other project is of `default`.
CREATE TABLE project (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  name text NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_project ON project (project_key);
INSERT INTO project (project_key, name, created_at) VALUES ('default', 'default', clock_timestamp());

-- One time that something was asked for. `schedule_id` names the schedule that fired it, if one did.
CREATE TABLE ing_schedule_instance (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  public_id text COLLATE "C" NOT NULL,
  schedule_id bigint,
  scheduler_code text COLLATE "C" NOT NULL,
  scheduler_job_id text COLLATE "C" NOT NULL,
  scheduler_log_id text COLLATE "C" NOT NULL,
  trigger_type_code text COLLATE "C" NOT NULL CHECK (trigger_type_code IN ('SCHEDULE', 'MANUAL', 'API')),
  project_key text COLLATE "C" NOT NULL,
  -- What kind of work it is, in the words of those who ask for it.
  job_type text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL CHECK (operation_code IN ('HARVEST', 'BACKFILL', 'UPDATE')),
  reason_code text COLLATE "C" CHECK (reason_code IN ('STALENESS', 'EXPR_CHANGE', 'SIGNALS')),
  activity text COLLATE "C",
  window_from timestamptz,
  window_to timestamptz,
  priority integer NOT NULL,
  params jsonb NOT NULL,
  overrides jsonb NOT NULL,
  -- The spec that it was planned with, once it was.
  expr_proto_hash text COLLATE "C",
  parent_id bigint,
  root_id bigint,
  fan_place jsonb,
  status_code text COLLATE "C" NOT NULL
    CHECK (status_code IN ('REQUESTED', 'PLANNED', 'FINISHED', 'FAILED', 'CANCELLED')),
  not_before timestamptz NOT NULL,
  lease_owner text COLLATE "C",
  leased_until timestamptz,
  lease_epoch bigint NOT NULL DEFAULT 0,
  record_remarks jsonb,
  -- The request that asked for it.
  request_id text,
  -- Of a chore, which has no plan: what came of it, and when.
  result jsonb,
  started_at timestamptz,
  finished_at timestamptz,
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_instance_public ON ing_schedule_instance (public_id);
CREATE INDEX idx_instance_waiting ON ing_schedule_instance (id) WHERE status_code = 'REQUESTED';
CREATE INDEX idx_instance_schedule ON ing_schedule_instance (schedule_id) WHERE status_code = 'REQUESTED';
CREATE INDEX idx_instance_parent ON ing_schedule_instance (parent_id, status_code) WHERE parent_id IS NOT NULL;
CREATE INDEX idx_instance_root ON ing_schedule_instance (root_id, status_code) WHERE root_id IS NOT NULL;
-- The jobs of a project.
CREATE INDEX idx_instance_job ON ing_schedule_instance (project_key, job_type, id);
-- Chores that wait, and those that are over; jobs that poll sources.
CREATE INDEX idx_instance_chore ON ing_schedule_instance (id)
  WHERE status_code = 'REQUESTED' AND provenance_code = 'resource_pool';
CREATE INDEX idx_instance_finished ON ing_schedule_instance (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_instance_scrape ON ing_schedule_instance (id) WHERE scheduler_code = 'scrape';
CREATE INDEX idx_sched_src ON ing_schedule_instance (scheduler_code, scheduler_job_id, scheduler_log_id);

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
-- The newest plan of a namespace.
CREATE INDEX idx_plan_cursor ON ing_plan (cursor_id, id);

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
  -- Null for a segment of ids, which has `ordinal` and `last_id` instead.
  window_from timestamptz,
  window_to timestamptz,
  -- The part of the window that is complete although the task ended short.
  done_from timestamptz,
  done_to timestamptz,
  ordinal bigint,
  last_id text COLLATE "C",
  -- SUCCEEDED, while nothing shows that no record moved past the reader.
  is_unverified integer NOT NULL DEFAULT 0 CHECK (is_unverified IN (0, 1)),
  -- Narrower tasks have taken its place.
  replaced integer NOT NULL DEFAULT 0 CHECK (replaced IN (0, 1)),
  -- The task that it drives again, and the request that asked for it.
  redrive_of bigint,
  redrive_request text COLLATE "C",
  -- The source that it polls, and the host that it asks.
  source_id bigint,
  host text COLLATE "C",
  -- How many tasks of its partition may be held at once.
  c_max bigint NOT NULL,
  -- Records that its runs brought.
  items bigint NOT NULL DEFAULT 0,
  status_code text COLLATE "C" NOT NULL
    CHECK (status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING', 'SUCCEEDED', 'FAILED', 'PARTIAL', 'CANCELLED')),
  priority integer NOT NULL,
  scheduled_at timestamptz NOT NULL,
  lease_owner text COLLATE "C",
  leased_until timestamptz,
  -- The fence: rises with every claim, never falls.
  lease_epoch bigint NOT NULL DEFAULT 0,
  -- Claims and renewals, for diagnosis.
  lease_count bigint NOT NULL DEFAULT 0,
  -- Claims since the last committed batch.
  attempt_count bigint NOT NULL DEFAULT 0,
  -- It was running when its process died, and has committed nothing since.
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
-- A queue: rows change often and most are done, so the table is cleaned long before a fifth of it is dead.
ALTER TABLE ing_task SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
CREATE UNIQUE INDEX uk_task_idem ON ing_task (idempotent_key);
-- Serves the claim: it steps from one group of tasks that are treated alike to the next, and finds the first of each where
-- it lands. Partial, so finished tasks cost nothing.
CREATE INDEX idx_task_pick ON ing_task
  (provenance_code, endpoint_name, operation_code, c_max, coalesce(credential_id, 0), priority, scheduled_at, id)
  WHERE status_code = 'QUEUED' AND source_id IS NULL;
-- Polls have a queue of their own.
CREATE INDEX idx_task_poll ON ing_task (scheduled_at, id) WHERE status_code = 'QUEUED' AND source_id IS NOT NULL;
-- Polls that go before the others.
CREATE INDEX idx_task_poll_urgent ON ing_task (priority, scheduled_at, id)
  WHERE status_code = 'QUEUED' AND source_id IS NOT NULL AND priority < 100;
-- A source is polled by one at a time (COLL-33).
CREATE UNIQUE INDEX uk_task_polled ON ing_task (source_id)
  WHERE source_id IS NOT NULL AND status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING');
-- Polls that have ended, for those who forget them.
CREATE INDEX idx_task_poll_ended ON ing_task (finished_at) WHERE source_id IS NOT NULL AND finished_at IS NOT NULL;
-- Serves the sweep, and the count of what each partition has under way.
CREATE INDEX idx_task_queue ON ing_task (leased_until, id, provenance_code, endpoint_name, operation_code)
  WHERE status_code IN ('DISPATCHED', 'EXECUTING');
-- Serves coverage and the completed part: only what lies beyond the cursor is read. Segments of ids stand at its end.
CREATE INDEX idx_task_cover ON ing_task (cursor_id, window_to, window_from, ordinal, plan_id);
-- The same for a cursor that moves towards the past.
CREATE INDEX idx_task_cover_past ON ing_task (cursor_id, window_from, window_to, plan_id)
  WHERE operation_code = 'BACKFILL';
CREATE INDEX idx_task_cred ON ing_task (credential_id) WHERE credential_id IS NOT NULL;
CREATE INDEX idx_task_src_op ON ing_task (provenance_code, operation_code, status_code, created_at);
-- What boards count of the queue.
CREATE INDEX idx_task_open ON ing_task
  (provenance_code, endpoint_name, operation_code, project_key, status_code, scheduled_at, c_max)
  WHERE status_code IN ('QUEUED', 'DISPATCHED', 'EXECUTING');
CREATE INDEX idx_task_slice ON ing_task (slice_id);
CREATE INDEX idx_task_plan ON ing_task (plan_id, status_code);
CREATE INDEX idx_task_instance ON ing_task (schedule_instance_id, status_code);

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
  -- The task's.
  source_id bigint,
  created_at timestamptz NOT NULL,
  finished_at timestamptz
);
-- What collectors did of late.
CREATE INDEX idx_run_poll ON ing_task_run (finished_at, status_code, source_id) WHERE source_id IS NOT NULL;
CREATE UNIQUE INDEX uk_run_attempt ON ing_task_run (task_id, attempt_no);
CREATE INDEX idx_run_task ON ing_task_run (task_id, status_code, created_at);

-- `position` and `next_position` hold the place in full, as JSON; page_no, tokens and URLs repeat it for people.
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
  -- The task's window.
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
  -- Parts of `skipped`.
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
CREATE INDEX idx_batch_created ON ing_task_run_batch (created_at);

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
  -- Where the namespace began: the completed part counts from here while there is no value. Ids have no beginning.
  origin_instant timestamptz,
  cursor_value text,
  normalized_instant timestamptz,
  -- How many segments of ids are complete.
  normalized_numeric bigint,
  observed_max_value text COLLATE "C",
  -- Where the value came from.
  schedule_instance_id bigint,
  plan_id bigint,
  slice_id bigint,
  task_id bigint,
  run_id bigint,
  batch_no bigint,
  expr_hash text COLLATE "C",
  version bigint NOT NULL DEFAULT 0,
  -- Rises with every plan of the namespace; a planner that saw an older one must read again.
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
-- Who lies furthest back.
CREATE INDEX idx_cursor_lag ON ing_cursor (normalized_instant, id);
CREATE INDEX idx_cursor_id ON ing_cursor (provenance_code, operation_code, normalized_numeric);
-- Namespaces that are still collected, for the gauges.
CREATE INDEX idx_cursor_moved ON ing_cursor (updated_at) WHERE direction_code = 'FORWARD';

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
-- Append-only (ING-7.8-05): the database itself refuses an edit, and a deletion by anybody but the archive.
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
-- Onward only (ING-4.4-06), whatever the code above thinks; and what onward means never changes.
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

-- Within what the ids of records are unique (MAP-C-10). A number, because the index of records has it before every key.
CREATE TABLE item_scope (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  dedup_scope text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX uk_item_scope ON item_scope (project_key, provenance_code, dedup_scope);
-- The number of a scope, which is made when it is the first time. Who comes at the same time waits, and looks again.
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

-- Records. `payload` is the record as received; `fields` what the manifest maps from it ('' when it maps nothing).
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
  -- Which mapping made `fields`.
  mapping_generation text COLLATE "C" NOT NULL,
  -- When the far side was last asked for it.
  refresh_checked_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  stored_at timestamptz NOT NULL,
  -- Since when its content is gone; the key stays, so that it does not come back.
  emptied_at timestamptz,
  -- Since when no list has it any more, see item_listed.
  missing_since timestamptz
);
CREATE UNIQUE INDEX uk_item ON item (scope_id, dedup_key);
-- What a job has stored, by id.
CREATE INDEX idx_item_run ON item (run_id, id);
-- Tweets: an author's latest, a project's latest, and by the time of storing. A tweet's `updated_at` is when it was written.
-- No value of this database holds the character NUL, which JSON can name: it is read as a blank.
CREATE INDEX idx_tweets_author_created ON item
  (lower((replace(nullif(fields, ''), '\u0000', '\u0020')::jsonb ->> 'author_username') COLLATE "C"), updated_at DESC)
  WHERE kind = 'tweet';
CREATE INDEX idx_tweets_created ON item (project_key, updated_at) WHERE kind = 'tweet';
CREATE INDEX idx_tweets_db_created_at ON item (created_at) WHERE kind = 'tweet';
-- The newest of a project, however many others have.
CREATE INDEX idx_item_project ON item (project_key, id);

-- Lists that are read as a whole (`window.mode: snapshot`, `missing: mark`): of an endpoint, or of one set of its params.
CREATE TABLE item_list (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  -- '' or a hash of the params.
  list_key text COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX uk_item_list ON item_list (project_key, provenance_code, endpoint_name, list_key);
-- The number of a list, which is made when it is the first time.
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
-- The records that a list has or had, the last slice that saw each, or found that it is gone, and since when it is gone.
CREATE TABLE item_listed (
  list_id bigint NOT NULL,
  item_id bigint NOT NULL,
  slice_id bigint NOT NULL,
  missing_since timestamptz,
  PRIMARY KEY (list_id, item_id)
);
-- Which lists have a record. Partial, so that a list is never read by it.
CREATE INDEX idx_item_listed_item ON item_listed (item_id) WHERE missing_since IS NULL;

-- Tweets under the names that their readers know (TWEET-120..131).
CREATE VIEW tweets AS
SELECT dedup_key AS tweet_id,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'text' AS text,
  updated_at AS created_at,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'author_username' AS author_username,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'author_display_name' AS author_display_name,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_id' AS referenced_tweet_id,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'reference_type' AS reference_type,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'media' AS media,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_text' AS referenced_tweet_text,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'referenced_tweet_media' AS referenced_tweet_media,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'referenced_tweet_author_username' AS referenced_tweet_author_username,
  created_at AS db_created_at,
  stored_at AS db_updated_at
FROM item
WHERE kind = 'tweet' AND emptied_at IS NULL;

-- Items as documents, whatever brought them.
CREATE VIEW documents AS
SELECT id, project_key,
  coalesce(replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'doc_type', kind) AS doc_type,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'state' AS state,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'title' AS title,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'uri' AS uri,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json ->> 'content' AS content,
  replace(nullif(fields, ''), '\u0000', '\u0020')::json -> 'extracted_data' AS extracted_data,
  created_at
FROM item
WHERE emptied_at IS NULL;

-- Which sources an item was found in, and when first.
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
-- Only articles grow old (COLL-109).
CREATE INDEX idx_item_source_old ON item_source (fetched_at) WHERE kind = 'article';

-- Things that are polled again and again.
CREATE TABLE source (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  type text COLLATE "C" NOT NULL,
  name text NOT NULL,
  config jsonb NOT NULL CHECK (jsonb_typeof(config) = 'object'),
  -- What makes it this one and no other.
  source_key text COLLATE "C" NOT NULL,
  -- Its own interval, if it has one.
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
  -- NULL: never by itself.
  next_due_at timestamptz,
  -- The polls that brought something new: the last one, how many, and the usual time between two.
  last_new_at timestamptz,
  new_count bigint NOT NULL DEFAULT 0,
  new_gap_seconds bigint NOT NULL DEFAULT 0,
  -- How often a poll was queued.
  poll_count bigint NOT NULL DEFAULT 0,
  -- What an unchanged answer is recognised by.
  validators jsonb,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((is_active = 1) = (paused_reason IS NULL)),
  CHECK ((paused_reason IS NULL) = (paused_at IS NULL)),
  CHECK (is_deleted = 0 OR next_due_at IS NULL),
  CHECK (paused_reason IS NULL OR paused_reason <> 'user' OR next_due_at IS NULL)
);
-- Its rows change with every poll, and mostly what is due.
ALTER TABLE source SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
CREATE UNIQUE INDEX uk_source_key ON source (project_key, source_key) WHERE is_deleted = 0;
CREATE INDEX idx_sources_active ON source (is_active) WHERE is_deleted = 0;
-- A tick costs what is due, not what exists.
CREATE INDEX idx_source_due ON source (next_due_at) WHERE next_due_at IS NOT NULL;
CREATE INDEX idx_source_type ON source (type) WHERE is_deleted = 0;

-- How fetches of a source went, of those that are counted.
CREATE TABLE source_stats (
  source_id bigint PRIMARY KEY,
  last_fetch_at timestamptz NOT NULL,
  last_fetched_count bigint NOT NULL CHECK (last_fetched_count >= 0),
  last_new_count bigint NOT NULL CHECK (last_new_count >= 0),
  total_fetches bigint NOT NULL CHECK (total_fetches >= 0),
  avg_new_rate double precision NOT NULL CHECK (avg_new_rate BETWEEN 0 AND 1),
  consecutive_empty_fetches bigint NOT NULL CHECK (consecutive_empty_fetches >= 0),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);

-- The same by the name of the user (TWEET-74..81).
CREATE VIEW scraper_fetch_stats AS
SELECT lower((source.config ->> 'username') COLLATE "C") AS username,
  stats.last_fetch_at, stats.last_fetched_count, stats.last_new_count, stats.total_fetches, stats.avg_new_rate,
  stats.consecutive_empty_fetches, stats.created_at, stats.updated_at
FROM source_stats stats JOIN source ON source.id = stats.source_id
WHERE source.is_deleted = 0 AND source.config ->> 'username' IS NOT NULL;

-- What the collector knows of each type.
CREATE TABLE source_type (
  type text COLLATE "C" PRIMARY KEY,
  minutes bigint NOT NULL CHECK (minutes > 0),
  interval_from text COLLATE "C" NOT NULL CHECK (interval_from IN ('default', 'environment', 'config')),
  -- Why nobody can fetch it now.
  unsupported text,
  updated_at timestamptz NOT NULL
);

-- Collectors that live, or did a short while ago.
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
-- Made once, here: what keys are derived with from a text that people chose.
INSERT INTO config (config_key, config_value, updated_at)
VALUES ('cookie_salt', replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), now());

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
  -- How the batch asked.
  request_digest jsonb NOT NULL,
  status_code text COLLATE "C" NOT NULL CHECK (status_code IN ('OPEN', 'SIGNALLED', 'RESOLVED', 'ABANDONED')),
  created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_quarantine_place ON item_quarantine (run_id, batch_no, item_index);
CREATE INDEX idx_quarantine_key ON item_quarantine (project_key, provenance_code, endpoint_name, dedup_key)
  WHERE status_code = 'SIGNALLED';

-- What became of the work, by the minute: boards are made of it, so that none of them reads the ledger (ING-13.6). The
-- triggers below keep it, in the transaction that they count. Connections that commit at once mostly write different shards.
CREATE TABLE ing_minute (
  minute timestamptz NOT NULL,
  project_key text COLLATE "C" NOT NULL,
  provenance_code text COLLATE "C" NOT NULL,
  endpoint_name text COLLATE "C" NOT NULL,
  operation_code text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  -- Runs that began, and how they ended.
  picks bigint NOT NULL DEFAULT 0,
  succeeded bigint NOT NULL DEFAULT 0,
  partial bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  -- Pages that were committed, and that could not be read.
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
  -- What the gate had to do with them.
  permits bigint NOT NULL DEFAULT 0,
  wait_ms bigint NOT NULL DEFAULT 0,
  retry_after bigint NOT NULL DEFAULT 0,
  demoted bigint NOT NULL DEFAULT 0,
  quota_soft bigint NOT NULL DEFAULT 0,
  quota_hard bigint NOT NULL DEFAULT 0,
  -- What the program did about its own troubles.
  qps_downshift bigint NOT NULL DEFAULT 0,
  page_size_shrink bigint NOT NULL DEFAULT 0,
  concurrency_down bigint NOT NULL DEFAULT 0,
  circuit_open bigint NOT NULL DEFAULT 0,
  resliced bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (minute, project_key, provenance_code, endpoint_name, operation_code, shard)
) WITH (fillfactor = 50);

-- Errors by kind, and where each was met last: a run that failed, or stopped short at a page that could not be read; a
-- record that went to quarantine.
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

-- Each statement counts its rows in the order of the key, what was done before what went wrong: two of them never wait for each
-- other in a circle.
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

-- A task that is split while it is under way; one that is driven again has ended before.
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

-- Records that must be fetched again, and who says so.
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

-- What work stands still, and why. `subject` is the columns below it in words; one that is null covers everything.
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

-- Ids whose content is fetched apart (two-phase): the version that was fetched, or why it cannot be had.
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
  -- Until when a bad id is left alone.
  expires_at timestamptz,
  updated_at timestamptz NOT NULL,
  CHECK ((status_code = 'BAD') = (expires_at IS NOT NULL))
);
CREATE UNIQUE INDEX uk_candidate ON ing_candidate (project_key, provenance_code, endpoint_name, candidate_id);

-- Answers as they came, for replays, while they are kept.
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

-- The newest time that the store has seen: one row. If the clock shows less, it was set back.
CREATE TABLE ing_clock (
  id bigint PRIMARY KEY CHECK (id = 1),
  seen_at timestamptz NOT NULL
);

-- What is known of each key of the rate gate.
CREATE TABLE ing_gate (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  rate_key text COLLATE "C" NOT NULL,
  state text NOT NULL CHECK (json_typeof(state::json) = 'object'),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_gate_key ON ing_gate (rate_key);

-- Rows that have left the ledger. `row_id`, `body` and `created_at` are the row's own.
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

-- Black boxes that were taken out of the house.
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

-- Who we are to a far side: the definition, written by people. `sealed` opens with the master key `key_id` names; a revoked
-- row has lost it. A rotation adds a version.
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
  -- Of a cookie: uses a day; NULL for the default.
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
-- A cookie is known by its name alone (CRAWL-25).
CREATE UNIQUE INDEX uk_cookie_name ON reg_prov_credential (alias) WHERE type_code = 'COOKIE' AND status_code = 'ACTIVE';
CREATE INDEX idx_cookie_pick ON reg_prov_credential (provenance_code, status_code, priority) WHERE type_code = 'COOKIE';

-- Its runtime half: the newest token, sealed, and the lease of whoever gets the next one.
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
  -- How far a cookie is worn.
  cookie_code text COLLATE "C" NOT NULL DEFAULT 'active' CHECK (cookie_code IN ('active', 'cooling', 'invalid', 'banned')),
  -- Uses since `used_day` began.
  daily_used bigint NOT NULL DEFAULT 0,
  used_day timestamptz,
  consecutive_errors bigint NOT NULL DEFAULT 0,
  total_errors bigint NOT NULL DEFAULT 0,
  cooling_until timestamptz,
  cooling_since timestamptz,
  last_used_at timestamptz,
  updated_at timestamptz NOT NULL,
  CHECK ((refresh_owner IS NULL) = (refresh_until IS NULL)),
  CHECK ((cookie_code = 'cooling') = (cooling_until IS NOT NULL))
);
CREATE UNIQUE INDEX uk_credential_state ON ing_credential_state (credential_id);
CREATE INDEX idx_credential_refreshing ON ing_credential_state (refresh_until) WHERE refresh_owner IS NOT NULL;
CREATE INDEX idx_cookie_cooling ON ing_credential_state (cooling_until) WHERE cooling_until IS NOT NULL;

-- Named locks: who has one, or had it. Whoever says nothing for too long has lost it.
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
-- A workflow runs once at a time (CRAWL-49).
CREATE UNIQUE INDEX uk_execution_running ON ing_execution (project_key, workflow_name) WHERE status = 'running';
CREATE INDEX idx_execution_beat ON ing_execution (heartbeat_at) WHERE status = 'running';

-- Notes that are known and wait for their details, or had their turn.
CREATE TABLE crawl_candidate (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  platform text COLLATE "C" NOT NULL,
  note_id text COLLATE "C" NOT NULL,
  note_url text NOT NULL,
  status text COLLATE "C" NOT NULL CHECK (status IN ('pending', 'processing', 'collected', 'failed')),
  -- The execution that holds it, and since when it was last said to.
  processing_lock text COLLATE "C",
  locked_at timestamptz,
  retry_count bigint NOT NULL DEFAULT 0,
  source_keyword text COLLATE "C",
  -- What the platform demands for the details: a JSON object, or the same sealed.
  tokens text NOT NULL,
  last_error_code text COLLATE "C",
  exec_meta text NOT NULL CHECK (json_typeof(exec_meta::json) = 'object'),
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK ((status = 'processing') = (processing_lock IS NOT NULL)),
  CHECK ((processing_lock IS NULL) = (locked_at IS NULL))
);
CREATE UNIQUE INDEX uk_crawl_candidate ON crawl_candidate (project_key, platform, note_id);
-- Serves the claim: the oldest that wait.
CREATE INDEX idx_crawl_status ON crawl_candidate (status, created_at, id);
CREATE INDEX idx_crawl_lock ON crawl_candidate (processing_lock) WHERE processing_lock IS NOT NULL;
CREATE INDEX idx_crawl_locked ON crawl_candidate (locked_at) WHERE locked_at IS NOT NULL;

-- What later steps need of a note; the note itself is an item.
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

-- Crawl requests by the minute, for the last hour.
CREATE TABLE crawl_minute (
  platform text COLLATE "C" NOT NULL,
  minute timestamptz NOT NULL,
  succeeded bigint NOT NULL,
  failed bigint NOT NULL,
  PRIMARY KEY (platform, minute)
);

-- Since when the condition of an alert holds, and what was told of it.
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

-- URLs of documents and tasks: everybody's (`shared`, of no project) and each project's. One that is there stays as it is.
CREATE TABLE resource_pool_urls (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  url text COLLATE "C" NOT NULL,
  domain varchar(255) COLLATE "C" NOT NULL,
  source varchar(32) COLLATE "C" NOT NULL CHECK (source IN ('document', 'task')),
  -- Where it was found first.
  source_ref jsonb NOT NULL CHECK (jsonb_typeof(source_ref) = 'object'),
  scope varchar(16) COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key varchar(64) COLLATE "C" NOT NULL,
  created_at timestamptz NOT NULL,
  CHECK ((scope = 'shared') = (project_key = ''))
);
CREATE UNIQUE INDEX uk_pool_url ON resource_pool_urls (scope, project_key, url);
-- With what lists are filtered by, so that only what is shown is read from the table.
CREATE INDEX idx_pool_list ON resource_pool_urls (scope, project_key, created_at, id) INCLUDE (source, domain);
CREATE INDEX idx_pool_domain ON resource_pool_urls (scope, project_key, domain);
-- What is shared is of no project: whoever plans a query must know that the two columns go together.
CREATE STATISTICS st_pool_library ON scope, project_key FROM resource_pool_urls;

-- Whose URLs are captured while the work is done, and into which library.
CREATE TABLE resource_pool_capture (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  job_type text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  enabled integer NOT NULL CHECK (enabled IN (0, 1)),
  updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX uk_pool_capture ON resource_pool_capture (project_key, job_type);

-- How many URLs a library has, so that nobody counts them, and how many of a project's are shared too. The sum over the shards
-- counts: those who write at the same time mostly write different ones.
CREATE TABLE resource_pool_count (
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('shared', 'project')),
  project_key text COLLATE "C" NOT NULL,
  shard integer NOT NULL,
  urls bigint NOT NULL,
  covered bigint NOT NULL,
  PRIMARY KEY (scope, project_key, shard)
) WITH (fillfactor = 50);

-- What the world outside is to be told. A number is never used again: whoever is told knows events by it.
CREATE TABLE outbox_event (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  project_key text COLLATE "C" NOT NULL,
  event_type text COLLATE "C" NOT NULL,
  -- Events of one topic are told one after the other.
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
  -- The last: whoever looks for what may be told reads no payloads.
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

CREATE TABLE api_key (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  prefix text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  name text NOT NULL,
  scope text COLLATE "C" NOT NULL CHECK (scope IN ('read', 'write', 'admin')),
  -- The only projects that it may act for; none named for all.
  projects jsonb NOT NULL CHECK (jsonb_typeof(projects) = 'array'),
  -- It may write what all projects see.
  shared integer NOT NULL CHECK (shared IN (0, 1)),
  created_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE UNIQUE INDEX uk_key_prefix ON api_key (prefix);
