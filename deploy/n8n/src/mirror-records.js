// One row per note. Its key makes a repeated write harmless.
const { statusCode, body } = $input.first().json;
if (!body?.success) throw new Error(`Notes cannot be listed, ${body?.error?.code || statusCode || 'no response'} (${body?.error?.message || 'no further details'})`);
const notes = body.data.items;
const rows = notes.map((note) => ({
  idempotency_key: note.idempotency_key,
  platform: note.platform,
  note_id: note.note_id,
  note_url: note.note_url || '',
  title: note.title || '',
  content: note.content || '',
  author: note.author || '',
  published_at: note.published_at || '',
  fetched_at: note.fetched_at || '',
}));
return [{ json: { rows, last: notes.length ? notes[notes.length - 1].id : null } }];
