//! The planner's service.

use std::sync::Arc;

use patra_core::protocol::planner::{Got, NotCompiled, Options, Planner, Want};
use patra_core::rng::Rng;
use patra_core::tx::Tx;

use crate::compile::Compiler;
use crate::crash;
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
    let (mut wants, mut compiler) = (Vec::new(), Compiler::default());
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
            // Between two triggers nothing is held; one that makes many partitions goes on in the next process.
            if matches!(&want, Want::Tx(Tx::TakeTrigger(_))) && shared.drain.is_cancelled() {
                return;
            }
            let got = match want {
                Want::Tx(tx) => {
                    let name = tx.name();
                    let answer = crash::around("planner", name, || shared.ports.store.execute(tx)).await;
                    match &answer {
                        Ok(done) => shared.metrics.stored(done),
                        Err(error) => events::store_failed("planner", name, error),
                    }
                    Got::Tx(answer)
                }
                Want::Compile(trigger) => {
                    let store = &*shared.ports.store;
                    let compiled = crash::around("planner", "Compile", || compiler.compile(store, &trigger)).await;
                    if let Err(NotCompiled::Refused(reason)) = &compiled {
                        events::plan_refused(&shared.metrics, &trigger, reason);
                    }
                    Got::Compiled(compiled)
                }
                Want::Queued => {
                    shared.executor_nudge.notify_one();
                    continue;
                }
            };
            machine.on(clock.steady(), got, &mut wants);
        }
    }
}
