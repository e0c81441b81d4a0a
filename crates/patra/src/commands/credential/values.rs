//! Reads the values of a credential from stdin, the environment or files. Errors name the place, never the value.

use std::fs::File;
use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use patra_core::seal::MAX_SECRET;
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_engine::admin;

use crate::cli::SecretValues;
use crate::error::Error;
use crate::progress::say;

pub(super) fn read(values: &SecretValues, auth_type: AuthType) -> Result<Secrets, Error> {
    if values.from_env.is_empty() && values.from_file.is_empty() {
        return from_stdin(auth_type);
    }
    let mut secrets = Secrets::new();
    let mut put = |name: &str, value: Secret| match secrets.insert(name.to_owned(), value) {
        None => Ok(()),
        Some(_) => Err(Error::usage(format!("the value `{name}` is given twice"))),
    };
    for (name, variable) in &values.from_env {
        let value = std::env::var(variable).map_err(|_| {
            Error::usage(format!("the environment variable {variable} is not set, or is not readable text"))
        })?;
        put(name, Secret::new(value))?;
    }
    for (name, path) in &values.from_file {
        put(name, from_file(path)?)?;
    }
    Ok(secrets)
}

/// Reads a JSON object of texts, or the one value that the type needs.
fn from_stdin(auth_type: AuthType) -> Result<Secrets, Error> {
    if std::io::stdin().is_terminal() {
        say("Type the secret, or a JSON object of named values, and end with Ctrl-D. Your input is visible.");
    }
    let text = bounded(std::io::stdin().lock(), "stdin")?;
    let is_file = |text: &str| {
        let object = serde_json::from_str::<serde_json::Value>(text).ok();
        auth_type == AuthType::Cookie && object.is_some_and(|object| object.get("cookie").is_none())
    };
    if text.expose().trim_start().starts_with('{') && !is_file(text.expose()) {
        return serde_json::from_str(text.expose()).map_err(|_| {
            Error::usage("stdin is not a JSON object whose values are texts")
                .hint(r#"for example {"clientId": "…", "clientSecret": "…"}"#)
        });
    }
    if text.expose().is_empty() {
        return Err(Error::usage("stdin is empty").hint("pipe the secret in, or use --from-env or --from-file"));
    }
    admin::single(auth_type, text).map_err(|error| Error::usage(error.to_string()))
}

fn from_file(path: &Path) -> Result<Secret, Error> {
    let file = File::open(path).map_err(|error| Error::usage(format!("cannot read {}: {error}", path.display())))?;
    bounded(file, &path.display().to_string())
}

/// Reads up to the limit, without the last line break, which editors add.
fn bounded(source: impl std::io::Read, place: &str) -> Result<Secret, Error> {
    let mut text = String::new();
    let limit = MAX_SECRET as u64;
    let read = source.take(limit + 1).read_to_string(&mut text);
    let read = read.map_err(|error| Error::usage(format!("cannot read {place}: {error}")))?;
    if read as u64 > limit {
        return Err(Error::usage(format!("{place} has more than {MAX_SECRET} bytes")));
    }
    let text = Secret::new(text);
    let bare = text.expose().strip_suffix('\n').unwrap_or(text.expose());
    Ok(Secret::new(bare.strip_suffix('\r').unwrap_or(bare)))
}
