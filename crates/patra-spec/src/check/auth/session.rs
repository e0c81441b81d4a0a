//! The request that logs in.

use super::Check;
use super::is_header_name;
use crate::manifest::{Endpoint, Session};
use crate::words::Method;

impl Check<'_> {
    pub(super) fn session(&mut self, endpoint_path: &str, endpoint: &Endpoint, session: &Session) {
        let path = &format!("{endpoint_path}.auth.session");
        match session.url.as_deref() {
            None => {
                let hint = "for example url: /login, or an absolute URL";
                self.report_with(&format!("{path}.url"), "session auth needs `session.url`", hint);
            }
            // On the base URL, which is checked where it stands.
            Some(url) if url.starts_with('/') && !url.starts_with("//") => {
                if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
                    self.report(&format!("{path}.url"), "a path holds no space and no control character");
                }
            }
            Some(url) => self.address(&format!("{path}.url"), url),
        }
        self.token_place(path, session);
        if session.body.is_some() && session.method == Some(Method::Get) {
            let hint = "remove `method`, or `body`";
            self.report_with(&format!("{path}.body"), "a GET request has no body", hint);
        }
        if session.expires_in.is_some_and(|life| life.0.is_zero()) {
            self.report(&format!("{path}.expires_in"), "a session needs a life of more than PT0S");
        }
        self.login_templates(path, session);
        let own = session.cookie.is_some() && endpoint.auth.as_ref().is_some_and(|auth| auth.prefix.is_some());
        if own {
            let message = "`prefix` has no meaning when the session is a cookie";
            self.report_with(&format!("{endpoint_path}.auth.prefix"), message, "remove it");
        }
    }

    fn token_place(&mut self, path: &str, session: &Session) {
        self.selector(&format!("{path}.token_path"), session.token_path.as_deref());
        self.header_name(&format!("{path}.token_header"), session.token_header.as_deref());
        let cookie = session.cookie.as_deref();
        if cookie.is_some_and(|name| !is_header_name(name)) {
            self.report(&format!("{path}.cookie"), "expected the name of a cookie");
        }
        let places = [session.token_path.is_some(), session.token_header.is_some(), cookie.is_some()];
        if places.into_iter().filter(|there| *there).count() != 1 {
            let message =
                "one of `token_path`, `token_header` and `cookie` says where the session stands in the answer";
            self.report_with(&format!("{path}.token_path"), message, "for example token_path: $.token");
        }
    }

    /// Templates, in which only the credential is known: there is no window, page or parameter yet.
    fn login_templates(&mut self, path: &str, session: &Session) {
        for (name, text) in &session.headers {
            let path = format!("{path}.headers.{name}");
            if !is_header_name(name) || text.chars().any(char::is_control) {
                self.report(&path, "expected the name of a header, and a value without control characters");
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
                self.report_with(&format!("{path}.body.form.{name}"), "only a template can stand here", hint);
            }
        }
        let mut found = Vec::new();
        self.body(&format!("{path}.body"), body, &mut found);
        for template in found.into_iter().flatten() {
            self.foreign(&format!("{path}.body"), template.as_str());
        }
    }

    fn login_template(&mut self, path: &str, text: &str) {
        if self.template(path, text).is_some() {
            self.foreign(path, text);
        }
    }

    fn foreign(&mut self, path: &str, text: &str) {
        for variable in ["window", "page", "params", "ids", "id"] {
            if crate::expr::reads(text, variable) {
                let message =
                    format!("there is no `{variable}` when a session is opened: only `credential.<name>` is known");
                self.report(path, message);
            }
        }
    }
}
