//! The master key: from the environment, from a file, or from the file next to the embedded database. A passphrase in
//! `COOKIE_MASTER_KEY` takes precedence; older passphrases stay usable as `COOKIE_KEY_{KEY_ID}`.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patra_core::port::{Entropy, SourceQueries};
use patra_core::seal::{KEY_BYTES, Keyring, MasterKey};
use patra_core::secret::Secret;
use patra_core::vault::Vault;

use crate::cli::Global;
use crate::error::Error;
use crate::settings::Environment;

const VARIABLE: &str = "PATRA_MASTER_KEY";
const PASSPHRASE: &str = "COOKIE_MASTER_KEY";
const OLDER_PASSPHRASE: &str = "COOKIE_KEY_";
/// The setting that holds the salt of the installation.
pub(crate) const SALT: &str = "cookie_salt";
/// Name of the key file next to the embedded database.
pub(crate) const FILE: &str = "master.key";
/// Largest key file: room for many keys.
const MAX_FILE: u64 = 4 << 10;

/// The salt that this installation derives keys with.
pub(crate) async fn salt(store: &dyn SourceQueries) -> Result<Option<String>, Error> {
    Ok(store.settings().await?.into_iter().find(|(key, _)| key == SALT).map(|(_, salt)| salt))
}

/// Loads the keys, if any are given.
pub(crate) fn load(global: &Global, salt: Option<&str>) -> Result<Option<Arc<Vault>>, Error> {
    let (derived, plain) = (derived_keys(salt)?, plain_keys(global)?);
    Ok(match (derived, plain) {
        (Some(mut derived), Some(plain)) => {
            derived.extend(plain);
            Some(vault(derived))
        }
        (one, other) => one.or(other).map(vault),
    })
}

/// Keys derived from the passphrase and from older ones.
fn derived_keys(salt: Option<&str>) -> Result<Option<Keyring>, Error> {
    let derive = |name: &str, text: &str| {
        let salt = salt.unwrap_or_default();
        MasterKey::derive(text, salt).map_err(|error| Error::configuration(format!("{name} is too short: {error}")))
    };
    let environment = Environment::read();
    let Some(text) = environment.get(PASSPHRASE).filter(|_| salt.is_some()) else { return Ok(None) };
    let mut keyring = Keyring::new(derive(PASSPHRASE, text)?);
    for (name, text) in environment.beginning_with(OLDER_PASSPHRASE) {
        let id = name.strip_prefix(OLDER_PASSPHRASE).unwrap_or_default();
        let key = derive(name, text)?;
        if !key.id().eq_ignore_ascii_case(id) {
            tracing::warn!(variable = name, key_id = key.id(), "the variable is named after another key");
        }
        keyring.push(key);
    }
    Ok(Some(keyring))
}

/// Keys that are given as they are.
fn plain_keys(global: &Global) -> Result<Option<Keyring>, Error> {
    let default = default_file(global).filter(|path| path.exists());
    let (text, place) = match (std::env::var(VARIABLE), &global.master_key_file, default) {
        (Ok(text), _, _) if !text.trim().is_empty() => (Secret::new(text), VARIABLE.to_owned()),
        (Err(std::env::VarError::NotUnicode(_)), _, _) => {
            return Err(Error::configuration(format!("{VARIABLE} is not readable text")));
        }
        (_, Some(path), _) => (read(path)?, path.display().to_string()),
        (_, None, Some(path)) => (read(&path)?, path.display().to_string()),
        (_, None, None) => return Ok(None),
    };
    let keyring = Keyring::parse(text.expose()).map_err(|error| {
        Error::configuration(format!("{place} is not a master key: {error}"))
            .hint("create one with `openssl rand -base64 32`")
    })?;
    Ok(Some(keyring))
}

/// Loads the keys, or creates one next to the embedded database. On PostgreSQL every host needs the same key, so you
/// must give it.
pub(crate) fn load_or_create(global: &Global, salt: Option<&str>) -> Result<Arc<Vault>, Error> {
    if let Some(vault) = load(global, salt)? {
        return Ok(vault);
    }
    let Some(path) = default_file(global) else {
        return Err(Error::configuration("credentials on PostgreSQL need a master key, the same for every process")
            .hint(format!(
                "export {VARIABLE}=$(openssl rand -base64 32), and keep it: without it no credential can be decrypted"
            )));
    };
    let mut bytes = zeroize::Zeroizing::new([0; KEY_BYTES]);
    SystemEntropy.fill(&mut *bytes).map_err(|error| Error::unexpected(format!("no randomness: {error}")))?;
    let key = MasterKey::new(*bytes);
    match write_new(&path, &key.to_text()) {
        Ok(()) => Ok(vault(Keyring::new(key))),
        // Another process created it first.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            load(global, salt)?.ok_or_else(|| Error::unexpected(format!("{} is not readable", path.display())))
        }
        Err(error) => Err(Error::configuration(format!("cannot write {}: {error}", path.display()))
            .hint(format!("choose another folder with --data, or set {VARIABLE}"))),
    }
}

fn vault(keyring: Keyring) -> Arc<Vault> {
    Arc::new(Vault::new(keyring, Arc::new(SystemEntropy)))
}

fn default_file(global: &Global) -> Option<PathBuf> {
    global.database_url.is_none().then(|| global.data.join(FILE))
}

fn read(path: &Path) -> Result<Secret, Error> {
    let unreadable =
        |reason: String| Error::configuration(format!("cannot read the master key {}: {reason}", path.display()));
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata().map_err(|error| unreadable(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "other users of this machine can read the master key: chmod 600 it");
        }
    }
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if read as u64 > MAX_FILE {
        return Err(unreadable(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(Secret::new(text))
}

/// Creates a file that only its owner can read, from the first moment on.
fn write_new(path: &Path, text: &Secret) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        patra_store_sqlite::private::folder(folder)?;
    }
    let mut file = patra_store_sqlite::private::new_file(path)?;
    writeln!(file, "{}", text.expose())?;
    file.sync_all()
}

/// The operating system's randomness.
#[derive(Debug)]
struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
        patra_api::key::fill_random(bytes).map_err(|error| error.to_string())
    }
}
