//! The only crate that opens sockets for collecting. It makes one HTTP exchange safe and bounded: an address guard,
//! redirects, caps on body size and on every wait. It knows nothing of sources, retries or the content of a body.
//!
//! Deliberately absent: cookies, proxies from the environment (a request names its own), a referer, reqwest's own
//! redirects and decompression.

mod body;
mod client;
mod connect;
mod fault;
mod guard;
mod hop;
mod proxy;
mod redirect;
mod signer;
mod tls;
mod webhook;

pub use client::Client;
pub use guard::resolver::{Lookup, system_lookup};
pub use guard::{AddressGuard, DeniedAddress};
pub use signer::HttpSigner;
pub use tls::install_crypto;
pub use webhook::Webhook;
