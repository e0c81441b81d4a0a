//! Checks the inputs of a run (`params`), the template rules (`expr`), and the parameters of requests.

use std::sync::Arc;

use super::ManifestChecker;
use crate::expr::{AllowedFunctions, Template, TemplateRules, TimeStyle, VariableScope};
use crate::keywords::{AuthType, EndpointRole};
use crate::manifest::{EndpointConfig, ParamConfig, RequestParamConfig};
use crate::pattern::Pattern;

const MAX_PARAMS: usize = 64;
const MAX_NAME: usize = 64;

/// Rules for templates outside an endpoint: every variable is allowed.
pub(super) fn unrestricted_rules() -> TemplateRules {
    TemplateRules { scope: VariableScope { params: None, credential: true, ids: true }, ..TemplateRules::default() }
}

impl ManifestChecker<'_> {
    /// Rules for the templates of the endpoint. Problems in the rules themselves are reported.
    pub(super) fn rules(&mut self, path: &str, endpoint: &EndpointConfig) -> TemplateRules {
        let auth = endpoint.auth.as_ref().and_then(|auth| auth.r#type).unwrap_or_default();
        TemplateRules {
            allowed: self.allowed_functions(path, endpoint),
            nulls: endpoint.expr.null_policy.unwrap_or_default(),
            times: self.time_style(path, endpoint),
            scope: VariableScope {
                params: Some(Arc::new(endpoint.params.keys().cloned().collect())),
                credential: auth != AuthType::None,
                ids: endpoint.role == Some(EndpointRole::Detail),
            },
        }
    }

    /// Returns all functions if the list is invalid, so that only the list is reported and not every template.
    fn allowed_functions(&mut self, path: &str, endpoint: &EndpointConfig) -> AllowedFunctions {
        let Some(names) = &endpoint.expr.allowed_functions else { return AllowedFunctions::all() };
        let mut valid = true;
        for (at, name) in names.iter().enumerate() {
            if let Err(syntax_error) = AllowedFunctions::only([name.as_str()]) {
                let path = format!("{path}.expr.allowed_functions[{at}]");
                self.problems.push(self.manifest.origin.problem(&path, syntax_error.message, syntax_error.hint));
                valid = false;
            }
        }
        let allowed = AllowedFunctions::only(names.iter().map(String::as_str));
        allowed.ok().filter(|_| valid).unwrap_or_default()
    }

    fn time_style(&mut self, path: &str, endpoint: &EndpointConfig) -> TimeStyle {
        let zone = endpoint.expr.timezone.as_deref();
        if zone.is_some_and(|zone| !zone.trim().eq_ignore_ascii_case("utc")) {
            let hint = "write UTC, and use format(time, pattern, '+02:00') if the upstream uses another zone";
            self.report_with(&format!("{path}.expr.timezone"), "times are in UTC", hint);
        }
        let Some(text) = &endpoint.expr.time_format else { return TimeStyle::default() };
        TimeStyle::parse(text).unwrap_or_else(|syntax_error| {
            let path = format!("{path}.expr.time_format");
            self.problems.push(self.manifest.origin.syntax_problem(&path, text, syntax_error));
            TimeStyle::default()
        })
    }

    pub(super) fn params(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        if endpoint.params.len() > MAX_PARAMS {
            self.report(&format!("{endpoint_path}.params"), format!("at most {MAX_PARAMS} parameters can be given"));
        }
        for (name, param) in &endpoint.params {
            self.param(&format!("{endpoint_path}.params.{name}"), name, param);
        }
    }

    fn param(&mut self, path: &str, name: &str, param: &ParamConfig) {
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if !name.starts_with(first) || !name.chars().all(fits) || name.len() > MAX_NAME {
            let hint = format!("letters, digits, `_` and `-`, a letter first, at most {MAX_NAME}");
            self.report_with(path, format!("{} cannot be used as a name", crate::problem::quote(name)), hint);
        }
        self.pattern_and_default(path, param.pattern.as_deref(), param.default.as_deref());
        if param.required == Some(true) && param.default.is_some() {
            let message = "a parameter with a default is never missing";
            self.report_with(&format!("{path}.required"), message, "remove `required`, or `default`");
        }
    }

    /// Checks one request parameter: its template, and the conditions on the rendered value.
    pub(super) fn request_param(&mut self, path: &str, param: &RequestParamConfig) -> Option<Template> {
        // In short form the template is at the parameter's own path, in long form at `.expr`.
        let at = if param.is_plain() { path.to_owned() } else { format!("{path}.expr") };
        self.pattern_and_default(path, param.pattern.as_deref(), param.default.as_deref());
        if param.pattern.is_some() && crate::expr::reads(&param.expr, "credential") {
            let message = "a pattern cannot be checked against a credential: its value is not known here";
            self.report_with(&format!("{path}.pattern"), message, "remove `pattern`");
        }
        if param.default.as_deref().is_some_and(|text| text.contains('\u{1}')) {
            self.report(&format!("{path}.default"), "the control character U+0001 is not allowed");
        }
        self.template(&at, &param.expr)
    }

    /// The pattern must compile, and the default must match it.
    fn pattern_and_default(&mut self, path: &str, pattern: Option<&str>, default: Option<&str>) {
        let Some(text) = pattern else { return };
        match (Pattern::whole(text), default) {
            (Err(syntax_error), _) => {
                let path = format!("{path}.pattern");
                self.problems.push(self.manifest.origin.syntax_problem(&path, text, syntax_error));
            }
            (Ok(pattern), Some(default)) if !pattern.matches(default) => {
                self.report(&format!("{path}.default"), format!("the default does not match {text}"));
            }
            (Ok(_), _) => {}
        }
    }
}
