//! The result of each function, and where wrong use is reported.

use super::*;

#[test]
fn time_functions_format_parse_and_shift() {
    check("${ now() }", "= 2026-02-01T12:30:15.500000000Z");
    check("${ now() | date } ${ epoch_ms(now()) }", "= 2026-02-01 1769949015500");
    check("${ window.from | format('%Y/%m/%d %H:%M:%S.%3f') }", "= 2026/01/31 08:00:00.123");
    check("${ format(window.from, '%d %b %Y', '+02:00') }", "= 31 Jan 2026");
    check("${ window.from | formatDateTime('%FT%T%:z', '-0930') }", "= 2026-01-30T22:30:00-09:30");
    check("${ parse(params.day, '%d/%m/%Y') }", "= 2026-01-31T00:00:00.000000000Z");
    check("${ parse('2026 Mar', '%Y %b') | date } ${ parse('2026', '%Y') | date }", "= 2026-03-01 2026-01-01");
    check("${ parse('1769846400', '%s') | datetime }", "= 2026-01-31T08:00:00Z");
    check("${ parse('2026-01-31 08:00 +0100', '%F %R %z') | datetime }", "= 2026-01-31T07:00:00Z");
    check("${ parse(params.nothing, '%Y') }", "omitted");
    check("${ parse(params.user, '%Y') }", "error: \" Ada \" does not match the time pattern `%Y`");
    check("${ window.from | add('PT1H') | datetime }", "= 2026-01-31T09:00:00Z");
    check("${ window.from | add('-PT1H') | datetime }", "= 2026-01-31T07:00:00Z");
    check("${ window.to | sub('P1D') | date } ${ window.from | add('P1M') | date }", "= 2026-01-31 2026-02-28");
    check("${ window.to | sub(params.lag) | datetime }", "= 2026-01-31T23:30:00Z");
    check(
        "${ window.to | sub(params.user) }",
        "error: \" Ada \" is not an ISO-8601 duration, for example PT1H, P1D, -P1M",
    );
    check("${ window.to | add('P9000Y') }", "error: the time lies outside the calendar");
    let no_window = RenderContext { window: None, ..context() };
    assert_eq!(show("${ window.from | sub('P1D') | format('%Y') }", &no_window), "omitted");
}

// covers: ING-4.8-03
#[test]
fn now_returns_the_frozen_time() {
    let template = Template::compile("${ now() }").unwrap();
    assert_eq!(template.render(&context()), template.render(&context()));
    let forgotten = RenderContext { now: Default::default(), ..context() };
    assert_eq!(show("${ now() }", &forgotten), "error: `now()` is not available here");
}

#[test]
fn value_functions_select_and_convert() {
    check("${ coalesce(params.absent, params.nothing, params.n) }", "= 7");
    check("${ coalesce(params.absent, params.nothing) }", "omitted");
    check("${ default(params.absent, 'x') } ${ params.n | default(1) }", "= x 7");
    check("${ concat('a', params.n, params.nothing, params.yes) }", "= a7true");
    check("${ concat(params.nothing) }", "omitted");
    check("${ concat(params.list) }", "error: a text is needed here, not a sequence");
    check("${ params.list | join(', ') } ${ join(params.list) } ${ ('a', 'b') | join('-') }", "= 1, b 1b a-b");
    check("${ params.user | join(',') }", "error: a list is needed here, not a string");
    check("${ jsonPath(params.filter, '$.tags[0].name') } ${ params.filter | jsonPath(\"$.depth['a b']\") }", "= x 1");
    check("${ jsonPath(params.filter, '$.tags[7].name') }${ jsonPath(params.n, '$.x') }", "omitted");
    check("${ jsonPath(params, '$.filter.tags[0].name') }", "= x");
    check(
        "${ length(params.user) } ${ params.list | length } ${ length(params.filter) } ${ length('ü') }",
        "= 5 3 2 1",
    );
    check("${ length(params.n) }", "error: a text or list is needed here, not a number");
    check("${ int('42') + 1 } ${ int(' -7.9 ') } ${ int(params.ratio) } ${ params.n | int }", "= 43 -7 2 7");
    check("${ int(params.user) }", "error: \" Ada \" is not a whole number");
    check("${ int('1e300') }", "error: \"1e300\" is not a whole number");
    check("${ string(params.n) ~ '0' } ${ string(params.yes) } ${ string(params.ratio) }", "= 70 true 2.75");
    check("${ lower('ÄB') }${ 'ß' | upper } ${ trim(params.user) } ${ upper(params.n) }", "= äbSS Ada 7");
    check("${ 'a-b-c' | replace('-', '') } ${ replace('a-b', '-', params.nothing) }", "= abc ab");
    check("${ 'yes' if params.n > 5 and not params.nothing else 'no' } ${ page.no in (1, 3) }", "= yes true");
    check("${ params.n + 1 - 10 } ${ 7 // 2 } ${ 7 % 4 } ${ params.ratio + 1 }", "= -2 3 3 3.75");
}

