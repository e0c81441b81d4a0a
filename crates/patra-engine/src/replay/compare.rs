//! The difference table: the recording against the replay.

use serde_json::Value;

use patra_core::paging::{PageStep, PageWalk, Position};
use patra_core::protocol::run::{FetchedPage, PageFailure};

use super::recording::ParsedRecording;
use super::report::{Agreement, ReplayCheck};

/// Longest text of a cell.
const MAX_CELL: usize = 120;

/// Checks that the rows of the ledger belong together and to the spec.
pub(super) fn context(case: &ParsedRecording) -> ReplayCheck {
    let apart: Vec<_> = case.context.iter().filter(|(_, one, other)| one != other).collect();
    match apart.first() {
        None => ReplayCheck::of("context", case.keys.spec_fingerprint.clone(), case.keys.spec_fingerprint.clone()),
        Some((what, one, other)) => ReplayCheck::of("context", one.clone(), format!("{what}: {other}")),
    }
}

/// Compares the recorded request with the one that is rendered now.
pub(super) fn request(recorded: &Value, rebuilt: &str) -> ReplayCheck {
    let (recorded, rebuilt) = (plain(recorded.clone()), plain(serde_json::from_str(rebuilt).unwrap_or_default()));
    let shown = |digest: &Value| cut(&format!("{} {}", word(&digest["method"]), word(&digest["url"])));
    if recorded == rebuilt {
        return ReplayCheck::of("request", shown(&recorded), shown(&rebuilt));
    }
    let names = ["method", "url", "query", "headers", "bodyHash", "now"];
    let apart: Vec<_> = names.into_iter().filter(|name| recorded[*name] != rebuilt[*name]).collect();
    let of = |digest: &Value| apart.iter().map(|name| format!("{name} {}", digest[*name])).collect::<Vec<_>>();
    let side = |digest: &Value| cut(&of(digest).join(", "));
    ReplayCheck { what: "request", recorded: side(&recorded), replayed: side(&rebuilt), result: Agreement::Different }
}

/// Ignores the credential and the template of the request: the spec has the template.
fn plain(mut digest: Value) -> Value {
    if let Some(map) = digest.as_object_mut() {
        map.remove("credentialId");
        map.remove("urlTemplate");
    }
    digest
}

/// Compares the response, member by member of its digest.
pub(super) fn answer(recorded: &Value, replayed: &str) -> Vec<ReplayCheck> {
    let replayed: Value = serde_json::from_str(replayed).unwrap_or_default();
    let members = [
        ("status", "status"),
        ("itemsCount", "itemsCount"),
        ("nextHint", "next"),
        ("sample hash", "sample"),
        ("body hash", "bodyHash"),
        ("rows", "rowsHash"),
        ("rejected", "rejected"),
        ("refusal", "refused"),
    ];
    let check = |(what, member): (&'static str, &str)| {
        let (then, now) = (&recorded[member], &replayed[member]);
        let check = ReplayCheck::of(what, cut(&word(then)), cut(&word(now)));
        match (then.is_null(), now.is_null()) {
            (true, true) => None,
            // A refusal lacks the members of a page, and the other way round.
            _ => {
                Some(ReplayCheck { result: if then == now { Agreement::Same } else { Agreement::Different }, ..check })
            }
        }
    };
    members.into_iter().filter_map(check).collect()
}

/// The check when no response came this time.
pub(super) fn silence(recorded: &Value, why: &str) -> ReplayCheck {
    ReplayCheck::of("status", cut(&word(&recorded["status"])), cut(&format!("no response: {why}")))
}

