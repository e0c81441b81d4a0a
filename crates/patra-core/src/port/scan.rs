//! Reads all rows, table by table, to check for data that must not be stored. Read-only.

use std::fmt;

use super::BoxFuture;
use crate::tx::TxError;

/// Maximum rows of a page.
pub const MAX_ROWS: usize = 500;
/// A page ends after the row with which it reaches this many bytes.
pub const MAX_BYTES: usize = 4 << 20;

pub trait Scan: fmt::Debug + Send + Sync {
    /// All tables, by name.
    fn tables(&self) -> BoxFuture<'_, Result<Vec<String>, TxError>>;

    /// The next rows of a table, by its key; `after` is `next` of the previous page.
    fn page(&self, table: &str, after: Option<Vec<String>>) -> BoxFuture<'_, Result<ScanPage, TxError>>;
}

/// Some rows, every value as text; bytes are decoded as text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScanPage {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Names of the key columns.
    pub key: Vec<String>,
    /// The key of the last row, when more may follow.
    pub next: Option<Vec<String>>,
}

impl ScanPage {
    pub fn cell<'a>(&self, row: &'a [Option<String>], column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name == column)?;
        row.get(at)?.as_deref()
    }

    /// The key of a row as text: `id=4`.
    pub fn name(&self, row: &[Option<String>]) -> String {
        let parts = self.key.iter().map(|column| format!("{column}={}", self.cell(row, column).unwrap_or("?")));
        parts.collect::<Vec<_>>().join(" ")
    }
}
