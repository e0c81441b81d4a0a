//! Templates: `${ … }` in a text. Their output is bounded, the same every time, and the same under every policy for
//! null as long as nothing is null.

use std::sync::LazyLock;

use serde_json::json;

use patra_core::Window;
use patra_spec::Template;
use patra_spec::expr::{MAX_OUTPUT, NullPolicy, PageVariables, RenderContext, TemplateRules, VariableScope};

use crate::endpoint::NOW;
use crate::json_path::check_syntax_error;

/// Stands before and after the name of a credential, and nowhere else.
const MARK: char = '\u{1}';

static RULES: LazyLock<TemplateRules> = LazyLock::new(|| TemplateRules {
    scope: VariableScope { params: None, credential: true, ids: true },
    ..TemplateRules::default()
});

static CONTEXT: LazyLock<RenderContext> = LazyLock::new(|| {
    let params = json!({
        "user": "ann", "n": 3, "half": 2.5, "yes": true, "none": null, "empty": "", "list": [1, 2, "x"],
        "filter": { "from": "2024-01-01", "deep": { "a": ["b"] } }, "text": "a b/c?d=é&e\n", "mark": "a\u{1}b",
    });
    RenderContext {
        window: Some(Window { from: "2024-01-01".parse().expect("a time"), to: NOW }),
        page: PageVariables { no: 3, offset: 40, size: Some(20), token: Some("t+1".to_owned()) },
        params: params.as_object().cloned().unwrap_or_default(),
        ids: vec!["7".to_owned(), "8".to_owned()],
        now: NOW,
    }
});

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let template = match Template::compile_with(text, &RULES) {
        Ok(template) => template,
        Err(error) => return check_syntax_error(text, &error),
    };
    assert_eq!(template.as_str(), text);
    let render = |nulls| template.render_with(&CONTEXT, nulls);
    let (omitted, emptied, strict) = (render(NullPolicy::Omit), render(NullPolicy::Empty), render(NullPolicy::Error));
    assert_eq!(omitted, render(NullPolicy::Omit), "rendered twice");
    match (&omitted, &emptied) {
        (Ok(None), Ok(Some(text))) => assert!(text.is_empty(), "null became {text:?}"),
        (Ok(None), Err(_)) => panic!("null cannot be written as an empty text"),
        (omitted, emptied) => assert_eq!(omitted, emptied),
    }
    match &strict {
        Ok(text) => assert_eq!(Ok(text), omitted.as_ref()),
        Err(error) => assert!(error.to_string().len() <= MAX_OUTPUT, "an error of {} bytes", error.to_string().len()),
    }
    let Ok(rendered) = omitted.map(Option::unwrap_or_default) else { return };
    assert!(rendered.len() <= MAX_OUTPUT);
    let marks = rendered.matches(MARK).count();
    assert!(marks.is_multiple_of(2) && (marks == 0 || text.contains("credential")), "{marks} marks");
    // A path is the same text with percent-encoded values.
    if let (Ok(path), false) = (template.render_path(&CONTEXT), text.contains('%')) {
        assert_eq!(decoded(&path), rendered, "as a path: {path}");
    }
}

/// Decodes percent-encoding.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &after[2..];
            }
            None => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

pub fn hostile() -> Vec<Vec<u8>> {
    let nested =
        |open: &str, close: &str, count: usize| format!("${{ {}1{} }}", open.repeat(count), close.repeat(count));
    let texts = [
        nested("(", ")", 5_000),
        nested("(", ")", 400),
        nested("params[", "]", 60),
        nested("not ", "", 200),
        nested("1 if 1 else ", "", 80),
        "${".repeat(8_000),
        "${ 1 }".repeat(2_700),
        format!("${{ 'x'{} }}", " | replace('x', 'xx')".repeat(40)),
        format!("${{ {}params.text }}", "params.text ~ ".repeat(16)),
        "${ regex_search(params.text, '(a+)+$') }".to_owned(),
        "${ regex_search(params.text, '(?:a{1000}){1000}') }".to_owned(),
        "${ now() | add('P99999999999999999999D') }".to_owned(),
    ];
    texts.map(String::into_bytes).to_vec()
}
