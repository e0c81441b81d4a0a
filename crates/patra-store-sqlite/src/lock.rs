//! One process per database: an advisory lock on a file next to it. The operating system releases it when the process
//! dies, however it dies.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::OpenError;
use crate::private;

/// Locked as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Locks `<database>.lock` and writes the process id into it, for the error message of the next process.
    pub(crate) fn take(database: &Path) -> Result<Lock, OpenError> {
        let folder = match database.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        private::folder(folder)
            .map_err(|source| OpenError::FolderNotCreatable { folder: folder.to_owned(), source })?;
        let not_writable = |source| OpenError::FolderNotWritable { folder: folder.to_owned(), source };
        let mut file = private::file(&lock_path(database)).map_err(not_writable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(OpenError::Locked { path: database.to_owned(), pid: holder(&mut file) });
            }
            Err(TryLockError::Error(source)) => return Err(not_writable(source)),
        }
        file.set_len(0).map_err(not_writable)?;
        write!(file, "{}", std::process::id()).map_err(not_writable)?;
        Ok(Lock { _file: file })
    }
}

fn lock_path(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

/// Process id of the lock's owner, if the file names one. The owner may be between locking and writing.
fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(16).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn second_process_is_refused_with_the_pid_until_the_lock_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("deep/er/patra.db");
        let first = Lock::take(&database).unwrap();
        let refused = Lock::take(&database).unwrap_err();
        assert!(matches!(refused, OpenError::Locked { pid: Some(pid), .. } if pid == std::process::id()), "{refused}");
        drop(first);
        Lock::take(&database).unwrap();
    }

    #[test]
    fn uncreatable_folder_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = Lock::take(&file.join("sub/patra.db")).unwrap_err();
        assert!(matches!(refused, OpenError::FolderNotCreatable { .. }), "{refused}");
    }
}
