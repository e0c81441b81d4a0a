//! Authentication: positions of each type of credential, requests for tokens, and redaction of secrets.

use std::time::Duration;

use bytes::Bytes;

use patra_connectors::Pager;
use patra_connectors::auth::{OpenedCredential, Redactor, shown_url, sign};
use patra_core::credential::AccessToken;
use patra_core::paging::Position;
use patra_core::port::signer::Signature;
use patra_core::port::transport::{Error, HttpMethod, HttpRequest, HttpResponse};
use patra_core::secret::{Secret, Secrets};
use patra_core::state::AuthType;
use patra_core::{Code, Fault, Level, Ts};

use super::{NOW, answer, ask, pager, read_at};

const RESPONSE: &str = "response: { items_path: $.items, id_path: $.id, updated_at_path: $.at }\n";
/// A text in every secret of these tests that must not appear anywhere else.
const CANARY: &str = "canary-ÿ\"\\&=%+/ 1";

fn secrets(pairs: &[(&str, &str)]) -> Secrets {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect()
}

fn opened<'a>(secrets: &'a Secrets, token: Option<&'a AccessToken>) -> OpenedCredential<'a> {
    OpenedCredential { alias: "far", secrets, token }
}

fn endpoint(auth: &str, more: &str) -> Pager {
    pager(&format!("{RESPONSE}{auth}\n{more}"))
}

fn authorise(pager: &Pager, secrets: &Secrets) -> Result<HttpRequest, Fault> {
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    pager.authoriser(&exchange).authorise(&exchange.request, &opened(secrets, None))
}

fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    let mut found = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} stands there twice");
    value
}

