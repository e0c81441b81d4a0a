//! The effect of the rules of a source on variables, times and null.

use super::*;

fn detail() -> TemplateRules {
    let params = Some(Arc::new(["q", "odd-name"].map(str::to_owned).into()));
    TemplateRules { scope: VariableScope { params, credential: true, ids: true }, ..TemplateRules::default() }
}

#[track_caller]
fn check_by(rules: &TemplateRules, template: &str, expected: &str) {
    let mut context = context();
    context.params = json!({ "q": "cats" }).as_object().unwrap().clone();
    context.ids = ["7", "8,9"].map(str::to_owned).to_vec();
    let shown = match Template::compile_with(template, rules) {
        Err(syntax_error) => {
            format!("{}: {} ({})", syntax_error.offset, syntax_error.message, syntax_error.hint.unwrap_or_default())
        }
        Ok(template) => match template.render(&context) {
            Ok(Some(text)) => format!("= {text}"),
            Ok(None) => "omitted".into(),
            Err(error) => format!("error: {error}"),
        },
    };
    assert_eq!(shown, expected, "{template}");
}

// covers: ING-3.9-03, ING-3.9-04
#[test]
fn credential_renders_to_a_placeholder() {
    let rules = detail();
    check_by(&rules, "${ credential.apiKey }", "= \u{1}credential.apiKey\u{1}");
    check_by(&rules, "Token ${credential.a_1}!", "= Token \u{1}credential.a_1\u{1}!");
    assert_eq!(credential_placeholder("apiKey"), "\u{1}credential.apiKey\u{1}");
    let alone = "a credential must be alone in its expression: functions and operators cannot use its value (write `${ credential.name }`, with text around it if needed; to compute a value from a credential, use a signing hook: auth.type: custom with auth.signing_hook)";
    for (template, at) in [
        ("${ credential.key | sha256 }", 3),
        ("${ base64(credential.key) }", 10),
        ("${ urlencode(credential.key) }", 13),
        ("${ credential.key ~ 'x' }", 3),
        ("${ 'x' if credential.key else 'y' }", 10),
        ("${ credential.key is defined }", 3),
        ("${ credential.key == 'a' }", 3),
        ("${ credential['key'] }", 3),
        ("${ credential }", 3),
        ("${ (credential.key) }", 4),
        ("${ credential.key.length }", 3),
        ("${ credential._key }", 3),
        ("${ concat(params.q, credential.key) }", 20),
    ] {
        check_by(&rules, template, &format!("{at}: {alone}"));
    }
    let none = TemplateRules::default();
    let hint = "a credential goes into query, headers and body, and only with an `auth` section whose type is not none";
    check_by(&none, "a ${ credential.key }", &format!("5: there is no credential here ({hint})"));
}

/// No value can pass for a credential.
#[test]
fn placeholder_character_is_rejected_in_texts_and_values() {
    let rules = detail();
    check_by(&rules, "a\u{1}credential.key\u{1}", "1: the control character U+0001 is not allowed in a template ()");
    let mut forged = context();
    forged.page.token = Some(credential_placeholder("key"));
    forged.params = json!({ "q": "\u{1}" }).as_object().unwrap().clone();
    forged.ids = vec![credential_placeholder("key")];
    for template in [
        "${ page.token }",
        "x${ params.q }",
        "${ ids | join(',') }",
        "${ id }",
        "${ params.q | upper }",
        "${ base64_decode('AWNyZWRlbnRpYWwua2V5AQ==') }",
    ] {
        let error = Template::compile_with(template, &rules).unwrap().render(&forged).unwrap_err();
        assert!(matches!(error, RenderError::Mark(_)), "{template}: {error}");
    }
}

#[test]
fn ids_exist_in_detail_endpoints_only() {
    let rules = detail();
    check_by(&rules, "${ ids | join(',') }", "= 7,8,9");
    check_by(&rules, "${ ids | join(' OR ') }[${ length(ids) }]", "= 7 OR 8,9[2]");
    check_by(&rules, "/works/${ id }", "= /works/7");
    check_by(&rules, "${ upper(id) }", "= 7");
    check_by(&rules, "${ ids }", "error: `${ ids }` gives a sequence; only text, numbers and booleans can be rendered");
    let hint = "give the endpoint `role: detail`, and name it in `two_phase.detail` of a search";
    check_by(
        &TemplateRules::default(),
        "${ ids | join(',') }",
        &format!("3: `ids` exists in detail endpoints only ({hint})"),
    );
    check_by(&TemplateRules::default(), "${ id }", &format!("3: `id` exists in detail endpoints only ({hint})"));
    let many = RenderContext { ids: vec!["x".repeat(100); 10_000], ..context() };
    let template = Template::compile_with("${ ids | join(',') }", &rules).unwrap();
    assert_eq!(template.render(&many), Err(RenderError::TooLong));
}

