//! Looking without storing: read some pages of an endpoint the way an executor would, and tell what was seen. Takes the
//! gate like everything else that leaves, and has no port that could write.

use std::sync::Arc;
use std::time::Duration;

use patra_connectors::Pager;
use patra_core::gate::{Bucket, Decision};
use patra_core::paging::{Next, Position};
use patra_core::port::transport::Request;
use patra_core::port::{Clock, Transport};
use patra_core::protocol::run::{Page, Refusal};
use patra_core::{Fault, Window};
use patra_spec::Snapshot;

/// One page that was looked at.
#[derive(Debug)]
pub struct Look {
    pub number: u32,
    pub position: Position,
    /// None when the request could not even be rendered.
    pub request: Option<Request>,
    pub result: Result<Box<Page>, Box<Refusal>>,
    pub next: Next,
}

/// Reads up to `pages` pages of `window` and hands each to `show`. Stops at the end, at a refusal, or after `pages`.
pub async fn probe(
    transport: &Arc<dyn Transport>,
    clock: &Arc<dyn Clock>,
    spec: &Snapshot,
    window: Window,
    pages: u32,
    mut show: impl FnMut(&Look),
) -> Result<(), Fault> {
    let (pager, rule) = (Pager::new(spec)?, spec.paging());
    let mut gate = Bucket::new(spec.rate(), clock.steady());
    let asked = spec.asked(window);
    let (mut position, mut all_full) = (rule.first(), true);
    for number in 1..=pages {
        wait_for_permit(&mut gate, clock).await;
        let (request, result) = match pager.request(&position, asked, rule.page_size, clock.now()) {
            Ok(exchange) => {
                let (request, sent) = (exchange.request.clone(), clock.steady());
                let answer = transport.send(request.clone()).await;
                let latency = clock.steady().since(sent);
                (Some(request), pager.read(exchange, answer, latency, clock.now()))
            }
            Err(refusal) => (None, Err(refusal)),
        };
        let next = match &result {
            Ok(page) => rule.next(&position, &page.facts, all_full),
            Err(_) => Next::End,
        };
        if let Ok(page) = &result {
            all_full &= page.facts.items >= rule.page_size;
        }
        let look = Look { number, position, request, result, next };
        show(&look);
        match look.next {
            Next::At(next) | Next::Perhaps(next) => position = next,
            Next::End | Next::Broken(_) => break,
        }
    }
    Ok(())
}

async fn wait_for_permit(gate: &mut Bucket, clock: &Arc<dyn Clock>) {
    while let Decision::WaitUntil(until) = gate.acquire(clock.steady()) {
        tokio::time::sleep(until.since(clock.steady()).max(Duration::from_millis(1))).await;
    }
}
