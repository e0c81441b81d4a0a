//! Many rows as parameters of one statement: each column is an array for `unnest`.

use std::error::Error;
use std::fmt;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{IsNull, Kind, ToSql, Type, to_sql_checked};

pub(crate) type Value<'a> = &'a (dyn ToSql + Sync);

/// The values of one column, one per row.
struct Column<'a>(Vec<Value<'a>>);

/// Rows of `N` columns.
pub(crate) struct Rows<'a, const N: usize>([Column<'a>; N]);

impl<'a, const N: usize> Rows<'a, N> {
    pub(crate) fn params(&self) -> [Value<'_>; N] {
        self.0.each_ref().map(|column| column as Value<'_>)
    }
}

impl<'a, const N: usize> FromIterator<[Value<'a>; N]> for Rows<'a, N> {
    fn from_iter<I: IntoIterator<Item = [Value<'a>; N]>>(rows: I) -> Rows<'a, N> {
        let mut columns = [const { Column(Vec::new()) }; N];
        for row in rows {
            for (column, value) in columns.iter_mut().zip(row) {
                column.0.push(value);
            }
        }
        Rows(columns)
    }
}

impl fmt::Debug for Column<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Column").field(&self.0.len()).finish()
    }
}

impl ToSql for Column<'_> {
    /// The binary format of a one-dimensional array that begins at 1.
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let Kind::Array(member) = ty.kind() else { return Err(format!("{ty} is not an array").into()) };
        out.put_i32(1);
        let has_nulls_at = out.len();
        out.put_i32(0);
        out.put_u32(member.oid());
        out.put_i32(i32::try_from(self.0.len())?);
        out.put_i32(1);
        for value in &self.0 {
            let at = out.len();
            out.put_i32(-1);
            match value.to_sql_checked(member, out)? {
                IsNull::Yes => out[has_nulls_at..][..4].copy_from_slice(&1_i32.to_be_bytes()),
                IsNull::No => {
                    let length = i32::try_from(out.len() - at - 4)?;
                    out[at..][..4].copy_from_slice(&length.to_be_bytes());
                }
            }
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use tokio_postgres::types::FromSql as _;

    use super::*;

    #[test]
    fn rows_become_arrays_of_their_columns() {
        let (one, two, none): (i64, i64, Option<&str>) = (1, 2, None);
        let rows: Rows<'_, 2> = [[&one as Value<'_>, &"a"], [&two, &none]].into_iter().collect();
        let [ids, names] = rows.params();
        let mut out = BytesMut::new();
        ids.to_sql_checked(&Type::INT8_ARRAY, &mut out).unwrap();
        assert_eq!(Vec::<i64>::from_sql(&Type::INT8_ARRAY, &out).unwrap(), [1, 2]);
        out.clear();
        names.to_sql_checked(&Type::TEXT_ARRAY, &mut out).unwrap();
        assert_eq!(Vec::<Option<&str>>::from_sql(&Type::TEXT_ARRAY, &out).unwrap(), [Some("a"), None]);
    }

    #[test]
    fn a_value_of_another_type_is_refused() {
        let rows: Rows<'_, 1> = [[&1_i64 as Value<'_>]].into_iter().collect();
        let [ids] = rows.params();
        assert!(ids.to_sql_checked(&Type::TEXT_ARRAY, &mut BytesMut::new()).is_err());
        assert!(ids.to_sql_checked(&Type::INT8, &mut BytesMut::new()).is_err());
    }
}
