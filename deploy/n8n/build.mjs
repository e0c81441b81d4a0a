// Builds the workflow files from src/. `node build.mjs` writes them, `node build.mjs --check` lists the outdated ones.
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';

const here = new URL('.', import.meta.url);
const source = (name) => readFileSync(new URL(`src/${name}.js`, here), 'utf8').trimEnd();

const KEY = { httpHeaderAuth: { id: 'patraApiKey00001', name: 'Patra API key' } };
const PATRA = "={{ $('Settings').first().json.patra_url }}";

/** Builder of a workflow: nodes by name, and connections between them. */
class Workflow {
  constructor(file, id, notes) {
    Object.assign(this, { file, id, nodes: [], connections: {} });
    notes.forEach(([position, width, height, content], i) =>
      this.add(`Note ${i + 1}`, 'stickyNote', 1, position, { content, width, height }));
  }

  add(name, type, typeVersion, position, parameters = {}, more = {}) {
    // Stable ids, so that every build gives the same file.
    const id = createHash('sha256').update(`${this.file}/${name}`).digest('hex').slice(0, 32)
      .replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5');
    this.nodes.push({ id, name, type: `n8n-nodes-base.${type}`, typeVersion, position, parameters, ...more });
    return this;
  }

  code(name, position, sources, more) {
    return this.add(name, 'code', 2, position, { jsCode: `${sources.join('\n\n')}\n` }, more);
  }

  /** A call that never throws because of a status: the next node reads the response. */
  call(name, position, method, path, { base = PATRA, id = '={{ $json.request_id }}', body, query, timeout = 30, more = {} } = {}) {
    const parameters = { method, url: `${base}/api/v1/crawler/${path}`, authentication: 'genericCredentialType', genericAuthType: 'httpHeaderAuth' };
    parameters.sendHeaders = true;
    parameters.headerParameters = { parameters: [{ name: 'X-Request-ID', value: id }] };
    if (query) Object.assign(parameters, { sendQuery: true, queryParameters: { parameters: query } });
    if (body) Object.assign(parameters, { sendBody: true, specifyBody: 'json', jsonBody: body });
    parameters.options = { timeout: timeout * 1000, response: { response: { fullResponse: true, neverError: true } } };
    return this.add(name, 'httpRequest', 4.2, position, parameters, { credentials: KEY, onError: 'continueRegularOutput', ...more });
  }

  /** A call to another service. Its failure ends the run. */
  elsewhere(name, position, parameters, more) {
    return this.add(name, 'httpRequest', 4.2, position, { method: 'POST', sendBody: true, specifyBody: 'json', options: { timeout: 30000 }, ...parameters }, more);
  }

  /** `output` is 1 for the error output of a node, or for "false". */
  line(from, to, output = 0) {
    const main = ((this.connections[from] ||= { main: [] }).main);
    while (main.length <= output) main.push([]);
    main[output].push({ node: to, type: 'main', index: 0 });
    return this;
  }

  path(...names) {
    names.slice(1).forEach((name, i) => this.line(names[i], name));
    return this;
  }

  starts(rule, to) {
    this.add('Manual', 'manualTrigger', 1, [-240, -100]).line('Manual', to);
    return this.add('Schedule', 'scheduleTrigger', 1.2, [-240, 100], { rule: { interval: [rule] } }).line('Schedule', to);
  }

  condition(left, type, operation, right) {
    const unary = right === undefined ? { singleValue: true } : {};
    return {
      options: { caseSensitive: true, leftValue: '', typeValidation: 'strict', version: 2 },
      conditions: [{ id: '1', leftValue: left, rightValue: right ?? '', operator: { type, operation, ...unary } }],
      combinator: 'and',
    };
  }

  text() {
    const { file, id, nodes, connections } = this;
    return `${JSON.stringify({ id, name: file, active: false, nodes, connections, settings: { executionOrder: 'v1' }, pinData: {}, tags: [] }, null, 2)}\n`;
  }
}

const CAREFUL = { onError: 'continueErrorOutput' };
const BODY = '={{ JSON.stringify($json.body) }}';
const stop = (message) => ({ errorMessage: message });

