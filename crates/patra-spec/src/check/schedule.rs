//! When the planner asks by itself: each operation has one time, and the time comes (ING-5.2-01).

use std::collections::BTreeSet;

use patra_core::cron::Cron;
use patra_core::state::Operation;
use patra_core::{Ts, time};

use super::Check;
use crate::iso::Iso;
use crate::manifest::Endpoint;

/// From where a pattern must fire within the years that are looked ahead: the day after a 29th of February, so that the
/// next one still counts. Any fixed time does; the clock would make a manifest sound on one day and broken on another.
const START: &str = "2024-03-01";

impl Check<'_> {
    pub(super) fn schedule(&mut self, endpoint_path: &str, endpoint: &Endpoint) {
        let Some(schedule) = &endpoint.schedule else { return };
        let path = &format!("{endpoint_path}.schedule");
        // UPDATE alone may be scheduled.
        if schedule.update.is_empty() || schedule.every.is_some() || schedule.cron.is_some() {
            self.when(path, schedule.every, schedule.cron.as_deref());
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
            self.when(path, update.every, update.cron.as_deref());
        }
        if !schedule.update.is_empty() && endpoint.detail_for(Operation::Update).is_none() {
            self.needs_detail(&format!("{path}.update"));
        }
    }

    /// One of the two, and one that comes.
    fn when(&mut self, path: &str, every: Option<Iso>, cron: Option<&str>) {
        match (every, cron) {
            (None, None) => {
                let hint = "for example every: PT1H, or cron: \"0 6 * * *\" for six o'clock in UTC";
                let message = "nothing says when: `every` or `cron` is missing";
                return self.report_with(&format!("{path}.every"), message, hint);
            }
            (Some(_), Some(_)) => {
                let message = "`every` and `cron` both say when";
                self.report_with(&format!("{path}.cron"), message, "keep one of them");
            }
            (Some(_), None) | (None, Some(_)) => {}
        }
        if every.is_some_and(|every| every.0.as_secs() == 0) {
            self.report(&format!("{path}.every"), "a schedule needs at least one second");
        }
        if let Some(cron) = cron
            && let Err(message) = comes(cron)
        {
            let hint = "five fields in UTC: minute, hour, day, month, weekday, as in \"*/15 6-18 * * mon-fri\"";
            self.report_with(&format!("{path}.cron"), message, hint);
        }
    }
}

fn comes(pattern: &str) -> Result<(), String> {
    let cron = Cron::parse(pattern)?;
    let start: Ts = START.parse().map_err(|error: time::ParseError| error.to_string())?;
    let next = cron.next_after(start);
    next.map(drop).ok_or_else(|| "no day of the calendar fits this pattern, or hardly any".to_owned())
}
