//! Reading everything there is, table by table, for those who look for what must not be there. Read-only.

use std::fmt;

use super::Boxed;
use crate::tx::TxError;

/// Rows of a page, at most.
pub const MAX_ROWS: usize = 500;
/// A page ends behind the row with which it reaches this many bytes.
pub const MAX_BYTES: usize = 4 << 20;

pub trait Scan: fmt::Debug + Send + Sync {
    /// By name.
    fn tables(&self) -> Boxed<'_, Result<Vec<String>, TxError>>;

    /// The next rows of a table, by its key; `after` is what the page before gave as `next`.
    fn page(&self, table: &str, after: Option<Vec<String>>) -> Boxed<'_, Result<Page, TxError>>;
}

/// Some rows, every value as text; bytes as the text that is in them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Option<String>>>,
    /// Names of the columns that a row is known by.
    pub key: Vec<String>,
    /// The key of the last row, when more may follow.
    pub next: Option<Vec<String>>,
}

impl Page {
    pub fn cell<'a>(&self, row: &'a [Option<String>], column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name == column)?;
        row.get(at)?.as_deref()
    }

    /// What a row is called: `id=4`.
    pub fn name(&self, row: &[Option<String>]) -> String {
        let parts = self.key.iter().map(|column| format!("{column}={}", self.cell(row, column).unwrap_or("?")));
        parts.collect::<Vec<_>>().join(" ")
    }
}
