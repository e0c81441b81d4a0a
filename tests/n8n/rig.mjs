// The parts of a live run: a mock platform, a Patra that crawls it, n8n, and a proxy between them that records
// every call.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Sandbox, freePort } from '../sandbox.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const workflows = path.join(root, 'deploy/n8n');
/** Time after which a step counts as hung. */
const PATIENCE_MS = 10 * 60 * 1000;

export class Rig extends Sandbox {
  constructor() {
    super('n8n', PATIENCE_MS);
    this.seen = [];
  }

  async start(notes) {
    this.platform = await this.upstream(['--notes', String(notes)]);
    this.file('xhs.yaml', this.manifest());
    this.patra(['apply', '-f', this.file('xhs.yaml')]);
    this.key = this.patra(['key', 'create', 'n8n', '--scope', 'write']).trim();
    this.adminKey = this.patra(['key', 'create', 'test', '--scope', 'admin']).trim();
    await this.serve();
    await this.listen();
  }

  /** The shipped manifest, changed for the mock platform: no signer, no delays. */
  manifest() {
    const text = readFileSync(path.join(root, 'sources/xhs.yaml'), 'utf8');
    const mine = text.replace(/base_url: "[^"]+"/, `base_url: "${this.platform}"`).replace(/^defaults:/m, 'allow_http: true\ndefaults:').replace(/signing_hook: \w+, /, '')
      .replace(/refill_rate_per_sec: 1, burst: 1/, 'refill_rate_per_sec: 1000, burst: 1000');
    if (mine === text) throw new Error('sources/xhs.yaml has changed its form');
    return mine;
  }

  /** A proxy between n8n and Patra that records all calls. */
  async listen() {
    this.proxy = http.createServer((request, response) => {
      const call = { method: request.method, path: request.url.replace('/api/v1/crawler/', ''), id: request.headers['x-request-id'] };
      const parts = [];
      request.on('data', (part) => parts.push(part));
      request.on('end', () => {
        const onward = http.request(`${this.url}${request.url}`, { method: request.method, headers: request.headers }, (answer) => {
          call.status = answer.statusCode;
          call.answerId = answer.headers['x-request-id'];
          this.seen.push(call);
          response.writeHead(answer.statusCode, answer.headers);
          answer.pipe(response);
        });
        onward.on('error', () => response.destroy());
        call.body = parts.length ? JSON.parse(Buffer.concat(parts)) : {};
        onward.end(Buffer.concat(parts));
      });
    });
    await new Promise((resolve) => { this.proxy.listen(0, '127.0.0.1', resolve); });
    this.front = `http://127.0.0.1:${this.proxy.address().port}`;
  }

  /** A mock of a Feishu table: issues a token, finds rows by one field, adds rows. */
  async table() {
    const rows = [];
    const answers = {
      internal: ({ app_id, app_secret }) => (app_id === 'app' && app_secret === 'only-for-this-test' ? { tenant_access_token: 't-1' } : { code: 1, msg: 'who?' }),
      search: ({ filter }) => {
        const wanted = filter.conditions.map(({ value }) => value[0]);
        const found = rows.filter((row) => wanted.includes(row.idempotency_key));
        return { data: { items: found.map((row) => ({ fields: { idempotency_key: [{ type: 'text', text: row.idempotency_key }] } })) } };
      },
      batch_create: ({ records }) => {
        rows.push(...records.map(({ fields }) => fields));
        return { data: {} };
      },
    };
    const server = http.createServer((request, response) => {
      let text = '';
      request.on('data', (part) => { text += part; });
      request.on('end', () => {
        const [door] = request.url.split('?')[0].split('/').slice(-1);
        const known = door === 'internal' || request.headers.authorization === 'Bearer t-1';
        response.writeHead(200, { 'Content-Type': 'application/json' });
        response.end(JSON.stringify({ code: known ? 0 : 1, msg: 'ok', ...(known && answers[door](JSON.parse(text))) }));
      });
    });
    await new Promise((resolve) => { server.listen(0, '127.0.0.1', resolve); });
    server.unref();
    return { rows, url: `http://127.0.0.1:${server.address().port}` };
  }

