//! The `auth` section.

use super::*;

/// The problems of `BASE` with an `auth` section.
fn check_auth(auth: &str, expected: &str) {
    check("    query:", &format!("    auth: {auth}\n    query:"), expected);
}

fn valid(auth: &str) {
    check_auth(auth, "");
}

// covers: ING-4.2-01, ING-3.4-01
#[test]
fn each_auth_type_requires_its_keys() {
    for auth in [
        "{ type: none }",
        "{ type: API_KEY, name: X-Key }",
        "{ type: api_key, location: query, name: api_key, prefix: 'k:' }",
        "{ type: bearer }",
        "{ type: basic, credential: My-Key, required: false }",
        "{ type: oauth2, oauth2: { token_url: 'https://id.x.org/token?v=2' } }",
        "{ type: cookie, signing_hook: sign.v2 }",
        "{ type: session, session: { url: /login, token_path: $.token } }",
        "{ type: custom, signing_hook: hmac }",
    ] {
        valid(auth);
    }
    check_auth(
        "{ credential: x }",
        "t.yaml:5:5: endpoints.list.auth.type: `type` is missing\n  hint: one of none, api_key, bearer, basic, oauth2, cookie, session, custom",
    );
    check_auth(
        "{ type: token }",
        "t.yaml:5:19: endpoints.list.auth.type: `token` is not one of none, api_key, bearer, basic, oauth2, cookie, session, custom",
    );
    check_auth(
        "{ type: api_key }",
        "t.yaml:5:5: endpoints.list.auth.name: api_key auth needs `name`\n  hint: the header or parameter that the key goes into, for example name: X-Api-Key",
    );
    check_auth(
        "{ type: bearer, credential: 'a b' }",
        "t.yaml:5:39: endpoints.list.auth.credential: \"a b\" cannot be used as a name\n  hint: letters, digits, `_` and `-`, at most 64",
    );
    check_auth(
        "{ type: bearer, name: 'a b', prefix: \"a\\nb\" }",
        "t.yaml:5:33: endpoints.list.auth.name: \"a b\" is not a valid header or parameter name\nt.yaml:5:48: endpoints.list.auth.prefix: a prefix must not contain line breaks or other control characters",
    );
}

#[test]
fn keys_of_another_auth_type_are_rejected() {
    let hint = "\n  hint: remove it, or change `type`";
    check_auth(
        "{ type: none, credential: x, required: false }",
        &format!(
            "t.yaml:5:37: endpoints.list.auth.credential: `credential` has no meaning with none auth{hint}\nt.yaml:5:50: endpoints.list.auth.required: `required` has no meaning with none auth{hint}"
        ),
    );
    check_auth(
        "{ type: bearer, signing_hook: h, oauth2: { token_url: 'https://a.org' }, session: { url: /x } }",
        &format!(
            "t.yaml:5:41: endpoints.list.auth.signing_hook: `signing_hook` has no meaning with bearer auth{hint}\nt.yaml:5:44: endpoints.list.auth.oauth2: `oauth2` has no meaning with bearer auth{hint}\nt.yaml:5:84: endpoints.list.auth.session: `session` has no meaning with bearer auth{hint}"
        ),
    );
    check_auth(
        "{ type: basic, prefix: 'Basic ' }",
        &format!("t.yaml:5:34: endpoints.list.auth.prefix: `prefix` has no meaning with basic auth{hint}"),
    );
}

// covers: ING-4.2-03, ING-4.17-01
#[test]
fn credential_location_fits_the_method() {
    check_auth(
        "{ type: api_key, name: key, location: body }",
        "t.yaml:5:49: endpoints.list.auth.location: a GET request has no body that could carry a credential\n  hint: use location: header or query, or http.method: post",
    );
    check_auth(
        "{ type: bearer, location: query }",
        "t.yaml:5:37: endpoints.list.auth.location: bearer auth goes into a header\n  hint: remove `location`, or use api_key or custom",
    );
    let post = BASE.replace("path: /list", "path: /list, method: post");
    let auth = "    auth: { type: api_key, name: key, location: body }\n    body: BODY\n    query:";
    check_whole(&post.replace("    query:", &auth.replace("BODY", "{ form: { a: b } }")), "");
    check_whole(&post.replace("    query:", &auth.replace("BODY", "{ json: { a: b } }")), "");
    check_whole(
        &post.replace("    query:", &auth.replace("BODY", "{ json: [a] }")),
        "t.yaml:5:49: endpoints.list.auth.location: a credential can be put into a JSON object, not into a list",
    );
    check_whole(
        &post.replace("    query:", &auth.replace("BODY", "text")),
        "t.yaml:5:49: endpoints.list.auth.location: a credential can be put into a json or form body, not into a raw one\n  hint: write it there as `${ credential.name }`, or use another location",
    );
    check_whole(
        &post.replace("    query:", &auth.replace("BODY", "{ form: { key: b } }")),
        "t.yaml:5:34: endpoints.list.auth.name: `key` is also in `body.form`\n  hint: keep one of them",
    );
    check_auth(
        "{ type: api_key, location: query, name: cursor }",
        "t.yaml:5:51: endpoints.list.auth.name: `cursor` is also in `query`\n  hint: keep one of them",
    );
    check_whole(
        &BASE
            .replace("path: /list }", "path: /list, headers: { x-key: a } }\n    auth: { type: api_key, name: X-Key }"),
        "t.yaml:5:34: endpoints.list.auth.name: `X-Key` is also in `http.headers`\n  hint: keep one of them",
    );
}

