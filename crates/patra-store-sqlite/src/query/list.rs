//! Rows of one view. The statement is assembled from the fixed names of the view; values are only ever bound.

use patra_core::Ts;
use patra_core::port::query::{Cell, CellKind, RowOwner, View, ViewCondition, ViewFilter, ViewRow};
use patra_core::tx::TxError;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use crate::error::Result;

pub(super) fn read(db: &Connection, view: View, filter: &ViewFilter) -> Result<Vec<ViewRow>> {
    let conditions = view.conditions(filter).map_err(TxError::from)?;
    if filter.project_key.is_some() && view.owner().is_none() {
        return Ok(Vec::new());
    }
    let sql = statement(view, &conditions, filter.project_key.is_some());
    let mut values: Vec<_> = conditions.into_iter().map(|condition| bind(condition.value)).collect();
    values.extend(filter.project_key.clone().map(Value::Text));
    values.push(Value::Integer(filter.effective_limit().into()));

    let mut statement = db.prepare_cached(&sql)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        view.columns().iter().enumerate().map(|(at, column)| read_cell(row, at, column.kind)).collect()
    })?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

/// Newest first; the last parameter is the limit.
pub(crate) fn statement(view: View, conditions: &[ViewCondition], of_project: bool) -> String {
    let columns: Vec<_> = view.columns().iter().map(|column| view.expression(column.name)).collect();
    let mut wheres: Vec<_> =
        conditions.iter().map(|ViewCondition { column, is, .. }| format!("{column} {is} ?")).collect();
    wheres.extend(view.owner().filter(|_| of_project).map(|owner| belongs(view, owner)));
    let wheres = if wheres.is_empty() { String::new() } else { format!(" WHERE {}", wheres.join(" AND ")) };
    format!("SELECT {} FROM {}{wheres} ORDER BY id DESC LIMIT ?", columns.join(", "), view.table())
}

/// Condition that a row belongs to a project.
fn belongs(view: View, owner: RowOwner) -> String {
    let table = view.table();
    let by = |owner: &str, column: &str| {
        format!("EXISTS (SELECT 1 FROM {owner} owner WHERE owner.id = {table}.{column} AND owner.project_key = ?)")
    };
    match owner {
        RowOwner::Plan => by("ing_plan", "plan_id"),
        RowOwner::Cursor => by("ing_cursor", "cursor_id"),
        // The others have no index on project and id: they are read from the newest on.
        RowOwner::Own if view == View::Items => "project_key = ?".to_owned(),
        RowOwner::Own => "+project_key = ?".to_owned(),
    }
}

fn bind(value: Cell) -> Value {
    match value {
        Cell::Null => Value::Null,
        Cell::Int(number) => Value::Integer(number),
        Cell::Time(at) => Value::Integer(at.micros()),
        Cell::Text(text) | Cell::Json(text) => Value::Text(text),
    }
}

fn read_cell(row: &rusqlite::Row<'_>, at: usize, kind: CellKind) -> rusqlite::Result<Cell> {
    let cell = match kind {
        CellKind::Int => row.get::<_, Option<i64>>(at)?.map(Cell::Int),
        CellKind::Time => row.get::<_, Option<i64>>(at)?.map(|at| Cell::Time(Ts::from_micros(at))),
        CellKind::Text => row.get::<_, Option<String>>(at)?.map(Cell::Text),
        // `item.fields` is empty, not null, when nothing is mapped.
        CellKind::Json => row.get::<_, Option<String>>(at)?.filter(|text| !text.is_empty()).map(Cell::Json),
    };
    Ok(cell.unwrap_or(Cell::Null))
}
