//! The executor: claims tasks and renews their leases. It knows which tasks this process holds and until when; the
//! work itself belongs to the runs.
//!
//! A task that was running when its process died is a suspect until it commits a batch. Suspects start one after the
//! other, so that the next death names one of them. On its last attempt a suspect runs alone: the process first gives
//! back everything else. So a task fails for deaths only if one happened while no other task was running.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::id::{Fence, TaskId};
use crate::rng::Rng;
use crate::time::Ts;
use crate::tx::{ClaimPolls, ClaimTasks, ClaimedTasks, Lease, LeaseRef, PartitionKey, Renew, Renewed, TxError};

#[derive(Clone, Debug)]
pub struct Options {
    pub owner: String,
    /// Maximum tasks held at once (`C_total`).
    pub capacity: u32,
    pub lease: Duration,
    /// How long to wait after a claim that found nothing.
    pub idle_poll: Duration,
    /// Claim polls, at most this many per host over all processes; `None` claims everything except polls.
    pub polls_per_host: Option<u32>,
    /// Claim only tasks of this partition.
    pub only: Option<PartitionKey>,
    /// A suspect at this attempt runs alone.
    pub max_attempts: u32,
}

impl Options {
    pub fn new(owner: impl Into<String>) -> Options {
        Options {
            owner: owner.into(),
            capacity: 4,
            lease: Duration::from_secs(60),
            idle_poll: Duration::from_secs(1),
            polls_per_host: None,
            only: None,
            max_attempts: 5,
        }
    }
}

/// What the executor wants done.
#[derive(Clone, Debug)]
pub enum Want {
    Claim(ClaimTasks),
    ClaimPolls(ClaimPolls),
    Renew(Renew),
    /// Start a run for this lease.
    Start(Box<Lease>),
    /// The lease is gone: the run of this task must stop.
    Stop(LeaseRef),
    /// The work is paused: the run must end at the next batch boundary and return its task.
    GiveBack(LeaseRef),
}

/// Every n-th claim reverses the priorities: the least urgent work still gets its share (G-21).
const LAST_FIRST_EVERY: u32 = 20;

#[derive(Clone, Debug)]
pub struct Executor {
    options: Options,
    rng: Rng,
    held: BTreeMap<TaskId, HeldLease>,
    /// Runs that have started and not ended, with or without their lease.
    running: BTreeSet<LeaseRef>,
    /// Leases that wait for a suspect to end or to make progress.
    waiting: VecDeque<Box<Lease>>,
    /// The suspect that runs and has committed nothing yet.
    suspect: Option<RunningSuspect>,
    /// All other runs were asked to give their tasks back, so that a suspect can run alone.
    clearing: bool,
    claiming: bool,
    /// A nudge arrived while a claim was in flight, which may have missed the new work.
    nudged: bool,
    renewing: bool,
    draining: bool,
    /// Claims so far that leased something.
    turns: u32,
    caps: Vec<(PartitionKey, u32)>,
    /// Percent of the capacity.
    share: u32,
    next_claim: Ts,
    next_renew: Ts,
}

#[derive(Clone, Copy, Debug)]
struct RunningSuspect {
    lease: LeaseRef,
    /// No other task may start.
    alone: bool,
}

#[derive(Clone, Copy, Debug)]
struct HeldLease {
    fence: Fence,
    /// When the lease ends at the latest, on this process's clock: counted from before the request that made or
    /// extended it was sent, so it errs on the early side whatever the two clocks show.
    until: Ts,
}

impl Executor {
    pub fn new(options: Options, rng: Rng, now: Ts) -> Executor {
        Executor {
            options,
            rng,
            held: BTreeMap::new(),
            running: BTreeSet::new(),
            waiting: VecDeque::new(),
            suspect: None,
            clearing: false,
            claiming: false,
            nudged: false,
            renewing: false,
            draining: false,
            turns: 0,
            caps: Vec::new(),
            share: 100,
            next_claim: now,
            next_renew: Ts::MAX,
        }
    }

