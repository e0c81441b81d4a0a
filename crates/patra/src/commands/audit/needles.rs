//! The known secrets, to search for in places where they must not be: many at once, in every encoding.

use std::collections::HashMap;

use base64::Engine as _;
use zeroize::Zeroizing;

use patra_connectors::auth::name;
use patra_core::secret::{Secret, Secrets};

/// Shortest secret to search for: shorter ones occur in ordinary text.
pub(super) const MIN_SECRET: usize = 6;
/// Shortest value of a cookie to search for: cookies also hold languages and themes.
const MIN_PIECE: usize = 8;
/// Most secrets to search for at once.
const MAX_SECRETS: usize = 100_000;

const HEAD: usize = MIN_SECRET;

#[derive(Default)]
pub(super) struct Needles {
    forms: Vec<Form>,
    /// Indexes of forms, by their first bytes.
    heads: HashMap<[u8; HEAD], Vec<usize>>,
    longest: usize,
    left_out: u64,
}

struct Form {
    owner: String,
    text: Zeroizing<Vec<u8>>,
    is_key: bool,
}

impl std::fmt::Debug for Needles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Needles").field("forms", &self.forms.len()).finish_non_exhaustive()
    }
}

impl Needles {
    /// Adds a key of this installation, which may be in files of settings.
    pub(super) fn key(&mut self, owner: &str, text: &str) {
        self.add(owner, text, true);
    }

    /// Adds the values of a decrypted credential.
    pub(super) fn credential(&mut self, owner: &str, secrets: &Secrets) {
        for (key, value) in secrets.iter().filter(|(key, _)| !name::PUBLIC.contains(&key.as_str())) {
            self.add(owner, value.expose(), false);
            if key == name::COOKIE {
                let pieces = value.expose().split(';').filter_map(|pair| Some(pair.split_once('=')?.1.trim()));
                pieces.filter(|piece| piece.len() >= MIN_PIECE).for_each(|piece| self.add(owner, piece, false));
            }
        }
        let pair = |user, password| secrets.get(user).zip(secrets.get(password));
        let pairs = [pair(name::USERNAME, name::PASSWORD), pair(name::CLIENT_ID, name::CLIENT_SECRET)];
        for (user, password) in pairs.into_iter().flatten() {
            let text = Zeroizing::new(format!("{}:{}", user.expose(), password.expose()));
            self.push(owner, base64::engine::general_purpose::STANDARD.encode(text.as_bytes()).as_bytes(), false);
        }
    }

    pub(super) fn secret(&mut self, owner: &str, secret: &Secret) {
        self.add(owner, secret.expose(), false);
    }

    fn add(&mut self, owner: &str, text: &str, is_key: bool) {
        let text = text.trim();
        if text.len() < MIN_SECRET {
            return;
        }
        let json = Zeroizing::new(serde_json::Value::from(text).to_string());
        let plus: Zeroizing<String> = Zeroizing::new(url::form_urlencoded::byte_serialize(text.as_bytes()).collect());
        let percent = Zeroizing::new(plus.replace('+', "%20"));
        for form in [text, json.trim_matches('"'), &plus, &percent] {
            self.push(owner, form.as_bytes(), is_key);
        }
    }

    fn push(&mut self, owner: &str, text: &[u8], is_key: bool) {
        let Some(head) = text.first_chunk::<HEAD>() else { return };
        let same = self.heads.entry(*head).or_default();
        if same.iter().any(|at| *self.forms[*at].text == text) {
            return;
        }
        if self.forms.len() >= MAX_SECRETS {
            self.left_out += 1;
            return;
        }
        same.push(self.forms.len());
        self.longest = self.longest.max(text.len());
        self.forms.push(Form { owner: owner.to_owned(), text: Zeroizing::new(text.to_vec()), is_key });
    }

    /// The owner of a secret in the text, if there is one.
    pub(super) fn find(&self, text: &[u8]) -> Option<&str> {
        self.found(text, |_| true)
    }

    /// Like [`Needles::find`], without the keys of this installation.
    pub(super) fn find_credential(&self, text: &[u8]) -> Option<&str> {
        self.found(text, |form| !form.is_key)
    }

    fn found(&self, text: &[u8], counts: impl Fn(&Form) -> bool) -> Option<&str> {
        if self.heads.is_empty() {
            return None;
        }
        text.windows(HEAD).enumerate().find_map(|(at, window)| {
            let forms = self.heads.get(window)?.iter().map(|form| &self.forms[*form]);
            forms
                .into_iter()
                .find(|form| text[at..].starts_with(&form.text) && counts(form))
                .map(|form| form.owner.as_str())
        })
    }

    /// Length of the longest form: pieces of a text must overlap by as much.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_every_form_with_their_owner() {
        let mut needles = Needles::default();
        let secret = |text: &str| Secret::new(text);
        needles
            .credential("acct", &Secrets::from([("cookie".into(), secret("a=1; web_session=0300 \"37\"; lang=zh"))]));
        needles.credential(
            "user",
            &Secrets::from([("username".into(), secret("somebody")), ("password".into(), secret("hunter 22"))]),
        );
        needles.key("MASTER", "0123456789");
        needles.secret("short", &secret("12345"));
        for (text, owner) in [
            ("x 0300 \"37\" y", Some("acct")),
            (r#"{"a":"0300 \"37\""}"#, Some("acct")),
            ("q=0300+%2237%22", Some("acct")),
            ("hunter%2022", Some("user")),
            ("Basic c29tZWJvZHk6aHVudGVyIDIy", Some("user")),
            ("a 0123456789", Some("MASTER")),
            ("somebody said 12345, lang=zh", None),
            ("0300 37", None),
            ("", None),
        ] {
            assert_eq!(needles.find(text.as_bytes()), owner, "{text}");
        }
        assert_eq!(needles.find_credential(b"a 0123456789"), None);
        assert!(!format!("{needles:?}").contains("hunter"));
    }
}