function crawlMain() {
  const flow = new Workflow('wf-crawl-main', 'patraCrawlMain01', [
    [[-300, -420], 460, 220, '## Start\nSettings are in **Settings**, or in the variable `PATRA_CRAWL`. Every call to Patra carries `X-Request-ID: {trace}-{step}`.'],
    [[520, -700], 460, 200, '## One step at a time\n**Next** creates the calls of a step. **Judge** reads the responses and decides: next step, retry after a delay, or end.'],
    [[1240, 760], 620, 200, '## The lock is always released\nBy **Release lock** as `completed` or `failed`, or by **Release as failed** if a node of this workflow breaks.'],
  ]);
  const execution = 'executions/{{ $json.execution_id }}';
  const steps = [
    ['lock', 'Acquire lock', 'executions/acquire'],
    ['search', 'Search', 'search', 40],
    ['candidates', 'Store candidates', 'candidates'],
    ['claim', 'Claim records', 'candidates/claim'],
    ['detail', 'Fetch details', 'notes/detail', 75],
    ['write', 'Write notes', 'notes'],
    ['fail', 'Report failures', 'candidates/{{ encodeURIComponent($json.note_id) }}/fail'],
    ['heartbeat', 'Heartbeat', `${execution}/heartbeat`],
    ['release', 'Release lock', `${execution}/release`],
  ];
  const ends = [
    ['held', 'Lock is held: nothing to do', 'noOp', {}],
    ['done', 'Done', 'noOp', {}],
    ['stop', 'Stop and alert', 'stopAndError', stop('={{ $json.trace }}: {{ $json.reason }}')],
  ];
  const rule = (step) => ({ conditions: flow.condition('={{ $json.step }}', 'string', 'equals', step), renameOutput: true, outputKey: step });

  flow.starts({ field: 'minutes', minutesInterval: 30 }, 'Settings')
    .code('Settings', [0, 0], [source('variable'), source('crawl-settings')])
    .code('Next', [300, 0], [source('crawl-next')], CAREFUL)
    .add('Which step', 'switch', 3.2, [600, 0], { rules: { values: [...steps, ...ends].map(([step]) => rule(step)) }, options: { fallbackOutput: 'extra' } });
  steps.forEach(([, name, path, timeout], i) =>
    flow.call(name, [940, -720 + i * 160], 'POST', path, { body: BODY, timeout }).line('Which step', name, i).line(name, 'Judge'));
  ends.forEach(([, name, type, parameters], i) =>
    flow.add(name, type, 1, [940, 760 + i * 160], parameters).line('Which step', name, steps.length + i));
  return flow
    .code('Judge', [1280, 0], [source('crawl-judge')], CAREFUL)
    .add('Pause first?', 'if', 2.2, [1560, 0], { conditions: flow.condition('={{ $json.state.wait }}', 'number', 'gt', 0), options: {} })
    .add('Pause', 'wait', 1.1, [1800, -120], { amount: '={{ $json.state.wait }}', unit: 'seconds' }, { webhookId: '7d1c2d5e-0d6c-4f0e-9f4e-2b1f0a6c1e55' })
    .path('Settings', 'Next', 'Which step').path('Judge', 'Pause first?', 'Pause', 'Next').line('Pause first?', 'Next', 1)
    .call('Release as failed', [1280, 1000], 'POST', "executions/{{ $('Acquire lock').last().json.body.data.execution_id }}/release", {
      id: "={{ $('Settings').first().json.trace }}-release",
      body: '={"status": "failed"}',
      more: { retryOnFail: true, maxTries: 3, waitBetweenTries: 5000 },
    })
    .add('Broken: stop and alert', 'stopAndError', 1, [1560, 1000],
      stop("={{ $('Settings').first().json.trace }}: a node of this workflow broke. Its lock was released as failed."))
    .line('Next', 'Release as failed', 1).line('Judge', 'Release as failed', 1)
    .line('Which step', 'Release as failed', steps.length + ends.length)
    .path('Release as failed', 'Broken: stop and alert');
}

