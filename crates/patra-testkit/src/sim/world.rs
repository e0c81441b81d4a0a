//! The world of one seed: processes, store and upstream, moved one event at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::Verify;
use patra_core::protocol::run;
use patra_core::rng::Rng;
use patra_core::state::TaskStatus;
use patra_core::tx::{Done, Tx, TxError};
use patra_core::{TaskId, Ts};

use super::Mutant;
use super::api::{ApiRecord, MockApi};
use super::check::{Broken, Checker};
use super::clock::StoreClock;
use super::crash::ServerCrashes;
use super::event::{Agenda, Event, Exchange, Machine, Pool, Sender};
use super::process::{Machines, Process, Role};
use super::profile::{Faults, Profile};
use super::scene;
use super::store::Store;
use crate::memory::{Due, MemStore};

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) profile: Profile,
    pub(super) mutant: Option<Mutant>,
    pub(super) now: Ts,
    pub(super) agenda: Agenda,
    pub(super) pool: Pool,
    pub(super) processes: Vec<Process>,
    pub(super) api: MockApi,
    pub(super) store: Store,
    pub(super) check: Checker,
    pub(super) policy: Arc<run::RunPolicy>,
    pub(super) partition_policy: Option<Arc<run::RunPolicy>>,
    pub(super) update_policy: Option<Arc<run::RunPolicy>>,
    pub(super) start: Ts,
    pub(super) outage_until: Ts,
    pub(super) clock: StoreClock,
    pub(super) crashes: ServerCrashes,
    /// Time at which the store next has work to claim.
    pub(super) due: Due,
    pub(super) calm: bool,
    /// Remaining number of crashes and stalls.
    pub(super) mischief: u32,
    pub(super) steps: u64,
    pub(super) hash: u64,
    pub(super) trace: bool,
    pub(super) broken: Option<Broken>,
    /// Draws the operations that the store refuses.
    pub(super) refusals: Option<Rng>,
    /// How many runs a process had when it died, by the owner of its leases and by task.
    pub(super) deaths: BTreeMap<(String, TaskId), usize>,
}

/// Reusable memory of an ended world.
#[derive(Debug, Default)]
pub(super) struct Spare {
    agenda: Agenda,
    pool: Pool,
    processes: Vec<Process>,
    records: Vec<ApiRecord>,
    mem: MemStore,
    check: Checker,
}

/// Longest that the calm world may take to finish.
const PATIENCE: Duration = Duration::from_secs(1_200);
const MAX_STEPS: u64 = 60_000;

impl World {
    pub(super) fn new(seed: u64, mutant: Option<Mutant>, trace: bool, spare: Spare) -> World {
        let mut rng = Rng::new(seed);
        let mut profile = Profile::draw(&mut rng);
        let mut passes = profile.draw_passes(seed);
        profile.draw_parts(seed);
        let start = Ts::from_secs(1_000_000);
        let mut api = MockApi::new(&mut rng, &profile, start, spare.records);
        if let Some(partitions) = profile.partitions {
            api.add_partitions(&mut rng, &profile, start, partitions);
            // All partitions share an inventory: with a smaller one, time would pass faster than it is planned.
            profile.inventory = profile.inventory.max(8);
        }
        api.add_absences(&mut passes, &profile, start);
        let mut processes = spare.processes;
        let most = profile.executors.max(profile.planners);
        for index in 0..if profile.joined { most } else { profile.executors + profile.planners } {
            let role = Role::of(index, &profile);
            processes.push(Process::new(index as usize, role, &profile, &mut rng, start));
        }
        if mutant == Some(Mutant::LookbackIgnored) {
            api.lookback = Duration::ZERO;
        }
        match (mutant, profile.api.verify) {
            (Some(Mutant::MovesUnchecked), _) => profile.api.verify = Verify::None,
            (Some(Mutant::TwiceReadsOnce), Verify::Twice) => profile.api.verify = Verify::None,
            _ => {}
        }
        World {
            policy: scene::policy(&profile, api.ceiling),
            partition_policy: profile.partitions.map(|_| scene::partition_policy(&profile)),
            update_policy: profile.update.map(|update| update.policy(&profile)),
            store: Store { mem: spare.mem, mutant },
            check: spare.check.renewed(profile.attempts),
            agenda: spare.agenda,
            pool: spare.pool,
            now: start,
            outage_until: Ts::MIN,
            clock: StoreClock::default(),
            crashes: ServerCrashes::default(),
            due: Due::NOTHING,
            calm: false,
            mischief: 12,
            steps: 0,
            hash: seed,
            broken: None,
            deaths: BTreeMap::new(),
            refusals: None,
            rng,
            profile,
            mutant,
            processes,
            api,
            start,
            trace,
        }
    }

