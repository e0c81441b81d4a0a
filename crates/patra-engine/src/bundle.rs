//! The diagnostic bundle (ING-14.9, G-14): all that is known of one batch in one signed file, that says who took it out, when and why,
//! and that is refused when it was changed or has grown old. With the answer in it, it replays where there is no store.

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

/// How long a package is good for (ING-14.11-04).
pub const VALID: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Longest reason, and longest name of who exports, in bytes.
pub const MAX_REASON: usize = 1_000;
pub const MAX_NAME: usize = 128;
/// Largest file that is read, in bytes: the largest answer that is kept, as text, and all the rest.
pub const MAX_PACKAGE: usize = 16 << 20;

/// What a package calls itself; the number rises when its form changes.
const FORMAT: &str = "patra-blackbox/1";
const SIGNATURE: &str = "signature";

#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Replay(#[from] replay::Error),
    #[error("the package cannot be signed or checked: {0}")]
    Seal(#[from] seal::Error),
    #[error("this is no diagnostic bundle of this program: {0}")]
    Foreign(String),
    #[error("the package was changed after it was exported: its signature does not fit")]
    Changed,
    #[error("the package has expired: it was good until {}", .0.to_short_text())]
    Expired(Ts),
}

impl From<TxError> for Error {
    fn from(error: TxError) -> Error {
        Error::Replay(error.into())
    }
}

/// What is to be taken out.
#[derive(Clone, Copy, Debug)]
pub struct BundleRequest<'a> {
    pub run: RunId,
    pub batch_no: u32,
    pub by: &'a str,
    pub reason: &'a str,
    /// The answer too, where it is kept.
    pub with_raw: bool,
}

/// Makes a package. The export is on record before the package is given out.
pub async fn export(
    store: &dyn Store,
    vault: &Vault,
    clock: &Arc<dyn Clock>,
    wish: BundleRequest<'_>,
) -> Result<Value, Error> {
    check(&wish)?;
    let recording = Recording::load(store, wish.run, wish.batch_no).await?;
    let case = ParsedRecording::read(&recording)?;
    let decisions = match (&recording.raw, case.was_answered()) {
        (Some(_), true) => replay::from_archive(&recording, Some(store)).await?.decisions,
        _ => None,
    };
    let now = clock.now();
    let expires_at = now + VALID;
    let package = package::make(&recording, &case, &wish, decisions.as_ref(), (now, expires_at))?;
    let mut package = settled(package);
    let text = hash::canonical(&package);
    let export = RecordExport {
        run: wish.run.0,
        batch_no: wish.batch_no,
        by: wish.by.to_owned(),
        reason: wish.reason.to_owned(),
        package_hash: hash::digest(&[&text]),
        expires_at,
    };
    package[SIGNATURE] = vault.sign(text.as_bytes())?.into();
    let recorded = store.run(export).await?;
    tracing::info!(
        export.id = recorded.export,
        run.id = wish.run.0,
        batch.no = wish.batch_no,
        by = wish.by,
        raw = wish.with_raw,
        "audit: a diagnostic bundle was exported"
    );
    Ok(package)
}

/// Reads a package that is as it was exported, and not too old.
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

fn check(wish: &BundleRequest<'_>) -> Result<(), Error> {
    let fits = |text: &str, most| !text.trim().is_empty() && text.len() <= most && !text.contains('\0');
    if !fits(wish.reason, MAX_REASON) {
        return Err(Error::Invalid(format!("say why, in 1 to {MAX_REASON} bytes: it is kept with the export")));
    }
    if !fits(wish.by, MAX_NAME) {
        return Err(Error::Invalid(format!("say who exports, in 1 to {MAX_NAME} bytes")));
    }
    Ok(())
}

/// The value as it will be read back: a number whose text is read as another one changes until it no longer does.
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
