//! A secret text. It prints, logs and serialises as `***`, and is wiped from memory when dropped.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// Printed instead of a secret.
pub const MASK: &str = "***";

#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

/// The values of one opened credential, by name.
pub type Secrets = BTreeMap<String, Secret>;

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The text itself. Callers put it into a request or seal it, nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Secret {
        Secret::new(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// Deserialising is allowed: that is how secrets come in.
impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        String::deserialize(deserializer).map(Secret::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-2.7-02, ING-4.2-10
    #[test]
    fn a_secret_shows_in_no_output() {
        let secret = Secret::new("canary");
        let map = Secrets::from([("token".to_owned(), secret.clone())]);
        for shown in
            [format!("{secret}"), format!("{secret:?}"), format!("{map:?}"), serde_json::to_string(&map).unwrap()]
        {
            assert!(shown.contains(MASK) && !shown.contains("canary"), "{shown}");
        }
        let read: Secrets = serde_json::from_str(r#"{"token":"canary"}"#).unwrap();
        assert_eq!(read["token"].expose(), "canary");
    }
}
