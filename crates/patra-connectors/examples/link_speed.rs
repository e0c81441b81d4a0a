//! Measures the search for links in a text.
//!
//! `cargo run --release -p patra-connectors --example link_speed [FILE] [TIMES]`

#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a program that measures and reports")]

use std::error::Error;
use std::time::Instant;

use patra_connectors::links::{FoundLinks, LinkFinder, LinkOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let text = arguments.next().map_or_else(|| Ok(made_up()), std::fs::read_to_string)?;
    let times = arguments.next().map_or(Ok(5), |times| times.parse::<u32>())?;
    report("text", &text, times, |finder| finder.text(&text))?;
    report("read", &text, times, |finder| drop(finder.read(text.as_bytes())))
}

fn report(name: &str, text: &str, times: u32, look: impl Fn(&mut LinkFinder)) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let mut found = FoundLinks::default();
    for _ in 0..times {
        let mut finder = LinkFinder::new(LinkOptions::default());
        look(&mut finder);
        found = finder.finish();
    }
    let seconds = start.elapsed().as_secs_f64() / f64::from(times);
    let megabytes = f64::from(u32::try_from(text.len())?) / 1e6;
    let (links, rate) = (found.links.len(), megabytes / seconds);
    println!(
        "{name}: {rate:.1} MB/s, {links} distinct links, {} too long, {megabytes:.1} MB in {seconds:.3} s",
        found.too_long
    );
    Ok(())
}

/// Prose with a link every few lines, most of them new.
fn made_up() -> String {
    let mut text = String::new();
    for at in 0..40_000 {
        text.push_str("The committee met on Tuesday: it read the report, asked for a second one, and went home. ");
        text.push_str("Nobody was surprised (the chair least of all), but the minutes say otherwise; see below.\n");
        text.push_str(&format!("More at https://www.example.org/news/{at}/report.html?page=2&lang=en.\n"));
    }
    text
}
