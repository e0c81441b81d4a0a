//! Opening of bundles: refusals and expiry.

use patra_core::port::Entropy;
use patra_core::seal::{Keyring, MasterKey};
use serde_json::json;

use super::*;

#[derive(Debug)]
struct NoEntropy;

impl Entropy for NoEntropy {
    fn fill(&self, _: &mut [u8]) -> Result<(), String> {
        Err("signing needs none".to_owned())
    }
}

fn vault(byte: u8) -> Vault {
    Vault::new(Keyring::new(MasterKey::new([byte; 32])), Arc::new(NoEntropy))
}

const EXPIRES: Ts = Ts::from_secs(1_000);

fn signed(package: Value) -> String {
    let mut package = settled(package);
    let signature = vault(7).sign(hash::canonical(&package).as_bytes()).unwrap();
    package[SIGNATURE] = signature.into();
    package.to_string()
}

fn package() -> Value {
    json!({
        "format": FORMAT,
        "export": { "by": "ann", "reason": "why", "createdAt": Ts::from_secs(1), "expiresAt": EXPIRES },
        "ledger": {},
        "snapshot": { "body": "{}" },
    })
}

fn refused(text: &str, now: i64) -> Error {
    open(&vault(7), text, Ts::from_secs(now)).unwrap_err()
}

// covers: G-14, ING-14.11-04
#[test]
fn a_package_is_good_until_its_time_is_over_and_no_longer() {
    let text = signed(package());
    let opened = open(&vault(7), &text, Ts::from_secs(999)).unwrap();
    assert_eq!((opened.by.as_str(), opened.reason.as_str(), opened.expires_at), ("ann", "why", EXPIRES));
    assert_eq!(refused(&text, 1_000), Error::Expired(EXPIRES));
    assert!(refused(&text, 1_000).to_string().contains("has expired"));
    assert_eq!(VALID, Duration::from_secs(7 * 86_400));
}

// covers: G-14
#[test]
fn a_package_that_was_changed_is_refused_before_anything_else_is_believed() {
    let text = signed(package());
    assert_eq!(refused(&text.replace("ann", "bob"), 1), Error::Changed);
    // A later expiry would be accepted if the signature were checked last.
    assert_eq!(refused(&text.replace(":16:40", ":26:40"), 5_000), Error::Changed);
    assert_eq!(refused(&package().to_string(), 1), Error::Changed, "without a signature");
    let other = open(&vault(8), &text, Ts::from_secs(1)).unwrap_err();
    assert!(matches!(other, Error::Seal(seal::Error::UnknownKey(_))), "{other}");
    let pretty = serde_json::to_string_pretty(&serde_json::from_str::<Value>(&text).unwrap()).unwrap();
    assert!(open(&vault(7), &pretty, Ts::from_secs(1)).is_ok(), "other spaces are no change");
}

#[test]
fn open_foreign_text_reports_it() {
    for text in ["", "[]", "{}", "null", r#"{"format":"patra-blackbox/9"}"#] {
        assert!(matches!(refused(text, 1), Error::Foreign(_)), "{text}");
    }
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_PACKAGE));
    assert!(refused(&large, 1).to_string().contains("larger than"));
}

#[test]
fn odd_numbers_do_not_break_a_signature() {
    let mut odd = package();
    odd["numbers"] = json!([0.1 + 0.2, 1e23, 5e-324, 1.797_693_134_862_315_7e308, -0.0, 2.5, u64::MAX]);
    assert!(open(&vault(7), &signed(odd), Ts::from_secs(1)).is_ok());
}

#[test]
fn export_without_name_or_reason_is_refused() {
    let request = |by, reason| BundleRequest { run: RunId(1), batch_no: 1, by, reason, with_raw: false };
    assert!(check(&request("ann", "ticket 7")).is_ok());
    let long = "x".repeat(MAX_REASON + 1);
    for (by, reason) in [("", "x"), ("ann", " "), ("ann", &long), ("a\0", "x"), ("ann", "\0")] {
        assert!(check(&request(by, reason)).is_err(), "{by:?} {reason:?}");
    }
}
