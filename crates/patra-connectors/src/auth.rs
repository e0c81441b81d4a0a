//! Authentication: puts an opened credential into a rendered request, requests tokens, and redacts secrets from
//! responses. Pure. The ledger's digest of a request is made before this runs; the request with secrets goes to the
//! transport only.

mod marks;
mod place;
mod redact;
mod token;

use std::time::Duration;

use patra_core::credential::AccessToken;
use patra_core::port::signer::Signature;
use patra_core::port::transport::{HttpRequest, HttpResponse};
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_core::{Code, Fault, Level};
use patra_spec::{Snapshot, snapshot};

use crate::classify::RefusedResponse;
use crate::decode::StatusRules;
use crate::request::RequestRenderer;

pub use marks::shown_url;
pub use redact::{MIN_SECRET, Redactor};
pub use token::{FreshToken, TOKEN_TIMEOUT};

/// Names of the values of a credential. Other names are for templates.
pub mod name {
    pub const API_KEY: &str = "apiKey";
    pub const TOKEN: &str = "token";
    pub const USERNAME: &str = "username";
    pub const PASSWORD: &str = "password";
    pub const CLIENT_ID: &str = "clientId";
    pub const CLIENT_SECRET: &str = "clientSecret";
    pub const REFRESH_TOKEN: &str = "refreshToken";
    pub const COOKIE: &str = "cookie";
    /// The token of an oauth2 or session credential.
    pub const ACCESS_TOKEN: &str = "accessToken";

    /// Names of values that are not secret and may appear in a response.
    pub const PUBLIC: &[&str] = &[USERNAME, "user", CLIENT_ID];
}

/// The values that a credential must have, and the one that a single value stands for.
pub fn needed(kind: AuthType) -> (&'static [&'static str], Option<&'static str>) {
    match kind {
        AuthType::ApiKey => (&[name::API_KEY], Some(name::API_KEY)),
        AuthType::Bearer => (&[name::TOKEN], Some(name::TOKEN)),
        AuthType::Basic => (&[name::USERNAME, name::PASSWORD], None),
        AuthType::OAuth2 => (&[name::CLIENT_ID], None),
        AuthType::Cookie => (&[name::COOKIE], Some(name::COOKIE)),
        AuthType::Session | AuthType::Custom => (&[], None),
    }
}

/// An opened credential. It lives for one exchange.
#[derive(Clone, Copy, Debug)]
pub struct OpenedCredential<'a> {
    pub alias: &'a str,
    pub secrets: &'a Secrets,
    /// The token, for oauth2 and session.
    pub token: Option<&'a AccessToken>,
}

impl OpenedCredential<'_> {
    fn value(&self, wanted: &str) -> Result<&Secret, Fault> {
        let token = self.token.filter(|_| wanted == name::ACCESS_TOKEN).map(|token| &token.access);
        token.or_else(|| self.secrets.get(wanted)).ok_or_else(|| {
            let message = format!(
                "the credential `{0}` has no value `{wanted}`; `patra credential rotate {0}` takes a complete one",
                self.alias
            );
            Fault::new(Code::NotConfigured, Level::L4, message)
        })
    }
}

/// Authenticates the requests of one endpoint.
#[derive(Debug)]
pub struct Authoriser {
    auth: snapshot::AuthSpec,
    provenance_code: String,
    endpoint_name: String,
    /// Query parameters whose template contains a credential.
    secret_params: Vec<(String, String)>,
    /// The login request.
    login: Option<Box<RequestRenderer>>,
    /// Meanings of statuses by the manifest: some may be about the credential.
    statuses: StatusRules,
}

impl Authoriser {
    pub(crate) fn new(spec: &Snapshot) -> Result<Authoriser, Fault> {
        let auth = spec.auth.clone();
        let login = auth.session.as_ref().map(|session| token::login(spec, session)).transpose()?.map(Box::new);
        Ok(Authoriser {
            secret_params: marks::secret_params(spec)?,
            provenance_code: spec.provenance_code.clone(),
            endpoint_name: spec.endpoint_code.clone(),
            statuses: StatusRules::new(spec)?,
            login,
            auth,
        })
    }

    pub fn auth(&self) -> &snapshot::AuthSpec {
        &self.auth
    }

    /// Whether the response rejects the credential: by its status, or by a rule of the manifest.
    pub fn is_rejection(&self, response: &HttpResponse) -> bool {
        let unread = RefusedResponse::from(Fault::new(Code::PlatformError, Level::L2, String::new()));
        self.auth.is_rejection(response.status)
            || self.statuses.refine(unread, response).fault.code == Code::UpstreamAuthFailed
    }

    /// The source and its endpoint, which credentials are bound to.
    pub fn place(&self) -> (&str, &str) {
        (&self.provenance_code, &self.endpoint_name)
    }

    /// How long before its expiry a token is replaced.
    pub fn refresh_ahead(&self) -> Duration {
        match (&self.auth.oauth2, &self.auth.session) {
            (Some(oauth2), _) => oauth2.refresh_ahead.0,
            (_, Some(session)) => (session.expires_in.0 / 10).min(Duration::from_secs(60)),
            _ => Duration::ZERO,
        }
    }

    /// The type of credential to look for; none without authentication.
    pub fn kind(&self) -> Option<AuthType> {
        self.auth.r#type.as_str().parse().ok()
    }

    /// Whether requests carry a token that expires, instead of the credential itself.
    pub fn needs_token(&self) -> bool {
        matches!(self.kind(), Some(AuthType::OAuth2 | AuthType::Session))
    }

    /// The request with the credential in it.
    pub fn authorise(&self, request: &HttpRequest, opened: &OpenedCredential<'_>) -> Result<HttpRequest, Fault> {
        let mut request = request.clone();
        self.restore(&mut request);
        marks::fill(&mut request, opened)?;
        if let (Some(kind), false) = (self.kind(), self.auth.name.is_empty()) {
            place::place(&mut request, &self.auth, kind, opened)?;
        }
        Ok(request)
    }

    /// The request without any credential: parts that would hold one are left out.
    pub fn anonymous(&self, request: &HttpRequest) -> HttpRequest {
        let mut request = request.clone();
        marks::strike(&mut request);
        request
    }

    /// Restores the marks in a next URL, whose secrets were redacted.
    fn restore(&self, request: &mut HttpRequest) {
        for (name, marked) in &self.secret_params {
            marks::restore(request, name, marked);
        }
    }
}

/// Adds the signature of a hook. A hook may add and replace parts, and nothing else.
pub fn sign(request: &mut HttpRequest, signature: &Signature) -> Result<(), Fault> {
    for (name, value) in &signature.headers {
        place::header(request, name, value)?;
    }
    for (name, value) in &signature.query {
        place::query(request, name, value);
    }
    Ok(())
}
