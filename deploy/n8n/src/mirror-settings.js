const settings = {
  patra_url: '',
  platform: 'xhs',
  feishu_url: variable('FEISHU_URL') || 'https://open.feishu.cn',
  // Base and table, from the address of the table: /base/{base}?table={table}
  feishu_base: variable('FEISHU_BASE') || '',
  feishu_table: variable('FEISHU_TABLE') || '',
};
settings.patra_url = patraUrl(settings.patra_url);
settings.trace = newTrace();
if (!settings.feishu_base || !settings.feishu_table) throw new Error('FEISHU_BASE and FEISHU_TABLE are not set (docs/n8n.md says how)');
// Where the last run ended. n8n stores this between runs of an active workflow. A manual run starts from zero and finds only known rows.
settings.after = $getWorkflowStaticData('global').after || 0;
return [{ json: settings }];
