//! [`Ts`] as `timestamptz`: PostgreSQL counts microseconds from 2000, we from 1970.

use std::error::Error;

use bytes::{BufMut, BytesMut};
use patra_core::{Ts, Window};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

use crate::error::Fail;

/// 2000-01-01 in microseconds since 1970.
const EPOCH: i64 = 946_684_800_000_000;

/// A time as a column or a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Time(pub(crate) Ts);

impl ToSql for Time {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let micros = self.0.micros().checked_sub(EPOCH).ok_or("a time lies before what a timestamp can hold")?;
        out.put_i64(micros);
        Ok(IsNull::No)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Time {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Time, Box<dyn Error + Sync + Send>> {
        let micros = i64::from_be_bytes(raw.try_into()?);
        // The two infinities are the ends of the range; they are never written.
        let micros = micros.checked_add(EPOCH).ok_or("a timestamp is infinite")?;
        Ok(Time(Ts::from_micros(micros)))
    }

    accepts!(TIMESTAMPTZ);
}

/// Reads an optional time.
pub(crate) fn maybe(row: &Row, at: usize) -> Result<Option<Ts>, Fail> {
    Ok(row.try_get::<_, Option<Time>>(at)?.map(|Time(ts)| ts))
}

/// Reads a window from two columns, from `at` on; both are set or neither is.
pub(crate) fn window(row: &Row, at: usize) -> Result<Option<Window>, Fail> {
    Ok(maybe(row, at)?.zip(maybe(row, at + 1)?).map(|(from, to)| Window { from, to }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, wire: i64) {
        let ts: Ts = text.parse().unwrap();
        let mut out = BytesMut::new();
        Time(ts).to_sql(&Type::TIMESTAMPTZ, &mut out).unwrap();
        assert_eq!(out[..], wire.to_be_bytes(), "{text}");
        assert_eq!(Time::from_sql(&Type::TIMESTAMPTZ, &out).unwrap(), Time(ts));
    }

    #[test]
    fn times_count_from_2000_on_the_wire() {
        check("2000-01-01T00:00:00Z", 0);
        check("2000-01-01T00:00:00.000001Z", 1);
        check("1970-01-01T00:00:00Z", -EPOCH);
        check("2026-11-15T20:46:00.123456Z", 848_090_760_123_456);
    }

    #[test]
    fn time_outside_the_timestamp_range_is_an_error() {
        assert!(Time(Ts::MIN).to_sql(&Type::TIMESTAMPTZ, &mut BytesMut::new()).is_err());
        assert!(Time::from_sql(&Type::TIMESTAMPTZ, &i64::MAX.to_be_bytes()).is_err());
    }
}
