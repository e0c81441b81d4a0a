//! Tells the world outside what has happened: events that were written with what they tell, each at least once, always with
//! the same id.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use patra_core::Ts;
use patra_core::port::{CommandsExt as _, Notifier};
use patra_core::tx::{ClaimEvents, Delivery, OutboxEvent, SettleEvent, TxError};

use crate::events;
use crate::shared::Shared;

/// Events that are taken in one go. Those of one topic are told one after the other, topics side by side.
const AT_ONCE: u32 = 20;
/// How long a process has to tell what it took.
const LEASE: Duration = Duration::from_secs(60);
/// No event is begun later than this after it was taken: a webhook may take some time, and the lease must not end meanwhile.
const BEGIN_WITHIN: Duration = Duration::from_secs(40);
/// Between two looks when nothing is known to wait.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Tells the events of one type. Each type has a teller of its own, so that a webhook that is away holds up no other.
pub(crate) async fn serve(shared: Arc<Shared>, event_type: String, webhook: Arc<dyn Notifier>) {
    let teller = OutboxRelay { shared, event_type, webhook };
    loop {
        let again = match teller.relay().await {
            Ok(taken) if taken > 0 => Duration::ZERO,
            Ok(_) => LOOK_EVERY,
            Err(error) => {
                events::store_failed("outbox", "ClaimEvents", &error);
                LOOK_EVERY
            }
        };
        tokio::select! {
            () = teller.shared.drain.cancelled() => return,
            () = tokio::time::sleep(again) => {}
        }
    }
}

struct OutboxRelay {
    shared: Arc<Shared>,
    event_type: String,
    webhook: Arc<dyn Notifier>,
}

impl OutboxRelay {
    /// Tells what waits. How much that was.
    async fn relay(&self) -> Result<usize, TxError> {
        let (owner, event_type) = (self.shared.options.owner.clone(), self.event_type.clone());
        let begin_by = self.shared.ports.clock.now() + BEGIN_WITHIN;
        let taken =
            self.shared.ports.store.run(ClaimEvents { owner, lease: LEASE, limit: AT_ONCE, event_type }).await?;
        let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in &taken.events {
            topics.entry(event.topic.as_str()).or_default().push(event);
        }
        let told = join_all(topics.into_values().map(|events| self.tell_in_order(events, begin_by))).await;
        told.into_iter().collect::<Result<(), _>>()?;
        Ok(taken.events.len())
    }

    /// Events of one topic: behind one that was not told, the others are given back.
    async fn tell_in_order(&self, events: Vec<&OutboxEvent>, begin_by: Ts) -> Result<(), TxError> {
        let mut held = false;
        for event in events {
            held |= self.shared.ports.clock.now() > begin_by || self.shared.drain.is_cancelled();
            let told = if held { Delivery::Returned } else { self.tell(event).await };
            held |= told != Delivery::Delivered;
            let owner = self.shared.options.owner.clone();
            self.shared.ports.store.run(SettleEvent { id: event.id, owner, delivery: told }).await?;
        }
        Ok(())
    }

    async fn tell(&self, event: &OutboxEvent) -> Delivery {
        let Err(reason) = self.webhook.notify(message(event)).await else { return Delivery::Delivered };
        tracing::warn!(
            event = event.id,
            event_type = event.event_type,
            topic = event.topic,
            tries = event.tries + 1,
            reason,
            "the webhook was not told"
        );
        Delivery::Failed(reason)
    }
}

fn message(event: &OutboxEvent) -> String {
    let data: Value = serde_json::from_str(&event.payload).unwrap_or_default();
    json!({
        "event_id": event.id, "event": event.event_type, "project_key": event.project_key, "topic": event.topic,
        "idempotency_key": event.idempotency_key, "created_at": event.created_at, "data": data,
    })
    .to_string()
}
