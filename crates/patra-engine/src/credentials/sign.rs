//! Signing hooks: called for every request of a spec that names one. A hook that fails stops the source (ING-4.13-04).

use std::time::Duration;

use patra_connectors::auth;
use patra_core::gate::{Bucket, GateDecision, Rate};
use patra_core::port::Signer;
use patra_core::port::signer::{self, Signature};
use patra_core::port::transport::HttpRequest;
use patra_core::{Code, Fault, Level};

use super::{CredentialsInner, OutgoingRequest, lock};

/// Limit on requests to a hook.
const RATE: Rate = Rate { per_sec: 100.0, burst: 100.0 };
/// Tries of a hook that cannot be reached, and the pause between them.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Lookup key of a hook: `hmac-sha256` in a manifest is `HMAC_SHA256` in the environment.
pub fn hook_key(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

impl CredentialsInner {
    /// Adds the signature to a request that is otherwise complete.
    pub(super) async fn sign(&self, outgoing: &OutgoingRequest, request: &mut HttpRequest) -> Result<(), Fault> {
        let Some(hook) = &outgoing.authoriser.auth().signing_hook else { return Ok(()) };
        let signer = self.options.signers.get(&hook_key(hook)).ok_or_else(|| {
            let message = format!(
                "there is no signing hook `{hook}`: start with --signer {hook}=URL, or set PATRA_SIGNER_{}=URL",
                hook_key(hook)
            );
            Fault::new(Code::NotConfigured, Level::L4, message)
        })?;
        let signature = self.signature(hook, &**signer, request).await.map_err(|error| {
            let message = format!("the signing hook `{hook}` failed: {error}");
            Fault::new(Code::UpstreamAuthFailed, Level::L4, message)
        })?;
        auth::sign(request, &signature)
    }

    async fn signature(
        &self,
        hook: &str,
        signer: &dyn Signer,
        request: &HttpRequest,
    ) -> Result<Signature, signer::Error> {
        let mut tries = 0;
        loop {
            self.wait_for_hook(hook).await;
            tries += 1;
            match signer.sign(request).await {
                Err(error) if error.transient && tries < TRIES => tokio::time::sleep(PAUSE).await,
                answer => return answer,
            }
        }
    }

    async fn wait_for_hook(&self, hook: &str) {
        let clock = &self.ports.clock;
        loop {
            let now = clock.steady();
            let decision = {
                let mut hooks = lock(&self.hooks);
                hooks.entry(hook.to_owned()).or_insert_with(|| Bucket::new(RATE, now)).acquire(now)
            };
            let GateDecision::WaitUntil(until) = decision else { return };
            tokio::time::sleep(until.since(now).max(Duration::from_millis(1))).await;
        }
    }
}
