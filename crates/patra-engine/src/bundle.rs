//! The diagnostic bundle (ING-14.9, G-14): everything known about one batch in one signed file, with who exported it,
//! when and why. A changed or expired bundle is refused. A bundle with the response in it replays without a store.

mod package;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use patra_core::hash;
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::tx::{RecordExport, TxError};
use patra_core::vault::Vault;
use patra_core::{RunId, Ts, seal};

use crate::replay::{self, ParsedRecording, Recording};

pub use package::OpenedBundle;

/// How long a bundle is valid (ING-14.11-04).
pub const VALID: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Longest reason, and longest name of the exporter, in bytes.
pub const MAX_REASON: usize = 1_000;
pub const MAX_NAME: usize = 128;
/// Largest bundle that is read, in bytes: the largest stored response, as text, and the rest.
pub const MAX_PACKAGE: usize = 16 << 20;

/// Format name of a bundle; the number rises when the format changes.
const FORMAT: &str = "patra-blackbox/1";
const SIGNATURE: &str = "signature";

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Replay(#[from] replay::Error),
    #[error("the bundle cannot be signed or checked: {0}")]
    Seal(#[from] seal::Error),
    #[error("this is no diagnostic bundle of this program: {0}")]
    Foreign(String),
    #[error("the bundle was changed after it was exported: its signature does not match")]
    Changed,
    #[error("the bundle has expired: it was valid until {}", .0.to_short_text())]
    Expired(Ts),
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Error {
        Error::Replay(error.into())
    }
}

/// Parameters of an export.
#[derive(Clone, Copy, Debug)]
pub struct BundleRequest<'a> {
    pub run: RunId,
    pub batch_no: u32,
    pub by: &'a str,
    pub reason: &'a str,
    /// Includes the response, where it is kept.
    pub with_raw: bool,
}

/// Exports a bundle. The export is recorded before the bundle is returned.
pub async fn export(
    store: &dyn Store,
    vault: &Vault,
    clock: &Arc<dyn Clock>,
    request: BundleRequest<'_>,
) -> Result<Value, Error> {
    check(&request)?;
    let recording = Recording::load(store, request.run, request.batch_no).await?;
    let case = ParsedRecording::read(&recording)?;
    let decisions = match (&recording.raw, case.was_answered()) {
        (Some(_), true) => replay::from_archive(&recording, Some(store)).await?.decisions,
        _ => None,
    };
    let now = clock.now();
    let expires_at = now + VALID;
    let package = package::make(&recording, &case, &request, decisions.as_ref(), (now, expires_at))?;
    let mut package = settled(package);
    let text = hash::canonical(&package);
    let export = RecordExport {
        run: request.run.0,
        batch_no: request.batch_no,
        by: request.by.to_owned(),
        reason: request.reason.to_owned(),
        package_hash: hash::digest(&[&text]),
        expires_at,
    };
    package[SIGNATURE] = vault.sign(text.as_bytes())?.into();
    let recorded = store.run(export).await?;
    tracing::info!(
        export.id = recorded.export,
        run.id = request.run.0,
        batch.no = request.batch_no,
        by = request.by,
        raw = request.with_raw,
        "audit: a diagnostic bundle was exported"
    );
    Ok(package)
}

/// Opens a bundle that is unchanged and not expired.
pub fn open(vault: &Vault, text: &str, now: Ts) -> Result<OpenedBundle, Error> {
    if text.len() > MAX_PACKAGE {
        return Err(Error::Foreign(format!("it is larger than {MAX_PACKAGE} bytes")));
    }
    let mut package: Value =
        serde_json::from_str(text).map_err(|error| Error::Foreign(format!("it is no JSON: {error}")))?;
    let found = package["format"].as_str().unwrap_or("nothing");
    if found != FORMAT {
        return Err(Error::Foreign(format!("its format is {found:?}, not {FORMAT:?}")));
    }
    let signature = package.as_object_mut().and_then(|map| map.remove(SIGNATURE));
    let signature = signature.as_ref().and_then(Value::as_str).unwrap_or_default();
    vault.verify(hash::canonical(&package).as_bytes(), signature).map_err(|error| match error {
        seal::Error::Forged | seal::Error::Damaged => Error::Changed,
        error => Error::Seal(error),
    })?;
    let package = OpenedBundle::read(package)?;
    if now >= package.expires_at {
        return Err(Error::Expired(package.expires_at));
    }
    Ok(package)
}

fn check(request: &BundleRequest<'_>) -> Result<(), Error> {
    let fits = |text: &str, most| !text.trim().is_empty() && text.len() <= most && !text.contains('\0');
    if !fits(request.reason, MAX_REASON) {
        return Err(Error::Invalid(format!("say why, in 1 to {MAX_REASON} bytes: it is kept with the export")));
    }
    if !fits(request.by, MAX_NAME) {
        return Err(Error::Invalid(format!("say who exports, in 1 to {MAX_NAME} bytes")));
    }
    Ok(())
}

/// The value in the form in which it is read back: numbers change until reading their text gives the same number.
fn settled(mut package: Value) -> Value {
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        let text = hash::canonical(&package);
        let Ok(again) = serde_json::from_str::<Value>(&text) else { break };
        let same = hash::canonical(&again) == text;
        package = again;
        if same {
            break;
        }
    }
    package
}

#[cfg(test)]
mod tests;
