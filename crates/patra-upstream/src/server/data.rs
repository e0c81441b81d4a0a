//! The answer to one data request: which fault falls on it, or the page.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Buf;
use tokio::time::{self, Instant};

use super::access;
use super::head::Head;
use super::log::LogEntry;
use super::reply::{Body, Ending, Pace, Reply};
use super::state::State;
use super::target::Route;
use crate::content::{Content, Refused};
use crate::paging::Listing;
use crate::query::Query;
use crate::script::{Auth, RetryAfter, Script, TruncateMode};
use crate::shapes::{export, graphql, issues, notes, tweets};
use crate::stats::Outcome;
use crate::time::http_date;
use crate::{details, family};

/// Of a body, in the log.
const LOGGED_BYTES: usize = 4096;

/// How often somebody who is late looks whether he still has to be.
const LATE_STEP: Duration = Duration::from_millis(10);

/// Counts, waits, answers, remembers.
pub(super) async fn answer(state: &State, head: &Head<'_>, body: &[u8], route: Route<'_>) -> Reply {
    let number = state.next_number();
    let arrived = Instant::now();
    if state.gate.is_early(arrived) {
        state.counters.too_early.fetch_add(1, Relaxed);
    }
    let script = state.script();
    if script.latency_ms > 0 {
        time::sleep(Duration::from_millis(script.latency_ms)).await;
    }
    if let Some(pause) = notes::pause(&script, body).filter(|_| matches!(route, Route::Notes(_))) {
        time::sleep(Duration::from_millis(pause)).await;
    }
    let mut nth = 0;
    if let Route::Tweets(door) = route {
        let subject = tweets::subject(door, &Query::parse(head.path_and_query().1));
        nth = state.next_of(&subject);
        let late = || tweets::pause(&state.script().tweets, &subject, nth).map(Duration::from_millis);
        // Until then, or until the script says so no longer.
        while late().is_some_and(|pause| arrived.elapsed() < pause) {
            time::sleep(LATE_STEP).await;
        }
    }
    let (outcome, mut reply) = Exchange { state, script: &script, head, body, number, nth }.decide(route);
    if script.slow.falls_on(number) {
        let pause = Duration::from_millis(script.slow_pause_ms);
        reply.pace = Some(Pace { chunk_bytes: script.slow_chunk_bytes.max(1), pause });
    }
    state.counters.ended(outcome);
    state.counters.bytes.fetch_add(reply.body.remaining() as u64, Relaxed);
    if script.log_limit > 0 {
        let at = arrived.duration_since(state.started);
        let body = String::from_utf8_lossy(&body[..body.len().min(LOGGED_BYTES)]).into_owned();
        let header = |name: &str| head.header(name).map(str::to_owned);
        let entry = LogEntry {
            number,
            target: head.target.to_owned(),
            at,
            status: reply.status,
            body,
            traceparent: header("traceparent"),
            correlation: header("x-ingest-correlation-id"),
        };
        state.log.push(entry, script.log_limit);
    }
    reply
}

/// The wall clock, since 1970: a `Date` and a dated `Retry-After` are read by other clocks than ours.
#[expect(clippy::disallowed_methods, reason = "the far side is a party of its own, with a clock of its own")]
pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

struct Exchange<'a> {
    state: &'a State,
    script: &'a Script,
    head: &'a Head<'a>,
    body: &'a [u8],
    number: u64,
    /// Which request for its user it is, at the provider of tweets.
    nth: u64,
}

