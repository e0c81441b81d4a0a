//! Credentials: the definition, written by people, and the runtime half, written by the processes that use it.
//! Secrets come and go sealed; a store never sees one.

use std::time::Duration;

use crate::credential::{Binding, CredentialRuntime};
use crate::id::{CredentialId, Fence};
use crate::state::AuthType;
use crate::time::Ts;

/// Adds a version of a credential, ACTIVE. `version` must be one more than the newest of this binding, 1 when there
/// is none: otherwise `Conflict`. When that version is stored with the same sealed text, nothing is written and its
/// id is returned, so that the operation may be repeated. Older versions stay as they are (C-59). A name belongs to
/// one ACTIVE cookie: a second one is a `Conflict`, see [`super::SaveCookie`].
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

/// Makes ACTIVE versions of a binding REVOKED and erases their secrets and tokens; a refresh that is in progress is fenced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokeCredential {
    pub binding: Binding,
    pub versions: Versions,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Versions {
    All,
    One(i64),
    /// All versions before this one.
    Before(i64),
}

impl Versions {
    /// The first and the last version selected.
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

/// Requests the right to fetch a new token: one process at a time per credential (G-12).
///
/// The caller passes the version of the token that it has seen. When a newer one is stored, that is returned.
/// Otherwise, while another owner's lease stands (now < until), the result is `Busy`. Otherwise the lease is the
/// caller's until now + `lease`: its fence rises, except for the owner of a lease that stands, who keeps it; so the
/// operation may be repeated. An owner's name must be used by one machine only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseRefresh {
    pub credential: CredentialId,
    pub owner: String,
    pub lease: Duration,
    /// [`crate::credential::CredentialRuntime::version`] of the token that is no longer good.
    pub seen_version: i64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RefreshLeased {
    Go {
        fence: Fence,
        state: CredentialRuntime,
        now: Ts,
    },
    Newer {
        state: CredentialRuntime,
        now: Ts,
    },
    Busy {
        until: Ts,
        now: Ts,
    },
    /// The credential was revoked, or never existed.
    Gone,
}

/// Stores the token that was fetched under a lease, ends the lease, and makes the credential ACTIVE without failures.
/// Requires the lease's owner and fence: otherwise `Fenced`. An expired lease alone does not fence. Repeated after it
/// was applied, it returns the version it made, as long as no other lease was granted since.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreToken {
    pub credential: CredentialId,
    pub owner: String,
    pub fence: Fence,
    /// Sealed for [`crate::credential::token_record`].
    pub sealed: String,
    pub key_id: String,
    /// `None`: unknown; the token is used until it is refused.
    pub expires_at: Option<Ts>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TokenStored {
    /// Version of the runtime state.
    pub version: i64,
}

/// Records that no token was received: counts the failure, keeps the reason, ends the lease; `rejected` makes the
/// credential REJECTED. Without the lease nothing is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailRefresh {
    pub credential: CredentialId,
    pub owner: String,
    pub fence: Fence,
    /// The reason, redacted by the caller.
    pub error: String,
    pub rejected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RefreshFailed {
    pub recorded: bool,
}

/// Records that the upstream refused a credential, or accepted one that it had refused. Written only while
/// `seen_version` is the state's version: the verdict on an old token does not count for a new one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MarkCredential {
    pub credential: CredentialId,
    pub seen_version: i64,
    /// The reason, redacted; `None` when the credential works.
    pub rejected: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CredentialMarked {
    pub marked: bool,
}
