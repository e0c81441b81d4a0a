// Reads the responses of a step and decides the next step. This is the only place that knows the error codes.

// Retries after the first try, by code. Other codes are not retried.
const RETRIES = {
  COOKIE_EXHAUSTED: 0, COOKIE_INVALID: 3, PLATFORM_ERROR: 2, TIMEOUT_ERROR: 2, NETWORK_ERROR: 3, PARTIAL_FAIL: 2,
  INVALID_INPUT: 0, RATE_LIMITED: 2, INTERNAL_ERROR: 2,
};
const retries = (code) => RETRIES[code] || 0;

const settings = $('Settings').first().json;
const calls = $('Next').all().map((item) => item.json);
const state = calls[0].state;
const responses = $input.all().map((item) => read(item.json));
if (responses.length !== calls.length) throw new Error(`${calls.length} calls and ${responses.length} responses`);
const response = responses[0];
state.wait = 0;

({ lock, search, candidates, claim, detail, write, fail, heartbeat, release })[state.step]();
return [{ json: { state } }];

function lock() {
  if (!response.ok) return retry() || stop();
  const granted = response.body.data;
  if (!granted.locked) return go('held');
  state.execution_id = granted.execution_id;
  // Three heartbeats fit into the lifetime of the lock.
  const third = (Date.parse(granted.expires_at) - Date.parse(granted.heartbeat_at)) / 3000;
  state.heartbeat_seconds = Math.min(settings.heartbeat_seconds, third || settings.heartbeat_seconds);
  beat();
  go(settings.keywords.length ? 'search' : 'claim');
}

function search() {
  if (!response.ok) {
    if (response.code === 'INVALID_INPUT') {
      alert(`keyword ${settings.keywords[state.keyword]}`);
      return nextKeyword();
    }
    return retry() || end();
  }
  const { items, has_more, search_id } = response.body.data;
  state.more = has_more;
  state.search_id = search_id;
  // The platform requires these tokens for the details.
  const source_keyword = settings.keywords[state.keyword];
  state.found = items.map(({ note_id, note_url, tokens }) => ({ note_id, note_url, source_keyword, tokens }));
  // The last page is stored like any other.
  if (state.found.length) go('candidates');
  else nextPage();
}

function candidates() {
  if (response.ok) return nextPage();
  if (response.code === 'INVALID_INPUT') {
    alert(`page ${state.page} of ${settings.keywords[state.keyword]}`);
    return nextPage();
  }
  retry() || end();
}

function nextPage() {
  state.found = [];
  if (!state.more || state.page >= settings.max_pages) return nextKeyword();
  state.page += 1;
  go('search');
}

function nextKeyword() {
  state.keyword += 1;
  state.page = 1;
  state.search_id = null;
  go(state.keyword < settings.keywords.length ? 'search' : 'claim');
}

function claim() {
  if (!response.ok) return retry() || end();
  const { records } = response.body.data;
  if (!records.length) return go('release');
  state.batches += 1;
  state.fetched = 0;
  state.todo = records.map(({ note_id, note_url, tokens }) => ({ note_id, note_url, tokens }));
  go('detail');
}

function detail() {
  const { code, body } = response;
  const whole = { code, message: response.message };
  const items = body.items?.length ? body.items : state.todo.map((note) => ({ id: note.note_id, success: response.ok, error: whole }));
  const failed = items.filter((item) => !item.success);
  const latency_ms = body.meta?.latency_ms ?? null;
  const url = (id) => state.todo.find((note) => note.note_id === id)?.note_url;
  state.writes = items.filter((item) => item.success)
    .map((item) => ({ note_id: item.id, note_url: url(item.id), crawl_result: item.data, latency_ms }));
  state.fetched += state.writes.length;
  if (code === 'COOKIE_INVALID' || failed.some((item) => item.error.code === 'COOKIE_INVALID')) switchCookie();

  const exhausted = code === 'COOKIE_EXHAUSTED' || failed.some((item) => item.error.code === 'COOKIE_EXHAUSTED');
  const spent = exhausted || state.retry >= retries(code);
  const again = spent ? [] : failed.filter((item) => retries(item.error.code));
  for (const item of failed.filter((item) => !again.includes(item))) {
    if (item.error.code === 'INVALID_INPUT') alert(`note ${item.id}`, item.error);
    state.failures.push({ note_id: item.id, error_code: item.error.code });
  }
  state.todo = state.todo.filter((note) => again.some((item) => item.id === note.note_id));
  state.again = again.length ? state.retry + 1 : 0;

  if (exhausted) fatal('COOKIE_EXHAUSTED', response.message);
  if (!again.length && !state.fetched && isPlatformDown(failed)) fatal(code, response.message);
  afterFetch();
}

// For a batch without any fetched note: whether further batches would fail too. A note can cause the failure itself, and so can
// a single note that is left over after others succeeded.
function isPlatformDown(failed) {
  const itsOwn = ['INVALID_INPUT', 'NOT_FOUND', 'FORBIDDEN'];
  const codes = failed.map((item) => item.error.code).filter((code) => !itsOwn.includes(code));
  return codes.length > 0 && (codes.includes('COOKIE_INVALID') || codes.length > 1 || state.processed === 0);
}