impl Exchange<'_> {
    fn decide(&self, route: Route<'_>) -> (Outcome, Reply) {
        let (script, number) = (self.script, self.number);
        let query = Query::parse(self.head.path_and_query().1);
        if !self.is_authorized(&query) {
            return (Outcome::R401, Reply::error(401, "unauthorized", "the credential is missing or wrong"));
        }
        if !access::is_allowed(self.state, script, self.head, &query, self.body) {
            return self.unauthorized();
        }
        if script.reset.falls_on(number) {
            let mut reply = Reply::new(0, Body::from(Vec::new()));
            reply.ending = Ending::Reset;
            return (Outcome::Reset, reply);
        }
        let over = self.state.gate.is_over(Instant::now(), script.rate_per_sec);
        if over || script.e429.falls_on(number) {
            return (Outcome::R429, self.too_many());
        }
        if script.e500.falls_on(number) {
            return (Outcome::R500, Reply::error(500, "internal", "failed on purpose"));
        }
        self.serve(route, &query)
    }

    fn is_authorized(&self, query: &Query) -> bool {
        let header = self.script.require_header.as_ref();
        let key = self.script.require_query.as_ref();
        header.is_none_or(|(name, value)| self.head.header(name) == Some(value))
            && key.is_none_or(|(name, value)| query.get(name) == Some(value))
    }

    fn too_many(&self) -> Reply {
        let reply = Reply::error(429, "too_many_requests", "slow down");
        let (value, wait) = match self.script.retry_after {
            RetryAfter::Absent => return reply,
            RetryAfter::Seconds(secs) => (secs.to_string(), Duration::from_secs(secs)),
            RetryAfter::HttpDate(secs) => {
                let now = wall_clock();
                let then = now.as_secs() + secs + u64::from(now.subsec_nanos() > 0);
                (http_date(then as i64), Duration::from_secs(then).saturating_sub(now))
            }
        };
        self.state.gate.tell(Instant::now(), wait);
        reply.with_header("Retry-After", &value)
    }

    fn unauthorized(&self) -> (Outcome, Reply) {
        let why = "the credential is missing, wrong or no longer good";
        if self.script.auth_status == 403 {
            return (Outcome::R403, Reply::error(403, "forbidden", why));
        }
        let reply = Reply::error(401, "unauthorized", why);
        let scheme = match self.script.auth {
            Auth::OAuth => "Bearer error=\"invalid_token\"",
            Auth::Bearer { .. } => "Bearer",
            Auth::Basic { .. } => "Basic realm=\"far side\"",
            _ => return (Outcome::R401, reply),
        };
        (Outcome::R401, reply.with_header("WWW-Authenticate", scheme))
    }

    fn serve(&self, route: Route<'_>, query: &Query) -> (Outcome, Reply) {
        let content = match self.content(route, query) {
            Ok(content) => content,
            Err(Refused { status, code, message, body }) => {
                let outcome = match status {
                    401 => Outcome::R401,
                    403 => Outcome::R403,
                    429 => return (Outcome::R429, self.too_many()),
                    500.. => Outcome::R500,
                    _ => Outcome::Bad,
                };
                let reply = body.map(|body| Reply::json(status, body));
                return (outcome, reply.unwrap_or_else(|| Reply::error(status, code, &message)));
            }
        };
        let mut reply = Reply::new(200, Body::from(content.parts));
        reply.content_type = content.content_type;
        for (name, value) in &content.headers {
            reply = reply.with_header(name, value);
        }
        let outcome = self.spoil(&mut reply);
        if outcome == Outcome::Ok {
            self.state.counters.records.fetch_add(content.records as u64, Relaxed);
        }
        (outcome, reply)
    }

    fn content(&self, route: Route<'_>, query: &Query) -> Result<Content, Refused> {
        let host = self.head.header("host").filter(|host| is_plain_host(host)).map(|host| format!("http://{host}"));
        let base_url = host.as_deref().unwrap_or(&self.state.base_url);
        let listing = Listing { dataset: &self.state.dataset, script: self.script, number: self.number, base_url };
        match route {
            Route::Listing(endpoint) => listing.page(endpoint, query).map(Content::from),
            Route::Ids(endpoint) => listing.ids(endpoint, query).map(Content::from),
            Route::Details => details::details(&listing, query, self.body),
            Route::Detail(id) => details::detail(&listing, id),
            Route::Users => family::users(&listing, query),
            Route::Posts { user } => family::posts(&listing, query, user),
            Route::Comments { user, post } => family::comments(&listing, query, user, post),
            Route::Issues => issues::issues(&listing, query),
            Route::GraphQl => Ok(graphql::answer(&listing, self.body)),
            Route::Export => export::export(&listing, query, self.head.header("X-Api-Key")),
            Route::Notes(door) => notes::answer(self.script, door, self.head.header("Cookie"), self.body),
            Route::Tweets(door) => {
                let key = self.head.header("X-API-Key");
                let request = tweets::Request { door, key, query, body: self.body, nth: self.nth };
                tweets::answer(&self.script.tweets, &request)
            }
        }
    }

    /// The faults that need a page to spoil.
    fn spoil(&self, reply: &mut Reply) -> Outcome {
        if self.script.truncate.falls_on(self.number) {
            reply.body.truncate(reply.promised / 2);
            match self.script.truncate_mode {
                TruncateMode::Close => reply.ending = Ending::Cut,
                TruncateMode::Cut => reply.promised = reply.body.remaining(),
            }
            Outcome::Truncated
        } else if self.script.oversize.falls_on(self.number) {
            reply.body.pad((self.script.oversize_mib as usize) << 20);
            reply.promised = reply.body.remaining();
            Outcome::Oversized
        } else {
            Outcome::Ok
        }
    }
}

/// What may be put into a link unseen.
fn is_plain_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}
