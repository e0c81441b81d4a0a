//! `run`: creates a job, does the work here, shows progress, and exits when it is done.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::json;

use patra_core::params::Params;
use patra_core::port::query::{Cell, JobProgress, View, ViewFilter};
use patra_core::port::{Clock as _, CommandsExt, Store};
use patra_core::state::{JobStatus, Operation, PauseKind, TaskStatus, TriggerType};
use patra_core::tx::{PartitionKey, RequestJob};
use patra_engine::job_request::{self, JobRequest};
use patra_engine::operations::{self, EndpointWork, PausedView, WaitReason};
use patra_engine::registry::{self, Overrides};

use crate::cli::{Global, Run};
use crate::clock::SystemClock;
use crate::error::{Error, Exit};
use crate::progress::{Bar, Counts, say};
use crate::signals::Signals;
use crate::{host, output, store};

pub(crate) async fn run(global: &Global, args: &Run) -> Result<Exit, Error> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Error::usage("--from must be before --to"));
    }
    let signals = Signals::listen()?;
    let opened = store::open(global).await?;
    let store = opened.store;
    let (fire, rate_key) = trigger(global, &*store, args).await?;
    let public_id = format!("run-{}", host::random_hex::<8>()?);
    let job = Job { store: Arc::clone(&store), public_id, fire, rate_key };
    let counts = Arc::new(Counts::default());
    if args.no_wait {
        job.fire().await?;
        output::result(global.output, &job.public_id, &json!({ "public_id": job.public_id }))?;
        return Ok(Exit::Ok);
    }
    let partition = PartitionKey {
        provenance_code: job.fire.provenance_code.clone(),
        endpoint_name: job.fire.endpoint_name.clone(),
        operation: job.fire.operation,
    };
    let engine = host::engine_for(global, args.engine, partition, store, opened.alone, counts.clone()).await?;
    job.fire().await?;
    engine.nudge();
    let finished = job.wait(&counts, &signals).await;
    engine.stop(signals.hurry.clone()).await;
    match finished? {
        Some(progress) => job.report(global, &counts, &progress).await,
        None => Err(Error::failed("stopped before the work was done")
            .hint("run the same command again: it continues where it stopped")),
    }
}

/// Checks the request, so that a typing mistake fails at once and not as a failed job.
async fn trigger(global: &Global, store: &dyn Store, args: &Run) -> Result<(RequestJob, String), Error> {
    let mut params = Params::new();
    for (name, value) in &args.params {
        if params.insert(name.clone(), value.clone()).is_some() {
            return Err(Error::usage(format!("--param {name} is given twice")));
        }
    }
    let overrides = Overrides::parse(&args.overrides).map_err(|problems| Error::usage(problems.to_string()))?;
    let project_key = store::project(global, store).await?;
    let request = JobRequest {
        project: &project_key,
        provenance: &args.provenance,
        endpoint: &args.endpoint,
        operation: args.operation,
        reason: args.reason,
        activity: args.activity.as_deref(),
        from: args.from,
        to: args.to,
        params: &params,
        overrides: &overrides,
        priority: args.priority,
    };
    let checked = job_request::check(store, &request).await.map_err(refused)?;
    let fire = RequestJob {
        public_id: String::new(),
        trigger_type: TriggerType::Manual,
        project_key,
        provenance_code: checked.provenance_code,
        endpoint_name: checked.endpoint_name,
        operation: args.operation,
        reason: args.reason,
        activity: args.activity.clone(),
        window_from: args.from,
        window_to: args.to,
        priority: args.priority,
        params: checked.params,
        overrides: checked.overrides,
    };
    Ok((fire, checked.rate_key))
}

/// A problem with the request is a wrong command line, not a wrong manifest.
fn refused(error: registry::Error) -> Error {
    match &error {
        registry::Error::Problems(problems) if problems.iter().all(|one| is_of_request(&one.path)) => {
            Error::usage(error.to_string())
        }
        _ => error.into(),
    }
}

fn is_of_request(path: &str) -> bool {
    path.starts_with("trigger") || path.starts_with("--set")
}

/// Intervals between two checks of the progress: short at first, then four times a second. With many tasks or
/// partitions a check is expensive, so the checks take at most a tenth of the time.
const AT_FIRST: Duration = Duration::from_millis(20);
const OFTEN: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(3);
const REST: u32 = 9;
/// Open tasks are counted up to this, in each state.
const OPEN_AT_MOST: u32 = 50;
/// With at most this many tasks left, the end is near.
const FEW: u64 = 8;

