// Every page of the console, as people see it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { Rig } from './rig.mjs';

const require = createRequire(path.join(process.env.CONSOLE_CACHE, 'package.json'));
const { chromium } = require('playwright-core');
const axe = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const shots = process.env.PATRA_CONSOLE_SHOTS;

/** Pages are smaller than this, and paint within so many milliseconds; the latter is told, not asserted. */
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
  for (const [name, look] of Object.entries(LOOKS)) await pages(name, look);
  await withoutScript();
  await live();
  console.log(`screenshots are in ${shots}`);
} finally {
  await browser?.close();
  rig.stop();
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

// covers: ING-14.7-03, ING-14.9-07
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

/** The addresses of all pages; of lists also that of the first row. */
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
    const paint = await firstPaint(page);
    console.log(`${name} ${at}: ${bytes} bytes, first paint ${paint.toFixed(0)} ms${paint > FIRST_PAINT_MS ? ' (slow)' : ''}`);
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

/** When the page first showed something: the browser may tell only after it has loaded. */
function firstPaint(page) {
  return page.evaluate(() => new Promise((resolve) => {
    new PerformanceObserver((list, observer) => {
      const [entry] = list.getEntriesByName('first-contentful-paint');
      if (!entry) return;
      observer.disconnect();
      resolve(entry.startTime);
    }).observe({ type: 'paint', buffered: true });
  }));
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

/** A page that is open tells what happens elsewhere. */
async function live() {
  const page = await entered(LOOKS.light);
  await page.goto(`${rig.url}/jobs`);
  const job = await rig.ask('POST', '/api/v1/jobs', { provenance: 'well', endpoint: 'records', to: '2024-01-10T00:00:00Z', public_id: 'seen-by-itself' });
  await page.getByText(job.data.public_id).waitFor({ timeout: 60_000 });
  await page.context().close();
}