fn query(request: &HttpRequest) -> Vec<(String, String)> {
    let query = request.url.split_once('?').map_or("", |(_, query)| query);
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

// covers: ING-3.4-01, ING-4.2-01, ING-4.2-03, C-20, MAP-X-20, ING-2.3-03
#[test]
fn every_kind_goes_where_the_manifest_says() {
    let check = |auth: &str, given: &[(&str, &str)], name: &str, value: &str| {
        let request = authorise(&endpoint(auth, ""), &secrets(given)).unwrap();
        assert_eq!(header(&request, name), Some(value), "{auth}");
        assert!(!request.url.contains('?'), "{}", request.url);
    };
    check("auth: { type: api_key, name: X-Api-Key }", &[("apiKey", "k")], "x-api-key", "k");
    check(
        "auth: { type: api_key, name: Authorization, prefix: \"Token \" }",
        &[("apiKey", "k")],
        "authorization",
        "Token k",
    );
    check("auth: { type: bearer }", &[("token", "t")], "authorization", "Bearer t");
    check("auth: { type: basic }", &[("username", "ü"), ("password", "p:q")], "authorization", "Basic w7w6cDpx");
    check("auth: { type: cookie }", &[("cookie", "sid=1; a=2")], "cookie", "sid=1; a=2");
    check("auth: { type: custom, signing_hook: h, name: X-Key }", &[("apiKey", "k")], "x-key", "k");

    let key = secrets(&[("apiKey", CANARY)]);
    let in_query = endpoint("auth: { type: api_key, location: query, name: \"api key\" }", "query: { q: a }");
    let request = authorise(&in_query, &key).unwrap();
    assert_eq!(query(&request), [pair("q", "a"), pair("api key", CANARY)]);

    let post = "http: { base_url: \"https://api.example.org\", path: /list, method: post }";
    let in_body = "auth: { type: api_key, location: body, name: key }";
    let request = authorise(&endpoint(in_body, &format!("{post}\nbody: {{ json: {{ q: 1.50 }} }}")), &key).unwrap();
    let body: serde_json::Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
    assert_eq!(body, serde_json::json!({ "q": 1.50, "key": CANARY }));
    let request = authorise(&endpoint(in_body, &format!("{post}\nbody: {{ json: {{}} }}")), &key).unwrap();
    let body: serde_json::Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
    assert_eq!(body, serde_json::json!({ "key": CANARY }));
    let request = authorise(&endpoint(in_body, &format!("{post}\nbody: {{ form: {{ q: a }} }}")), &key).unwrap();
    let form: Vec<_> = url::form_urlencoded::parse(request.body.as_ref().unwrap()).into_owned().collect();
    assert_eq!(form, [pair("q", "a"), pair("key", CANARY)]);
}

#[test]
fn nothing_is_asked_of_a_source_that_asks_nothing() {
    let pager = endpoint("", "");
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    let authoriser = pager.authoriser(&exchange);
    assert_eq!(authoriser.kind(), None);
    assert!(!authoriser.needs_token());
    assert_eq!(endpoint("auth: { type: bearer }", "").authoriser(&exchange).kind(), Some(AuthType::Bearer));
}

const MARKED: &str = "http: { base_url: \"https://api.example.org\", path: /list, method: post, headers: { X-Key: \"k=${ credential.apiKey }\" } }
auth: { type: api_key, name: X-Other }
query: { key: \"${ credential.apiKey }\", q: \"a b\" }
";

// covers: ING-3.9-03, ING-3.9-04, ING-2.7-02, ING-4.2-10
#[test]
fn a_template_names_a_credential_and_only_the_request_that_leaves_holds_it() {
    let given = secrets(&[("apiKey", CANARY)]);
    for (body, expected) in [
        (
            "body: { json: { key: \"x${ credential.apiKey }\" } }",
            format!("{{\"key\":{}}}", json_text(&format!("x{CANARY}"))),
        ),
        ("body: { form: { key: \"${ credential.apiKey }\" } }", format!("key={}", form_text(CANARY))),
        ("body: { raw: \"k ${ credential.apiKey }\" }", format!("k {CANARY}")),
    ] {
        let pager = endpoint(MARKED, body);
        let exchange = pager.request(&ask(&Position::Time)).unwrap();
        let request = pager.authoriser(&exchange).authorise(&exchange.request, &opened(&given, None)).unwrap();
        assert_eq!(query(&request), [pair("key", CANARY), pair("q", "a b")]);
        assert_eq!(header(&request, "x-key"), Some(format!("k={CANARY}").as_str()));
        assert_eq!(std::str::from_utf8(request.body.as_ref().unwrap()).unwrap(), expected);

        // The rendered request and its digest do not have the secret.
        let shown = format!("{:?} {} {:?}", exchange.request, shown_url(&exchange.request.url), request);
        assert!(shown.contains("key=***") && !shown.contains("canary") && !shown.contains("credential"), "{shown}");
        let evidence = exchange.evidence(Duration::ZERO);
        assert!(!evidence.request_digest.contains("canary"), "{}", evidence.request_digest);
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn form_text(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

#[test]
fn xml_bodies_are_escaped_as_xml() {
    let endpoint = MARKED.replace("X-Key: \"k=${ credential.apiKey }\"", "Content-Type: text/xml");
    let pager = self::endpoint(&endpoint, "body: { raw: \"<k>${ credential.apiKey }</k>\" }");
    let request = authorise(&pager, &secrets(&[("apiKey", "a<b>&\"'")])).unwrap();
    assert_eq!(request.body.unwrap(), "<k>a&lt;b&gt;&amp;&quot;&apos;</k>");
}

#[test]
fn missing_or_invalid_credential_value_is_reported_without_showing_it() {
    let pager = endpoint(MARKED, "body: { raw: x }");
    let fault = authorise(&pager, &secrets(&[("other", "canary")])).unwrap_err();
    assert_eq!((fault.code, fault.level), (Code::NotConfigured, Level::L4));
    assert!(fault.message.contains("`apiKey`") && fault.message.contains("patra credential rotate far"), "{fault}");
    for broken in ["canary\r\nX-Evil: 1", "canary\n", "canary\u{0}", "canary\u{7f}"] {
        for pager in [&pager, &endpoint("auth: { type: api_key, name: X-Key }", "")] {
            let fault = authorise(pager, &secrets(&[("apiKey", broken)])).unwrap_err();
            assert!(fault.message.contains("control character") && !fault.message.contains("canary"), "{fault}");
            assert_eq!(fault.level, Level::L4);
        }
    }
}

#[test]
fn without_a_credential_what_would_hold_one_is_left_out() {
    let check = |body: &str, expected: &str| {
        let pager = endpoint(MARKED, body);
        let exchange = pager.request(&ask(&Position::Time)).unwrap();
        let request = pager.authoriser(&exchange).anonymous(&exchange.request);
        assert_eq!(query(&request), [pair("q", "a b")]);
        assert_eq!(header(&request, "x-key"), None);
        assert_eq!(std::str::from_utf8(request.body.as_ref().unwrap()).unwrap(), expected);
    };
    check("body: { form: { key: \"${ credential.apiKey }\", q: a } }", "q=a");
    check("body: { json: { key: \"${ credential.apiKey }\" } }", "{\"key\":\"\"}");
    check("body: { raw: \"k ${ credential.apiKey }.\" }", "k .");
}

// covers: ING-2.7-02, ING-3.8-01, ING-4.2-10
#[test]
fn an_upstream_that_repeats_the_key_does_not_get_it_stored() {
    let check = |auth: &str, more: &str| {
        let pager = endpoint(auth, &format!("pagination: {{ type: url, next_url_path: $.next }}\n{more}"));
        let given = secrets(&[("apiKey", CANARY), ("username", "ordinary-name")]);
        let token = AccessToken { access: Secret::new("canary-access"), refresh: Some(Secret::new("canary-refresh")) };
        let redactor = Redactor::new(&given, Some(&token));
        let (plus, percent) = (form_text(CANARY), form_text(CANARY).replace('+', "%20"));
        let body = format!(
            r#"{{"next":"https://api.example.org/v1/list?page=2&key={plus}","items":[{{"id":"1","at":5,"self":"/1?key={percent}","by":"ordinary-name",
                "echo":{},"tokens":"canary-access canary-refresh"}}]}}"#,
            json_text(CANARY)
        );
        let response = answer(&[("x-echo", "canary-access")], &body);
        let response = redactor.response(response);
        assert_eq!(response.header("x-echo"), Some("***"));
        let page = read_at(&pager, &Position::Url(None), response).unwrap();
        let stored = page.records[0].payload.to_string();
        assert!(!stored.contains("canary") && stored.contains("ordinary-name"), "{stored}");
        let next = page.facts.next_url.clone().unwrap();
        assert_eq!(next, "https://api.example.org/v1/list?page=2&key=***");

        // The key is restored in the request of the page, in its old position and only there.
        let exchange = pager.request(&ask(&Position::Url(Some(next)))).unwrap();
        let request = pager.authoriser(&exchange).authorise(&exchange.request, &opened(&given, None)).unwrap();
        assert_eq!(query(&request), [pair("page", "2"), pair("key", CANARY)]);
    };
    check("auth: { type: api_key, location: query, name: key }", "");
    check("auth: { type: api_key, name: X-Key }", "query: { key: \"${ credential.apiKey }\" }");

    // An upstream cannot make the request carry another value, or in another position.
    let pager = endpoint("auth: { type: api_key, name: X-Key }", "pagination: { type: url, next_url_path: $.next }");
    for url in ["https://api.example.org/v1/list?k=***", "https://api.example.org/v1/list?k=%01credential.apiKey%01"] {
        let exchange = pager.request(&ask(&Position::Url(Some(url.to_owned()))));
        let Ok(exchange) = exchange else { continue };
        let given = secrets(&[("apiKey", "canary-key")]);
        let request = pager.authoriser(&exchange).authorise(&exchange.request, &opened(&given, None)).unwrap();
        assert!(!request.url.contains("canary"), "{}", request.url);
    }
}

