//! Recorded feeds and pages: encodings, JSON Feeds, autodiscovery, a listing.

#![expect(clippy::unwrap_used, reason = "helpers of tests, which clippy does not see as tests")]

use std::io::Read as _;

use flate2::read::GzDecoder;
use patra_connectors::feed::{self, Feed};
use patra_connectors::page::{self, SelectRules};
use serde::Deserialize;
use serde_json::json;
use url::Url;

macro_rules! fixture {
    ($path:literal) => {
        include_bytes!(concat!("fixtures/", $path)).as_slice()
    };
}

fn read(body: &[u8]) -> Feed {
    feed::read(body, None, &Url::parse("http://example.org/feed").unwrap()).unwrap()
}

fn title(body: &[u8]) -> String {
    read(body).title.unwrap()
}

// covers: COLL-125
#[test]
fn feeds_in_many_encodings_are_read() {
    assert_eq!(title(fixture!("feeds/encoding/iso-8859-1.xml")), "Café");
    assert_eq!(title(fixture!("feeds/encoding/koi8r.xml")), "Пример RSS ленты");
    assert_eq!(title(fixture!("feeds/encoding/invalid-prolog.xml")), "테스트 피드");
    assert_eq!(title(fixture!("feeds/encoding/utf8-incorrect-prolog.xml")), "테스트 피드");
    for body in
        [fixture!("feeds/encoding/windows-1252.xml"), fixture!("feeds/encoding/windows-1252-incorrect-prolog.xml")]
    {
        let feed = read(body);
        let shown = format!("{:?} {:?}", feed.title, feed.entries.iter().map(|entry| &entry.title).collect::<Vec<_>>());
        assert!(shown.contains('€') || shown.contains('é'), "{shown}");
        assert!(!shown.contains('\u{fffd}'), "{shown}");
    }
    let quotes = read(fixture!("feeds/encoding/miniflux_encoding_WINDOWS-1251.xml"));
    assert_eq!(quotes.subtitle.as_deref(), Some("Новый цитатник Рунета"));
    assert_eq!(quotes.entries[0].title.as_deref(), Some("Цитата #17703"));
    let psychology = read(fixture!("feeds/encoding/miniflux_no_encoding_ISO-8859-1.xml"));
    assert!(psychology.entries.iter().any(|entry| entry.title.as_deref().unwrap().contains('é')));
    let urdu = read(fixture!("feeds/encoding/miniflux_urdu_UTF8.xml"));
    assert!(urdu.title.unwrap().starts_with("BBC News  اردو".replace("  ", " ").as_str()));
    let rdf = read(fixture!("feeds/encoding/miniflux_rdf_UTF8.xml"));
    assert!(rdf.entries.len() > 10 && rdf.entries[0].title.as_deref().unwrap().contains("Vorsichtsmaßnahmen"));
    assert!(read(fixture!("feeds/encoding/miniflux_encoding_ISO-8859-1.xml")).entries.len() > 10);
    for page in [fixture!("feeds/encoding/iso-8859-1.html"), fixture!("feeds/encoding/iso-8859-1-meta-after-1024.html")]
    {
        assert!(feed::decode(page, None).contains("Café"));
    }
    for page in [fixture!("feeds/encoding/utf8.html"), fixture!("feeds/encoding/utf8-meta-after-1024.html")] {
        assert!(feed::decode(page, None).contains("Café"));
    }
}

#[test]
fn recorded_json_feeds_are_read() {
    let elastic = read(fixture!("feeds/jsonfeed/jsonfeed_elastic_1.1.json"));
    assert_eq!(elastic.title.as_deref(), Some("Blog – InfluxData"));
    assert_eq!(elastic.author.as_deref(), Some("Fake Author 3, Fake Author 4"));
    let spec = read(fixture!("feeds/jsonfeed/jsonfeed_spec_1.json"));
    assert_eq!(spec.entries[0].date().unwrap().at.unwrap().to_short_text(), "2017-05-17T15:02:12Z");
    assert!(spec.entries[0].content[0].value.starts_with("<p>We — Manton"));
    assert_eq!(read(fixture!("feeds/jsonfeed/jsonfeed_example_1.json")).entries.len(), 2);
}

#[derive(Deserialize)]
struct Sample {
    file: String,
    html: String,
}

#[test]
fn the_feeds_of_pages_are_found() {
    let mut text = String::new();
    GzDecoder::new(fixture!("feeds/autodiscovery_feedfinder.json.gz")).read_to_string(&mut text).unwrap();
    let samples: Vec<Sample> = serde_json::from_str(&text).unwrap();
    let (mut usable, mut missed) = (0, Vec::new());
    for sample in samples {
        let wanted = format!("/{}.xml", sample.file.rsplit('/').next().unwrap().trim_end_matches(".html"));
        if !sample.html.contains(&wanted[1..]) {
            continue;
        }
        usable += 1;
        let address = Url::parse("http://example.org/tests/client/autodiscovery/page.html").unwrap();
        let found = page::feeds(&sample.html, &address).unwrap();
        if !found.first().is_some_and(|feed| feed.declared && feed.href.ends_with(&wanted)) {
            missed.push(format!("{}: {found:?}", sample.file));
        }
    }
    assert_eq!(usable, 56);
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// Counts by the ends of addresses, which stay when classes change.
// covers: COLL-127
#[test]
fn a_listing_is_read_by_selectors() {
    let html = String::from_utf8(fixture!("github_trending/daily_anonymous_3rows_2026-04.html").to_vec()).unwrap();
    let rules = |item: &str| -> SelectRules {
        let fields = json!({
            "url": { "selector": "h2.lh-condensed a[href]", "attr": "href", "required": true },
            "stars": { "selector": "a[href$='/stargazers']", "required": true },
            "language": { "selector": "[itemprop=programmingLanguage]" },
            "builders": { "selector": "a[data-hovercard-type=user]", "attr": "href", "many": true },
        });
        serde_json::from_value(json!({ "item": item, "fields": fields })).unwrap()
    };
    let address = Url::parse("https://github.com/trending").unwrap();
    let rows = page::select(&html, &address, &rules("article.Box-row")).unwrap();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert!(row["url"].as_str().unwrap().starts_with("https://github.com/"), "{row:?}");
        assert!(row["stars"].as_str().unwrap().replace(',', "").parse::<u32>().is_ok(), "{row:?}");
    }
    let error = page::select(&html, &address, &rules("article.Row-box")).unwrap_err();
    assert!(error.to_string().contains("`article.Row-box`"), "{error}");
}
