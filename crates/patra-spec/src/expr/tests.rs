//! What templates render to and what they reject.

mod abuse;
mod docs;
mod functions;
mod rules;

use serde_json::json;

use patra_core::Window;

use super::*;

fn context() -> RenderContext {
    let window = Window { from: "2026-01-31T08:00:00.123456Z".parse().unwrap(), to: "2026-02-01".parse().unwrap() };
    let page = PageVariables { no: 3, offset: 200, size: Some(100), token: Some("a+b/=".into()) };
    let params = json!({
        "user": " Ada ", "n": 7, "ratio": 2.75, "yes": true, "nothing": null, "list": [1, null, "b"], "x-y": "odd",
        "day": "31/01/2026", "link": "https://a.example/?page=2&cursor=a%3Db", "lag": "PT30M",
        "filter": { "tags": [{ "name": "x" }], "depth": { "a b": 1 } },
    });
    let now = "2026-02-01T12:30:15.5Z".parse().unwrap();
    RenderContext {
        window: Some(window),
        page,
        params: params.as_object().unwrap().clone(),
        now,
        ..RenderContext::default()
    }
}

fn show(template: &str, context: &RenderContext) -> String {
    match Template::compile(template) {
        Err(syntax_error) => match syntax_error.hint {
            Some(hint) => format!("{}: {} ({hint})", syntax_error.offset, syntax_error.message),
            None => format!("{}: {}", syntax_error.offset, syntax_error.message),
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

fn allowed() -> String {
    format!("allowed functions: {}", functions().collect::<Vec<_>>().join(", "))
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
fn null_value_omits_the_parameter() {
    let first = RenderContext::default();
    for template in
        ["${ page.token }", "${ window.from | date }", "${ page.size }${ page.token }", "${ page.token | lower }"]
    {
        assert_eq!(show(template, &first), "omitted", "{template}");
    }
    assert_eq!(show("cursor:${ page.token }", &first), "= cursor:");
    check("${ params.nothing }", "omitted");
}

// covers: ING-4.8-02
#[test]
fn render_with_uses_the_given_null_policy() {
    let first = RenderContext::default();
    let show = |text: &str, nulls| Template::compile(text).unwrap().render_with(&first, nulls);
    assert_eq!(show("${ page.token }", NullPolicy::Omit), Ok(None));
    assert_eq!(show("${ page.token }", NullPolicy::Empty), Ok(Some(String::new())));
    assert_eq!(show("a${ page.token | lower }b", NullPolicy::Empty), Ok(Some("ab".into())));
    let null = |text: &str| Err(RenderError::Null(text.into()));
    assert_eq!(show("a ${ page.token }", NullPolicy::Error), null("${ page.token }"));
    assert_eq!(show("a ${ page.token | lower }", NullPolicy::Error), null("${ page.token | lower }"));
    assert_eq!(show("a ${ page.token | default('') }", NullPolicy::Error), Ok(Some("a ".into())));
    assert_eq!(NullPolicy::default(), NullPolicy::Omit);
    assert_eq!(serde_json::to_string(&NullPolicy::Empty).unwrap(), "\"empty\"");
}

#[test]
fn unset_variable_is_an_error() {
    check("${ params.absent }", "error: `params.absent` is not set");
    check("${ params.absent | lower }", "error: a text is needed here, but the value is not set");
    check(
        "${ params.list }",
        "error: `${ params.list }` gives a sequence; only text, numbers and booleans can be rendered",
    );
    check("${ params }", "error: `${ params }` gives a map; only text, numbers and booleans can be rendered");
    check(
        "${ params.user | date }",
        "error: `Ada` is not a time: expected RFC 3339, as in 2026-01-31T08:00:00Z, or a date",
    );
}

// covers: ING-4.8-03
#[test]
fn unknown_names_are_reported_at_their_offset() {
    check("a ${ page.tokn }", "5: there is no variable `page.tokn` (did you mean `page.token`?)");
    check("${ windw.from }", "3: there is no variable `windw.from` (did you mean `window.from`?)");
    check(
        "${ secret }",
        "3: there is no variable `secret` (known variables: window.from, window.to, page.no, page.offset, page.size, page.token, params.<name>)",
    );
    check("${ window.from | dat }", "17: there is no filter `dat` (did you mean `date`?)");
    check("${ page.no is odd }", "14: there is no test `odd` (expected one of: defined, undefined, none)");
    check("${ 1 if page.no else page.token | zzzzz }", &format!("34: there is no filter `zzzzz` ({})", allowed()));
    check("${ page.token", "0: `${` has no closing `}`");
    check("${ 'x }", "3: the quoted text has no end");
    check("x${ }", "1: the expression is empty (for example `${ page.token }`)");
    check("${ page.token | }", "14: the expression cannot be read: unexpected end of input, expected identifier");
    check("${ page.no page.no }", "11: the expression cannot be read: unexpected input after expression");
}

// covers: ING-4.8-03
#[test]
fn unsafe_expressions_are_rejected() {
    check("${ range(100000) }", &format!("3: there is no function `range` ({})", allowed()));
    check("${ debug() }", &format!("3: there is no function `debug` ({})", allowed()));
    check("${ include('x') }", &format!("3: there is no function `include` ({})", allowed()));
    let methods = "write `upper(params.name)` or `params.name | upper`";
    check("${ params.user.upper() }", &format!("15: there is no method `upper` ({methods}; {})", allowed()));
    check("${ (page.no)(1) }", &format!("12: only functions can be called ({})", allowed()));
    check("${ page['no'](1) }", &format!("13: only functions can be called ({})", allowed()));
    check("${ 'x' * 1000000000 }", "7: `*` is not allowed: it could repeat a text without limit");
    check("${ 2 ** 99 }", "5: `*` is not allowed: it could repeat a text without limit");
    check("${ params.user[0:5:-1] }", "16: `:` is not allowed in an expression");
    check("${ {'a': 1} }", "3: `{` is not allowed in an expression");
    check("${ [1, 2] }", "3: a list is not allowed in an expression");
    check("${ x = 1 }", "5: `=` is not allowed in an expression");
    check("${ ü }", "3: `ü` is not allowed in an expression");
    check(
        "{% set s = 'x' %}${ s }",
        "20: there is no variable `s` (known variables: window.from, window.to, page.no, page.offset, page.size, page.token, params.<name>)",
    );
    check(&format!("${{ {}1 }}", "1 ~ ".repeat(17)), "69: an expression joins at most 16 times");
    check(&format!("${{ {} }}", "1".repeat(1_100)), "0: an expression has at most 1024 bytes");
    check("${ 1 // 0 }", "error: unable to calculate 1 // 0");
}

#[test]
fn dry_run_finds_runtime_errors() {
    let tried = |text: &str| Template::compile(text).unwrap().dry_run().map_err(|error| error.to_string());
    assert_eq!(
        tried("${ params.anything }-${ params.number + 1 }-${ params.word ~ 'x' }-${ params.since | date }"),
        Ok(())
    );
    assert_eq!(tried("${ page.no | date }"), Err("a time is needed here, not a number".into()));
    assert_eq!(tried("${ page.token.inner }"), Err("`${ page.token.inner }` is not set".into()));
    // An error that depends on the value of a parameter is no error of the template.
    for valid in [
        "${ params.list | join(',') } ${ params.deep.inner } ${ jsonPath(params.x, '$.a') } ${ params['x-y'] | lower }",
        "${ parse(params.day, '%d/%m/%Y') | date } ${ base64_decode(params.code) } ${ int(params.n) + 1 }",
        "${ concat(join(params.list, ','), date(params.since), params.n + 1) } ${ add(params.since, params.lag) }",
        "${ now() | date } ${ regex_search(params.link, 'cursor=([^&]+)', 1) } ${ length(params.list) }",
    ] {
        assert_eq!(tried(valid), Ok(()), "{valid}");
    }
    assert_eq!(tried("${ page.no | join(',') }"), Err("a list is needed here, not a number".into()));
    assert_eq!(tried("${ regex_search(page.token, 'a(b)', 2) }"), Err("the pattern has no group 2".into()));
}

#[test]
fn selection_ignores_window_and_page_only() {
    let meaning = |text: &str| Template::compile(text).unwrap().selection();
    assert_eq!(meaning("${ page.token }"), None);
    assert_eq!(meaning("${ window.from | date }"), None);
    assert_eq!(meaning("type:a,from:${ window.from | date }").as_deref(), Some("type:a,from:${}"));
    assert_eq!(meaning("${ params.q }").as_deref(), Some("${ params.q }"));
    assert_eq!(meaning("${ params.q ~ page.no }").as_deref(), Some("${ params.q ~ page.no }"));
    assert_eq!(meaning("${ now() | date }"), None);
    assert_eq!(meaning("${ concat(now(), params.q) }").as_deref(), Some("${ concat(now(), params.q) }"));
    assert_eq!(meaning("100").as_deref(), Some("100"));
    assert_eq!(meaning("").as_deref(), Some(""));
    let uses = |text: &str, name: &str| Template::compile(text).unwrap().uses(name);
    assert!(uses("a${ 'x' ~ page.token }", "page.token") && uses("${ page.no }", "page"));
    assert!(
        !uses("page.token", "page.token")
            && !uses("${ page.tokens | default('') }".replace("tokens", "no").as_str(), "page.token")
    );
}
