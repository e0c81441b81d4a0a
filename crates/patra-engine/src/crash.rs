//! Points where a test can make the process die or freeze: before and after every transaction, every request to an
//! upstream and every compilation. They exist only in builds with debug assertions.
//!
//! `PATRA_CRASH_POINT=run.before-CommitBatch:3` aborts the process when it reaches that point for the third time;
//! `PATRA_STOP_POINT` in the same form sends it SIGSTOP; a SIGCONT resumes it there.

/// Takes one step of a part, between the points `part.before-step` and `part.after-step`.
pub(crate) async fn around<F: Future>(part: &str, step: &str, take: impl FnOnce() -> F) -> F::Output {
    side_point(part, "before", step);
    let done = take().await;
    side_point(part, "after", step);
    done
}

#[cfg(not(debug_assertions))]
#[inline]
fn side_point(_part: &str, _side: &str, _step: &str) {}

#[cfg(debug_assertions)]
fn side_point(part: &str, side: &str, step: &str) {
    point(&format!("{part}.{side}-{step}"));
}

/// A point by its full name.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn point(_name: &str) {}

/// A point by its full name.
#[cfg(debug_assertions)]
pub(crate) fn point(name: &str) {
    armed::pass(name);
}

/// The point before a request of a task, as in `task.3`.
#[cfg(not(debug_assertions))]
#[inline]
pub(crate) fn of_task(_task: patra_core::TaskId) {}

/// The point before a request of a task, as in `task.3`.
#[cfg(debug_assertions)]
pub(crate) fn of_task(task: patra_core::TaskId) {
    point(&format!("task.{task}"));
}

#[cfg(debug_assertions)]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static CRASH: LazyLock<Option<Armed>> = LazyLock::new(|| Armed::from_env("PATRA_CRASH_POINT"));
    static STOP: LazyLock<Option<Armed>> = LazyLock::new(|| Armed::from_env("PATRA_STOP_POINT"));

    pub(super) fn pass(name: &str) {
        if STOP.as_ref().is_some_and(|armed| armed.is_due(name)) {
            tracing::error!(name, "stop point");
            stop();
        }
        if CRASH.as_ref().is_some_and(|armed| armed.is_due(name)) {
            tracing::error!(name, "crash point");
            std::process::abort();
        }
    }

    /// Sends SIGSTOP through a shell, because signals have no safe interface. Returns when the process is resumed.
    fn stop() {
        let command = format!("kill -STOP {}", std::process::id());
        if let Err(error) = std::process::Command::new("/bin/sh").args(["-c", &command]).status() {
            tracing::error!(error = %error, "the process cannot be stopped");
        }
    }

    #[derive(Debug)]
    pub(super) struct Armed {
        name: String,
        passages_left: AtomicU64,
    }

    impl Armed {
        fn from_env(variable: &str) -> Option<Armed> {
            let text = std::env::var(variable).ok()?;
            let armed = Armed::parse(&text);
            if armed.is_none() {
                tracing::error!(variable, text, "unreadable: expected a name and a number, as in run.after-EndRun:1");
            }
            armed
        }

        pub(super) fn parse(text: &str) -> Option<Armed> {
            let (name, passage) = text.rsplit_once(':')?;
            let passage = passage.parse().ok().filter(|passage| *passage > 0)?;
            Some(Armed { name: name.to_owned(), passages_left: AtomicU64::new(passage) })
        }

        /// Counts a passage; true at the configured one.
        pub(super) fn is_due(&self, name: &str) -> bool {
            self.name == name && self.passages_left.fetch_sub(1, Relaxed) == 1
        }
    }
}

#[cfg(all(test, debug_assertions))]
mod tests {
    use super::armed::Armed;

    #[test]
    fn a_point_is_due_at_its_own_passage_and_never_again() {
        let armed = Armed::parse("run.after-EndRun:2").unwrap();
        for other in ["run.after-EndRun", "run.before-EndRun", "run.after-StartRun"] {
            assert!(!armed.is_due(other), "{other}");
        }
        assert!(armed.is_due("run.after-EndRun"));
        assert!(!armed.is_due("run.after-EndRun"));
    }

    #[test]
    fn text_without_a_passage_arms_nothing() {
        for text in ["run.after-EndRun", "run.after-EndRun:0", "run.after-EndRun:x", ""] {
            assert!(Armed::parse(text).is_none(), "{text}");
        }
    }
}
