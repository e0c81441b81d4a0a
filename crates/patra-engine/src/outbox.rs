//! Delivers the events of the outbox to webhooks: each at least once, always with the same id.

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

/// Events of one claim. Events of one topic are delivered one after the other, topics in parallel.
const AT_ONCE: u32 = 20;
/// Time for the last delivery of a claim: more than a webhook may take, and the lease must not end meanwhile.
pub(crate) const LAST_DELIVERY: Duration = Duration::from_secs(15);
/// Interval between two claims when no event is known to wait.
const CLAIM_EVERY: Duration = Duration::from_secs(5);

/// Delivers the events of one type. Each type has a relay of its own, so that a webhook that is down delays no other.
pub(crate) async fn serve(shared: Arc<Shared>, event_type: String, webhook: Arc<dyn Notifier>) {
    let relay = OutboxRelay { shared, event_type, webhook };
    loop {
        let again = match relay.deliver_claimed().await {
            Ok(taken) if taken > 0 => Duration::ZERO,
            Ok(_) => CLAIM_EVERY,
            Err(error) => {
                events::store_failed("outbox", "ClaimEvents", &error);
                CLAIM_EVERY
            }
        };
        tokio::select! {
            () = relay.shared.drain.cancelled() => return,
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
    /// Delivers the events that wait, and returns their number.
    async fn deliver_claimed(&self) -> Result<usize, TxError> {
        let (owner, event_type) = (self.shared.options.owner.clone(), self.event_type.clone());
        // The events of a process that died are free again as soon as its tasks are, plus one delivery.
        let begin_within = self.shared.options.lease;
        let begin_by = self.shared.ports.clock.steady() + begin_within;
        let lease = begin_within + LAST_DELIVERY;
        let taken = self.shared.ports.store.run(ClaimEvents { owner, lease, limit: AT_ONCE, event_type }).await?;
        let mut topics: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for event in &taken.events {
            topics.entry(event.topic.as_str()).or_default().push(event);
        }
        let delivered = join_all(topics.into_values().map(|events| self.deliver_in_order(events, begin_by))).await;
        delivered.into_iter().collect::<Result<(), _>>()?;
        Ok(taken.events.len())
    }

    /// Delivers the events of one topic. After one that was not delivered, the others are given back.
    async fn deliver_in_order(&self, events: Vec<&OutboxEvent>, begin_by: Ts) -> Result<(), TxError> {
        let mut blocked = false;
        for event in events {
            blocked |= self.shared.ports.clock.steady() > begin_by || self.shared.drain.is_cancelled();
            let delivery = if blocked { Delivery::Returned } else { self.deliver(event).await };
            blocked |= delivery != Delivery::Delivered;
            let owner = self.shared.options.owner.clone();
            self.shared.ports.store.run(SettleEvent { id: event.id, owner, delivery }).await?;
        }
        Ok(())
    }

    async fn deliver(&self, event: &OutboxEvent) -> Delivery {
        let Err(reason) = self.webhook.notify(message(event)).await else { return Delivery::Delivered };
        tracing::warn!(
            event = event.id,
            event_type = event.event_type,
            topic = event.topic,
            tries = event.tries + 1,
            reason,
            "the webhook did not accept an event"
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
