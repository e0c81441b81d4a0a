//! Projects: whose a job, a source, an item or a URL is. Nobody sees another project's.

/// What belongs to no other project is of this one; it exists from the start.
pub const DEFAULT: &str = "default";
/// Longest key.
pub const MAX_KEY_BYTES: usize = 64;

/// A sentence about what is wrong with a project's key.
pub fn check(key: &str) -> Result<(), String> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(word) {
        return Err(format!(
            "a project's key is 1 to {MAX_KEY_BYTES} of a-z, 0-9, `_` and `-`, such as online_lottery; found {key:?}"
        ));
    }
    Ok(())
}

/// Which library of the URL pool, and of sources: everybody's or one project's (POOL-03).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Library {
    Shared,
    Project,
}

impl Library {
    pub fn as_str(self) -> &'static str {
        match self {
            Library::Shared => "shared",
            Library::Project => "project",
        }
    }

    /// The `project_key` of a row of this library (POOL-106).
    pub fn key(self, project_key: &str) -> &str {
        match self {
            Library::Shared => "",
            Library::Project => project_key,
        }
    }
}

impl std::str::FromStr for Library {
    type Err = crate::state::UnknownWord;
    fn from_str(text: &str) -> Result<Library, Self::Err> {
        [Library::Shared, Library::Project]
            .into_iter()
            .find(|library| library.as_str() == text)
            .ok_or_else(|| crate::state::UnknownWord { kind: "scope", word: text.to_owned() })
    }
}

/// What a reader sees: one library, or both, in which a project's entry covers the shared one with the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sight {
    Shared,
    Project,
    #[default]
    Effective,
}

impl Sight {
    pub fn as_str(self) -> &'static str {
        match self {
            Sight::Shared => "shared",
            Sight::Project => "project",
            Sight::Effective => "effective",
        }
    }
}

impl std::str::FromStr for Sight {
    type Err = crate::state::UnknownWord;
    fn from_str(text: &str) -> Result<Sight, Self::Err> {
        [Sight::Shared, Sight::Project, Sight::Effective]
            .into_iter()
            .find(|sight| sight.as_str() == text)
            .ok_or_else(|| crate::state::UnknownWord { kind: "scope", word: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_plain_words() {
        for key in ["default", "online_lottery", "a", "7-b"] {
            assert_eq!(check(key), Ok(()));
        }
        for key in ["", "Online", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert!(check(key).is_err(), "{key}");
        }
    }
}