/// A value that only looks like a mark is a value.
#[test]
fn no_value_of_the_upstream_is_taken_for_a_mark() {
    let auth = "http: { base_url: \"https://api.example.org\", path: /list, method: post }
auth: { type: api_key, name: X-Key }
pagination: { type: token, next_token_path: $.next }";
    let given = secrets(&[("apiKey", "canary-key")]);
    for body in [
        "body: { json: { key: \"${ credential.apiKey }\", t: \"${ page.token }\" } }",
        "body: { form: { key: \"${ credential.apiKey }\", t: \"${ page.token }\" } }",
        "body: { raw: \"${ credential.apiKey } ${ page.token }\" }",
    ] {
        let pager = endpoint(auth, body);
        for token in [r"\u0001credential.apiKey\u0001", r"\\u0001credential.apiKey\\u0001", "%01credential.apiKey%01"] {
            let exchange = pager.request(&ask(&Position::Token(Some(token.to_owned())))).unwrap();
            let request = pager.authoriser(&exchange).authorise(&exchange.request, &opened(&given, None)).unwrap();
            let text = String::from_utf8(request.body.unwrap().to_vec()).unwrap();
            assert_eq!(text.matches("canary-key").count(), 1, "{text}");
        }
        let marked = Position::Token(Some("\u{1}credential.apiKey\u{1}".to_owned()));
        assert!(pager.request(&ask(&marked)).is_err(), "{body}");
    }
}

