//! The dictionary of codes (ING-3.2-14): made of the very enumerations that the reader, the engine and the stores work
//! with, so that it cannot say anything else. What the registry keeps of it is a copy for those who look.

use patra_core::registry::{DictItem, DictType};
use patra_core::state::{
    BatchStatus, Direction, HoldKind, Operation, PlanStatus, QuarantineStatus, RunStatus, SignalStatus, SliceStatus,
    TaskStatus, TriggerStatus, TriggerType, UpdateReason,
};
use patra_core::window::Align;
use patra_core::{Code, Level, cursor};

use crate::expr::NullPolicy;
use crate::words::{
    AuthLocation, AuthType, ClientAuth, DedupScope, FieldType, Format, Grant, Kind, Method, Missing, OnError,
    OnMaxPage, OutOfRange, PagingType, ParamLocation, RateScope, Role, Word,
};

/// What the databases know beside the enumerations; a test holds it against their constraints.
const CURSOR_TYPES: &[&str] = &["TIME", "ID", "TOKEN"];

/// Every type with its words, in a fixed order.
pub fn dictionary() -> Vec<DictType> {
    let scopes = [cursor::Scope::Global, cursor::Scope::Expr, cursor::Scope::Custom];
    let levels = [Level::L1, Level::L2, Level::L3, Level::L4];
    vec![
        words::<Method>("http_method", "HTTP method"),
        codes("ing_operation", "operation", Operation::ALL.iter().map(|word| word.as_str())),
        codes("ing_cursor_type", "what a cursor counts", CURSOR_TYPES.iter().copied()),
        codes("ing_namespace_scope", "whose progress a cursor is", scopes.map(cursor::Scope::as_str)),
        codes("ing_direction", "direction of a cursor", Direction::ALL.iter().map(|word| word.as_str())),
        words::<PagingType>("pagination_type", "how an endpoint pages"),
        words::<RateScope>("rate_scope", "what a rate holds for"),
        words::<OnMaxPage>("on_max_page", "what happens at the last page allowed"),
        words::<AuthType>("auth_type", "how we prove who we are"),
        words::<AuthLocation>("auth_location", "where a credential goes"),
        words::<Grant>("oauth2_grant", "how tokens are asked for"),
        words::<ClientAuth>("oauth2_client_auth", "how a client names itself"),
        words::<ParamLocation>("param_location", "where a parameter goes"),
        words::<Role>("endpoint_role", "what an endpoint is for"),
        words::<Missing>("missing_detail", "what an id without a record is"),
        words::<Kind>("record_kind", "what a record is"),
        words::<Format>("response_format", "how an answer is written"),
        words::<DedupScope>("dedup_scope", "within what ids are unique"),
        words::<FieldType>("field_type", "what a field is made into"),
        words::<OnError>("on_error", "what a field that does not fit does"),
        words::<Align>("window_align", "where slices are cut"),
        words::<OutOfRange>("out_of_range", "what becomes of records outside their window"),
        words::<UpdateReason>("update_reason", "why stored records are fetched again"),
        words::<NullPolicy>("null_policy", "what becomes of null in a template"),
        codes("error_level", "how bad an error is", levels.map(Level::as_str)),
        codes("error_code", "error", Code::ALL.iter().map(|word| word.as_str())),
        codes("trigger_type", "what asked for the work", TriggerType::ALL.iter().map(|word| word.as_str())),
        codes("trigger_status", "state of a trigger", TriggerStatus::ALL.iter().map(|word| word.as_str())),
        codes("plan_status", "state of a plan", PlanStatus::ALL.iter().map(|word| word.as_str())),
        codes("slice_status", "state of a slice", SliceStatus::ALL.iter().map(|word| word.as_str())),
        codes("task_status", "state of a task", TaskStatus::ALL.iter().map(|word| word.as_str())),
        codes("run_status", "state of a run", RunStatus::ALL.iter().map(|word| word.as_str())),
        codes("batch_status", "state of a batch", BatchStatus::ALL.iter().map(|word| word.as_str())),
        codes("hold_kind", "why work stands still", HoldKind::ALL.iter().map(|word| word.as_str())),
        codes(
            "quarantine_status",
            "state of a record set aside",
            QuarantineStatus::ALL.iter().map(|word| word.as_str()),
        ),
        codes("signal_status", "state of a signal", SignalStatus::ALL.iter().map(|word| word.as_str())),
    ]
}

fn words<W: Word>(code: &str, name: &str) -> DictType {
    let items = W::all().iter().map(|word| item(word.word(), word.aliases()));
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
    use crate::read::tour::{Form, shapes};

    const SQLITE: &str = include_str!("../../patra-store-sqlite/migrations/001_init.sql");
    const POSTGRES: &str = include_str!("../../patra-store-postgres/migrations/001_init.sql");

    fn words_of(code: &str) -> Vec<String> {
        let found = dictionary().into_iter().find(|found| found.code == code).unwrap_or_else(|| panic!("no {code}"));
        found.items.into_iter().map(|item| item.code).collect()
    }

    // covers: ING-3.2-14, ING-3.3-06, ING-4.17-07
    #[test]
    fn every_word_of_the_manifest_language_is_in_the_dictionary() {
        let types: Vec<BTreeSet<String>> = dictionary()
            .into_iter()
            .map(|found| found.items.into_iter().flat_map(|item| [vec![item.code], item.aliases].concat()))
            .map(|words| words.map(|word| word.to_lowercase()).collect())
            .collect();
        let mut checked = 0;
        for (path, shape) in shapes() {
            let Some(Form::Words(words)) = &shape.form else { continue };
            let words: BTreeSet<_> = words.iter().cloned().collect();
            // An error rule has no level for single records.
            let known = types.contains(&words) || (path.ends_with("errors[].level") && words.len() == 3);
            assert!(known, "{path}: {words:?} is no type of the dictionary");
            checked += 1;
        }
        assert!(checked > 20, "{checked}");
        let problem = crate::read("t.yaml", "provenance: x\nendpoints: { a: { role: finder } }").unwrap_err();
        assert!(problem.to_string().contains("`finder` is not one of search, detail, metrics"), "{problem}");
    }

    // covers: ING-3.2-14, ING-4.17-07
    #[test]
    fn the_databases_allow_exactly_the_words_of_the_dictionary() {
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
                // A key has no null: the empty text stands for no reason.
                let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
                assert_eq!(words, words_of(code), "{table}.{column}");
                seen.insert(code);
            }
        }
        assert_eq!(seen.len(), 16, "{seen:?}");
    }

    // covers: ING-3.2-14
    #[test]
    fn an_alias_is_read_and_the_word_is_stored() {
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
    fn the_dictionary_is_one_that_a_store_accepts() {
        let types = dictionary();
        assert_eq!(patra_core::tx::SyncDictionary { types }.flaw(), None);
        assert_eq!(words_of("http_method"), ["GET", "POST"]);
    }
}
