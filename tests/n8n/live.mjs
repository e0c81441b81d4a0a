// Runs the workflows in a real n8n, against a real Patra and a mock platform. Started by `run`.
import assert from 'node:assert/strict';
import { folder, load } from './drive.mjs';
import { Rig } from './rig.mjs';

const MAIN = 'patraCrawlMain01';
const rig = new Rig();
const steps = (calls) => calls.map(({ id }) => id.split('-').slice(3).join('-'));
const list = (route) => rig.ask('GET', route).then(({ items }) => items);
const notes = () => list('notes?platform=xhs&limit=500');
const candidates = () => list('candidates?platform=xhs&limit=500');
const lastExecution = async () => (await list('executions?workflow_name=wf-crawl-main&limit=500')).pop();
const count = (rows, member) => rows.reduce((counts, row) => ({ ...counts, [row[member]]: (counts[row[member]] || 0) + 1 }), {});
/** Runs a workflow that must succeed, or must fail. */
const run = async (settings, status = 0, id = MAIN) => {
  const done = await rig.execute(id, settings);
  assert.equal(done.status, status, done.text.slice(-3000));
  return done;
};

const tests = [];
const test = (name, body) => tests.push([name, body]);

// covers: CRAWL-134, CRAWL-138, CRAWL-88, CRAWL-89, CRAWL-195, CRAWL-197, CRAWL-DAY3-2
test('a run collects every note once', async () => {
  const { calls } = await run({ keywords: ['tea'], heartbeat_seconds: 0 });
  const stored = await notes();
  assert.equal(stored.length, 23);
  assert.equal(new Set(stored.map((note) => note.idempotency_key)).size, 23);
  assert.ok(stored.every((note) => note.title && note.content && note.author && note.published_at));
  assert.deepEqual(count(await candidates(), 'status'), { collected: 23 });

  const execution = await lastExecution();
  assert.deepEqual([execution.status, execution.items_processed, execution.items_failed], ['completed', 23, 0]);
  // All other pages belong to the search of the first.
  const searches = calls.filter((call) => call.path === 'search');
  assert.deepEqual(searches.map((call) => call.body.page), [1, 2]);
  assert.ok(searches[1].body.search_id);
  // Each request for details contains the tokens of the search.
  for (const { body } of calls.filter((call) => call.path === 'notes/detail')) {
    for (const id of body.note_ids) assert.ok(body.tokens[id].xsec_token, id);
  }

  const traces = new Set(calls.map(({ id }) => id.match(/^(wf-\d+-[a-z0-9]+)-[a-z0-9-]+$/)?.[1]));
  assert.equal(traces.size, 1);
  assert.ok(calls.every((call) => call.id === call.answerId));
  for (const note of stored) {
    assert.equal(note.exec_meta.workflow_trace_id, [...traces][0]);
    assert.match(note.exec_meta.request_id, /-write-\d+-\d+$/);
  }
  const order = steps(calls).filter((step) => !/^(heartbeat|write)/.test(step));
  assert.deepEqual(order, ['lock', 'search-1', 'candidates-1', 'search-2', 'candidates-2', 'claim-1', 'detail-1', 'claim-2', 'detail-2', 'claim-3', 'detail-3', 'claim-4', 'release']);
});

// covers: CRAWL-140
test('signs of life reach the lock', async () => {
  const execution = await lastExecution();
  assert.ok(Date.parse(execution.heartbeat_at) > Date.parse(execution.started_at), JSON.stringify(execution));
});

test('a second run creates nothing', async () => {
  const before = await notes();
  const { calls } = await run({ keywords: ['tea'] });
  assert.deepEqual(await notes(), before);
  assert.deepEqual(steps(calls), ['lock', 'search-1', 'candidates-1', 'search-2', 'candidates-2', 'claim-1', 'release']);
  assert.deepEqual([(await lastExecution()).status, (await lastExecution()).items_processed], ['completed', 0]);
});