    /// Emits everything that is due now.
    pub fn poll(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.drop_expired(now, wants);
        self.start_waiting(wants);
        if self.is_to_claim(now) {
            let free = self.free();
            (self.claiming, self.nudged) = (true, false);
            let (owner, lease) = (self.options.owner.clone(), self.options.lease);
            let reverse_priority = self.turns % LAST_FIRST_EVERY == LAST_FIRST_EVERY - 1;
            wants.push(match self.options.polls_per_host {
                None => {
                    let (caps, only) = (self.caps.clone(), self.options.only.clone());
                    Want::Claim(ClaimTasks { owner, limit: free, lease, caps, reverse_priority, only })
                }
                Some(per_host) => Want::ClaimPolls(ClaimPolls { owner, limit: free, lease, per_host }),
            });
        }
        if !self.renewing && !self.held.is_empty() && now >= self.next_renew {
            self.renewing = true;
            let leases = self.held.iter().map(|(task, held)| LeaseRef { task: *task, fence: held.fence }).collect();
            wants.push(Want::Renew(Renew { owner: self.options.owner.clone(), leases, lease: self.options.lease }));
        }
    }

    /// Handles the result of a claim that was sent at `sent`.
    pub fn on_claimed(&mut self, sent: Ts, now: Ts, result: Result<ClaimedTasks, TxError>, wants: &mut Vec<Want>) {
        self.claiming = false;
        let leases = match result {
            Ok(claimed) => claimed.leases,
            Err(_) => {
                self.next_claim = now + self.rng.around(self.options.idle_poll);
                return;
            }
        };
        // The claim found tasks: there may be more, claim again as soon as there is room.
        let found = !leases.is_empty() || self.nudged;
        self.next_claim = if found { now } else { now + self.rng.around(self.options.idle_poll) };
        self.turns = self.turns.wrapping_add(u32::from(!leases.is_empty()));
        let until = sent + self.options.lease;
        for lease in leases {
            if self.held.is_empty() {
                self.next_renew = now + self.options.lease / 3;
            }
            self.held.insert(lease.task, HeldLease { fence: lease.fence, until });
            self.waiting.push_back(Box::new(lease));
        }
        self.start_waiting(wants);
    }

    /// Handles the result of a renewal of `leases` that was sent at `sent`.
    pub fn on_renewed(
        &mut self,
        sent: Ts,
        now: Ts,
        leases: &[LeaseRef],
        result: Result<Renewed, TxError>,
        wants: &mut Vec<Want>,
    ) {
        self.renewing = false;
        match result {
            Ok(renewed) => {
                self.next_renew = now + self.options.lease / 3;
                for lease in leases {
                    let Some(held) = self.held.get_mut(&lease.task).filter(|held| held.fence == lease.fence) else {
                        continue;
                    };
                    if renewed.held.contains(lease) {
                        held.until = sent + self.options.lease;
                        if renewed.paused.contains(lease) {
                            wants.push(Want::GiveBack(*lease));
                        }
                    } else {
                        self.held.remove(&lease.task);
                        self.stop(*lease, wants);
                    }
                }
                self.start_waiting(wants);
            }
            // The store is away. Retry soon; `poll` drops leases that expire meanwhile.
            Err(_) => self.next_renew = now + self.options.lease / 10,
        }
    }

    /// A run has ended and returned its task.
    pub fn on_ended(&mut self, now: Ts, lease: LeaseRef, wants: &mut Vec<Want>) {
        self.running.remove(&lease);
        self.acquit(now, lease);
        if self.held.get(&lease.task).is_some_and(|held| held.fence == lease.fence) {
            self.held.remove(&lease.task);
            self.nudge(now);
        }
        self.start_waiting(wants);
    }

    /// A run has committed a batch that counts as progress.
    pub fn on_progress(&mut self, now: Ts, lease: LeaseRef, wants: &mut Vec<Want>) {
        self.acquit(now, lease);
        self.start_waiting(wants);
    }

    /// The running suspect is none any more, if it is this one.
    fn acquit(&mut self, now: Ts, lease: LeaseRef) {
        if self.suspect.is_some_and(|suspect| suspect.lease == lease) {
            self.suspect = None;
            self.nudge(now);
        }
    }

