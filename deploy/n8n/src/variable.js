// Reads an n8n variable ($vars, needs a licence), or an environment variable of n8n ($env, needs N8N_BLOCK_ENV_ACCESS_IN_NODE=false).
function variable(name) {
  for (const read of [() => $vars[name], () => $env[name]]) {
    try {
      const value = read();
      if (value) return value;
    } catch {}
  }
  return undefined;
}

// The address of Patra. Fill in `here` only if you can use neither kind of variable.
function patraUrl(here) {
  const url = variable('PATRA_URL') || here;
  if (!url) throw new Error('PATRA_URL is not set (see "The address" in docs/n8n.md)');
  return url.replace(/\/+$/, '');
}

// All request ids of a run start with this trace, so one search in Patra's log shows the whole run.
function newTrace() {
  const random = Math.random().toString(36).slice(2, 8).padEnd(6, '0');
  return `wf-${Math.floor(Date.now() / 1000)}-${random}`;
}