    /// Takes the memory that the next world can reuse.
    pub(super) fn into_spare(mut self) -> Spare {
        self.agenda.clear();
        self.processes.clear();
        self.api.records.clear();
        Spare {
            agenda: self.agenda,
            pool: self.pool,
            processes: self.processes,
            records: self.api.records,
            mem: self.store.mem.emptied(),
            check: self.check,
        }
    }

    /// Runs the rough and the calm phase, and checks the final state.
    pub(super) fn live(&mut self) -> Result<(), Broken> {
        self.prepare()?;
        while !self.calm {
            self.step()?;
        }
        self.settle()?;
        if self.clock.stays {
            // All work has ended. Windows that lie ahead of the clock are not planned.
            return Ok(());
        }
        // Plans what is missing after the rough phase once more, without faults.
        if self.rng.chance(200) || scene::final_check(self).is_err() {
            self.complete(100, scene::final_check)?;
        }
        if self.profile.partitions.is_some() && (self.profile.passes.is_some() || self.rng.chance(500)) {
            self.complete(200, World::check_partitions)?;
        }
        if self.profile.update.is_some() && self.rng.chance(600) {
            self.complete(400, World::check_update)?;
        }
        if self.profile.backfill && self.rng.chance(600) {
            self.complete(300, scene::check_backfill)?;
        }
        Ok(())
    }

    /// Requests everything, up to the maximum number of times, until it is complete.
    fn complete(&mut self, number: u64, check: fn(&World) -> Result<(), Broken>) -> Result<(), Broken> {
        let mut checked = Ok(());
        for number in number..number + 4 {
            // Records that have just appeared are older than the windows planned from now on.
            self.now = self.now + Duration::from_secs(if self.profile.api.lookback.is_some() { 2 } else { 0 });
            self.fire(number)?;
            self.settle()?;
            checked = check(self);
            if checked.is_ok() {
                break;
            }
        }
        checked
    }

    fn prepare(&mut self) -> Result<(), Broken> {
        if self.profile.scheduled {
            self.execute(&scene::provenance(Some(Duration::from_secs(25))).into())?;
        }
        let rough = self.profile.rough.as_micros() as u64;
        for number in 0..self.profile.triggers {
            let at = if number == 0 { self.now } else { self.now + Duration::from_micros(self.rng.below(rough / 2)) };
            self.agenda.push(at, &mut self.rng, Event::Fire { number });
        }
        for _ in 0..self.profile.outages {
            let at = self.now + Duration::from_micros(self.rng.below(rough));
            let until = at + Duration::from_secs(1 + self.rng.below(20));
            self.agenda.push(at, &mut self.rng, Event::Outage { until });
        }
        self.plan_acts();
        self.plan_steps(self.hash);
        self.plan_crashes(self.hash);
        self.plan_refusals(self.hash);
        self.agenda.push(self.now + self.profile.rough, &mut self.rng, Event::Calm);
        for process in 0..self.processes.len() {
            self.rewake(process);
        }
        Ok(())
    }

    /// Runs until nothing is queued, paused or waiting.
    fn settle(&mut self) -> Result<(), Broken> {
        let deadline = self.now + PATIENCE;
        while !self.is_quiet() {
            if self.now > deadline {
                return Err("every task ends: there is still work after twenty minutes without faults".to_owned());
            }
            self.step()?;
        }
        Ok(())
    }

    fn is_quiet(&self) -> bool {
        self.store.mem.is_idle() && self.processes.iter().all(|process| process.machines.runs.is_empty())
    }

