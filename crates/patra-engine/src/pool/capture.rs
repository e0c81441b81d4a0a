//! Captures URLs of running tasks: by job type, page by page.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use patra_connectors::links::{LinkFinder, LinkOptions};
use patra_core::Ts;
use patra_core::port::Store;
use patra_core::port::pool::CaptureRule;
use patra_core::project::Library;
use patra_core::protocol::run::FetchedPage;
use patra_core::tx::{Capture, MAX_CAPTURED, TxError, WriteNote};

use super::options;
use crate::shared::{Shared, lock};
use crate::{registry, scrape};

/// Longest time until a rule change takes effect: less than the minute of POOL-70.
const LOOK_EVERY: Duration = Duration::from_secs(20);
/// The same for the first page of a task.
const LOOK_AT_START: Duration = Duration::from_secs(1);

/// Capture rules, cached for a moment.
#[derive(Debug, Default)]
pub(crate) struct CaptureRules {
    known: Mutex<CachedCaptureRules>,
    /// Pages whose URLs could not be stored.
    pub(crate) failures: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct CachedCaptureRules {
    read_at: Option<Ts>,
    /// By project and job type.
    wanted: BTreeMap<(String, String), Library>,
    options: LinkOptions,
}

impl CaptureRules {
    /// Counts and logs a page whose URLs are missing in the pool; `look-back` finds them again.
    pub(crate) fn failed(&self, job_type: &str, error: &str) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(job_type, error, "the URLs of a page could not be captured; `patra pool look-back` finds them");
    }

    /// The library and link options for URLs of this job type, if any; read again when older than `patience`.
    pub(crate) async fn library(
        &self,
        store: &dyn Store,
        now: Ts,
        patience: Duration,
        project_key: &str,
        job_type: &str,
    ) -> Result<Option<(Library, LinkOptions)>, TxError> {
        let is_old = lock(&self.known).read_at.is_none_or(|at| now.since(at) >= patience);
        if is_old {
            let rules = store.capture_rules(None).await?;
            let wanted = rules.into_iter().filter(|rule| rule.enabled).map(wanted).collect();
            let options = options(store).await?;
            *lock(&self.known) = CachedCaptureRules { read_at: Some(now), wanted, options };
        }
        let key = (project_key.to_owned(), job_type.to_owned());
        let known = lock(&self.known);
        Ok(known.wanted.get(&key).map(|library| (*library, known.options)))
    }
}

fn wanted(rule: CaptureRule) -> ((String, String), Library) {
    ((rule.project_key, rule.job_type), rule.library)
}

/// Every job type of a project: those in its ledger, and those that it can request.
pub async fn job_types(store: &dyn Store, project_key: &str) -> Result<BTreeSet<String>, TxError> {
    let mut known: BTreeSet<_> = store.job_types(project_key).await?.into_iter().collect();
    let connectors = registry::resources(store).await?.into_iter();
    known.extend(
        connectors.filter(|found| registry::is_for(found.project(), Some(project_key))).map(|found| found.code),
    );
    known.extend(patra_core::source::TYPES.iter().map(|(name, _)| (*name).to_owned()));
    known.insert(scrape::JOB_TYPE.to_owned());
    Ok(known)
}

/// Adds the URLs of a page to it, where a rule wants them. An error here does not stop the page (POOL-88).
pub(crate) async fn capture(
    shared: &Shared,
    project_key: &str,
    job_type: &str,
    is_first: bool,
    page: &mut FetchedPage,
) {
    let now = shared.ports.clock.steady();
    let patience = if is_first { LOOK_AT_START } else { LOOK_EVERY };
    let (library, options) =
        match shared.capture.library(&*shared.ports.store, now, patience, project_key, job_type).await {
            Ok(Some(known)) => known,
            Ok(None) => return,
            Err(error) => return shared.capture.failed(job_type, &error.to_string()),
        };
    let mut finder = LinkFinder::new(options);
    for record in &page.records {
        finder.json(&record.fields);
        finder.json(&record.payload);
    }
    for candidate in &page.candidates {
        finder.text(&candidate.id);
    }
    page.capture = found(finder, library, job_type);
}

/// The URLs of a search for one transaction; a surplus is left out and logged.
fn found(finder: LinkFinder, library: Library, job_type: &str) -> Option<Capture> {
    let found = finder.finish();
    let mut urls: Vec<_> = found.links.into_iter().map(|link| (link.url, link.domain)).collect();
    if urls.len() > MAX_CAPTURED || found.partial {
        let left_out = urls.len().saturating_sub(MAX_CAPTURED);
        tracing::warn!(job_type, left_out, "a page holds more URLs than are captured of one");
        urls.truncate(MAX_CAPTURED);
    }
    urls.sort();
    (!urls.is_empty()).then(|| Capture { library, job_type: job_type.to_owned(), urls })
}

/// Captures the URLs of a note that is about to be written, where its project has a rule for them.
pub async fn capture_note(store: &dyn Store, write: &mut WriteNote) -> Result<(), TxError> {
    let rules = store.capture_rules(Some(&write.project_key)).await?;
    if let Some(rule) = rules.into_iter().find(|rule| rule.enabled && rule.job_type == write.platform) {
        let mut finder = LinkFinder::new(options(store).await?);
        finder.json(&write.note.payload);
        finder.text(write.note.note_url.as_deref().unwrap_or_default());
        write.capture = found(finder, rule.library, &rule.job_type);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use patra_core::port::CommandsExt as _;
    use patra_core::tx::ConfigureCapture;
    use patra_testkit::clock::ManualClock;
    use patra_testkit::memory::SharedMem;

    use super::*;

    async fn configure(store: &SharedMem, job_type: &str, enabled: bool) {
        let (project_key, job_types) = ("default".to_owned(), vec![job_type.to_owned()]);
        store.run(ConfigureCapture { project_key, library: Library::Project, job_types, enabled }).await.unwrap();
    }

    // covers: POOL-70
    #[tokio::test]
    async fn capture_change_reaches_new_tasks_at_once_and_running_ones_within_a_minute() {
        let store = SharedMem::new(Arc::new(ManualClock::default()));
        let rules = CaptureRules::default();
        let is_captured = async |secs, patience| {
            let found = rules.library(&store, Ts::from_secs(secs), patience, "default", "news").await.unwrap();
            found.is_some()
        };
        assert!(!is_captured(100, LOOK_AT_START).await);
        configure(&store, "news", true).await;
        assert!(is_captured(101, LOOK_AT_START).await, "a task that begins a second later");
        configure(&store, "news", false).await;
        assert!(is_captured(102, LOOK_EVERY).await, "one that runs has not noticed yet");
        assert!(LOOK_EVERY < Duration::from_secs(60));
        assert!(!is_captured(121, LOOK_EVERY).await, "and does within the minute");
    }

    // covers: POOL-AC-09
    #[tokio::test]
    async fn only_enabled_job_types_are_captured() {
        let store = SharedMem::new(Arc::new(ManualClock::default()));
        let rules = CaptureRules::default();
        configure(&store, "news", true).await;
        let library = async |project, job_type| {
            let found = rules.library(&store, Ts::from_secs(1), Duration::ZERO, project, job_type).await.unwrap();
            found.map(|(library, _)| library)
        };
        assert_eq!(library("default", "news").await, Some(Library::Project));
        assert_eq!(library("default", "policy").await, None);
        assert_eq!(library("other", "news").await, None, "nor are they another project's");
    }
}
