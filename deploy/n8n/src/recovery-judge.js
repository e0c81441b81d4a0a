const { statusCode, body, error } = $input.first().json;
if (body?.success) return [{ json: body.data }];
throw new Error(`Recovery failed with ${body?.error?.code || statusCode || 'no response'} (${body?.error?.message || error?.message || 'no further details'})`);