/// After this long without a running task, the reason is printed.
const QUIET: Duration = Duration::from_secs(2);

struct Job {
    store: Arc<dyn Store>,
    public_id: String,
    fire: RequestJob,
    /// Key of the rate gate that its requests pass.
    rate_key: String,
}

impl Job {
    async fn fire(&self) -> Result<(), Error> {
        self.store.run(RequestJob { public_id: self.public_id.clone(), ..self.fire.clone() }).await?;
        Ok(())
    }

    /// Waits until the endpoint has no work left, or a signal arrives. Work that an earlier, interrupted run left in
    /// the queue counts too.
    async fn wait(&self, counts: &Arc<Counts>, signals: &Signals) -> Result<Option<JobProgress>, Error> {
        let bar = Bar::new(Arc::clone(counts));
        let mut pause = AT_FIRST;
        let (mut quiet_since, mut printed) = (None, None);
        let end = loop {
            if signals.stop.is_cancelled() {
                break None;
            }
            let (ended, began) = (counts.ended(), SystemClock.steady());
            let (mut rest, mut last) = (pause, 1);
            if let Ok(Some(progress)) = self.store.progress(&self.public_id).await {
                let left = self.open_tasks().await.unwrap_or(1);
                bar.show(progress.tasks_ended(), progress.tasks().max(progress.tasks_ended() + left));
                bar.show_partitions(progress.partitions_ended(), progress.partitions);
                if progress.is_finished() && left == 0 {
                    break Some(progress);
                }
                if progress.tasks_active == 0 && self.blocking_pause(&progress).await?.is_some() {
                    break Some(progress);
                }
                let now = SystemClock.steady();
                if progress.tasks_active > 0 {
                    quiet_since = None;
                } else if now.since(*quiet_since.get_or_insert(began)) >= QUIET {
                    quiet_since = None;
                    self.print_wait(&mut printed).await;
                }
                rest = pause.max((now.since(began) * REST).min(SELDOM));
                let all_known = progress.job_status.is_final() && progress.partitions_waiting == 0;
                last = if all_known && left < u64::from(OPEN_AT_MOST) { left.max(1) } else { u64::MAX };
            }
            tokio::select! {
                () = signals.stop.cancelled() => {}
                () = tokio::time::sleep(rest) => pause = (pause * 2).min(OFTEN),
                // As many tasks ended as were left: the last one may be among them. Wait a little all the same.
                () = async {
                    tokio::time::sleep(AT_FIRST).await;
                    counts.until_ended(ended.saturating_add(last)).await;
                } => (pause, quiet_since) = (if last > FEW { pause } else { AT_FIRST }, None),
            }
        };
        bar.end();
        Ok(end)
    }

    /// Prints why no task runs and until when, whenever that changes: a command that waits must not be silent.
    async fn print_wait(&self, printed: &mut Option<WaitReason>) {
        let RequestJob { provenance_code, endpoint_name, .. } = &self.fire;
        let wait = operations::waits(&*self.store, &SystemClock, provenance_code, endpoint_name, &self.rate_key).await;
        if let Ok(Some(wait)) = wait
            && printed.as_ref() != Some(&wait)
        {
            match wait.until {
                Some(until) => say(&format!("  waiting until {}: {}", until.to_short_text(), wait.why)),
                None => say(&format!("  waiting: {}", wait.why)),
            }
            *printed = Some(wait);
        }
    }

