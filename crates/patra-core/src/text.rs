//! Truncation of texts.

/// The beginning of a text, in at most this many bytes: whole characters only.
pub fn beginning(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::beginning;

    #[test]
    fn no_character_is_cut_in_two() {
        let cuts = [0, 1, 2, 3, 4, 9].map(|most| beginning("aüb", most));
        assert_eq!(cuts, ["", "a", "a", "aü", "aüb", "aüb"]);
    }
}
