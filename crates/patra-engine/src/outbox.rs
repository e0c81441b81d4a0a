//! Tells the world outside what has happened: events that were written with what they tell, each at least once, always with
//! the same id.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use patra_core::port::CommandsExt as _;
use patra_core::tx::{Event, SettleEvent, TakeEvents, Told, TxError};

use crate::events;
use crate::shared::Shared;

/// Events that are under way at once.
const AT_ONCE: u32 = 20;
/// How long a process has to tell what it took.
const LEASE: Duration = Duration::from_secs(60);
/// No event is begun later than this after it was taken: a webhook may take some time, and the lease must not end meanwhile.
const BEGIN_WITHIN: Duration = Duration::from_secs(40);
/// Between two looks when nothing is known to wait.
const LOOK_EVERY: Duration = Duration::from_secs(5);

pub(crate) async fn serve(shared: Arc<Shared>) {
    loop {
        let again = match relay(&shared).await {
            Ok(taken) if taken > 0 => Duration::ZERO,
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
async fn relay(shared: &Shared) -> Result<usize, TxError> {
    let (store, owner) = (&shared.ports.store, &shared.options.owner);
    let types = shared.options.webhooks.keys().cloned().collect();
    let begun = shared.ports.clock.now();
    let taken = store.run(TakeEvents { owner: owner.clone(), lease: LEASE, limit: AT_ONCE, types }).await?;
    // Behind one that was not told, those of its topic wait.
    let mut held = BTreeSet::new();
    for event in &taken.events {
        let late = shared.ports.clock.now().since(begun) > BEGIN_WITHIN || shared.drain.is_cancelled();
        let told = if late || held.contains(&event.topic) { Told::GivenBack } else { tell(shared, event).await };
        if told != Told::Delivered {
            held.insert(&event.topic);
        }
        store.run(SettleEvent { id: event.id, owner: owner.clone(), told }).await?;
    }
    Ok(taken.events.len())
}

async fn tell(shared: &Shared, event: &Event) -> Told {
    let Some(webhook) = shared.options.webhooks.get(&event.event_type) else { return Told::GivenBack };
    let Err(reason) = webhook.tell(message(event)).await else { return Told::Delivered };
    tracing::warn!(
        event = event.id,
        event_type = event.event_type,
        topic = event.topic,
        tries = event.tries + 1,
        reason,
        "the webhook was not told"
    );
    Told::Failed(reason)
}

fn message(event: &Event) -> String {
    let data: Value = serde_json::from_str(&event.payload).unwrap_or_default();
    json!({
        "event_id": event.id, "event": event.event_type, "project_key": event.project_key, "topic": event.topic,
        "idempotency_key": event.idempotency_key, "created_at": event.created_at, "data": data,
    })
    .to_string()
}
