//! The database: every secret is encrypted and can be decrypted, and none is in plaintext anywhere else.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use patra_core::CredentialId;
use patra_core::credential::{self, AccessToken, Binding};
use patra_core::mask::SecretKind;
use patra_core::port::scan::{Scan, ScanPage};
use patra_core::seal;
use patra_core::secret::Secret;
use patra_core::tx::TxError;
use patra_core::vault::Vault;

use super::needles::Needles;
use super::patterns;
use super::report::{Level, Report};
use crate::vault::SALT;

const CREDENTIALS: &str = "reg_prov_credential";
const STATES: &str = "ing_credential_state";
const CANDIDATES: &str = "crawl_candidate";
const REMOVE: &str = "find out who wrote it, remove it, and replace the secret: `patra credential rotate`";

/// Columns with collected data: text about a cookie is no cookie of ours.
const COLLECTED: &[(&str, &str)] = &[("item", "payload"), ("item", "fields"), ("ing_raw", "body")];
/// Columns with samples of collected data, kept to analyse errors; findings there are of medium level.
const SAMPLES: &[(&str, &str)] =
    &[("item_quarantine", "sample"), ("item_quarantine", "reason"), ("ing_raw", "headers")];

/// The salt that this installation derives keys with.
pub(super) async fn salt(scan: &dyn Scan) -> Result<Option<String>, TxError> {
    let mut salt = None;
    each(scan, "config", |page, row| {
        if page.cell(row, "config_key") == Some(SALT) {
            salt = page.cell(row, "config_value").map(str::to_owned);
        }
    })
    .await?;
    Ok(salt)
}

/// Decrypts everything that is encrypted, and collects the secrets to search for.
pub(super) async fn sealed(
    scan: &dyn Scan,
    vault: Option<&Vault>,
    report: &mut Report,
    needles: &mut Needles,
) -> Result<(), TxError> {
    let mut opening = Opening { vault, report, without_key: BTreeMap::new() };
    let mut aliases = BTreeMap::new();
    each(scan, CREDENTIALS, |page, row| {
        let cell = |column| page.cell(row, column).unwrap_or_default().to_owned();
        let binding = Binding {
            alias: cell("alias"),
            provenance_code: cell("provenance_code"),
            endpoint_name: cell("endpoint_name"),
        };
        let is_cookie = cell("type_code") == "COOKIE";
        opening.report.count(if is_cookie { "cookies" } else { "credentials" }, 1);
        aliases.insert(cell("id"), binding.alias.clone());
        let text = cell("sealed");
        // The secret of a revoked credential is erased.
        if text.is_empty() && cell("status_code") == "REVOKED" {
            return;
        }
        let record = binding.record(cell("version").parse().unwrap_or(0));
        let Some(opened) = opening.open(CREDENTIALS, page, row, "sealed", &text, &record) else { return };
        if let Some(secrets) = credential::from_text(&opened) {
            needles.credential(&binding.alias, &secrets);
        }
    })
    .await?;
    each(scan, STATES, |page, row| {
        let Some(text) = page.cell(row, "sealed").filter(|text| !text.is_empty()) else { return };
        opening.report.count("tokens", 1);
        let id = page.cell(row, "credential_id").unwrap_or_default();
        let record = credential::token_record(CredentialId(id.parse().unwrap_or(0)));
        let Some(opened) = opening.open(STATES, page, row, "sealed", text, &record) else { return };
        let owner = aliases.get(id).map_or("a deleted credential", String::as_str);
        if let Some(token) = AccessToken::from_text(&opened) {
            needles.secret(owner, &token.access);
            token.refresh.iter().for_each(|refresh| needles.secret(owner, refresh));
        }
    })
    .await?;
    let with_secrets = with_secret_params(scan).await?;
    let mut clear: BTreeMap<String, u64> = BTreeMap::new();
    each(scan, CANDIDATES, |page, row| {
        let cell = |column| page.cell(row, column).unwrap_or_default();
        let text = cell("tokens");
        if text.starts_with('{') {
            if text != "{}" && with_secrets.contains(cell("platform")) {
                *clear.entry(cell("platform").to_owned()).or_default() += 1;
            }
            return;
        }
        opening.report.count("tokens", 1);
        let record = serde_json::json!(["candidate", cell("platform"), cell("note_id")]).to_string();
        opening.open(CANDIDATES, page, row, "tokens", text, &record);
    })
    .await?;
    opening.report();
    for (platform, count) in clear {
        let message = format!("{count} candidates have tokens in plaintext that the manifest declares secret");
        let hint = "they were stored before the manifest declared it: search again, or delete them";
        report.add(Level::High, "tokens_in_clear", format!("{CANDIDATES}.tokens platform={platform}"), message, hint);
    }
    Ok(())
}

/// Platforms whose manifests declare a parameter secret.
async fn with_secret_params(scan: &dyn Scan) -> Result<BTreeSet<String>, TxError> {
    let mut found = BTreeSet::new();
    each(scan, "reg_prov_api_param_map", |page, row| {
        let config: Value =
            page.cell(row, "config").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if declares_secret(&config) {
            found.insert(page.cell(row, "provenance_code").unwrap_or_default().to_owned());
        }
    })
    .await?;
    Ok(found)
}

fn declares_secret(value: &Value) -> bool {
    match value {
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| (name == "secret" && *value == Value::Bool(true)) || declares_secret(value)),
        Value::Array(values) => values.iter().any(declares_secret),
        _ => false,
    }
}

