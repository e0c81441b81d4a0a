//! Prints panics, masked like every other line: the message of a panic may quote a secret.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::Write as _;
use std::panic::PanicHookInfo;

use patra_core::mask::mask;

pub(crate) fn install() {
    std::panic::set_hook(Box::new(|info| {
        let thread = std::thread::current();
        let mut text = describe(thread.name().unwrap_or("<unnamed>"), info);
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            text.push_str(&format!("\nstack backtrace:\n{trace}"));
        }
        // If stderr is closed, nobody can read the message anyway.
        let _ = writeln!(std::io::stderr(), "{text}");
    }));
}

fn describe(thread: &str, info: &PanicHookInfo<'_>) -> String {
    let place = info.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let message = message(info).unwrap_or("no message");
    mask(&format!("thread '{thread}' panicked{place}:\n{message}")).into_owned()
}

/// The message of the panic, if it has one.
fn message<'a>(info: &'a PanicHookInfo<'_>) -> Option<&'a str> {
    let payload = info.payload();
    payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    // covers: CRAWL-149
    #[test]
    fn panic_with_a_cookie_in_its_message_is_masked() {
        static PRINTED: Mutex<String> = Mutex::new(String::new());
        // The hook belongs to the process: panics of other tests are printed as before.
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if message(info).is_some_and(|text| text.contains("web_session")) {
                *PRINTED.lock().unwrap() = describe("main", info);
            } else {
                before(info);
            }
        }));
        let caught = std::panic::catch_unwind(|| panic!("cannot parse web_session={}", "0300379a"));
        assert!(caught.is_err());
        let printed = PRINTED.lock().unwrap().clone();
        assert!(printed.contains("panicked at") && printed.contains("web_session=***REDACTED***"), "{printed}");
    }
}
