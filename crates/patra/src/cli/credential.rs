//! `patra credential`. Secrets are never arguments: other users of the machine can see a command line.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use patra_core::Ts;
use patra_core::state::AuthType;

use super::value;

#[derive(Debug, Subcommand)]
pub(crate) enum Credential {
    /// Encrypt a credential and store it; its values come from stdin, the environment or files
    Add {
        #[command(flatten)]
        name: CredentialArg,
        /// Add a credential of this type
        #[arg(long = "type", value_parser = value::auth_type(), value_name = "TYPE")]
        auth_type: AuthType,
        /// Use the smallest number first (default 100); for cookies, the largest (default 1)
        #[arg(long, allow_hyphen_values = true, value_name = "N")]
        priority: Option<i32>,
        /// Use a cookie for at most this many requests a day (default 100)
        #[arg(long, value_name = "N")]
        daily_limit: Option<u32>,
        /// Stop using a cookie at this time, such as 2026-12-31T00:00:00Z
        #[arg(long, value_name = "TIME")]
        expires_at: Option<Ts>,
        /// Use a cookie for at most this many requests at the same time; 0 for no limit
        #[arg(long, value_name = "N")]
        max_parallel: Option<u32>,
        /// Decrypt the value as a Fernet token with the key in this environment variable
        #[arg(long, value_name = "VARIABLE")]
        fernet_key: Option<String>,
        #[command(flatten)]
        values: SecretValues,
    },
    /// List credentials, without their secrets
    List,
    /// Store a new version; planned work continues with the old one
    Rotate {
        #[command(flatten)]
        name: CredentialArg,
        /// Revoke the older versions at once
        #[arg(long)]
        revoke_old: bool,
        #[command(flatten)]
        values: SecretValues,
    },
    /// Revoke a credential and erase its secrets
    Revoke {
        #[command(flatten)]
        name: CredentialArg,
        /// Revoke only this version
        #[arg(long, value_name = "N")]
        only_version: Option<i64>,
    },
    /// Reactivate a cookie that is invalid or banned
    Reactivate {
        /// Name of the cookie
        alias: String,
    },
    /// Pause a cookie: it is not used until you resume it
    Pause {
        /// Name of the cookie
        alias: String,
    },
    /// Resume a paused cookie
    Resume {
        /// Name of the cookie
        alias: String,
    },
    /// Encrypt everything again with the first master key; run it after you add a new key
    Reseal,
    /// Decrypt a credential and, where it needs a token, get one
    Check {
        #[command(flatten)]
        name: CredentialArg,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CredentialArg {
    /// Name of the credential; manifests use their provenance code unless `auth.credential` names another
    pub(crate) alias: String,
    /// Use it only for this provenance
    #[arg(long, value_name = "CODE")]
    pub(crate) provenance: Option<String>,
    /// Use it only for this endpoint of the provenance
    #[arg(long, requires = "provenance", value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
}

/// Origin of the secret values: stdin when no option is given.
#[derive(Clone, Debug, Args)]
pub(crate) struct SecretValues {
    /// Read a value from an environment variable, such as apiKey=CROSSREF_KEY; repeatable
    #[arg(long, value_parser = value::pair, value_name = "NAME=VARIABLE")]
    pub(crate) from_env: Vec<(String, String)>,
    /// Read a value from a file, without its last line break; repeatable
    #[arg(long, value_parser = file, value_name = "NAME=PATH")]
    pub(crate) from_file: Vec<(String, PathBuf)>,
    /// Take the cookies of this domain from a cookie file (default: the host of the manifest)
    #[arg(long, value_name = "DOMAIN")]
    pub(crate) domain: Option<String>,
}

fn file(text: &str) -> Result<(String, PathBuf), String> {
    value::pair(text).map(|(name, path)| (name, PathBuf::from(path)))
}
