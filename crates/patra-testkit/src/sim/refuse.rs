//! A store that refuses operations of this process for good, as for a fault of our own: neither busy nor away, and not
//! repeated. What it refuses ends short or waits for somebody else, and is read again later.

use patra_core::rng::Rng;
use patra_core::tx::TxError;

use super::world::World;

/// Permille of the worlds whose store refuses operations, and of the operations in them.
const REFUSING: u64 = 80;
const REFUSED: u64 = 15;

impl World {
    /// Drawn apart from everything else, so that worlds without refusals stay as they were.
    pub(super) fn plan_refusals(&mut self, seed: u64) {
        let mut rng = Rng::new(seed ^ 0x7265_6675_7365);
        self.refusals = rng.chance(REFUSING).then_some(rng);
    }

    /// The refusal of the next operation, if there is one.
    pub(super) fn refuses(&mut self) -> Option<TxError> {
        let rng = self.refusals.as_mut().filter(|_| !self.calm)?;
        rng.chance(REFUSED).then(|| TxError::Refused("the store refuses it".to_owned()))
    }
}
