//! Errors that hide in answers of status 200 (ING-15-03).

use serde_json::value::RawValue;

use patra_core::{Fault, Level};
use patra_spec::snapshot;

use super::condition::Condition;
use super::paths::Paths;
use super::scalar::spelled;
use crate::classify::Refused;

/// How much of the far side's own words is kept.
const MAX_WORDS: usize = 200;

#[derive(Debug)]
pub(super) struct ErrorRule {
    when: Condition,
    message: Option<usize>,
    declared: snapshot::ErrorRule,
    /// The far side's own codes for what passes: then it is tried again, whatever the rule says.
    passing: Vec<String>,
}

impl ErrorRule {
    pub(super) fn new(
        declared: &snapshot::ErrorRule,
        passing: &[String],
        paths: &mut Paths,
    ) -> Result<ErrorRule, Fault> {
        Ok(ErrorRule {
            when: Condition::new(&declared.when, paths)?,
            message: paths.maybe(declared.message_path.as_deref())?,
            declared: declared.clone(),
            passing: passing.to_vec(),
        })
    }

    /// The refusal that the answer is, if the rule applies to it.
    pub(super) fn refusal(&self, found: &[Option<&RawValue>]) -> Option<Refused> {
        let value = self.when.value(found);
        if (self.when.needs_value() && value.is_none()) || !self.when.holds(found) {
            return None;
        }
        let said = self.message.and_then(|slot| found[slot]).or(value).and_then(spelled);
        let mut message = format!("the far side answers with an error at {}", self.when.path());
        if let Some(said) = said {
            let words = said.chars().take(MAX_WORDS).map(|c| if c.is_control() { ' ' } else { c });
            message.push_str(": ");
            message.extend(words);
        }
        let passes = value.and_then(spelled).is_some_and(|code| self.passing.iter().any(|known| *known == code));
        let level = if passes { Level::L1 } else { self.declared.level };
        let fault = Fault::new(self.declared.code, level, message);
        Some(Refused { fault, throttled: self.declared.throttle, retry_after: None })
    }
}
