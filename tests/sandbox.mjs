// Shared by the JavaScript tests: a temporary folder, the programs, and servers that end with the test.
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';

/** A free port below the ephemeral ones, so that no outgoing connection takes it before the server does. */
export const freePort = () => new Promise((resolve) => {
  const port = 20_000 + Math.floor(Math.random() * 12_000);
  const probe = net.createServer();
  probe.on('error', () => resolve(freePort()));
  probe.listen(port, '127.0.0.1', () => probe.close(() => resolve(port)));
});

export class Sandbox {
  /** A step that takes longer than `patienceMs` counts as hung. */
  constructor(name, patienceMs) {
    this.folder = mkdtempSync(path.join(os.tmpdir(), `patra-${name}.`));
    this.patienceMs = patienceMs;
    this.children = [];
    this.env = {
      ...process.env, PATRA_DATA: this.file('data'), PATRA_ALLOW_NET: '127.0.0.0/8',
      COOKIE_MASTER_KEY: 'only-for-this-test-only-for-this-test', RUST_LOG: 'info',
    };
  }

  file(name, text) {
    const file = path.join(this.folder, name);
    if (text !== undefined) writeFileSync(file, text, { mode: 0o600 });
    return file;
  }

  patra(args) {
    const done = spawnSync(process.env.PATRA_BIN, args, { env: this.env, encoding: 'utf8' });
    if (done.status !== 0) throw new Error(`patra ${args.join(' ')}: ${done.stderr}`);
    return done.stdout;
  }

  /** Starts a mock API and returns its address. */
  upstream(args) {
    return this.run(process.env.PATRA_UPSTREAM_BIN, ['--listen', '127.0.0.1:0', ...args], {}, (line) => line.trim());
  }

  /** Starts Patra and waits until it responds. */
  async serve() {
    const port = await freePort();
    this.url = `http://127.0.0.1:${port}`;
    await this.run(process.env.PATRA_BIN, ['serve', '--listen', `127.0.0.1:${port}`], this.env);
    await this.until(async () => (await fetch(`${this.url}/health`)).ok);
  }

  /** Starts a server; with `ready`, waits for its first line. */
  async run(binary, args, env, ready) {
    const log = this.file(`${path.basename(binary)}.log`);
    const child = spawn(binary, args, { env: { ...process.env, ...env }, stdio: ['ignore', ready ? 'pipe' : openSync(log, 'a'), openSync(log, 'a')] });
    this.children.push(child);
    if (!ready) return undefined;
    return new Promise((resolve, reject) => {
      let text = '';
      const died = () => reject(new Error(`${binary} ended: ${readFileSync(log, 'utf8')}`));
      child.once('exit', died);
      child.stdout.on('data', (part) => {
        text += part;
        if (!text.includes('\n')) return;
        child.off('exit', died);
        resolve(ready(text.split('\n')[0]));
      });
    });
  }

  /** Stops the servers; `keep` keeps their logs. */
  async stop(keep) {
    for (const child of this.children) if (child.exitCode === null) child.kill();
    await Promise.all(this.children.map((child) => child.exitCode !== null || child.signalCode !== null || new Promise((resolve) => { child.once('exit', resolve); })));
    if (keep) console.log(`logs are in ${this.folder}`);
    else rmSync(this.folder, { recursive: true, force: true });
  }

  async until(condition) {
    for (const end = Date.now() + this.patienceMs; ;) {
      let problem = new Error(`not in time: ${condition}`);
      try {
        if (await condition()) return;
      } catch (error) {
        problem = error;
      }
      if (Date.now() > end) throw problem;
      await new Promise((resolve) => { setTimeout(resolve, 100); });
    }
  }
}
