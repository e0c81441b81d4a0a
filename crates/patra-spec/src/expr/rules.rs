//! What a template may use, and how it writes times and null: the expression capability and the render rules of a source
//! (ING-3.2-11, ING-3.2-12).

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::Value;

use patra_core::Ts;

use super::functions::time;
use super::{Allowed, NullPolicy};
use crate::problem::Flaw;

/// The default: every function, null omitted, times as ISO-8601 text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    pub allowed: Allowed,
    pub nulls: NullPolicy,
    pub times: TimeStyle,
    pub scope: Scope,
}

/// Which variables there are beside the window and the page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scope {
    /// The parameters that are declared; `None`: any.
    pub params: Option<Arc<BTreeSet<String>>>,
    /// `credential.<name>`.
    pub credential: bool,
    /// `ids` and `id`.
    pub ids: bool,
}

/// How a time is written that no function has written.
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
    /// One of four words, or a pattern with `%`.
    pub fn parse(text: &str) -> Result<TimeStyle, Flaw> {
        match text.trim() {
            "iso" => Ok(TimeStyle::Iso),
            "epoch" => Ok(TimeStyle::Epoch),
            "epoch_ms" => Ok(TimeStyle::EpochMs),
            "date" => Ok(TimeStyle::Date),
            pattern if pattern.contains('%') => {
                time::format(Ts::from_secs(0), pattern, None).map_err(|reason| Flaw::new(0, reason))?;
                Ok(TimeStyle::Pattern(pattern.to_owned()))
            }
            other => {
                let message = format!("{} is no way to write a time", crate::problem::quote(other));
                Err(Flaw::new(0, message).hint("iso, epoch, epoch_ms, date, or a pattern such as %Y-%m-%d"))
            }
        }
    }

    pub(super) fn write(&self, at: Ts) -> Value {
        match self {
            TimeStyle::Iso => at.to_string().into(),
            TimeStyle::Epoch => at.micros().div_euclid(1_000_000).into(),
            TimeStyle::EpochMs => at.micros().div_euclid(1_000).into(),
            TimeStyle::Date => at.to_short_text().split('T').next().into(),
            // It was tried when it was read; a time outside the calendar stays as it is.
            TimeStyle::Pattern(pattern) => time::format(at, pattern, None).unwrap_or_else(|_| at.to_string()).into(),
        }
    }
}
