//! Row identities. Integers, so that the simulator's state stays small and comparison is cheap; distinct types, so
//! that a run id is never mistaken for a task id.

use serde::{Deserialize, Serialize};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

ids! {
    /// A job, one request for work: `ing_schedule_instance`.
    JobId,
    PlanId,
    SliceId,
    TaskId,
    RunId,
    BatchId,
    CursorId,
    CredentialId,
    /// A polled source: `source`.
    SourceId,
    /// A pause or a halt: `ing_hold`.
    PauseId,
    /// The lease epoch of a row. It rises with every claim; a write that carries an older one is refused.
    Fence,
}
