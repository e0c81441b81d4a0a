// A platform that has cookies but no usable one needs a person.
const { statusCode, body, error } = $input.first().json;
if (!body?.success) {
  throw new Error(`Cookies cannot be listed, ${body?.error?.code || statusCode || 'no response'} (${body?.error?.message || error?.message || 'no further details'})`);
}
// The counts are those of all cookies; the list is its first page.
const { platforms } = body.data;
const describe = ([platform, counts]) => `${platform} (${counts.cooling} cooling, ${counts.invalid} invalid, ${counts.banned} banned, ${counts.paused} paused, ${counts.expired} expired)`;
const exhausted = Object.entries(platforms).filter(([, counts]) => counts.active < 1).map(describe);
// Validating a cookie counts as one use of it.
const usable = (cookie) => cookie.status === 'active' && !cookie.paused_at && cookie.daily_used < cookie.daily_limit;
const to_try = $('Settings').first().json.validate ? body.data.items.filter(usable).map((cookie) => cookie.cookie_name) : [];
return [{ json: { platforms, exhausted, to_try } }];
