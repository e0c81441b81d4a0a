// Creates the calls of the next step, one item each. The first item carries the state of the run.
const settings = $('Settings').first().json;
const { state } = $input.first().json;

// A due heartbeat goes before any other step.
const ending = ['heartbeat', 'release', 'held', 'done', 'stop'];
if (state.execution_id && !state.beaten && Date.now() >= state.heartbeat_due && !ending.includes(state.step)) {
  state.then = { step: state.step, retry: state.retry };
  state.step = 'heartbeat';
  state.retry = 0;
}

const { step } = state;
state.beaten = false;
const { platform } = settings;
const { execution_id } = state;
const exclude_cookies = state.excluded;
const counters = { items_processed: state.processed, items_failed: state.failed };

const calls = {
  lock: () => [{ body: { workflow_name: settings.workflow_name } }],
  search: () => {
    const { sort_type, note_type, page_size } = settings;
    const body = { platform, keyword: settings.keywords[state.keyword], page: state.page, page_size, sort_type, note_type, cookie_name: null };
    // All pages of one search share the id of the first page.
    if (state.search_id) body.search_id = state.search_id;
    if (exclude_cookies.length) body.exclude_cookies = exclude_cookies;
    return [{ body }];
  },
  candidates: () => [{ body: { platform, candidates: state.found } }],
  claim: () => [{ body: { execution_id, batch_size: settings.batch_size, platform } }],
  detail: () => {
    const body = { platform, note_ids: state.todo.map((note) => note.note_id), cookie_name: null, exclude_cookies };
    const tokens = state.todo.filter((note) => Object.keys(note.tokens || {}).length).map((note) => [note.note_id, note.tokens]);
    if (tokens.length) body.tokens = Object.fromEntries(tokens);
    return [{ body }];
  },
  write: () => state.writes.map(({ note_id, note_url, crawl_result, latency_ms }) => ({
    note_id,
    body: {
      execution_id,
      record_info: { note_id, platform, note_url },
      crawl_result,
      exec_meta: { workflow_trace_id: settings.trace, latency_ms },
    },
  })),
  fail: () => state.failures.map(({ note_id, error_code }) => ({ note_id, body: { execution_id, platform, error_code } })),
  heartbeat: () => [{ body: counters }],
  release: () => [{ body: { status: state.verdict, ...counters } }],
}[step];

if (!calls) {
  return [{ json: { step, trace: settings.trace, ...counters, reason: state.reason, alerts: state.alerts } }];
}

// {trace}-{step}; repeated steps and retries are numbered.
if (state.retry === 0) state.numbers[step] = (state.numbers[step] || 0) + 1;
const items = calls();
const name = ['lock', 'release'].includes(step) ? step : `${step}-${state.numbers[step]}`;
const retry = state.retry ? `-r${state.retry}` : '';
return items.map((call, i) => {
  const part = ['write', 'fail'].includes(step) ? `-${i + 1}` : '';
  const request_id = `${settings.trace}-${name}${part}${retry}`;
  // The items carry these values, so the state need not.
  const inItems = { write: { writes: [] }, fail: { failures: [] } }[step];
  const kept = i ? {} : { state: { ...state, ...inItems } };
  return { json: { step, request_id, execution_id, ...call, ...kept } };
});
