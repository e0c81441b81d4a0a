//! Projects: every job, source, item and URL belongs to one. A project cannot see another project's.

/// The project of everything that names no other; it exists from the start.
pub const DEFAULT: &str = "default";
/// Longest key.
pub const MAX_KEY_BYTES: usize = 64;

/// Validates a project's key; the error is a sentence.
pub fn check(key: &str) -> Result<(), String> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    if key.is_empty() || key.len() > MAX_KEY_BYTES || !key.bytes().all(word) {
        return Err(format!(
            "a project's key is 1 to {MAX_KEY_BYTES} of a-z, 0-9, `_` and `-`, such as online_lottery; found {key:?}"
        ));
    }
    Ok(())
}

/// Library of the URL pool and of sources: shared, or of one project (POOL-03).
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
    type Err = crate::state::UnknownValue;
    fn from_str(text: &str) -> Result<Library, Self::Err> {
        [Library::Shared, Library::Project]
            .into_iter()
            .find(|library| library.as_str() == text)
            .ok_or_else(|| crate::state::UnknownValue { kind: "scope", value: text.to_owned() })
    }
}

/// What a reader sees: one library, or both, where a project's entry hides the shared one with the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryScope {
    Shared,
    Project,
    #[default]
    Effective,
}

impl LibraryScope {
    pub fn as_str(self) -> &'static str {
        match self {
            LibraryScope::Shared => "shared",
            LibraryScope::Project => "project",
            LibraryScope::Effective => "effective",
        }
    }
}

impl std::str::FromStr for LibraryScope {
    type Err = crate::state::UnknownValue;
    fn from_str(text: &str) -> Result<LibraryScope, Self::Err> {
        [LibraryScope::Shared, LibraryScope::Project, LibraryScope::Effective]
            .into_iter()
            .find(|sight| sight.as_str() == text)
            .ok_or_else(|| crate::state::UnknownValue { kind: "scope", value: text.to_owned() })
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
