//! Tokens that are numbers of a place in the list: offsets and page numbers, also with a name before them or in Base64.
//! They do not keep their place when records move.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::{PageFacts, Position};

/// Maximum numbers of a token; a text with more of them is no place.
const MAX_NUMBERS: usize = 8;

/// Longer tokens are no places.
const MAX_LENGTH: usize = 512;

const ANY_PADDING: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

/// Compares the tokens of consecutive pages.
#[derive(Debug, Default)]
pub(super) struct PlaceFinder {
    /// How much the number in the token rose at the page before.
    last_step: Option<u64>,
}

impl PlaceFinder {
    /// The next token looks like a place: its number is that of the records so far, or it rises evenly.
    pub(super) fn is_place(&mut self, here: &Position, facts: &PageFacts, page_size: u32) -> bool {
        let (Position::Token(here), Some(next)) = (here, &facts.next_token) else { return false };
        let last_step = self.last_step.take();
        let (items, size) = (u64::from(facts.items), u64::from(page_size));
        readings(next).into_iter().any(|next| {
            let step = here.as_deref().and_then(|here| readings(here).iter().find_map(|here| next.step_from(here)));
            let Some(step) = step else { return is_first_place(&next.numbers, here.as_deref(), items, size) };
            self.last_step = Some(step);
            step == items || step == size || (step == 1 && items > 1) || last_step == Some(step)
        })
    }
}

/// Whether the only number of the first next token is the place behind the first page.
fn is_first_place(numbers: &[u64], here: Option<&str>, items: u64, size: u64) -> bool {
    // A token from the manifest, such as `*`, is no number; any other token shows that this page is not the first.
    let is_first = here.is_none_or(|here| here.len() <= 1);
    let [number] = numbers else { return false };
    let is_behind = |rows: u64| rows > 1 && (rows - 1..=rows + 1).contains(number);
    is_first && (is_behind(items) || is_behind(size) || (*number <= 2 && items > 2))
}

/// A token as the text between its numbers, and the numbers.
#[derive(Debug, PartialEq)]
struct Numbered {
    text: String,
    numbers: Vec<u64>,
}

impl Numbered {
    fn of(token: &str) -> Option<Numbered> {
        let (mut text, mut numbers, mut digits) = (String::new(), Vec::new(), String::new());
        for letter in token.chars().chain(['\0']) {
            if letter.is_ascii_digit() {
                digits.push(letter);
                continue;
            }
            if !digits.is_empty() {
                numbers.push(std::mem::take(&mut digits).parse().ok()?);
                text.push('\0');
            }
            text.push(letter);
        }
        (1..=MAX_NUMBERS).contains(&numbers.len()).then_some(Numbered { text, numbers })
    }

    /// How much the only number that differs has risen since.
    fn step_from(&self, before: &Numbered) -> Option<u64> {
        if self.text != before.text || self.numbers.len() != before.numbers.len() {
            return None;
        }
        let mut steps = self.numbers.iter().zip(&before.numbers).filter(|(now, before)| now != before);
        match (steps.next(), steps.next()) {
            (Some((now, before)), None) => now.checked_sub(*before),
            _ => None,
        }
    }
}

/// The token as it is, and what it says in Base64.
fn readings(token: &str) -> Vec<Numbered> {
    if token.len() > MAX_LENGTH {
        return Vec::new();
    }
    let plain = Numbered::of(token);
    let decoded = STANDARD.decode(token).or_else(|_| URL_SAFE.decode(token)).ok();
    let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let decoded = decoded.filter(|text| !text.chars().any(char::is_control)).and_then(|text| Numbered::of(&text));
    plain.into_iter().chain(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether tokens that follow each other after pages of ten records are taken for places.
    fn are_places(tokens: &[&str]) -> bool {
        let (mut finder, mut here) = (PlaceFinder::default(), None);
        tokens.iter().any(|next| {
            let facts = PageFacts { items: 10, next_token: Some((*next).into()), ..PageFacts::default() };
            finder.is_place(&Position::Token(here.replace((*next).to_owned())), &facts, 10)
        })
    }

    #[test]
    fn offsets_and_page_numbers_are_places_in_any_form() {
        let base64 = |texts: [&str; 2]| texts.map(|text| STANDARD.encode(text));
        for (at, after) in
            [("10", "20"), ("2", "3"), ("p2", "p3"), ("offset:10", "offset:20"), ("cursor=30&n=7", "cursor=40&n=7")]
        {
            assert!(are_places(&["first", at, after]), "{at} {after}");
            let [at, after] = base64([at, after]);
            assert!(are_places(&["first", &at, &after]), "{at} {after}");
            assert!(
                are_places(&["first", at.trim_end_matches('='), after.trim_end_matches('=')]),
                "{at} without padding"
            );
        }
        assert!(are_places(&[&STANDARD.encode("arrayconnection:9")]), "behind the first page");
        assert!(are_places(&["a7", "a14", "a21"]), "an even step");
    }

    #[test]
    fn tokens_that_name_a_record_or_nothing_are_no_places() {
        assert!(!are_places(&["after-38", "after-51", "after-77"]));
        assert!(!are_places(&["9f3a", "77bc", "01de"]));
        assert!(!are_places(&["1704067200000000.17", "1704067260000000.31"]));
        assert!(!are_places(&["QmFzZTY0IG9mIHdvcmRz", "YW5kIG90aGVyIHdvcmRz"]));
    }
}
