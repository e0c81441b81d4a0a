//! Connects the machines to the world: performs or sends what a machine wants, and delivers the results. The engine's
//! shell does the same with sockets in place of a heap.

use std::sync::Arc;
use std::time::Duration;

use patra_core::paging::{PageFacts, Position};
use patra_core::protocol::run::{FetchedPage, PageFailure, PageFetch, RunInput, RunMachine, Want};
use patra_core::protocol::{executor, planner};
use patra_core::tx::{BatchCommitted, Captured, CommitBatch, Done, RunStarted, Tx, TxError};
use patra_core::{Code, Fault, Level, Ts, Window};

use super::Mutant;
use super::api::{PoisonKind, blank_page, no_evidence};
use super::event::{Event, Exchange, Machine};
use super::process::Machines;
use super::world::World;
use super::{parts, passes, scene};

/// Reason with which a run is asked to give its task back.
const STOP: &str = "the process is stopping";

type PageResult = Result<Box<FetchedPage>, Box<PageFailure>>;

impl World {
    pub(super) fn on_answer(&mut self, mut exchange: Box<Exchange>) {
        let process = exchange.from.process;
        if self.is_paused(process) {
            let at = self.later(process);
            self.agenda.push(at, &mut self.rng, Event::Answer(exchange));
            return;
        }
        if self.hears(process, exchange.from.life) {
            self.distort(&mut exchange);
            let result = std::mem::replace(&mut exchange.result, Err(TxError::Busy));
            self.deliver(process, &exchange, result);
            self.rewake(process);
        }
        self.pool.exchanges.push(exchange);
    }

    fn deliver(&mut self, process: usize, exchange: &Exchange, result: Result<Done, TxError>) {
        let Exchange { from, tx, .. } = exchange;
        let now = self.processes[process].local(self.now);
        let machines = &mut self.processes[process].machines;
        match (from.machine, tx) {
            (Machine::Run(number), tx) => {
                if result.is_ok() && tx.pages().iter().any(|page| page.progress) {
                    self.progress(process, number);
                }
                self.feed_run(process, number, RunInput::Tx(result));
            }
            (Machine::Planner, _) => {
                let mut wants = self.pool.planner.pop().unwrap_or_default();
                if let Some(planner) = &mut machines.planner {
                    planner.on(now, planner::PlannerInput::Tx(result), &mut wants);
                }
                self.do_planner(process, wants);
            }
            (Machine::Sweeper, _) => {
                let swept = result.and_then(|done| match done {
                    Done::Sweep(swept) => Ok(swept),
                    other => Err(TxError::Refused(format!("{other:?}"))),
                });
                machines.sweeper.on(now, &swept);
                if swept.is_ok_and(|swept| !swept.requeued.is_empty()) {
                    self.spread(Machines::nudge_executor);
                }
            }
            (Machine::Executor, Tx::Renew(asked)) => {
                let renewed = result.and_then(|done| match done {
                    Done::Renew(renewed) => Ok(renewed),
                    other => Err(TxError::Refused(format!("{other:?}"))),
                });
                let mut wants = self.pool.executor.pop().unwrap_or_default();
                if let Some(executor) = &mut machines.executor {
                    let held = renewed.as_ref().map_or(Vec::new(), |renewed| renewed.paused.clone());
                    executor.on_renewed(from.sent, now, &asked.leases, renewed, &mut wants);
                    self.processes[process].machines.give_back(&held);
                }
                self.do_executor(process, wants);
            }
            (Machine::Executor, _) => {
                let claimed = result.and_then(|done| match done {
                    Done::ClaimTasks(claimed) => Ok(claimed),
                    other => Err(TxError::Refused(format!("{other:?}"))),
                });
                let mut wants = self.pool.executor.pop().unwrap_or_default();
                if let Some(executor) = &mut machines.executor {
                    executor.on_claimed(from.sent, now, claimed, &mut wants);
                }
                self.do_executor(process, wants);
            }
        }
    }

