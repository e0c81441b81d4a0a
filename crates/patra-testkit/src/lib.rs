//! Test support: the in-memory reference store, and the contract suite that checks every
//! other store against it.

pub mod clock;
pub mod contract;
pub mod cookie_load;
pub mod gate;
pub mod memory;
pub mod postgres;
pub mod schema;
pub mod sim;

pub use clock::ManualClock;
pub use memory::{MemStore, SharedMem};
