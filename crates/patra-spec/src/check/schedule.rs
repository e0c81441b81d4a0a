//! Checks `schedule`: each operation has one interval or cron pattern, and the pattern fires (ING-5.2-01).

use std::collections::BTreeSet;

use patra_core::cron::Cron;
use patra_core::state::Operation;
use patra_core::{Ts, time};

use super::ManifestChecker;
use crate::iso_duration::IsoDuration;
use crate::manifest::EndpointConfig;

/// A cron pattern must fire within the look-ahead from this date. It is the day after a 29th of February, so that the
/// next one still counts. It is fixed because with the clock a manifest could be valid on one day and invalid on
/// another.
const START: &str = "2024-03-01";

impl ManifestChecker<'_> {
    pub(super) fn schedule(&mut self, endpoint_path: &str, endpoint: &EndpointConfig) {
        let Some(schedule) = &endpoint.schedule else { return };
        let path = &format!("{endpoint_path}.schedule");
        // A schedule may consist of UPDATE entries alone.
        if schedule.update.is_empty() || schedule.every.is_some() || schedule.cron.is_some() {
            self.interval_or_cron(path, schedule.every, schedule.cron.as_deref());
        }
        let mut reasons = BTreeSet::new();
        for (at, update) in schedule.update.iter().enumerate() {
            let path = &format!("{path}.update[{at}]");
            match update.reason {
                None => {
                    let hint = "one of staleness, expr_change, signals";
                    self.report_with(&format!("{path}.reason"), "`reason` is missing", hint);
                }
                Some(reason) if !reasons.insert(reason) => {
                    let message = format!("`{}` has a schedule already", reason.as_str().to_lowercase());
                    self.report(&format!("{path}.reason"), message);
                }
                Some(_) => {}
            }
            self.interval_or_cron(path, update.every, update.cron.as_deref());
        }
        if !schedule.update.is_empty() && endpoint.detail_for(Operation::Update).is_none() {
            self.needs_detail(&format!("{path}.update"));
        }
    }

    /// Exactly one of `every` and `cron`, and it must fire.
    fn interval_or_cron(&mut self, path: &str, every: Option<IsoDuration>, cron: Option<&str>) {
        match (every, cron) {
            (None, None) => {
                let hint = "for example every: PT1H, or cron: \"0 6 * * *\" for six o'clock in UTC";
                let message = "`every` or `cron` is missing";
                return self.report_with(&format!("{path}.every"), message, hint);
            }
            (Some(_), Some(_)) => {
                let message = "`every` and `cron` cannot both be set";
                self.report_with(&format!("{path}.cron"), message, "keep one of them");
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        if every.is_some_and(|every| every.0.as_secs() == 0) {
            self.report(&format!("{path}.every"), "a schedule needs at least one second");
        }
        if let Some(cron) = cron
            && let Err(message) = check_cron(cron)
        {
            let hint = "five fields in UTC: minute, hour, day, month, weekday, as in \"*/15 6-18 * * mon-fri\"";
            self.report_with(&format!("{path}.cron"), message, hint);
        }
    }
}

fn check_cron(pattern: &str) -> Result<(), String> {
    let cron = Cron::parse(pattern)?;
    let start: Ts = START.parse().map_err(|error: time::ParseError| error.to_string())?;
    let next = cron.next_after(start);
    next.map(drop).ok_or_else(|| "the pattern never fires, or hardly ever".to_owned())
}
