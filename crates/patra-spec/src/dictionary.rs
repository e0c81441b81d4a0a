//! The dictionary of codes (ING-3.2-14). It is built from the enumerations that the reader, the engine and the stores
//! use, so it cannot differ from them. The registry stores a copy for display.

use patra_core::registry::{DictItem, DictType};
use patra_core::state::{
    BatchStatus, Direction, JobStatus, Operation, PauseKind, PlanStatus, QuarantineStatus, RunStatus, SignalStatus,
    SliceStatus, TaskStatus, TriggerType, UpdateReason,
};
use patra_core::window::Align;
use patra_core::{Code, Level, cursor};

use crate::expr::NullPolicy;
use crate::keywords::{
    AbsentList, AuthLocation, AuthType, ClientAuth, DedupScope, EndpointRole, FieldType, Keyword, MissingDetail,
    MissingRecords, OAuth2Grant, OnFieldError, OnMaxPage, OutOfRange, PagingType, ParamLocation, RateScope, RecordKind,
    RequestMethod, ResponseFormat, RobotsRule, TotalMeaning, VerifyMode, WindowMode,
};

/// Cursor types have no enumeration; a test compares them with the database constraints.
const CURSOR_TYPES: &[&str] = &["TIME", "ID", "TOKEN"];

/// Every dictionary type with its codes, in a fixed order.
pub fn dictionary() -> Vec<DictType> {
    let scopes = [cursor::CursorScope::Global, cursor::CursorScope::Expr, cursor::CursorScope::Custom];
    let levels = [Level::L1, Level::L2, Level::L3, Level::L4];
    vec![
        keywords::<RequestMethod>("http_method", "HTTP method"),
        codes("ing_operation", "operation", Operation::ALL.iter().map(|word| word.as_str())),
        codes("ing_cursor_type", "type of a cursor", CURSOR_TYPES.iter().copied()),
        codes("ing_namespace_scope", "scope of a cursor", scopes.map(cursor::CursorScope::as_str)),
        codes("ing_direction", "direction of a cursor", Direction::ALL.iter().map(|word| word.as_str())),
        keywords::<PagingType>("pagination_type", "paging type"),
        keywords::<RateScope>("rate_scope", "scope of a rate limit"),
        keywords::<OnMaxPage>("on_max_page", "behaviour at max_page"),
        keywords::<VerifyMode>("pagination_verify", "check of completeness"),
        keywords::<AuthType>("auth_type", "authentication type"),
        keywords::<AuthLocation>("auth_location", "location of a credential"),
        keywords::<OAuth2Grant>("oauth2_grant", "OAuth 2.0 grant type"),
        keywords::<ClientAuth>("oauth2_client_auth", "OAuth 2.0 client authentication"),
        keywords::<ParamLocation>("param_location", "location of a parameter"),
        keywords::<EndpointRole>("endpoint_role", "role of an endpoint"),
        keywords::<MissingDetail>("missing_detail", "handling of ids without a record"),
        keywords::<RecordKind>("record_kind", "kind of a record"),
        keywords::<ResponseFormat>("response_format", "format of a response"),
        keywords::<AbsentList>("absent_list", "handling of a response without its list"),
        keywords::<TotalMeaning>("total_meaning", "meaning of the total of a response"),
        keywords::<DedupScope>("dedup_scope", "scope of unique ids"),
        keywords::<FieldType>("field_type", "type of a field"),
        keywords::<OnFieldError>("on_error", "handling of fields that cannot be cast"),
        keywords::<RobotsRule>("robots_rule", "whether robots.txt decides about a request"),
        keywords::<WindowMode>("window_mode", "what a slice reads"),
        keywords::<MissingRecords>("missing_records", "handling of records that a list no longer has"),
        keywords::<Align>("window_align", "alignment of slices"),
        keywords::<OutOfRange>("out_of_range", "handling of records outside their window"),
        keywords::<UpdateReason>("update_reason", "reason of an UPDATE"),
        keywords::<NullPolicy>("null_policy", "handling of null in a template"),
        codes("error_level", "level of an error", levels.map(Level::as_str)),
        codes("error_code", "error code", Code::ALL.iter().map(|word| word.as_str())),
        codes("trigger_type", "origin of a job", TriggerType::ALL.iter().map(|word| word.as_str())),
        codes("trigger_status", "state of a job", JobStatus::ALL.iter().map(|word| word.as_str())),
        codes("plan_status", "state of a plan", PlanStatus::ALL.iter().map(|word| word.as_str())),
        codes("slice_status", "state of a slice", SliceStatus::ALL.iter().map(|word| word.as_str())),
        codes("task_status", "state of a task", TaskStatus::ALL.iter().map(|word| word.as_str())),
        codes("run_status", "state of a run", RunStatus::ALL.iter().map(|word| word.as_str())),
        codes("batch_status", "state of a batch", BatchStatus::ALL.iter().map(|word| word.as_str())),
        codes("hold_kind", "kind of a pause", PauseKind::ALL.iter().map(|word| word.as_str())),
        codes(
            "quarantine_status",
            "state of a quarantined record",
            QuarantineStatus::ALL.iter().map(|word| word.as_str()),
        ),
        codes("signal_status", "state of a signal", SignalStatus::ALL.iter().map(|word| word.as_str())),
    ]
}

