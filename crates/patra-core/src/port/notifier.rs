//! Telling somebody outside.

use std::fmt;

use super::Boxed;

/// A place that the operator named, which is told things as JSON.
pub trait Notifier: fmt::Debug + Send + Sync {
    /// The error is a sentence for the log.
    fn tell(&self, json: String) -> Boxed<'_, Result<(), String>>;
}
