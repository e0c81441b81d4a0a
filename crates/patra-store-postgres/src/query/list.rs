//! List queries. These are the only statements assembled at run time: from the names that a view declares, never from a
//! caller's text.

use patra_core::port::query::{Cell, CellKind, RowOwner, View, ViewColumn, ViewCondition, ViewFilter, ViewRow};
use patra_core::tx::TxError;
use tokio_postgres::types::{ToSql, Type};

use crate::error::{Fail, refused};
use crate::json::JsonText;
use crate::pool::Session;
use crate::time::Time;

pub(crate) async fn list(session: &Session, view: View, filter: ViewFilter) -> Result<Vec<ViewRow>, Fail> {
    let conditions = view.conditions(&filter).map_err(TxError::from)?;
    let owner = match (&filter.project_key, view.owner()) {
        (Some(_), None) => return Ok(Vec::new()),
        (Some(_), owner) => owner,
        (None, _) => None,
    };
    let sql = statement(view, &conditions, owner);
    let limit = i64::from(filter.effective_limit());
    let times: Vec<_> = conditions.iter().map(|condition| time(&condition.value)).collect();
    let mut params: Vec<(&(dyn ToSql + Sync), Type)> = Vec::new();
    for (ViewCondition { column, value, .. }, at) in conditions.iter().zip(&times) {
        params.push(match value {
            Cell::Text(text) => (text, Type::TEXT),
            Cell::Int(number) => (number, Type::INT8),
            Cell::Time(_) => (at, Type::TIMESTAMPTZ),
            _ => return Err(refused(format!("{column} cannot be used as a filter"))),
        });
    }
    if let Some(project) = &filter.project_key {
        params.push((project, Type::TEXT));
    }
    params.push((&limit, Type::INT8));
    // There are many combinations, each rarely used: not worth a prepared statement on every connection.
    let rows = session.client()?.query_typed(&sql, &params).await?;
    rows.iter()
        .map(|row| view.columns().iter().enumerate().map(|(at, column)| cell(row, at, *column)).collect())
        .collect()
}

fn time(value: &Cell) -> Option<Time> {
    if let Cell::Time(at) = value { Some(Time(*at)) } else { None }
}

pub(crate) fn statement(view: View, conditions: &[ViewCondition], owner: Option<RowOwner>) -> String {
    let columns: Vec<_> = view.columns().iter().map(|column| view.expression(column.name)).collect();
    let compared =
        |(ViewCondition { column, is, .. }, place): (&ViewCondition, usize)| format!("{column} {is} ${place}");
    let mut wheres: Vec<_> = conditions.iter().zip(1..).map(compared).collect();
    if let Some(owner) = owner {
        let (table, place) = (view.table(), wheres.len() + 1);
        wheres.push(match owner {
            RowOwner::Own => format!("project_key = ${place}"),
            RowOwner::Plan => format!(
                "EXISTS (SELECT 1 FROM ing_plan owner WHERE owner.id = {table}.plan_id AND owner.project_key = ${place})"
            ),
            RowOwner::Cursor => format!(
                "EXISTS (SELECT 1 FROM ing_cursor owner WHERE owner.id = {table}.cursor_id AND owner.project_key = ${place})"
            ),
        });
    }
    let limit = wheres.len() + 1;
    let wheres = if wheres.is_empty() { String::new() } else { format!(" WHERE {}", wheres.join(" AND ")) };
    format!("SELECT {} FROM {}{wheres} ORDER BY id DESC LIMIT ${limit}", columns.join(", "), view.table())
}

fn cell(row: &tokio_postgres::Row, at: usize, column: ViewColumn) -> Result<Cell, Fail> {
    let stored = row.columns()[at].type_();
    let cell = match column.kind {
        CellKind::Int if *stored == Type::INT4 => row.try_get::<_, Option<i32>>(at)?.map(|n| Cell::Int(n.into())),
        CellKind::Int => row.try_get::<_, Option<i64>>(at)?.map(Cell::Int),
        CellKind::Text => row.try_get::<_, Option<String>>(at)?.map(Cell::Text),
        CellKind::Time => row.try_get::<_, Option<Time>>(at)?.map(|Time(ts)| Cell::Time(ts)),
        CellKind::Json if *stored == Type::JSONB => {
            row.try_get::<_, Option<JsonText>>(at)?.map(|JsonText(text)| Cell::Json(text))
        }
        // The payload as received. An endpoint that maps no fields stores ''.
        CellKind::Json => row.try_get::<_, Option<String>>(at)?.filter(|text| !text.is_empty()).map(Cell::Json),
    };
    Ok(cell.unwrap_or(Cell::Null))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_numbered_in_order() {
        let text = |word: &str| Some(word.to_owned());
        let ends = |view: View, filter: ViewFilter, owner| statement(view, &view.conditions(&filter).unwrap(), owner);
        let below = ViewFilter { before_id: Some(1), ..ViewFilter::default() };
        let of = ViewFilter { provenance_code: text("p"), endpoint_name: text("e"), ..below.clone() };
        let sql = ends(View::Endpoints, of, None);
        assert_eq!(
            sql,
            "SELECT id, provenance_code, endpoint_name, role, created_at FROM reg_prov_endpoint_def \
             WHERE provenance_code = $1 AND endpoint_name = $2 AND id < $3 ORDER BY id DESC LIMIT $4"
        );
        assert!(statement(View::Keys, &[], None).ends_with("FROM api_key ORDER BY id DESC LIMIT $1"));
        let since = Some(patra_core::Ts::from_secs(1));
        let sql = ends(View::Jobs, ViewFilter { status: text("FAILED"), from: since, ..below }, Some(RowOwner::Own));
        assert!(
            sql.ends_with(
                "WHERE status_code = $1 AND created_at >= $2 AND id < $3 AND project_key = $4 ORDER BY id DESC LIMIT $5"
            ),
            "{sql}"
        );
    }
}