// covers: ING-3.9-04
#[test]
fn declared_params_default_to_null() {
    let rules = detail();
    check_by(&rules, "${ params.q }", "= cats");
    check_by(&rules, "${ expr.q }/${ expr.q | upper }", "= cats/CATS");
    check_by(&rules, "${ renderQuery() }", "= cats");
    let brackets = "3: there is no variable `renderQuery` (a function needs brackets: `renderQuery(…)`)";
    check_by(&rules, "${ renderQuery }", brackets);
    check_by(&rules, "${ renderQuery('x') }", "3: `renderQuery` takes no value, not 1 ()");
    check_by(&rules, "${ params['odd-name'] }", "omitted");
    check_by(&rules, "${ params['odd-name'] | default('x') }-${ params['q'] }", "= x-cats");
    check_by(&rules, "${ params.qq }", "3: there is no parameter `qq` (did you mean `q`?)");
    check_by(&rules, "${ params['other'] }", "3: there is no parameter `other` (expected one of: odd-name, q)");
    check_by(&rules, "${ expr.other }", "3: there is no parameter `other` (expected one of: odd-name, q)");
    let hint = "for example `params.query` or `params['odd-name']`";
    check_by(&rules, "${ params[page.token] }", &format!("3: `params` needs a name ({hint})"));
    check_by(&rules, "${ length(params) }", &format!("10: `params` needs a name ({hint})"));
    let none = TemplateRules {
        scope: VariableScope { params: Some(Arc::default()), ..VariableScope::default() },
        ..TemplateRules::default()
    };
    check_by(&none, "${ params.q }", "3: there is no parameter `q` (declare it: params: { q: {} })");
    check_by(&none, "${ renderQuery() }", "3: there is no parameter `q` (declare it: params: { q: {} })");
    // The query is part of the selection.
    assert!(Template::compile("${ renderQuery() }").unwrap().selection().is_some());
    assert!(Template::compile("${ expr.q }").unwrap().selection().is_some());
}

// covers: ING-3.2-12, ING-4.8-02
#[test]
fn unformatted_time_uses_the_time_style() {
    let by = |format: &str| TemplateRules { times: TimeStyle::parse(format).unwrap(), ..TemplateRules::default() };
    check_by(&by("iso"), "${ window.from }", "= 2026-01-31T08:00:00.123456000Z");
    check_by(&by("epoch"), "${ window.from }", "= 1769846400");
    check_by(&by("epoch_ms"), "${ window.from } ${ now() }", "= 1769846400123 1769949015500");
    check_by(&by("date"), "${ window.from }..${ window.to }", "= 2026-01-31..2026-02-01");
    check_by(&by("%d/%m/%Y"), "${ window.from | add('P1D') }", "= 01/02/2026");
    check_by(&by("%d/%m/%Y"), "${ sub(window.to, 'P1D') }", "= 31/01/2026");
    check_by(&by("epoch"), "${ parse('2026', '%Y') }", "= 1767225600");
    // A function decides the format, and a time within a larger expression is text.
    check_by(&by("epoch"), "${ window.from | date }", "= 2026-01-31");
    check_by(&by("epoch"), "${ window.from | add('P1D') | iso }", "= 2026-02-01T08:00:00.123456Z");
    check_by(&by("epoch"), "${ 't' ~ window.to }", "= t2026-02-01T00:00:00.000000000Z");
    check_by(&by("epoch"), "${ window.from < window.to }", "= true");
    check_by(&by("epoch"), "${ now() if page.no > 9 else 'x' }", "= x");
    let syntax_error = TimeStyle::parse("unix").unwrap_err();
    assert_eq!(syntax_error.message, "\"unix\" is not a time format");
    assert_eq!(syntax_error.hint.as_deref(), Some("iso, epoch, epoch_ms, date, or a pattern such as %Y-%m-%d"));
    assert!(TimeStyle::parse("%!").is_err());
}

#[test]
fn null_policy_of_the_rules_applies() {
    let by = |nulls: NullPolicy| TemplateRules { nulls, ..detail() };
    let null = "${ params['odd-name'] }";
    check_by(&by(NullPolicy::Omit), null, "omitted");
    check_by(&by(NullPolicy::Empty), null, "= ");
    check_by(&by(NullPolicy::Error), null, "error: `${ params['odd-name'] }` is null");
    check_by(&by(NullPolicy::Error), "${ params['odd-name'] | default('x') }", "= x");
}

#[test]
fn path_values_are_percent_encoded() {
    let path = |template: &str, id: &str| {
        let template = Template::compile_with(template, &detail()).unwrap();
        template.render_path(&RenderContext { ids: vec![id.to_owned()], ..context() }).unwrap()
    };
    assert_eq!(path("/works/${ id }/cited", "10.1/a b?x=1#é"), "/works/10.1%2Fa%20b%3Fx%3D1%23%C3%A9/cited");
    assert_eq!(path("/a/b?", "x"), "/a/b?");
}