    fn work(&self) -> EndpointWork<'_> {
        let RequestJob { provenance_code, endpoint_name, operation, .. } = &self.fire;
        EndpointWork { provenance: provenance_code, endpoint: endpoint_name, operation: *operation }
    }

    /// The pause that stops all of this work, if there is one. Paused work does not end by itself, so nobody waits for
    /// it. A pause on a credential that only others use does not count.
    async fn blocking_pause(&self, progress: &JobProgress) -> Result<Option<PausedView>, Error> {
        let has_tasks = progress.job_status.is_final() || progress.tasks_queued > 0;
        Ok(operations::blocking_pause(&*self.store, &SystemClock, self.work(), has_tasks).await?)
    }

    /// Tasks of this endpoint that have not ended. Counted up to a limit: only zero matters.
    async fn open_tasks(&self) -> Result<u64, Error> {
        let mut open = 0;
        for status in [TaskStatus::Queued, TaskStatus::Dispatched, TaskStatus::Executing] {
            open += self.tasks(status, OPEN_AT_MOST).await?.len() as u64;
        }
        Ok(open)
    }

    async fn tasks(&self, status: TaskStatus, limit: u32) -> Result<Vec<patra_core::port::query::ViewRow>, Error> {
        let filter = ViewFilter {
            provenance_code: Some(self.fire.provenance_code.clone()),
            endpoint_name: Some(self.fire.endpoint_name.clone()),
            status: Some(status.as_str().to_owned()),
            limit,
            ..ViewFilter::default()
        };
        Ok(self.store.list(View::Tasks, filter).await?)
    }

    async fn report(&self, global: &Global, counts: &Counts, progress: &JobProgress) -> Result<Exit, Error> {
        let remark = progress.remarks.as_deref().and_then(remark_text);
        if progress.job_status == JobStatus::Failed {
            let reason = remark.unwrap_or_else(|| "the reason is not recorded".into());
            return Err(Error::configuration(format!("the work could not be planned: {reason}"))
                .hint("fix the manifest and apply it again"));
        }
        let get = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
        let cursor = self.cursor(progress).await?;
        // Tasks of an earlier, interrupted run count too if they ended here.
        let unverified = progress.tasks_unverified.max(get(&counts.tasks_unverified));
        let value = json!({
            "public_id": self.public_id,
            "pages": get(&counts.pages),
            "inserted": get(&counts.inserted),
            "updated": get(&counts.updated),
            "skipped": get(&counts.skipped),
            "unchanged": counts.unchanged(),
            "out_of_window": get(&counts.out_of_window),
            "filtered": get(&counts.filtered),
            "rejected": get(&counts.rejected),
            "throttled": get(&counts.throttled),
            "partitions": progress.partitions,
            "partitions_failed": progress.partitions_failed,
            "tasks_succeeded": progress.tasks_succeeded,
            "tasks_failed": progress.tasks_failed,
            "tasks_partial": progress.tasks_partial,
            "slices_unverified": unverified,
            "missing": get(&counts.missing),
            "missing_unmarked": counts.unmarked(),
            "cursor": cursor,
            "remark": remark,
        });
        let mut text = format!(
            "{} new, {} changed, {} unchanged records in {} pages",
            get(&counts.inserted),
            get(&counts.updated),
            counts.unchanged(),
            get(&counts.pages)
        );
        if progress.partitions > 0 {
            text.push_str(&format!(" of {} partitions", progress.partitions));
        }
        text.push_str(&skipped(get(&counts.out_of_window), get(&counts.filtered)));
        if get(&counts.missing) > 0 {
            text.push_str(&format!("; {} missing", get(&counts.missing)));
        }
        if let Some(cursor) = &cursor {
            text.push_str(&match unverified {
                0 => format!("; read up to {cursor}, all verified"),
                1 => format!("; read up to {cursor}, 1 slice unverified"),
                slices => format!("; read up to {cursor}, {slices} slices unverified"),
            });
        }
        if let (0, 0, Some(remark)) = (get(&counts.pages), get(&counts.tasks_failed), &remark) {
            text = match progress.partitions {
                0 => format!("nothing to do: {remark}"),
                many => format!("nothing new in {many} partitions"),
            };
        }
        output::result(global.output, &text, &value)?;
        if let (true, Some(remark)) = (progress.remarks.as_deref().is_some_and(left_out), &remark) {
            say(remark);
        }
        if unverified > 0 {
            say("unverified: nothing shows whether records moved between two pages while they were read; \
                 `pagination.verify: twice` reads until two passes agree");
        }
        for reason in counts.unmarked() {
            say(&format!("no record was marked as missing: {reason}"));
        }
        if get(&counts.rejected) > 0 {
            say(&format!("{} records are unusable: `patra get quarantine` shows why", get(&counts.rejected)));
        }
        if progress.partitions_failed > 0 {
            let first = self.first_refusal().await?;
            let message = format!(
                "{} of {} partitions could not be planned{first}",
                progress.partitions_failed, progress.partitions
            );
            return Err(Error::failed(message).hint("`patra get jobs --status FAILED -o json` shows why"));
        }
        // Tasks of an earlier, interrupted run count too if they failed here.
        let bad = (progress.tasks_failed + progress.tasks_partial).max(get(&counts.tasks_failed));
        if bad > 0 {
            let first = self.first_error().await?;
            let message = format!("{bad} of {} slices failed{first}", progress.tasks().max(bad));
            let pause = operations::pause_after_failure(&*self.store, &SystemClock, self.work()).await?;
            return Err(Error::failed(message).hint(match pause {
                Some(pause) => format!("the rest is halted; fix the cause, then `patra resume hold {}`", pause.hold),
                None => {
                    "`patra get tasks --status FAILED -o json`, or PARTIAL, shows why; the next run reads them again"
                        .to_owned()
                }
            }));
        }
        if let Some(pause) = self.blocking_pause(progress).await? {
            let PausedView { hold, kind, subject, reason, .. } = pause;
            let word = if kind == PauseKind::Break.as_str() { "halted" } else { "paused" };
            let message = format!("the work is {word} ({kind}, {subject}): {reason}");
            if !progress.is_finished() {
                let hint = format!("`patra resume hold {hold}` resumes it; the job stays queued until then");
                return Err(Error::failed(message).hint(hint));
            }
            // The job is done; windows of earlier jobs wait.
            say(&format!("earlier windows of this endpoint wait: {message}; `patra resume hold {hold}` resumes them"));
        }
        if progress.tasks_cancelled > 0 {
            let message = format!("{} of {} slices were cancelled", progress.tasks_cancelled, progress.tasks());
            return Err(Error::failed(message).hint("the next run plans their windows again"));
        }
        Ok(Exit::Ok)
    }

    /// The reason of the newest failed slice.
    async fn first_error(&self) -> Result<String, Error> {
        for status in [TaskStatus::Failed, TaskStatus::Partial] {
            let rows = self.tasks(status, 1).await?;
            if let Some(Cell::Json(error)) = rows.first().and_then(|row| View::Tasks.cell(row, "error")) {
                let error: serde_json::Value = serde_json::from_str(&error).unwrap_or_default();
                return Ok(format!(
                    "; the last one because {}",
                    error["message"].as_str().unwrap_or("of an unknown reason")
                ));
            }
        }
        Ok(String::new())
    }

    /// The reason of the newest partition that could not be planned.
    async fn first_refusal(&self) -> Result<String, Error> {
        let filter = ViewFilter {
            provenance_code: Some(self.fire.provenance_code.clone()),
            endpoint_name: Some(self.fire.endpoint_name.clone()),
            status: Some(JobStatus::Failed.as_str().to_owned()),
            limit: 1,
            ..ViewFilter::default()
        };
        let rows = self.store.list(View::Jobs, filter).await?;
        let remarks = rows.first().and_then(|row| View::Jobs.cell(row, "record_remarks"));
        let Some(Cell::Json(remarks)) = remarks else { return Ok(String::new()) };
        Ok(remark_text(&remarks).map(|reason| format!("; the last one because {reason}")).unwrap_or_default())
    }

    /// The endpoint's cursor, if it has only one: params and partitions have their own.
    async fn cursor(&self, progress: &JobProgress) -> Result<Option<String>, Error> {
        // The cursor of a backfill moves the other way, and an update has no window.
        if progress.partitions > 0 || self.fire.params != "{}" || self.fire.operation != Operation::Harvest {
            return Ok(None);
        }
        let filter = ViewFilter {
            provenance_code: Some(self.fire.provenance_code.clone()),
            endpoint_name: Some(self.fire.endpoint_name.clone()),
            limit: ViewFilter::MAX_LIMIT,
            ..ViewFilter::default()
        };
        let rows = self.store.list(View::Cursors, filter).await?;
        let harvest = Some(Cell::Text(Operation::Harvest.as_str().to_owned()));
        let own = rows.iter().find(|row| View::Cursors.cell(row, "operation_code") == harvest);
        let at = own.and_then(|row| View::Cursors.cell(row, "normalized_instant"));
        Ok(if let Some(Cell::Time(at)) = at { Some(at.to_short_text()) } else { None })
    }
}

/// The records that were read and not stored, with the reasons.
pub(super) fn skipped(out_of_window: u64, filtered: u64) -> String {
    let reason = |count: u64, why: &str| (count > 0).then(|| format!("{count} {why}"));
    let reasons = [reason(out_of_window, "outside their window"), reason(filtered, "left out by record.filter")];
    let reasons: Vec<_> = reasons.into_iter().flatten().collect();
    if reasons.is_empty() { String::new() } else { format!("; skipped: {}", reasons.join(", ")) }
}

/// Whether some records of the parent named no partition.
fn left_out(remarks: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(remarks).is_ok_and(|remarks| remarks["skipped"].as_u64() > Some(0))
}

/// The sentence in the JSON of remarks.
fn remark_text(remarks: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(remarks).ok()?;
    ["error", "remark"].iter().find_map(|key| value[*key].as_str()).map(str::to_owned)
}
