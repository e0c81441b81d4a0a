const { trace } = $('Settings').first().json;
const { to_try } = $input.first().json;
return to_try.map((cookie_name, i) => ({ json: { cookie_name, request_id: `${trace}-validate-${i + 1}` } }));
