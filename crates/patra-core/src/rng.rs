//! A small deterministic generator (SplitMix64). A protocol owns one, seeded from outside, so a run can be repeated bit
//! for bit. Not for secrets.

use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`; 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `permille` times in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// About this duration: up to a tenth less or more, so that many processes do not act in step.
    pub fn around(&mut self, span: Duration) -> Duration {
        let micros = span.as_micros() as u64;
        Duration::from_micros(micros - micros / 10 + self.below(micros / 5 + 1))
    }

    /// An independent generator for a part, so that parts do not disturb each other's sequence.
    pub fn fork(&mut self) -> Rng {
        Rng(self.next_u64())
    }
}
