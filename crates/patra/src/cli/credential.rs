//! The words of `patra credential`. Secrets are never among them: what stands on a command line, others can see.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use patra_core::state::AuthType;

#[derive(Debug, Subcommand)]
pub(crate) enum Credential {
    /// Seal a credential and store it; its values come from stdin, the environment or files
    Add {
        #[command(flatten)]
        which: Which,
        /// api_key, bearer, basic, oauth2, cookie, session or custom
        #[arg(long = "type", value_parser = auth_type, value_name = "TYPE")]
        auth_type: AuthType,
        /// Smaller is taken first, 100 when left out; of cookies the larger, 1 when left out
        #[arg(long, allow_hyphen_values = true, value_name = "N")]
        priority: Option<i32>,
        /// Requests a day that a cookie is used for; 100 when left out
        #[arg(long, value_name = "N")]
        daily_limit: Option<u32>,
        /// The value is a Fernet token: the environment variable that holds its key
        #[arg(long, value_name = "VARIABLE")]
        fernet_key: Option<String>,
        #[command(flatten)]
        values: Values,
    },
    /// List credentials, without their secrets
    List,
    /// Put in a new version; work that is planned already goes on with the old one
    Rotate {
        #[command(flatten)]
        which: Which,
        /// Make the older versions useless at once
        #[arg(long)]
        revoke_old: bool,
        #[command(flatten)]
        values: Values,
    },
    /// Make a credential useless and erase its secrets
    Revoke {
        #[command(flatten)]
        which: Which,
        /// Only this version
        #[arg(long, value_name = "N")]
        only_version: Option<i64>,
    },
    /// Trust a cookie again that is invalid or banned
    Reactivate {
        /// The cookie
        alias: String,
    },
    /// Seal everything anew with the first master key, after a new one was put before the old
    Reseal,
    /// Open a credential and, where it is for tokens, get one
    Check {
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Which {
    /// The name that manifests use; a source's own code is the default there
    pub(crate) alias: String,
    /// Only for this source
    #[arg(long, value_name = "CODE")]
    pub(crate) provenance: Option<String>,
    /// Only for this endpoint of it
    #[arg(long, requires = "provenance", value_name = "NAME")]
    pub(crate) endpoint: Option<String>,
}

/// Where the values come from: stdin when nothing is named.
#[derive(Clone, Debug, Args)]
pub(crate) struct Values {
    /// Take a value from an environment variable, such as apiKey=CROSSREF_KEY; may be repeated
    #[arg(long, value_parser = super::pair, value_name = "NAME=VARIABLE")]
    pub(crate) from_env: Vec<(String, String)>,
    /// Take a value from a file, without its last line break; may be repeated
    #[arg(long, value_parser = file, value_name = "NAME=PATH")]
    pub(crate) from_file: Vec<(String, PathBuf)>,
}

fn auth_type(word: &str) -> Result<AuthType, String> {
    word.to_uppercase().replace('-', "_").parse().map_err(|_| {
        let known: Vec<_> = AuthType::ALL.iter().map(|kind| kind.as_str().to_lowercase()).collect();
        format!("one of: {}", known.join(", "))
    })
}

fn file(text: &str) -> Result<(String, PathBuf), String> {
    super::pair(text).map(|(name, path)| (name, PathBuf::from(path)))
}
