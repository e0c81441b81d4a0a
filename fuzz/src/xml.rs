//! XML responses. The first byte chooses how the endpoint reads them. Items that were read strictly are written again as
//! XML and must read the same.

use std::fmt::Write as _;
use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value};

use patra_connectors::Pager;
use patra_core::protocol::run::FetchedPage;

use crate::{endpoint, repeated};

static PAGERS: LazyLock<Vec<Pager>> = LazyLock::new(|| {
    let pager = |more: &str| {
        let response = format!(
            "response: {{ format: xml, items_path: $.r.l.i, id_path: \"$['@id']\", updated_at_path: $.at{more} }}\nfields: {{ t: $.t, first: \"$.c[0]\" }}"
        );
        endpoint::pager(&response)
    };
    vec![
        // The first one is written again.
        pager(""),
        pager(", lenient: true"),
        pager(", xml: { lists: [c], texts: [t] }"),
        pager(", lenient: true, xml: { lists: [c, d], texts: [t, b] }"),
    ]
});

pub fn check(data: &[u8]) {
    let Some((choice, body)) = data.split_first() else { return };
    let choice = usize::from(*choice) % PAGERS.len();
    let Ok(page) = endpoint::read(&PAGERS[choice], &Bytes::copy_from_slice(body)) else { return };
    let size: usize = page.records.iter().map(|record| record.payload.len()).sum();
    // A control character takes six bytes in JSON; names, quotes and commas are shorter than the tags they come from.
    assert!(size <= 8 * body.len() + 1_024, "{} bytes grow to {size}", body.len());
    let items: Vec<_> = page.records.iter().map(|record| object(&record.payload)).collect();
    // The reader takes anything for a name: `<a<b>`.
    if choice == 0 && !items.is_empty() && items.iter().all(has_plain_names) {
        let xml = written(&items);
        let again = endpoint::read(&PAGERS[0], &Bytes::copy_from_slice(xml.as_bytes()));
        let again: Box<FetchedPage> = again.unwrap_or_else(|failure| panic!("{} in {xml}", failure.fault));
        let again: Vec<_> = again.records.iter().map(|record| object(&record.payload)).collect();
        assert_eq!(again, items, "{xml}");
    }
}

fn object(payload: &str) -> Map<String, Value> {
    serde_json::from_str(payload).unwrap_or_else(|error| panic!("{error}: {payload}"))
}

fn has_plain_names(members: &Map<String, Value>) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    members.iter().all(|(name, value)| {
        let name = name.strip_prefix('@').unwrap_or(name);
        let inside = match value {
            Value::Object(members) => has_plain_names(members),
            Value::Array(values) => values.iter().filter_map(Value::as_object).all(has_plain_names),
            _ => true,
        };
        inside && (name == "#text" || (!name.is_empty() && name.chars().all(part)))
    })
}

fn written(items: &[Map<String, Value>]) -> String {
    let mut xml = "<r><l>".to_owned();
    for item in items {
        element("i", &Value::Object(item.clone()), &mut xml);
    }
    xml + "</l></r>"
}

fn element(name: &str, value: &Value, xml: &mut String) {
    let _ = write!(xml, "<{name}");
    let none = Map::new();
    let (members, text) = match value {
        Value::Object(members) => (members, members.get("#text").unwrap_or(&Value::Null)),
        text => (&none, text),
    };
    for (name, value) in members.iter().filter_map(|(name, value)| Some((name.strip_prefix('@')?, value))) {
        let _ = write!(xml, " {name}=\"{}\"", escaped(value));
    }
    xml.push('>');
    for (name, value) in members.iter().filter(|(name, _)| !name.starts_with('@') && *name != "#text") {
        match value {
            Value::Array(values) => values.iter().for_each(|value| element(name, value, xml)),
            value => element(name, value, xml),
        }
    }
    let _ = write!(xml, "{}</{name}>", escaped(text));
}

fn escaped(text: &Value) -> String {
    let text = text.as_str().unwrap_or_default();
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    // Read as line feeds otherwise.
    text.replace('\r', "&#13;")
}

pub fn hostile() -> Vec<Vec<u8>> {
    let entity = "<!DOCTYPE r [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;\">]>";
    vec![
        repeated("\0<r><l>", "<i/>", 260_000, "</l></r>"),
        repeated("\0<r><l>", "<i/>", 20_000, "</l></r>"),
        repeated("\0<r><l>", "<i id='1'><at>5</at></i>", 5_000, "</l></r>"),
        repeated("\0", "<a>", 20_000, ""),
        repeated("\0<r", " a='1'", 5_000, "/>"),
        repeated("\x01<r><l><i id='1'><at>5</at>", "&x;", 10_000, "</i></l></r>"),
        repeated(&format!("\0{entity}<r>"), "&b;", 5_000, "</r>"),
        repeated("\0<r><l><i id='1'><at>5</at><t>", "<![CDATA[x]]>", 5_000, "</t></i></l></r>"),
        repeated("\0", "<!--", 20_000, ""),
        repeated("\0<", "x", 60_000, ">"),
    ]
}