/// Compares the next position. The pages before this one may have decided it: then the result is unknown, not
/// different.
pub(super) fn position(
    case: &ParsedRecording,
    result: &Result<Box<FetchedPage>, Box<PageFailure>>,
) -> Option<ReplayCheck> {
    let Ok(page) = result else { return None };
    if case.has_failed() {
        return None;
    }
    let behind = behind(case, page)?;
    let check = ReplayCheck::of("position", place(case.next.as_ref()), place(behind.as_ref()));
    let result = if check.result == Agreement::Same { Agreement::Same } else { Agreement::Unknown };
    Some(ReplayCheck { result, ..check })
}

fn behind(case: &ParsedRecording, page: &FetchedPage) -> Option<Option<Position>> {
    let here = &case.position;
    if matches!(here, Position::Ids { .. } | Position::Keys { .. }) {
        return None;
    }
    let mut rule = case.snapshot.paging();
    if case.page_size > 0 {
        rule.page_size = case.page_size;
    }
    // Of a total, one page alone proves nothing.
    rule.estimates = true;
    let mut walk = PageWalk::alone(*here == rule.first());
    match walk.after(&rule, here, &page.facts, page.content, &page.rejected) {
        PageStep::Next { next, .. } | PageStep::TooMuch { next, .. } | PageStep::MaxPage { next, .. } => {
            Some(Some(next))
        }
        PageStep::Again => Some(Some(here.clone())),
        PageStep::End(_) => Some(None),
        PageStep::Restart | PageStep::Incomplete(_) | PageStep::Broken(_) => None,
    }
}

fn place(position: Option<&Position>) -> String {
    let text = position.map(|position| serde_json::to_string(position).unwrap_or_default());
    cut(&text.unwrap_or_else(|| "the end".to_owned()))
}

fn word(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_CELL {
        return text.to_owned();
    }
    text.chars().take(MAX_CELL - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn digest(query: &str, credential: Option<i64>) -> Value {
        let mut digest = json!({ "method": "GET", "url": "https://x.org/a", "query": { "q": query }, "now": "t" });
        if let Some(id) = credential {
            digest["credentialId"] = id.into();
        }
        digest
    }

    // covers: ING-14.9-09
    #[test]
    fn a_request_is_the_same_whoever_asks_and_differs_by_what_is_named() {
        let same = request(&digest("a", Some(7)), &digest("a", None).to_string());
        assert_eq!((same.result, same.recorded.as_str()), (Agreement::Same, "GET https://x.org/a"));
        let mut templated = digest("a", None);
        templated["urlTemplate"] = "https://x.org/{{ page }}".into();
        for (recorded, replayed) in [(&templated, &digest("a", None)), (&digest("a", None), &templated)] {
            assert_eq!(
                request(recorded, &replayed.to_string()).result,
                Agreement::Same,
                "recorded before templates were"
            );
        }
        let other = request(&digest("a", None), &digest("b", None).to_string());
        assert_eq!(other.result, Agreement::Different);
        assert_eq!((other.recorded.as_str(), other.replayed.as_str()), (r#"query {"q":"a"}"#, r#"query {"q":"b"}"#));
    }

    // covers: ING-14.9-10
    #[test]
    fn answers_are_compared_member_by_member() {
        let recorded =
            json!({ "status": 200, "itemsCount": 2, "next": { "token": "b" }, "sample": "s", "rejected": 0 });
        let result = |replayed: &Value| -> Vec<_> {
            answer(&recorded, &replayed.to_string()).iter().map(|check| (check.what, check.result)).collect()
        };
        assert!(result(&recorded).iter().all(|(_, result)| *result == Agreement::Same));
        let mut other = recorded.clone();
        other["next"]["token"] = "c".into();
        let differs: Vec<_> = result(&other).into_iter().filter(|(_, result)| *result != Agreement::Same).collect();
        assert_eq!(differs, [("nextHint", Agreement::Different)]);
        let refused = json!({ "status": 503, "refused": { "code": "PLATFORM_ERROR" } });
        assert!(result(&refused).contains(&("refusal", Agreement::Different)));
        assert!(result(&refused).contains(&("itemsCount", Agreement::Different)));
    }
}
