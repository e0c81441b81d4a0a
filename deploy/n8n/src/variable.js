// A variable of n8n ($vars, needs a licence), else of n8n's environment ($env, needs N8N_BLOCK_ENV_ACCESS_IN_NODE=false).
function variable(name) {
  for (const read of [() => $vars[name], () => $env[name]]) {
    try {
      const value = read();
      if (value) return value;
    } catch {}
  }
  return undefined;
}

// Where Patra listens. Fill in `here` only if neither kind of variable can be used.
function patraUrl(here) {
  const url = variable('PATRA_URL') || here;
  if (!url) throw new Error('PATRA_URL is not set (docs/n8n.md, "The address", says how)');
  return url.replace(/\/+$/, '');
}

// All request ids of one run begin with this: one search in Patra's log shows the whole run.
function newTrace() {
  const random = Math.random().toString(36).slice(2, 8).padEnd(6, '0');
  return `wf-${Math.floor(Date.now() / 1000)}-${random}`;
}