// covers: CRAWL-139
test('what fails in a batch is fetched again, then given up', async () => {
  // Number 23 is gone, 24 does not work, 25 does.
  await rig.knobs({ notes: 26, notes_gone: '23', notes_broken: '24' });
  const { calls } = await run({ keywords: ['tea'] });
  const details = calls.filter((call) => call.path === 'notes/detail').map(({ body }) => body.note_ids.length);
  assert.deepEqual(details.slice(0, 3), [3, 1, 1]);
  const failed = (await candidates()).filter((record) => record.status === 'failed');
  assert.deepEqual(failed.map((record) => record.last_error_code).sort(), ['NOT_FOUND', 'PLATFORM_ERROR']);
  assert.equal((await notes()).length, 24);
  assert.equal((await lastExecution()).status, 'completed');
});

// covers: CRAWL-139, CRAWL-140
test('a platform that fails in the middle ends the run as failed, and the next one goes on', async () => {
  await rig.knobs({ notes: 34, notes_gone: '', notes_broken: '30,31,32,33' });
  const { calls, error } = await run({ keywords: ['tea'], batch_size: 4 }, 1);
  assert.match(error, /PLATFORM_ERROR/);
  const execution = await lastExecution();
  assert.deepEqual([execution.status, execution.items_processed, execution.items_failed], ['failed', 4, 4]);
  assert.equal(calls[calls.length - 1].path, `executions/${execution.execution_id}/release`);
  assert.deepEqual(count(await candidates(), 'status'), { collected: 28, failed: 2, pending: 4 });

  await rig.knobs({ notes_broken: '' });
  await run({ keywords: ['tea'] });
  assert.equal((await notes()).length, 32);
});

// covers: CRAWL-139
test('a cookie that lost its login is left aside', async () => {
  await rig.cookie('account_01', 'expired', 10);
  await rig.knobs({ notes: 36 });
  const { calls } = await run({ keywords: ['tea'] });
  const searches = calls.filter((call) => call.path === 'search');
  assert.deepEqual(searches.slice(0, 2).map(({ status, body }) => [status, body.exclude_cookies]), [[502, undefined], [200, ['account_01']]]);
  assert.equal((await notes()).length, 34);
});

// covers: CRAWL-139, CRAWL-140
test('without cookies the run stops at once', async () => {
  await Promise.all(['account_01', 'account_02'].map((name) => rig.ask('DELETE', `cookies/${name}`)));
  const { calls, error } = await run({ keywords: ['tea'] }, 1);
  assert.match(error, /COOKIE_EXHAUSTED/);
  assert.deepEqual(steps(calls), ['lock', 'search-1', 'release']);
  assert.equal((await lastExecution()).status, 'failed');
  await rig.cookie('account_03', 'good', 1);
});

test('a run during another one does nothing', async () => {
  const holder = await rig.ask('POST', 'executions/acquire', { workflow_name: 'wf-crawl-main' });
  const { calls } = await run({ keywords: ['tea'] });
  assert.deepEqual(steps(calls), ['lock']);
  assert.equal((await lastExecution()).execution_id, holder.execution_id);
  await rig.ask('POST', `executions/${holder.execution_id}/release`, { status: 'completed' });
});

// covers: CRAWL-140
test('a node that breaks gives the lock back', async () => {
  const flow = load('wf-crawl-main.json');
  const judge = flow.nodes.find((node) => node.name === 'Judge');
  judge.parameters.jsCode = `if ($('Next').first().json.step === 'search') throw new Error('broken by the test');\n${judge.parameters.jsCode}`;
  await rig.must(['import:workflow', `--input=${rig.file('broken.json', JSON.stringify({ ...flow, id: 'patraBroken00001' }))}`]);
  const { calls } = await run({ keywords: ['tea'] }, 1, 'patraBroken00001');
  assert.deepEqual(steps(calls), ['lock', 'search-1', 'release']);
  assert.equal((await lastExecution()).status, 'failed');
});

test('without leave to read the environment, n8n says what is missing', async () => {
  const { status, text } = await rig.execute(MAIN, {}, { N8N_BLOCK_ENV_ACCESS_IN_NODE: '' });
  assert.notEqual(status, 0);
  assert.match(text, /PATRA_URL is not set/);
});

// covers: CRAWL-134
test('recovery and the check of cookies run', async () => {
  const recovery = await run({}, 0, 'patraRecovery001');
  assert.deepEqual(recovery.calls.map(({ path, status }) => [path, status]), [['recover', 200]]);
  const check = await rig.execute('patraCookies0001', {}, { PATRA_COOKIE_CHECK: '{"validate": true}' });
  assert.equal(check.status, 0, check.text.slice(-3000));
  assert.deepEqual(check.calls.map(({ path, status }) => [path, status]), [['cookies', 200], ['cookies/account_03/validate', 200], ['cookies', 200]]);
});

