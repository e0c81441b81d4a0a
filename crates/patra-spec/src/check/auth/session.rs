//! Checks the login request of `auth.session`.

use super::ManifestChecker;
use super::{is_header_name, is_managed_header};
use crate::keywords::RequestMethod;
use crate::manifest::{EndpointConfig, SessionConfig};

impl ManifestChecker<'_> {
    pub(super) fn session(&mut self, endpoint_path: &str, endpoint: &EndpointConfig, session: &SessionConfig) {
        let path = &format!("{endpoint_path}.auth.session");
        match session.url.as_deref() {
            None => {
                let hint = "for example url: /login, or an absolute URL";
                self.report_with(&format!("{path}.url"), "session auth needs `session.url`", hint);
            }
            // A path on the base URL; the base URL itself is checked separately.
            Some(url) if url.starts_with('/') && !url.starts_with("//") => {
                if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
                    self.report(&format!("{path}.url"), "a path must not contain spaces or control characters");
                }
            }
            Some(url) => self.request_url(&format!("{path}.url"), url),
        }
        self.token_location(path, session);
        if session.body.is_some() && session.method == Some(RequestMethod::Get) {
            let hint = "remove `method`, or `body`";
            self.report_with(&format!("{path}.body"), "a GET request has no body", hint);
        }
        if session.expires_in.is_some_and(|life| life.0.is_zero()) {
            self.report(&format!("{path}.expires_in"), "a session needs a lifetime of more than PT0S");
        }
        self.login_templates(path, session);
        let own = session.cookie.is_some() && endpoint.auth.as_ref().is_some_and(|auth| auth.prefix.is_some());
        if own {
            let message = "`prefix` has no meaning when the session is a cookie";
            self.report_with(&format!("{endpoint_path}.auth.prefix"), message, "remove it");
        }
    }

    fn token_location(&mut self, path: &str, session: &SessionConfig) {
        self.selector(&format!("{path}.token_path"), session.token_path.as_deref());
        self.header_name(&format!("{path}.token_header"), session.token_header.as_deref());
        let cookie = session.cookie.as_deref();
        if cookie.is_some_and(|name| !is_header_name(name)) {
            self.report(&format!("{path}.cookie"), "expected the name of a cookie");
        }
        let places = [session.token_path.is_some(), session.token_header.is_some(), cookie.is_some()];
        if places.into_iter().filter(|there| *there).count() != 1 {
            let message =
                "exactly one of `token_path`, `token_header` and `cookie` must locate the session in the response";
            self.report_with(&format!("{path}.token_path"), message, "for example token_path: $.token");
        }
    }

    /// Login templates can only read `credential`: there is no window, page or parameter yet.
    fn login_templates(&mut self, path: &str, session: &SessionConfig) {
        for (name, text) in &session.headers {
            let path = format!("{path}.headers.{name}");
            if !is_header_name(name) || text.chars().any(char::is_control) {
                self.report(&path, "expected the name of a header, and a value without control characters");
            }
            if is_managed_header(name) {
                self.managed_header(&path, name);
            }
            self.secret_header(&path, name, text);
            self.login_template(&path, text);
        }
        let Some(body) = &session.body else { return };
        let given =
            usize::from(body.json.is_some()) + usize::from(body.form.is_some()) + usize::from(body.raw.is_some());
        if given != 1 {
            self.report(&format!("{path}.body"), "a body is one of `json`, `form` and `raw`");
        }
        for (name, param) in body.form.iter().flatten() {
            if !param.is_plain() {
                let hint = format!("write {name}: \"…\"");
                self.report_with(&format!("{path}.body.form.{name}"), "only a plain template is allowed here", hint);
            }
        }
        let mut found = Vec::new();
        self.body(&format!("{path}.body"), body, &mut found);
        for template in found.into_iter().flatten() {
            self.only_credential_variables(&format!("{path}.body"), template.as_str());
        }
    }

    fn login_template(&mut self, path: &str, text: &str) {
        if self.template(path, text).is_some() {
            self.only_credential_variables(path, text);
        }
    }

    fn only_credential_variables(&mut self, path: &str, text: &str) {
        for variable in ["window", "page", "params", "ids", "id"] {
            if crate::expr::reads(text, variable) {
                let message = format!("there is no `{variable}` in a login request: only `credential.<name>` is known");
                self.report(path, message);
            }
        }
    }
}
