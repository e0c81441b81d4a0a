//! Measures the reading of feeds: the feeds of the suite several times, and one large feed.
//!
//! `cargo run --release -p patra-connectors --example feed_speed [TIMES] [FILE]`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures and reports")]

use std::error::Error;
use std::io::Read as _;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use patra_connectors::feed;
use serde_json::Value;
use url::Url;

/// Entries of the large feed.
const ENTRIES: usize = 2_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let times = arguments.next().map_or(Ok(5), |times| times.parse::<u32>())?;
    let bodies = match arguments.next() {
        Some(file) => vec![std::fs::read(file)?],
        None => suite()?,
    };
    report("suite or file", &bodies, times)?;
    report("one large feed", &[large()], times)
}

fn report(name: &str, bodies: &[Vec<u8>], times: u32) -> Result<(), Box<dyn Error>> {
    let base = Url::parse("http://example.org/feed")?;
    let start = Instant::now();
    let mut entries = 0;
    for _ in 0..times {
        for body in bodies {
            entries += feed::read(body, None, &base).map_or(0, |feed| feed.entries.len());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let times = f64::from(times);
    let feeds = times * f64::from(u32::try_from(bodies.len())?);
    let bytes = times * f64::from(u32::try_from(bodies.iter().map(Vec::len).sum::<usize>())?);
    println!(
        "{name}: {:.0} feeds/s, {:.1} MB/s, {entries} entries in {seconds:.3} s",
        feeds / seconds,
        bytes / seconds / 1e6
    );
    Ok(())
}

fn suite() -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut text = String::new();
    GzDecoder::new(include_bytes!("../tests/fixtures/feeds/feedparser_cases.json.gz").as_slice())
        .read_to_string(&mut text)?;
    let cases: Vec<Value> = serde_json::from_str(&text)?;
    cases.iter().map(|case| Ok(STANDARD.decode(case["b64"].as_str().unwrap_or_default())?)).collect()
}

fn large() -> Vec<u8> {
    let mut body = "<rss version='2.0'><channel><title>Large</title>".to_owned();
    for at in 0..ENTRIES {
        body.push_str(&format!(
            "<item><title>Entry {at} &amp; more</title><link>http://example.org/{at}</link><guid>http://example.org/{at}</guid>\
             <pubDate>Thu, 01 Jan 2004 19:48:21 GMT</pubDate><description><![CDATA[<p>Some <b>text</b> with <a href='/x'>a link</a>, \
             a list <ul><li>one</li><li>two</li></ul> and <img src='/i.png' alt='a picture'>.</p><p>And a second paragraph, \
             which is a little longer than the first one was.</p>]]></description></item>"
        ));
    }
    body.push_str("</channel></rss>");
    body.into_bytes()
}
