//! Inputs made of seeds and words, determined by a number.

/// Longest input, in bytes.
const MAX_INPUT: usize = 4_096;

/// SplitMix64, so that a number always gives the same input.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    fn pick<'t>(&mut self, of: &'t [Vec<u8>]) -> &'t [u8] {
        of.get(self.below(of.len())).map_or(&[], Vec::as_slice)
    }

    /// A range of at most `most` bytes.
    fn range(&mut self, of: &[u8], most: usize) -> std::ops::Range<usize> {
        let start = self.below(of.len() + 1);
        start..(start + self.below(most + 1)).min(of.len())
    }
}

pub(crate) struct Mutator {
    seeds: Vec<Vec<u8>>,
    words: Vec<Vec<u8>>,
}

impl Mutator {
    pub(crate) fn new(seeds: Vec<Vec<u8>>, words: Vec<Vec<u8>>) -> Mutator {
        Mutator { seeds, words }
    }

    pub(crate) fn input(&self, number: u64) -> Vec<u8> {
        let mut rng = Rng(number.wrapping_mul(0xA076_1D64_78BD_642F));
        let mut input = rng.pick(&self.seeds).to_vec();
        for _ in 0..=rng.below(6) {
            self.mutate(&mut input, &mut rng);
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn mutate(&self, input: &mut Vec<u8>, rng: &mut Rng) {
        match rng.below(9) {
            0 => {
                let at = rng.below(input.len());
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
            1 => {
                let at = rng.below(input.len() + 1);
                input.insert(at, (rng.next() & 0xff) as u8);
            }
            2 => drop(input.drain(rng.range(input, 16))),
            3 => {
                let range = rng.range(input, 64);
                let copy = input[range].repeat(1 + rng.below(8));
                insert(input, &copy, rng);
            }
            4 | 5 => {
                let word = rng.pick(&self.words).to_vec();
                insert(input, &word, rng);
            }
            6 => {
                let (range, word) = (rng.range(input, 12), rng.pick(&self.words).to_vec());
                input.splice(range, word);
            }
            7 => {
                let other = rng.pick(&self.seeds).to_vec();
                let range = rng.range(&other, 256);
                insert(input, &other[range], rng);
            }
            _ => input.truncate(rng.below(input.len() + 1)),
        }
    }
}

fn insert(input: &mut Vec<u8>, piece: &[u8], rng: &mut Rng) {
    let at = rng.below(input.len() + 1);
    input.splice(at..at, piece.iter().copied());
}

/// The words of a dictionary of libFuzzer: one a line, in quotes, with `\"`, `\\` and `\xAB`.
pub(crate) fn words(dictionary: &str) -> Vec<Vec<u8>> {
    let words = dictionary.lines().map(|line| {
        let word = line.strip_prefix('"').and_then(|line| line.strip_suffix('"'));
        unescaped(word.unwrap_or_else(|| panic!("{line} is no word in quotes")).as_bytes())
    });
    words.collect()
}

fn unescaped(mut rest: &[u8]) -> Vec<u8> {
    let mut word = Vec::new();
    loop {
        rest = match rest {
            [b'\\', b'x', high, low, after @ ..] => {
                let digits = String::from_utf8_lossy(&[*high, *low]).into_owned();
                word.push(u8::from_str_radix(&digits, 16).unwrap());
                after
            }
            [b'\\', byte, after @ ..] | [byte, after @ ..] => {
                word.push(*byte);
                after
            }
            [] => return word,
        };
    }
}

#[test]
fn words_are_read_as_libfuzzer_reads_them() {
    assert_eq!(words("\"a\\\"b\\\\\"\n\"\\x00\\xffx\""), [b"a\"b\\".to_vec(), vec![0, 255, b'x']]);
}

#[test]
fn number_determines_its_input() {
    let mutator = Mutator::new(vec![b"one two".to_vec(), b"three".to_vec()], vec![b"word".to_vec()]);
    let inputs: Vec<_> = (0..100).map(|number| mutator.input(number)).collect();
    assert_eq!(inputs, (0..100).map(|number| mutator.input(number)).collect::<Vec<_>>());
    let different: std::collections::HashSet<_> = inputs.iter().collect();
    assert!(different.len() > 80, "{} different inputs", different.len());
}
