//! Progress on stderr: a bar on a terminal, nothing elsewhere. Log lines go through the same writer, so that they do
//! not break the bar.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::sync::watch;

use patra_connectors::mask::personal;
use patra_core::Level;
use patra_core::mask::mask;
use patra_core::paging::Verification;
use patra_core::protocol::run::{PageFailure, RunOutcome};
use patra_core::state::TaskStatus;
use patra_engine::{RunEvent, RunListener};

fn display() -> &'static MultiProgress {
    static DISPLAY: OnceLock<MultiProgress> = OnceLock::new();
    DISPLAY.get_or_init(|| {
        let target =
            if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        MultiProgress::with_draw_target(target)
    })
}

/// Prints a line on stderr, above the bar.
pub(crate) fn say(text: &str) {
    display().suspend(|| {
        let _ = writeln!(io::stderr(), "{text}");
    });
}

/// Counts pages, records and runs of this process.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) pages: AtomicU64,
    pub(crate) inserted: AtomicU64,
    pub(crate) updated: AtomicU64,
    pub(crate) skipped: AtomicU64,
    /// Parts of `skipped`; see [`SkipReasons`](patra_core::tx::SkipReasons).
    pub(crate) out_of_window: AtomicU64,
    pub(crate) filtered: AtomicU64,
    pub(crate) rejected: AtomicU64,
    pub(crate) throttled: AtomicU64,
    /// Tasks that ended FAILED or PARTIAL in this process, whichever job they belong to.
    pub(crate) tasks_failed: AtomicU64,
    /// Tasks that succeeded in this process with nothing to show that they are complete, whichever job they belong to.
    pub(crate) tasks_unverified: AtomicU64,
    /// Records that were marked as missing in this process.
    pub(crate) missing: AtomicU64,
    /// Why complete passes marked nothing, each reason once.
    unmarked: Mutex<BTreeSet<String>>,
    /// Runs that ended in this process.
    ended: watch::Sender<u64>,
    last_reason: Mutex<String>,
}

impl Counts {
    /// Prints why something failed, once for each new reason: a command that waits must not be silent.
    fn print_reason(&self, reason: &str) {
        let mut last = self.last_reason.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != reason {
            say(&format!("  {}; trying again", mask(reason)));
            *last = reason.to_owned();
        }
    }

    /// Why complete passes marked nothing.
    pub(crate) fn unmarked(&self) -> Vec<String> {
        let unmarked = self.unmarked.lock().unwrap_or_else(PoisonError::into_inner);
        unmarked.iter().cloned().collect()
    }

    pub(crate) fn ended(&self) -> u64 {
        *self.ended.borrow()
    }

    /// Waits until this many runs have ended.
    pub(crate) async fn until_ended(&self, count: u64) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended >= count).await;
    }

    /// Records that the store had already.
    pub(crate) fn unchanged(&self) -> u64 {
        let left_out = self.out_of_window.load(Relaxed) + self.filtered.load(Relaxed);
        self.skipped.load(Relaxed).saturating_sub(left_out)
    }

    pub(crate) fn records(&self) -> u64 {
        self.inserted.load(Relaxed) + self.updated.load(Relaxed) + self.skipped.load(Relaxed)
    }
}

impl RunListener for Counts {
    fn on(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Committed { stats, .. } => {
                self.pages.fetch_add(1, Relaxed);
                self.inserted.fetch_add(u64::from(stats.inserted), Relaxed);
                self.updated.fetch_add(u64::from(stats.updated), Relaxed);
                self.skipped.fetch_add(u64::from(stats.skipped), Relaxed);
                self.out_of_window.fetch_add(u64::from(stats.skipped_by.out_of_window), Relaxed);
                self.filtered.fetch_add(u64::from(stats.skipped_by.filtered), Relaxed);
                self.rejected.fetch_add(u64::from(stats.failed), Relaxed);
            }
            RunEvent::Throttled { wait, .. } => {
                self.throttled.fetch_add(1, Relaxed);
                if *wait >= Duration::from_millis(500) {
                    say(&format!("  the API demands a pause: waiting {:.1} s", wait.as_secs_f64()));
                }
            }
            RunEvent::Answered { answer: Err(PageFailure { fault, throttled: false, .. }), .. } => {
                if fault.level == Level::L1 {
                    self.print_reason(&fault.message);
                }
            }
            RunEvent::StoreFailed { error, .. } => self.print_reason(&error.to_string()),
            RunEvent::Ended { ended, .. } => {
                if let RunOutcome::Closed(TaskStatus::Failed | TaskStatus::Partial, _) = ended.outcome {
                    self.tasks_failed.fetch_add(1, Relaxed);
                }
                if let RunOutcome::Closed(TaskStatus::Succeeded, _) = ended.outcome
                    && ended.stats.verification == Some(Verification::Unverified)
                {
                    self.tasks_unverified.fetch_add(1, Relaxed);
                }
                self.missing.fetch_add(ended.stats.missing, Relaxed);
                if !ended.stats.missing_unmarked.is_empty() {
                    let mut unmarked = self.unmarked.lock().unwrap_or_else(PoisonError::into_inner);
                    unmarked.insert(ended.stats.missing_unmarked.clone());
                }
                self.ended.send_modify(|ended| *ended += 1);
            }
            RunEvent::Admitted { .. } | RunEvent::Retried { .. } | RunEvent::Answered { .. } => {}
        }
    }
}

/// The progress bar of one command.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    counts: Arc<Counts>,
}

impl Bar {
    pub(crate) fn new(counts: Arc<Counts>) -> Bar {
        let bar = display().add(ProgressBar::new(0));
        if let Ok(style) = ProgressStyle::with_template("  {bar:30} {prefix}{pos}/{len} slices  {msg}  {elapsed}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Bar { bar, counts }
    }

    pub(crate) fn show(&self, done: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(done);
        let rate = self.counts.records() as f64 / self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{} records ({rate:.0}/s)", self.counts.records()));
    }

    /// Shows the number of finished partitions in front of the bar, if there are partitions.
    pub(crate) fn show_partitions(&self, done: u64, all: u64) {
        if all > 0 {
            self.bar.set_prefix(format!("{done}/{all} partitions "));
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Writes log lines to stderr above the bar. Every line passes the masker, whatever its format (CRAWL-149..152).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogWriter;

/// The line without secrets and without anything that looks personal.
fn masked(line: &[u8]) -> String {
    personal(&mask(&String::from_utf8_lossy(line))).into_owned()
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        display().suspend(|| io::stderr().write_all(masked(line).as_bytes()))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> tracing_subscriber::fmt::MakeWriter<'a> for LogWriter {
    type Writer = LogWriter;

    fn make_writer(&'a self) -> LogWriter {
        LogWriter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: ING-14.5-04, ING-14.10-03
    #[test]
    fn log_lines_contain_neither_secrets_nor_personal_data() {
        let line =
            masked(b"2026-11-17T00:04:27.123456Z  WARN a page error=\"no ann@example.org, Bearer canary\" task_id=17");
        assert!(!line.contains("ann@example.org") && !line.contains("canary"), "{line}");
        assert!(
            line.contains("<email:") && line.contains("2026-11-17T00:04:27.123456Z") && line.contains("task_id=17"),
            "{line}"
        );
    }
}
