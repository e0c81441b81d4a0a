//! Checks a manifest independently of the operation it will be compiled for. It works on the typed manifest, so a
//! manifest from the registry is checked by the same rules as one from a file; only its line numbers are unknown.

mod auth;
mod detail;
mod inputs;
mod limits;
mod operation;
mod paging;
mod partition;
mod record;
mod request;
mod response;
mod schedule;
mod window;

use crate::expr::{Template, TemplateRules};
use crate::layers;
use crate::manifest::{EndpointConfig, Manifest};
use crate::problem::Problem;
use crate::selector::Selector;

pub(crate) use detail::takes_one_id;
pub(crate) use operation::warnings;

/// Longest provenance code or endpoint name. Both become part of keys.
const MAX_CODE: usize = 64;

/// Collects problems about one manifest.
pub(crate) struct ManifestChecker<'m> {
    pub(crate) manifest: &'m Manifest,
    pub(crate) problems: Vec<Problem>,
    /// Rules for the templates of the endpoint that is being checked.
    rules: TemplateRules,
}

/// Returns every problem of the manifest. Endpoints are checked with the defaults that they inherit.
pub(crate) fn manifest(manifest: &Manifest) -> Vec<Problem> {
    let mut check = ManifestChecker::new(manifest);
    check.shared();
    if manifest.endpoints.is_empty() {
        check.report("endpoints", "there is no endpoint");
    }
    let mut problems = check.problems;
    match layers::effective(manifest) {
        Err(problem) => problems.push(problem),
        Ok(effective) => {
            let mut check = ManifestChecker::new(&effective);
            for (name, endpoint) in &effective.endpoints {
                check.endpoint(name, endpoint);
            }
            problems.extend(check.problems);
        }
    }
    problems
}

impl<'m> ManifestChecker<'m> {
    pub(crate) fn new(manifest: &'m Manifest) -> ManifestChecker<'m> {
        ManifestChecker { manifest, problems: Vec::new(), rules: inputs::unrestricted_rules() }
    }

    /// Checks the settings that all endpoints share.
    pub(crate) fn shared(&mut self) {
        self.code("provenance", &self.manifest.provenance);
        let defaults = &self.manifest.defaults;
        for key in layers::endpoint_only_keys(defaults) {
            self.report(&format!("defaults.{key}"), "this key belongs to an endpoint and cannot be in `defaults`");
        }
        self.http("defaults.http", &defaults.http);
        self.limit_sections("defaults", defaults);
    }

    pub(crate) fn endpoint(&mut self, name: &str, endpoint: &EndpointConfig) {
        let path = format!("endpoints.{name}");
        self.code(&path, name);
        self.rules = self.rules(&path, endpoint);
        self.http(&format!("{path}.http"), &endpoint.http);
        self.auth(&path, endpoint);
        self.params(&path, endpoint);
        self.partitions(name, endpoint);
        self.schedule_can_run(name, endpoint);
        self.request(&path, endpoint);
        self.response(&path, endpoint);
        self.record(&path, endpoint);
        let templates = self.templates(&path, endpoint);
        self.paging(&path, endpoint);
        self.window(&path, endpoint);
        self.detail(&path, endpoint);
        if let Some(templates) = templates {
            self.sends_position(&path, endpoint, &templates);
            self.sends_window(&path, endpoint, &templates);
        }
        self.limit_sections(&path, endpoint);
        self.cost_within_burst(&path, &endpoint.rate_limit);
        self.schedule(&path, endpoint);
    }

    pub(crate) fn report(&mut self, path: &str, message: impl Into<String>) {
        self.problems.push(self.manifest.origin.problem(path, message, None));
    }

    pub(crate) fn report_with(&mut self, path: &str, message: impl Into<String>, hint: impl Into<String>) {
        self.problems.push(self.manifest.origin.problem(path, message, Some(hint.into())));
    }

    fn code(&mut self, path: &str, code: &str) {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
        if code.is_empty() {
            self.report(path, "the name is empty");
        } else if code.len() > MAX_CODE || !code.chars().all(fits) {
            let hint = format!("letters, digits, `_` and `-`, at most {MAX_CODE}");
            self.report_with(path, format!("{} cannot be used as a name", crate::problem::quote(code)), hint);
        }
    }

    /// Compiles and dry-runs a template; reports a problem if either fails.
    fn template(&mut self, path: &str, text: &str) -> Option<Template> {
        match Template::compile_with(text, &self.rules) {
            Err(syntax_error) => self.problems.push(self.manifest.origin.syntax_problem(path, text, syntax_error)),
            Ok(template) => match template.dry_run() {
                Ok(()) => return Some(template),
                Err(error) => self.report(path, format!("the template does not render: {error}")),
            },
        }
        None
    }

    /// Like [`Self::template`], but a credential is not allowed.
    fn template_without_credential(&mut self, path: &str, text: &str) -> Option<Template> {
        let credential = std::mem::take(&mut self.rules.scope.credential);
        let template = self.template(path, text);
        self.rules.scope.credential = credential;
        template
    }

    fn selector(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if let Err(syntax_error) = Selector::parse(text) {
            self.problems.push(self.manifest.origin.syntax_problem(path, text, syntax_error));
        }
    }

    /// Checks the name of a response header.
    fn header_name(&mut self, path: &str, name: Option<&str>) {
        if name.is_some_and(|name| !request::is_header_name(name)) {
            self.report(
                path,
                format!("{} is not a valid header name", crate::problem::quote(name.unwrap_or_default())),
            );
        }
    }

    /// Two keys that locate the same value must not both be set.
    fn check_exclusive(
        &mut self,
        path: &str,
        key: &str,
        one: &Option<String>,
        other_key: &str,
        other: &Option<String>,
    ) {
        if one.is_some() && other.is_some() {
            let message = format!("`{key}` and `{other_key}` locate the same value");
            self.report_with(&format!("{path}.{other_key}"), message, "keep one of them");
        }
    }
}
