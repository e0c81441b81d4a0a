//! Renders one record as JSON text: nested, with non-ASCII words, escapes and nulls, because a collector must preserve
//! all of them.

use std::fmt::Write;
use std::ops::Range;

use super::vocabulary::{COUNTRIES, FAMILY, GIVEN, JOURNALS, KINDS, LANGUAGES, PUBLISHERS, WORDS};
use crate::rng::{SplitMix64, scatter};
use crate::time::rfc3339;

/// Range of the id in a rendered record.
pub(super) const ID: Range<usize> = 7..18;

pub(super) const TYPICAL_BYTES: usize = 1100;

const DAY_MICROS: i64 = 86_400_000_000;

/// Appends record number `n`; depends on nothing but its arguments.
pub(super) fn render(out: &mut String, seed: u64, n: u64, updated_at: i64) {
    let r = &mut SplitMix64::new(seed ^ n.wrapping_mul(0xA24B_AED4_963E_E407));
    let number = scatter(n, seed);
    // Writing to a String cannot fail.
    let _ = write!(out, r#"{{"id":"W{number:010x}","doi":"10.5555/{number:x}.{}","title":""#, n % 977);
    let words = 7 + r.below(8);
    sentence(r, out, words);
    out.push_str(r#"","abstract":""#);
    summary(r, out);
    let _ = write!(out, r#"","type":"{}","language":"{}","authors":["#, r.pick(KINDS), r.pick(LANGUAGES));
    list(r, out, 1, 4, author);
    let created = rfc3339(updated_at - (r.below(900) as i64 + 30) * DAY_MICROS);
    let _ = write!(
        out,
        r#"],"published_at":"{}","created_at":"{created}","updated_at":"{}","url":"https://example.org/works/W{number:010x}","#,
        &created[..10],
        rfc3339(updated_at)
    );
    source(r, out);
    out.push_str(r#","keywords":["#);
    list(r, out, 2, 4, |r, out| {
        let _ = write!(out, r#""{}""#, r.pick(WORDS));
    });
    let (cited, score, fraction) = (r.below(500), r.below(30), r.below(10_000));
    let (open, rev) = (r.below(2) == 0, 1 + r.below(5));
    let _ = write!(out, r#"],"cited_by_count":{cited},"score":{score}.{fraction:04},"is_oa":{open},"rev":{rev}}}"#);
}

fn sentence(r: &mut SplitMix64, out: &mut String, words: u64) {
    let mut first = r.pick(WORDS).chars();
    out.extend(first.next().into_iter().flat_map(char::to_uppercase));
    out.push_str(first.as_str());
    for _ in 1..words {
        out.push(' ');
        out.push_str(r.pick(WORDS));
    }
}

fn summary(r: &mut SplitMix64, out: &mut String) {
    for _ in 0..3 + r.below(2) {
        let words = 8 + r.below(8);
        sentence(r, out, words);
        if r.below(9) == 0 {
            out.push_str(r#" \"p < 0.05\""#);
        }
        out.push_str(if r.below(6) == 0 { r".\n" } else { ". " });
    }
}

fn author(r: &mut SplitMix64, out: &mut String) {
    let _ = write!(out, r#"{{"name":"{} {}","orcid":"#, r.pick(GIVEN), r.pick(FAMILY));
    if r.below(2) == 0 {
        let _ = write!(out, r#""0000-000{}-{:04}-{:04}"}}"#, r.below(4), r.below(10_000), r.below(10_000));
    } else {
        out.push_str("null}");
    }
}

fn source(r: &mut SplitMix64, out: &mut String) {
    let (name, left, right) = (r.pick(JOURNALS), r.below(10_000), r.below(10_000));
    let (publisher, country) = (r.pick(PUBLISHERS), r.pick(COUNTRIES));
    let _ = write!(
        out,
        r#""source":{{"name":"{name}","issn":"{left:04}-{right:04}","publisher":{{"name":"{publisher}","country":"{country}"}}}}"#
    );
}

/// `least` to `least + spread - 1` elements, with commas.
fn list(
    r: &mut SplitMix64,
    out: &mut String,
    least: u64,
    spread: u64,
    mut element: impl FnMut(&mut SplitMix64, &mut String),
) {
    for n in 0..least + r.below(spread) {
        if n > 0 {
            out.push(',');
        }
        element(r, out);
    }
}
