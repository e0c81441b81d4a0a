//! Files and folders that only their owner may read, from their first moment on: whoever reads the database reads all that
//! was collected, and what is sealed in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Makes a folder, and those above it, where they are missing. One that is there stays as it is.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Opens a file to read and write, and makes it where it is missing.
pub fn file(path: &Path) -> io::Result<File> {
    options().create(true).truncate(false).open(path)
}

/// Makes a file that must not be there yet.
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

/// What a folder holds is on disk when its entries are.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        return File::open(path)?.sync_all();
    }
    Ok(())
}

/// Removes what may not be there.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
