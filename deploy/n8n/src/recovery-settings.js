const settings = { patra_url: '' };
settings.patra_url = patraUrl(settings.patra_url);
settings.trace = newTrace();
return [{ json: settings }];
