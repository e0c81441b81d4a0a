//! The whole registry entry of a provenance in one statement: one snapshot, however many endpoints there are.

use patra_core::port::query::RegisteredProvenance;
use patra_core::registry::{RegistryRow, RegistryTable};

use crate::error::{Fail, refused};
use crate::pool::Session;

macro_rules! sections {
    ($($name:literal),* $(,)?) => {
        pub(super) const READ: &str = concat!(
            "SELECT 'reg_provenance', '*', config, document_hash FROM reg_provenance WHERE provenance_code = $1",
            $(" UNION ALL SELECT '", $name, "', endpoint_name, config, NULL FROM ", $name, " WHERE provenance_code = $1"),*
        );
    };
}

sections! {
    "reg_prov_endpoint_def",
    "reg_prov_http_cfg",
    "reg_prov_pagination_cfg",
    "reg_prov_window_offset_cfg",
    "reg_prov_retry_cfg",
    "reg_prov_rate_limit_cfg",
    "reg_prov_batching_cfg",
    "reg_prov_api_param_map",
    "reg_prov_expr_capability",
    "reg_prov_expr_render_rule",
    "reg_expr_field_dict",
}

pub(crate) async fn read(session: &Session, provenance_code: String) -> Result<Option<RegisteredProvenance>, Fail> {
    let [statement] = session.prepare([READ]).await?;
    let (mut document_hash, mut rows) = (None, Vec::new());
    for row in session.rows(&statement, &[&provenance_code]).await? {
        let name: &str = row.try_get(0)?;
        let table =
            RegistryTable::named(name).ok_or_else(|| refused(format!("{name} is not a table of the registry")))?;
        document_hash = document_hash.or(row.try_get(3)?);
        rows.push(RegistryRow { table, endpoint_name: row.try_get(1)?, config: row.try_get(2)? });
    }
    rows.sort();
    Ok(document_hash.map(|document_hash| RegisteredProvenance { document_hash, rows }))
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-3.7-03
    #[test]
    fn the_one_statement_reads_every_table() {
        for table in RegistryTable::ALL {
            assert!(READ.contains(&format!("FROM {} WHERE", table.name())), "{}", table.name());
        }
        assert_eq!(READ.matches(" FROM ").count(), RegistryTable::ALL.len());
        assert!(READ.contains(&format!("'{}'", patra_core::registry::WHOLE)));
    }
}