  async ask(method, route, body) {
    const headers = { Authorization: `Bearer ${this.adminKey}`, 'Content-Type': 'application/json' };
    const answer = await fetch(`${this.url}/api/v1/crawler/${route}`, { method, headers, body: body && JSON.stringify(body) });
    const { success, data, error } = await answer.json();
    if (!success) throw new Error(`${method} ${route}: ${error.code}: ${error.message}`);
    return data;
  }

  cookie(cookie_name, session, priority) {
    return this.ask('POST', 'cookies', { cookie_name, platform: 'xhs', cookie_value: `a1=x; web_session=${session}`, priority, daily_limit: 100000 });
  }

  /** Sets how the platform behaves from now on. */
  async knobs(knobs) {
    const answer = await fetch(`${this.platform}/knobs?${new URLSearchParams(knobs)}`);
    if (!answer.ok) throw new Error(`knobs: ${await answer.text()}`);
  }

  n8n(args, env = {}) {
    return new Promise((resolve) => {
      const bare = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(N8N|PATRA)_|_proxy$/i.test(name)));
      const child = spawn(process.execPath, [path.join(process.env.N8N_HOME, 'node_modules/n8n/bin/n8n'), ...args], {
        env: {
          ...bare, N8N_USER_FOLDER: this.folder, N8N_ENCRYPTION_KEY: 'only-for-this-test', N8N_RUNNERS_BROKER_PORT: String(this.broker),
          N8N_DIAGNOSTICS_ENABLED: 'false', N8N_VERSION_NOTIFICATIONS_ENABLED: 'false', N8N_TEMPLATES_ENABLED: 'false', NO_COLOR: '1', ...env,
        },
      });
      this.children.push(child);
      let text = '';
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => { text += part; });
      const timer = setTimeout(() => child.kill(), PATIENCE_MS);
      child.on('close', (status) => {
        clearTimeout(timer);
        resolve({ status, text, error: text.split('Execution error:\n').pop().split('\n').slice(0, 3).join(' ') });
      });
    });
  }

  async import() {
    this.broker = await freePort();
    const data = { name: 'Authorization', value: `Bearer ${this.key}` };
    const credential = this.file('credential.json', JSON.stringify([{ id: 'patraApiKey00001', name: 'Patra API key', type: 'httpHeaderAuth', data }]));
    await this.must(['import:credentials', `--input=${credential}`]);
    const app = { json: JSON.stringify({ body: { app_id: 'app', app_secret: 'only-for-this-test' } }) };
    const other = this.file('app.json', JSON.stringify([{ id: 'patraFeishuApp01', name: 'Feishu app', type: 'httpCustomAuth', data: app }]));
    await this.must(['import:credentials', `--input=${other}`]);
    await this.must(['import:workflow', '--separate', `--input=${workflows}`]);
  }

  async must(args, env) {
    const done = await this.n8n(args, env);
    if (done.status !== 0) throw new Error(`n8n ${args.join(' ')}: ${done.status}\n${done.text.slice(-3000)}`);
    return done;
  }

  /** Runs a workflow as documented. Returns the output of n8n and the calls that it made. */
  async execute(id, settings = {}, env = {}) {
    this.seen.length = 0;
    const crawl = JSON.stringify({ backoff_seconds: [0.1, 0.2, 0.3], ...settings });
    const done = await this.n8n(['execute', `--id=${id}`], { N8N_BLOCK_ENV_ACCESS_IN_NODE: 'false', PATRA_URL: this.front, PATRA_CRAWL: crawl, ...env });
    return { ...done, calls: [...this.seen] };
  }

  async stop(keep) {
    this.proxy?.close();
    await super.stop(keep);
  }
}
