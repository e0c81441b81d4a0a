//! Server-sent events: a page that is live is told that something has changed, and asks for itself again. The events say
//! nothing else, so there is one way to render a page, and nothing to see for who may not.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use patra_core::hash::sha256_hex;
use patra_core::port::query::{View, ViewFilter};

use super::visit::Visit;
use crate::envelope::Failure;
use crate::routes::views;

/// Pages that listen at once, in this process; others work without.
const MAX_LISTENERS: usize = 200;
/// Between two looks.
const LOOK: Duration = Duration::from_secs(2);
/// Looks of one connection. A browser connects again by itself, and its session is looked at again.
const MAX_LOOKS: u32 = 150;
/// What is new shows in the newest rows of these.
const WATCHED: &[View] = &[View::Jobs, View::Tasks, View::Runs, View::Batches, View::Quarantine, View::Events];

/// Room for pages that listen. An extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Listeners(Arc<Semaphore>);

impl Default for Listeners {
    fn default() -> Listeners {
        Listeners(Arc::new(Semaphore::new(MAX_LISTENERS)))
    }
}

struct Listener {
    visit: Visit,
    seen: Option<String>,
    looks: u32,
    stop: CancellationToken,
    _room: OwnedSemaphorePermit,
}

pub(super) async fn live(
    Extension(visit): Extension<Visit>,
    Extension(Listeners(room)): Extension<Listeners>,
    stop: Option<Extension<CancellationToken>>,
) -> Response {
    let Ok(room) = room.try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let stop = stop.map(|Extension(stop)| stop).unwrap_or_default();
    let listener = Listener { visit, seen: None, looks: 0, stop, _room: room };
    let events = stream::unfold(listener, |listener| async {
        let listener = listener.until_changed().await?;
        Some((Ok::<_, Infallible>(Event::default().event("changed").data("now")), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Listener {
    /// Waits for news. Ends when the process stops, when it has looked often enough, and when the store does not answer.
    async fn until_changed(mut self) -> Option<Listener> {
        while self.looks < MAX_LOOKS {
            let pulse = pulse(&self.visit).await.ok()?;
            let before = self.seen.replace(pulse.clone());
            // The first look counts: the page may be older than it.
            if before.is_none_or(|before| before != pulse) {
                return Some(self);
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(LOOK) => self.looks += 1,
            }
        }
        None
    }
}

/// Another one whenever something that the visitor may see has changed.
async fn pulse(visit: &Visit) -> Result<String, Failure> {
    let mut newest = String::new();
    for view in WATCHED.iter().copied() {
        let (rows, _) =
            views::found(&visit.api, &visit.tenant, view, ViewFilter { limit: 1, ..ViewFilter::default() }).await?;
        newest.extend(rows.iter().map(|row| view.to_json_text(row)));
    }
    Ok(sha256_hex(newest.as_bytes()))
}
