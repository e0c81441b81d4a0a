//! Steps of the clock, noticed by a sweep as on a server: some time after they happened.

use std::time::Duration;

use patra_core::state::{PauseKind, TaskStatus};
use patra_core::{ClockStep, JobId, TaskId, Ts};

use super::{MemStore, place};

impl MemStore {
    /// Moves the times that wait, if the clock was set back since the last sweep.
    pub(super) fn follow_clock(&mut self, now: Ts, longest: Duration) {
        let step = self.seen_at.and_then(|seen| ClockStep::back(seen, now));
        if let Some(step) = step {
            self.move_times(step, longest);
        }
        if step.is_some() || self.seen_at.is_none_or(|seen| seen < now) {
            self.seen_at = Some(now);
        }
    }

    fn move_times(&mut self, step: ClockStep, longest: Duration) {
        self.move_work(step, longest);
        for row in &mut self.schedules {
            row.next_due_at = step.scheduled(row.next_due_at, &row.when);
        }
        for event in self.outbox.values_mut().filter(|event| event.ended_at.is_none()) {
            event.not_before = step.wait_until(event.not_before);
            move_lease(&mut event.lease, step, longest);
        }
        for state in &mut self.credential_states {
            move_lease(&mut state.lease, step, longest);
            state.usage.cooling_until = state.usage.cooling_until.map(|at| step.wait_until(at));
        }
        for lease in &mut self.cookie_leases {
            lease.expires_at = step.lease_until(lease.expires_at, longest);
        }
        for gate in &mut self.gates {
            gate.state.step_back(step);
        }
        for source in &mut self.sources {
            source.state.next_due_at = source.state.next_due_at.map(|at| step.wait_until(at));
        }
        for beat in self.beats.values_mut().filter(|beat| !beat.leaving) {
            (beat.last_tick_at, beat.next_tick_at) =
                (step.since(beat.last_tick_at), step.wait_until(beat.next_tick_at));
        }
        let running = self.executions.iter_mut().filter(|row| row.what.completed_at.is_none());
        running.for_each(|row| row.what.heartbeat_at = step.since(row.what.heartbeat_at));
        for note in &mut self.waiting_notes {
            note.what.locked_at = note.what.locked_at.map(|at| step.since(at));
        }
        let advice = |row: &&mut super::PauseRow| row.released.is_none() && row.kind == PauseKind::Advisory;
        self.holds.values_mut().filter(advice).for_each(|row| row.created_at = step.since(row.created_at));
        for alert in self.alerts.values_mut() {
            let state = &mut alert.state;
            for at in [&mut state.since, &mut state.notified_at] {
                *at = at.map(|at| step.since(at));
            }
        }
    }

    fn move_work(&mut self, step: ClockStep, longest: Duration) {
        let waiting: Vec<JobId> = self.index.waiting.iter().copied().collect();
        for id in waiting {
            let row = &mut self.instances[place(id.0)];
            row.not_before = step.wait_until(row.not_before);
            move_lease(&mut row.lease, step, longest);
        }
        let leased: Vec<(Ts, TaskId)> = self.index.leased.iter().copied().collect();
        for (until, id) in leased {
            let row = &mut self.tasks[place(id.0)];
            move_lease(&mut row.lease, step, longest);
            if let Some((_, moved)) = &row.lease {
                self.index.leased.remove(&(until, id));
                self.index.leased.insert((*moved, id));
            }
        }
        // A task that is held keeps this time when its lease is taken back.
        for at in 0..self.tasks.len() {
            self.reschedule(at, step.wait_until(self.tasks[at].scheduled_at));
        }
    }

    /// Changes the time of the task at this index.
    pub(crate) fn reschedule(&mut self, at: usize, time: Ts) {
        let task = &mut self.tasks[at];
        let queued = task.status == TaskStatus::Queued;
        if queued {
            self.index.dequeue(task);
        }
        task.scheduled_at = time;
        if queued {
            self.index.enqueue(task);
        }
    }
}

fn move_lease(lease: &mut Option<(String, Ts)>, step: ClockStep, longest: Duration) {
    if let Some((_, until)) = lease {
        *until = step.lease_until(*until, longest);
    }
}
