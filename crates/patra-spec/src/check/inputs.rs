//! What a run is given and what templates may do with it: `params`, `expr`, and the values of requests.

use std::sync::Arc;

use super::Check;
use crate::expr::{Allowed, Rules, Scope, Template, TimeStyle};
use crate::manifest::{Endpoint, Param, RequestParam};
use crate::pattern::Pattern;
use crate::words::{AuthType, Role};

const MAX_PARAMS: usize = 64;
const MAX_NAME: usize = 64;

/// For what is not of one endpoint: all that some endpoint may know.
pub(super) fn any() -> Rules {
    Rules { scope: Scope { params: None, credential: true, ids: true }, ..Rules::default() }
}

impl Check<'_> {
    /// By which the templates of the endpoint are compiled; what is wrong with the rules themselves is reported.
    pub(super) fn rules(&mut self, path: &str, endpoint: &Endpoint) -> Rules {
        let auth = endpoint.auth.as_ref().and_then(|auth| auth.r#type).unwrap_or_default();
        Rules {
            allowed: self.allowed(path, endpoint),
            nulls: endpoint.expr.null_policy.unwrap_or_default(),
            times: self.times(path, endpoint),
            scope: Scope {
                params: Some(Arc::new(endpoint.params.keys().cloned().collect())),
                credential: auth != AuthType::None,
                ids: endpoint.role == Some(Role::Detail),
            },
        }
    }

    /// All functions when the list is unsound: only the list is then wrong, not every template.
    fn allowed(&mut self, path: &str, endpoint: &Endpoint) -> Allowed {
        let Some(names) = &endpoint.expr.allowed_functions else { return Allowed::all() };
        let mut sound = true;
        for (at, name) in names.iter().enumerate() {
            if let Err(flaw) = Allowed::only([name.as_str()]) {
                let path = format!("{path}.expr.allowed_functions[{at}]");
                self.problems.push(self.manifest.origin.problem(&path, flaw.message, flaw.hint));
                sound = false;
            }
        }
        let allowed = Allowed::only(names.iter().map(String::as_str));
        allowed.ok().filter(|_| sound).unwrap_or_default()
    }

    fn times(&mut self, path: &str, endpoint: &Endpoint) -> TimeStyle {
        let zone = endpoint.expr.timezone.as_deref();
        if zone.is_some_and(|zone| !zone.trim().eq_ignore_ascii_case("utc")) {
            let hint = "write UTC, and use format(time, pattern, '+02:00') where the far side has another zone";
            self.report_with(&format!("{path}.expr.timezone"), "times are in UTC", hint);
        }
        let Some(text) = &endpoint.expr.time_format else { return TimeStyle::default() };
        TimeStyle::parse(text).unwrap_or_else(|flaw| {
            let path = format!("{path}.expr.time_format");
            self.problems.push(self.manifest.origin.flaw(&path, text, flaw));
            TimeStyle::default()
        })
    }

    pub(super) fn params(&mut self, endpoint_path: &str, endpoint: &Endpoint) {
        if endpoint.params.len() > MAX_PARAMS {
            self.report(&format!("{endpoint_path}.params"), format!("at most {MAX_PARAMS} parameters can be given"));
        }
        for (name, param) in &endpoint.params {
            self.param(&format!("{endpoint_path}.params.{name}"), name, param);
        }
    }

    fn param(&mut self, path: &str, name: &str, param: &Param) {
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !name.starts_with(first) || !name.chars().all(fits) || name.len() > MAX_NAME {
            let hint = format!("letters, digits, `_` and `-`, a letter first, at most {MAX_NAME}");
            self.report_with(path, format!("{} cannot be used as a name", crate::problem::quote(name)), hint);
        }
        self.whitelist(path, param.pattern.as_deref(), param.default.as_deref());
        if param.required == Some(true) && param.default.is_some() {
            let message = "a parameter with a default is never missing";
            self.report_with(&format!("{path}.required"), message, "remove `required`, or `default`");
        }
    }

    /// One value of a request: its template, and what must be so of what it renders.
    pub(super) fn request_param(&mut self, path: &str, param: &RequestParam) -> Option<Template> {
        // A short one stands at its own path, a long one below.
        let at = if param.is_plain() { path.to_owned() } else { format!("{path}.expr") };
        self.whitelist(path, param.pattern.as_deref(), param.default.as_deref());
        if param.pattern.is_some() && crate::expr::reads(&param.expr, "credential") {
            let message = "a pattern cannot be held against a credential: its value is not known here";
            self.report_with(&format!("{path}.pattern"), message, "remove `pattern`");
        }
        if param.default.as_deref().is_some_and(|text| text.contains('\u{1}')) {
            self.report(&format!("{path}.default"), "the control character U+0001 is not allowed");
        }
        self.template(&at, &param.expr)
    }

    /// A pattern that reads, and a default that matches it.
    fn whitelist(&mut self, path: &str, pattern: Option<&str>, default: Option<&str>) {
        let Some(text) = pattern else { return };
        match (Pattern::whole(text), default) {
            (Err(flaw), _) => {
                let path = format!("{path}.pattern");
                self.problems.push(self.manifest.origin.flaw(&path, text, flaw));
            }
            (Ok(pattern), Some(default)) if !pattern.matches(default) => {
                self.report(&format!("{path}.default"), format!("the default does not match {text}"));
            }
            (Ok(_), _) => {}
        }
    }
}
