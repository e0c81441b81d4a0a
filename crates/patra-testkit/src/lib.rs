//! Development only: the in-memory store that is the reference of the store contract, and the suite that holds every
//! other store to it.

pub mod clock;
pub mod contract;
pub mod gate;
pub mod memory;
pub mod postgres;
pub mod schema;
pub mod sim;

pub use clock::ManualClock;
pub use memory::{MemStore, SharedMem};