function lockRecovery() {
  return new Workflow('wf-lock-recovery', 'patraRecovery001', [
    [[-300, -380], 520, 180, '## Timeout recovery\nPatra does this itself every 15 minutes. This workflow shows what was recovered, and alerts if Patra does not respond.'],
  ])
    .starts({ field: 'minutes', minutesInterval: 15 }, 'Settings')
    .code('Settings', [0, 0], [source('variable'), source('recovery-settings')])
    .call('Recover', [260, 0], 'POST', 'recover', { id: '={{ $json.trace }}-recover', body: '={}' })
    .code('Judge', [520, 0], [source('recovery-judge')])
    .path('Settings', 'Recover', 'Judge');
}

function cookieCheck() {
  const flow = new Workflow('wf-cookie-check', 'patraCookies0001', [
    [[-300, -400], 520, 180, '## Are there cookies left?\nEnds with an error if a platform has cookies but none is active. n8n\'s error workflow can forward it.'],
  ]);
  return flow
    .starts({ field: 'hours', hoursInterval: 1 }, 'Settings')
    .code('Settings', [0, 0], [source('variable'), source('cookie-settings')])
    .call('List cookies', [240, 0], 'GET', 'cookies', { id: '={{ $json.trace }}-cookies' })
    .code('Count', [480, 0], [source('cookie-count')])
    .add('Validate any?', 'if', 2.2, [720, 0], { conditions: flow.condition('={{ $json.to_try.length }}', 'number', 'gt', 0), options: {} })
    .code('One item per cookie', [960, -160], [source('cookie-each')])
    .call('Validate', [1200, -160], 'POST', 'cookies/{{ encodeURIComponent($json.cookie_name) }}/validate', { body: '={}' })
    .call('List again', [1440, -160], 'GET', 'cookies', { id: "={{ $('Settings').first().json.trace }}-cookies-2", more: { executeOnce: true } })
    .code('Count again', [1680, -160], [source('cookie-count')])
    .add('Any platform exhausted?', 'if', 2.2, [1920, 0], { conditions: flow.condition('={{ $json.exhausted.length }}', 'number', 'gt', 0), options: {} })
    .add('Stop and alert', 'stopAndError', 1, [2160, -120], stop('=No active cookie: {{ $json.exhausted.join("; ") }}'))
    .add('All is well', 'noOp', 1, [2160, 120])
    .path('Settings', 'List cookies', 'Count', 'Validate any?', 'One item per cookie', 'Validate', 'List again', 'Count again', 'Any platform exhausted?', 'Stop and alert')
    .line('Validate any?', 'Any platform exhausted?', 1).line('Any platform exhausted?', 'All is well', 1);
}

/** One of the four steps, to be called from your own workflows. */
function nodeFlow(file, id, step, path, inputs, body, help) {
  const base = '={{ $json.patra_url }}';
  const flow = new Workflow(file, id, [[[-60, -320], 560, 220, help]]);
  return flow
    .add('Called by a workflow', 'executeWorkflowTrigger', 1.1, [0, 0], {
      workflowInputs: { values: inputs.map(([name, type]) => ({ name, type })) },
    })
    .code('Request', [260, 0], [source('variable'), source('node-request').replace('STEP', step)])
    .call('Call Patra', [520, 0], 'POST', path, { base, body })
    .code('Result', [780, 0], [source('node-result')])
    .path('Called by a workflow', 'Request', 'Call Patra', 'Result');
}

const nodeFlows = () => [
  nodeFlow('wf-node-acquire-lock', 'patraNodeLock001', 'lock', 'executions/acquire',
    [['workflow_name', 'string'], ['trace', 'string']],
    '={{ JSON.stringify({ workflow_name: $json.workflow_name }) }}',
    '## Acquire the execution lock\nIn: `workflow_name`. Out: `{locked: true, execution_id}` or `{locked: false, reason}`. `trace` is optional.'),
  nodeFlow('wf-node-claim-records', 'patraNodeClaim01', 'claim', 'candidates/claim',
    [['execution_id', 'string'], ['batch_size', 'number'], ['platform', 'string'], ['trace', 'string']],
    '={{ JSON.stringify({ execution_id: $json.execution_id, batch_size: $json.batch_size || 10, platform: $json.platform }) }}',
    '## Fetch and lock records\nIn: `execution_id`, `platform`, `batch_size` (10). Out: `{records, locked_count}`.'),
  nodeFlow('wf-node-write-note', 'patraNodeWrite01', 'write', 'notes',
    [['execution_id', 'string'], ['record_info', 'object'], ['crawl_result', 'object'], ['exec_meta', 'object'], ['trace', 'string']],
    '={{ JSON.stringify({ execution_id: $json.execution_id, record_info: $json.record_info, crawl_result: $json.crawl_result, exec_meta: $json.exec_meta || {} }) }}',
    '## Write a note, once\nIn: `execution_id`, `record_info` (`note_id`, `platform`), `crawl_result`. Out: `{action: "created"}` or `{action: "skipped", existing_id}`.'),
  nodeFlow('wf-node-recover', 'patraNodeRecov01', 'recover', 'recover', [['trace', 'string']], '={}',
    '## Timeout recovery, now\nOut: `{executions_timed_out, records_requeued, records_failed, cookies_reactivated}`.'),
];

