//! Errors in responses of status 200 (ING-15-03), and meanings of other statuses.

use serde_json::value::RawValue;

use patra_core::port::transport::HttpResponse;
use patra_core::{Fault, Level};
use patra_spec::{Snapshot, snapshot};

use super::condition::RecordCondition;
use super::paths::SelectorList;
use super::scalar::{is_null, spelled};
use super::walk::PathTree;
use crate::classify::RefusedResponse;

/// Bytes of the upstream's message that are kept.
const MAX_WORDS: usize = 200;
/// Usual paths of the upstream's message.
const USUAL: &str = "$.message";

#[derive(Debug)]
pub(super) struct BodyErrorRule {
    when: RecordCondition,
    words: Words,
    declared: snapshot::ErrorRuleSpec,
    /// Error codes of the upstream that are transient, whatever the rule says.
    passing: Vec<String>,
}

impl BodyErrorRule {
    pub(super) fn new(
        declared: &snapshot::ErrorRuleSpec,
        passing: &[String],
        paths: &mut SelectorList,
    ) -> Result<BodyErrorRule, Fault> {
        Ok(BodyErrorRule {
            when: RecordCondition::new(&declared.when, paths)?,
            words: Words::new(declared, paths)?,
            declared: declared.clone(),
            passing: passing.to_vec(),
        })
    }

    /// The refusal, if the rule applies to the response.
    pub(super) fn refusal(&self, found: &[Option<&RawValue>]) -> Option<RefusedResponse> {
        let value = self.when.value(found);
        if (self.when.needs_value() && value.is_none()) || !self.when.holds(found) {
            return None;
        }
        let said = self.words.find(found).or(value).and_then(spelled);
        let message = worded(format!("the upstream returned an error at {}", self.when.path()), said.as_deref());
        let passes = value.and_then(spelled).is_some_and(|code| self.passing.iter().any(|known| *known == code));
        let level = if passes { Level::L1 } else { self.declared.level };
        let fault = Fault::new(self.declared.code, level, message);
        Some(RefusedResponse { fault, throttled: self.declared.throttle, retry_after: None })
    }
}

/// Meaning of a status by the manifest.
#[derive(Debug)]
pub(crate) struct StatusRules {
    wanted: PathTree,
    rules: Vec<StatusRule>,
}

#[derive(Debug)]
struct StatusRule {
    when: Option<RecordCondition>,
    words: Words,
    declared: snapshot::ErrorRuleSpec,
}

impl StatusRules {
    pub(crate) fn new(spec: &Snapshot) -> Result<StatusRules, Fault> {
        let mut paths = SelectorList::default();
        let mut rules = Vec::new();
        for declared in spec.response.errors.iter().filter(|rule| !rule.status.is_empty()) {
            let looks = !declared.when.path.is_empty();
            rules.push(StatusRule {
                when: looks.then(|| RecordCondition::new(&declared.when, &mut paths)).transpose()?,
                words: Words::new(declared, &mut paths)?,
                declared: declared.clone(),
            });
        }
        Ok(StatusRules { wanted: paths.wanted(), rules })
    }

    /// The refusal by the first rule that applies, or unchanged. A body that is no JSON matches no rule.
    pub(crate) fn refine(&self, refused: RefusedResponse, response: &HttpResponse) -> RefusedResponse {
        let mut rules = self.rules.iter().filter(|rule| rule.declared.status.contains(&response.status)).peekable();
        if rules.peek().is_none() {
            return refused;
        }
        let text = std::str::from_utf8(&response.body).unwrap_or_default();
        let found = self.wanted.find(text).unwrap_or_default();
        let applies = |rule: &&StatusRule| match &rule.when {
            None => true,
            Some(_) if found.is_empty() => false,
            Some(when) => (!when.needs_value() || when.value(&found).is_some()) && when.holds(&found),
        };
        let Some(rule) = rules.find(applies) else { return refused };
        let said = rule.words.find(&found).and_then(spelled);
        let message = worded(format!("the upstream returned {}", response.status), said.as_deref());
        let snapshot::ErrorRuleSpec { code, level, throttle, .. } = rule.declared;
        RefusedResponse {
            fault: Fault::new(code, level, message),
            throttled: throttle,
            retry_after: refused.retry_after,
        }
    }
}

/// Paths of the upstream's message: by a rule, or the usual ones.
#[derive(Debug)]
struct Words(Vec<usize>);

impl Words {
    fn new(declared: &snapshot::ErrorRuleSpec, paths: &mut SelectorList) -> Result<Words, Fault> {
        let Some(path) = declared.message_path.as_deref() else { return Ok(Words(Vec::new())) };
        Ok(Words(vec![paths.add(path)?, paths.add(USUAL)?]))
    }

    fn find<'a>(&self, found: &[Option<&'a RawValue>]) -> Option<&'a RawValue> {
        self.0.iter().find_map(|slot| found.get(*slot).copied().flatten().filter(|raw| !is_null(raw)))
    }
}

/// Adds the beginning of the upstream's message.
fn worded(mut message: String, said: Option<&str>) -> String {
    if let Some(said) = said {
        message.push_str(": ");
        message.extend(said.chars().take(MAX_WORDS).map(|c| if c.is_control() { ' ' } else { c }));
    }
    message
}