    fn step(&mut self) -> Result<(), Broken> {
        let Some((at, event)) = self.agenda.pop() else { return Err("the world stands still".to_owned()) };
        if let Event::Wake { process } = event
            && self.processes[process].next_wake != at
        {
            return Ok(());
        }
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err("every task ends: too many steps".to_owned());
        }
        self.now = self.now.max(at);
        self.note(&event);
        match event {
            Event::Arrive { exchange, unknown } => self.on_arrive(exchange, unknown)?,
            Event::Answer(exchange) => self.on_answer(exchange),
            Event::Fetched { process, life, run, result } => self.on_fetched(process, life, run, result),
            Event::Wake { process } => self.on_wake(process),
            Event::Restart { process, life } => self.restart(process, life),
            Event::Fire { number } => self.fire(number)?,
            Event::Act(act) => self.act(act)?,
            Event::Outage { until } => self.outage_until = self.outage_until.max(until),
            Event::SetClock { offset } => self.on_set_clock(offset),
            Event::ServerCrash { until } => self.crash_server(until)?,
            Event::Calm => self.calm_down()?,
        }
        match self.broken.take() {
            Some(broken) => Err(broken),
            None => Ok(()),
        }
    }

    /// Stops all faults and removes the schedule from the manifest, so that the work ends.
    fn calm_down(&mut self) -> Result<(), Broken> {
        self.calm = true;
        self.profile.faults = Faults::default();
        self.outage_until = Ts::MIN;
        if !self.clock.stays {
            self.set_clock(0);
        }
        if !self.store.mem.holds.is_empty() {
            self.release_later(self.profile.lease * 2);
        }
        if self.profile.scheduled {
            self.execute(&scene::provenance(None).into())?;
        }
        Ok(())
    }

    /// Notifies processes of new work: some of them, in the calm phase the first that can do it. The others find it at
    /// their next poll.
    pub(super) fn spread(&mut self, nudge: fn(&mut Machines, Ts) -> bool) {
        let count = self.processes.len();
        let first = self.rng.below(count as u64) as usize;
        for process in (0..count).map(|step| (first + step) % count) {
            if !self.processes[process].alive || self.is_paused(process) || !self.calm && self.rng.chance(200) {
                continue;
            }
            let local = self.processes[process].local(self.now);
            let heard = nudge(&mut self.processes[process].machines, local);
            self.rewake(process);
            if heard && self.calm {
                break;
            }
        }
    }

    /// Executes a transaction of the world itself.
    pub(super) fn execute(&mut self, tx: &Tx) -> Result<Done, Broken> {
        let now = self.store_now();
        let done = self.apply(now, now, tx);
        self.check.after(&self.store.mem, now, self.now, tx, &done, &self.api)?;
        self.look_ahead(tx);
        done.map_err(|error| format!("{} failed: {error}", tx.name()))
    }

    /// Updates the next due time; if it is earlier than before, wakes all processes earlier.
    fn look_ahead(&mut self, tx: &Tx) {
        if !tx.pages().is_empty() || matches!(tx, Tx::ReadCoverage(_) | Tx::RecordAdvance(_) | Tx::AdvanceCursor(_)) {
            return;
        }
        let due = self.store.mem.due();
        let before = std::mem::replace(&mut self.due, due);
        if due.task < before.task || due.lease < before.lease || due.trigger < before.trigger {
            for process in 0..self.processes.len() {
                self.rewake(process);
            }
        }
    }

    /// Sends a transaction, perhaps into a fault.
    pub(super) fn send(&mut self, process: usize, machine: Machine, tx: Tx) {
        let from = Sender {
            process,
            life: self.processes[process].life,
            machine,
            sent: self.processes[process].local(self.now),
        };
        let at = self.now + self.store_delay() + self.stall(process);
        let fault = if let Some(refused) = self.refuses() {
            Some(refused)
        } else if at < self.outage_until {
            Some(TxError::Unavailable(String::new()))
        } else if self.rng.chance(self.profile.faults.busy) {
            Some(TxError::Busy)
        } else if self.rng.chance(self.profile.faults.unavailable) {
            Some(TxError::Unavailable(String::new()))
        } else if self.rng.chance(self.profile.faults.unknown_lost) {
            Some(TxError::Unknown(String::new()))
        } else {
            None
        };
        let unknown = fault.is_none() && self.rng.chance(self.profile.faults.unknown_done);
        let event = match fault {
            Some(error) => Event::Answer(self.pool.exchange(from, tx, Err(error))),
            None => Event::Arrive { exchange: self.pool.exchange(from, tx, Err(TxError::Busy)), unknown },
        };
        self.agenda.push(at, &mut self.rng, event);
    }

    fn store_delay(&mut self) -> Duration {
        let slow = self.rng.chance(self.profile.faults.slow_store);
        if slow { self.below(self.profile.lease * 2) } else { Duration::from_micros(200 + self.rng.below(20_000)) }
    }

    /// Stalls the process, and delays what it has just sent as long.
    fn stall(&mut self, process: usize) -> Duration {
        if !self.strikes(self.profile.faults.stall) {
            return Duration::ZERO;
        }
        let stall = self.below(self.profile.lease * 5 / 2);
        self.processes[process].paused_until = self.now + stall;
        stall
    }

    /// A random time shorter than `span`.
    pub(super) fn below(&mut self, span: Duration) -> Duration {
        Duration::from_micros(self.rng.below(span.as_micros() as u64))
    }

    fn on_arrive(&mut self, mut exchange: Box<Exchange>, unknown: bool) -> Result<(), Broken> {
        let local = self.processes[exchange.from.process].local(self.now);
        let owners = self.owners(&exchange.tx);
        let now = self.store_now();
        if let Some((step, longest)) = self.noticed_by(&exchange.tx) {
            self.check.follow(step, longest);
        }
        exchange.result = self.apply(now, local, &exchange.tx);
        self.after_sweep(&exchange.tx, &exchange.result);
        self.check_deaths(&owners, &exchange.result)?;
        if self.trace {
            self.say(&format!("  -> {:?}", exchange.result));
        }
        self.mix(u64::from(exchange.result.is_ok()));
        self.check.after(&self.store.mem, now, self.now, &exchange.tx, &exchange.result, &self.api)?;
        self.look_ahead(&exchange.tx);
        if matches!(&exchange.tx, Tx::EndRun(op) if op.pause.is_some()) && exchange.result.is_ok() {
            self.release_later(self.profile.lease * 2);
        }
        if unknown {
            exchange.result = Err(TxError::Unknown(String::new()));
        }
        let at = self.now + self.store_delay();
        self.agenda.push(at, &mut self.rng, Event::Answer(exchange));
        Ok(())
    }

    /// Whether the process receives an event. A process that is down, or crashes on it, loses the event; a process that
    /// stalls receives it later.
    pub(super) fn hears(&mut self, process: usize, life: u32) -> bool {
        let this = &self.processes[process];
        if !this.alive || this.life != life {
            return false;
        }
        if self.strikes(self.profile.faults.crash) {
            self.crash(process);
            return false;
        }
        if self.strikes(self.profile.faults.pause) {
            self.processes[process].paused_until = self.now + self.below(self.profile.lease * 5 / 2);
        }
        if self.strikes(self.profile.faults.drain) {
            self.drain(process);
        }
        if self.rng.chance(self.profile.faults.jump) {
            let jump = self.rng.below(80_000_001) as i64 - 40_000_000;
            self.processes[process].offset = jump;
        }
        true
    }

    /// Whether one of the few crashes or stalls happens now.
    fn strikes(&mut self, permille: u64) -> bool {
        let strikes = self.mischief > 0 && self.rng.chance(permille);
        self.mischief -= u32::from(strikes);
        strikes
    }

    pub(super) fn is_paused(&self, process: usize) -> bool {
        self.processes[process].paused_until > self.now
    }

    /// The time at which a stalled process receives pending events.
    pub(super) fn later(&mut self, process: usize) -> Ts {
        self.processes[process].paused_until + Duration::from_micros(self.rng.below(1_000))
    }

    /// Schedules the process's next timer, if it is earlier than the scheduled one.
    pub(super) fn rewake(&mut self, process: usize) {
        let this = &self.processes[process];
        if !this.alive {
            return;
        }
        let at = this.wake_at(&self.due, self.clock).max(self.now).max(this.paused_until);
        if at < this.next_wake {
            self.processes[process].next_wake = at;
            self.agenda.push(at, &mut self.rng, Event::Wake { process });
        }
    }

    pub(super) fn fail(&mut self, broken: Broken) {
        self.broken.get_or_insert(broken);
    }

    fn note(&mut self, event: &Event) {
        let kind = match event {
            Event::Arrive { exchange, .. } => 1 + (exchange.tx.name().len() as u64) * 16,
            Event::Answer(exchange) => 2 + u64::from(exchange.result.is_ok()) * 16,
            Event::Fetched { result, .. } => 3 + u64::from(result.is_ok()) * 16,
            Event::Wake { process } => 4 + *process as u64 * 16,
            Event::Restart { .. } => 5,
            Event::Fire { .. } => 6,
            Event::Outage { .. } => 7,
            Event::Calm => 8,
            Event::Act(_) => 9,
            Event::SetClock { .. } => 10,
            Event::ServerCrash { .. } => 11,
        };
        self.mix(kind);
        self.mix(self.now.micros() as u64);
        if self.trace {
            let line = format!("{event:?}");
            self.say(&line);
        }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23);
    }

    #[expect(clippy::print_stdout, reason = "the requested trace")]
    fn say(&self, line: &str) {
        let since = self.now.micros() - self.start.micros();
        println!("{:>5} {:>4}.{:06} {line}", self.steps, since / 1_000_000, since % 1_000_000);
    }

    /// Tasks in this state.
    pub(super) fn tasks_in(&self, status: TaskStatus) -> usize {
        self.store.mem.tasks.iter().filter(|task| task.status == status).count()
    }
}
