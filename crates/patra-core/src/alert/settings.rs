//! Settings of alert rules: thresholds and delays, from the environment, then from the configuration table.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{AlertRule, RULES};

/// Longest delay of an alert, in minutes: a week.
const MAX_MINUTES: u64 = 7 * 24 * 60;

/// Changed rules. The default changes none.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct AlertSettings {
    /// `None` switches the rule off.
    thresholds: BTreeMap<&'static str, Option<f64>>,
    delays: BTreeMap<&'static str, Duration>,
}

impl AlertSettings {
    /// Applies `ALERT_<RULE>`, a threshold or `off`, and `ALERT_<RULE>_MINUTES`. Returns the first invalid value, with
    /// the reason.
    pub fn environment(&mut self, variable: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        for rule in RULES {
            let name = format!("ALERT_{}", rule.name.to_ascii_uppercase());
            let minutes = format!("{name}_MINUTES");
            self.set(&rule, &name, variable(&name).as_deref(), &minutes, variable(&minutes).as_deref())?;
        }
        Ok(())
    }

    /// Applies `alert.<rule>` and `alert.<rule>.minutes` of the configuration table; invalid values are ignored.
    pub fn config(&mut self, settings: &[(String, String)]) {
        let value = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        for rule in RULES {
            let name = format!("alert.{}", rule.name);
            let minutes = format!("{name}.minutes");
            let _ = self.set(&rule, &name, value(&name), "", None);
            let _ = self.set(&rule, "", None, &minutes, value(&minutes));
        }
    }

    fn set(
        &mut self,
        rule: &AlertRule,
        name: &str,
        threshold: Option<&str>,
        minutes_name: &str,
        minutes: Option<&str>,
    ) -> Result<(), String> {
        match threshold.map(str::trim) {
            None | Some("") => {}
            Some(off) if off.eq_ignore_ascii_case("off") => drop(self.thresholds.insert(rule.name, None)),
            Some(text) => {
                let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
                let number = number.ok_or_else(|| format!("{name} is {text:?}: expected a number, or off"))?;
                self.thresholds.insert(rule.name, Some(number));
            }
        }
        if let Some(text) = minutes.map(str::trim).filter(|text| !text.is_empty()) {
            let number = text.parse::<u64>().ok().filter(|number| *number <= MAX_MINUTES);
            let number = number.ok_or_else(|| {
                format!("{minutes_name} is {text:?}: expected a whole number from 0 to {MAX_MINUTES}")
            })?;
            self.delays.insert(rule.name, Duration::from_secs(60 * number));
        }
        Ok(())
    }

    /// The rule in force; `None` when it is switched off.
    pub fn apply(&self, rule: &AlertRule) -> Option<AlertRule> {
        let threshold = self.thresholds.get(rule.name).copied().unwrap_or(Some(rule.threshold))?;
        let delay = self.delays.get(rule.name).copied().unwrap_or(rule.delay);
        Some(AlertRule { threshold, delay, ..*rule })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{BACKLOG, QUEUE_STANDS, SOURCE_PAUSED};

    #[test]
    fn settings_change_rules_and_invalid_ones_are_named() {
        let mut settings = AlertSettings::default();
        let variables = [("ALERT_BACKLOG", "9"), ("ALERT_BACKLOG_MINUTES", "1"), ("ALERT_QUEUE_STANDS", "OFF")];
        let of = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        settings.environment(of).unwrap();
        let backlog = settings.apply(&BACKLOG).unwrap();
        assert_eq!((backlog.threshold, backlog.delay), (9.0, Duration::from_secs(60)));
        assert_eq!(settings.apply(&QUEUE_STANDS), None);
        assert_eq!(settings.apply(&SOURCE_PAUSED), Some(SOURCE_PAUSED));
        settings.config(&[("alert.backlog".into(), "7".into()), ("alert.queue_stands".into(), "60".into())]);
        assert_eq!(settings.apply(&BACKLOG).unwrap().threshold, 7.0);
        assert_eq!(settings.apply(&QUEUE_STANDS).unwrap().threshold, 60.0);
        for (name, value) in [("ALERT_BACKLOG", "many"), ("ALERT_BACKLOG", "-1"), ("ALERT_BACKLOG_MINUTES", "20000")] {
            let bad = |asked: &str| (asked == name).then(|| value.to_owned());
            assert!(AlertSettings::default().environment(bad).unwrap_err().starts_with(name));
        }
    }
}