fn keywords<W: Keyword>(code: &str, name: &str) -> DictType {
    let items = W::all().iter().map(|word| item(word.code(), word.aliases()));
    DictType { code: code.to_owned(), name: name.to_owned(), items: items.collect() }
}

fn codes(code: &str, name: &str, words: impl IntoIterator<Item = &'static str>) -> DictType {
    let items = words.into_iter().map(|word| item(word, &[]));
    DictType { code: code.to_owned(), name: name.to_owned(), items: items.collect() }
}

fn item(code: &str, aliases: &[&str]) -> DictItem {
    let name = code.to_lowercase().replace('_', " ");
    DictItem { code: code.to_owned(), name, aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::read::key_schema::{ValueFormat, key_schemas};

    const SQLITE: &str = include_str!("../../patra-store-sqlite/migrations/001_init.sql");
    const POSTGRES: &str = include_str!("../../patra-store-postgres/migrations/001_init.sql");

    fn words_of(code: &str) -> Vec<String> {
        let found = dictionary().into_iter().find(|found| found.code == code).unwrap_or_else(|| panic!("no {code}"));
        found.items.into_iter().map(|item| item.code).collect()
    }

    // covers: ING-3.2-14, ING-3.3-06, ING-4.17-07
    #[test]
    fn every_keyword_of_the_manifest_language_is_in_the_dictionary() {
        let types: Vec<BTreeSet<String>> = dictionary()
            .into_iter()
            .map(|found| found.items.into_iter().flat_map(|item| [vec![item.code], item.aliases].concat()))
            .map(|words| words.map(|word| word.to_lowercase()).collect())
            .collect();
        let mut checked = 0;
        for (path, schema) in key_schemas() {
            let Some(ValueFormat::Keywords(words)) = &schema.format else { continue };
            let words: BTreeSet<_> = words.iter().cloned().collect();
            // An error rule cannot have the level for single records.
            let known = types.contains(&words) || (path.ends_with("errors[].level") && words.len() == 3);
            assert!(known, "{path}: {words:?} is not a type of the dictionary");
            checked += 1;
        }
        assert!(checked > 20, "{checked}");
        let problem = crate::read("t.yaml", "provenance: x\nendpoints: { a: { role: finder } }").unwrap_err();
        assert!(problem.to_string().contains("`finder` is not one of search, detail, metrics"), "{problem}");
    }

    // covers: ING-3.2-14, ING-4.17-07
    #[test]
    fn database_constraints_match_the_dictionary() {
        let status = |table: &str| match table {
            "ing_schedule_instance" => Some("trigger_status"),
            "ing_plan" => Some("plan_status"),
            "ing_plan_slice" => Some("slice_status"),
            "ing_task" => Some("task_status"),
            "ing_task_run" => Some("run_status"),
            "ing_task_run_batch" => Some("batch_status"),
            "item_quarantine" => Some("quarantine_status"),
            "ing_signal" => Some("signal_status"),
            _ => None,
        };
        let mut seen = BTreeSet::new();
        for sql in [SQLITE, POSTGRES] {
            let mut table = "";
            for line in sql.lines() {
                if let Some(rest) = line.trim().strip_prefix("CREATE TABLE ") {
                    table = rest.trim_start_matches("IF NOT EXISTS ").split([' ', '(']).next().unwrap();
                }
                let Some((before, list)) = line.split_once(" IN (") else { continue };
                let Some((list, _)) = list.split_once("))") else { continue };
                let column = before.rsplit(['(', ' ']).next().unwrap();
                let code = match column {
                    "role" => Some("endpoint_role"),
                    "operation_code" => Some("ing_operation"),
                    "trigger_type_code" => Some("trigger_type"),
                    "namespace_scope_code" => Some("ing_namespace_scope"),
                    "cursor_type_code" => Some("ing_cursor_type"),
                    "direction_code" => Some("ing_direction"),
                    "reason_code" => Some("update_reason"),
                    "kind_code" if table == "ing_hold" => Some("hold_kind"),
                    "status_code" if !line.contains(") = (") => status(table),
                    _ => None,
                };
                let Some(code) = code else { continue };
                let words = list.split(',').map(|word| word.trim().trim_matches('\''));
                // A key column has no null: an empty text means no reason.
                let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
                assert_eq!(words, words_of(code), "{table}.{column}");
                seen.insert(code);
            }
        }
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    // covers: ING-3.2-14
    #[test]
    fn alias_is_accepted_and_the_keyword_is_stored() {
        let yaml = include_str!("../tests/it/works.yaml");
        let stored = |align: &str| {
            let yaml = yaml.replace("align: hour", &format!("align: {align}"));
            crate::read("t.yaml", &yaml).unwrap().to_document()["endpoints"]["works"]["window"]["align"].clone()
        };
        assert_eq!((stored("minute"), stored("MIN"), stored("Minute")), ("min".into(), "min".into(), "min".into()));
        let align = dictionary().into_iter().find(|found| found.code == "window_align").unwrap();
        assert_eq!((align.items[0].code.as_str(), &align.items[0].aliases[..]), ("min", &["minute".to_owned()][..]));
    }

    #[test]
    fn dictionary_is_valid_for_a_store() {
        let types = dictionary();
        assert_eq!(patra_core::tx::SyncDictionary { types }.invalid_reason(), None);
        assert_eq!(words_of("http_method"), ["GET", "POST"]);
    }
}
