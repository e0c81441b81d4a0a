//! Service of the retention: archives old rows of the ledger at intervals (ING-13.5).

use std::sync::Arc;
use std::time::Duration;

use patra_core::rng::Rng;

use crate::operations;
use crate::shared::Shared;
use crate::{crash, events};

/// Interval between two archivings.
const EVERY: Duration = Duration::from_secs(3_600);

pub(crate) async fn serve(shared: Arc<Shared>, mut rng: Rng) {
    let Some(retention) = shared.options.retention else { return };
    // Not at the start, which is busy: many processes may start at once.
    let mut wait = rng.around(EVERY / 10);
    loop {
        tokio::select! {
            () = shared.drain.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
        wait = rng.around(EVERY);
        match operations::archive(&*shared.ports.store, &*shared.ports.clock, retention).await {
            Ok(done) => events::archived(&done),
            Err(error) => events::store_failed("retention", "Archive", &error),
        }
        crash::point("after-archive");
    }
}
