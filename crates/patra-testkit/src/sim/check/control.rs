//! Pauses and cancellations: paused work is neither claimed nor planned, its runs are stopped, and cancelled work ends.

use patra_core::state::PauseKind;
use patra_core::tx::{
    CancelSubject, ClaimedTasks, Done, LeaseRef, PauseSubject, Renewed, RunEnd, Tx, TxError, WorkCancelled,
};
use patra_core::{Code, Level};

use super::{Broken, Checker};
use crate::memory::{MemStore, Origin, PauseRow, Task};

impl Checker {
    pub(super) fn check_control(
        &mut self,
        mem: &MemStore,
        tx: &Tx,
        result: &Result<Done, TxError>,
    ) -> Result<(), Broken> {
        if let (Tx::CancelWork(op), Ok(Done::CancelWork(done))) = (tx, result) {
            check_cancel(mem, &op.target, done)?;
        }
        if let (Tx::EndRun(op), Ok(_)) = (tx, result) {
            self.check_halt(mem, &op.end, op.lease)?;
        }
        if mem.holds.is_empty() {
            return Ok(());
        }
        match (tx, result) {
            (Tx::ClaimTasks(_), Ok(Done::ClaimTasks(claimed))) => check_claim(mem, claimed)?,
            (Tx::Renew(_), Ok(Done::Renew(renewed))) => check_renewal(mem, renewed)?,
            (Tx::ClaimJob(_), Ok(Done::ClaimJob(Some(taken)))) => {
                let origin = &mem.instances[taken.job.0 as usize - 1].origin;
                if let Some(hold) = lasting(mem).find(|hold| is_plain(&hold.subject) && fits(&hold.subject, origin)) {
                    return Err(format!("pause: trigger {} was claimed in spite of {}", taken.public_id, hold.subject));
                }
            }
            _ => {}
        }
        let ended = |id: &&patra_core::PauseId| mem.holds.get(id).is_none_or(|hold| hold.released.is_some());
        if let (Some(hold), false) = (self.stops.iter().find(ended), matches!(tx, Tx::ResumeWork(_))) {
            return Err(format!("pause: {} ended pause {hold}", tx.name()));
        }
        self.stops.clear();
        self.stops.extend(stops(mem).map(|hold| hold.id));
        Ok(())
    }

    /// A run that fails at L4 halts the others.
    fn check_halt(&self, mem: &MemStore, end: &RunEnd, lease: LeaseRef) -> Result<(), Broken> {
        let (RunEnd::Failed { error }, at) = (end, lease.task.0 as usize - 1) else { return Ok(()) };
        let task = &mem.tasks[at];
        let ours = matches!(error.code, Code::InternalError | Code::NotConfigured);
        if error.level != Level::L4 || ours || self.tasks[at].status == task.status {
            return Ok(());
        }
        match stops(mem).any(|hold| hold.kind == PauseKind::Break && covers(hold, task)) {
            true => Ok(()),
            false => Err(format!("halt: task {} failed at L4 and nothing is paused", task.id)),
        }
    }
}

fn check_claim(mem: &MemStore, claimed: &ClaimedTasks) -> Result<(), Broken> {
    for lease in &claimed.leases {
        if let Some(hold) = stops(mem).find(|hold| covers(hold, &mem.tasks[lease.task.0 as usize - 1])) {
            return Err(format!("pause: task {} was claimed in spite of {}", lease.task, hold.subject));
        }
    }
    Ok(())
}

fn check_renewal(mem: &MemStore, renewed: &Renewed) -> Result<(), Broken> {
    for lease in &renewed.held {
        let held = stops(mem).any(|hold| covers(hold, &mem.tasks[lease.task.0 as usize - 1]));
        if held != renewed.paused.contains(lease) {
            return Err(format!("pause: task {} is paused: {held}, its executor received the opposite", lease.task));
        }
    }
    Ok(())
}

/// Cancelled work does not continue.
fn check_cancel(mem: &MemStore, target: &CancelSubject, done: &WorkCancelled) -> Result<(), Broken> {
    let ended = |task: &Task| match target {
        CancelSubject::Job(public_id) => {
            let row = &mem.instances[task.lineage.job.0 as usize - 1];
            let family = [Some(row.id), row.parent, row.root];
            mem.instances.iter().any(|other| other.public_id == *public_id && family.contains(&Some(other.id)))
        }
        CancelSubject::Plan(plan) => task.lineage.plan == *plan,
        CancelSubject::Slice(slice) => task.lineage.slice == *slice,
        CancelSubject::Task(id) => task.id == *id,
    };
    match mem.tasks.iter().find(|task| done.found && !task.status.is_final() && ended(task)) {
        Some(task) => Err(format!("cancelled: task {} is {} after {target:?} was cancelled", task.id, task.status)),
        None => Ok(()),
    }
}

fn lasting(mem: &MemStore) -> impl Iterator<Item = &PauseRow> {
    mem.holds.values().filter(|hold| hold.released.is_none())
}

/// Advice stops planning only.
pub(in crate::sim) fn stops(mem: &MemStore) -> impl Iterator<Item = &PauseRow> {
    lasting(mem).filter(|hold| hold.kind != PauseKind::Advisory)
}

fn is_plain(subject: &PauseSubject) -> bool {
    let PauseSubject { credential, plan, slice, task, .. } = subject;
    credential.is_none() && plan.is_none() && slice.is_none() && task.is_none()
}

fn fits(subject: &PauseSubject, origin: &Origin) -> bool {
    let PauseSubject { provenance_code, endpoint_name, operation, .. } = subject;
    provenance_code.as_ref().is_none_or(|code| *code == origin.provenance_code)
        && endpoint_name.as_ref().is_none_or(|name| *name == origin.endpoint_name)
        && operation.is_none_or(|operation| operation == origin.operation)
}

fn covers(hold: &PauseRow, task: &Task) -> bool {
    let PauseSubject { credential, plan, slice, task: one, .. } = &hold.subject;
    fits(&hold.subject, &task.origin)
        && (credential.is_none() || *credential == task.credential)
        && plan.is_none_or(|plan| plan == task.lineage.plan)
        && slice.is_none_or(|slice| slice == task.lineage.slice)
        && one.is_none_or(|one| one == task.id)
}
