//! Which word was meant: by edit distance.

/// `did you mean `x`?` when one of the words is close, otherwise the list of them.
pub(crate) fn suggest(found: &str, words: &[&str]) -> Option<String> {
    match closest(found, words) {
        Some(word) => Some(format!("did you mean `{word}`?")),
        None if words.is_empty() => None,
        None => Some(format!("expected one of: {}", words.join(", "))),
    }
}

/// The word at a small edit distance, if there is one.
pub(crate) fn closest<'w>(found: &str, words: &[&'w str]) -> Option<&'w str> {
    let found: Vec<char> = found.to_lowercase().chars().take(64).collect();
    let limit = found.len().div_ceil(3).min(3);
    words
        .iter()
        .map(|word| (distance(&found, &word.to_lowercase().chars().collect::<Vec<_>>()), *word))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, word)| word)
}

/// Levenshtein's distance, one row at a time.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested_and_far_ones_listed() {
        let words = ["token", "offset", "page", "url", "time"];
        assert_eq!(suggest("tokn", &words).as_deref(), Some("did you mean `token`?"));
        assert_eq!(suggest("OFSET", &words).as_deref(), Some("did you mean `offset`?"));
        assert_eq!(suggest("cursor", &words).as_deref(), Some("expected one of: token, offset, page, url, time"));
        assert_eq!(suggest("x", &[]), None);
    }
}