// Fetched notes are stored first. Then failed notes are fetched again, or given up.
function afterFetch() {
  if (state.writes.length) return go('write');
  if (state.again) {
    go('detail');
    state.retry = state.again;
    state.wait = backoff(state.retry);
    return undefined;
  }
  if (state.failures.length) return go('fail');
  go(state.verdict === 'completed' && state.batches < settings.max_batches ? 'claim' : 'release');
}

function write() {
  const refused = each(() => { state.processed += 1; }, (i) => {
    if (responses[i].code === 'INVALID_INPUT') alert(`note ${calls[i].note_id}`, responses[i]);
    else fatal(responses[i].code, responses[i].message);
    state.failures.push({ note_id: calls[i].note_id, error_code: responses[i].code });
  });
  state.writes = refused.map((i) => ({
    ...calls[i].body.record_info,
    crawl_result: calls[i].body.crawl_result,
    latency_ms: calls[i].body.exec_meta.latency_ms,
  }));
  if (!refused.length) afterFetch();
}

function fail() {
  const refused = each(() => { state.failed += 1; }, (i) => {
    // Another run has the note now, or it is gone: there is nothing to report.
    if (!['LOCK_LOST', 'NOT_FOUND'].includes(responses[i].code)) fatal(responses[i].code, responses[i].message);
  });
  state.failures = refused.map((i) => ({ note_id: calls[i].note_id, error_code: calls[i].body.error_code }));
  if (!refused.length) afterFetch();
}

// Sorts the responses of a step with many calls. Returns the calls to retry, and sets the delay.
function each(done, lost) {
  const failed = responses.flatMap((one, i) => (one.ok ? [] : [i]));
  responses.forEach((one, i) => one.ok && done(i));
  const codes = new Set(failed.map((i) => responses[i].code));
  const limit = codes.size > 1 ? retries('PARTIAL_FAIL') : retries([...codes][0]);
  const again = state.retry < limit ? failed.filter((i) => retries(responses[i].code)) : [];
  failed.filter((i) => !again.includes(i)).forEach(lost);
  if (again.length) {
    state.retry += 1;
    state.wait = backoff(state.retry);
  }
  return again;
}

function heartbeat() {
  if (!response.ok) return retry() || end();
  beat();
  state.beaten = true;
  go(state.then.step);
  state.retry = state.then.retry;
}

function beat() {
  state.heartbeat_due = Date.now() + 1000 * state.heartbeat_seconds;
}

function release() {
  if (!response.ok) return retry() || stop();
  if (state.verdict === 'completed' && !state.alerts.length) return go('done');
  state.reason ||= `completed, with ${state.alerts.length} alerts: ${state.alerts.join('; ')}`;
  go('stop');
}

function go(step) {
  state.step = step;
  state.retry = 0;
}

// Repeats the step after a delay, if its code allows it.
function retry() {
  if (state.retry >= retries(response.code)) return false;
  if (response.code === 'COOKIE_INVALID') switchCookie();
  state.retry += 1;
  state.wait = backoff(state.retry);
  return true;
}

function backoff(retry) {
  const waits = settings.backoff_seconds;
  return waits[Math.min(retry, waits.length) - 1] ?? 0;
}

function switchCookie() {
  const used = response.body.meta?.cookie_used;
  if (used && !state.excluded.includes(used)) state.excluded.push(used);
}

function alert(what, error = response) {
  const text = `${what}: ${error.code}: ${error.message}`;
  if (!state.alerts.includes(text)) state.alerts.push(text);
}

function fatal(code, message) {
  state.verdict = 'failed';
  state.reason ||= `${code}: ${message}`;
}

// Gives up and releases the lock. A lock that was lost cannot be released.
function end() {
  fatal(response.code, `${state.step}: ${response.message}`);
  go(response.code === 'LOCK_LOST' ? 'stop' : 'release');
}

function stop() {
  fatal(response.code, `${state.step}: ${response.message}`);
  go('stop');
}

// A response of Patra, or an error in its place if Patra cannot be reached.
function read({ statusCode, body, error }) {
  if (body && typeof body === 'object' && typeof body.success === 'boolean') {
    return { ok: body.success, code: body.error?.code, message: body.error?.message, body };
  }
  const other = (code, message) => ({ ok: false, code, message, body: {} });
  if (statusCode) {
    const codes = { 401: 'UNAUTHORIZED', 403: 'FORBIDDEN', 404: 'NOT_FOUND', 429: 'RATE_LIMITED', 504: 'TIMEOUT_ERROR' };
    const code = codes[statusCode] || (statusCode >= 500 ? 'INTERNAL_ERROR' : 'NOT_CONFIGURED');
    return other(code, `status ${statusCode} without a response of Patra: is PATRA_URL right?`);
  }
  const text = error ? [error.code, error.message, error.description, error].filter((part) => typeof part === 'string').join(' ') : '';
  if (/ETIMEDOUT|ECONNABORTED|timeout/i.test(text)) return other('TIMEOUT_ERROR', text);
  if (/E[A-Z]{4,}|EAI_AGAIN|socket|network|connect/.test(text)) return other('NETWORK_ERROR', text);
  return other('NOT_CONFIGURED', text || 'the call was not made: does the credential "Patra API key" exist?');
}
