//! The only source of randomness. It is seeded, so that the same seed gives the same bytes on every machine and with
//! every version of every dependency.

/// SplitMix64.
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}

/// SplitMix64's finaliser, also good as a small checksum.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A bijection on 40-bit numbers, so that ids are unique and yet look random in `updated_at` order, as they do in
/// real sources.
pub(crate) fn scatter(n: u64, seed: u64) -> u64 {
    const MASK: u64 = (1 << 40) - 1;
    let mut x = (n ^ mix(seed)) & MASK;
    // Each step can be undone: an odd factor has an inverse modulo 2^40, and so has x ^ (x >> k).
    for odd in [0x25_45F4_9151, 0x1B_8735_93F1, 0x27_D4EB_2F1D] {
        x = x.wrapping_mul(odd) & MASK;
        x ^= x >> 21;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn scattered_numbers_stay_unique_and_in_range() {
        let seen: HashSet<u64> = (0..100_000).map(|n| scatter(n, 9)).collect();
        assert_eq!(seen.len(), 100_000);
        assert!(seen.iter().all(|x| *x < 1 << 40));
    }
}