    /// A run has committed a batch that counts as progress.
    fn progress(&mut self, process: usize, number: u32) {
        let now = self.processes[process].local(self.now);
        let machines = &mut self.processes[process].machines;
        let Some(lease) = machines.find(number).map(|active| active.lease) else { return };
        let mut wants = self.pool.executor.pop().unwrap_or_default();
        if let Some(executor) = &mut machines.executor {
            executor.on_progress(now, lease, &mut wants);
        }
        self.do_executor(process, wants);
    }

    pub(super) fn on_fetched(&mut self, process: usize, life: u32, run: u32, result: PageResult) {
        if self.is_paused(process) {
            let at = self.later(process);
            self.agenda.push(at, &mut self.rng, Event::Fetched { process, life, run, result });
            return;
        }
        if !self.hears(process, life) {
            return;
        }
        if let Err(refusal) = &result
            && let (true, Some(silence)) = (refusal.throttled, refusal.retry_after)
        {
            let until = self.processes[process].local(self.now) + silence;
            let this = &mut self.processes[process];
            if this.machines.runs.iter().any(|active| active.number == run) {
                this.silent_until = this.silent_until.max(until);
            }
        }
        self.feed_run(process, run, RunInput::Fetched(result));
        self.rewake(process);
    }

    pub(super) fn on_wake(&mut self, process: usize) {
        self.processes[process].next_wake = Ts::MAX;
        if !self.processes[process].alive {
            return;
        }
        if self.is_paused(process) {
            self.rewake(process);
            return;
        }
        let now = self.processes[process].local(self.now);
        // A poll before that finds nothing.
        let (due, there) = (self.due, self.store_now());
        let machines = &mut self.processes[process].machines;
        let mut wants = self.pool.executor.pop().unwrap_or_default();
        if let Some(executor) = &mut machines.executor
            && (!machines.runs.is_empty() || due.task <= there)
        {
            executor.poll(now, &mut wants);
        }
        if (due.lease <= there || self.clock.unnoticed)
            && let Some(sweep) = machines.sweeper.poll(now)
        {
            self.send(process, Machine::Sweeper, sweep.into());
        }
        self.do_executor(process, wants);
        let mut wants = self.pool.planner.pop().unwrap_or_default();
        if let Some(planner) = &mut self.processes[process].machines.planner
            && due.trigger <= there
        {
            planner.poll(now, &mut wants);
        }
        self.do_planner(process, wants);
        let mut at = 0;
        while let Some(active) = self.processes[process].machines.runs.get_mut(at) {
            let mut wants = self.pool.run.pop().unwrap_or_default();
            let number = active.number;
            active.run.poll(now, &mut wants);
            self.do_run(process, number, wants);
            at += 1;
        }
        self.rewake(process);
    }

    /// Drains a process: no more claims, and runs give their tasks back. A crash follows, whether they are done or not.
    pub(super) fn drain(&mut self, process: usize) {
        let Some(executor) = &mut self.processes[process].machines.executor else { return };
        executor.drain();
        self.processes[process].draining = true;
        let numbers: Vec<u32> = self.processes[process].machines.runs.iter().map(|active| active.number).collect();
        for number in numbers {
            self.feed_run(process, number, RunInput::Stop { reason: STOP });
        }
        let life = self.processes[process].life;
        let at = self.now + Duration::from_micros(1 + self.rng.below(10_000_000));
        self.agenda.push(at, &mut self.rng, Event::Restart { process, life });
    }

    fn do_executor(&mut self, process: usize, mut wants: Vec<executor::Want>) {
        for want in wants.drain(..) {
            match want {
                executor::Want::Claim(claim) => self.send(process, Machine::Executor, claim.into()),
                executor::Want::ClaimPolls(claim) => self.send(process, Machine::Executor, claim.into()),
                executor::Want::Renew(renew) => self.send(process, Machine::Executor, renew.into()),
                executor::Want::Start(lease) => {
                    let options = scene::run_options(&self.profile, self.mutant);
                    let mut run = RunMachine::new(*lease, options, self.rng.fork());
                    let mut wants = self.pool.run.pop().unwrap_or_default();
                    run.start(&mut wants);
                    let memory = self.pool.actives.pop();
                    let number = self.processes[process].machines.add(run, memory);
                    self.do_run(process, number, wants);
                    if self.processes[process].draining {
                        self.feed_run(process, number, RunInput::Stop { reason: STOP });
                    }
                }
                executor::Want::Stop(lost) => {
                    if let Some(number) = self.processes[process].machines.number_of(lost) {
                        self.feed_run(process, number, RunInput::Lost);
                    }
                }
                executor::Want::GiveBack(held) => {
                    if self.mutant != Some(Mutant::GiveBackIgnored)
                        && let Some(number) = self.processes[process].machines.number_of(held)
                    {
                        self.feed_run(process, number, RunInput::Stop { reason: STOP });
                    }
                }
            }
        }
        self.pool.executor.push(wants);
    }

