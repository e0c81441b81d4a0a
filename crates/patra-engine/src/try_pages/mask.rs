//! Requests without secrets: complete, with `***` in place of every secret.

use patra_connectors::auth::{self, Authoriser, OpenedCredential};
use patra_core::credential::AccessToken;
use patra_core::port::transport::HttpRequest;
use patra_core::secret::{MASK, Secret, Secrets};
use patra_core::state::AuthType;

/// The request with `***` in place of credentials. Parts that cannot be filled are left out.
pub fn masked(authoriser: &Authoriser, request: &HttpRequest) -> HttpRequest {
    let Some(kind) = authoriser.kind() else { return authoriser.anonymous(request) };
    let mut names: Vec<String> = auth::needed(kind).0.iter().map(|name| (*name).to_owned()).collect();
    names.extend(named(request));
    let secrets: Secrets = names.into_iter().map(|name| (name, Secret::new(MASK))).collect();
    let token = AccessToken { access: Secret::new(MASK), refresh: None };
    let opened = OpenedCredential { alias: MASK, secrets: &secrets, token: Some(&token) };
    let Ok(mut masked) = authoriser.authorise(request, &opened) else { return authoriser.anonymous(request) };
    if kind == AuthType::Basic {
        // User and password are encoded as one text, so the mask would not be visible.
        let name = &authoriser.auth().name;
        for (_, value) in masked.headers.iter_mut().filter(|(header, _)| header.eq_ignore_ascii_case(name)) {
            *value = format!("Basic {MASK}");
        }
    }
    masked
}

/// The values of the credential that the templates of the request name.
fn named(request: &HttpRequest) -> Vec<String> {
    let body = request.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
    let texts = request.headers.iter().map(|(_, value)| value.as_str()).chain([request.url.as_str(), &body]);
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    texts.flat_map(|text| text.split("credential.").skip(1)).map(name).collect()
}

#[cfg(test)]
mod tests {
    use patra_connectors::{PageRequest, Pager};
    use patra_core::paging::Position;
    use patra_core::params::Params;
    use patra_core::{Ts, Window};

    use super::*;

    fn shown(auth: &str) -> String {
        let yaml = format!(
            r#"
provenance: far
endpoints:
  list:
    http: {{ base_url: "https://x.org", path: /list, method: post, headers: {{ X-Mine: "a ${{ credential.other }}" }} }}
    auth: {{ {auth} }}
    query: {{ q: plain, key: "${{ credential.apiKey }}" }}
    body: {{ json: {{ secret: "${{ credential.other }}", n: 1 }} }}
    window: {{ watermark_key: at, initial: 2024-01-01 }}
    response: {{ items_path: $, id_path: $.id, updated_at_path: $.at }}
"#
        );
        let manifest = patra_spec::read("t.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}"));
        let compiled = patra_spec::compile(&manifest, "list", patra_spec::Operation::Harvest).unwrap();
        let pager = Pager::new(&compiled.snapshot).unwrap();
        let window = Window { from: Ts::from_secs(0), to: Ts::from_secs(1) };
        let (position, params) = (Position::Time, Params::new());
        let ask = PageRequest { position: &position, window, page_size: 0, params: &params, now: Ts::from_secs(1) };
        let exchange = pager.request(&ask).unwrap();
        let HttpRequest { url, headers, body, .. } = masked(pager.authoriser(&exchange), &exchange.request);
        let headers: Vec<_> = headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("{url} {} {}", headers.join(", "), String::from_utf8(body.unwrap().to_vec()).unwrap())
    }

    // covers: ING-4.2-10
    #[test]
    fn every_place_of_a_credential_is_masked() {
        for (auth, place) in [
            ("type: api_key, name: X-Key", "X-Key: ***"),
            ("type: api_key, location: query, name: k", "&k=***"),
            ("type: api_key, location: body, name: k", r#""k":"***""#),
            ("type: bearer", "Authorization: Bearer ***"),
            ("type: basic", "Authorization: Basic ***"),
            ("type: cookie", "Cookie: ***"),
            ("type: oauth2, oauth2: { token_url: \"https://x.org/token\" }", "Authorization: Bearer ***"),
            ("type: session, session: { url: /login, token_path: $.t }", "Authorization: Bearer ***"),
            ("type: custom, signing_hook: h", "X-Mine: a ***"),
        ] {
            let shown = shown(auth);
            for part in [place, "https://x.org/list?key=***&q=plain", "X-Mine: a ***", r#""secret":"***""#] {
                assert!(shown.contains(part), "{auth}: `{part}` is not in {shown}");
            }
            assert!(!shown.contains("credential.") && !shown.contains('\u{1}'), "{auth}: {shown}");
        }
    }
}
