//! `bundle`: exports everything known about a batch as a signed diagnostic bundle, and shows one.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use patra_core::port::Clock;
use patra_core::port::query::View;
use patra_core::vault::Vault;
use patra_core::{RunId, seal};
use patra_engine::bundle::{self, BundleRequest, MAX_PACKAGE, OpenedBundle};

use crate::cli::{Bundle, Global, Output};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::say;
use crate::{output, store, vault};

pub(crate) async fn run(global: &Global, command: &Bundle) -> Result<Exit, Error> {
    match command {
        Bundle::Export { run, batch, reason, by, out, with_raw } => {
            let request = BundleRequest { run: RunId(*run), batch_no: *batch, by, reason, with_raw: *with_raw };
            export(global, request, out.as_deref()).await?;
        }
        Bundle::Show { file } => show(global, &open(global, file)?)?,
    }
    Ok(Exit::Ok)
}

async fn export(global: &Global, request: BundleRequest<'_>, out: Option<&Path>) -> Result<(), Error> {
    let vault = key(global)?;
    store::check_project(
        global,
        &*store::open_to_read(global).await?,
        View::Runs,
        request.run.0,
        &format!("run {}", request.run),
    )
    .await?;
    // Fails before the export is recorded.
    let file = out.map(create).transpose()?;
    let store = store::open(global).await?.store;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let package = bundle::export(&*store, &vault, &clock, request).await;
    let package = match (package, out) {
        (Ok(package), _) => package,
        (Err(error), Some(path)) => {
            // An empty file would look like a bundle.
            let _ = std::fs::remove_file(path);
            return Err(refused(error));
        }
        (Err(error), None) => return Err(refused(error)),
    };
    let Some(mut file) = file else { return output::line(&package.to_string()) };
    writeln!(file, "{package}")?;
    file.sync_all()?;
    let path = out.map(|path| path.display().to_string()).unwrap_or_default();
    say(&format!("written to {path}; valid until {}", word(&package["export"]["expiresAt"])));
    Ok(())
}

/// Reads a bundle, and refuses one that was changed or is too old.
pub(crate) fn open(global: &Global, file: &Path) -> Result<OpenedBundle, Error> {
    let vault = key(global)?;
    let unreadable = |reason: String| Error::usage(format!("cannot read {}: {reason}", file.display()));
    let mut text = String::new();
    let limit = MAX_PACKAGE as u64 + 1;
    let opened = File::open(file).map_err(|error| unreadable(error.to_string()))?;
    opened.take(limit).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    bundle::open(&vault, &text, SystemClock.now()).map_err(refused)
}

fn show(global: &Global, package: &OpenedBundle) -> Result<(), Error> {
    if global.output != Output::Table {
        return output::result(global.output, "", &package.value);
    }
    let value = &package.value;
    let (keys, request, response) = (&value["keys"], &value["request"], &value["response"]);
    let processing = &value["processing"];
    let stats = &processing["stats"];
    let mut rows = vec![
        ("batch", format!("run {}, batch {}", word(&keys["runId"]), word(&keys["batchNo"]))),
        ("of", ["provenanceCode", "endpointName", "operationCode"].map(|key| word(&keys[key])).join(" ")),
        ("exported", format!("by {}, {}: {}", package.by, package.created_at.to_short_text(), package.reason)),
        ("valid until", package.expires_at.to_short_text()),
        ("spec", word(&keys["specFingerprint"])),
        ("expression", word(&keys["exprHash"])),
        ("slice", word(&keys["sliceSignatureHash"])),
        ("request", format!("{} {}", word(&request["digest"]["method"]), word(&request["digest"]["url"]))),
        ("query", word(&request["digest"]["query"])),
        ("position", word(&request["position"])),
        ("response", format!("{}, {} bytes", word(&response["status"]), word(&response["bytes"]))),
        ("next", word(&response["next"])),
        ("body hash", word(&response["bodyHash"])),
        ("status", word(&processing["status"])),
        (
            "records",
            ["itemsCount", "inserted", "updated", "skipped", "failed"]
                .map(|name| format!("{name} {}", word(&stats[name])))
                .join(", "),
        ),
    ];
    if !processing["error"].is_null() {
        let error = &processing["error"];
        rows.push(("error", ["level", "code", "message"].map(|name| word(&error[name])).join(" ")));
    }
    for event in value["cursor"].as_array().into_iter().flatten() {
        rows.push(("cursor", format!("{} to {}", word(&event["prev_value"]), word(&event["new_value"]))));
    }
    let raw =
        if value["raw"].is_null() { "not in the bundle" } else { "in the bundle: `patra replay --file` reads it" };
    rows.push(("body", raw.to_owned()));
    rows.push(("sample", word(&response["sampleText"])));
    output::grid(&["", "diagnostic bundle"], rows.into_iter().map(|(name, text)| vec![name.to_owned(), shown(&text)]))
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Text from outside must not control the terminal.
fn shown(text: &str) -> String {
    const WIDEST: usize = 400;
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(WIDEST).collect()
}

/// The key that signs bundles. Without it a bundle can be neither made nor verified.
fn key(global: &Global) -> Result<Arc<Vault>, Error> {
    vault::load(global, None)?.ok_or_else(|| {
        Error::configuration("diagnostic bundles are signed with the master key, and none is given")
            .hint("set PATRA_MASTER_KEY or --master-key-file; create one with `openssl rand -base64 32`")
    })
}

fn create(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| {
        Error::usage(format!("cannot write {}: {error}", path.display())).hint("name a file that does not exist yet")
    })
}

fn refused(error: bundle::Error) -> Error {
    match error {
        bundle::Error::Invalid(message) => Error::usage(message),
        bundle::Error::Replay(error) => super::replay::refused(error),
        bundle::Error::Seal(seal::Error::UnknownKey(_)) => {
            Error::configuration(error.to_string()).hint("give the master key of the installation that exported it")
        }
        bundle::Error::Seal(_) => Error::configuration(error.to_string()),
        bundle::Error::Foreign(_) => Error::usage(error.to_string()),
        bundle::Error::Changed => Error::failed(error.to_string()).hint("export it again"),
        bundle::Error::Expired(_) => Error::failed(error.to_string()).hint("export it again"),
    }
}
