//! Which functions and variables a template may use, and how it renders times and null: the expression capability and
//! the render rules of a source (ING-3.2-11, ING-3.2-12).

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::Value;

use patra_core::Ts;

use super::functions::time;
use super::{AllowedFunctions, NullPolicy};
use crate::problem::SyntaxError;

/// Rules for compiling a template. The default allows every function, omits null, and renders times as ISO-8601.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplateRules {
    pub allowed: AllowedFunctions,
    pub nulls: NullPolicy,
    pub times: TimeStyle,
    pub scope: VariableScope,
}

/// Which variables exist in addition to the window and the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariableScope {
    /// Declared parameters; `None` allows any.
    pub params: Option<Arc<BTreeSet<String>>>,
    /// Whether `credential.<name>` is allowed.
    pub credential: bool,
    /// Whether `ids` and `id` are allowed.
    pub ids: bool,
}

/// Default format of times that no function has formatted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TimeStyle {
    /// ISO-8601 with nine digits (ING-4.8-02).
    #[default]
    Iso,
    Epoch,
    EpochMs,
    Date,
    Pattern(String),
}

impl TimeStyle {
    /// Parses one of four names, or a pattern with `%`.
    pub fn parse(text: &str) -> Result<TimeStyle, SyntaxError> {
        match text.trim() {
            "iso" => Ok(TimeStyle::Iso),
            "epoch" => Ok(TimeStyle::Epoch),
            "epoch_ms" => Ok(TimeStyle::EpochMs),
            "date" => Ok(TimeStyle::Date),
            pattern if pattern.contains('%') => {
                time::format(Ts::from_secs(0), pattern, None).map_err(|reason| SyntaxError::new(0, reason))?;
                Ok(TimeStyle::Pattern(pattern.to_owned()))
            }
            other => {
                let message = format!("{} is not a time format", crate::problem::quote(other));
                Err(SyntaxError::new(0, message).hint("iso, epoch, epoch_ms, date, or a pattern such as %Y-%m-%d"))
            }
        }
    }

    pub(super) fn write(&self, at: Ts) -> Value {
        match self {
            TimeStyle::Iso => at.to_string().into(),
            TimeStyle::Epoch => at.micros().div_euclid(1_000_000).into(),
            TimeStyle::EpochMs => at.micros().div_euclid(1_000).into(),
            TimeStyle::Date => at.to_short_text().split('T').next().into(),
            // The pattern was validated when it was parsed. A time outside the calendar is rendered as ISO-8601.
            TimeStyle::Pattern(pattern) => time::format(at, pattern, None).unwrap_or_else(|_| at.to_string()).into(),
        }
    }
}
