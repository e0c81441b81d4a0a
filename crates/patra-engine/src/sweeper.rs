//! Service of the sweeper.

use std::sync::Arc;

use patra_core::port::CommandsExt;
use patra_core::protocol::sweeper::{Options, Sweeper};
use patra_core::rng::Rng;

use crate::crash;
use crate::events;
use crate::shared::{Shared, sleep_until};

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng) {
    let clock = &shared.ports.clock;
    let options = Options {
        every: shared.options.idle_sleep(),
        limit: 100,
        max_attempts: shared.options.run.max_attempts,
        longest_lease: shared.options.longest_lease(),
    };
    let mut machine = Sweeper::new(options, rng, clock.steady());
    loop {
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = shared.sweeper_nudge.notified() => machine.nudge(clock.steady()),
            () = sleep_until(clock.steady(), machine.wake_at()) => {}
        }
        let Some(sweep) = machine.poll(clock.steady()) else { continue };
        let answer = crash::around("sweeper", "Sweep", || shared.ports.store.run(sweep)).await;
        match &answer {
            Ok(swept) if swept.requeued.is_empty() && swept.failed.is_empty() => {}
            Ok(swept) => {
                events::swept(swept.requeued.len(), swept.failed.len());
                shared.executor_nudge.notify_one();
                shared.poll_nudge.notify_one();
            }
            Err(error) => events::store_failed("sweeper", "Sweep", error),
        }
        machine.on(clock.steady(), &answer);
    }
}
