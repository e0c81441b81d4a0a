//! Operators: they pause, resume and cancel work while it runs.

use std::time::Duration;

use patra_core::state::{Operation, PauseKind};
use patra_core::tx::{CancelSubject, CancelWork, Done, PauseSelector, PauseSubject, PauseWork, ResumeWork, Tx};
use patra_core::{PauseId, PlanId, SliceId, TaskId};

use super::check::{Broken, stops};
use super::event::Event;
use super::process::Machines;
use super::world::World;

/// An operator action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Pause,
    Release(PauseId),
    /// Resumes everything that is paused.
    ReleaseAll,
    Cancel,
    /// Signals some records for a refresh.
    Signal,
}

impl World {
    pub(super) fn plan_acts(&mut self) {
        let signals = self.profile.update.map_or(0, |update| update.signals);
        let acts = [(Act::Pause, self.profile.pauses), (Act::Cancel, self.profile.cancels), (Act::Signal, signals)];
        for (act, count) in acts {
            for _ in 0..count {
                let at = self.now + self.below(self.profile.rough);
                self.agenda.push(at, &mut self.rng, Event::Act(act));
            }
        }
    }

    pub(super) fn act(&mut self, act: Act) -> Result<(), Broken> {
        match act {
            Act::Pause => self.pause(),
            Act::Release(hold) => self.release(hold),
            Act::ReleaseAll => {
                let holds: Vec<_> = self.store.mem.holds.values().filter(|hold| hold.released.is_none()).collect();
                let holds: Vec<PauseId> = holds.into_iter().map(|hold| hold.id).collect();
                holds.into_iter().try_for_each(|hold| self.release(hold))
            }
            Act::Cancel => self.cancel(),
            Act::Signal => self.signal(),
        }
    }

    /// Schedules the resumption of all paused work.
    pub(super) fn release_later(&mut self, within: Duration) {
        let at = self.now + Duration::from_micros(1) + self.below(within);
        self.agenda.push(at, &mut self.rng, Event::Act(Act::ReleaseAll));
    }

    fn pause(&mut self) -> Result<(), Broken> {
        let Some(subject) = self.subject() else { return Ok(()) };
        let hold = PauseWork { subject, kind: PauseKind::Pause, reason: String::new(), by: String::new() };
        if let Done::PauseWork(holding) = self.execute(&hold.into())? {
            let at = self.now + Duration::from_micros(1) + self.below(self.profile.lease * 3);
            self.agenda.push(at, &mut self.rng, Event::Act(Act::Release(holding.pause)));
        }
        Ok(())
    }

    fn release(&mut self, hold: PauseId) -> Result<(), Broken> {
        let subject = self.store.mem.holds.get(&hold).map(|row| row.subject.clone());
        let which = match subject.filter(|_| self.rng.chance(300)) {
            Some(subject) => PauseSelector::On(subject),
            None => PauseSelector::Id(hold),
        };
        self.execute(&Tx::ResumeWork(ResumeWork { target: which, by: String::new() }))?;
        if stops(&self.store.mem).any(|row| row.id == hold) {
            return Err(format!("pause: pause {hold} was resumed and is still active"));
        }
        self.spread(Machines::nudge_executor);
        self.spread(Machines::nudge_planner);
        Ok(())
    }

    /// The subject of a pause: the source, an operation, or a part of the present work.
    fn subject(&mut self) -> Option<PauseSubject> {
        let source = PauseSubject::source("p");
        Some(match self.rng.below(5) {
            0 => source,
            1 => {
                let operation = [Operation::Harvest, Operation::Backfill][self.rng.below(2) as usize];
                PauseSubject { operation: Some(operation), endpoint_name: Some("e".to_owned()), ..source }
            }
            2 => PauseSubject { plan: Some(PlanId(self.any(self.store.mem.plans.len())?)), ..PauseSubject::default() },
            3 => {
                PauseSubject { slice: Some(SliceId(self.any(self.store.mem.slices.len())?)), ..PauseSubject::default() }
            }
            _ => PauseSubject { task: Some(TaskId(self.any(self.store.mem.tasks.len())?)), ..PauseSubject::default() },
        })
    }

    fn cancel(&mut self) -> Result<(), Broken> {
        let mem = &self.store.mem;
        let (triggers, plans, slices, tasks) =
            (mem.instances.len(), mem.plans.len(), mem.slices.len(), mem.tasks.len());
        let target = match self.rng.below(4) {
            0 => self
                .any(triggers)
                .map(|id| CancelSubject::Job(self.store.mem.instances[id as usize - 1].public_id.clone())),
            1 => self.any(plans).map(|id| CancelSubject::Plan(PlanId(id))),
            2 => self.any(slices).map(|id| CancelSubject::Slice(SliceId(id))),
            _ => self.any(tasks).map(|id| CancelSubject::Task(TaskId(id))),
        };
        let Some(target) = target else { return Ok(()) };
        self.execute(&CancelWork { target, reason: String::new(), by: String::new() }.into())?;
        Ok(())
    }

    /// The id of some row of a table, more likely a late one.
    fn any(&mut self, rows: usize) -> Option<i64> {
        let rows = rows as u64;
        (rows > 0).then(|| 1 + self.rng.below(rows).max(self.rng.below(rows)) as i64)
    }
}
