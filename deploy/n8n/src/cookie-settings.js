// Change settings here, or set the variable PATRA_COOKIE_CHECK to a JSON object with the ones to change.
const settings = {
  patra_url: '',
  // true: validate each active cookie with one request to its platform. That counts as a use of the cookie.
  validate: false,
};
Object.assign(settings, JSON.parse(variable('PATRA_COOKIE_CHECK') || '{}'));
settings.patra_url = patraUrl(settings.patra_url);
settings.trace = newTrace();
return [{ json: settings }];
