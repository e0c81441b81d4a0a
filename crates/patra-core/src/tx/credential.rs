//! Credentials: the definition, written by people, and the runtime half, written by whoever uses it. Secrets come and go
//! sealed; a store never sees one.

use std::time::Duration;

use crate::credential::{Binding, State};
use crate::id::{CredentialId, Fence};
use crate::state::AuthType;
use crate::time::Ts;

/// Adds a version of a credential, ACTIVE. `version` must be one more than the newest of this binding, 1 when there is
/// none: otherwise `Conflict`. When that version is there with the same sealed text, nothing is written and its id is the
/// answer, so that the operation may be repeated. Older versions stay as they are (C-59). Of all cookies only one ACTIVE has a
/// name: a second one is a `Conflict`, see [`super::SaveCookie`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaveCredential {
    pub binding: Binding,
    pub version: i64,
    pub auth_type: AuthType,
    pub priority: i32,
    /// Sealed for [`Binding::record`] of this version.
    pub sealed: String,
    pub key_id: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CredentialSaved {
    pub id: CredentialId,
}

/// Makes ACTIVE versions of a binding REVOKED and erases their secrets and tokens; a refresh that is under way is fenced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokeCredential {
    pub binding: Binding,
    pub versions: Versions,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Versions {
    All,
    One(i64),
    /// All before this one.
    Before(i64),
}

impl Versions {
    /// The first and the last version that is meant.
    pub fn range(self) -> (i64, i64) {
        match self {
            Versions::All => (0, i64::MAX),
            Versions::One(version) => (version, version),
            Versions::Before(version) => (0, version.saturating_sub(1)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CredentialsRevoked {
    pub revoked: u32,
}

/// Asks for the right to get a new token: one at a time per credential, over all processes (G-12).
///
/// The caller says which token it has seen. When a newer one is stored, that is the answer. Otherwise, while another
/// owner's lease stands (now < until), it is `Busy`. Otherwise the lease is the caller's until now + `lease`: its fence
/// rises, except for the owner of a lease that stands, who keeps it; so the operation may be repeated. An owner's name
/// must be used by one machine only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRefresh {
    pub credential: CredentialId,
    pub owner: String,
    pub lease: Duration,
    /// `State::version` of the token that is no longer good.
    pub seen: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefreshLeased {
    Go {
        fence: Fence,
        state: State,
        now: Ts,
    },
    Newer {
        state: State,
        now: Ts,
    },
    Busy {
        until: Ts,
        now: Ts,
    },
    /// Revoked, or never there.
    Gone,
}

/// Stores the token that was got under a lease, ends the lease, and makes the credential ACTIVE without failures. Needs
/// the lease's owner and fence: otherwise `Fenced`. Its expiry alone fences nobody. Repeated after it was applied, it
/// answers the version it made, as long as no other lease was given since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreToken {
    pub credential: CredentialId,
    pub owner: String,
    pub fence: Fence,
    /// Sealed for [`crate::credential::token_record`].
    pub sealed: String,
    pub key_id: String,
    /// `None`: nobody knows; it is good until it is refused.
    pub expires_at: Option<Ts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenStored {
    /// Of the state.
    pub version: i64,
}

/// No token came: counts the failure, keeps the reason, ends the lease; `rejected` makes the credential REJECTED. Without
/// the lease nothing is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailRefresh {
    pub credential: CredentialId,
    pub owner: String,
    pub fence: Fence,
    /// Redacted by the caller.
    pub error: String,
    pub rejected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefreshFailed {
    pub recorded: bool,
}

/// The far side has refused a credential, or taken one that it had refused. Written only while `seen` is the state's
/// version: what is said about an old token does not count for a new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkCredential {
    pub credential: CredentialId,
    pub seen: i64,
    /// The reason, redacted; `None` when it works.
    pub rejected: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CredentialMarked {
    pub marked: bool,
}
