//! The crypto provider of rustls. It is a process-wide choice, hence one function for the wiring to call.

use rustls::crypto::{CryptoProvider, ring};

/// Makes ring the provider of this process, unless there is one already. Calling it again does nothing.
pub fn install_crypto() {
    if CryptoProvider::get_default().is_none() {
        // Losing the race against another thread is as good as winning it: a provider is installed.
        ring::default_provider().install_default().ok();
    }
}
