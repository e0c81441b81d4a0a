//! Conditions on the value at a path, of an item or of a whole response.

use serde_json::value::RawValue;

use patra_core::Fault;
use patra_spec::{Pattern, snapshot};

use super::paths::{SelectorList, broken};
use super::scalar::{is_null, spelled};

#[derive(Debug)]
pub(super) struct RecordCondition {
    slot: usize,
    declared: snapshot::ConditionSpec,
    pattern: Option<Pattern>,
}

impl RecordCondition {
    pub(super) fn new(declared: &snapshot::ConditionSpec, paths: &mut SelectorList) -> Result<RecordCondition, Fault> {
        let pattern = declared.matches.as_deref().map(Pattern::parse).transpose();
        Ok(RecordCondition {
            slot: paths.add(&declared.path)?,
            declared: declared.clone(),
            pattern: pattern.map_err(|flaw| broken(&flaw.message))?,
        })
    }

    pub(super) fn path(&self) -> &str {
        &self.declared.path
    }

    /// The value at the path; null counts as none.
    pub(super) fn value<'a>(&self, found: &[Option<&'a RawValue>]) -> Option<&'a RawValue> {
        found[self.slot].filter(|raw| !is_null(raw))
    }

    /// Whether an error rule with this condition needs a value at the path.
    pub(super) fn needs_value(&self) -> bool {
        self.declared.exists != Some(false)
    }

    /// Compares values as text: `0` and `"0"` are equal. A missing value equals nothing.
    pub(super) fn holds(&self, found: &[Option<&RawValue>]) -> bool {
        let value = self.value(found);
        let text = value.and_then(spelled);
        let (rule, text) = (&self.declared, text.as_deref());
        rule.exists.is_none_or(|exists| exists == value.is_some())
            && rule.equals.as_deref().is_none_or(|wanted| text == Some(wanted))
            && rule.not_equals.as_deref().is_none_or(|unwanted| text != Some(unwanted))
            && (rule.r#in.is_empty() || text.is_some_and(|text| rule.r#in.iter().any(|word| word == text)))
            && self.pattern.as_ref().is_none_or(|pattern| text.is_some_and(|text| pattern.matches(text)))
    }
}
