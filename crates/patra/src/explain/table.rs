//! The table itself: every error code, every level, every exit code.

use patra_core::{Code, Level};

use super::Entry;
use crate::error::Exit;

/// Codes that are no [`Code`]: results of a scrape and of a lock have them.
pub(super) const OTHERS: &[Entry] = &[
    Entry {
        name: "ALREADY_RUNNING",
        levels: &[],
        meaning: "Another execution of the same workflow holds the lock, so yours did not start.",
        actions: &[
            "Wait for the other execution. `holder` in the response names it.",
            "If that execution is dead, its lock expires after half an hour. LOCK_TIMEOUT_MINUTES changes that time.",
        ],
    },
    Entry {
        name: "CANCELLED",
        levels: &[],
        meaning: "Somebody cancelled the work before it ended. Everything stored until then stays.",
        actions: &["Start it again if you still need the rest."],
    },
];

/// The entry of an error code.
pub(super) fn code(code: Code) -> Entry {
    let (levels, meaning, actions): (&[Level], &str, &[&str]) = match code {
        Code::InvalidInput => (
            &[Level::L2],
            "The command line, the request to Patra's API or a parameter of a request is wrong.",
            &[
                "Read the message: it names the value and what is expected.",
                "`patra COMMAND --help` lists options and values.",
            ],
        ),
        Code::Unauthorized => (
            &[],
            "The request to Patra's API carries no valid API key.",
            &[
                "Send the header `Authorization: Bearer KEY`.",
                "`patra key list` shows the keys. `patra key create NAME` creates one.",
            ],
        ),
        Code::Forbidden => (
            &[Level::L2],
            "Patra refuses the request: your API key lacks the scope or the project, or the address to collect from is \
             not public.",
            &[
                "For a key: create one with the scope that the message names, such as `patra key create NAME --scope write`.",
                "For a private address: allow its network in `http.allow_net` of the manifest or `allow_net` of the source, or for all sources with `--allow-net` or PATRA_ALLOW_NET.",
                "For a next page on another host: name the host under `allow_hosts` in the manifest.",
            ],
        ),
        Code::NotFound => (
            &[Level::L2],
            "The named object does not exist, or it belongs to another project.",
            &[
                "Check the spelling and the id. `patra get VIEW` and `patra source list` show what exists.",
                "Check `--project` and PATRA_PROJECT.",
            ],
        ),
        Code::TaskConflict => (
            &[Level::L2],
            "The request conflicts with something that exists or is in progress; a cancelled task carries this code too.",
            &[
                "Read `details`: it names the other job, source or credential.",
                "Wait until that is done, or change it instead of adding a new one.",
            ],
        ),
        Code::LockLost => (
            &[Level::L1],
            "A lease or a lock expired, and another process may have taken over the work.",
            &[
                "Nothing, in most cases: the task is queued again and continues from its last batch.",
                "If it happens often, the machine is overloaded or stops for long. Raise `--lease-secs`.",
                "In a workflow of your own: acquire the lock again and send heartbeats more often.",
            ],
        ),
        Code::RateLimited => (
            &[Level::L1],
            "There are too many requests for now: the API returned 429, the rate limit leaves no room, or you call \
             Patra's own API too often.",
            &[
                "Nothing, in most cases: a run waits as long as the API demands and then continues.",
                "If it happens often, lower `rate_limit.refill_rate_per_sec` in the manifest.",
                "`patra get gates` shows the current rates. As a client of Patra, wait for `Retry-After`.",
            ],
        ),
        Code::CookieInvalid => (
            &[Level::L1, Level::L4],
            "The platform rejects a cookie. Patra tries the next one of the same platform.",
            &[
                "Log in again and replace the value: `patra credential rotate NAME`.",
                "`patra crawl list cookies` shows each cookie with its status and errors.",
                "If the cookie is good again: `patra credential reactivate NAME`.",
            ],
        ),
        Code::UpstreamAuthFailed => (
            &[Level::L4],
            "The API rejects the credential, or no access token could be obtained.",
            &[
                "Check the credential: `patra credential check NAME`. Replace it: `patra credential rotate NAME`.",
                "Compare `auth` in the manifest with the documentation of the API.",
                "Resume the halt: `patra get holds` shows its id for `patra resume hold ID`.",
            ],
        ),
        Code::CookieExhausted => (
            &[Level::L1, Level::L4],
            "No cookie of the platform is usable: all are at their daily limit, cooling down, in use, paused, expired, \
             invalid or banned.",
            &[
                "Wait: cooling cookies become active again, and daily limits reset.",
                "Add one: `patra credential add NAME --type cookie --provenance PLATFORM`.",
                "`patra crawl list cookies` shows why each one is not usable.",
            ],
        ),
        Code::QuotaExhausted => (
            &[Level::L4],
            "The quota or the balance of the credential is used up.",
            &[
                "Top up the account, or wait until the quota resets.",
                "Then resume the halt: `patra get holds` shows its id for `patra resume hold ID`.",
            ],
        ),
        Code::NetworkError => (
            &[Level::L1],
            "The server cannot be reached, or the connection broke.",
            &[
                "Nothing, in most cases: the request is tried again with a growing delay.",
                "If it persists: check `http.base_url`, DNS, the proxy and the firewall.",
            ],
        ),
        Code::TimeoutError => (
            &[Level::L1],
            "The server did not respond in time.",
            &[
                "Nothing, in most cases: the request is tried again.",
                "If it persists: raise `http.timeout` or `http.read_timeout`, or request smaller pages.",
            ],
        ),
        Code::PlatformError => (
            &[Level::L1, Level::L2],
            "The server returned an error. A status that may pass, such as 503, is L1; any other, such as 404, is L2.",
            &[
                "L1: nothing, the request is tried again.",
                "L2: compare path, query, headers and body with the documentation of the API. `patra try FILE` shows both \
                 request and response.",
            ],
        ),
        Code::PartialFail => (
            &[Level::L1, Level::L2],
            "Part of the work failed. The rest is stored.",
            &[
                "`patra get tasks --status FAILED -o json`, or PARTIAL, shows why.",
                "Run the same command again: it reads only what is missing.",
            ],
        ),
        Code::RobotsDisallowed => (
            &[Level::L2],
            "The site's robots.txt asks programs like Patra not to request this page, so Patra has not.",
            &[
                "The message names the rule. `User-agent: patra` is the group for Patra, else `User-agent: *`.",
                "Ask the site to allow you, or look for a feed or an API: Patra does not ask robots.txt about those.",
                "If you may read the page: `robots: ignore` in the config of the source, or `http.robots: ignore` in the manifest.",
            ],
        ),
        Code::ParseError => (
            &[Level::L1, Level::L2, Level::L4],
            "The response cannot be read: it has another format, is too large, or lacks the list of records.",
            &[
                "`patra try FILE` shows the beginning of the response.",
                "Compare it with `response.format`, `response.items_path` and the paths under `pagination`.",
                "Fix the manifest, apply it, and resume the endpoint: `patra resume endpoint CODE NAME`.",
            ],
        ),
        Code::ValidationError => (
            &[Level::L3],
            "One record is unusable, for example because it has no id. It goes to the quarantine, and the others are stored.",
            &[
                "`patra get quarantine` shows the records and the reasons.",
                "Fix `id_path`, `updated_at_path` or the fields in the manifest, and collect the window again.",
                "Drop a record for good: `patra quarantine abandon ID`.",
            ],
        ),
        Code::ConfigError => (
            &[Level::L2, Level::L4],
            "A setting is wrong: a manifest, a folder, a database, an address or an environment variable.",
            &[
                "Read the hint below the error.",
                "For manifests: `patra validate FILE` lists every problem with its line.",
            ],
        ),
        Code::InternalError => (
            &[Level::L1, Level::L2, Level::L4],
            "Something unexpected happened inside Patra or its database. Nothing that was stored is lost.",
            &[
                "Try again. If the database was unavailable, the work continues by itself.",
                "If it persists: read the log around the time, with RUST_LOG=debug, and report a bug.",
            ],
        ),
        Code::NotConfigured => (
            &[Level::L4],
            "A secret or a setting is missing. Everything that does not need it keeps working.",
            &[
                "The message names what is missing. Set it, or add the credential: `patra credential add`.",
                "Restart the server after you change its environment.",
            ],
        ),
    };
    Entry { name: code.as_str(), levels, meaning, actions }
}

