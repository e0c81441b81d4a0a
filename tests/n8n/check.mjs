// Checks the workflow files without n8n. usage: check [ROUTES]
// ROUTES is a file with lines "METHOD /path/{param}", or - for stdin; without it the routes are read from the product's
// source.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Patra, batch, drive, failure, folder, load } from './drive.mjs';

const root = new URL('../../', import.meta.url);
const files = readdirSync(folder).filter((name) => name.endsWith('.json'));
const flows = files.map((file) => ({ file, ...load(file) }));
const main = flows.find((flow) => flow.name === 'wf-crawl-main');
const ofType = (flow, type) => flow.nodes.filter((node) => node.type === `n8n-nodes-base.${type}`);
const http = flows.flatMap((flow) => ofType(flow, 'httpRequest').map((node) => ({ flow, node, where: `${flow.file}, "${node.name}"` })));
const toPatra = http.filter(({ node }) => node.credentials?.httpHeaderAuth);
const header = (node, name) => node.parameters.headerParameters?.parameters.find((one) => one.name === name)?.value;
const steps = (patra) => patra.calls.map((call) => call.id.split('-').slice(3).join('-')).filter((id) => !id.startsWith('heartbeat'));
const waitsOf = (count) => [5, 15, 45].slice(0, count);

/** Features of n8n 2.8 that the workflows use. */
const VERSIONS = {
  manualTrigger: [1], scheduleTrigger: [1.2], executeWorkflowTrigger: [1.1], code: [2], httpRequest: [4.2], if: [2.2], switch: [3.2],
  wait: [1.1], noOp: [1], stopAndError: [1], stickyNote: [1],
};

const checks = {};

// covers: CRAWL-134
checks['the workflows are there'] = () => {
  for (const name of ['wf-crawl-main', 'wf-lock-recovery', 'wf-cookie-check']) assert.ok(files.includes(`${name}.json`), name);
  const recovery = flows.find((flow) => flow.name === 'wf-lock-recovery');
  const [clock] = ofType(recovery, 'scheduleTrigger');
  assert.deepEqual(clock.parameters.rule.interval, [{ field: 'minutes', minutesInterval: 15 }]);
};

checks['the files are what src/ makes'] = () => {
  execFileSync(process.execPath, [fileURLToPath(new URL('build.mjs', folder)), '--check'], { stdio: ['ignore', 'ignore', 'inherit'] });
};

// covers: CRAWL-135
checks['each file can be imported'] = () => {
  for (const flow of flows) {
    assert.equal(`${flow.name}.json`, flow.file);
    assert.equal(flow.active, false, flow.file);
    assert.ok(flow.id && flow.settings && flow.connections && flow.nodes.length, flow.file);
    for (const node of flow.nodes) {
      for (const member of ['id', 'name', 'type', 'typeVersion', 'position', 'parameters']) assert.ok(member in node, `${flow.file}, "${node.name}": ${member}`);
      const versions = VERSIONS[node.type.replace('n8n-nodes-base.', '')];
      assert.ok(versions?.includes(node.typeVersion), `${flow.file}: ${node.type} ${node.typeVersion}`);
    }
    for (const member of ['id', 'name']) assert.equal(new Set(flow.nodes.map((node) => node[member])).size, flow.nodes.length, `${flow.file}: ${member}`);
    const names = flow.nodes.map((node) => node.name);
    for (const [from, { main: outputs }] of Object.entries(flow.connections)) {
      for (const name of [from, ...outputs.flat().map((line) => line.node)]) assert.ok(names.includes(name), `${flow.file}: a line to or from "${name}"`);
    }
  }
  for (const member of ['id', 'name']) assert.equal(new Set(flows.map((flow) => flow[member])).size, flows.length, member);
};

// covers: CRAWL-136
checks['every call has a route'] = () => {
  const known = routes();
  assert.ok(toPatra.length >= 9);
  for (const { node, where } of toPatra) {
    const path = node.parameters.url.replace(/^=\{\{[^}]+\}\}/, '').replace(/\{\{.+?\}\}/g, '{}');
    assert.ok(known.has(`${node.parameters.method} ${path}`), `${where}: there is no route ${node.parameters.method} ${path}`);
  }
};

