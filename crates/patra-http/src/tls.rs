//! Installs the crypto provider of rustls, which is a process-wide choice.

use rustls::crypto::{CryptoProvider, ring};

/// Makes ring the crypto provider of this process, unless there is one already. Calling it again does nothing.
pub fn install_crypto() {
    if CryptoProvider::get_default().is_none() {
        // If another thread wins the race, a provider is installed all the same.
        ring::default_provider().install_default().ok();
    }
}
