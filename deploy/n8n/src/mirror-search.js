const { rows } = $('Rows').first().json;
const token = $input.first().json.tenant_access_token;
if (!token) throw new Error(`No token, is the credential "Feishu app" right? (${$input.first().json.msg || 'no response'})`);
const conditions = rows.map((row) => ({ field_name: 'idempotency_key', operator: 'is', value: [row.idempotency_key] }));
return [{ json: { token, body: { field_names: ['idempotency_key'], filter: { conjunction: 'or', conditions } } } }];