function routes() {
  const given = process.argv[2];
  if (given) {
    const lines = readFileSync(given === '-' ? 0 : given, 'utf8').split('\n').map((line) => line.trim().replace(/\{[^}]*\}/g, '{}'));
    return new Set(lines);
  }
  const { paths } = JSON.parse(readFileSync(new URL('docs/openapi.json', root), 'utf8'));
  const plain = (path) => path.replace(/\{[^}]*\}/g, '{}');
  return new Set(Object.entries(paths).flatMap(([path, methods]) => Object.keys(methods).map((method) => `${method.toUpperCase()} ${plain(path)}`)));
}

// covers: CRAWL-137
checks['no file holds a secret or an address'] = () => {
  for (const flow of flows) {
    const text = JSON.stringify({ ...flow, nodes: flow.nodes.map((node) => ({ ...node, id: '', webhookId: '' })) });
    for (const secret of [/Bearer\s+[\w.~+/-]{6,}/, /patra_[0-9a-f]{8}/i, /web_session=/, /-----BEGIN/, /[0-9a-f]{32,}/i]) assert.doesNotMatch(text, secret, flow.file);
    if (flow.nodes.some((node) => node.credentials?.httpHeaderAuth)) assert.match(text, /variable\('PATRA_URL'\)/, flow.file);
  }
  for (const { node, where } of http) {
    assert.match(node.parameters.url, /^=\{\{ \$(json|\('Settings'\)\.first\(\)\.json)\.\w+_url \}\}/, where);
    for (const credential of Object.values(node.credentials || {})) assert.deepEqual(Object.keys(credential), ['id', 'name'], where);
  }
  for (const { node, where } of toPatra) {
    assert.match(node.parameters.url, /json\.patra_url \}\}\/api\/v1\/crawler\//, where);
    assert.deepEqual(node.credentials, { httpHeaderAuth: { id: 'patraApiKey00001', name: 'Patra API key' } }, where);
    assert.equal(node.parameters.genericAuthType, 'httpHeaderAuth', where);
  }
};

// covers: CRAWL-138, CRAWL-88
checks['every call carries the id of its step'] = () => {
  for (const { node, where } of toPatra) assert.ok(header(node, 'X-Request-ID'), where);
  const patra = new Patra({ notes: 25 });
  drive(main, patra, { batch_size: 10 });
  const traces = new Set(patra.calls.map(({ id }) => id.match(/^(wf-\d+-[a-z0-9]+)-[a-z0-9-]+$/)?.[1]));
  assert.equal(traces.size, 1);
  const [trace] = traces;
  assert.equal(new Set(patra.calls.map(({ id }) => id)).size, patra.calls.length, 'an id is used twice');
  assert.ok(patra.calls.every(({ id }) => id.length <= 128));
  assert.ok(patra.stored.every((note) => note.exec_meta.workflow_trace_id === trace && note.exec_meta.latency_ms === 7));
  assert.deepEqual(steps(patra).filter((id) => !id.startsWith('write')), ['lock', 'search-1', 'candidates-1', 'search-2', 'candidates-2',
    'claim-1', 'detail-1', 'claim-2', 'detail-2', 'claim-3', 'detail-3', 'claim-4', 'release']);
};

checks['tokens go from the search to the details, and the last page is stored'] = () => {
  const patra = new Patra({ notes: 21 });
  const { end } = drive(main, patra, { keywords: ['a', 'b'] });
  assert.equal(end, 'Done');
  const searches = patra.calls.filter((call) => call.path === 'search').map(({ body }) => [body.keyword, body.page, body.search_id]);
  assert.deepEqual(searches, [['a', 1, undefined], ['a', 2, 'search of a'], ['b', 1, undefined], ['b', 2, 'search of b']]);
  assert.equal(patra.candidates.size, 21);
  const details = patra.calls.filter((call) => call.path === 'notes/detail');
  for (const { body } of details) for (const note of body.note_ids) assert.deepEqual(body.tokens[note], { xsec_token: `token of ${note}` });
  assert.equal(patra.stored.length, 21);
};

checks['limits end a search and a run'] = () => {
  const patra = new Patra({ notes: 100 });
  assert.equal(drive(main, patra, { max_pages: 2, max_batches: 3 }).end, 'Done');
  assert.equal(patra.candidates.size, 40);
  assert.equal(patra.stored.length, 30);
  assert.equal(patra.execution.status, 'completed');
};

