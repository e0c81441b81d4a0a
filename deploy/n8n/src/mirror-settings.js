const settings = {
  patra_url: '',
  platform: 'xhs',
  feishu_url: variable('FEISHU_URL') || 'https://open.feishu.cn',
  // The base and the table, from the address of the table: /base/{base}?table={table}
  feishu_base: variable('FEISHU_BASE') || '',
  feishu_table: variable('FEISHU_TABLE') || '',
};
settings.patra_url = patraUrl(settings.patra_url);
settings.trace = newTrace();
if (!settings.feishu_base || !settings.feishu_table) throw new Error('FEISHU_BASE and FEISHU_TABLE are not set (docs/n8n.md says how)');
// Where the last run ended. n8n keeps it between runs of an active workflow; a run by hand begins anew and finds all as known.
settings.after = $getWorkflowStaticData('global').after || 0;
return [{ json: settings }];
