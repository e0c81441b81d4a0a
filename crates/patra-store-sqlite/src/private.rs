//! Files and folders that only their owner may read, from creation on: the database contains all collected data and the
//! sealed credentials.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a folder and its missing parents. An existing one stays as it is.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file to read and write, and creates it if it is missing.
pub fn file(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// Creates a file that must not exist.
pub fn new_file(path: &Path) -> io::Result<File> {
    options().create_new(true).open(path)
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Syncs a folder, so that its entries are on disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        return File::open(path)?.sync_all();
    }
    Ok(())
}

/// Removes a file if it exists.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
