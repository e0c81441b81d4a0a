const settings = { patra_url: '' };
settings.patra_url = patraUrl(settings.patra_url);
// The caller passes its own trace, so that its steps stay together in the log.
const trace = $input.first().json.trace || newTrace();
return $input.all().map((item, i) => ({ json: { ...item.json, ...settings, request_id: `${trace}-STEP${i ? `-${i + 1}` : ''}` } }));
