//! Whether a manifest makes sense, whatever operation it will be compiled for. Works on the typed manifest, so one from
//! the registry is checked by the same rules as one from a file; only the places are then unknown.

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

use crate::expr::{Rules, Template};
use crate::layers;
use crate::manifest::{Endpoint, Manifest};
use crate::problem::Problem;
use crate::selector::Selector;

pub(crate) use detail::takes_one_id;
pub(crate) use operation::warnings;

/// Longest code or endpoint name: it becomes part of keys.
const MAX_CODE: usize = 64;

/// Collects problems about one manifest.
pub(crate) struct Check<'m> {
    pub(crate) manifest: &'m Manifest,
    pub(crate) problems: Vec<Problem>,
    /// By which the templates at hand are compiled.
    rules: Rules,
}

/// Everything wrong with the manifest as a whole. Endpoints are looked at as they will be, with what they take over.
pub(crate) fn manifest(manifest: &Manifest) -> Vec<Problem> {
    let mut check = Check::new(manifest);
    check.shared();
    if manifest.endpoints.is_empty() {
        check.report("endpoints", "there is no endpoint");
    }
    let mut problems = check.problems;
    match layers::effective(manifest) {
        Err(problem) => problems.push(problem),
        Ok(effective) => {
            let mut check = Check::new(&effective);
            for (name, endpoint) in &effective.endpoints {
                check.endpoint(name, endpoint);
            }
            problems.extend(check.problems);
        }
    }
    problems
}

impl<'m> Check<'m> {
    pub(crate) fn new(manifest: &'m Manifest) -> Check<'m> {
        Check { manifest, problems: Vec::new(), rules: inputs::any() }
    }

    /// What all endpoints depend on.
    pub(crate) fn shared(&mut self) {
        self.code("provenance", &self.manifest.provenance);
        let defaults = &self.manifest.defaults;
        for key in layers::misplaced(defaults) {
            self.report(&format!("defaults.{key}"), "this is said by each endpoint for itself");
        }
        self.http("defaults.http", &defaults.http);
        self.pace("defaults", defaults);
    }

    pub(crate) fn endpoint(&mut self, name: &str, endpoint: &Endpoint) {
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
        self.pace(&path, endpoint);
        self.affords(&path, &endpoint.rate_limit);
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

    /// A template that compiles and renders; anything else is reported.
    fn template(&mut self, path: &str, text: &str) -> Option<Template> {
        match Template::compile_with(text, &self.rules) {
            Err(flaw) => self.problems.push(self.manifest.origin.flaw(path, text, flaw)),
            Ok(template) => match template.try_out() {
                Ok(()) => return Some(template),
                Err(error) => self.report(path, format!("the template does not render: {error}")),
            },
        }
        None
    }

    /// The same where no credential may stand.
    fn bare_template(&mut self, path: &str, text: &str) -> Option<Template> {
        let credential = std::mem::take(&mut self.rules.scope.credential);
        let template = self.template(path, text);
        self.rules.scope.credential = credential;
        template
    }

    fn selector(&mut self, path: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        if let Err(flaw) = Selector::parse(text) {
            self.problems.push(self.manifest.origin.flaw(path, text, flaw));
        }
    }

    /// The name of a header that is looked for in answers.
    fn header_name(&mut self, path: &str, name: Option<&str>) {
        if name.is_some_and(|name| !request::is_header_name(name)) {
            self.report(path, format!("{} is no header name", crate::problem::quote(name.unwrap_or_default())));
        }
    }

    /// A value stands in one place: two would have to be weighed against each other.
    fn once(&mut self, path: &str, key: &str, one: &Option<String>, other_key: &str, other: &Option<String>) {
        if one.is_some() && other.is_some() {
            let message = format!("`{key}` and `{other_key}` say where the same thing stands");
            self.report_with(&format!("{path}.{other_key}"), message, "keep one of them");
        }
    }
}
