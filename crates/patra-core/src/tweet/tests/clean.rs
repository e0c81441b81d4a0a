use proptest::prelude::*;
use serde_json::json;

use super::*;

fn draft() -> TweetDraft {
    TweetDraft {
        tweet_id: Some("1890000000000000001".into()),
        text: Some("hello".into()),
        created_at: Some("Fri Feb 06 09:31:48 +0000 2026".into()),
        author_username: Some("alice".into()),
        ..TweetDraft::default()
    }
}

fn photo() -> Media {
    Media { media_key: "m1".into(), r#type: "photo".into(), url: None, width: None, height: None }
}

// covers: TWEET-50
#[test]
fn each_run_of_white_space_is_one_blank() {
    for (text, cleaned) in [
        ("a\n\nb", "a b"),
        ("\r\n  a \t b\u{a0}\u{3000}c  ", "a b c"),
        ("a\0b", "a b"),
        (" \n ", ""),
        ("", ""),
        ("你好\n世界", "你好 世界"),
    ] {
        assert_eq!(clean(text), cleaned, "{text:?}");
    }
}

// covers: TWEET-51, TWEET-121
#[test]
fn long_texts_are_cut_by_code_points() {
    assert_eq!(clean(&"ü".repeat(25_000)).chars().count(), 25_000);
    let cut = clean(&format!("{}é", "𝄞".repeat(25_000)));
    assert_eq!((cut.chars().count(), cut.ends_with('𝄞')), (25_000, true));
    // The blank at the cut goes as well.
    assert_eq!(clean(&format!("{} b", "a".repeat(24_999))).chars().count(), 24_999);
}

// covers: TWEET-38, TWEET-52, TWEET-169
#[test]
fn dates_of_both_forms_are_brought_to_utc() {
    for (text, short) in [
        ("Fri Feb 06 09:31:48 +0000 2026", "2026-02-06T09:31:48Z"),
        ("Thu Aug 14 07:37:46 +0200 2025", "2025-08-14T05:37:46Z"),
        ("2010-08-27T20:13:59.000000Z", "2010-08-27T20:13:59Z"),
        ("2026-02-06T10:31:48.250+01:00", "2026-02-06T09:31:48.250000Z"),
    ] {
        assert_eq!(instant(text).map(Ts::to_short_text).as_deref(), Some(short), "{text}");
    }
    for text in
        ["", "now", "yesterday", "Fri Feb 31 09:31:48 +0000 2026", "Fri Feb 06 2026", "1 Feb 06 09:31:48 +0000 2026"]
    {
        assert_eq!(instant(text), None, "{text}");
    }
}

// covers: TWEET-48, TWEET-49, TWEET-REQ-9, TWEET-TEST-3, TWEET-ERR-5
#[test]
fn missing_fields_are_listed_and_nothing_is_thrown() {
    let invalid = TweetDraft::default().validate().unwrap_err();
    assert_eq!(invalid.missing, ["tweet_id", "author_username", "text", "created_at"]);
    assert_eq!(invalid.to_string(), "missing: tweet_id, author_username, text, created_at");
    let blank = TweetDraft { tweet_id: Some(" ".into()), author_username: Some(String::new()), ..draft() };
    assert_eq!(blank.validate().unwrap_err().missing, ["tweet_id", "author_username"]);
}

// covers: TWEET-38
#[test]
fn a_date_that_cannot_be_read_is_never_replaced() {
    let odd = TweetDraft { created_at: Some("soon".into()), ..draft() }.validate().unwrap_err();
    assert_eq!(odd.to_string(), "created_at is not a date: \"soon\"");
}

// covers: TWEET-55
#[test]
fn an_empty_text_needs_media_or_a_reference() {
    let empty = || TweetDraft { text: Some(" \n".into()), ..draft() };
    assert_eq!(empty().validate().unwrap_err().missing, ["text"]);
    let shown = TweetDraft { media: vec![photo()], ..empty() }.validate().unwrap();
    assert_eq!((shown.text.as_str(), shown.media), ("", Some(vec![photo()])));
    let reference = Some(Reference { id: "7".into(), r#type: ReferenceType::Retweeted });
    assert_eq!(TweetDraft { reference, ..empty() }.validate().unwrap().text, "");
    let absent = TweetDraft { text: None, media: vec![photo()], ..draft() };
    assert_eq!(absent.validate().unwrap_err().missing, ["text"], "it must be there, if only empty");
}

// covers: TWEET-53
#[test]
fn the_text_of_the_referenced_tweet_is_cleaned_the_same_way() {
    let long = format!("a\n\n{}", "b".repeat(30_000));
    let tweet = TweetDraft { referenced_tweet_text: Some(long), ..draft() }.validate().unwrap();
    let text = tweet.referenced_tweet_text.unwrap();
    assert!(text.starts_with("a b") && text.chars().count() == MAX_TEXT_LENGTH);
}

// covers: TWEET-124
#[test]
fn long_identifiers_are_refused_and_long_display_texts_are_cut() {
    let long = "x".repeat(256);
    let invalid = TweetDraft { tweet_id: Some(long.clone()), author_username: Some("a\nb".into()), ..draft() };
    let invalid = invalid.validate().unwrap_err();
    assert_eq!(
        invalid.to_string(),
        "tweet_id has more than 255 characters; author_username contains a control character"
    );
    let tweet = TweetDraft { author_display_name: Some(long), ..draft() }.validate().unwrap();
    assert_eq!(tweet.author_display_name.unwrap().len(), 255);
    let nameless = TweetDraft { author_display_name: Some(" ".into()), ..draft() }.validate().unwrap();
    assert_eq!(nameless.author_display_name, None);
}

// covers: TWEET-125, TWEET-126, TWEET-127, TWEET-128, TWEET-129, TWEET-130, TWEET-132, TWEET-139
#[test]
fn a_tweet_has_the_columns_by_their_names() {
    let tweet = TweetDraft {
        author_display_name: Some("Alice".into()),
        reference: Some(Reference { id: "1889999999999999999".into(), r#type: ReferenceType::Retweeted }),
        referenced_tweet_text: Some("long text in full".into()),
        referenced_tweet_media: vec![Media {
            url: Some("https://img.example/m1.jpg".into()),
            width: Some(1200),
            height: Some(800),
            ..photo()
        }],
        referenced_tweet_author_username: Some("bob".into()),
        ..draft()
    };
    let tweet = tweet.validate().unwrap();
    let stored = json!({
        "tweet_id": "1890000000000000001", "text": "hello", "created_at": "2026-02-06T09:31:48Z",
        "author_username": "alice", "author_display_name": "Alice",
        "referenced_tweet_id": "1889999999999999999", "reference_type": "retweeted", "media": null,
        "referenced_tweet_text": "long text in full",
        "referenced_tweet_media": [{"media_key": "m1", "type": "photo", "url": "https://img.example/m1.jpg", "width": 1200, "height": 800}],
        "referenced_tweet_author_username": "bob",
    });
    assert_eq!(serde_json::to_value(&tweet).unwrap(), stored);
    assert_eq!(serde_json::from_value::<Tweet>(stored).unwrap(), tweet);
    let words = [ReferenceType::Retweeted, ReferenceType::Quoted, ReferenceType::RepliedTo];
    assert_eq!(serde_json::to_value(words).unwrap(), json!(["retweeted", "quoted", "replied_to"]));
}

// covers: TWEET-36
#[test]
fn a_short_text_with_an_ellipsis_was_probably_cut() {
    assert!(is_probably_cut("RT @bob: long…") && is_probably_cut("and so on... "));
    assert!(!is_probably_cut("all of it") && !is_probably_cut(&format!("{}…", "a".repeat(299))));
}

proptest! {
    // covers: TWEET-50, TWEET-51
    #[test]
    fn cleaning_twice_changes_nothing(text in ".{0,200}") {
        let once = clean(&text);
        prop_assert_eq!(&clean(&once), &once);
        prop_assert!(!once.contains(['\n', '\r', '\0']) && !once.contains("  ") && once.trim() == once);
    }

    #[test]
    fn no_date_panics(text in ".{0,60}") {
        let _ = instant(&text);
        let _ = instant(&format!("Fri {text}"));
    }
}
