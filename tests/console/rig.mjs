// Starts Patra with a mock API: one healthy source, and one source with a fault of each level.
import { Sandbox, freePort } from '../sandbox.mjs';

/** Time after which a step counts as hung. */
const PATIENCE_MS = 4 * 60 * 1000;

/** A manifest for the mock API, with the given fault. */
export const manifest = (provenance, { base, path: at = '/cursor', id = '$.id', updated = '$.updated_at', size = 50 }) => `
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
    response: { items_path: "$.message.items", id_path: "${id}", updated_at_path: "${updated}", total_path: "$.message['total-results']" }
    raw: { keep: PT1H }
    update: { detail: one }
    kind: document
    fields: { title: "$.title" }
  one:
    role: detail
    http: { base_url: "${base}", path: /details }
    query: { ids: "\${ ids | join(',') }" }
    response: { items_path: "$.items", id_path: "$.id", updated_at_path: "$.updated_at" }
    fields: { title: "$.title" }`;

export class Rig extends Sandbox {
  constructor() {
    super('console', PATIENCE_MS);
  }

  async start() {
    const far = ['--records', '1200', '--step-secs', '600'];
    this.far = await this.upstream(far);
    this.locked = await this.upstream([...far, '--auth', 'bearer:nobody-knows']);
    const sources = {
      well: { base: this.far },
      silent: { base: `http://127.0.0.1:${await freePort()}` },
      moved: { base: this.far, path: '/nowhere' },
      odd: { base: this.far, id: '$.nothing', size: 500 },
      undated: { base: this.far, updated: '$.nothing', size: 500 },
      locked: { base: this.locked },
    };
    for (const [name, how] of Object.entries(sources)) {
      this.patra(['apply', '-f', this.file(`${name}.yaml`, manifest(name, how))]);
    }
    this.key = this.patra(['key', 'create', 'console test', '--scope', 'admin']).trim();
    await this.serve();
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
}
