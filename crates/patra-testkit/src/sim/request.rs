//! Job requests: a harvest first, then anything that the world has.

use std::time::Duration;

use patra_core::state::{Operation, TriggerType};
use patra_core::tx::{RequestJob, Tx};

use super::check::Broken;
use super::process::Machines;
use super::world::World;
use super::{partition, update};

impl World {
    /// Requests a job. The numbers of the rough phase request anything, later ones everything of one operation.
    pub(super) fn fire(&mut self, number: u64) -> Result<(), Broken> {
        let operation = self.operation(number);
        let rough = number > 0 && number < 100;
        let backfill = operation == Operation::Backfill;
        let bounded = rough && (backfill || operation == Operation::Harvest && self.rng.chance(200));
        let partitioned = (200..300).contains(&number)
            || rough && self.profile.partitions.is_some() && operation != Operation::Update && self.rng.chance(500);
        // A backfill may begin before the manifest does; only then its namespace begins with it, and its cursor moves.
        let reach = if backfill { self.profile.history * 3 / 2 } else { self.profile.history };
        let from = self.start - Duration::from_secs(self.rng.below(reach.as_secs()));
        let own = operation == Operation::Harvest || rough && self.rng.chance(400);
        let fire: Tx = RequestJob {
            public_id: format!("t{number}"),
            trigger_type: TriggerType::Manual,
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: if partitioned { partition::ENDPOINT } else { "e" }.into(),
            operation,
            window_from: bounded.then_some(from),
            window_to: bounded.then(|| from + Duration::from_secs(1 + self.rng.below(80))),
            reason: (operation == Operation::Update).then(|| update::reason(&mut self.rng)),
            activity: (!own).then(|| "a".to_owned()),
            priority: 0,
            params: "{}".into(),
            overrides: "{}".into(),
        }
        .into();
        // Two requests with one public id make one trigger.
        let times = 1 + self.rng.below(2);
        for _ in 0..times {
            self.execute(&fire)?;
        }
        self.spread(Machines::nudge_planner);
        Ok(())
    }

    fn operation(&mut self, number: u64) -> Operation {
        match number {
            0 | 100..300 => Operation::Harvest,
            300..400 => Operation::Backfill,
            400.. => Operation::Update,
            _ if self.profile.update.is_some() && self.rng.chance(400) => Operation::Update,
            _ if self.rng.chance(if self.profile.backfill { 700 } else { 100 }) => Operation::Backfill,
            _ => Operation::Harvest,
        }
    }
}
