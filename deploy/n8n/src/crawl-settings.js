// Change settings here, or set the variable PATRA_CRAWL to a JSON object with the ones to change.
const settings = {
  patra_url: '',
  // Name of the lock: runs with the same name never overlap.
  workflow_name: 'wf-crawl-main',
  platform: 'xhs',
  keywords: ['foundation'],
  sort_type: 'general',
  note_type: 'all',
  page_size: 20,
  // Maximum number of pages per keyword.
  max_pages: 5,
  // Notes per batch, 1 to 20, and maximum number of batches per run.
  batch_size: 10,
  max_batches: 50,
  // Delays before the 1st, 2nd and 3rd retry.
  backoff_seconds: [5, 15, 45],
  // Longest time between two heartbeats. Patra releases a lock after 30 minutes without one.
  heartbeat_seconds: 240,
};

Object.assign(settings, JSON.parse(variable('PATRA_CRAWL') || '{}'));
settings.patra_url = patraUrl(settings.patra_url);
settings.trace = newTrace();

const state = {
  step: 'lock', retry: 0, wait: 0, numbers: {},
  keyword: 0, page: 1, batches: 0,
  excluded: [], todo: [], writes: [], failures: [],
  processed: 0, failed: 0, alerts: [], verdict: 'completed', reason: '',
};
return [{ json: { ...settings, state } }];
