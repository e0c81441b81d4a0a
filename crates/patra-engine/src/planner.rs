//! Service of the planner.

use std::sync::Arc;

use patra_core::protocol::planner::{CompileError, Options, Planner, PlannerInput, Want};
use patra_core::rng::Rng;
use patra_core::tx::{Done, Tx};
use tracing::{Instrument as _, Span};

use crate::compile::Compiler;
use crate::crash;
use crate::events;
use crate::shared::{Shared, sleep_until};
use crate::spans;

pub(crate) async fn serve(shared: Arc<Shared>, rng: Rng) {
    let clock = &shared.ports.clock;
    let options = Options {
        idle_poll: shared.options.idle_sleep(),
        lease: shared.options.lease,
        only: shared.options.only.clone(),
        ..Options::new(shared.options.owner.clone())
    };
    let mut machine = Planner::new(options, rng, clock.steady());
    let (mut wants, mut compiler) = (Vec::new(), Compiler::default());
    // Spans of the current trigger and of its compilation.
    let (mut trigger_span, mut compile_span) = (Span::none(), Span::none());
    loop {
        if machine.is_idle() {
            tokio::select! {
                () = shared.drain.cancelled() => return,
                () = shared.planner_nudge.notified() => machine.nudge(clock.steady()),
                () = shared.schedule_nudge.notified() => machine.nudge_schedules(clock.steady()),
                () = sleep_until(clock.steady(), machine.wake_at()) => {}
            }
            machine.poll(clock.steady(), &mut wants);
        }
        for want in std::mem::take(&mut wants) {
            // Nothing is claimed between two triggers; a trigger with many partitions continues in the next process.
            if matches!(&want, Want::Tx(Tx::ClaimJob(_))) && shared.drain.is_cancelled() {
                return;
            }
            let got = match want {
                Want::Tx(tx) => {
                    let name = tx.name();
                    match &tx {
                        Tx::ClaimJob(_) => (trigger_span, compile_span) = (Span::none(), Span::none()),
                        Tx::SavePlan(plan) => spans::slices(&compile_span, plan),
                        _ => {}
                    }
                    let step = crash::around("planner", name, || shared.ports.store.execute(tx));
                    let answer = step.instrument(trigger_span.clone()).await;
                    if let Ok(Done::ClaimJob(Some(taken))) = &answer {
                        trigger_span = spans::trigger(taken);
                    }
                    match &answer {
                        Ok(done) => shared.metrics.stored(done),
                        Err(error) => events::store_failed("planner", name, error),
                    }
                    PlannerInput::Tx(answer)
                }
                Want::Compile(trigger) => {
                    let store = &*shared.ports.store;
                    compile_span = trigger_span.in_scope(spans::compile);
                    let step = crash::around("planner", "Compile", || compiler.compile(store, &trigger));
                    let compiled = step.instrument(compile_span.clone()).await;
                    if let Err(CompileError::Refused(reason)) = &compiled {
                        compile_span.in_scope(|| events::plan_refused(&shared.metrics, &trigger, reason));
                    }
                    PlannerInput::Compiled(compiled)
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