// covers: CRAWL-139, CRAWL-172, CRAWL-173
checks['each code is treated as the table says'] = () => {
  const table = { COOKIE_EXHAUSTED: 0, COOKIE_INVALID: 3, PLATFORM_ERROR: 2, TIMEOUT_ERROR: 2, NETWORK_ERROR: 3, INVALID_INPUT: 0 };
  for (const [code, retries] of Object.entries(table)) {
    for (const path of ['search', 'notes/detail']) {
      // Permanent errors are retried this often, and no more.
      const down = new Patra({ wrong: (call) => call.path === path && failure(code, `account_${call.id}`) });
      const lost = drive(main, down, { keywords: ['a'] });
      const tries = down.calls.filter((call) => call.path === path);
      const skipped = code === 'INVALID_INPUT' && path === 'notes/detail';
      // Patra offers a skipped note again, four times in all.
      assert.equal(tries.length, skipped ? 4 : retries + 1, `${code} of ${path}`);
      assert.deepEqual(lost.waits, waitsOf(retries), `${code} of ${path}`);
      assert.equal(lost.end, 'Stop and alert');
      assert.match(lost.json.reason, new RegExp(code));
      assert.equal(down.execution.status, code === 'INVALID_INPUT' ? 'completed' : 'failed', `${code} of ${path}`);
      if (code === 'COOKIE_INVALID') {
        tries.forEach((call, i) => assert.deepEqual(call.body.exclude_cookies || [], tries.slice(0, i).map(({ id }) => `account_${id}`)));
      }
      // The last try succeeds, so nothing is lost.
      if (!retries) continue;
      let left = retries;
      const shaky = new Patra({ wrong: (call) => call.path === path && left-- > 0 && failure(code) });
      assert.equal(drive(main, shaky, { keywords: ['a'] }).end, 'Done', `${code} of ${path}`);
      assert.equal(shaky.stored.length, 3);
    }
  }
};

// covers: CRAWL-139
checks['of a batch only what failed is fetched again'] = () => {
  let tries = 0;
  const wrong = (call) => {
    if (call.path !== 'notes/detail') return undefined;
    tries += 1;
    return batch(call.body.note_ids.map((id) => [id, { note_2: tries < 3 && 'TIMEOUT_ERROR', note_3: 'INVALID_INPUT', note_4: 'NOT_FOUND' }[id] || null]));
  };
  const patra = new Patra({ notes: 5, wrong });
  const { end, json, waits } = drive(main, patra, { keywords: ['a'] });
  const asked = patra.calls.filter((call) => call.path === 'notes/detail').map(({ body }) => body.note_ids);
  assert.deepEqual(asked.slice(0, 3), [['note_1', 'note_2', 'note_3', 'note_4', 'note_5'], ['note_2'], ['note_2']]);
  assert.deepEqual(waits, [5, 15]);
  assert.deepEqual(patra.stored.map((note) => note.record_info.note_id), ['note_1', 'note_5', 'note_2']);
  assert.deepEqual(['note_3', 'note_4'].map((id) => patra.candidates.get(id).error), ['INVALID_INPUT', 'NOT_FOUND']);
  // Skipped with one alert; collected notes stay.
  assert.equal(end, 'Stop and alert');
  assert.deepEqual(json.alerts, ['note note_3: INVALID_INPUT: made up']);
  assert.equal(patra.execution.status, 'completed');
};

// covers: CRAWL-139
checks['a batch that cookies end in the middle of keeps what it has'] = () => {
  const wrong = (call) => call.path === 'notes/detail' && batch(call.body.note_ids.map((id, i) => [id, i ? 'COOKIE_EXHAUSTED' : null]));
  const patra = new Patra({ wrong });
  assert.equal(drive(main, patra).end, 'Stop and alert');
  assert.deepEqual(steps(patra).slice(-4), ['write-1-1', 'fail-1-1', 'fail-1-2', 'release']);
  assert.deepEqual(patra.execution, { status: 'failed', items_processed: 1, items_failed: 2 });
};

checks['a note that fails alone does not end the run'] = () => {
  const wrong = (call) => call.path === 'notes/detail' && batch(call.body.note_ids.map((id) => [id, id === 'note_2' ? 'TIMEOUT_ERROR' : null]));
  const patra = new Patra({ wrong });
  assert.equal(drive(main, patra).end, 'Done');
  assert.equal(patra.candidates.get('note_2').status, 'failed');
  assert.deepEqual(patra.execution, { status: 'completed', items_processed: 2, items_failed: 4 });
};

