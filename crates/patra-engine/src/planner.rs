//! The planner's service.

use std::sync::Arc;

use patra_core::protocol::planner::{Got, Options, Planner, Want};
use patra_core::rng::Rng;

use crate::compile;
use crate::events;
use crate::shared::{Shared, sleep_until};

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng) {
    let clock = &shared.ports.clock;
    let options = Options {
        idle_poll: shared.options.poll,
        lease: shared.options.lease,
        ..Options::new(shared.options.owner.clone())
    };
    let mut machine = Planner::new(options, rng, clock.steady());
    let mut wants = Vec::new();
    loop {
        if machine.is_idle() {
            tokio::select! {
                () = shared.drain.cancelled() => return,
                () = shared.planner_nudge.notified() => machine.nudge(clock.steady()),
                () = sleep_until(clock.steady(), machine.wake_at()) => {}
            }
            machine.poll(clock.steady(), &mut wants);
        }
        for want in std::mem::take(&mut wants) {
            let got = match want {
                Want::Tx(tx) => {
                    let name = tx.name();
                    let answer = shared.ports.store.execute(tx).await;
                    if let Err(error) = &answer {
                        events::store_failed("planner", name, error);
                    }
                    Got::Tx(answer)
                }
                Want::Compile(trigger) => Got::Compiled(compile::draft(&*shared.ports.store, &trigger).await),
                Want::Queued => {
                    shared.executor_nudge.notify_one();
                    continue;
                }
            };
            machine.on(clock.steady(), got, &mut wants);
        }
    }
}
