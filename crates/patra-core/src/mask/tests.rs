use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(text: &str, expected: &str) {
    let masked = mask(text);
    assert_eq!(masked, expected.replace('§', REDACTED));
    assert!(matches!(mask(&masked), Cow::Borrowed(_)), "masking twice changes {masked}");
}

// covers: CRAWL-149, CRAWL-150
#[test]
fn cookies_are_masked_as_the_requirement_writes_them() {
    check("web_session=xxx", "web_session=§");
    check(r#""cookie_value": "xxx""#, r#""cookie_value": "§""#);
    check(r#"{"cookie_value":"x\"y","next":1}"#, r#"{"cookie_value":"§","next":1}"#);
}

// covers: CRAWL-151
#[test]
fn other_names_of_secrets_are_masked_too() {
    check("a1=18c; webId=9f; gid=yY", "a1=§; webId=§; gid=§");
    check("GET /x?a1=18c&b=2&web_session=030037", "GET /x?a1=§&b=2&web_session=§");
    check("Cookie: a1=18c; b=2\r\nHost: h", "Cookie: §\r\nHost: h");
    check("set-cookie: sid=\"a b\"; Path=/", "set-cookie: §");
    check("Authorization: Bearer abc.def", "Authorization: §");
    check("Authorization: Basic dXNlcjpw", "Authorization: §");
    check("sent Bearer abc.def-123 to it", "sent Bearer § to it");
    check("Authorization: Bearer KEYabc", "Authorization: §");
    check("Bearer --Abc-def; Bearer --abc1def; Bearer --; Bearer ---abcdef", "Bearer §; Bearer §; Bearer --; Bearer §");
    for name in ["cookie_encrypted", "token", "api_key", "password", "secret", "cookie_value"] {
        check(&format!(r#"{{"{name}":"xxx","n":1}}"#), &format!(r#"{{"{name}":"§","n":1}}"#));
        check(&format!(r#"{{"{name}" : "x"}}"#), &format!(r#"{{"{name}" : "§"}}"#));
        check(&format!("{name}=\"x y\" n=1"), &format!("{name}=\"§\" n=1"));
        check(&format!("Some {{ {name}: Some(\"x\") }}"), &format!("Some {{ {name}: Some(\"§\") }}"));
    }
    check(r#"[("cookie", "sid=1"), ("accept", "x")]"#, r#"[("cookie", "§"), ("accept", "x")]"#);
    check(r#"{"name":"Authorization","prefix":"x"}"#, r#"{"name":"Authorization","prefix":"x"}"#);
    check(r#"{"Authorization":"Bearer x"}"#, r#"{"Authorization":"§"}"#);
    check("cookie=sid=1; b=2 status=200", "cookie=§ status=200");
    check("web_session%3Dxxx", "web_session%3D§");
    check(&format!("key patra_0123abcd_{}", "0f".repeat(24)), "key patra_0123abcd_§");
}

// covers: CRAWL-151
#[test]
fn secrets_are_masked_in_every_log_format() {
    // JSON inside a JSON log line, and once more.
    check(r#"{"message":"{\"cookie_value\": \"x\\\"y\"} n"}"#, r#"{"message":"{\"cookie_value\": \"§\"} n"}"#);
    check(r#"{"m":"{\"m\":\"{\\\"token\\\":\\\"x\\\"}\"}"}"#, r#"{"m":"{\"m\":\"{\\\"token\\\":\\\"§\\\"}\"}"}"#);
    check(r#"{"m":"Cookie: a=\"b c\"; d=e","n":1}"#, r#"{"m":"Cookie: §","n":1}"#);
    check(r#"{"m":"one\nweb_session=x\ntwo"}"#, r#"{"m":"one\nweb_session=§\ntwo"}"#);
    // The colours of a terminal.
    check("\x1b[3mweb_session\x1b[0m\x1b[2m=\x1b[0mxxx n", "\x1b[3mweb_session\x1b[0m\x1b[2m=\x1b[0m§ n");
    check("\x1b[3mtoken\x1b[0m\x1b[2m=\x1b[0m\"x\"", "\x1b[3mtoken\x1b[0m\x1b[2m=\x1b[0m\"§\"");
    check("中文web_session=值;后", "中文web_session=§;后");
}

// covers: CRAWL-151
#[test]
fn ordinary_lines_are_left_as_they_are_without_a_copy() {
    for line in [
        "next_token=abc page.token=3 tokens=3 before_token=\"x\"",
        r#"{"next_token":"abc","tokens":3,"has_secret":true,"token":null,"token_until":"2024"}"#,
        "the token: expired; a bearer token is needed, Bearer tokens too",
        "no cookie: all of them are cooling",
        r#"INFO audit: a cookie was put in cookie="account-1" created=true"#,
        r#"{"fields":{"cookie":"account-1","message":"a cookie works again"}}"#,
        "Authorization: ${ credential.header }".split(':').next().unwrap_or_default(),
        "Bearer ${ credential.token }",
        "`patra credential add NAME --type bearer --value v`",
        "send `Authorization: Bearer <key>`; `patra key create` makes one",
        "Authorization: Bearer KEY",
        "patra credential add x --type bearer --from-env token=TOKEN".split('=').next().unwrap_or_default(),
        "secret_name=x cookies=3 a10=3 ba1=3 x.a1=3 a1: 3",
        "token=***; \"password\": \"***\"; Cookie: ***REDACTED***",
        "web_session=",
        "",
    ] {
        assert!(matches!(mask(line), Cow::Borrowed(_)), "{line} became {}", mask(line));
    }
}

proptest! {
    #[test]
    fn masking_twice_is_masking_once(
        parts in prop::collection::vec(prop::sample::select(vec![
            "web_session", "a1", "token", "cookie", "Cookie", "Authorization", "Bearer", "=", ":", " ", "\"", "\\", "'",
            ";", ",", "&", "\n", "\\n", "\x1b[0m", "\x1b[", "x", "abcdefgh", "Some(", ")", "***", "%3D", "ü", "patra_",
        ]), 0..24)
    ) {
        let text = parts.concat();
        let once = mask(&text).into_owned();
        let twice = mask(&once);
        prop_assert_eq!(&once, twice.as_ref(), "of {:?}", text);
    }
}