#[test]
fn short_values_are_words_and_stay() {
    let redactor = Redactor::new(&secrets(&[("apiKey", "id"), ("token", "seven77")]), None);
    assert_eq!(redactor.text("id seven77"), "id seven77");
    let redactor = Redactor::new(&secrets(&[("token", "eight888"), ("password", "eight888-longer")]), None);
    assert_eq!(redactor.text("eight888-longer, eight888"), "***, ***");
    assert!(!format!("{redactor:?}").contains("eight"));
    let basic = Redactor::new(&secrets(&[("username", "user"), ("password", "pass")]), None);
    assert_eq!(basic.text("Basic dXNlcjpwYXNz"), "Basic ***");
}

const OAUTH2: &str = "auth: { type: oauth2, oauth2: { token_url: \"https://auth.example.org/token?v=2\", grant: GRANT, scope: \"read all\", audience: api } }";

fn token_request(auth: &str, given: &[(&str, &str)], token: Option<&AccessToken>) -> Result<HttpRequest, Fault> {
    let pager = endpoint(auth, "");
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    let given = secrets(given);
    pager.authoriser(&exchange).token_request(&exchange.request, &opened(&given, token), NOW)
}

fn form(request: &HttpRequest) -> Vec<(String, String)> {
    url::form_urlencoded::parse(request.body.as_ref().unwrap()).into_owned().collect()
}

// covers: ING-4.2-01, G-12
#[test]
fn tokens_are_asked_for_as_rfc_6749_says() {
    let client = [("clientId", "id:1"), ("clientSecret", "s+1")];
    let auth = OAUTH2.replace("GRANT", "client_credentials");
    let request = token_request(&auth, &client, None).unwrap();
    assert_eq!((request.method, request.url.as_str()), (HttpMethod::Post, "https://auth.example.org/token?v=2"));
    assert_eq!(
        form(&request),
        [pair("grant_type", "client_credentials"), pair("scope", "read all"), pair("audience", "api")]
    );
    // `id%3A1:s%2B1`: encoded before they are joined.
    assert_eq!(header(&request, "authorization"), Some("Basic aWQlM0ExOnMlMkIx"));
    assert!(request.limits.total_timeout <= Duration::from_secs(20) && request.limits.max_redirects == 0);

    let body = auth.replace("scope:", "client_auth: body, scope:");
    let request = token_request(&body, &client, None).unwrap();
    assert!(form(&request).ends_with(&[pair("client_id", "id:1"), pair("client_secret", "s+1")]));
    assert_eq!(header(&request, "authorization"), None);
    let request = token_request(&auth, &client[..1], None).unwrap();
    assert!(form(&request).ends_with(&[pair("client_id", "id:1")]), "a public client");

    let auth = OAUTH2.replace("GRANT", "password");
    let user = [("clientId", "c"), ("username", "u"), ("password", "p")];
    let request = token_request(&auth, &user, None).unwrap();
    assert_eq!(form(&request)[..3], [pair("grant_type", "password"), pair("username", "u"), pair("password", "p")]);

    let auth = OAUTH2.replace("GRANT", "refresh_token");
    let first = [("clientId", "c"), ("refreshToken", "r0")];
    assert_eq!(form(&token_request(&auth, &first, None).unwrap())[1], pair("refresh_token", "r0"));
    let rotated = AccessToken { access: Secret::new("a1"), refresh: Some(Secret::new("r1")) };
    let request = token_request(&auth, &first, Some(&rotated)).unwrap();
    assert_eq!(form(&request)[1], pair("refresh_token", "r1"), "the newest one");
    let fault = token_request(&auth, &first[..1], None).unwrap_err();
    assert!(fault.message.contains("refreshToken"), "{fault}");
}

