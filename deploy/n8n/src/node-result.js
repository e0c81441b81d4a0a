// Returns the data of the response, or throws an error with its code. n8n cuts messages at a colon, so there is none.
return $input.all().map(({ json: { statusCode, body, error } }) => {
  if (body?.success) return { json: body.data };
  throw new Error(`${body?.error?.code || statusCode || 'NETWORK_ERROR'} (${body?.error?.message || error?.message || 'no response'})`);
});
