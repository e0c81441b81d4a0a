//! Suggests the intended word, by edit distance.

/// `did you mean `x`?` when one of the words is close, otherwise the list of them.
pub fn suggest(found: &str, words: &[&str]) -> Option<String> {
    match closest(found, words) {
        Some(word) => Some(format!("did you mean `{word}`?")),
        None if words.is_empty() => None,
        None => Some(format!("expected one of: {}", words.join(", "))),
    }
}

/// The word at a small edit distance, if there is one.
pub fn closest<'w>(found: &str, words: &[&'w str]) -> Option<&'w str> {
    let found: Vec<char> = found.to_lowercase().chars().take(64).collect();
    let limit = found.len().div_ceil(3).min(3);
    words
        .iter()
        .map(|word| (distance(&found, &word.to_lowercase().chars().collect::<Vec<_>>()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Edits between two words: insert, delete, replace, or swap two neighbours.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(row[j - 1] + 1).min(last[j] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested_and_others_listed() {
        let words = ["token", "offset", "page", "url", "time"];
        assert_eq!(suggest("tokn", &words).as_deref(), Some("did you mean `token`?"));
        assert_eq!(suggest("OFSET", &words).as_deref(), Some("did you mean `offset`?"));
        assert_eq!(suggest("cursor", &words).as_deref(), Some("expected one of: token, offset, page, url, time"));
        assert_eq!(suggest("ulr", &words).as_deref(), Some("did you mean `url`?"), "a swap is one edit");
        assert_eq!(suggest("x", &[]), None);
    }
}
