//! What a panic says, masked like every other line: its message may quote anything.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;

use patra_core::mask::mask;

pub(crate) fn install() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let mut text = told(thread.name().unwrap_or("<unnamed>"), info);
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\nstack backtrace:\n{trace}"));
        }
        // A stderr that cannot be written is nobody to tell.
        let _ = writeln!(std::io::stderr(), "{text}");
    }));
}

fn told(thread: &str, info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = quoted(info).unwrap_or("no message");
    mask(&format!("thread '{thread}' panicked{place}:\n{message}")).into_owned()
}

/// The message, when it is one.
fn quoted<'a>(info: &'a PanicHookInfo<'_>) -> Option<&'a str> {
    let payload = info.payload();
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // covers: CRAWL-149
    #[test]
    fn a_panic_that_quotes_a_cookie_does_not_show_it() {
        static SAID: Mutex<String> = Mutex::new(String::new());
        // The hook belongs to the process: other tests that panic meanwhile are told of as before.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if quoted(info).is_some_and(|text| text.contains("web_session")) {
                *SAID.lock().unwrap() = told("main", info);
            } else {
                before(info);
            }
        }));
        let caught = std::panic::catch_unwind(|| panic!("cannot parse web_session={}", "0300379a"));
        assert!(caught.is_err());
        let said = SAID.lock().unwrap().clone();
        assert!(said.contains("panicked at") && said.contains("web_session=***REDACTED***"), "{said}");
    }
}
