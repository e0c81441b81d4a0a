//! What templates render to, what they refuse, and that abuse stays cheap.

use serde_json::json;

use patra_core::Window;

use super::*;

fn context() -> Context {
    let window = Window { from: "2026-01-31T08:00:00.123456Z".parse().unwrap(), to: "2026-02-01".parse().unwrap() };
    let page = Page { no: 3, offset: 200, size: Some(100), token: Some("a+b/=".into()) };
    let params = json!({ "user": " Ada ", "n": 7, "nothing": null, "list": [1, 2], "x-y": "odd" });
    Context { window: Some(window), page, params: params.as_object().unwrap().clone() }
}

fn show(template: &str, context: &Context) -> String {
    match Template::compile(template) {
        Err(flaw) => match flaw.hint {
            Some(hint) => format!("{}: {} ({hint})", flaw.offset, flaw.message),
            None => format!("{}: {}", flaw.offset, flaw.message),
        },
        Ok(template) => match template.render(context) {
            Ok(Some(text)) => format!("= {text}"),
            Ok(None) => "omitted".into(),
            Err(error) => format!("error: {error}"),
        },
    }
}

fn check(template: &str, expected: &str) {
    assert_eq!(show(template, &context()), expected, "{template}");
}

// covers: ING-4.8-02, ING-3.9-04
#[test]
fn variables_and_filters_render() {
    check("plain {% text %} {# and #} {{ more }} $x", "= plain {% text %} {# and #} {{ more }} $x");
    check("", "= ");
    check("${ page.token }", "= a+b/=");
    check("${page.no}-${ page.offset }-${page.size}", "= 3-200-100");
    check("${ window.from }", "= 2026-01-31T08:00:00.123456000Z");
    check("${ window.from | date }..${ window.to | date }", "= 2026-01-31..2026-02-01");
    check("${ window.from | datetime }", "= 2026-01-31T08:00:00Z");
    check("${ window.to | iso }", "= 2026-02-01T00:00:00.000000Z");
    check("${ window.from | epoch } ${ window.from | epoch_ms }", "= 1769846400 1769846400123");
    check("${ params.user | trim | lower }/${ params['x-y'] | upper }", "= ada/ODD");
    check("${ params.user | trim | replace('a', \"}\") }", "= Ad}");
    check("${ page.no - 1 } ${ page.offset + 1 } ${ 'a' ~ params.n }", "= 2 201 a7");
    check("${ 'first' if page.no == 1 else 'later' }", "= later");
    check("${ params.absent | default('x') } ${ params.nothing | default('y') }", "= x y");
    check("${ 'yes' if params.absent is not defined and page.token is not none else 'no' }", "= yes");
}

// covers: ING-4.8-02
#[test]
fn null_is_left_out() {
    let first = Context::default();
    for template in
        ["${ page.token }", "${ window.from | date }", "${ page.size }${ page.token }", "${ page.token | lower }"]
    {
        assert_eq!(show(template, &first), "omitted", "{template}");
    }
    assert_eq!(show("cursor:${ page.token }", &first), "= cursor:");
    check("${ params.nothing }", "omitted");
}

#[test]
fn what_is_not_set_is_an_error() {
    check("${ params.absent }", "error: `params.absent` is not set");
    check("${ params.absent | lower }", "error: a text is needed here, not a undefined");
    check(
        "${ params.list }",
        "error: `${ params.list }` gives a sequence; only text, numbers and booleans can be rendered",
    );
    check("${ params }", "error: `${ params }` gives a map; only text, numbers and booleans can be rendered");
    check(
        "${ params.user | date }",
        "error: `Ada` is no time: expected RFC 3339, as in 2026-01-31T08:00:00Z, or a date",
    );
}

// covers: ING-4.8-03
#[test]
fn unknown_names_are_found_where_they_stand() {
    check("a ${ page.tokn }", "5: there is no variable `page.tokn` (did you mean `page.token`?)");
    check("${ windw.from }", "3: there is no variable `windw.from` (did you mean `window.from`?)");
    check(
        "${ secret }",
        "3: there is no variable `secret` (known are: window.from, window.to, page.no, page.offset, page.size, page.token, params.<name>)",
    );
    check("${ window.from | dat }", "17: there is no filter `dat` (did you mean `date`?)");
    check("${ page.no is odd }", "14: there is no test `odd` (expected one of: defined, undefined, none)");
    check(
        "${ 1 if page.no else page.token | nope }",
        "34: there is no filter `nope` (expected one of: date, datetime, iso, epoch, epoch_ms, default, lower, upper, trim, replace)",
    );
    check("${ page.token", "0: `${` has no closing `}`");
    check("${ 'x }", "3: the quoted text has no end");
    check("x${ }", "1: the expression is empty (for example `${ page.token }`)");
    check("${ page.token | }", "14: the expression cannot be read: unexpected end of input, expected identifier");
    check("${ page.no page.no }", "11: the expression cannot be read: unexpected input after expression");
}