/// The entry of a level.
pub(super) fn level(level: Level) -> Entry {
    let (meaning, actions): (&str, &[&str]) = match level {
        Level::L1 => (
            "The failure passes by itself. Patra waits, slows down and tries again.",
            &["Nothing, unless it lasts. `patra get errors --level L1` shows how often it happens."],
        ),
        Level::L2 => (
            "The request is wrong, so trying again does not help. The task stops; other tasks continue.",
            &["Fix the manifest or the parameters, apply it, and run the work again."],
        ),
        Level::L3 => (
            "One record is unusable. It goes to the quarantine, and the rest of the batch is stored.",
            &["`patra get quarantine` shows the records and the reasons."],
        ),
        Level::L4 => (
            "The source cannot work until you fix the cause: for example its credential is rejected. Patra halts the \
             credential, the endpoint or the source and raises an alert.",
            &["Fix the cause, then run `patra resume hold ID`. `patra get holds` lists the halts with id and reason."],
        ),
    };
    Entry { name: level.as_str(), levels: &[], meaning, actions }
}

/// The entry of an exit code.
pub(super) fn exit(exit: Exit) -> Entry {
    let (meaning, actions): (&str, &[&str]) = match exit {
        Exit::Ok => ("Success.", &[]),
        Exit::Failures => (
            "The command ran to its end and part of the work failed, it was stopped before its end, or a server is unhealthy.",
            &["Read the error and the hint on stderr. Run the same command again: it continues where it stopped."],
        ),
        Exit::Unexpected => (
            "Something unexpected happened: a bug, or a database that was unavailable.",
            &["Try again. If it persists, report a bug with the message."],
        ),
        Exit::Usage => {
            ("The command line is wrong. Nothing was done.", &["Read the hint, or see `patra COMMAND --help`."])
        }
        Exit::Configuration => (
            "The configuration is wrong: a manifest, a folder, a database, an address, or a name that does not exist. A second \
             process that tries to write to the same embedded database ends with this code too.",
            &["Read the hint on stderr. It names the setting to change."],
        ),
    };
    Entry { name: exit.name(), levels: &[], meaning, actions }
}
