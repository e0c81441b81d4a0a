//! Redacts secrets from responses: some upstreams repeat the key in their links, and responses are stored.

use base64::Engine as _;
use bytes::Bytes;
use memchr::memmem;
use zeroize::Zeroizing;

use patra_core::credential::AccessToken;
use patra_core::port::transport::HttpResponse;
use patra_core::secret::{MASK, Secret, Secrets};

use super::name;
use super::place::{encoded, in_json};

/// Shorter values are not redacted: they are words of ordinary records.
pub const MIN_SECRET: usize = 8;

/// The texts to redact, in every form in which they may come back.
pub struct Redactor {
    forms: Vec<Zeroizing<String>>,
}

impl Redactor {
    pub fn new(secrets: &Secrets, token: Option<&AccessToken>) -> Redactor {
        let secret = secrets.iter().filter(|(key, _)| !name::PUBLIC.contains(&key.as_str())).map(|(_, value)| value);
        let tokens = token.into_iter().flat_map(|token| std::iter::once(&token.access).chain(&token.refresh));
        let mut forms = Vec::new();
        for value in secret.chain(tokens).map(Secret::expose).filter(|text| text.len() >= MIN_SECRET) {
            let plus = encoded(value);
            // Some upstreams write a space as `%20`, and hex digits in lower case.
            let percent = plus.replace('+', "%20");
            let small = lower_escapes(&percent);
            forms.extend([value.to_owned(), in_json(value), plus, percent, small].map(Zeroizing::new));
        }
        let pair = |user: &str, password: &str| secrets.get(user).zip(secrets.get(password));
        for (user, password) in
            [pair(name::USERNAME, name::PASSWORD), pair(name::CLIENT_ID, name::CLIENT_SECRET)].into_iter().flatten()
        {
            let text = Zeroizing::new(format!("{}:{}", user.expose(), password.expose()));
            forms.push(Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(text.as_bytes())));
        }
        // The longest first: a text that contains another must go as a whole.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.as_str().cmp(b.as_str())));
        forms.dedup();
        Redactor { forms }
    }

    /// The response without secrets, in its body and in its headers.
    pub fn response(&self, mut response: HttpResponse) -> HttpResponse {
        if let Some(body) = self.bytes(&response.body) {
            response.body = Bytes::from(body);
        }
        for (_, value) in &mut response.headers {
            if let Some(clean) = self.bytes(value.as_bytes()) {
                *value = String::from_utf8_lossy(&clean).into_owned();
            }
        }
        response
    }

    pub fn text(&self, text: &str) -> String {
        self.bytes(text.as_bytes())
            .map_or_else(|| text.to_owned(), |clean| String::from_utf8_lossy(&clean).into_owned())
    }

    /// `None` when there is nothing to redact.
    fn bytes(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut clean: Option<Vec<u8>> = None;
        for form in &self.forms {
            let text = clean.as_deref().unwrap_or(bytes);
            let finder = memmem::Finder::new(form.as_bytes());
            if finder.find(text).is_none() {
                continue;
            }
            let (mut out, mut from) = (Vec::with_capacity(text.len()), 0);
            for at in finder.find_iter(text) {
                out.extend_from_slice(&text[from..at]);
                out.extend_from_slice(MASK.as_bytes());
                from = at + form.len();
            }
            out.extend_from_slice(&text[from..]);
            clean = Some(out);
        }
        clean
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("forms", &self.forms.len()).finish()
    }
}

fn lower_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut escape = 0;
    for c in text.chars() {
        out.push(if escape > 0 { c.to_ascii_lowercase() } else { c });
        escape = if c == '%' {
            2
        } else if escape > 0 {
            escape - 1
        } else {
            0
        };
    }
    out
}
