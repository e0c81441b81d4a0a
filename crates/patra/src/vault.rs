//! The master key: from the environment, from a file, or the one beside the embedded database. A text that people chose,
//! `COOKIE_MASTER_KEY`, goes before them; older ones stay readable as `COOKIE_KEY_{KEY_ID}`.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patra_core::port::{Entropy, Sources};
use patra_core::seal::{KEY_BYTES, Keyring, MasterKey};
use patra_core::secret::Secret;
use patra_core::vault::Vault;

use crate::cli::Global;
use crate::error::Error;
use crate::settings::Environment;

const VARIABLE: &str = "PATRA_MASTER_KEY";
const CHOSEN: &str = "COOKIE_MASTER_KEY";
const OLDER: &str = "COOKIE_KEY_";
/// The setting that holds the salt of the installation.
pub(crate) const SALT: &str = "cookie_salt";
/// Beside the embedded database.
pub(crate) const FILE: &str = "master.key";
/// A few keys; nobody's file of keys is longer.
const MAX_FILE: u64 = 4 << 10;

/// What keys are derived with in this installation.
pub(crate) async fn salt(store: &dyn Sources) -> Result<Option<String>, Error> {
    Ok(store.settings().await?.into_iter().find(|(key, _)| key == SALT).map(|(_, salt)| salt))
}

/// The keys of this process, if any are given.
pub(crate) fn load(global: &Global, salt: Option<&str>) -> Result<Option<Arc<Vault>>, Error> {
    let (chosen, plain) = (chosen(salt)?, plain(global)?);
    Ok(match (chosen, plain) {
        (Some(mut chosen), Some(plain)) => {
            chosen.extend(plain);
            Some(vault(chosen))
        }
        (one, other) => one.or(other).map(vault),
    })
}

/// The key behind a text that people chose, and those that they chose before.
fn chosen(salt: Option<&str>) -> Result<Option<Keyring>, Error> {
    let derive = |name: &str, text: &str| {
        let salt = salt.unwrap_or_default();
        MasterKey::derive(text, salt).map_err(|error| Error::configuration(format!("{name} is too short: {error}")))
    };
    let environment = Environment::read();
    let Some(text) = environment.get(CHOSEN).filter(|_| salt.is_some()) else { return Ok(None) };
    let mut keyring = Keyring::new(derive(CHOSEN, text)?);
    for (name, text) in environment.beginning_with(OLDER) {
        let id = name.strip_prefix(OLDER).unwrap_or_default();
        let key = derive(name, text)?;
        if !key.id().eq_ignore_ascii_case(id) {
            tracing::warn!(variable = name, key_id = key.id(), "the name and the key do not belong together");
        }
        keyring.push(key);
    }
    Ok(Some(keyring))
}

/// Keys as they are.
fn plain(global: &Global) -> Result<Option<Keyring>, Error> {
    let beside = beside_database(global).filter(|path| path.exists());
    let (text, place) = match (std::env::var(VARIABLE), &global.master_key_file, beside) {
        (Ok(text), _, _) if !text.trim().is_empty() => (Secret::new(text), VARIABLE.to_owned()),
        (Err(std::env::VarError::NotUnicode(_)), _, _) => {
            return Err(Error::configuration(format!("{VARIABLE} is not readable text")));
        }
        (_, Some(path), _) => (read(path)?, path.display().to_string()),
        (_, None, Some(path)) => (read(&path)?, path.display().to_string()),
        (_, None, None) => return Ok(None),
    };
    let keyring = Keyring::parse(text.expose()).map_err(|error| {
        Error::configuration(format!("{place} holds no master key: {error}"))
            .hint("`openssl rand -base64 32` makes one")
    })?;
    Ok(Some(keyring))
}

/// The same, or a new one beside the embedded database. On PostgreSQL every host needs the same key, so it must be given.
pub(crate) fn load_or_create(global: &Global, salt: Option<&str>) -> Result<Arc<Vault>, Error> {
    if let Some(vault) = load(global, salt)? {
        return Ok(vault);
    }
    let Some(path) = beside_database(global) else {
        return Err(Error::configuration("credentials on PostgreSQL need a master key, the same for every process")
            .hint(format!(
                "export {VARIABLE}=$(openssl rand -base64 32), and keep it: without it nothing sealed opens"
            )));
    };
    let mut bytes = zeroize::Zeroizing::new([0; KEY_BYTES]);
    SystemEntropy.fill(&mut *bytes).map_err(|error| Error::unexpected(format!("no randomness: {error}")))?;
    let key = MasterKey::new(*bytes);
    match write_new(&path, &key.to_text()) {
        Ok(()) => Ok(vault(Keyring::new(key))),
        // Another process was quicker.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            load(global, salt)?.ok_or_else(|| Error::unexpected(format!("{} is not readable", path.display())))
        }
        Err(error) => Err(Error::configuration(format!("{} cannot be written: {error}", path.display()))
            .hint(format!("choose another folder with --data, or set {VARIABLE}"))),
    }
}

fn vault(keyring: Keyring) -> Arc<Vault> {
    Arc::new(Vault::new(keyring, Arc::new(SystemEntropy)))
}

fn beside_database(global: &Global) -> Option<PathBuf> {
    global.database_url.is_none().then(|| global.data.join(FILE))
}

fn read(path: &Path) -> Result<Secret, Error> {
    let unreadable =
        |reason: String| Error::configuration(format!("the master key {} cannot be read: {reason}", path.display()));
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = file.metadata().map_err(|error| unreadable(error.to_string()))?.permissions().mode();
        if mode & 0o077 != 0 {
            tracing::warn!(path = %path.display(), "others on this machine may read the master key: chmod 600 it");
        }
    }
    let mut text = String::new();
    let read = file.take(MAX_FILE + 1).read_to_string(&mut text).map_err(|error| unreadable(error.to_string()))?;
    if read as u64 > MAX_FILE {
        return Err(unreadable(format!("it is longer than {MAX_FILE} bytes")));
    }
    Ok(Secret::new(text))
}

/// A file that only its owner may read, from its first moment on.
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
