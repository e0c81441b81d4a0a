//! The work poller's service: it asks the store once for all parts of the process, and wakes those that may find something.

use std::sync::Arc;

use patra_core::protocol::work_poller::WorkPoller;
use patra_core::rng::Rng;

use crate::events;
use crate::shared::{Shared, sleep_until};

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng) {
    let clock = &shared.ports.clock;
    let mut machine = WorkPoller::new(shared.options.poll, rng, clock.steady());
    loop {
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = shared.lookout_nudge.notified() => {
                machine.nudge(clock.steady());
                continue;
            }
            () = sleep_until(clock.steady(), machine.due()) => {}
        }
        let answer = tokio::select! {
            () = shared.drain.cancelled() => return,
            answer = shared.ports.store.next_due() => answer,
        };
        if let Err(error) = &answer {
            events::store_failed("work_poller", "next_due", error);
        }
        let call = machine.on(clock.steady(), &answer);
        let nudges = [
            (call.schedules, &shared.schedule_nudge),
            (call.jobs, &shared.planner_nudge),
            (call.background_jobs, &shared.chore_nudge),
            (call.tasks, &shared.executor_nudge),
            (call.polls, &shared.poll_nudge),
            (call.leases, &shared.sweeper_nudge),
        ];
        for (_, nudge) in nudges.iter().filter(|(called, _)| *called) {
            nudge.notify_one();
        }
    }
}