    fn do_planner(&mut self, process: usize, mut wants: Vec<planner::Want>) {
        while let Some(want) = wants.pop() {
            match want {
                planner::Want::Tx(tx) => self.send(process, Machine::Planner, tx),
                planner::Want::Compile(trigger) => {
                    let compiled = self.compile(&trigger);
                    let now = self.processes[process].local(self.now);
                    if let Some(planner) = &mut self.processes[process].machines.planner {
                        planner.on(now, planner::PlannerInput::Compiled(compiled), &mut wants);
                    }
                }
                planner::Want::Queued => self.spread(Machines::nudge_executor),
            }
        }
        self.pool.planner.push(wants);
    }

    fn feed_run(&mut self, process: usize, number: u32, got: RunInput) {
        let now = self.processes[process].local(self.now);
        let mut wants = self.pool.run.pop().unwrap_or_default();
        if let Some(active) = self.processes[process].machines.find(number) {
            active.run.on(now, got, &mut wants);
        }
        self.do_run(process, number, wants);
    }

    fn do_run(&mut self, process: usize, number: u32, mut wants: Vec<Want>) {
        for want in wants.drain(..) {
            match want {
                Want::Tx(tx) => self.send(process, Machine::Run(number), parts::sent(self.mutant, tx)),
                Want::Prepare { .. } => {
                    let (policy, partition) = match self.processes[process].machines.find(number) {
                        Some(active) if active.update => (self.update_policy.as_ref(), None),
                        Some(active) if active.partition.is_some() => {
                            (self.partition_policy.as_ref(), active.partition)
                        }
                        _ => (None, None),
                    };
                    let policy = policy.unwrap_or(&self.policy);
                    let policy = match partition {
                        Some(partition) => passes::policy(&self.profile, policy, partition),
                        None => Arc::clone(policy),
                    };
                    self.feed_run(process, number, RunInput::Prepared(Ok(policy)));
                }
                Want::Permit { .. } => {
                    let (decision, advice) = self.permit(process);
                    self.feed_run(process, number, RunInput::Permit(decision, advice));
                }
                Want::CoolDown(silence) => {
                    let now = self.processes[process].local(self.now);
                    if self.mutant != Some(Mutant::ThrottleIgnored) {
                        self.processes[process].machines.gate.cool_down(now + silence);
                    }
                }
                Want::Fetch(fetch) => self.fetch(process, number, &fetch),
                Want::Screen(stream, candidates) => {
                    let answer = if self.now < self.outage_until || self.rng.chance(self.profile.faults.busy) {
                        Err(TxError::Busy)
                    } else {
                        Ok(self.store.screen(self.store_now(), &stream, &candidates))
                    };
                    self.feed_run(process, number, RunInput::Screened(answer));
                }
                Want::Wanted { stream, segment, after, limit } => {
                    let answer = if self.now < self.outage_until || self.rng.chance(self.profile.faults.busy) {
                        Err(TxError::Busy)
                    } else {
                        Ok(self.store.wanted(&stream, &segment, after.as_deref(), limit))
                    };
                    self.feed_run(process, number, RunInput::Wanted(answer));
                }
                Want::Finished(_) => {
                    let now = self.processes[process].local(self.now);
                    let machines = &mut self.processes[process].machines;
                    let Some(at) = machines.runs.iter().position(|active| active.number == number) else { continue };
                    let over = machines.runs.remove(at);
                    let lease = over.lease;
                    self.pool.actives.push(over);
                    let mut wants = self.pool.executor.pop().unwrap_or_default();
                    if let Some(executor) = &mut machines.executor {
                        executor.on_ended(now, lease, &mut wants);
                    }
                    self.do_executor(process, wants);
                }
            }
        }
        self.pool.run.push(wants);
    }