// covers: CRAWL-141
test('the mirror has each note once', async () => {
  const { rows, url } = await rig.table();
  const again = JSON.stringify({ ...load('wf-feishu-mirror.json'), id: 'patraMirrorAgain' });
  await rig.must(['import:workflow', `--input=${rig.file('again.json', again)}`]);
  const wanted = (await notes()).map((note) => note.idempotency_key).sort();
  // The second run begins again, as after a restore, and finds every row.
  for (const id of ['patraFeishu00001', 'patraMirrorAgain']) {
    const done = await rig.execute(id, {}, { FEISHU_URL: url, FEISHU_BASE: 'base', FEISHU_TABLE: 'table' });
    assert.equal(done.status, 0, done.text.slice(-3000));
    assert.deepEqual(rows.map((row) => row.idempotency_key).sort(), wanted);
  }
  assert.ok(rows.every((row) => row.title && row.platform === 'xhs'));
});

test('the four steps can be called from a workflow of one\'s own', async () => {
  const ids = ['patraNodeLock001', 'patraNodeClaim01', 'patraNodeWrite01', 'patraNodeRecov01'];
  for (const id of ids) await rig.must(['publish:workflow', `--id=${id}`]);
  await rig.must(['import:workflow', `--input=${rig.file('own.json', JSON.stringify(ownWorkflow(ids)))}`]);
  const { calls } = await run({}, 0, 'patraOwn00000001');
  assert.deepEqual(calls.map(({ id }) => id), ['wf-1-own-lock', 'wf-1-own-claim', 'wf-1-own-write', 'wf-1-own-recover']);
  assert.ok(calls.every(({ status }) => status === 200), JSON.stringify(calls));
  const [note] = await list('notes?platform=xhs&note_id=mine');
  assert.equal(note.title, 'Mine');
});

function ownWorkflow([lock, claim, write, recover]) {
  const trace = 'wf-1-own';
  const execution_id = "={{ $('lock').first().json.execution_id }}";
  const calls = [
    ['lock', lock, { workflow_name: 'wf-own', trace }],
    ['claim', claim, { execution_id, platform: 'xhs', trace }],
    ['write', write, { execution_id, record_info: "={{ {note_id: 'mine', platform: 'xhs'} }}", crawl_result: "={{ {title: 'Mine'} }}", trace }],
    ['recover', recover, { trace }],
  ];
  const nodes = [{ id: 'start', name: 'start', type: 'n8n-nodes-base.manualTrigger', typeVersion: 1, position: [0, 0], parameters: {} }];
  const connections = {};
  for (const [name, id, value] of calls) {
    const schema = Object.keys(value).map((member) => ({ id: member, displayName: member, type: 'string', display: true, required: false }));
    connections[nodes[nodes.length - 1].name] = { main: [[{ node: name, type: 'main', index: 0 }]] };
    nodes.push({
      id: name, name, type: 'n8n-nodes-base.executeWorkflow', typeVersion: 1.2, position: [200 * nodes.length, 0],
      parameters: {
        workflowId: { __rl: true, mode: 'id', value: id },
        workflowInputs: { mappingMode: 'defineBelow', value, matchingColumns: [], schema },
        options: {},
      },
    });
  }
  return { id: 'patraOwn00000001', name: 'own', active: false, nodes, connections, settings: { executionOrder: 'v1' } };
}

let failed = true;
let running = 'the start';
try {
  await rig.start(23);
  await rig.cookie('account_01', 'good', 10);
  await rig.cookie('account_02', 'good', 1);
  await rig.import();
  for (const [name, body] of tests) {
    running = name;
    await body();
    console.log(`ok    ${name}`);
  }
  console.log(`${tests.length} runs of the workflows in ${folder.pathname} passed`);
  failed = false;
} catch (error) {
  console.log(`FAILED ${running}\n${error.stack}`);
  for (const { method, path, id, status } of rig.seen) console.log(`  ${status} ${method} ${path} ${id}`);
  process.exitCode = 1;
} finally {
  await rig.stop(failed);
}
