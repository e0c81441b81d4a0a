//! Notifications to the outside.

use std::fmt;

use super::BoxFuture;

/// A receiver that the operator configured; it gets notifications as JSON.
pub trait Notifier: fmt::Debug + Send + Sync {
    /// The error is a sentence for the log.
    fn notify(&self, json: String) -> BoxFuture<'_, Result<(), String>>;
}