    /// A request reaches the upstream.
    fn fetch(&mut self, process: usize, number: u32, fetch: &PageFetch) {
        let this = &mut self.processes[process];
        if this.local(self.now) < this.silent_until {
            self.broken = Some(format!("budget: process {process} sent a request before Retry-After was over"));
            return;
        }
        let Some(active) = this.machines.find(number) else { return };
        let (window, partition, update) = (active.window, active.partition, active.update);
        if active.held {
            let broken =
                format!("pause: task {} is read further although its executor knows of the pause", active.lease.task);
            self.fail(broken);
            return;
        }
        let committed = self.check.committed(&self.store.mem, fetch.run);
        if fetch.batch_no as usize > committed + scene::LOOKAHEAD + 1 {
            let broken = format!("look-ahead: page {} is read, {committed} are committed", fetch.batch_no);
            self.fail(broken);
        }
        let life = self.processes[process].life;
        let slow = self.rng.chance(self.profile.faults.slow_far);
        let latency = if slow { self.rng.below(20_000_000) } else { 2_000 + self.rng.below(200_000) };
        let mut at = self.now + Duration::from_micros(latency);
        let result = if self.rng.chance(self.profile.faults.lost) {
            at = self.now + Duration::from_secs(10);
            Err(refusal(Code::TimeoutError, Level::L1))
        } else {
            let poison = if update { None } else { self.api.poisons(window, &fetch.position) };
            self.far_answer(process, window, partition, poison, fetch)
        };
        self.agenda.push(at, &mut self.rng, Event::Fetched { process, life, run: number, result });
    }

    fn far_answer(
        &mut self,
        process: usize,
        window: Window,
        partition: Option<usize>,
        poison: Option<PoisonKind>,
        fetch: &PageFetch,
    ) -> PageResult {
        let details = matches!(fetch.position, Position::Ids { .. });
        match poison.filter(|_| partition.is_none()) {
            // The window is refused, not the ids that it names.
            Some(PoisonKind::Refused) if details => {}
            Some(PoisonKind::Transient) => return Err(refusal(Code::PlatformError, Level::L1)),
            Some(PoisonKind::Refused) => return Err(refusal(Code::PlatformError, Level::L2)),
            Some(PoisonKind::Deadly) => self.crash(process),
            None => {}
        }
        if self.rng.chance(self.profile.faults.throttle) {
            let retry_after = match self.rng.below(3) {
                0 => None,
                1 => Some(Duration::from_micros(self.rng.below(5_000_000))),
                _ => Some(Duration::from_secs(self.rng.below(25))),
            };
            let refusal = refusal(Code::RateLimited, Level::L1);
            return Err(Box::new(PageFailure { throttled: true, retry_after, ..*refusal }));
        }
        if self.rng.chance(self.profile.faults.error) {
            return Err(refusal(Code::ParseError, Level::L1));
        }
        // Ids whose details are refused are quarantined for good, so this is not a passing fault.
        if !details && self.rng.chance(self.profile.faults.refused) {
            return Err(refusal(Code::PlatformError, Level::L2));
        }
        if self.rng.chance(self.profile.faults.fatal) {
            return Err(self.fatal(details));
        }
        if let Position::Ids { ids, .. } = &fetch.position {
            let details = self.api.details(ids, self.now);
            return details.map(Box::new).ok_or_else(|| refusal(Code::PlatformError, Level::L2));
        }
        let inclusive = self.mutant != Some(Mutant::BorderLost);
        let size = fetch.page_size as usize;
        let mut page = self.api.page_of(partition, window, &fetch.position, size, self.now, inclusive);
        if let (true, Position::Token(here)) = (self.rng.chance(self.profile.faults.repeat), &fetch.position)
            && here.is_some()
        {
            page.facts.next_token.clone_from(here);
        }
        if !self.calm {
            self.mislead(&mut page, &fetch.position);
            if partition.is_some() {
                self.truncate(&mut page, &fetch.position);
            }
        }
        Ok(Box::new(page))
    }