fn read_token(
    auth: &str,
    response: HttpResponse,
    before: Option<&AccessToken>,
) -> Result<(AccessToken, Option<Ts>), Fault> {
    let pager = endpoint(auth, "");
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    let read = pager.authoriser(&exchange).read_token(Ok(response), before, NOW);
    read.map(|fresh| (fresh.token, fresh.expires_at)).map_err(|refused| refused.fault)
}

fn token(access: &str, refresh: Option<&str>) -> AccessToken {
    AccessToken { access: Secret::new(access), refresh: refresh.map(Secret::new) }
}

// covers: G-12
#[test]
fn tokens_are_read_with_their_end_and_the_next_refresh_token() {
    let auth = OAUTH2.replace("GRANT", "refresh_token");
    let before = token("a0", Some("r0"));
    let read = |body: &str| read_token(&auth, answer(&[], body), Some(&before)).unwrap();
    let soon = Some(NOW + Duration::from_secs(3_600));
    assert_eq!(
        read(r#"{"access_token":"a1","refresh_token":"r1","expires_in":3600}"#),
        (token("a1", Some("r1")), soon)
    );
    assert_eq!(read(r#"{"access_token":"a1","expires_in":"3600"}"#), (token("a1", Some("r0")), soon), "it stays");
    assert_eq!(read(r#"{"access_token":"a1","expires_in":0}"#).1, None);
    assert_eq!(read(r#"{"access_token":"a1","expires_in":1e300}"#).1, None);
    let own = auth.replace("scope:", "token_path: $.data.t, expires_path: $.data.e, expires_in: PT10M, scope:");
    let (found, end) = read_token(&own, answer(&[], r#"{"data":{"t":"x"}}"#), None).unwrap();
    assert_eq!((found, end), (token("x", None), Some(NOW + Duration::from_secs(600))));
}

// covers: G-12, ING-4.2-10
#[test]
fn refused_token_is_final_and_repeats_nothing_that_was_sent() {
    let auth = OAUTH2.replace("GRANT", "refresh_token");
    let refused = |status: u16, body: &str| {
        let response = HttpResponse {
            status,
            headers: Vec::new(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            redirected: None,
        };
        read_token(&auth, response, None).unwrap_err()
    };
    let fault = refused(400, r#"{"error":"invalid_grant","error_description":"canary is used"}"#);
    assert_eq!((fault.code, fault.level), (Code::UpstreamAuthFailed, Level::L4));
    assert_eq!(fault.message, "the request for a token returned 400: invalid_grant");
    for (status, body) in [
        (401, "canary"),
        (403, r#"{"error":"Canary canary"}"#),
        (404, "canary"),
        (200, "canary"),
        (200, r#"{"canary":"canary"}"#),
        (200, r#"{"access_token":""}"#),
        (302, "canary"),
    ] {
        let fault = refused(status, body);
        assert_eq!(fault.level, Level::L4, "{status}: {fault}");
        assert!(!fault.message.contains("anary"), "{fault}");
    }
    for passing in [429, 500, 503, 408] {
        assert_eq!(refused(passing, "canary").level, Level::L1, "{passing}");
    }
    let pager = endpoint(&auth, "");
    let exchange = pager.request(&ask(&Position::Time)).unwrap();
    let lost = pager.authoriser(&exchange).read_token(Err(Error::Timeout { after: Duration::ZERO }), None, NOW);
    assert_eq!(lost.unwrap_err().fault.level, Level::L1);
}

const LOGIN: &str = "auth: { type: session, session: { url: /login, headers: { X-User: \"${ credential.username }\" }, body: { json: { user: \"${ credential.username }\", password: \"${ credential.password }\" } }, TOKEN, expires_in: PT5M } }";

// covers: ING-3.4-01
#[test]
fn a_session_is_opened_and_carried() {
    let given = [("username", "ü"), ("password", CANARY)];
    let auth = LOGIN.replace("TOKEN", "token_path: $.token");
    let request = token_request(&auth, &given, None).unwrap();
    assert_eq!((request.method, request.url.as_str()), (HttpMethod::Post, "https://api.example.org/v1/login"));
    assert_eq!(header(&request, "x-user"), Some("ü"));
    let body: serde_json::Value = serde_json::from_slice(request.body.as_ref().unwrap()).unwrap();
    assert_eq!(body, serde_json::json!({ "user": "ü", "password": CANARY }));

    let end = Some(NOW + Duration::from_secs(300));
    assert_eq!(read_token(&auth, answer(&[], r#"{"token":"t1"}"#), None).unwrap(), (token("t1", None), end));
    let by_header = LOGIN.replace("TOKEN", "token_header: X-Session");
    let response = answer(&[("x-session", "t2")], "");
    assert_eq!(read_token(&by_header, response, None).unwrap(), (token("t2", None), end));
    let by_cookie = LOGIN.replace("TOKEN", "cookie: sid");
    let set =
        [("set-cookie", "other=1"), ("set-cookie", "sid=old; Path=/"), ("set-cookie", "sid=t3; Path=/; HttpOnly")];
    let (found, _) = read_token(&by_cookie, answer(&set, ""), None).unwrap();
    assert_eq!(found, token("sid=t3", None));
    for auth in [&auth, &by_header, &by_cookie] {
        assert_eq!(read_token(auth, answer(&[], "{}"), None).unwrap_err().level, Level::L4);
    }

    let carried = |auth: &str, token: &AccessToken| {
        let pager = endpoint(auth, "");
        let exchange = pager.request(&ask(&Position::Time)).unwrap();
        let given = secrets(&given);
        assert!(pager.authoriser(&exchange).needs_token());
        pager.authoriser(&exchange).authorise(&exchange.request, &opened(&given, Some(token))).unwrap()
    };
    assert_eq!(header(&carried(&auth, &token("t1", None)), "authorization"), Some("Bearer t1"));
    assert_eq!(header(&carried(&by_cookie, &found), "cookie"), Some("sid=t3"));
}

// covers: ING-4.2-04
#[test]
fn a_signature_adds_headers_and_parameters() {
    let mut request = HttpRequest::new(HttpMethod::Get, "https://api.example.org/a?sig=old&q=%20x#f");
    request.headers.push(("X-Sig".to_owned(), "old".to_owned()));
    let signature = Signature { headers: vec![pair("x-sig", "new")], query: vec![pair("sig", "a b")] };
    sign(&mut request, &signature).unwrap();
    assert_eq!(request.url, "https://api.example.org/a?q=%20x&sig=a+b#f");
    assert_eq!(header(&request, "x-sig"), Some("new"));
    assert!(!format!("{signature:?}").contains("new"));
    let broken = Signature { headers: vec![pair("x-sig", "a\r\nb")], query: Vec::new() };
    assert_eq!(sign(&mut request, &broken).unwrap_err().level, Level::L4);
}

// covers: C-59
#[test]
fn the_digest_says_which_credential_was_used() {
    let pager = endpoint("auth: { type: bearer }", "");
    let mut exchange = pager.request(&ask(&Position::Time)).unwrap();
    exchange.note_credential(patra_core::CredentialId(7));
    let digest: serde_json::Value = serde_json::from_str(&exchange.evidence(Duration::ZERO).request_digest).unwrap();
    assert_eq!((&digest["credentialId"], &digest["method"]), (&7.into(), &"GET".into()));
}