// covers: ING-4.2-04
#[test]
fn custom_auth_requires_a_signing_hook() {
    check_auth(
        "{ type: custom }",
        "t.yaml:5:5: endpoints.list.auth.signing_hook: custom auth needs `signing_hook`\n  hint: the name of a hook that signs requests, for example signing_hook: hmac_sha256",
    );
    check_auth(
        "{ type: custom, signing_hook: 'rm -rf' }",
        "t.yaml:5:41: endpoints.list.auth.signing_hook: \"rm -rf\" is not a valid hook name\n  hint: letters, digits, `_`, `-` and `.`, at most 64",
    );
}

#[test]
fn credential_statuses_are_not_retryable() {
    valid("{ type: bearer, credential_status: [403, 419] }");
    check_auth(
        "{ type: bearer, credential_status: [200] }",
        "t.yaml:5:47: endpoints.list.auth.credential_status[0]: 200 cannot mean a rejected credential: expected 400 to 499",
    );
    check_auth(
        "{ type: bearer, credential_status: [403] }\n    retry: { retryable_status: [403] }",
        "t.yaml:5:47: endpoints.list.auth.credential_status[0]: 403 is also in retry.retryable_status\n  hint: a rejected credential is not retried: keep one of them",
    );
}

// covers: ING-4.2-02
#[test]
fn oauth2_requires_token_url_and_lifetime() {
    let needs = "endpoints.list.auth.oauth2.token_url: oauth2 auth needs `oauth2.token_url`: tokens expire and must be renewed\n  hint: for example token_url: https://auth.example.org/token";
    check_auth("{ type: oauth2 }", &format!("t.yaml:5:5: {needs}"));
    check_auth("{ type: oauth2, oauth2: { grant: refresh_token } }", &format!("t.yaml:5:27: {needs}"));
    check_auth(
        "{ type: oauth2, oauth2: { token_url: 'http://id.x.org', grant: implicit } }",
        "t.yaml:5:48: endpoints.list.auth.oauth2.token_url: plain HTTP is not allowed\n  hint: use https, or set `allow_http: true`\nt.yaml:5:74: endpoints.list.auth.oauth2.grant: `implicit` is not one of client_credentials, refresh_token, password",
    );
    check_auth(
        "{ type: oauth2, oauth2: { token_url: 'https://me:pw@id.x.org', token_path: access, scope: '' } }",
        "t.yaml:5:48: endpoints.list.auth.oauth2.token_url: credentials do not belong in a manifest\nt.yaml:5:86: endpoints.list.auth.oauth2.token_path: a path begins with `$`\n  hint: write `$.access`\nt.yaml:5:101: endpoints.list.auth.oauth2.scope: expected a text without control characters",
    );
    check_auth(
        "{ type: oauth2, oauth2: { token_url: 'https://id.x.org', expires_in: PT1M } }",
        "t.yaml:5:80: endpoints.list.auth.oauth2.expires_in: a token lifetime of PT1M must be more than refresh_ahead PT1M\n  hint: lower refresh_ahead, or correct expires_in",
    );
    check_whole(
        &BASE
            .replace("endpoints:", "allow_http: true\nendpoints:")
            .replace("    query:", "    auth: { type: oauth2, oauth2: { token_url: 'http://id.x.org' } }\n    query:"),
        "",
    );
}

