//! The lookout's service: it asks the store once for all parts of the process, and wakes those that may find something.

use std::sync::Arc;

use patra_core::protocol::lookout::Lookout;
use patra_core::rng::Rng;

use crate::events;
use crate::shared::{Shared, sleep_until};

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng) {
    let clock = &shared.ports.clock;
    let mut machine = Lookout::new(shared.options.poll, rng, clock.steady());
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
            answer = shared.ports.store.ahead() => answer,
        };
        if let Err(error) = &answer {
            events::store_failed("lookout", "ahead", error);
        }
        let call = machine.on(clock.steady(), &answer);
        let nudges = [
            (call.schedules, &shared.schedule_nudge),
            (call.triggers, &shared.planner_nudge),
            (call.chores, &shared.chore_nudge),
            (call.tasks, &shared.executor_nudge),
            (call.polls, &shared.poll_nudge),
            (call.leases, &shared.sweeper_nudge),
        ];
        for (_, nudge) in nudges.iter().filter(|(called, _)| *called) {
            nudge.notify_one();
        }
    }
}