checks['writes that are lost on the way are repeated'] = () => {
  const broken = [{ error: { code: 'ECONNREFUSED', message: 'connect ECONNREFUSED' } }, { statusCode: 502, body: '<html>' }, failure('INTERNAL_ERROR')];
  for (const answer of broken) {
    let left = 2;
    const patra = new Patra({ wrong: (call) => call.path === 'notes' && left-- > 0 && answer });
    const { end, waits } = drive(main, patra);
    assert.equal(end, 'Done');
    assert.deepEqual(waits, [5]);
    assert.deepEqual(steps(patra).filter((id) => id.startsWith('write')), ['write-1-1', 'write-1-2', 'write-1-3', 'write-1-1-r1', 'write-1-2-r1']);
    assert.equal(patra.stored.length, 3);
  }
};

// covers: CRAWL-140
checks['signs of life come in time'] = () => {
  for (const lockMinutes of [30, 6]) {
    const patra = new Patra({ notes: 30, lockMinutes });
    drive(main, patra, {}, 1);
    const signs = patra.calls.filter((call) => ['lock', 'heartbeat', 'release'].includes(call.id.split('-')[3]));
    assert.ok(signs.length > 4);
    // A batch of ten takes ten minutes here, and no heartbeat is sent within one step.
    signs.slice(1).forEach((call, i) => {
      const between = patra.calls.slice(patra.calls.indexOf(signs[i]) + 1, patra.calls.indexOf(call)).filter(({ path }) => path !== 'notes');
      assert.ok(between.length <= Math.min(5, lockMinutes / 3 + 1), `${between.length} steps without a sign of life`);
    });
  }
  assert.ok(new Function(`${ofType(main, 'code')[0].parameters.jsCode.split('Object.assign')[0]}; return settings`)().heartbeat_seconds <= 600);
};

// covers: CRAWL-140
checks['the lock is given back however the run ends'] = () => {
  const held = new Patra({ locked: false });
  assert.equal(drive(main, held).end, 'Lock is held: nothing to do');
  assert.deepEqual(steps(held), ['lock']);

  // Any call may fail permanently, or return an invalid response.
  const nonsense = { statusCode: 200, body: { success: true } };
  const paths = new Patra();
  drive(main, paths, { heartbeat_seconds: 0 });
  for (const path of new Set(paths.calls.map((call) => call.path).filter((one) => !/acquire|release/.test(one)))) {
    for (const answer of [failure('INTERNAL_ERROR'), failure('UNAUTHORIZED'), { error: { message: 'socket hang up' } }, {}, nonsense]) {
      const patra = new Patra({ wrong: (call) => call.path === path && answer });
      const { end } = drive(main, patra, { heartbeat_seconds: 0 });
      const last = patra.calls[patra.calls.length - 1];
      assert.match(last.path, /release$/, `${path}: ${JSON.stringify(answer)}`);
      if (answer === nonsense) continue;
      assert.equal(patra.execution.status, 'failed', `${path}: ${JSON.stringify(answer)}`);
      assert.match(end, /stop and alert/i);
    }
  }

  // A node that throws leads to the release as well; otherwise it would leave the lock behind.
  for (const node of ofType(main, 'code').filter(({ name }) => name !== 'Settings')) {
    assert.equal(node.onError, 'continueErrorOutput', node.name);
    assert.equal(main.connections[node.name].main[1][0].node, 'Release as failed', node.name);
  }
  for (const node of ofType(main, 'httpRequest')) assert.equal(node.onError, 'continueRegularOutput', node.name);

  // A lost lock must not be released.
  const lost = new Patra({ wrong: (call) => call.path.endsWith('heartbeat') && failure('LOCK_LOST') });
  assert.equal(drive(main, lost, { heartbeat_seconds: 0 }).end, 'Stop and alert');
  assert.equal(lost.execution.status, 'running');
};

let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    check();
    console.log(`ok    ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED ${name}\n${error.stack}`);
  }
}
console.log(failed ? `${failed} of ${Object.keys(checks).length} checks failed` : `${Object.keys(checks).length} checks passed`);
process.exitCode = failed ? 1 : 0;
