//! Vault: the keys and the randomness of a process, which seal and open credentials and tokens.

use std::sync::{Arc, OnceLock};

use crate::credential::{self, AccessToken, Binding, Credential};
use crate::id::CredentialId;
use crate::port::Entropy;
use crate::seal::{Error, Keyring, NONCE_BYTES};
use crate::secret::{Secret, Secrets};

#[derive(Clone, Debug)]
pub struct Vault {
    keyring: Keyring,
    entropy: Arc<dyn Entropy>,
}

impl Vault {
    pub fn new(keyring: Keyring, entropy: Arc<dyn Entropy>) -> Vault {
        Vault { keyring, entropy }
    }

    /// The id of the key that seals.
    pub fn key_id(&self) -> &str {
        self.keyring.key_id()
    }

    /// Seals the values of one version of a credential.
    pub fn seal(&self, binding: &Binding, version: i64, secrets: &Secrets) -> Result<String, Error> {
        self.sealed(&binding.record(version), &credential::to_text(secrets))
    }

    pub fn open(&self, credential: &Credential) -> Result<Secrets, Error> {
        let text = self.keyring.open(&credential.binding.record(credential.version), &credential.sealed)?;
        credential::from_text(&text).ok_or(Error::Damaged)
    }

    pub fn seal_token(&self, credential: CredentialId, token: &AccessToken) -> Result<String, Error> {
        self.sealed(&credential::token_record(credential), &token.to_text())
    }

    pub fn open_token(&self, credential: CredentialId, sealed: &str) -> Result<AccessToken, Error> {
        let text = self.keyring.open(&credential::token_record(credential), sealed)?;
        AccessToken::from_text(&text).ok_or(Error::Damaged)
    }

    /// Seals a text for the row that `record` names.
    pub fn seal_text(&self, record: &str, text: &Secret) -> Result<String, Error> {
        self.sealed(record, text)
    }

    pub fn open_text(&self, record: &str, sealed: &str) -> Result<Secret, Error> {
        self.keyring.open(record, sealed)
    }

    /// Signs an exported text; [`Vault::verify`] detects changes.
    pub fn sign(&self, text: &[u8]) -> Result<String, Error> {
        self.keyring.sign(text)
    }

    pub fn verify(&self, text: &[u8], signature: &str) -> Result<(), Error> {
        self.keyring.verify(text, signature)
    }

    fn sealed(&self, record: &str, secret: &Secret) -> Result<String, Error> {
        let mut nonce = [0; NONCE_BYTES];
        self.entropy.fill(&mut nonce).map_err(Error::NoRandomness)?;
        self.keyring.seal(record, nonce, secret)
    }
}

/// A vault that may be created later: the parts of a process share the cell, and the first credential may create the
/// key.
#[derive(Clone, Debug, Default)]
pub struct VaultCell(Arc<OnceLock<Arc<Vault>>>);

impl VaultCell {
    pub fn new(vault: Option<Arc<Vault>>) -> VaultCell {
        let cell = OnceLock::new();
        if let Some(vault) = vault {
            // The cell is new, so it is empty.
            let _ = cell.set(vault);
        }
        VaultCell(Arc::new(cell))
    }

    pub fn get(&self) -> Option<&Arc<Vault>> {
        self.0.get()
    }

    /// The vault; created when there is none yet.
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<Arc<Vault>, E>) -> Result<Arc<Vault>, E> {
        if let Some(vault) = self.get() {
            return Ok(Arc::clone(vault));
        }
        let made = make()?;
        Ok(Arc::clone(self.0.get_or_init(|| made)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credential::CredentialRuntime;
    use crate::seal::MasterKey;
    use crate::state::{AuthType, CredentialStatus};

    #[derive(Debug)]
    struct Fixed;

    impl Entropy for Fixed {
        fn fill(&self, bytes: &mut [u8]) -> Result<(), String> {
            bytes.fill(9);
            Ok(())
        }
    }

    // covers: ING-3.8-01, MAP-C-03
    #[test]
    fn a_credential_and_its_token_open_in_their_own_rows_only() {
        let vault = Vault::new(Keyring::new(MasterKey::new([1; 32])), Arc::new(Fixed));
        let binding = Binding { alias: "a".into(), provenance_code: "p".into(), endpoint_name: "*".into() };
        let secrets = Secrets::from([("apiKey".to_owned(), Secret::new("canary"))]);
        let credential = Credential {
            id: CredentialId(4),
            version: 2,
            auth_type: AuthType::ApiKey,
            priority: 0,
            sealed: vault.seal(&binding, 2, &secrets).unwrap(),
            status: CredentialStatus::Active,
            state: CredentialRuntime::default(),
            binding,
        };
        assert_eq!(vault.open(&credential), Ok(secrets));
        for moved in [
            Credential { version: 1, ..credential.clone() },
            Credential { binding: Binding { alias: "b".into(), ..credential.binding.clone() }, ..credential.clone() },
            Credential {
                binding: Binding { provenance_code: "*".into(), ..credential.binding.clone() },
                ..credential.clone()
            },
        ] {
            assert_eq!(vault.open(&moved), Err(Error::Forged));
        }
        let token = AccessToken { access: Secret::new("canary"), refresh: None };
        let sealed = vault.seal_token(CredentialId(4), &token).unwrap();
        assert_eq!(vault.open_token(CredentialId(4), &sealed), Ok(token));
        assert_eq!(vault.open_token(CredentialId(5), &sealed), Err(Error::Forged));
        assert!(!format!("{vault:?} {credential:?}").contains("canary"));
    }
}
