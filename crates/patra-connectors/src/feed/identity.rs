//! Identity of entries across readings of a feed. The same entry always gets the same key, and no key is random.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use patra_core::hash;

use super::{Feed, FeedEntry};

/// The parts that identify an entry of a source. Entries that lack them use the default order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityRule {
    /// The entry's own id; with its link, if the feed repeats the id; else the link; else title and content.
    #[default]
    Guid,
    /// The link, for feeds whose ids change with every reading.
    Link,
    /// Link and title, for feeds whose entries share one link.
    LinkTitle,
    /// Title and content alone.
    Content,
}

/// A key for each entry, in their order. Entries with one key are the same entry, repeated.
pub fn identity(feed: &Feed, rule: IdentityRule) -> Vec<String> {
    let mut ids: HashMap<&str, usize> = HashMap::new();
    for id in feed.entries.iter().filter_map(own_id) {
        *ids.entry(id).or_default() += 1;
    }
    let repeated = |id: &str| ids.get(id).is_some_and(|times| *times > 1);
    let keys: Vec<(String, String)> =
        feed.entries.iter().map(|entry| (key(entry, rule, &repeated), content(entry))).collect();
    // The first content that has a key, and whether another one has it too.
    let mut seen: HashMap<&str, (&str, bool)> = HashMap::new();
    for (key, content) in &keys {
        let (first, shared) = seen.entry(key).or_insert((content, false));
        *shared |= first != content;
    }
    let distinct = |(key, content): &(String, String)| match seen.get(key.as_str()) {
        Some((_, true)) => format!("{key}|{content}"),
        _ => key.clone(),
    };
    keys.iter().map(distinct).collect()
}

fn key(entry: &FeedEntry, rule: IdentityRule, repeated: &dyn Fn(&str) -> bool) -> String {
    let link = entry.link.as_deref().filter(|link| !link.is_empty());
    let usual = || match (own_id(entry), link) {
        (Some(id), Some(link)) if repeated(id) => format!("{id}|{link}"),
        (Some(one), _) | (None, Some(one)) => one.to_owned(),
        (None, None) => content(entry),
    };
    match (rule, link) {
        (IdentityRule::Link, Some(link)) => link.to_owned(),
        (IdentityRule::LinkTitle, Some(link)) => format!("{link}|{}", entry.title.as_deref().unwrap_or_default()),
        (IdentityRule::Content, _) => content(entry),
        _ => usual(),
    }
}

fn own_id(entry: &FeedEntry) -> Option<&str> {
    entry.id.as_deref().filter(|id| !id.is_empty())
}

fn content(entry: &FeedEntry) -> String {
    let mut parts = vec![entry.title.as_deref().unwrap_or_default()];
    parts.extend(entry.summary.iter().chain(&entry.content).map(|text| text.value.as_str()));
    hash::digest(&parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::feed::FeedText;

    fn entry(id: &str, link: &str, title: &str, content: &str) -> FeedEntry {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let content = some(content).map(FeedText::plain).into_iter().collect();
        FeedEntry { id: some(id), link: some(link), title: some(title), content, ..FeedEntry::default() }
    }

    fn keys(entries: Vec<FeedEntry>, rule: IdentityRule) -> Vec<String> {
        let feed = Feed { entries, ..Feed::default() };
        let keys = identity(&feed, rule);
        assert_eq!(keys, identity(&feed, rule), "the same twice");
        keys
    }

    // covers: COLL-118, COLL-123
    #[test]
    fn the_id_counts_then_the_link_then_the_content() {
        let found = keys(
            vec![entry("g", "l", "t", "c"), entry("", "l2", "t", "c"), entry("", "", "t", "c")],
            IdentityRule::Guid,
        );
        assert_eq!(found[..2], ["g", "l2"]);
        assert_eq!(found[2], hash::digest(&["t", "c"]));
    }

    // covers: COLL-123
    #[test]
    fn an_id_that_a_feed_repeats_is_extended_by_the_link() {
        let found =
            keys(vec![entry("g", "a", "", ""), entry("g", "b", "", ""), entry("h", "a", "", "")], IdentityRule::Guid);
        assert_eq!(found, ["g|a", "g|b", "h"]);
    }

    // covers: COLL-123
    #[test]
    fn colliding_entries_are_distinguished_by_content() {
        let found = keys(
            vec![entry("g", "a", "x", ""), entry("g", "a", "y", ""), entry("", "b", "", ""), entry("", "b", "", "")],
            IdentityRule::Guid,
        );
        assert_eq!(found[0], format!("g|a|{}", hash::digest(&["x"])));
        assert_ne!(found[0], found[1]);
        assert_eq!(found[2..], ["b", "b"], "the same entry twice has one key");
    }

    // covers: COLL-123
    #[test]
    fn a_rule_of_the_source_overrides() {
        let entries = || vec![entry("g1", "l", "t1", "c"), entry("g2", "l", "t2", "c")];
        assert_eq!(keys(entries(), IdentityRule::LinkTitle), ["l|t1", "l|t2"]);
        assert_eq!(keys(entries(), IdentityRule::Content), [hash::digest(&["t1", "c"]), hash::digest(&["t2", "c"])]);
        assert_eq!(keys(vec![entry("g1", "l", "t", "c")], IdentityRule::Link), ["l"]);
        assert_eq!(
            keys(vec![entry("g1", "", "t", "c")], IdentityRule::Link),
            ["g1"],
            "without a link the usual order counts"
        );
    }
}
