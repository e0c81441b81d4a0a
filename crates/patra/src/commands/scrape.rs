//! `scrape`: fetches tweets of users now, with a progress bar and a report.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use patra_core::port::Store;
use patra_core::state::TriggerType;
use patra_core::tweet;
use patra_engine::EngineRole;
use patra_engine::scrape::{self, ScrapeRequest, ScrapeStatus};

use crate::cli::{Global, Scrape};
use crate::error::{Error, Exit};
use crate::progress::{Bar, Counts, say};
use crate::signals::Signals;
use crate::{host, output, store, tweets};

/// Interval between two checks of the progress.
const CHECK_EVERY: Duration = Duration::from_millis(100);

pub(crate) async fn run(global: &Global, args: &Scrape) -> Result<Exit, Error> {
    let names = tweet::usernames(&args.users.join(",")).map_err(|errors| {
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Error::usage(errors.join("; "))
    })?;
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    tweets::apply_settings(global, &opened.store, tweets::Takeover::KeyOnly).await?;
    let request = ScrapeRequest {
        public_id: patra_api::key::random_uuid()
            .map_err(|error| Error::unexpected(format!("the system gives no random bytes: {error}")))?,
        project_key: store::project(global, &*opened.store).await?,
        usernames: names,
        limit: args.limit,
        trigger_type: TriggerType::Manual,
        request_id: None,
        upstream: tweets::upstream()?,
    };
    let counts = Arc::new(Counts::default());
    let store = Arc::clone(&opened.store);
    let settings = crate::cli::Engine { concurrency: 1, lease_secs: 60, retention_days: 0 };
    let engine =
        host::engine(global, settings, vec![EngineRole::Polls], opened.store, opened.alone, counts.clone()).await?;
    scrape::begin(&store, &request).await.map_err(refused)?;
    engine.nudge();
    let status = wait(&*store, &request.public_id, &counts, &signals).await;
    engine.stop(signals.hurry.clone()).await;
    report(global, &status?)
}

fn refused(error: scrape::Error) -> Error {
    match error {
        scrape::Error::Store(error) => error.into(),
        scrape::Error::NotConfigured(why) => Error::configuration(why),
        error => Error::failed(error.to_string()),
    }
}

async fn wait(store: &dyn Store, id: &str, counts: &Arc<Counts>, signals: &Signals) -> Result<ScrapeStatus, Error> {
    let bar = Bar::new(Arc::clone(counts));
    let status = loop {
        let status = scrape::status(store, None, id).await?;
        let status = status.ok_or_else(|| Error::unexpected("the scrape is not in the ledger any more"))?;
        bar.show(status.current as u64, status.total as u64);
        if status.is_finished() || signals.stop.is_cancelled() {
            break status;
        }
        tokio::select! {
            () = signals.stop.cancelled() => {}
            () = tokio::time::sleep(CHECK_EVERY) => {}
        }
    };
    bar.end();
    Ok(status)
}

fn report(global: &Global, status: &ScrapeStatus) -> Result<Exit, Error> {
    let Some(result) = &status.result else {
        return Err(Error::failed("stopped before the scrape was done")
            .hint("`patra collect` or `patra serve` finishes it; `patra get jobs` shows it"));
    };
    let number = |name: &str| result[name].as_u64().unwrap_or_default();
    let text = format!(
        "{} of {} users: {} tweets, {} new, {} known, {} errors in {} s",
        number("successful_users"),
        number("total_users"),
        number("total_tweets"),
        number("new_tweets"),
        number("skipped_tweets"),
        number("total_errors"),
        result["elapsed_seconds"]
    );
    output::result(global.output, &text, &status.to_json())?;
    for user in result["users"].as_array().into_iter().flatten().filter(|user| user["success"] == false) {
        say(&format!("  {}: {}", name(user), user["error_code"].as_str().unwrap_or("failed")));
    }
    if let Some(error) = &status.error {
        say(&format!(
            "  {}: {}",
            error["code"].as_str().unwrap_or_default(),
            error["message"].as_str().unwrap_or_default()
        ));
    }
    let clean = status.status == "completed" && number("failed_users") == 0;
    Ok(if clean { Exit::Ok } else { Exit::Failures })
}

fn name(user: &Value) -> &str {
    user["username"].as_str().unwrap_or_default()
}