#[test]
fn session_requires_login_url_and_token_location() {
    valid("{ type: session, session: { method: get, url: /login, token_header: X-Token } }");
    valid(
        "{ type: session, session: { url: 'https://id.x.org/in', cookie: sid, expires_in: PT5M, headers: { X-User: '${ credential.user }' }, body: { json: { pw: '${ credential.pw }' } } } }",
    );
    let place = "exactly one of `token_path`, `token_header` and `cookie` must locate the session in the response\n  hint: for example token_path: $.token";
    check_auth(
        "{ type: session }",
        &format!(
            "t.yaml:5:5: endpoints.list.auth.session.url: session auth needs `session.url`\n  hint: for example url: /login, or an absolute URL\nt.yaml:5:5: endpoints.list.auth.session.token_path: {place}"
        ),
    );
    check_auth(
        "{ type: session, session: { url: /login, token_path: $.t, cookie: sid } }",
        &format!("t.yaml:5:64: endpoints.list.auth.session.token_path: {place}"),
    );
    check_auth(
        "{ type: session, session: { url: 'http://x.org/login', cookie: 'a b', expires_in: PT0S } }",
        "t.yaml:5:44: endpoints.list.auth.session.url: plain HTTP is not allowed\n  hint: use https, or set `allow_http: true`\nt.yaml:5:74: endpoints.list.auth.session.cookie: expected the name of a cookie\nt.yaml:5:93: endpoints.list.auth.session.expires_in: a session needs a lifetime of more than PT0S",
    );
    check_auth(
        "{ type: session, session: { url: //evil.org/login, cookie: sid } }",
        "t.yaml:5:44: endpoints.list.auth.session.url: \"//evil.org/login\" is not a valid URL: relative URL without a base\n  hint: for example https://api.example.org",
    );
    check_auth(
        "{ type: session, session: { method: get, url: /in, cookie: sid, body: x } }",
        "t.yaml:5:81: endpoints.list.auth.session.body: a GET request has no body\n  hint: remove `method`, or `body`",
    );
    check_auth(
        "{ type: session, session: { url: /in, cookie: sid, headers: { a: '${ page.no }' }, body: { form: { b: { expr: c, required: true }, d: '${ credential.pw | upper }' } } } }",
        "t.yaml:5:76: endpoints.list.auth.session.headers.a: there is no `page` in a login request: only `credential.<name>` is known\nt.yaml:5:110: endpoints.list.auth.session.body.form.b: only a plain template is allowed here\n  hint: write b: \"…\"\nt.yaml:5:149: endpoints.list.auth.session.body.form.d: a credential must be alone in its expression: functions and operators cannot use its value\n  hint: write `${ credential.name }`, with text around it if needed; to compute a value from a credential, use a signing hook: auth.type: custom with auth.signing_hook",
    );
    check_auth(
        "{ type: session, session: { url: /in, cookie: sid, headers: { authorization: Basic abc } } }",
        "t.yaml:5:88: endpoints.list.auth.session.headers.authorization: credentials do not belong in a manifest\n  hint: use `auth` to reference the credential; its value is in the vault",
    );
    valid(
        "{ type: session, session: { url: /in, cookie: sid, headers: { authorization: 'Basic ${ credential.basic }' } } }",
    );
    check_auth(
        "{ type: session, prefix: x, session: { url: /in, cookie: sid } }",
        "t.yaml:5:36: endpoints.list.auth.prefix: `prefix` has no meaning when the session is a cookie\n  hint: remove it",
    );
}

// covers: ING-3.9-03, ING-3.8-01
#[test]
fn credentials_are_allowed_in_requests_only() {
    let with = |auth: &str, from: &str, to: &str| {
        assert!(BASE.contains(from));
        BASE.replace("    query:", &format!("    auth: {auth}\n    query:")).replace(from, to)
    };
    let bearer = "{ type: bearer }";
    check_whole(&with(bearer, "      from:", "      key: \"${ credential.apiKey }\"\n      from:"), "");
    check_whole(&with(bearer, "path: /list", "path: /list, headers: { X-K: \"k ${ credential.apiKey }\" }"), "");
    let both = "path: /list, headers: { Authorization: \"Key ${ credential.id }:${ credential.secret }\" }";
    check_whole(&with("{ type: api_key, name: X-Key }", "path: /list", both), "");
    check_whole(
        &with(
            bearer,
            "path: /list",
            &both.replace("Authorization", "Cookie").replace("${ credential.id }:${ credential.secret }", "x"),
        ),
        "t.yaml:4:72: endpoints.list.http.headers.Cookie: credentials do not belong in a manifest\n  hint: use `auth` to reference the credential; its value is in the vault",
    );
    let nowhere = "there is no credential here\n  hint: a credential goes into query, headers and body, and only with an `auth` section whose type is not none";
    check_whole(
        &with(bearer, "path: /list", "path: \"/${ credential.apiKey }\""),
        &format!("t.yaml:4:51: endpoints.list.http.path: {nowhere}"),
    );
    check_whole(
        &with("{ type: none }", "      from:", "      key: \"${ credential.apiKey }\"\n      from:"),
        &format!("t.yaml:8:16: endpoints.list.query.key: {nowhere}"),
    );
    check_whole(
        &with(
            bearer,
            "      from:",
            "      key: { expr: \"${ credential.apiKey }\", pattern: \"[a-z]+\" }\n      from:",
        ),
        "t.yaml:8:55: endpoints.list.query.key.pattern: a pattern cannot be checked against a credential: its value is not known here\n  hint: remove `pattern`",
    );
}