struct Opening<'a> {
    vault: Option<&'a Vault>,
    report: &'a mut Report,
    /// Rows that cannot be decrypted, by the id of the missing key.
    without_key: BTreeMap<String, u64>,
}

impl Opening<'_> {
    fn open(
        &mut self,
        table: &str,
        page: &ScanPage,
        row: &[Option<String>],
        column: &str,
        text: &str,
        record: &str,
    ) -> Option<Secret> {
        let place = || format!("{table}.{column} {}", page.name(row));
        let Some(key_id) = key_of(text) else {
            let message = "a secret is in plaintext instead of encrypted";
            self.report.add(Level::Critical, "sealed", place(), message, REMOVE);
            return None;
        };
        if page.cell(row, "key_id").is_some_and(|column| column != key_id) {
            let message = "key_id names another key than the encrypted text";
            self.report.add(Level::Medium, "sealed", place(), message, "`patra credential rotate` writes both again");
        }
        let opened = match self.vault {
            Some(vault) => vault.open_text(record, text),
            None => Err(seal::Error::UnknownKey(key_id.to_owned())),
        };
        match opened {
            Ok(secret) => return Some(secret),
            Err(seal::Error::UnknownKey(key_id)) => *self.without_key.entry(key_id).or_default() += 1,
            Err(error) => {
                let hint = "somebody has changed the row: add the credential again";
                self.report.add(Level::Critical, "sealed", place(), error.to_string(), hint);
            }
        }
        None
    }

    fn report(self) {
        for (key_id, count) in self.without_key {
            let message = format!(
                "{count} encrypted texts need the master key {key_id}, which is not given: they were not checked"
            );
            let hint = "give it with PATRA_MASTER_KEY, --master-key-file, COOKIE_MASTER_KEY or COOKIE_KEY_{KEY_ID}";
            self.report.add(Level::High, "master_key", "settings", message, hint);
        }
    }
}

/// The id of the key, if the text looks encrypted: `v1.<key>.<nonce>.<ciphertext>`.
fn key_of(text: &str) -> Option<&str> {
    let parts: Vec<_> = text.split('.').collect();
    let ["v1", key, nonce, sealed] = parts[..] else { return None };
    let is_base64 = |part: &str| part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let is_key = key.len() == 8 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    // The shortest ciphertext is a tag of 16 bytes.
    (is_key && nonce.len() == 16 && sealed.len() >= 22 && is_base64(nonce) && is_base64(sealed)).then_some(key)
}

/// Searches every text of every table.
pub(super) async fn everything(scan: &dyn Scan, needles: &Needles, report: &mut Report) -> Result<(), TxError> {
    if needles.left_out() > 0 {
        let message = format!("{} forms of secrets were not searched for: there are too many", needles.left_out());
        report.add(Level::Medium, "database", "database", message, "revoke credentials that nobody uses");
    }
    for table in scan.tables().await? {
        let mut rows = 0;
        each(scan, &table, |page, row| {
            rows += 1;
            for (column, text) in page.columns.iter().zip(row) {
                if let Some(text) = text {
                    search(&table, column, text, needles, report, || format!("{table}.{column} {}", page.name(row)));
                }
            }
        })
        .await?;
        report.count("rows", rows);
    }
    Ok(())
}

fn search(table: &str, column: &str, text: &str, needles: &Needles, report: &mut Report, place: impl Fn() -> String) {
    if let Some(owner) = needles.find(text.as_bytes()) {
        let message = format!("a secret of `{owner}` is here in plaintext");
        report.add(Level::Critical, "secret_in_clear", place(), message, REMOVE);
        return;
    }
    if (table, column) == ("api_key", "hash")
        && !(text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
    {
        let hint = "revoke the key with `patra key revoke` and create another";
        report.add(Level::Critical, "api_key", place(), "an API key is not stored as its hash", hint);
    }
    if COLLECTED.contains(&(table, column)) {
        return;
    }
    if let Some(span) = patterns::certain(text).next() {
        let is_common = span.kind == SecretKind::CookieHeader && !patterns::is_session(&text[span.range.clone()]);
        let level = if is_common || SAMPLES.contains(&(table, column)) { Level::Medium } else { Level::Critical };
        let message = format!("{} seems to be here in plaintext", patterns::word(&span));
        report.add(level, "secret_pattern", place(), message, REMOVE);
    }
}

/// Visits every row of a table, page by page. A table that an older schema lacks counts as empty.
async fn each(scan: &dyn Scan, table: &str, mut see: impl FnMut(&ScanPage, &[Option<String>])) -> Result<(), TxError> {
    if !scan.tables().await?.iter().any(|known| known == table) {
        return Ok(());
    }
    let mut after = None;
    loop {
        let page = scan.page(table, after).await?;
        page.rows.iter().for_each(|row| see(&page, row));
        if page.next.is_none() {
            return Ok(());
        }
        after = page.next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encrypted_text_is_recognised_by_its_form() {
        assert_eq!(key_of("v1.cbffb4a0.AQEBAQEBAQEBAQEB.PsJVaclZZ-2ceEC7IhrK5P5voTjg3Q"), Some("cbffb4a0"));
        for text in
            ["", "v1.a.b.c", "web_session=0300379", "v2.cbffb4a0.AQEBAQEBAQEBAQEB.PsJVaclZZ-2ceEC7IhrK5P5voTjg3Q"]
        {
            assert_eq!(key_of(text), None, "{text}");
        }
    }
}