#[test]
fn tilde_join_is_bounded_skips_null_and_keeps_precedence() {
    check("${ 'a' ~ params.n ~ params.yes ~ params.nothing }", "= a7true");
    check("${ params.nothing ~ params.nothing }", "omitted");
    check("${ 'a' ~ params.absent }", "error: a text is needed here, but the value is not set");
    check("${ 'a' ~ params.list }", "error: a text is needed here, not a sequence");
    check("${ 'a' ~ params.user | trim | lower ~ 'b' }", "= aadab");
    check("${ 'a' + 2 ~ 3 } ${ (1 + 2) ~ 3 }", "= a23 33");
    check("${ -1 ~ -2 } ${ 6 / 2 ~ 7 % 4 }", "= -1-2 3.03");
    check("${ ('a' ~ ('b' ~ 'c')) | upper ~ lower('D' ~ 'E') ~ params['x' ~ '-' ~ 'y'] }", "= ABCdeodd");
    check("${ 'a' ~ 'b' == 'a' ~ 'b' and not 'a' ~ 'b' in 'xaby' ~ 'z' }", "= false");
    check("${ 'x' ~ 1 if page.no ~ '' == '3' else 'y' ~ 2 }", "= x1");
    check("${ 'a~b' ~ page.no is not none ~ '~' }", "= a~btrue~");
    check("${ coalesce(params.nothing ~ params.nothing, 'x' ~ 'y', 1) }", "= xy");
    // After a dot a keyword is an ordinary name.
    let mut context = context();
    context.params.insert("in".into(), json!("v"));
    assert_eq!(show("${ params.in ~ 'x' ~ params.in }", &context), "= vxv");
}

