const response = $input.first().json;
if (response.code !== 0) throw new Error(`The table cannot be read, ${response.code} (${response.msg})`);
// A text field is a list of parts.
const text = (value) => (Array.isArray(value) ? value.map((part) => part.text ?? part).join('') : value);
const known = new Set((response.data.items || []).map((record) => text(record.fields.idempotency_key)));
const records = $('Rows').first().json.rows.filter((row) => !known.has(row.idempotency_key)).map((fields) => ({ fields }));
return [{ json: { token: $('Search body').first().json.token, body: { records } } }];