function mirror() {
  const table = "={{ $('Settings').first().json.feishu_url }}/open-apis/bitable/v1/apps/{{ $('Settings').first().json.feishu_base }}/tables/{{ $('Settings').first().json.feishu_table }}/records";
  const token = { sendHeaders: true, headerParameters: { parameters: [{ name: 'Authorization', value: '=Bearer {{ $json.token }}' }] }, jsonBody: BODY };
  const flow = new Workflow('wf-feishu-mirror', 'patraFeishu00001', [
    [[-300, -420], 620, 220, '## Optional: a copy of the notes in a Feishu table\nPatra itself never talks to Feishu; this workflow is the only writer. A row is identified by its `idempotency_key`, so a repeated run adds nothing.'],
  ]);
  return flow
    .starts({ field: 'hours', hoursInterval: 1 }, 'Settings')
    .code('Settings', [0, 0], [source('variable'), source('mirror-settings')])
    .call('List notes', [240, 0], 'GET', 'notes', {
      id: '={{ $json.trace }}-notes',
      query: [{ name: 'platform', value: '={{ $json.platform }}' }, { name: 'after', value: '={{ $json.after }}' }, { name: 'limit', value: '50' }],
    })
    .code('Rows', [480, 0], [source('mirror-records')])
    .add('Any?', 'if', 2.2, [720, 0], { conditions: flow.condition('={{ $json.rows.length }}', 'number', 'gt', 0), options: {} })
    .elsewhere('Feishu token', [960, -120], {
      url: "={{ $('Settings').first().json.feishu_url }}/open-apis/auth/v3/tenant_access_token/internal",
      authentication: 'genericCredentialType', genericAuthType: 'httpCustomAuth', jsonBody: '={}',
    }, { credentials: { httpCustomAuth: { id: 'patraFeishuApp01', name: 'Feishu app' } } })
    .code('Search body', [1200, -120], [source('mirror-search')])
    .elsewhere('Known rows', [1440, -120], { url: `${table}/search?page_size=100`, ...token })
    .code('Only new', [1680, -120], [source('mirror-new')])
    .add('Any new?', 'if', 2.2, [1920, -120], { conditions: flow.condition('={{ $json.body.records.length }}', 'number', 'gt', 0), options: {} })
    .elsewhere('Create rows', [2160, -240], { url: `${table}/batch_create`, ...token })
    .code('Save position', [2400, -120], [source('mirror-keep')])
    .add('Nothing new', 'noOp', 1, [960, 120])
    .path('Settings', 'List notes', 'Rows', 'Any?', 'Feishu token', 'Search body', 'Known rows', 'Only new', 'Any new?', 'Create rows', 'Save position')
    .line('Any new?', 'Save position', 1).line('Any?', 'Nothing new', 1);
}

const check = process.argv.includes('--check');
let stale = 0;
for (const flow of [crawlMain(), lockRecovery(), cookieCheck(), ...nodeFlows(), mirror()]) {
  const file = new URL(`${flow.file}.json`, here);
  if (!check) {
    writeFileSync(file, flow.text());
  } else if (readFileSync(file, 'utf8') !== flow.text()) {
    console.error(`error: ${flow.file}.json is not what src/ makes\n\nhint: node deploy/n8n/build.mjs`);
    stale += 1;
  }
}
process.exitCode = stale ? 1 : 0;
