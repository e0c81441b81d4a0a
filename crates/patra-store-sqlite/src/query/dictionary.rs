//! The dictionary, assembled from its three tables.

use patra_core::registry::{DictItem, DictType};
use rusqlite::Connection;

use crate::error::Result;

// One row per alias, or one per word without an alias; one per type without a word.
const READ: &str = "
SELECT type_code, sys_dict_type.name, item_code, sys_dict_item.name, alias
FROM sys_dict_type
LEFT JOIN sys_dict_item USING (type_code)
LEFT JOIN sys_dict_item_alias USING (type_code, item_code)
ORDER BY sys_dict_type.sort_no, sys_dict_item.sort_no, sys_dict_item_alias.sort_no";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[READ];

pub(crate) fn read(db: &Connection) -> Result<Vec<DictType>> {
    let mut statement = db.prepare_cached(READ)?;
    let mut rows = statement.query(())?;
    let mut types: Vec<DictType> = Vec::new();
    while let Some(row) = rows.next()? {
        let (code, word, alias): (String, Option<String>, Option<String>) = (row.get(0)?, row.get(2)?, row.get(4)?);
        if types.last().is_none_or(|last| last.code != code) {
            types.push(DictType { code, name: row.get(1)?, items: Vec::new() });
        }
        let (Some(kind), Some(word)) = (types.last_mut(), word) else { continue };
        if kind.items.last().is_none_or(|last| last.code != word) {
            kind.items.push(DictItem { code: word, name: row.get(3)?, aliases: Vec::new() });
        }
        if let Some(item) = kind.items.last_mut() {
            item.aliases.extend(alias);
        }
    }
    Ok(types)
}
