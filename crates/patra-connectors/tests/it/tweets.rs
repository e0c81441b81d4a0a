//! Pages of tweets, as a manifest declares them.

use serde_json::{Value, json};

use patra_core::paging::{EndReason, PageStep, PageWalk};
use patra_core::{Code, Level};

use super::*;

const WIRE: &str = include_str!("../../../../sources/fixtures/twitterapi_io/last_tweets_wire.json");

const ENDPOINT: &str = "polled: true
kind: tweet
params: { since_id: {}, limit: {} }
query: { cursor: \"${ page.token }\" }
pagination: { type: token, next_token_path: $.next_cursor, has_more_path: $.has_next_page, unique_tokens: true, repeat_ends: true, until_param: since_id, limit_param: limit }
response:
  format: tweets
  errors:
    - { path: $.status, equals: error, message_path: $.msg }
    - { status: [402], code: QUOTA_EXHAUSTED, level: L4, message_path: $.detail }
    - { status: [403], path: $.error, equals: Forbidden, code: UPSTREAM_AUTH_FAILED, level: L4 }
    - { status: [403], code: FORBIDDEN }
    - { status: [404], code: NOT_FOUND }
    - { status: [500], throttle: true }
fields: { lang: $.lang }
record: { add: { via: provider }, filter: [{ path: $.lang, not_equals: xx }] }";

fn tweet(id: u32) -> Value {
    json!({ "id": id.to_string(), "text": format!("t{id}"), "createdAt": "2026-02-06T09:31:48Z", "author": { "userName": "a" }, "lang": "en" })
}

fn tweets(ids: &[u32]) -> Value {
    ids.iter().map(|id| tweet(*id)).collect()
}

fn body(tweets: Value) -> String {
    let mut page = json!({ "has_next_page": true, "next_cursor": "n" });
    page["tweets"] = tweets;
    page.to_string()
}

fn since(id: &str, body: &str) -> Box<FetchedPage> {
    let pager = pager(ENDPOINT);
    let params = Params::from([("since_id".to_owned(), id.to_owned())]);
    let ask =
        PageRequest { position: &Position::Token(None), window: window(), page_size: 20, params: &params, now: NOW };
    let exchange = pager.request(&ask).unwrap();
    pager.read(exchange, Ok(answer(&[], body)), Duration::ZERO, NOW).unwrap()
}

fn refused(status: u16, body: &str) -> (Code, Level, bool, String) {
    let response = HttpResponse { status, ..answer(&[], body) };
    let refusal = *read_at(&pager(ENDPOINT), &Position::Token(None), response).unwrap_err();
    (refusal.fault.code, refusal.fault.level, refusal.throttled, refusal.fault.message)
}

// covers: TWEET-137, TWEET-151, TWEET-169
#[test]
fn tweet_is_stored_unchanged_with_its_columns() {
    let page = page(ENDPOINT, WIRE);
    assert_eq!((page.facts.items, page.records.len(), page.rejected.len()), (7, 7, 0));
    assert_eq!((page.facts.has_more, page.facts.next_token.as_deref()), (Some(true), Some("DAABCgABHconstructed")));
    let first = &page.records[0];
    let sent = &*first.payload;
    assert!(WIRE.contains(sent) && sent.starts_with('{'), "not a byte is changed");
    assert_eq!(
        (first.key.as_str(), first.version.updated_at),
        ("2000000000000000001", "2026-09-09T06:00:00Z".parse().unwrap())
    );
    let fields: Value = serde_json::from_str(&first.fields).unwrap();
    assert_eq!(fields["author_username"], "patra_demo");
    assert_eq!(fields["created_at"], "2026-09-09T06:00:00Z");
    assert_eq!(
        (&fields["lang"], &fields["via"], &fields["view_count"]),
        (&json!("en"), &json!("provider"), &json!(100))
    );
    let old: Value = serde_json::from_str(&page.records[6].fields).unwrap();
    assert_eq!(old["view_count"], Value::Null);
}

// covers: TWEET-45, TWEET-54
#[test]
fn a_tweet_that_cannot_be_used_goes_to_quarantine_with_its_reason() {
    let page = page(ENDPOINT, &body(json!([tweet(3), { "id": "2", "createdAt": "soon" }, tweet(1)])));
    assert_eq!(keys(&page), ["3", "1"]);
    let rejected = &page.rejected[0];
    assert_eq!((rejected.index, rejected.key.as_deref(), rejected.code), (1, Some("2"), Code::ValidationError));
    assert_eq!(rejected.reason, "missing: author_username, text; created_at is not a date: \"soon\"");
    assert!(rejected.sample.contains("soon"));
    assert_eq!(page.facts.items, 3);
    let warning = "tweet 2 is skipped: missing: author_username, text; created_at is not a date: \"soon\"";
    assert_eq!(page.warnings, [warning]);
}

// covers: TWEET-47
#[test]
fn another_form_is_a_parse_error_that_stops_the_source_and_a_cut_body_is_the_line_s_fault() {
    let (code, level, ..) = refused(200, r#"{"status":"success"}"#);
    assert_eq!((code, level), (Code::ParseError, Level::L4));
    assert_eq!(refused(200, r#"{"tweets":[{"id""#).1, Level::L1);
}

// covers: TWEET-21, TWEET-27, TWEET-168
#[test]
fn an_error_in_a_200_is_no_empty_page() {
    let error = include_str!("../../../../sources/fixtures/twitterapi_io/error_200_status_error.json");
    let (code, level, _, message) = refused(200, error);
    assert_eq!((code, level), (Code::PlatformError, Level::L2));
    assert!(message.ends_with("Error message"), "{message}");
    let (code, _, _, message) = refused(200, r#"{"status":"error","message":"try it tomorrow"}"#);
    assert_eq!(
        (code, message.as_str()),
        (Code::PlatformError, "the upstream returned an error at $.status: try it tomorrow")
    );
    assert_eq!(refused(402, r#"{"message":"no credits"}"#).3, "the upstream returned 402: no credits");
}

#[test]
fn statuses_mean_what_the_manifest_says() {
    let forbidden = include_str!("../../../../sources/fixtures/twitterapi_io/error_403_missing_key.json");
    let meant = |status, body: &str| {
        let (code, level, ..) = refused(status, body);
        (code, level)
    };
    assert_eq!(meant(401, "{}"), (Code::UpstreamAuthFailed, Level::L4));
    assert_eq!(meant(403, forbidden), (Code::UpstreamAuthFailed, Level::L4), "the key");
    assert_eq!(meant(403, r#"{"error":"protected"}"#), (Code::Forbidden, Level::L2), "the user");
    assert_eq!(meant(403, "<html>"), (Code::Forbidden, Level::L2));
    assert_eq!(meant(404, ""), (Code::NotFound, Level::L2));
    assert_eq!(meant(400, "{}"), (Code::PlatformError, Level::L2), "nothing is said of it");
    let (code, level, throttled, message) = refused(402, r#"{"detail":"no credits\nleft"}"#);
    assert_eq!((code, level, throttled), (Code::QuotaExhausted, Level::L4, false));
    assert_eq!(message, "the upstream returned 402: no credits left");
    let (code, level, throttled, _) = refused(500, "");
    assert_eq!((code, level, throttled), (Code::RateLimited, Level::L1, true));
}

// covers: TWEET-24, TWEET-26
#[test]
fn paging_stops_at_the_first_tweet_that_is_known() {
    let page = since("9", &body(tweets(&[11, 10, 9, 12])));
    assert_eq!((keys(&page), page.facts.items, page.facts.has_more), (vec!["11", "10"], 2, Some(false)));
    let all = since("9", &body(tweets(&[11, 10])));
    assert_eq!((all.records.len(), all.facts.has_more), (2, Some(true)));
    let none = since("99999999999999999999", &body(tweets(&[11, 10])));
    assert_eq!((none.records.len(), none.facts.items, none.facts.has_more), (0, 0, Some(false)));
}

// covers: TWEET-26, TWEET-167
#[test]
fn a_pinned_tweet_does_not_end_the_paging() {
    let pinned = json!({ "data": { "pin_tweet": tweet(3), "tweets": tweets(&[11, 10]) }, "has_next_page": true, "next_cursor": "n" });
    let page = since("9", &pinned.to_string());
    assert_eq!((keys(&page), page.facts.items, page.facts.has_more), (vec!["11", "10"], 2, Some(true)));
    assert_eq!(keys(&since("2", &pinned.to_string())), ["3", "11", "10"]);
    let mut marked = tweets(&[3, 11, 10]);
    marked[0]["isPinned"] = true.into();
    assert_eq!(keys(&since("9", &body(marked))), ["11", "10"]);
}

// covers: TWEET-26
#[test]
fn other_formats_stop_at_a_known_id_as_well() {
    let endpoint = "polled: true
params: { since: {} }
pagination: { type: url, next_url_path: $.next, until_param: since }
response: { items_path: $.items, id_path: $.id }";
    let pager = pager(endpoint);
    let params = Params::from([("since".to_owned(), "7".to_owned())]);
    let ask = PageRequest { position: &Position::Url(None), window: window(), page_size: 9, params: &params, now: NOW };
    let exchange = pager.request(&ask).unwrap();
    let body = r#"{"items":[{"id":9},{"id":"x"},{"id":7},{"id":8}],"next":"/2"}"#;
    let page = pager.read(exchange, Ok(answer(&[], body)), Duration::ZERO, NOW).unwrap();
    assert_eq!((keys(&page), page.facts.items, page.facts.has_more), (vec!["9", "x"], 2, Some(false)));
}

// covers: TWEET-25, TWEET-170
#[test]
fn paging_ends_whatever_the_upstream_says_about_more() {
    let yaml = format!(
        "provenance: far\nendpoints:\n  list:\n    http: {{ base_url: \"https://api.example.org\" }}\n    {}",
        ENDPOINT.replace('\n', "\n    ")
    );
    let manifest = patra_spec::read("far.yaml", &yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let rule = patra_spec::compile(&manifest, "list", Operation::Harvest).unwrap().snapshot.paging();
    let walk = |bodies: &[(&str, Value)]| -> Vec<PageStep> {
        let (mut walk, mut here, mut steps) = (PageWalk::new(true), Position::Token(None), Vec::new());
        for (next, tweets) in bodies {
            let body = json!({ "tweets": tweets, "has_next_page": true, "next_cursor": next }).to_string();
            let page = page(ENDPOINT, &body);
            steps.push(walk.after(&rule, &here, &page.facts, page.content, &page.rejected));
            if let Some(token) = here.token_key() {
                walk.remember(&token);
            }
            here = Position::Token(Some((*next).to_owned()));
        }
        steps
    };
    let ends = |bodies: &[(&str, Value)], end| {
        let steps = walk(bodies);
        assert_eq!(steps.last(), Some(&PageStep::End(end)), "{steps:?}");
        assert!(steps[..steps.len() - 1].iter().all(|step| matches!(step, PageStep::Next { .. })), "{steps:?}");
    };
    ends(&[("a", tweets(&[3, 2])), ("b", tweets(&[]))], EndReason::Page);
    ends(&[("a", tweets(&[3, 2])), ("a", tweets(&[1]))], EndReason::TokenSeen);
    ends(&[("a", tweets(&[3, 2])), ("", tweets(&[1]))], EndReason::Page);
    // The same tweets with other counts are no new ones.
    let mut again = tweets(&[2, 3]);
    again[0]["viewCount"] = 7.into();
    ends(&[("a", tweets(&[3, 2])), ("b", again)], EndReason::Repeated);
}

// covers: TWEET-36
#[test]
fn text_that_was_probably_cut_gives_a_warning() {
    let mut retweet = tweet(5);
    retweet["retweeted_tweet"] = json!({ "id": "1", "text": "long…", "author": { "userName": "b" } });
    let page = page(ENDPOINT, &body(json!([retweet, tweet(4)])));
    assert_eq!(
        page.warnings,
        ["the text that tweet 5 refers to was probably cut: 5 characters that end with an ellipsis"]
    );
    assert_eq!(page.records.len(), 2);
}

#[test]
fn an_unchanged_first_page_is_read_again_where_more_may_be_wanted() {
    let page = page(ENDPOINT, WIRE);
    assert_eq!(page.validators, None);
}

// covers: TWEET-169
#[test]
fn without_fields_of_its_own_a_manifest_gets_the_columns() {
    let bare = "polled: true\nresponse: { format: tweets }";
    let page = page(bare, &body(tweets(&[1])));
    let fields: Value = serde_json::from_str(&page.records[0].fields).unwrap();
    assert_eq!(
        (fields.as_object().unwrap().len(), &fields["view_count"]),
        (patra_core::tweet::COLUMNS.len(), &Value::Null)
    );
}

#[test]
fn filters_and_windows_hold_for_tweets_too() {
    let mut foreign = tweet(2);
    foreign["lang"] = "xx".into();
    assert_eq!(keys(&page(ENDPOINT, &body(json!([tweet(3), foreign])))), ["3"]);
    let dated = "query: { cursor: \"${ page.token }\" }\npagination: { type: token, next_token_path: $.next_cursor }\nresponse: { format: tweets }";
    let pager = pager(dated);
    let window = Window { from: Ts::from_secs(0), to: "2026-02-06".parse().unwrap() };
    let params = Params::new();
    let ask = PageRequest { position: &Position::Token(None), window, page_size: 20, params: &params, now: NOW };
    let exchange = pager.request(&ask).unwrap();
    let page = pager.read(exchange, Ok(answer(&[], &body(tweets(&[1])))), Duration::ZERO, NOW).unwrap();
    assert_eq!((page.facts.items, page.records.len()), (1, 0), "it is of another window");
}

/// An endpoint of the manifest that comes with the product.
fn shipped(endpoint: &str) -> patra_spec::Snapshot {
    let yaml = include_str!("../../../../sources/twitterapi_io.yaml");
    let manifest = patra_spec::read("twitterapi_io.yaml", yaml).unwrap_or_else(|problems| panic!("{problems}"));
    let inspected = patra_spec::inspect(&manifest, endpoint, Operation::Harvest, &patra_spec::Overrides::default());
    inspected.unwrap_or_else(|problems| panic!("{problems}")).snapshot
}

// covers: TWEET-28, TWEET-31, TWEET-32, TWEET-155, TWEET-GAP-15
#[test]
fn the_provider_is_asked_three_times_again_and_for_thirty_seconds() {
    let spec = shipped("twitter_feed");
    let policy = spec.retry_policy();
    assert_eq!((policy.max_attempts, policy.min_delay_ms, policy.max_delay_ms), (4, 1_000, 60_000));
    assert_eq!((policy.multiplier_percent, spec.timeout()), (200, Some(Duration::from_secs(30))));
    assert!((500..600).all(|status| spec.retry.is_retryable(status)) && !spec.retry.is_retryable(402));
    assert_eq!((spec.kind.as_str(), spec.dedup_scope.as_str(), spec.polled), ("tweet", "tweet", true));
}

// covers: TWEET-19, TWEET-20, TWEET-23, TWEET-24
#[test]
fn the_request_names_the_user_the_cursor_and_the_key() {
    let spec = shipped("twitter_feed");
    let params = |pairs: &[(&str, &str)]| -> Result<Params, String> {
        let given = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        spec.resolve_params(&given).map_err(|fault| fault.message)
    };
    let resolved = params(&[("username", "alice")]).unwrap();
    assert_eq!(resolved["limit"], "100");
    let pager = Pager::new(&spec).unwrap();
    let asked = |position: &Position| {
        let ask = PageRequest { position, window: window(), page_size: 20, params: &resolved, now: NOW };
        pager.request(&ask).unwrap().request.url
    };
    let url = "https://api.twitterapi.io/twitter/user/last_tweets?includeReplies=false&userName=alice";
    assert_eq!(asked(&Position::Token(None)), url);
    let next = "https://api.twitterapi.io/twitter/user/last_tweets?cursor=c%3D&includeReplies=false&userName=alice";
    assert_eq!(asked(&Position::Token(Some("c=".into()))), next);
    assert_eq!((spec.auth.name.as_str(), spec.auth.credential_ref.as_str()), ("X-API-Key", "twitterapi_io"));
    for (name, odd) in [("limit", "0"), ("limit", "1001"), ("limit", "x"), ("since_id", "x"), ("username", "al ice")] {
        assert!(params(&[("username", "alice"), (name, odd)]).is_err(), "{name}={odd}");
    }
    assert!(params(&[("username", "alice"), ("limit", "1000"), ("since_id", "1890000000000000001")]).is_ok());
}

// covers: TWEET-168
#[test]
fn user_info_shows_which_users_exist() {
    let pager = Pager::alone(&shipped("user_info")).unwrap();
    let params = Params::from([("username".to_owned(), "patra_demo".to_owned())]);
    let read = |body: &str| {
        let ask = PageRequest { position: &Position::Time, window: window(), page_size: 1, params: &params, now: NOW };
        pager.read(pager.request(&ask).unwrap(), Ok(answer(&[], body)), Duration::ZERO, NOW)
    };
    let known = read(include_str!("../../../../sources/fixtures/twitterapi_io/user_info.json")).unwrap();
    assert_eq!(keys(&known), ["1000000000000000001"]);
    assert!(known.records[0].fields.contains("\"username\":\"patra_demo\""));
    let unknown = read(r#"{"status":"error","msg":"User not found","data":null}"#).unwrap_err();
    assert_eq!((unknown.fault.code, unknown.fault.level), (Code::NotFound, Level::L2));
}