    /// Starts the leases that may run alongside those that are running.
    fn start_waiting(&mut self, wants: &mut Vec<Want>) {
        while let Some(lease) = self.next_to_start() {
            let suspect = RunningSuspect { lease: LeaseRef::from(&*lease), alone: self.must_be_alone(&lease) };
            if lease.suspect {
                self.suspect = Some(suspect);
            }
            self.running.insert(suspect.lease);
            wants.push(Want::Start(lease));
        }
        let is_blocked = self.suspect.is_none() && !self.waiting.is_empty();
        if is_blocked && !self.clearing {
            self.clearing = true;
            wants.extend(self.running.iter().map(|lease| Want::GiveBack(*lease)));
        }
    }

    fn next_to_start(&mut self) -> Option<Box<Lease>> {
        let alone = self.waiting.iter().position(|lease| self.must_be_alone(lease));
        self.clearing &= alone.is_some();
        if self.clearing {
            self.clearing = !self.running.is_empty();
            return alone.filter(|_| !self.clearing).and_then(|at| self.waiting.remove(at));
        }
        let at = match self.suspect {
            Some(RunningSuspect { alone: true, .. }) => None,
            Some(_) => self.waiting.iter().position(|lease| !lease.suspect),
            // One that must be alone comes last: the others need not wait for it.
            None => {
                let innocent = self.waiting.iter().position(|lease| !lease.suspect);
                let suspect = || self.waiting.iter().position(|lease| !self.must_be_alone(lease));
                innocent.or_else(suspect).or(alone.filter(|_| self.running.is_empty()))
            }
        };
        self.waiting.remove(at?)
    }

    fn must_be_alone(&self, lease: &Lease) -> bool {
        lease.suspect && lease.attempts >= self.options.max_attempts
    }

    /// The lease is gone: its run must stop, if it has started.
    fn stop(&mut self, lease: LeaseRef, wants: &mut Vec<Want>) {
        self.waiting.retain(|waiting| LeaseRef::from(&**waiting) != lease);
        if self.running.contains(&lease) {
            wants.push(Want::Stop(lease));
        }
    }

    /// New work may exist: do not wait for the next poll.
    pub fn nudge(&mut self, now: Ts) {
        self.nudged = self.claiming;
        self.next_claim = self.next_claim.min(now);
    }

    /// Caps partitions that are in trouble until further notice; all others have no cap (ING-12.2-02).
    pub fn set_caps(&mut self, caps: Vec<(PartitionKey, u32)>) {
        self.caps = caps;
    }

    /// The store is under pressure: this process holds no more than this percentage of its capacity (ING-5.2-08).
    pub fn set_share(&mut self, percent: u32) {
        self.share = percent;
    }

    /// At least one: a process without tasks would not notice that the pressure is gone.
    fn capacity(&self) -> u32 {
        let share = u64::from(self.options.capacity) * u64::from(self.share.min(100)) / 100;
        (share as u32).max(self.options.capacity.min(1))
    }

    /// Whether the next [`Executor::poll`] claims: the caller updates the caps before.
    pub fn is_to_claim(&self, now: Ts) -> bool {
        self.may_claim() && now >= self.next_claim
    }

    fn may_claim(&self) -> bool {
        let is_alone = self.clearing || self.suspect.is_some_and(|suspect| suspect.alone);
        !self.draining && !self.claiming && !is_alone && self.free() > 0
    }

    fn free(&self) -> u32 {
        self.capacity().saturating_sub(self.held.len() as u32)
    }

    /// Stops claiming.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// When `poll` has something to do next, as far as is known now.
    pub fn wake_at(&self) -> Ts {
        let claim = if self.may_claim() { self.next_claim } else { Ts::MAX };
        let renew = if self.renewing || self.held.is_empty() { Ts::MAX } else { self.next_renew };
        let expiry = self.held.values().map(|held| held.until).min().unwrap_or(Ts::MAX);
        claim.min(renew).min(expiry)
    }

    /// A lease that expired on our own clock counts as lost, without asking the store.
    fn drop_expired(&mut self, now: Ts, wants: &mut Vec<Want>) {
        let mut expired = Vec::new();
        self.held.retain(|task, held| {
            let alive = now < held.until;
            if !alive {
                expired.push(LeaseRef { task: *task, fence: held.fence });
            }
            alive
        });
        for lease in expired {
            self.stop(lease, wants);
        }
    }
}

#[cfg(test)]
#[path = "executor/tests/flow.rs"]
mod tests;
