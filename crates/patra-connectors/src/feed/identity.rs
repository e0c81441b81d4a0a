//! Identity of entries across readings of a feed. The same entry always gets the same key, and no key is random.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use patra_core::hash;

use super::{Feed, FeedEntry};

/// The parts that identify an entry of a source. Entries that lack them use the default order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdentityRule {
    /// The entry's own id; with its link, if another entry had the id first; else the link; else title and content.
    #[default]
    Guid,
    /// The link, for feeds whose ids change with every reading.
    Link,
    /// Link and title, for feeds whose entries share one link.
    LinkTitle,
    /// Title and content alone.
    Content,
}

/// Ids that several entries of a feed have had, with the link of the entry whose key is the id alone; both hashed. A feed
/// may repeat an id at times only, so this is kept from one reading to the next.
pub type SharedIds = BTreeMap<String, String>;

/// Most shared ids of a feed that are kept.
pub const MAX_SHARED_IDS: usize = 1_000;

/// A key for each entry, in their order. Entries with one key are the same entry, repeated.
pub fn identity(feed: &Feed, rule: IdentityRule) -> Vec<String> {
    keys(feed, rule, &shared_ids(feed, SharedIds::new()))
}

/// The shared ids after this reading. An id that becomes shared stays the key of the last entry that has it, which is the
/// oldest: it was there alone before.
pub fn shared_ids(feed: &Feed, mut known: SharedIds) -> SharedIds {
    let mut last: HashMap<&str, (usize, &FeedEntry)> = HashMap::new();
    for entry in &feed.entries {
        if let Some(id) = own_id(entry) {
            let times = last.get(id).map_or(0, |(times, _)| *times);
            last.insert(id, (times + 1, entry));
        }
    }
    for entry in &feed.entries {
        let Some(id) = own_id(entry) else { continue };
        if let Some((2.., oldest)) = last.get(id).copied()
            && known.len() < MAX_SHARED_IDS
        {
            known.entry(short(id)).or_insert_with(|| short(link(oldest).unwrap_or_default()));
        }
    }
    known
}

/// A key for each entry, in their order.
pub fn keys(feed: &Feed, rule: IdentityRule, shared: &SharedIds) -> Vec<String> {
    // The last entry of each shared id that has the link to which the id belongs.
    let mut owners: HashMap<&str, &FeedEntry> = HashMap::new();
    for entry in &feed.entries {
        if let Some(id) = own_id(entry)
            && shared.get(&short(id)).is_some_and(|owner| *owner == short(link(entry).unwrap_or_default()))
        {
            owners.insert(id, entry);
        }
    }
    let extended = |id: &str, entry: &FeedEntry| {
        shared.contains_key(&short(id)) && !owners.get(id).is_some_and(|owner| std::ptr::eq(*owner, entry))
    };
    let keys: Vec<(String, String)> =
        feed.entries.iter().map(|entry| (key(entry, rule, &extended), content(entry))).collect();
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

fn short(text: &str) -> String {
    hash::sha256_hex(text.as_bytes())[..16].to_owned()
}

fn link(entry: &FeedEntry) -> Option<&str> {
    entry.link.as_deref().filter(|link| !link.is_empty())
}

fn key(entry: &FeedEntry, rule: IdentityRule, extended: &dyn Fn(&str, &FeedEntry) -> bool) -> String {
    let link = link(entry);
    let usual = || match (own_id(entry), link) {
        (Some(id), Some(link)) if extended(id, entry) => format!("{id}|{link}"),
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
        assert_eq!(found, ["g|a", "g", "h"]);
    }

    // covers: COLL-123
    #[test]
    fn an_id_that_is_repeated_at_times_keeps_its_key() {
        let read = |known: SharedIds, links: &[&str]| {
            let entries = links.iter().map(|link| entry("g", link, "t", link)).collect();
            let feed = Feed { entries, ..Feed::default() };
            let shared = shared_ids(&feed, known);
            (super::keys(&feed, IdentityRule::Guid, &shared), shared)
        };
        let (alone, known) = read(SharedIds::new(), &["a"]);
        let (both, known) = read(known, &["b", "a"]);
        assert_eq!((&*alone, &*both), (&["g".to_owned()][..], &["g|b".to_owned(), "g".to_owned()][..]));
        let (later, known) = read(known, &["b"]);
        assert_eq!(later, ["g|b"], "the other one has left the feed");
        assert_eq!(read(known, &["c", "b", "a"]).0, ["g|c", "g|b", "g"]);
    }

    #[test]
    fn shared_ids_are_bounded() {
        let entries = (0..MAX_SHARED_IDS + 5).flat_map(|at| {
            let id = at.to_string();
            [entry(&id, "a", "t", ""), entry(&id, "b", "t", "")]
        });
        let feed = Feed { entries: entries.collect(), ..Feed::default() };
        assert_eq!(shared_ids(&feed, SharedIds::new()).len(), MAX_SHARED_IDS);
    }

    // covers: COLL-123
    #[test]
    fn colliding_entries_are_distinguished_by_content() {
        let found = keys(
            vec![entry("g", "a", "x", ""), entry("g", "a", "y", ""), entry("", "b", "", ""), entry("", "b", "", "")],
            IdentityRule::Guid,
        );
        assert_eq!(found[..2], ["g|a", "g"]);
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
