const answer = $input.first().json;
if (answer.code !== 0) throw new Error(`The table cannot be read, ${answer.code} (${answer.msg})`);
// A text field comes as a list of parts.
const text = (value) => (Array.isArray(value) ? value.map((part) => part.text ?? part).join('') : value);
const known = new Set((answer.data.items || []).map((record) => text(record.fields.idempotency_key)));
const records = $('Rows').first().json.rows.filter((row) => !known.has(row.idempotency_key)).map((fields) => ({ fields }));
return [{ json: { token: $('Search body').first().json.token, body: { records } } }];
