//! Row identities. Integers, so that the simulator's state stays small and comparison is free; distinct types, so that a
//! run id is never taken for a task id.

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
    /// One time that something was asked for: `ing_schedule_instance`.
    InstanceId,
    PlanId,
    SliceId,
    TaskId,
    RunId,
    BatchId,
    CursorId,
    CredentialId,
    /// A thing that is polled: `source`.
    SourceId,
    /// A pause, a blown fuse: `ing_hold`.
    HoldId,
    /// The lease epoch of a row. It rises with every claim; a write that carries an older one is refused.
    Fence,
}
