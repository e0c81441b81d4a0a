// Checks every page of the console in a browser.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Rig, manifest } from './rig.mjs';

const require = createRequire(path.join(process.env.CONSOLE_CACHE, 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.PATRA_CONSOLE_SHOTS;

/** Largest page in bytes, and longest time to first paint in milliseconds. The time is printed, not asserted. */
const MAX_BYTES = 100_000;
const FIRST_PAINT_MS = 100;
const LOOKS = {
  light: { colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  dark: { colorScheme: 'dark', viewport: { width: 1280, height: 900 } },
  narrow: { colorScheme: 'light', viewport: { width: 400, height: 800 } },
};
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync'];

const rig = new Rig();
let browser;
try {
  await rig.start();
  browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: FLAGS });
  await faults();
  for (const [name, look] of Object.entries(LOOKS)) {
    await bare(name, look);
    await pages(name, look);
  }
  await withoutScript();
  await buttons();
  await trial();
  await live();
  console.log(`screenshots are in ${shots}`);
} finally {
  await browser?.close();
  await rig.stop();
}

async function entered(options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  await page.goto(`${rig.url}/`);
  await page.getByLabel('API key').fill(rig.key);
  await page.getByRole('button', { name: 'Log in' }).click();
  assert.equal(await page.getByRole('heading', { level: 1 }).innerText(), 'Overview');
  return page;
}

// covers: ING-14.7-03, ING-14.9-07, ING-DOD-24
/** A newcomer finds each fault from the overview, by clicking only. */
async function faults() {
  const page = await entered(LOOKS.light);
  const row = (level) => page.locator('tbody tr', { has: page.locator('.status', { hasText: level }) });
  for (const level of ['L1', 'L2', 'L3', 'L4']) {
    await rig.until(async () => {
      await page.goto(`${rig.url}/`);
      return await row(level).count() > 0;
    });
    await row(level).first().locator('a').first().click();
    const heading = await page.getByRole('heading', { level: 1 }).innerText();
    assert.match(heading, /^(Batch \d+ of run|Run) /, `${level} leads to ${heading}`);
    const text = await page.locator('main').innerText();
    assert.ok(text.includes(level) || level === 'L3' && text.includes('set aside'), `${level} is not explained: ${text.slice(0, 300)}`);
    await page.screenshot({ path: path.join(shots, `fault-${level}.png`) });
    console.log(`${level} found with one click: ${heading}`);
  }
  await page.context().close();
}

/** The addresses of all pages, and for each list that of its first row. */
async function addresses(page) {
  const found = ['/', '/try', '/search?q=1', '/search?q=nothing', '/slices', '/cursor-events', '/signals', '/candidates', '/outbox', '/schedules', '/exports'];
  const menu = await page.locator('nav a').evaluateAll((links) => links.map((link) => link.getAttribute('href')));
  for (const at of new Set([...menu, ...found])) {
    if (!found.includes(at)) found.push(at);
    await page.goto(rig.url + at);
    const first = await page.locator('tbody tr td:first-child a').first().getAttribute('href', { timeout: 500 }).catch(() => null);
    if (first && !found.includes(first)) found.push(first);
  }
  return found;
}

// covers: ING-14.7-01, ING-14.7-02, ING-14.7-04, ING-14.7-05
async function pages(name, look) {
  const page = await entered(look);
  const problems = [];
  page.on('console', (message) => message.type() === 'error' && problems.push(`${page.url()}: ${message.text()}`));
  page.on('pageerror', (error) => problems.push(`${page.url()}: ${error}`));
  for (const at of await addresses(page)) {
    const answer = await page.goto(rig.url + at);
    if (answer.status() !== 200) problems.push(`${at}: status ${answer.status()}`);
    const bytes = (await answer.body()).length;
    if (bytes >= MAX_BYTES) problems.push(`${at}: ${bytes} bytes`);
    console.log(`${name} ${at}: ${bytes} bytes, ${await firstPaint(page)}`);
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    if (overflow > 0) problems.push(`${name} ${at}: ${overflow} px too wide`);
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run(document, { resultTypes: ['violations'] }));
    for (const { id, impact, nodes } of violations.filter(({ impact }) => ['serious', 'critical'].includes(impact))) {
      problems.push(`${name} ${at}: ${impact} ${id}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
    }
    const file = at === '/' ? 'overview' : at.slice(1).replace(/[^a-z0-9]+/gi, '-');
    await page.screenshot({ path: path.join(shots, `${name}-${file}.png`), fullPage: true });
  }
  assert.deepEqual(problems, []);
  await page.context().close();
}

/** Time to first paint, and the server's part of it. The browser may report it only after the page has loaded. */
async function firstPaint(page) {
  const { paint, server } = await page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((list, observer) => {
      const [entry] = list.getEntriesByName('first-contentful-paint');
      if (!entry) return;
      observer.disconnect();
      const [{ requestStart, responseEnd }] = performance.getEntriesByType('navigation');
      resolve({ paint: entry.startTime, server: responseEnd - requestStart });
    }).observe({ type: 'paint', buffered: true });
  }));
  const slow = paint > FIRST_PAINT_MS ? ' (slow)' : '';
  return `first paint ${paint.toFixed(0)} ms${slow}, of which ${server.toFixed(0)} ms for the answer`;
}

/** Time of a page of one word in the same browser, as a lower limit. */
async function bare(name, look) {
  const server = http.createServer((_, answer) => answer.setHeader('content-type', 'text/html').end('<!doctype html><p>word'));
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const page = await (await browser.newContext(look)).newPage();
  for (let round = 0; round < 5; round++) {
    await page.goto(`http://127.0.0.1:${server.address().port}/${round}`);
    console.log(`${name}, a page of one word: ${await firstPaint(page)}`);
  }
  await page.context().close();
  server.close();
}

/** Everything works without script: a login, a list, a filter, a button. */
async function withoutScript() {
  const page = await entered({ javaScriptEnabled: false });
  await page.getByRole('link', { name: 'Sources' }).click();
  await page.getByRole('link', { name: 'A feed' }).first().click();
  await page.getByRole('button', { name: 'Pause' }).click();
  assert.match(await page.getByRole('status').innerText(), /A feed is paused/);
  await page.getByRole('button', { name: 'Resume' }).click();
  await page.getByRole('link', { name: 'Tasks' }).click();
  await page.getByLabel('Status').selectOption('FAILED');
  await page.getByRole('button', { name: 'Filter' }).click();
  assert.match(page.url(), /status=FAILED/);
  await page.getByRole('button', { name: 'Log out' }).click();
  assert.match(page.url(), /\/login$/);
  await page.context().close();
}

/** The first row of a list, once there is one. */
async function first(list) {
  let row;
  await rig.until(async () => {
    [row] = (await rig.ask('GET', `/api/v1/${list}`)).data.items;
    return row !== undefined;
  });
  return row;
}

// covers: ING-14.9-07, ING-14.10-04
/** The buttons of a batch, a task and a record do what they say. */
async function buttons() {
  const page = await entered(LOOKS.light);
  const press = (name) => page.getByRole('button', { name, exact: true }).click();
  const shown = () => page.locator('main').innerText();
  const batch = await first('batches?provenance=well&status=SUCCEEDED&limit=1');
  const at = `${rig.url}/runs/${batch.run_id}/batches/${batch.batch_no}`;
  const stored = async () => (await rig.ask('GET', '/api/v1/batches?provenance=well&limit=1')).data.items[0].id;
  const before = await stored();
  for (const name of ['Replay', 'Replay live']) {
    await page.goto(at);
    await press(name);
    assert.match(await page.getByRole('heading', { level: 1 }).innerText(), /^Replay of batch/);
    assert.match(await shown(), /SAME/, `${name}: ${await shown()}`);
    const results = await page.locator('tbody tr td:last-child').allInnerTexts();
    assert.ok(results.includes('same') && !results.includes('different'), `${name}: ${results}`);
  }
  await page.goto(at);
  await press('Run again');
  assert.match(await page.getByRole('status').innerText(), /executed already/);
  assert.equal(await stored(), before, 'nothing was written');

  await page.goto(at);
  await page.getByLabel('Reason').fill('for the test');
  const [download] = await Promise.all([page.waitForEvent('download'), press('Export')]);
  const box = JSON.parse(readFileSync(await download.path(), 'utf8'));
  assert.ok(JSON.stringify(box).includes('for the test') && box.signature, Object.keys(box).join());
  const exported = await first('exports');
  assert.deepEqual([exported.run_id, exported.batch_no, exported.reason], [batch.run_id, batch.batch_no, 'for the test']);

  const failed = await first('tasks?provenance=moved&status=FAILED&limit=1');
  await page.goto(`${rig.url}/tasks/${failed.id}`);
  await press('Run again');
  const [again] = (await page.getByRole('status').innerText()).match(/\d+/);
  assert.equal((await first(`tasks?provenance=moved&limit=1`)).redrive_of, failed.id);
  await rig.until(async () => (await rig.ask('GET', '/api/v1/tasks?provenance=moved')).data.items.some(({ id, status_code: status }) => `${id}` === again && status === 'FAILED'));

  const record = await first('quarantine?provenance=undated&limit=1');
  await page.goto(`${rig.url}/quarantine/${record.id}`);
  await press('Fetch again');
  assert.match(await page.getByRole('status').innerText(), /fetches the record again/);
  assert.equal((await first('signals?provenance=undated&limit=1')).item_key, record.dedup_key);
  await page.context().close();
}

/** Trying a manifest in the form shows the records or the problems, and stores nothing. */
async function trial() {
  const page = await entered(LOOKS.light);
  const attempt = async (yaml) => {
    await page.goto(`${rig.url}/try`);
    await page.getByLabel('YAML').fill(yaml);
    await page.getByLabel('Endpoint').fill('records');
    await page.getByLabel('From').fill('2024-01-01');
    await page.getByLabel('To', { exact: true }).fill('2024-01-02');
    await page.getByRole('button', { name: 'Try', exact: true }).click();
    return page.locator('main').innerText();
  };
  const yaml = manifest('tried', { base: rig.far });
  assert.match(await attempt(yaml), /Read page 1: 50 items, 50 records, 0 set aside/);
  assert.match(await attempt(yaml.replace('window:', 'windows:')), /unknown key/);
  const known = (await rig.ask('GET', '/api/v1/provenances')).data.items.map(({ provenance_code: code }) => code);
  assert.ok(known.includes('well') && !known.includes('tried'), known.join());
  await page.context().close();
}

/** An open page updates when data changes. */
async function live() {
  const page = await entered(LOOKS.light);
  await page.goto(`${rig.url}/jobs`);
  const job = await rig.ask('POST', '/api/v1/jobs', { provenance: 'well', endpoint: 'records', to: '2024-01-10T00:00:00Z', public_id: 'seen-by-itself' });
  await page.getByText(job.data.public_id).waitFor({ timeout: 60_000 });
  await page.context().close();
}
