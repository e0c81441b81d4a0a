//! The dictionary, assembled from its three tables.

use patra_core::registry::{DictItem, DictType};

use crate::error::Fail;
use crate::pool::Session;

// One row per alias, or one per word without an alias; one per type without a word.
pub(super) const READ: &str = "
SELECT type_code, sys_dict_type.name, item_code, sys_dict_item.name, alias
FROM sys_dict_type
LEFT JOIN sys_dict_item USING (type_code)
LEFT JOIN sys_dict_item_alias USING (type_code, item_code)
ORDER BY sys_dict_type.sort_no, sys_dict_item.sort_no, sys_dict_item_alias.sort_no";

pub(crate) async fn read(session: &Session) -> Result<Vec<DictType>, Fail> {
    let [statement] = session.prepare([READ]).await?;
    let mut types: Vec<DictType> = Vec::new();
    for row in session.rows(&statement, &[]).await? {
        let (code, word): (String, Option<String>) = (row.try_get(0)?, row.try_get(2)?);
        if types.last().is_none_or(|last| last.code != code) {
            types.push(DictType { code, name: row.try_get(1)?, items: Vec::new() });
        }
        let (Some(kind), Some(word)) = (types.last_mut(), word) else { continue };
        if kind.items.last().is_none_or(|last| last.code != word) {
            kind.items.push(DictItem { code: word, name: row.try_get(3)?, aliases: Vec::new() });
        }
        if let Some(item) = kind.items.last_mut() {
            item.aliases.extend(row.try_get::<_, Option<String>>(4)?);
        }
    }
    Ok(types)
}
