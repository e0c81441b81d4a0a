//! Raw responses of the upstream, kept for a while.

use patra_core::RunId;
use patra_core::tx::RawResponse;
use tokio_postgres::Statement;

use crate::error::Fail;
use crate::pool::Session;
use crate::time::Time;

pub(super) const INSERT: &str = "
INSERT INTO ing_raw (run_id, batch_no, status, headers, body, created_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (run_id, batch_no) DO NOTHING";

#[cfg(test)]
pub(super) const STATEMENTS: &[&str] = &[INSERT];

pub(super) async fn keep(
    session: &Session,
    insert: &Statement,
    run: RunId,
    batch_no: u32,
    response: Option<&RawResponse>,
    now: Time,
) -> Result<(), Fail> {
    let Some(RawResponse { status, headers, body, keep }) = response else { return Ok(()) };
    let (batch_no, status, expires_at) = (i64::from(batch_no), i32::from(*status), Time(now.0 + *keep));
    session.write(insert, &[&run.0, &batch_no, &status, headers, &&body[..], &now, &expires_at]).await?;
    Ok(())
}
