//! Opens a store by its URL. Errors say what to do.

use deadpool_postgres::{HookError, PoolError};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Config, Error};

use crate::Options;
use crate::error::{describe, is_own_fault};

/// Failure to open a store. No variant contains the URL or a password.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the database URL is invalid: {0}")]
    BadUrl(String),
    #[error("the database URL requires TLS, which this build does not support")]
    TlsRequired,
    #[error("no PostgreSQL server responds at {address}: {reason}")]
    Unreachable { address: String, reason: String },
    #[error("the server at {address} refused to authenticate user `{user}`: {reason}")]
    Authentication { address: String, user: String, reason: String },
    #[error("there is no database `{database}` at {address}")]
    NoDatabase { address: String, database: String },
    #[error("the database has schema version {found}, this program knows {known}")]
    Newer { found: u32, known: u32 },
    #[error("migration {version} ({name}) differs from the one that was applied")]
    Changed { version: u32, name: String },
    #[error("the database user lacks a permission: {0}")]
    NoPermission(String),
    #[error("the database could not be prepared: {0}")]
    Failed(String),
    #[error("the database could not be prepared yet: {0}")]
    Interrupted(String),
}

impl OpenError {
    /// Whether the same attempt may succeed later: the server is away, starting or overloaded, or the connection was
    /// cut. All others need a person: a wrong URL, password, database or schema.
    pub fn is_passing(&self) -> bool {
        matches!(self, OpenError::Unreachable { .. } | OpenError::Interrupted(_))
    }

    /// Hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            OpenError::BadUrl(_) => {
                "the form is postgres://user:password@host:5432/database; write special characters of the password as %XX"
            }
            OpenError::TlsRequired => "use sslmode=prefer or sslmode=disable over a network that you trust",
            OpenError::Unreachable { .. } => "is the server running, and does it listen on that address?",
            OpenError::Authentication { .. } => "check user and password in the URL, and the server's pg_hba.conf",
            OpenError::NoDatabase { .. } => "create it with `createdb`, or correct the name at the end of the URL",
            OpenError::Newer { .. } => "a newer version of this program has used the database: use that one",
            OpenError::Changed { .. } => "the database was created by another build; its migrations must not be edited",
            OpenError::NoPermission(_) => {
                "grant CREATE on the schema (or on the database, to create the schema) to the user of the URL"
            }
            OpenError::Interrupted(_) => "try again; what was begun is rolled back",
            OpenError::Failed(_) => return None,
        })
    }
}

/// Parses the URL and adds the settings of every connection.
pub(crate) fn configure(options: &Options) -> Result<Config, OpenError> {
    let url = options.url.trim();
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(OpenError::BadUrl("it does not start with postgres://".to_owned()));
    }
    // The part after the first @ would be taken for the host, and shown.
    if url.matches('@').count() > 1 {
        return Err(OpenError::BadUrl("it holds more than one @; in a password it is written as %40".to_owned()));
    }
    let asks_for_tls = |mode: &str| url.contains(&format!("sslmode={mode}"));
    if ["require", "verify-ca", "verify-full"].into_iter().any(asks_for_tls) {
        return Err(OpenError::TlsRequired);
    }
    let mut config: Config = url.parse().map_err(|error| OpenError::BadUrl(url_problem(&error)))?;
    if config.get_ssl_mode() == SslMode::Require {
        return Err(OpenError::TlsRequired);
    }
    if config.get_hosts().is_empty() {
        return Err(OpenError::BadUrl("it names no host".to_owned()));
    }
    if options.schema.as_ref().is_some_and(|schema| schema.is_empty() || schema.len() > 63 || schema.contains('\0')) {
        return Err(OpenError::BadUrl("a schema has a name of 1 to 63 bytes".to_owned()));
    }
    if config.get_application_name().is_none() {
        config.application_name(&options.application_name);
    }
    // Only the primary of several hosts can be used.
    if config.get_hosts().len() > 1 && config.get_target_session_attrs() == TargetSessionAttrs::Any {
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    }
    config.connect_timeout(options.connect_timeout);
    Ok(config)
}

/// The parser's message, unless it could quote a piece of a password that was not escaped.
fn url_problem(error: &Error) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    if cause.starts_with("invalid value for option") { cause } else { "it is malformed".to_owned() }
}

/// Maps the failure of the first connection.
pub(crate) fn classify(error: &PoolError, config: &Config) -> OpenError {
    let address = address(config);
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            classify_db(error, address, config)
        }
        PoolError::Timeout(_) => OpenError::Unreachable { address, reason: "no response in time".to_owned() },
        other => OpenError::Unreachable { address, reason: other.to_string() },
    }
}

fn classify_db(error: &Error, address: String, config: &Config) -> OpenError {
    let user = config.get_user().unwrap_or("(of the system)").to_owned();
    match error.code() {
        Some(code) if *code == SqlState::INVALID_PASSWORD || *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            OpenError::Authentication { address, user, reason: describe(error) }
        }
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
            OpenError::NoDatabase { address, database: config.get_dbname().unwrap_or(&user).to_owned() }
        }
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => OpenError::NoPermission(describe(error)),
        // Refusals by the driver, as when the server wants a password and the URL has none.
        None if matches!(error.to_string().as_str(), "authentication error" | "invalid configuration") => {
            OpenError::Authentication { address, user, reason: describe(error) }
        }
        Some(code) if is_own_fault(code.code()) => OpenError::Failed(describe(error)),
        _ => OpenError::Unreachable { address, reason: describe(error) },
    }
}

/// Maps a failure after the first connection was there.
pub(crate) fn interrupted(error: &Error) -> OpenError {
    match error.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => OpenError::NoPermission(describe(error)),
        Some(code) if is_own_fault(code.code()) => OpenError::Failed(describe(error)),
        _ => OpenError::Interrupted(describe(error)),
    }
}

fn address(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(at, host)| {
        let port = config.get_ports().get(at).or(config.get_ports().first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            Host::Unix(path) => format!("{} (port {port})", path.display()),
        }
    });
    hosts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str) -> String {
        match configure(&Options::new(url)) {
            Ok(config) => address(&config),
            Err(error) => {
                let text = format!("{error}; {error:?}");
                assert!(!text.contains("s3cr"), "{text}");
                error.to_string()
            }
        }
    }

    #[test]
    fn urls_are_read_or_refused_without_showing_the_password() {
        assert_eq!(check("postgres://u:s3cret@db.example/x"), "db.example:5432");
        assert_eq!(check("postgresql://u@a:1,b:2/x"), "a:1, b:2");
        assert!(check("mysql://u:s3cret@h/x").contains("does not start with postgres://"));
        assert!(check("postgres://u:p@s3cret@h/x").contains("more than one @"));
        assert!(check("postgres://u:p@h/x?s3cret=1").contains("malformed"));
        assert!(check("postgres://u:s3cret@h:port/x").contains("invalid value for option `port`"));
        assert!(check("postgres://u:s3cret@h/x?sslmode=require").contains("TLS"));
        assert!(check("postgres://u:s3cret@h/x?sslmode=verify-full").contains("TLS"));
    }

    #[test]
    fn options_and_their_debug_form_hide_the_url() {
        let options = Options::new("postgres://u:s3cret@h/x");
        assert!(!format!("{options:?}").contains("s3cret"));
    }
}
