//! Server-sent events. An event only says that something has changed, and the page loads itself again: there is one way
//! to render a page, and an event reveals nothing.

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

use super::context::ConsoleContext;
use crate::envelope::Failure;
use crate::routes::views;

/// Most listening pages in this process; further ones do without.
const MAX_LISTENERS: usize = 200;
/// Time between two polls.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Most polls of one connection. The browser then reconnects, and the session is checked again.
const MAX_POLLS: u32 = 150;
/// Views whose newest row reveals a change.
const WATCHED: &[View] = &[View::Jobs, View::Tasks, View::Runs, View::Batches, View::Quarantine, View::Events];

/// Limits the number of listening pages. An extension of the request.
#[derive(Clone, Debug)]
pub(super) struct Listeners(Arc<Semaphore>);

impl Default for Listeners {
    fn default() -> Listeners {
        Listeners(Arc::new(Semaphore::new(MAX_LISTENERS)))
    }
}

struct Listener {
    ctx: ConsoleContext,
    last_pulse: Option<String>,
    polls: u32,
    stop: CancellationToken,
    _room: OwnedSemaphorePermit,
}

pub(super) async fn live(
    Extension(ctx): Extension<ConsoleContext>,
    Extension(Listeners(room)): Extension<Listeners>,
    stop: Option<Extension<CancellationToken>>,
) -> Response {
    let Ok(room) = room.try_acquire_owned() else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let stop = stop.map(|Extension(stop)| stop).unwrap_or_default();
    let listener = Listener { ctx, last_pulse: None, polls: 0, stop, _room: room };
    let events = stream::unfold(listener, |listener| async {
        let listener = listener.until_changed().await?;
        Some((Ok::<_, Infallible>(Event::default().event("changed").data("now")), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Listener {
    /// Waits for a change. Ends when the process stops, after the last poll, and when the store fails.
    async fn until_changed(mut self) -> Option<Listener> {
        while self.polls < MAX_POLLS {
            let pulse = pulse(&self.ctx).await.ok()?;
            let before = self.last_pulse.replace(pulse.clone());
            // The first poll counts as a change, because the page may be older.
            if before.is_none_or(|before| before != pulse) {
                return Some(self);
            }
            tokio::select! {
                () = self.stop.cancelled() => return None,
                () = tokio::time::sleep(POLL_INTERVAL) => self.polls += 1,
            }
        }
        None
    }
}

/// A hash that changes with the data that the user may see.
async fn pulse(ctx: &ConsoleContext) -> Result<String, Failure> {
    let mut newest = String::new();
    for view in WATCHED.iter().copied() {
        let (rows, _) =
            views::query(&ctx.api, &ctx.tenant, view, ViewFilter { limit: 1, ..ViewFilter::default() }).await?;
        newest.extend(rows.iter().map(|row| view.to_json_text(row)));
    }
    Ok(sha256_hex(newest.as_bytes()))
}