#[test]
fn text_functions_encode_hash_and_search() {
    check("${ urlencode('a b&c/ü~') }", "= a%20b%26c%2F%C3%BC~");
    check("${ base64('user:pass?>') } ${ base64('') | default('x') }", "= dXNlcjpwYXNzPz4= ");
    check(
        "${ 'dXNlcjpwYXNzPz4' | base64_decode } ${ base64_decode('8J-Sqf_') }",
        "error: \"8J-Sqf_\" is not base64-encoded text",
    );
    check("${ 'dXNlcjpwYXNzPz4' | base64_decode } ${ base64_decode('8J-SqQ==') }", "= user:pass?> 💩");
    check("${ sha256('abc') }", "= ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("${ 'abc' | md5 }", "= 900150983cd24fb0d6963f7d28e17f72");
    check("${ params.nothing | sha256 }${ params.nothing | md5 }${ urlencode(params.nothing) }", "omitted");
    check("${ regex_search(params.link, 'cursor=[^&]+') }", "= cursor=a%3Db");
    check(
        "${ params.link | regex_search('page=([0-9]+)', 1) } ${ params.link | regex_search('(?<n>\\\\d+)', 'n') }",
        "= 2 2",
    );
    check("${ regex_search(params.link, 'nope') }${ regex_search(params.link, '(x)?page', 1) }", "omitted");
    check(
        "${ regex_search(params.link, 'a', 'n') }",
        "error: a group is a number from 0, or the name of a group in the pattern",
    );
}

// covers: ING-4.8-03
#[test]
fn allowed_functions_restrict_templates() {
    let check = |text: &str, names: &[&str], expected: &str| {
        let allowed = AllowedFunctions::only(names.iter().copied()).unwrap();
        let shown =
            match Template::compile_with(text, &TemplateRules { allowed: allowed.clone(), ..TemplateRules::default() })
            {
                Err(syntax_error) => format!(
                    "{}: {} ({})",
                    syntax_error.offset,
                    syntax_error.message,
                    syntax_error.hint.unwrap_or_default()
                ),
                Ok(template) => template.render(&context()).unwrap().unwrap_or_default(),
            };
        assert_eq!(shown, expected, "{text}");
    };
    check("${ now() | date }", &["date", "now"], "2026-02-01");
    check(
        "${ now() | sha256 }",
        &["now", "date"],
        "11: `sha256` is not allowed for this source (allowed functions: now, date)",
    );
    check("${ 1 } ${ md5('x') }", &[], "10: `md5` is not allowed for this source (no function is allowed)");
    check("${ 'a' if page.no > 1 else page.token }", &[], "a");
    check("${ now() | dat }", &["now", "date"], "11: there is no filter `dat` (did you mean `date`?)");
    // The example of ING-3.9-01, with the additions of C-45.
    check("${ now() | formatDateTime('%F') }", &["now", "formatDateTime", "coalesce", "renderQuery"], "2026-02-01");
    let syntax_error = AllowedFunctions::only(["now", "system"]).unwrap_err();
    assert_eq!((syntax_error.offset, syntax_error.message.as_str()), (1, "there is no function \"system\""));
    assert_eq!(AllowedFunctions::only(["sha25"]).unwrap_err().hint.as_deref(), Some("did you mean `sha256`?"));
    assert!(AllowedFunctions::all().contains("md5") && AllowedFunctions::all().names().len() == functions().count());
}

// covers: ING-4.8-03
#[test]
fn wrong_function_use_is_reported_at_its_offset() {
    check("a ${ now }", "5: there is no variable `now` (a function needs brackets: `now(…)`)");
    check("${ now(1) }", "3: `now` takes no value, not 1");
    check("${ window.from | date('x') }", "17: `date` takes 1 value, not 2");
    check("${ replace('a', 'b') }", "3: `replace` takes 3 values, the one before `|` included, not 2");
    check("${ 'a' | replace('b') }", "9: `replace` takes 3 values, the one before `|` included, not 2");
    check("${ page.token | format }", "16: `format` takes 2 to 3 values, the one before `|` included, not 1");
    check("${ concat(lower('a', 'b'), 'c') }", "10: `lower` takes 1 value, not 2");
    check(
        "${ now() | format('%Y-%!') }",
        "19: \"%Y-%!\" is not a time pattern: found unrecognized specifier directive `!`",
    );
    check("${ now() | format(params.user) }", "18: `format` needs a quoted text here, not a computed one");
    check("${ parse('x', '%H:%M') }", "15: no time can be read with `%H:%M`");
    check("${ now() | format('%F', 'Europe/Rome') }", "25: \"Europe/Rome\" is not a UTC offset, for example +02:00");
    check("${ now() | sub('1 day') }", "16: \"1 day\" is not an ISO-8601 duration, for example PT1H, P1D, -P1M");
    check("${ now() | add('PT-1H') }", "16: \"PT-1H\" is not an ISO-8601 duration, for example PT1H, P1D, -P1M");
    check(
        "${ jsonPath(params.x, '$.a.*') }",
        "27: `*` is not supported: only plain paths are (a plain path selects one value, as in `$.message['next-cursor']` or `$.title[0]`)",
    );
    check("${ jsonPath(params.x, params.y) }", "22: `jsonPath` needs a quoted text here, not a computed one");
    check("${ regex_search('x', 'a' ~ 'b') }", "21: `regex_search` needs a quoted text here, not a computed one");
    check("${ regex_search('x', '(a') }", "22: the pattern cannot be read: unclosed group");
    check(
        "${ regex_search('x', '(?=a)') }",
        "22: the pattern cannot be read: look-around, including look-ahead and look-behind, is not supported",
    );
    check("${ regex_search('x', '') }", "22: the pattern is empty");
    check(&format!("${{ regex_search('x', '{}') }}", "(a)".repeat(9)), "22: a pattern has at most 8 groups");
}
