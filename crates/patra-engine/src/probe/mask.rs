//! A request as it may be shown: complete, with `***` for everything that is secret in it.

use patra_connectors::auth::{self, Authoriser, Opened};
use patra_core::credential::Token;
use patra_core::port::transport::Request;
use patra_core::secret::{MASK, Secret, Secrets};
use patra_core::state::AuthType;

/// The request with the credential's places filled by `***`. What cannot be filled is left out.
pub fn masked(authoriser: &Authoriser, request: &Request) -> Request {
    let Some(kind) = authoriser.kind() else { return authoriser.anonymous(request) };
    let mut names: Vec<String> = auth::needed(kind).0.iter().map(|name| (*name).to_owned()).collect();
    names.extend(named(request));
    let secrets: Secrets = names.into_iter().map(|name| (name, Secret::new(MASK))).collect();
    let token = Token { access: Secret::new(MASK), refresh: None };
    let opened = Opened { alias: MASK, secrets: &secrets, token: Some(&token) };
    let Ok(mut masked) = authoriser.authorise(request, &opened) else { return authoriser.anonymous(request) };
    if kind == AuthType::Basic {
        // User and password travel as one coded text, in which the mask would not be seen.
        let name = &authoriser.auth().name;
        for (_, value) in masked.headers.iter_mut().filter(|(header, _)| header.eq_ignore_ascii_case(name)) {
            *value = format!("Basic {MASK}");
        }
    }
    masked
}

/// The values of the credential that the templates of the request name.
fn named(request: &Request) -> Vec<String> {
    let body = request.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let texts = request.headers.iter().map(|(_, value)| value.as_str()).chain([request.url.as_str(), &body]);
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    texts.flat_map(|text| text.split("credential.").skip(1)).map(name).collect()
}
