//! The response to one data request: a fault, or the page.

use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Buf;
use tokio::time::{self, Instant};

use super::access;
use super::head::RequestHead;
use super::log::LogEntry;
use super::reply::{ConnectionEnd, MockReply, ReplyBody, SlowBody};
use super::state::ServerState;
use super::target::DataRoute;
use crate::api_styles::{export, graphql, issues, notes, tweets};
use crate::content::{DataContent, DataError};
use crate::paging::ListRequest;
use crate::query::Query;
use crate::script::{MockAuth, RetryAfter, Script, TruncateMode};
use crate::stats::DataOutcome;
use crate::time::http_date;
use crate::{details, users};

/// Most bytes of a body in the log.
const LOGGED_BYTES: usize = 4096;

/// Interval at which a late response checks whether its fault was removed.
const LATE_STEP: Duration = Duration::from_millis(10);

/// Counts the request, applies delays, builds the reply, and logs it.
pub(super) async fn respond(
    state: &ServerState,
    head: &RequestHead<'_>,
    body: &[u8],
    route: DataRoute<'_>,
) -> MockReply {
    let number = state.next_number();
    let arrived = Instant::now();
    if state.limiter.is_early(arrived) {
        state.counters.too_early.fetch_add(1, Relaxed);
    }
    let script = state.script();
    if script.latency_ms > 0 {
        time::sleep(Duration::from_millis(script.latency_ms)).await;
    }
    if let Some(pause) = notes::pause(&script, body).filter(|_| matches!(route, DataRoute::Notes(_))) {
        time::sleep(Duration::from_millis(pause)).await;
    }
    let mut nth = 0;
    if let DataRoute::Tweets(tweets_route) = route {
        let subject = tweets::subject(tweets_route, &Query::parse(head.path_and_query().1));
        nth = state.next_for_user(&subject);
        let late = || tweets::pause(&state.script().tweets, &subject, nth).map(Duration::from_millis);
        // Waits until then, or until the fault is removed from the script.
        while late().is_some_and(|pause| arrived.elapsed() < pause) {
            time::sleep(LATE_STEP).await;
        }
    }
    let (outcome, mut reply) = DataRequest { state, script: &script, head, body, number, nth }.decide(route);
    if script.slow.applies_to(number) {
        let pause = Duration::from_millis(script.slow_pause_ms);
        reply.slow = Some(SlowBody { chunk_bytes: script.slow_chunk_bytes.max(1), pause });
    }
    state.counters.record(outcome);
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

/// The wall clock since 1970, for `Date` and a dated `Retry-After`, which clients compare with their own clocks.
#[expect(clippy::disallowed_methods, reason = "the mock API has its own clock")]
pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

struct DataRequest<'a> {
    state: &'a ServerState,
    script: &'a Script,
    head: &'a RequestHead<'a>,
    body: &'a [u8],
    number: u64,
    /// Number of the request for its user, at the tweet provider.
    nth: u64,
}

