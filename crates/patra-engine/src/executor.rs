//! Service of the executor: claims tasks, renews their leases, and runs them.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use patra_core::port::CommandsExt;
use patra_core::protocol::executor::{Executor, Options, Want};
use patra_core::rng::Rng;
use patra_core::source::PER_HOST;
use patra_core::tx::{ClaimedTasks, LeaseRef, Renewed, TxError};
use patra_core::{TaskId, Ts};
use tracing::{Instrument as _, Span};

use crate::crash;
use crate::events;
use crate::runner::{self, RunnerSignal};
use crate::shared::{Shared, sleep_until};
use crate::spans;

const SHUTTING_DOWN: RunnerSignal = RunnerSignal::Stop("the process was asked to stop");

/// Kind of work that a service claims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimKind {
    Tasks,
    Polls,
}

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng, work: ClaimKind) {
    ExecutorService::new(shared, rng, work).serve().await;
}

struct ExecutorService {
    shared: Arc<Shared>,
    work: ClaimKind,
    machine: Executor,
    rng: Rng,
    runs: JoinSet<()>,
    /// Lease of each run; needed also when the run panics.
    leases: HashMap<tokio::task::Id, LeaseRef>,
    signals: HashMap<TaskId, (LeaseRef, mpsc::Sender<RunnerSignal>)>,
    /// Claims and renewals in progress.
    answers: JoinSet<StoreReply>,
    /// Suspects that have committed a batch.
    progress: (mpsc::UnboundedSender<LeaseRef>, mpsc::UnboundedReceiver<LeaseRef>),
    /// Span and time of the last claim that returned tasks.
    claimed: (Span, Ts),
}

enum StoreReply {
    Claimed { sent: Ts, answer: Result<ClaimedTasks, TxError> },
    Renewed { sent: Ts, asked: Vec<LeaseRef>, answer: Result<Renewed, TxError> },
}

impl ExecutorService {
    fn new(shared: Arc<Shared>, mut rng: Rng, work: ClaimKind) -> ExecutorService {
        let options = Options {
            owner: shared.options.owner.clone(),
            capacity: match work {
                ClaimKind::Tasks => shared.options.concurrency,
                ClaimKind::Polls => shared.options.collector.concurrency,
            },
            lease: shared.options.lease,
            idle_poll: shared.options.idle_sleep(),
            polls_per_host: (work == ClaimKind::Polls).then_some(PER_HOST),
            only: shared.options.only.clone(),
            max_attempts: shared.options.run.max_attempts,
        };
        let machine = Executor::new(options, rng.fork(), shared.ports.clock.steady());
        ExecutorService {
            shared,
            work,
            machine,
            rng,
            runs: JoinSet::new(),
            leases: HashMap::new(),
            signals: HashMap::new(),
            answers: JoinSet::new(),
            progress: mpsc::unbounded_channel(),
            claimed: (Span::none(), Ts::MIN),
        }
    }

    async fn serve(&mut self) {
        let shared = Arc::clone(&self.shared);
        let (mut wants, mut draining) = (Vec::new(), false);
        let nudge = match self.work {
            ClaimKind::Tasks => &shared.executor_nudge,
            ClaimKind::Polls => &shared.poll_nudge,
        };
        loop {
            let now = self.now();
            if self.work == ClaimKind::Tasks {
                self.machine.set_share(self.shared.health.share());
            }
            if self.work == ClaimKind::Tasks && self.machine.is_to_claim(now) {
                self.machine.set_caps(self.shared.caps(now));
            }
            self.machine.poll(now, &mut wants);
            self.execute(&mut wants);
            if draining {
                self.stop_runs();
            }
            if draining && self.runs.is_empty() && self.answers.is_empty() {
                return;
            }
            let sleep = sleep_until(self.now(), self.machine.wake_at());
            tokio::select! {
                () = shared.drain.cancelled(), if !draining => {
                    draining = true;
                    self.machine.drain();
                    self.stop_runs();
                }
                () = shared.abort.cancelled() => return,
                () = nudge.notified() => self.machine.nudge(self.now()),
                Some(ended) = self.runs.join_next_with_id() => self.on_ended(&ended, &mut wants),
                Some(lease) = self.progress.1.recv() => self.machine.on_progress(self.now(), lease, &mut wants),
                Some(Ok(answer)) = self.answers.join_next() => self.on_answer(answer, &mut wants),
                () = sleep => {}
            }
            self.execute(&mut wants);
        }
    }

