//! Cookies: those that a login sets, those of a credential, and those that must not appear
//! in a log or a stored response. The input is taken as lines.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use patra_connectors::Pager;
use patra_connectors::auth::{MIN_SECRET, OpenedCredential, Redactor, name};
use patra_core::mask::mask;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::Entropy;
use patra_core::port::transport::{HttpRequest, HttpResponse};
use patra_core::seal::{Error, Keyring, MAX_SECRET, MasterKey, fernet};
use patra_core::secret::{Secret, Secrets};
use patra_core::vault::Vault;

use crate::endpoint::{self, NOW};
use crate::repeated;

/// A secret that no input holds by chance.
const CANARY: &str = "c4n4ryc4n4ry";
const FERNET_KEY: &str = "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4=";
const RESPONSE: &str = "response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }";

static LOGIN: LazyLock<Pager> = LazyLock::new(|| {
    endpoint::pager(&format!(
        "auth: {{ type: session, session: {{ url: /login, body: {{ json: {{ user: \"${{ credential.username }}\" }} }}, cookie: sid, expires_in: PT5M }} }}\n{RESPONSE}"
    ))
});
static COOKIE: LazyLock<Pager> = LazyLock::new(|| endpoint::pager(&format!("auth: {{ type: cookie }}\n{RESPONSE}")));
static VAULT: LazyLock<Vault> = LazyLock::new(|| Vault::new(Keyring::new(MasterKey::new([7; 32])), Arc::new(Fixed)));

#[derive(Debug)]
struct Fixed;

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        bytes.fill(9);
        Ok(())
    }
}

pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    check_login(&text);
    check_credential(&text);
    check_log(&text);
    check_response(&text);
    check_vault(&text);
}

/// The cookie that a login sets comes from a line of the input, and is sent unchanged.
fn check_login(text: &str) {
    let headers = text.lines().map(|line| ("Set-Cookie".to_owned(), line.to_owned())).collect();
    let response = HttpResponse { status: 200, headers, body: Bytes::new(), redirected: None };
    let (authoriser, request) = request(&LOGIN);
    let Ok(fresh) = authoriser.read_token(Ok(response), None, NOW) else { return };
    let cookie = fresh.token.access.expose().to_owned();
    let value = cookie.strip_prefix("sid=").unwrap_or_else(|| panic!("another cookie: {cookie:?}"));
    assert!(!value.is_empty() && value.trim() == value && !value.contains(';'), "{cookie:?}");
    assert!(text.lines().any(|line| line.contains(value)), "{cookie:?} was not set");
    let secrets = Secrets::new();
    let opened = OpenedCredential { alias: "a", secrets: &secrets, token: Some(&fresh.token) };
    if let Ok(sent) = authoriser.authorise(&request, &opened) {
        check_header(&sent, &cookie);
    }
}

/// A credential's cookie is sent as it is, or refused because a header cannot hold it.
fn check_credential(text: &str) {
    let (authoriser, request) = request(&COOKIE);
    let secrets = Secrets::from([(name::COOKIE.to_owned(), Secret::new(text))]);
    let opened = OpenedCredential { alias: "a", secrets: &secrets, token: None };
    let control = text.contains(|c: char| c.is_ascii_control() && c != '\t');
    match authoriser.authorise(&request, &opened) {
        Ok(sent) => {
            assert!(!control, "a control character was sent");
            check_header(&sent, text);
        }
        Err(fault) => {
            assert!(control, "{fault}");
            endpoint::check_fault(&fault);
        }
    }
}

fn request(pager: &'static Pager) -> (&'static patra_connectors::auth::Authoriser, HttpRequest) {
    let exchange = pager.request(&endpoint::page_request(&Position::Time, &Params::new()));
    let exchange = exchange.unwrap_or_else(|failure| panic!("{}", failure.fault));
    (pager.first_authoriser(), exchange.request)
}

fn check_header(sent: &HttpRequest, cookie: &str) {
    let mut cookies = sent.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let (first, second) = (cookies.next(), cookies.next());
    assert_eq!((first.map(|(_, value)| value.as_str()), second), (Some(cookie), None));
    assert!(!cookie.contains(['\r', '\n', '\0']), "{cookie:?}");
}

/// Masking twice is masking once, and no text before a cookie keeps it from being masked.
fn check_log(text: &str) {
    let masked = mask(text).into_owned();
    assert_eq!(mask(&masked), masked, "masked twice");
    let before = text.replace(CANARY, "");
    for line in [format!("{before}\nweb_session={CANARY}; a=b"), format!("{before}\nCookie: x=1; y={CANARY}\n")] {
        let masked = mask(&line);
        assert!(!masked.contains(CANARY), "{masked:?}");
    }
}

/// A response with the rest of the input does not contain the first line, which is the secret.
fn check_response(text: &str) {
    let (secret, rest) = text.split_once('\n').unwrap_or((text, ""));
    // The replacement of a secret must not be a part of it.
    if secret.len() < MIN_SECRET || secret.contains('*') {
        return;
    }
    let secrets = Secrets::from([(name::COOKIE.to_owned(), Secret::new(secret))]);
    let redactor = Redactor::new(&secrets, None);
    for text in [
        rest.to_owned(),
        format!("{rest}{secret}{rest}"),
        serde_json::Value::from(format!("{secret}{rest}")).to_string(),
    ] {
        let clean = redactor.text(&text);
        assert!(!clean.contains(secret), "{secret:?} is left in {clean:?}");
    }
}

/// Decrypting an encrypted value returns it unchanged; anything else fails to decrypt.
fn check_vault(text: &str) {
    assert!(VAULT.open_text("row", text).is_err() && fernet::open(&Secret::new(FERNET_KEY), text).is_err());
    match VAULT.seal_text("row", &Secret::new(text)) {
        Ok(sealed) => {
            let opened = VAULT.open_text("row", &sealed);
            assert_eq!(opened.as_ref().map(Secret::expose), Ok(text));
            assert_eq!(VAULT.open_text("other", &sealed), Err(Error::Forged));
        }
        Err(error) => assert!(error == Error::TooLong && text.len() > MAX_SECRET, "{error}"),
    }
}

pub fn hostile() -> Vec<Vec<u8>> {
    vec![
        repeated("", "sid=a; ", 5_000, ""),
        repeated("", "sid=\n", 5_000, "sid=x"),
        repeated("", "Cookie: ", 5_000, ""),
        repeated("", "token=\\\"", 5_000, ""),
        repeated("", "\x1b[0m", 5_000, "a1=x"),
        repeated("", "Bearer ", 5_000, ""),
        repeated("aaaaaaaa\n", "a", 20_000, ""),
        repeated("", "x", MAX_SECRET + 1, ""),
    ]
}
