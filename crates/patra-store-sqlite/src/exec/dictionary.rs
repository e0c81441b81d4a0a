//! Writes the dictionary. It is small and nothing refers to its rows: rows that differ are replaced.

use patra_core::Ts;
use patra_core::tx::{DictionarySynced, SyncDictionary};
use rusqlite::{Connection, params};

use crate::error::{Error, Result};
use crate::query::dictionary;

const EMPTY: [&str; 3] = ["DELETE FROM sys_dict_type", "DELETE FROM sys_dict_item", "DELETE FROM sys_dict_item_alias"];

const INSERT_TYPE: &str = "INSERT INTO sys_dict_type (type_code, name, sort_no, updated_at) VALUES (?1, ?2, ?3, ?4)";

const INSERT_ITEM: &str = "
INSERT INTO sys_dict_item (type_code, item_code, name, sort_no, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)";

const INSERT_ALIAS: &str = "
INSERT INTO sys_dict_item_alias (type_code, item_code, alias, sort_no, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[EMPTY[0], EMPTY[1], EMPTY[2], INSERT_TYPE, INSERT_ITEM, INSERT_ALIAS];

pub(super) fn sync(db: &Connection, op: &SyncDictionary, now: Ts) -> Result<DictionarySynced> {
    if let Some(flaw) = op.invalid_reason() {
        return Err(Error::refused(flaw));
    }
    if dictionary::read(db)? == op.types {
        return Ok(DictionarySynced { changed: false });
    }
    for empty in EMPTY {
        db.prepare_cached(empty)?.execute(())?;
    }
    for (at, kind) in (0_i64..).zip(&op.types) {
        db.prepare_cached(INSERT_TYPE)?.execute(params![kind.code, kind.name, at, now.micros()])?;
        for (at, item) in (0_i64..).zip(&kind.items) {
            let values = params![kind.code, item.code, item.name, at, now.micros()];
            db.prepare_cached(INSERT_ITEM)?.execute(values)?;
            for (at, alias) in (0_i64..).zip(&item.aliases) {
                let values = params![kind.code, item.code, alias, at, now.micros()];
                db.prepare_cached(INSERT_ALIAS)?.execute(values)?;
            }
        }
    }
    Ok(DictionarySynced { changed: true })
}
