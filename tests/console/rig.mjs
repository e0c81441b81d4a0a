// A Patra that collects from a scripted far side: one source that is well, and one with a fault of each level.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

/** Nothing here takes so long: whoever does hangs. */
const PATIENCE_MS = 4 * 60 * 1000;

export const freePort = () => new Promise((resolve) => {
  const probe = net.createServer().listen(0, '127.0.0.1', () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});

/** A manifest of the scripted far side; what differs is what is wrong with it. */
export const manifest = (provenance, { base, path: at = '/cursor', id = '$.id', size = 50 }) => `
provenance: ${provenance}
name: ${provenance}
allow_http: true
defaults:
  rate_limit: { refill_rate_per_sec: 500, burst: 100 }
  retry: { max_attempts: 1, min_delay: PT0.1S, max_delay: PT0.2S }
endpoints:
  records:
    role: search
    http: { base_url: "${base}", path: "${at}" }
    query:
      cursor: "\${ page.token }"
      rows: "\${ page.size }"
      from: "\${ window.from | iso }"
      to: "\${ window.to | iso }"
    pagination: { type: token, next_token_path: "$.message['next-cursor']", page_size: ${size} }
    window: { supports_updated_since: true, watermark_key: updated_at, safety_lag: PT0S, max_window: P1D, align: hour, initial: 2024-01-01 }
    response: { items_path: "$.message.items", id_path: "${id}", updated_at_path: "$.updated_at", total_path: "$.message['total-results']" }
    kind: document
    fields: { title: "$.title" }`;

export class Rig {
  constructor() {
    this.folder = mkdtempSync(path.join(os.tmpdir(), 'patra-console.'));
    this.children = [];
  }

  file(name, text) {
    const file = path.join(this.folder, name);
    if (text !== undefined) writeFileSync(file, text, { mode: 0o600 });
    return file;
  }

  async start() {
    const far = ['--listen', '127.0.0.1:0', '--records', '1200', '--step-secs', '600'];
    this.far = await this.serve(process.env.PATRA_UPSTREAM_BIN, far, {}, (line) => line.trim());
    const locked = [...far, '--auth', 'bearer:nobody-knows'];
    this.locked = await this.serve(process.env.PATRA_UPSTREAM_BIN, locked, {}, (line) => line.trim());
    this.env = {
      ...process.env, PATRA_DATA: this.file('data'), PATRA_ALLOW_NET: '127.0.0.0/8',
      COOKIE_MASTER_KEY: 'only-for-this-test-only-for-this-test', RUST_LOG: 'info',
    };
    const sources = {
      well: { base: this.far },
      silent: { base: `http://127.0.0.1:${await freePort()}` },
      moved: { base: this.far, path: '/nowhere' },
      odd: { base: this.far, id: '$.nothing', size: 500 },
      locked: { base: this.locked },
    };
    for (const [name, how] of Object.entries(sources)) {
      this.patra(['apply', '-f', this.file(`${name}.yaml`, manifest(name, how))]);
    }
    this.key = this.patra(['key', 'create', 'console test', '--scope', 'admin']).trim();
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    await this.serve(process.env.PATRA_BIN, ['serve', '--listen', `127.0.0.1:${port}`], this.env);
    await this.until(async () => (await fetch(`${this.url}/health`)).ok);
    for (const provenance of Object.keys(sources)) {
      const job = { provenance, endpoint: 'records', to: provenance === 'well' ? '2024-01-09T00:00:00Z' : '2024-01-02T00:00:00Z' };
      await this.ask('POST', '/api/v1/jobs', job);
    }
    await this.ask('POST', '/api/sources', { type: 'rss', name: 'A feed', config: { url: `${this.far}/feed` } });
  }

  async ask(method, at, body) {
    const headers = { authorization: `Bearer ${this.key}`, 'content-type': 'application/json' };
    const answer = await fetch(this.url + at, { method, headers, body: body && JSON.stringify(body) });
    if (!answer.ok) throw new Error(`${method} ${at}: ${answer.status} ${await answer.text()}`);
    return answer.json();
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
      child.on('exit', () => reject(new Error(`${binary} ended: see ${log}`)));
    });
  }

  async until(condition) {
    for (const end = Date.now() + PATIENCE_MS; ;) {
      let problem = new Error(`not in time: ${condition}`);
      try {
        if (await condition()) return;
      } catch (error) {
        problem = error;
      }
      if (Date.now() > end) throw problem;
      await new Promise((resolve) => { setTimeout(resolve, 200); });
    }
  }

  stop() {
    for (const child of this.children) child.kill('SIGTERM');
    rmSync(this.folder, { recursive: true, force: true });
  }
}
