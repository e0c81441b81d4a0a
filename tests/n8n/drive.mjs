// Runs a workflow file without n8n: its code nodes, connections and expressions, with a clock that does not wait and a
// mock Patra. Supports only the node types of wf-crawl-main.
import { readFileSync } from 'node:fs';

export const folder = new URL('../../deploy/n8n/', import.meta.url);
export const load = (name) => JSON.parse(readFileSync(new URL(name, folder), 'utf8'));

/** Steps of a run before it counts as endless. */
const MAX_STEPS = 5000;

/** The mock Patra: `notes` that a search finds, and `wrong(call)`, which may return a response instead of Patra's. */
export class Patra {
  constructor({ notes = 3, wrong = () => undefined, locked = true, lockMinutes = 30 } = {}) {
    Object.assign(this, { wrong, locked, lockMinutes, calls: [], candidates: new Map(), stored: [], execution: null });
    this.notes = Array.from({ length: notes }, (_, i) => `note_${i + 1}`);
  }

  answer(call) {
    this.calls.push(call);
    return this.wrong(call, this) || this.healthy(call);
  }

  healthy({ path, body, now }) {
    const meta = { request_id: '', latency_ms: 7, cookie_used: body.exclude_cookies?.length ? 'account_02' : 'account_01' };
    const ok = (data) => ({ statusCode: 200, body: { success: true, data, error: null, meta } });
    const id = path.split('/')[1];
    switch (path.replace(/^(executions|candidates)\/[^/]+\//, '$1/*/')) {
      case 'executions/acquire': {
        if (!this.locked) return ok({ locked: false, reason: 'an execution is already running' });
        this.execution = { status: 'running' };
        const at = (minutes) => new Date(now + minutes * 60000).toISOString();
        return ok({ locked: true, execution_id: 'exec-1', heartbeat_at: at(0), expires_at: at(this.lockMinutes) });
      }
      case 'executions/*/heartbeat': return ok({});
      case 'executions/*/release':
        Object.assign(this.execution, body);
        return ok({});
      case 'search': {
        const first = (body.page - 1) * body.page_size;
        const items = this.notes.slice(first, first + body.page_size).map((note_id) => (
          { note_id, note_url: `https://platform.example/${note_id}`, tokens: { xsec_token: `token of ${note_id}` } }));
        return ok({ items, has_more: first + body.page_size < this.notes.length, search_id: `search of ${body.keyword}` });
      }
      case 'candidates':
        body.candidates.forEach((note) => this.candidates.has(note.note_id) || this.candidates.set(note.note_id, { ...note, status: 'pending', retries: 0 }));
        return ok({ created: 0, existing: 0 });
      case 'candidates/claim': {
        const records = [...this.candidates.values()].filter((note) => note.status === 'pending').slice(0, body.batch_size);
        records.forEach((note) => { note.status = 'processing'; });
        return ok({ records, locked_count: records.length });
      }
      case 'candidates/*/fail': {
        const note = this.candidates.get(decodeURIComponent(id));
        Object.assign(note, { status: note.retries < 3 ? 'pending' : 'failed', retries: note.retries + 1, error: body.error_code });
        return ok({});
      }
      case 'notes/detail': return batch(body.note_ids.map((note) => [note, null]), meta);
      case 'notes':
        this.candidates.get(body.record_info.note_id).status = 'collected';
        this.stored.push(body);
        return ok({ action: 'created' });
      default: throw new Error(`nobody answers ${path}`);
    }
  }
}

/** An error response in Patra's format. */
export function failure(code, cookie_used = 'account_01') {
  return { statusCode: 500, body: { success: false, data: null, error: { code, message: 'made up' }, meta: { cookie_used } } };
}

/** The response of a batch: pairs of a note and the code that it failed with, or null. */
export function batch(notes, meta = { cookie_used: 'account_01' }) {
  const items = notes.map(([id, code]) => (code
    ? { id, success: false, error: { code, message: 'made up' } }
    : { id, success: true, data: { note_id: id, title: `Title of ${id}` } }));
  const codes = new Set(notes.map(([, code]) => code).filter(Boolean));
  const all = notes.every(([, code]) => code);
  const error = codes.size ? { code: all && codes.size === 1 ? [...codes][0] : 'PARTIAL_FAIL', message: 'made up' } : null;
  return { statusCode: error ? 207 : 200, body: { success: !error, items, error, meta } };
}

/** Runs the workflow to its end. Returns the name of the last node, its input, and the total delay. */
export function drive(flow, patra, settings = {}, minutesPerCall = 0) {
  const node = (name) => flow.nodes.find((one) => one.name === name);
  const next = (name, output = 0) => flow.connections[name]?.main[output]?.[0]?.node;
  const outputs = {};
  const waits = [];
  let now = 1_772_100_000_000;
  class Clock extends Date {
    static now() { return now; }
  }
  const handle = (items) => ({ all: () => items, first: () => items[0], last: () => items[items.length - 1] });
  const $ = (name) => {
    if (!outputs[name]) throw new Error(`"${name}" has not run`);
    return handle(outputs[name]);
  };
  const scope = { $, Date: Clock, $vars: {}, $env: { PATRA_URL: 'http://patra.test/', PATRA_CRAWL: JSON.stringify(settings) } };
  const evaluate = (text, more) => new Function(...Object.keys(scope), ...Object.keys(more), text)(...Object.values(scope), ...Object.values(more));
  const expression = (text, $json) => text.slice(1).replace(/\{\{(.+?)\}\}/g, (_, code) => evaluate(`return (${code})`, { $json }));

  const step = {
    code: ({ parameters }, items) => [0, copy(evaluate(parameters.jsCode, { $input: handle(items) }))],
    switch: ({ parameters }, items) => {
      const rules = parameters.rules.values;
      const found = rules.findIndex((rule) => rule.conditions.conditions[0].rightValue === items[0].json.step);
      return [found < 0 ? rules.length : found, items];
    },
    if: (_, items) => [items[0].json.state.wait > 0 ? 0 : 1, items],
    wait: ({ parameters }, items) => {
      waits.push(Number(expression(parameters.amount, items[0].json)));
      now += 1000 * waits[waits.length - 1];
      return [0, items];
    },
    httpRequest: ({ parameters, name }, items) => [0, items.map(({ json }) => {
      const [, path] = expression(parameters.url, json).split('http://patra.test/api/v1/crawler/');
      const id = expression(parameters.headerParameters.parameters[0].value, json);
      now += minutesPerCall * 60000;
      return { json: copy(patra.answer({ name, path, id, now, body: JSON.parse(expression(parameters.jsonBody, json)) })) };
    })],
  };

  let at = 'Settings';
  let items = [{ json: {} }];
  for (let i = 0; i < MAX_STEPS; i += 1) {
    const here = node(at);
    const run = step[here.type.replace('n8n-nodes-base.', '')];
    if (!run) return { end: at, json: items[0].json, waits };
    let output;
    try {
      [output, items] = run(here, items);
      outputs[at] = items;
    } catch (error) {
      if (here.onError !== 'continueErrorOutput') throw error;
      [output, items] = [1, [{ json: { error: error.message } }]];
    }
    at = next(at, output);
    if (!at) throw new Error(`"${here.name}" leads nowhere by output ${output}`);
  }
  throw new Error('the run does not end');
}

/** A copy through JSON, because n8n keeps data as JSON. */
const copy = (value) => JSON.parse(JSON.stringify(value));
