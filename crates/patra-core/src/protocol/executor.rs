//! The executor: claims tasks and renews their leases. It knows which tasks this process holds and until when; the
//! work itself belongs to the runs.

use std::collections::BTreeMap;
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
            wants.push(Want::Start(Box::new(lease)));
        }
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
                        wants.push(Want::Stop(*lease));
                    }
                }
            }
            // The store is away. Retry soon; `poll` drops leases that expire meanwhile.
            Err(_) => self.next_renew = now + self.options.lease / 10,
        }
    }

    /// A run has ended and returned its task.
    pub fn on_ended(&mut self, now: Ts, lease: LeaseRef) {
        if self.held.get(&lease.task).is_some_and(|held| held.fence == lease.fence) {
            self.held.remove(&lease.task);
            self.nudge(now);
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
        !self.draining && !self.claiming && self.free() > 0 && now >= self.next_claim
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
        let claim = if self.draining || self.claiming || self.free() == 0 { Ts::MAX } else { self.next_claim };
        let renew = if self.renewing || self.held.is_empty() { Ts::MAX } else { self.next_renew };
        let expiry = self.held.values().map(|held| held.until).min().unwrap_or(Ts::MAX);
        claim.min(renew).min(expiry)
    }

    /// A lease that expired on our own clock counts as lost, without asking the store.
    fn drop_expired(&mut self, now: Ts, wants: &mut Vec<Want>) {
        self.held.retain(|task, held| {
            let alive = now < held.until;
            if !alive {
                wants.push(Want::Stop(LeaseRef { task: *task, fence: held.fence }));
            }
            alive
        });
    }
}

#[cfg(test)]
#[path = "executor/tests/flow.rs"]
mod tests;