impl DataRequest<'_> {
    fn decide(&self, route: DataRoute<'_>) -> (DataOutcome, MockReply) {
        let (script, number) = (self.script, self.number);
        let query = Query::parse(self.head.path_and_query().1);
        if !self.is_authorized(&query) {
            return (DataOutcome::R401, MockReply::error(401, "unauthorized", "the credential is missing or wrong"));
        }
        if !access::is_allowed(self.state, script, self.head, &query, self.body) {
            return self.unauthorized();
        }
        if script.reset.applies_to(number) {
            let mut reply = MockReply::new(0, ReplyBody::from(Vec::new()));
            reply.ending = ConnectionEnd::Reset;
            return (DataOutcome::Reset, reply);
        }
        let over = self.state.limiter.is_over_limit(Instant::now(), script.rate_per_sec);
        if over || script.e429.applies_to(number) {
            return (DataOutcome::R429, self.too_many());
        }
        if script.e500.applies_to(number) {
            return (DataOutcome::R500, MockReply::error(500, "internal", "failed on purpose"));
        }
        self.serve(route, &query)
    }

    fn is_authorized(&self, query: &Query) -> bool {
        let header = self.script.require_header.as_ref();
        let key = self.script.require_query.as_ref();
        header.is_none_or(|(name, value)| self.head.header(name) == Some(value))
            && key.is_none_or(|(name, value)| query.get(name) == Some(value))
    }

    fn too_many(&self) -> MockReply {
        let reply = MockReply::error(429, "too_many_requests", "slow down");
        let (value, wait) = match self.script.retry_after {
            RetryAfter::Absent => return reply,
            RetryAfter::Seconds(secs) => (secs.to_string(), Duration::from_secs(secs)),
            RetryAfter::HttpDate(secs) => {
                let now = wall_clock();
                let then = now.as_secs() + secs + u64::from(now.subsec_nanos() > 0);
                (http_date(then as i64), Duration::from_secs(then).saturating_sub(now))
            }
        };
        self.state.limiter.set_not_before(Instant::now(), wait);
        reply.with_header("Retry-After", &value)
    }

    fn unauthorized(&self) -> (DataOutcome, MockReply) {
        let why = "the credential is missing, wrong or no longer good";
        if self.script.auth_status == 403 {
            return (DataOutcome::R403, MockReply::error(403, "forbidden", why));
        }
        let reply = MockReply::error(401, "unauthorized", why);
        let scheme = match self.script.auth {
            MockAuth::OAuth => "Bearer error=\"invalid_token\"",
            MockAuth::Bearer { .. } => "Bearer",
            MockAuth::Basic { .. } => "Basic realm=\"upstream\"",
            _ => return (DataOutcome::R401, reply),
        };
        (DataOutcome::R401, reply.with_header("WWW-Authenticate", scheme))
    }

    fn serve(&self, route: DataRoute<'_>, query: &Query) -> (DataOutcome, MockReply) {
        let content = match self.content(route, query) {
            Ok(content) => content,
            Err(DataError { status, code, message, body }) => {
                let outcome = match status {
                    401 => DataOutcome::R401,
                    403 => DataOutcome::R403,
                    429 => return (DataOutcome::R429, self.too_many()),
                    500.. => DataOutcome::R500,
                    _ => DataOutcome::Bad,
                };
                let reply = body.map(|body| MockReply::json(status, body));
                return (outcome, reply.unwrap_or_else(|| MockReply::error(status, code, &message)));
            }
        };
        let mut reply = MockReply::new(200, ReplyBody::from(content.parts));
        reply.content_type = content.content_type;
        for (name, value) in &content.headers {
            reply = reply.with_header(name, value);
        }
        let outcome = self.apply_body_faults(&mut reply);
        if outcome == DataOutcome::Ok {
            self.state.counters.records.fetch_add(content.records as u64, Relaxed);
        }
        (outcome, reply)
    }

    fn content(&self, route: DataRoute<'_>, query: &Query) -> Result<DataContent, DataError> {
        let host = self.head.header("host").filter(|host| is_plain_host(host)).map(|host| format!("http://{host}"));
        let base_url = host.as_deref().unwrap_or(&self.state.base_url);
        let listing = ListRequest { dataset: &self.state.dataset, script: self.script, number: self.number, base_url };
        match route {
            DataRoute::Listing(endpoint) => listing.page(endpoint, query).map(DataContent::from),
            DataRoute::Ids(endpoint) => listing.ids(endpoint, query).map(DataContent::from),
            DataRoute::Details => details::details(&listing, query, self.body),
            DataRoute::Detail(id) => details::detail(&listing, id),
            DataRoute::Users => users::users(&listing, query),
            DataRoute::Posts { user } => users::posts(&listing, query, user),
            DataRoute::Comments { user, post } => users::comments(&listing, query, user, post),
            DataRoute::Issues => issues::issues(&listing, query),
            DataRoute::GraphQl => Ok(graphql::respond(&listing, self.body)),
            DataRoute::Export => export::export(&listing, query, self.head.header("X-Api-Key")),
            DataRoute::Notes(notes_route) => {
                notes::respond(self.script, notes_route, self.head.header("Cookie"), self.body)
            }
            DataRoute::Tweets(tweets_route) => {
                let key = self.head.header("X-API-Key");
                let request = tweets::TweetsRequest { route: tweets_route, key, query, body: self.body, nth: self.nth };
                tweets::respond(&self.script.tweets, &request)
            }
        }
    }

    /// Applies the faults that change a page: truncation and oversize.
    fn apply_body_faults(&self, reply: &mut MockReply) -> DataOutcome {
        if self.script.truncate.applies_to(self.number) {
            reply.body.truncate(reply.content_length / 2);
            match self.script.truncate_mode {
                TruncateMode::Close => reply.ending = ConnectionEnd::Cut,
                TruncateMode::Cut => reply.content_length = reply.body.remaining(),
            }
            DataOutcome::Truncated
        } else if self.script.oversize.applies_to(self.number) {
            reply.body.pad((self.script.oversize_mib as usize) << 20);
            reply.content_length = reply.body.remaining();
            DataOutcome::Oversized
        } else {
            DataOutcome::Ok
        }
    }
}

/// Whether a `Host` header is safe to put into a link.
fn is_plain_host(host: &str) -> bool {
    !host.is_empty() && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte))
}
