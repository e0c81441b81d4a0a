//! Service of the work poller: looks for due work in the store, once for all parts of the process, and wakes the parts
//! that have some.

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
            () = shared.work_poller_nudge.notified() => {
                machine.nudge(clock.steady());
                continue;
            }
            () = sleep_until(clock.steady(), machine.due()) => {}
        }
        let next_due = tokio::select! {
            () = shared.drain.cancelled() => return,
            next_due = shared.ports.store.next_due() => next_due,
        };
        if let Err(error) = &next_due {
            events::store_failed("work_poller", "next_due", error);
        }
        let wake = machine.on(clock.steady(), &next_due);
        let nudges = [
            (wake.schedules, &shared.schedule_nudge),
            (wake.jobs, &shared.planner_nudge),
            (wake.background_jobs, &shared.background_job_nudge),
            (wake.tasks, &shared.executor_nudge),
            (wake.polls, &shared.poll_nudge),
            (wake.leases, &shared.sweeper_nudge),
        ];
        for (_, nudge) in nudges.iter().filter(|(is_due, _)| *is_due) {
            nudge.notify_one();
        }
    }
}
