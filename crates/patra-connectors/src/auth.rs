//! Who asks: puts an opened credential into a request that was rendered without it, asks for tokens, and takes secrets out
//! of answers. Pure. What the ledger keeps of a request was made before this runs; what leaves here goes to the transport
//! and nowhere else.

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

/// What the values of a credential are called. Others are for templates.
pub mod name {
    pub const API_KEY: &str = "apiKey";
    pub const TOKEN: &str = "token";
    pub const USERNAME: &str = "username";
    pub const PASSWORD: &str = "password";
    pub const CLIENT_ID: &str = "clientId";
    pub const CLIENT_SECRET: &str = "clientSecret";
    pub const REFRESH_TOKEN: &str = "refreshToken";
    pub const COOKIE: &str = "cookie";
    /// Of the token that was got with an oauth2 or session credential.
    pub const ACCESS_TOKEN: &str = "accessToken";

    /// Names that are no secrets: they may stand in an answer.
    pub const PUBLIC: &[&str] = &[USERNAME, "user", CLIENT_ID];
}

/// The values that a credential must have, and the one that a single value is taken for.
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

/// An opened credential. It lives as long as one exchange.
#[derive(Clone, Copy, Debug)]
pub struct OpenedCredential<'a> {
    pub alias: &'a str,
    pub secrets: &'a Secrets,
    /// For oauth2 and session.
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

/// How the requests of one endpoint say who asks.
#[derive(Debug)]
pub struct Authoriser {
    auth: snapshot::AuthSpec,
    provenance_code: String,
    endpoint_name: String,
    /// Query parameters whose template holds a credential.
    secret_params: Vec<(String, String)>,
    /// The request that logs in.
    login: Option<Box<RequestRenderer>>,
    /// What the manifest says of statuses: some of them may be about the credential.
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

    /// Whether the answer says that the credential was not accepted: by its status, or by what the manifest reads in it.
    pub fn is_rejection(&self, response: &HttpResponse) -> bool {
        let unread = RefusedResponse::from(Fault::new(Code::PlatformError, Level::L2, String::new()));
        self.auth.is_rejection(response.status)
            || self.statuses.refine(unread, response).fault.code == Code::UpstreamAuthFailed
    }

    /// The source and its endpoint, which credentials are bound to.
    pub fn place(&self) -> (&str, &str) {
        (&self.provenance_code, &self.endpoint_name)
    }

    /// How long before its end a token is replaced.
    pub fn refresh_ahead(&self) -> Duration {
        match (&self.auth.oauth2, &self.auth.session) {
            (Some(oauth2), _) => oauth2.refresh_ahead.0,
            (_, Some(session)) => (session.expires_in.0 / 10).min(Duration::from_secs(60)),
            _ => Duration::ZERO,
        }
    }

    /// The kind of credential to look for; none where nobody asks who we are.
    pub fn kind(&self) -> Option<AuthType> {
        self.auth.r#type.as_str().parse().ok()
    }

    /// Whether requests carry a token that runs out, instead of the credential itself.
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

    /// The request without any credential: whatever would hold one is left out.
    pub fn anonymous(&self, request: &HttpRequest) -> HttpRequest {
        let mut request = request.clone();
        marks::strike(&mut request);
        request
    }

    /// A next URL comes back with its secrets redacted: the parameters that had one get their mark again.
    fn restore(&self, request: &mut HttpRequest) {
        for (name, marked) in &self.secret_params {
            marks::restore(request, name, marked);
        }
    }
}

/// Adds what a hook has signed. It may add and replace, and nothing else.
pub fn sign(request: &mut HttpRequest, signature: &Signature) -> Result<(), Fault> {
    for (name, value) in &signature.headers {
        place::header(request, name, value)?;
    }
    for (name, value) in &signature.query {
        place::query(request, name, value);
    }
    Ok(())
}