// covers: ING-4.8-03
#[test]
fn what_could_grow_reach_out_or_surprise_is_refused() {
    let functions = "there are no functions, only filters (as in `${ window.from | date }`; filters: date, datetime, iso, epoch, epoch_ms, default, lower, upper, trim, replace)";
    check("${ range(100000) }", &format!("3: {functions}"));
    check("${ debug() }", &format!("3: {functions}"));
    check("${ params.user.upper() }", &format!("15: {functions}"));
    check("${ (page.no)(1) }", &format!("11: {functions}"));
    check("${ page['no'](1) }", &format!("12: {functions}"));
    check("${ 'x' * 1000000000 }", "7: `*` is not allowed: it could repeat a text without limit");
    check("${ 2 ** 99 }", "5: `*` is not allowed: it could repeat a text without limit");
    check("${ params.user[0:5:-1] }", "16: `:` is not allowed in an expression");
    check("${ {'a': 1} }", "3: `{` is not allowed in an expression");
    check("${ [1, 2] }", "3: a list is not allowed in an expression");
    check("${ x = 1 }", "5: `=` is not allowed in an expression");
    check("${ ü }", "3: `ü` is not allowed in an expression");
    check(
        "{% set s = 'x' %}${ s }",
        "20: there is no variable `s` (known are: window.from, window.to, page.no, page.offset, page.size, page.token, params.<name>)",
    );
    check(&format!("${{ {}1 }}", "1 ~ ".repeat(17)), "69: an expression joins at most 16 times");
    check(&format!("${{ {} }}", "1".repeat(1_100)), "0: an expression has at most 1024 bytes");
    check(&"x".repeat(20_000), "0: the template has 20000 bytes, at most 16384 are allowed");
    check("${ 1 // 0 }", "error: unable to calculate 1 // 0");
}

/// Fuel is no bound on memory, so each of these would be dangerous if a rein were missing.
// covers: ING-4.8-03
#[test]
fn abuse_ends_quickly_and_small() {
    let long = "x".repeat(60_000);
    let mut context = context();
    context.params.insert("long".into(), long.clone().into());
    let too_long = "error: a value or the rendered text is longer than 65536 bytes";
    assert_eq!(show("${ params.long }${ params.long }", &context), too_long);
    assert_eq!(show("${ params.long ~ params.long }", &context), too_long);
    assert_eq!(show(&format!("${{ {}params.long }}", "params.long ~ ".repeat(16)), &context), too_long);
    assert_eq!(show("${ params.long | replace('x', 'yyyyyyyyyyyyyyyyyyyy') }", &context), too_long);
    assert_eq!(show("${ params.long | replace('', 'y') }", &context), "error: replace needs something to look for");
    let nested = format!("${{ params.long{} }}", " | replace('x', 'xx')".repeat(40));
    assert_eq!(show(&nested, &context), too_long);
    for deep in ["(", "not ", "-", "params[", "1 if 1 else "] {
        let close = match deep {
            "(" => ")",
            "params[" => "]",
            _ => "",
        };
        let count = 900 / (deep.len() + close.len());
        let text = format!("${{ {}1{} }}", deep.repeat(count), close.repeat(count));
        let shown = show(&text, &context);
        assert!(shown.len() < 400, "{shown}");
    }
    context.params.insert("more".into(), long.into());
    assert_eq!(show("${ params.more | lower }", &context), too_long);
}

#[test]
fn a_trial_run_finds_what_only_shows_when_it_runs() {
    let tried = |text: &str| Template::compile(text).unwrap().try_out().map_err(|error| error.to_string());
    assert_eq!(
        tried("${ params.anything }-${ params.number + 1 }-${ params.word ~ 'x' }-${ params.since | date }"),
        Ok(())
    );
    assert_eq!(tried("${ page.no | date }"), Err("a time is needed here, not a number".into()));
    assert_eq!(tried("${ page.token.inner }"), Err("`${ page.token.inner }` is not set".into()));
    assert_eq!(tried("${ window.from | date('x') }"), Err("too many arguments".into()));
}

#[test]
fn meaning_forgets_the_window_and_the_page_only() {
    let meaning = |text: &str| Template::compile(text).unwrap().meaning();
    assert_eq!(meaning("${ page.token }"), None);
    assert_eq!(meaning("${ window.from | date }"), None);
    assert_eq!(meaning("type:a,from:${ window.from | date }").as_deref(), Some("type:a,from:${}"));
    assert_eq!(meaning("${ params.q }").as_deref(), Some("${ params.q }"));
    assert_eq!(meaning("${ params.q ~ page.no }").as_deref(), Some("${ params.q ~ page.no }"));
    assert_eq!(meaning("100").as_deref(), Some("100"));
    assert_eq!(meaning("").as_deref(), Some(""));
    let uses = |text: &str, name: &str| Template::compile(text).unwrap().uses(name);
    assert!(uses("a${ 'x' ~ page.token }", "page.token") && uses("${ page.no }", "page"));
    assert!(
        !uses("page.token", "page.token")
            && !uses("${ page.tokens | default('') }".replace("tokens", "no").as_str(), "page.token")
    );
}
