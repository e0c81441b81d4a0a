//! Export of manifests as YAML.

use patra_core::hash::canonical;
use patra_spec::{Manifest, to_yaml};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{fingerprints, manifest, sources};

/// A written manifest reads back as the same document.
fn check(manifest: &Manifest) -> String {
    let yaml = to_yaml(manifest);
    let back = crate::manifest(&yaml);
    assert_eq!(canonical(&back.to_document()), canonical(&manifest.to_document()), "{yaml}");
    assert_eq!(to_yaml(&back), yaml, "the second time as the first");
    yaml
}

#[test]
fn repository_manifests_survive_export() {
    for yaml in sources() {
        let before = manifest(&yaml);
        let after = manifest(&check(&before));
        assert_eq!(fingerprints(&after), fingerprints(&before));
    }
}

#[test]
fn export_is_readable_yaml() {
    let yaml = "\
provenance: shop
name: The shop
description: |
  Two lines,
    the second indented.
endpoints:
  orders:
    role: search
    description: \"yes\"
    path: /orders
    http:
      base_url: https://api.example.org
      headers:
        Accept: application/json
        X-Number: \"1.0\"
      timeout: PT1M
    query:
      cursor: ${ page.token }
      q: \"a: b\"
      quoted: '\"x\" y'
    pagination:
      type: token
      page_size: 100
      next_token_path: $.message['next-cursor']
    response:
      errors:
        - path: $.error
          level: L1
          throttle: true
      items_path: $.orders
      id_path:
        - $.a
        - $.b
    record:
      add:
        empty: {}
        list:
          - 1
          - - 2.5
            - null
          - \"\"
        none: []
    rate_limit:
      refill_rate_per_sec: 0.5
tests:
  - name: one
    recorded: one.json
";
    assert_eq!(check(&manifest(yaml)), yaml);
}

/// Texts that look like another type, and texts that are hard to write.
const NASTY: &[&str] = &[
    "",
    " ",
    "  lead",
    "trail ",
    ":",
    "a: b",
    "a:",
    "a :b",
    "#",
    "a #b",
    "a#b",
    "yes",
    "No",
    "on",
    "null",
    "~",
    "true",
    "1.0",
    "1_000",
    "0x10",
    "1e3",
    "-1",
    "+1",
    ".5",
    ".inf",
    "NaN",
    "2024-01-01",
    "12:30:45",
    "<<",
    "=",
    "---",
    "...",
    "--- a",
    "- a",
    "-",
    "? a",
    "?",
    "!tag",
    "&anchor",
    "*alias",
    "|",
    ">",
    "%x",
    "@x",
    "`x`",
    "[a]",
    "{a}",
    "a, b",
    "'",
    "''",
    "\"",
    "\\",
    "\\n",
    "a\nb",
    "a\n",
    "\na",
    "a\n\n",
    "a\n b\n\tc",
    " a\nb",
    "a\r\nb",
    "a \nb",
    "\t",
    "a\tb",
    "\u{1}x",
    "\u{7f}",
    "\u{85}",
    "\u{a0}",
    "\u{2028}",
    "\u{feff}x",
    "\u{fffe}",
    "\u{ffff}",
    "ä",
    "日本語",
    "🦀",
    "e\u{301}",
    "\u{10ffff}",
    "\u{200b}",
    "a\n#b",
    "a\n---\nb",
    "a\n...\nb",
    "a:\n  b",
    "$.a",
    "/",
    "_",
];

/// A manifest with a text wherever any text is allowed.
fn manifest_with(text: &str, name: &str) -> Manifest {
    let mut document = manifest(
        "provenance: nasty\nendpoints:\n  one:\n    http: { base_url: \"https://x.org\" }\n    response: { format: csv, id_path: $.id }\n",
    )
    .to_document();
    document["name"] = json!(text);
    document["description"] = json!(text);
    document["endpoints"]["one"]["description"] = json!(text);
    document["endpoints"]["one"]["record"] = json!({
        "add": {
            "text": text,
            name: { name: [text, [text], { text: name }, []] },
            "numbers": [0, -1, 1.5, 1e21, 1e-9, u64::MAX, i64::MIN, null, true],
        },
    });
    document["tests"] = json!([text, { text: text, name: null }, [[text]], {}, []]);
    // Request values must be valid templates.
    if !text.contains("${") && !text.contains(char::is_control) && !name.is_empty() {
        document["endpoints"]["one"]["query"] = json!({ name: text, "long": { "expr": "x", "default": text } });
    }
    Manifest::from_document(&document).unwrap()
}

#[test]
fn unusual_texts_survive_export() {
    for text in NASTY {
        check(&manifest_with(text, text));
        check(&manifest_with(&format!("{text}x"), "name"));
        check(&manifest_with(&format!("x{text}"), "name"));
        check(&manifest_with("text", &format!("{text}{text}")));
    }
    let long = "k".repeat(1_200);
    check(&manifest_with(&long, &long));
    check(&manifest_with(&"two words ".repeat(300), &"ä: ".repeat(300)));
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|number: f64| Value::from((number * 1e6).round() / 1e6)),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any_text(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        // No NUL: databases cannot store it.
        any::<String>().prop_map(|text| text.replace('\0', "")),
        "\\PC{0,12}",
        "[ \n\t:#\\-'\"a-c0-9\\[\\]{}&*!|>%@,?]{0,12}",
        prop::sample::select(NASTY).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_text_and_any_json_survive(text in any_text(), name in any_text(), json in any_json()) {
        let mut document = manifest_with(&text, &name).to_document();
        document["tests"] = json!([json]);
        check(&Manifest::from_document(&document).unwrap());
    }
}
