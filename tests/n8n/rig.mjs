// What a live run needs: a scripted platform, a Patra that crawls it, n8n, and somebody between the two who writes down every call.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../../', import.meta.url));
const workflows = path.join(root, 'deploy/n8n');
/** Nothing here takes so long: whoever does hangs. */
const PATIENCE_MS = 10 * 60 * 1000;

const freePort = () => new Promise((resolve) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});

export class Rig {
  constructor() {
    this.folder = mkdtempSync(path.join(os.tmpdir(), 'patra-n8n.'));
    this.children = [];
    this.seen = [];
  }

  file(name, text) {
    const file = path.join(this.folder, name);
    if (text !== undefined) writeFileSync(file, text, { mode: 0o600 });
    return file;
  }

  async start(notes) {
    this.platform = await this.serve(process.env.PATRA_UPSTREAM_BIN, ['--listen', '127.0.0.1:0', '--notes', String(notes)], {}, (line) => line.trim());
    this.file('xhs.yaml', this.manifest());
    const env = this.env = {
      ...process.env, PATRA_DATA: this.file('data'), PATRA_ALLOW_NET: '127.0.0.0/8',
      COOKIE_MASTER_KEY: 'only-for-this-test-only-for-this-test', RUST_LOG: 'info',
    };
    this.patra(['apply', '-f', this.file('xhs.yaml')]);
    this.key = this.patra(['key', 'create', 'n8n', '--scope', 'write']).trim();
    this.adminKey = this.patra(['key', 'create', 'test', '--scope', 'admin']).trim();
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    await this.serve(process.env.PATRA_BIN, ['serve', '--listen', `127.0.0.1:${port}`], env);
    await this.until(async () => (await fetch(`${this.url}/health`)).ok);
    await this.listen();
  }

  /** The manifest that is shipped, for the scripted platform: no signer, no waiting. */
  manifest() {
    const text = readFileSync(path.join(root, 'sources/xhs.yaml'), 'utf8');
    const mine = text.replace(/base_url: "[^"]+"/, `base_url: "${this.platform}"`).replace(/^defaults:/m, 'allow_http: true\ndefaults:').replace(/signing_hook: \w+, /, '')
      .replace(/refill_rate_per_sec: 1, burst: 1/, 'refill_rate_per_sec: 1000, burst: 1000');
    if (mine === text) throw new Error('sources/xhs.yaml has changed its form');
    return mine;
  }

  patra(args) {
    const done = spawnSync(process.env.PATRA_BIN, args, { env: this.env, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`patra ${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
  }

  /** Starts a server; with `ready`, waits for its first line. */
  async serve(binary, args, env, ready) {
    const log = this.file(`${path.basename(binary)}.log`);
    const child = spawn(binary, args, { env: { ...process.env, ...env }, stdio: ['ignore', ready ? 'pipe' : openSync(log, 'a'), openSync(log, 'a')] });
    this.children.push(child);
    if (!ready) return undefined;
    return new Promise((resolve, reject) => {
      let text = '';
      child.stdout.on('data', (part) => {
        text += part;
        if (text.includes('\n')) resolve(ready(text.split('\n')[0]));
      });
      child.on('exit', () => reject(new Error(`${binary} ended: ${readFileSync(log, 'utf8')}`)));
    });
  }

  async until(condition) {
    for (const end = Date.now() + PATIENCE_MS; ;) {
      try {
        if (await condition()) return;
      } catch (error) {
        if (Date.now() > end) throw error;
      }
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  }

  /** n8n speaks to this, which hands on to Patra and keeps what went by. */
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

  /** A table as Feishu has them: gives a token to the app, finds rows by one field, adds rows. */
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

  /** How the platform behaves from now on. */
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

  /** Runs a workflow as the documentation says. Gives what n8n said and the calls that it made. */
  async execute(id, settings = {}, env = {}) {
    this.seen.length = 0;
    const crawl = JSON.stringify({ backoff_seconds: [0.1, 0.2, 0.3], ...settings });
    const done = await this.n8n(['execute', `--id=${id}`], { N8N_BLOCK_ENV_ACCESS_IN_NODE: 'false', PATRA_URL: this.front, PATRA_CRAWL: crawl, ...env });
    return { ...done, calls: [...this.seen] };
  }

  async stop(keep) {
    this.proxy?.close();
    for (const child of this.children) if (child.exitCode === null) child.kill();
    await Promise.all(this.children.map((child) => child.exitCode !== null || child.signalCode !== null || new Promise((resolve) => { child.once('exit', resolve); })));
    if (keep) console.log(`logs are in ${this.folder}`);
    else rmSync(this.folder, { recursive: true, force: true });
  }
}