    fn execute(&mut self, wants: &mut Vec<Want>) {
        for want in wants.drain(..) {
            let (shared, sent) = (Arc::clone(&self.shared), self.shared.ports.clock.steady());
            match want {
                Want::Claim(claim) => {
                    self.answers.spawn(async move {
                        let claim = || shared.ports.store.run(claim);
                        StoreReply::Claimed { sent, answer: crash::around("executor", "ClaimTasks", claim).await }
                    });
                }
                Want::ClaimPolls(claim) => {
                    self.answers.spawn(async move {
                        let claim = || shared.ports.store.run(claim);
                        StoreReply::Claimed { sent, answer: crash::around("executor", "ClaimPolls", claim).await }
                    });
                }
                Want::Renew(renew) => {
                    self.answers.spawn(async move {
                        let asked = renew.leases.clone();
                        let renew = || shared.ports.store.run(renew);
                        StoreReply::Renewed { sent, asked, answer: crash::around("executor", "Renew", renew).await }
                    });
                }
                Want::Start(lease) => {
                    let reference = LeaseRef::from(&*lease);
                    let (sender, receiver) = mpsc::channel(4);
                    self.signals.insert(lease.task, (reference, sender));
                    let rng = self.rng.fork();
                    let progress = lease.suspect.then(|| self.progress.0.clone());
                    let (claimed, now) = &self.claimed;
                    let picked = spans::picked(claimed, &lease, now.since(lease.scheduled_at));
                    picked.in_scope(|| events::task_claimed(&lease, self.signals.len()));
                    let run = picked.in_scope(|| spans::run(&lease));
                    let run = self.runs.spawn(
                        async move {
                            runner::run(shared, *lease, rng, receiver, progress).await;
                        }
                        .instrument(run),
                    );
                    self.leases.insert(run.id(), reference);
                }
                Want::Stop(lease) => self.signal(lease, RunnerSignal::Lost),
                Want::GiveBack(lease) => {
                    self.signal(lease, RunnerSignal::Stop("its work was paused, or another task must run alone"));
                }
            }
        }
    }

    fn on_answer(&mut self, answer: StoreReply, wants: &mut Vec<Want>) {
        let now = self.now();
        match answer {
            StoreReply::Claimed { sent, answer } => {
                if let Err(error) = &answer {
                    events::store_failed("executor", "ClaimTasks", error);
                }
                self.shared.metrics.claimed(&answer);
                if let Ok(ClaimedTasks { leases, now }) = &answer
                    && !leases.is_empty()
                {
                    self.claimed = (spans::claimed(leases.len()), *now);
                }
                self.machine.on_claimed(sent, now, answer, wants);
            }
            StoreReply::Renewed { sent, asked, answer } => {
                if let Err(error) = &answer {
                    events::store_failed("executor", "Renew", error);
                }
                self.machine.on_renewed(sent, now, &asked, answer, wants);
            }
        }
    }

    fn on_ended(&mut self, ended: &Result<(tokio::task::Id, ()), tokio::task::JoinError>, wants: &mut Vec<Want>) {
        let id = match ended {
            Ok((id, ())) => *id,
            // The lease is no longer renewed, so it runs out. The sweep decides whether the attempt counts.
            Err(error) => {
                tracing::error!(error = %error, "a run ended abnormally; its task is taken back when the lease expires");
                error.id()
            }
        };
        let Some(lease) = self.leases.remove(&id) else { return };
        if self.signals.get(&lease.task).is_some_and(|(reference, _)| *reference == lease) {
            self.signals.remove(&lease.task);
        }
        self.machine.on_ended(self.now(), lease, wants);
        if self.runs.is_empty() {
            // A second attempt of its task may be the next due work.
            self.shared.work_poller_nudge.notify_one();
        }
    }

    fn signal(&self, lease: LeaseRef, signal: RunnerSignal) {
        if let Some((reference, sender)) = self.signals.get(&lease.task)
            && *reference == lease
        {
            let _ = sender.try_send(signal);
        }
    }

    /// Stops tasks, which other processes continue; polls are short, and end here (COLL-59).
    fn stop_runs(&self) {
        if self.work == ClaimKind::Tasks {
            for (_, sender) in self.signals.values() {
                let _ = sender.try_send(SHUTTING_DOWN);
            }
        }
    }

    fn now(&self) -> Ts {
        self.shared.ports.clock.steady()
    }
}
