//! Deaths of processes, and whose fault they are: a task fails for a death only if it ran alone.

use std::time::Duration;

use patra_core::tx::{Done, Tx, TxError};
use patra_core::{TaskId, Ts};

use super::check::Broken;
use super::event::Event;
use super::process::{Machines, Process};
use super::world::World;

impl World {
    pub(super) fn crash(&mut self, process: usize) {
        self.note_death(process);
        let this = &mut self.processes[process];
        this.alive = false;
        this.machines.runs.clear();
        let life = this.life;
        let at = self.now + Duration::from_micros(100_000) + self.below(self.profile.lease * 2);
        self.agenda.push(at, &mut self.rng, Event::Restart { process, life });
    }

    pub(super) fn restart(&mut self, process: usize, life: u32) {
        let local = self.processes[process].local(self.now);
        let this = &self.processes[process];
        if this.life != life {
            return;
        }
        self.note_death(process);
        let this = &mut self.processes[process];
        (this.alive, this.draining, this.paused_until) = (true, false, Ts::MIN);
        this.life += 1;
        this.silent_until = Ts::MIN;
        this.machines = Machines::new(process, this.life, this.role, &self.profile, &mut self.rng, local);
        this.next_wake = Ts::MAX;
        self.rewake(process);
    }

    /// Records how many runs a process had when it died, for each of its tasks.
    pub(super) fn note_death(&mut self, process: usize) {
        let this = &self.processes[process];
        let (owner, runs) = (owner(process, this), this.machines.runs.len());
        for active in &this.machines.runs {
            self.deaths.entry((owner.clone(), active.lease.task)).or_insert(runs);
        }
    }

    /// Who holds which task before a sweep.
    pub(super) fn owners(&self, tx: &Tx) -> Vec<(TaskId, String)> {
        if !matches!(tx, Tx::Sweep(_)) {
            return Vec::new();
        }
        let held = |task: &crate::memory::Task| Some((task.id, task.lease.as_ref()?.0.clone()));
        self.store.mem.tasks.iter().filter_map(held).collect()
    }

    /// A task that fails with a process was alone there.
    pub(super) fn check_deaths(
        &self,
        owners: &[(TaskId, String)],
        result: &Result<Done, TxError>,
    ) -> Result<(), Broken> {
        let Ok(Done::Sweep(swept)) = result else { return Ok(()) };
        for (task, held_by) in owners.iter().filter(|(task, _)| swept.failed.contains(task)) {
            // A task that is not found has lost its lease before: nothing died with it.
            let runs = self.deaths.get(&(held_by.clone(), *task)).copied().unwrap_or(0);
            if runs > 1 {
                return Err(format!("deaths: task {task} failed with its process {held_by}, which ran {runs} tasks"));
            }
        }
        Ok(())
    }
}

fn owner(index: usize, process: &Process) -> String {
    format!("{index}.{}", process.life)
}
