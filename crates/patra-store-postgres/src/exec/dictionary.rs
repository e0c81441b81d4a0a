//! Writes the dictionary. It is small and nothing refers to its rows: rows that differ are replaced.

use patra_core::tx::{DictionarySynced, SyncDictionary};

use super::{NOW, moment};
use crate::error::{Fail, refused};
use crate::pool::{Session, pipeline};
use crate::query::dictionary;

/// Serializes processes that start at once; readers are not blocked.
const LOCK: &str = "LOCK TABLE sys_dict_type, sys_dict_item, sys_dict_item_alias IN SHARE ROW EXCLUSIVE MODE";

const EMPTY: &str = "
WITH kinds AS (DELETE FROM sys_dict_type), items AS (DELETE FROM sys_dict_item) DELETE FROM sys_dict_item_alias";

const INSERT_TYPES: &str = "
INSERT INTO sys_dict_type (type_code, name, sort_no, updated_at)
SELECT given.type_code, given.name, given.sort_no, $4
FROM unnest($1::text[], $2::text[], $3::int[]) AS given (type_code, name, sort_no)";

const INSERT_ITEMS: &str = "
INSERT INTO sys_dict_item (type_code, item_code, name, sort_no, updated_at)
SELECT given.type_code, given.item_code, given.name, given.sort_no, $5
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS given (type_code, item_code, name, sort_no)";

const INSERT_ALIASES: &str = "
INSERT INTO sys_dict_item_alias (type_code, item_code, alias, sort_no, updated_at)
SELECT given.type_code, given.item_code, given.alias, given.sort_no, $5
FROM unnest($1::text[], $2::text[], $3::text[], $4::int[]) AS given (type_code, item_code, alias, sort_no)";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[LOCK, EMPTY, INSERT_TYPES, INSERT_ITEMS, INSERT_ALIASES];

pub(super) async fn sync(session: &Session, op: &SyncDictionary) -> Result<DictionarySynced, Fail> {
    if let Some(flaw) = op.invalid_reason() {
        return Err(refused(flaw));
    }
    // Mostly nothing has changed, and no lock is needed.
    if dictionary::read(session).await? == op.types {
        return Ok(DictionarySynced { changed: false });
    }
    let [lock, empty, insert_types, insert_items, insert_aliases, now] =
        session.prepare([LOCK, EMPTY, INSERT_TYPES, INSERT_ITEMS, INSERT_ALIASES, NOW]).await?;
    let ((), _, now) = pipeline!(session.begin(), session.write(&lock, &[]), moment(session, &now))?;
    let changed = dictionary::read(session).await? != op.types;
    if changed {
        let given = Columns::of(op);
        let (types, items, aliases) = (&given.types, &given.items, &given.aliases);
        pipeline!(
            session.write(&empty, &[]),
            session.write(&insert_types, &[&types.codes, &types.texts, &types.places, &now]),
            session.write(&insert_items, &[&items.codes, &items.words, &items.texts, &items.places, &now]),
            session.write(&insert_aliases, &[&aliases.codes, &aliases.words, &aliases.texts, &aliases.places, &now]),
        )?;
    }
    session.commit().await?;
    Ok(DictionarySynced { changed })
}

/// The three tables as arrays for `unnest`.
#[derive(Default)]
struct Columns<'a> {
    types: Part<'a>,
    items: Part<'a>,
    aliases: Part<'a>,
}

#[derive(Default)]
struct Part<'a> {
    codes: Vec<&'a str>,
    words: Vec<&'a str>,
    texts: Vec<&'a str>,
    places: Vec<i32>,
}

impl<'a> Part<'a> {
    fn push(&mut self, code: &'a str, word: &'a str, text: &'a str, place: i32) {
        self.codes.push(code);
        self.words.push(word);
        self.texts.push(text);
        self.places.push(place);
    }
}

impl Columns<'_> {
    fn of(op: &SyncDictionary) -> Columns<'_> {
        let mut columns = Columns::default();
        for (place, kind) in (0..).zip(&op.types) {
            columns.types.push(&kind.code, "", &kind.name, place);
            for (place, item) in (0..).zip(&kind.items) {
                columns.items.push(&kind.code, &item.code, &item.name, place);
                for (place, alias) in (0..).zip(&item.aliases) {
                    columns.aliases.push(&kind.code, &item.code, alias, place);
                }
            }
        }
        columns
    }
}
