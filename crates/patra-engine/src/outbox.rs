//! Tells the world outside what has happened: events that were written with what they tell, each at least once, always with
//! the same id.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use patra_core::port::{CommandsExt as _, Notifier};
use patra_core::tx::{Event, SettleEvent, TakeEvents, TxError};

use crate::events;
use crate::shared::Shared;

/// Events that are under way at once.
const AT_ONCE: u32 = 20;
/// How long a process has to tell what it took.
const LEASE: Duration = Duration::from_secs(60);
/// Between two looks when nothing is known to wait.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn serve(shared: Arc<Shared>, webhook: Arc<dyn Notifier>) {
    loop {
        let again = match relay(&shared, &*webhook).await {
            Ok(told) if told > 0 => Duration::ZERO,
            Ok(_) => LOOK_EVERY,
            Err(error) => {
                events::store_failed("outbox", "TakeEvents", &error);
                LOOK_EVERY
            }
        };
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = tokio::time::sleep(again) => {}
        }
    }
}

/// Tells what waits. How much that was.
async fn relay(shared: &Shared, webhook: &dyn Notifier) -> Result<usize, TxError> {
    let (store, owner) = (&shared.ports.store, &shared.options.owner);
    let taken = store.run(TakeEvents { owner: owner.clone(), lease: LEASE, limit: AT_ONCE }).await?;
    for event in &taken.events {
        let error = webhook.tell(message(event)).await.err();
        if let Some(reason) = &error {
            tracing::warn!(
                event = event.id,
                event_type = event.event_type,
                tries = event.tries + 1,
                reason,
                "the webhook was not told"
            );
        }
        store.run(SettleEvent { id: event.id, owner: owner.clone(), error }).await?;
    }
    Ok(taken.events.len())
}

fn message(event: &Event) -> String {
    let data: Value = serde_json::from_str(&event.payload).unwrap_or_default();
    json!({
        "event_id": event.id, "event": event.event_type, "project_key": event.project_key,
        "created_at": event.created_at, "data": data,
    })
    .to_string()
}
