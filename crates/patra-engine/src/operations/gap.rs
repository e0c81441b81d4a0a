//! Lets a cursor pass a window that stays incomplete, because a person accepts the gap.

use patra_core::cursor::CursorValue;
use patra_core::port::query::{Cell, View, ViewFilter};
use patra_core::port::{CommandsExt, Store};
use patra_core::protocol::advance::{AdvanceStep, CursorAdvance};
use patra_core::state::Operation;
use patra_core::tx::{AcceptGap, RecordAdvance, TxError};
use patra_core::{CursorId, Window};

use crate::registry::{self, Error};

/// The cursor whose gap is accepted: by id, or the only one of an endpoint that has not passed the window.
#[derive(Clone, Debug)]
pub struct GapRequest {
    /// `None`: of every project.
    pub project: Option<String>,
    pub provenance: String,
    pub endpoint: String,
    pub operation: Operation,
    pub cursor: Option<i64>,
    pub window: Window,
    pub reason: String,
    pub by: String,
}

/// Where the cursor stands after a gap was accepted.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct AcceptedGap {
    pub cursor: i64,
    /// The cursor was past the window before.
    pub existed: bool,
    pub value: Option<String>,
}

/// Accepts the gap, and moves the cursor over it and over the complete windows behind it.
pub async fn accept_gap(store: &dyn Store, request: GapRequest) -> Result<AcceptedGap, Error> {
    let cursor = find(store, &request).await?;
    let GapRequest { window, reason, by, .. } = request;
    let accept = AcceptGap { cursor: CursorId(cursor), window, reason, by };
    let accepted = store.run(accept).await.map_err(|error| match error {
        TxError::Refused(reason) => registry::problem("gap", reason),
        error => error.into(),
    })?;
    // Once over the gap, once over what is complete behind it.
    for _ in 0..2 {
        let record = RecordAdvance { cursor: CursorId(cursor), cause: None, observed_max: None };
        let (mut advance, mut step) = CursorAdvance::start(record);
        while let AdvanceStep::Tx(tx) = step {
            step = advance.on(store.execute(tx).await);
        }
        match step {
            AdvanceStep::GaveUp(error) => return Err(error.into()),
            AdvanceStep::Done { moved_to: None } => break,
            AdvanceStep::Done { .. } | AdvanceStep::Tx(_) => {}
        }
    }
    let filter = ViewFilter { id: Some(cursor), limit: 1, ..ViewFilter::default() };
    let rows = store.list(View::Cursors, filter).await?;
    let value = rows.first().and_then(|row| View::Cursors.cell(row, "cursor_value"));
    let value = if let Some(Cell::Text(value)) = value { Some(value) } else { None };
    Ok(AcceptedGap { cursor, existed: accepted.existed, value })
}

/// Finds the cursor.
async fn find(store: &dyn Store, request: &GapRequest) -> Result<i64, Error> {
    let normal = |code: &str| code.trim().to_lowercase();
    let filter = ViewFilter {
        id: request.cursor,
        project_key: request.project.clone(),
        provenance_code: Some(normal(&request.provenance)),
        endpoint_name: Some(normal(&request.endpoint)),
        limit: ViewFilter::MAX_LIMIT,
        ..ViewFilter::default()
    };
    let (mut found, mut behind) = (Vec::new(), Vec::new());
    for row in store.list(View::Cursors, filter).await? {
        let cell = |column| View::Cursors.cell(&row, column).unwrap_or(Cell::Null);
        let operation = Cell::Text(request.operation.as_str().to_owned());
        let passed = match cell("normalized_instant") {
            Cell::Time(at) => {
                let far = CursorValue::At(match request.operation {
                    Operation::Backfill => request.window.from,
                    Operation::Harvest | Operation::Update => request.window.to,
                });
                !far.is_beyond(Some(&CursorValue::At(at)), request.operation.direction())
            }
            _ => false,
        };
        let fits = request.cursor.is_some() || cell("operation_code") == operation;
        let list = if passed { &mut behind } else { &mut found };
        list.extend(cell("id").as_int().filter(|_| fits));
    }
    match (&found[..], &behind[..]) {
        // The only cursor is past the window: the gap was accepted before.
        ([cursor], _) | ([], [cursor]) => Ok(*cursor),
        ([], _) => {
            let message = format!(
                "no cursor of {}/{} stands before the end of this window",
                request.provenance, request.endpoint
            );
            Err(Error::NotFound(message, "`patra get cursors` shows where they stand".to_owned()))
        }
        (several, _) => {
            let ids: Vec<_> = several.iter().map(i64::to_string).collect();
            let message = format!("several cursors stand before this window: name one of {}", ids.join(", "));
            Err(registry::problem("gap.cursor", message))
        }
    }
}