    /// A wrong total, or an empty page before the end.
    fn mislead(&mut self, page: &mut FetchedPage, position: &Position) {
        if let (Some(total), true) = (page.facts.total, self.rng.chance(self.profile.api.lies)) {
            let other = 1 + self.rng.below(3);
            page.facts.total = Some(if self.rng.chance(500) { total + other } else { total.saturating_sub(other) });
        }
        let Position::Token(Some(here)) = position else { return };
        if self.rng.chance(self.profile.api.empty) {
            let next_token = (self.mutant != Some(Mutant::EmptyPageEnds)).then(|| format!("{here}+"));
            *page = FetchedPage { facts: PageFacts { next_token, ..PageFacts::default() }, ..blank_page() };
        }
    }

    /// An L4 failure: access denied, a broken source, or a wrong request.
    fn fatal(&mut self, details: bool) -> Box<PageFailure> {
        let (code, level, status) = match self.rng.below(3) {
            0 => (Code::UpstreamAuthFailed, Level::L4, 401),
            // Details in another format are quarantined like refused ones.
            1 if !details => (Code::ParseError, Level::L4, 200),
            _ => (Code::ValidationError, Level::L2, 403),
        };
        let mut refusal = refusal(code, level);
        refusal.evidence.status = status;
        refusal
    }

    /// Applies mutants that act between the store and a machine.
    fn distort(&mut self, Exchange { tx, result, .. }: &mut Exchange) {
        match (self.mutant, &*tx) {
            (Some(mutant @ (Mutant::UnknownIsDone | Mutant::RefusalIsDone)), tx) if !tx.pages().is_empty() => {
                let pretended = match result {
                    Err(TxError::Unknown(_)) => mutant == Mutant::UnknownIsDone,
                    Err(TxError::Refused(_)) => mutant == Mutant::RefusalIsDone,
                    _ => false,
                };
                if pretended {
                    let (batch, captured) = (patra_core::BatchId(0), Captured::None);
                    let done =
                        |op: &Arc<CommitBatch>| BatchCommitted { batch, stats: op.stats, replayed: false, captured };
                    *result = Ok(Done::CommitBatches(tx.pages().iter().map(done).collect()));
                }
            }
            (Some(Mutant::SuspectsUnknown), _) => {
                if let Ok(Done::ClaimTasks(claimed)) = result {
                    claimed.leases.iter_mut().for_each(|lease| lease.suspect = false);
                }
            }
            (Some(mutant), Tx::StartRun(op)) => {
                let Ok(Done::StartRun(RunStarted::Go { resume, .. })) = result else { return };
                let window = self.store.mem.tasks[op.lease.task.0 as usize - 1].what.window;
                match mutant {
                    Mutant::ResumeForgets => *resume = None,
                    Mutant::ResumeForgetsTotal => {
                        if let Some(resume) = resume {
                            resume.total = None;
                        }
                    }
                    Mutant::ResumeAtEnd => {
                        if let Some(resume) = resume {
                            resume.next = None;
                        }
                    }
                    Mutant::ResumeSkipsPage | Mutant::PartEndsList => {
                        if let (Some(resume), Some(window)) = (resume, window)
                            && (mutant == Mutant::ResumeSkipsPage || parts::is_between(&self.store.mem, resume))
                            && let Some(next) = &resume.next
                        {
                            let size = self.profile.page_size as usize;
                            let page = self.api.page(window, next, size, self.now, true);
                            let behind = page.facts.next_token.map(|token| Position::Token(Some(token)));
                            resume.next = behind.or_else(|| resume.next.take());
                        }
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
}

fn refusal(code: Code, level: Level) -> Box<PageFailure> {
    let fault = Fault::new(code, level, "no");
    Box::new(PageFailure { fault, throttled: false, retry_after: None, evidence: no_evidence(), offline: false })
}
