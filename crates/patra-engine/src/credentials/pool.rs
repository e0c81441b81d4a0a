//! Cookies: each request takes one from the pool (MAP-X-19), and the response updates its usage (CRAWL-14..24). Only a
//! response about the account counts against a cookie, never a network error.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::tz::TimeZone;

use patra_core::cookie::{COOKIE_LEASE, CookieCounts, CookieLimits, CookieObstacle};
use patra_core::credential::Credential;
use patra_core::port::{Clock, CommandsExt as _, Store};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::protocol::token::TokenRefused;
use patra_core::tx::{CookieOutcomeRecorded, CookiePicked, PickCookie, RecordCookieOutcome, ReleaseCookie, TxError};
use patra_core::{Code, CredentialId, Fault, Level, Ts};

use super::{CredentialFailure, Credentials, LONGEST_WAIT, MAX_TRIED, OutgoingRequest, SentRequest};
use crate::events;
use crate::shared::lock;

/// Most cookies that one request skips.
const MAX_EXCLUDED: usize = 1_000;
/// How often a request looks for a cookie while all are in use as often as their `max_parallel` allows.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The cookies that a request may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieChoice {
    /// Uses only this cookie.
    pub name: Option<String>,
    /// Skips these cookies.
    pub exclude: Vec<String>,
    /// How many are tried, one after another, when the upstream rejects them.
    pub tries: usize,
    /// A person checks the named cookie: it may be cooling or paused.
    pub check: bool,
}

impl Default for CookieChoice {
    fn default() -> CookieChoice {
        CookieChoice { name: None, exclude: Vec::new(), tries: MAX_TRIED, check: false }
    }
}

/// Usage limits of cookies, and the time zone of a day.
#[derive(Clone, Debug)]
pub struct CookieRules {
    pub wear: CookieLimits,
    pub day: TimeZone,
}

impl Default for CookieRules {
    fn default() -> CookieRules {
        CookieRules { wear: CookieLimits::default(), day: TimeZone::UTC }
    }
}

impl CookieRules {
    /// When the day of `now` began.
    pub fn day_of(&self, now: Ts) -> Ts {
        let instant = jiff::Timestamp::from_microsecond(now.micros()).unwrap_or_default();
        let begun = instant.to_zoned(self.day.clone()).start_of_day();
        begun.map_or(now.floor_to(Duration::from_secs(86_400)), |begun| Ts::from_secs(begun.timestamp().as_second()))
    }
}

/// The cookie that a request was sent with.
#[derive(Clone, Debug)]
pub struct UsedCookie {
    pub name: String,
    id: CredentialId,
    /// Version of its value.
    seen: i64,
    started: Ts,
    /// Whether its last use had failed.
    blemished: bool,
}

/// Why no cookie was picked.
#[derive(Debug)]
pub(super) enum NoCookie {
    /// No cookie is stored.
    Empty,
    Unknown(String),
    Unusable(String, CookieObstacle),
    Exhausted {
        counts: CookieCounts,
        next_active_at: Option<Ts>,
    },
    /// Every usable cookie has as many uses as its `max_parallel`.
    InUse,
    Store(TxError),
}

/// A use of a cookie that counts its uses. It ends when this is dropped, also by a caller that gives up.
#[derive(Debug)]
struct CookieUse {
    store: Arc<dyn Store>,
    holder: Option<String>,
}

impl CookieUse {
    async fn end(mut self) {
        if let Some(holder) = self.holder.take() {
            release(&*self.store, holder).await;
        }
    }
}

impl Drop for CookieUse {
    fn drop(&mut self) {
        let (Some(holder), Ok(runtime)) = (self.holder.take(), tokio::runtime::Handle::try_current()) else { return };
        let store = Arc::clone(&self.store);
        drop(runtime.spawn(async move { release(&*store, holder).await }));
    }
}

/// Ends a use. After a failure of the store, it ends with its lease.
async fn release(store: &dyn Store, holder: String) {
    if let Err(error) = store.run(ReleaseCookie { holder }).await {
        events::store_failed("credentials", "ReleaseCookie", &error);
    }
}

tokio::task_local! {
    /// The last cookie that the current work took, also when its request failed or timed out.
    static TAKEN: Arc<Mutex<Option<String>>>;
}

/// Runs some work, and returns the last cookie that it took.
pub(crate) async fn noting<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let taken = Arc::new(Mutex::new(None));
    let done = TAKEN.scope(Arc::clone(&taken), work).await;
    let name = lock(&taken).take();
    (done, name)
}

impl Credentials {
    /// Sends a request with a cookie of the pool; with the next one when the upstream rejects it.
    pub(super) async fn send_from_pool(&self, outgoing: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        let mut exclude = outgoing.pool.exclude.clone();
        let mut rejected: Option<Fault> = None;
        let mut tries = outgoing.pool.tries.max(1);
        while tries > 0 && exclude.len() < MAX_EXCLUDED {
            let (credential, used, usage) = match self.pick_or_wait(outgoing, &exclude).await {
                Ok(picked) => picked,
                Err(_) if rejected.is_some() => break,
                Err(NoCookie::Empty) => return self.without(outgoing).await,
                Err(none) => return Err(self.none_left(outgoing, none)),
            };
            // A cookie that is sealed with an unknown key is skipped.
            let secrets = match self.inner.open(&credential) {
                Ok(secrets) => secrets,
                Err(fault) if outgoing.pool.name.is_some() => return Err(fault.into()),
                Err(fault) => {
                    exclude.push(used.name);
                    rejected = rejected.or(Some(fault));
                    continue;
                }
            };
            tries -= 1;
            let answer = self.exchange(outgoing, &credential, &secrets, None).await;
            usage.end().await;
            let answer = match answer {
                Ok(answer) => answer,
                Err(CredentialFailure::Failed(refused)) => return Err(refused),
                Err(CredentialFailure::Rejected(fault)) => return Err(fault.into()),
            };
            let rejection = answer.as_ref().ok().filter(|response| outgoing.authoriser.is_rejection(response));
            let Some(status) = rejection.map(|response| response.status) else {
                return Ok(SentRequest { answer, credential: Some(credential.id), cookie: Some(used) });
            };
            let message = format!("the upstream returned {status} to the cookie `{}`", used.name);
            self.store_outcome(&used, Some(&message)).await;
            exclude.push(used.name);
            rejected = Some(Fault::new(Code::CookieInvalid, Level::L4, message));
        }
        Err(rejected.unwrap_or_else(|| self.inner.missing(outgoing)).into())
    }

    /// Picks a cookie. While every usable one is in use, waits for one as long as for a permit.
    async fn pick_or_wait(
        &self,
        outgoing: &OutgoingRequest,
        exclude: &[String],
    ) -> Result<(Credential, UsedCookie, CookieUse), NoCookie> {
        let end = tokio::time::Instant::now() + LONGEST_WAIT;
        loop {
            match self.pick(outgoing, exclude).await {
                Err(NoCookie::InUse) if tokio::time::Instant::now() < end => tokio::time::sleep(LOOK_AGAIN).await,
                picked => return picked,
            }
        }
    }

    async fn pick(
        &self,
        outgoing: &OutgoingRequest,
        exclude: &[String],
    ) -> Result<(Credential, UsedCookie, CookieUse), NoCookie> {
        let store = &self.inner.ports.store;
        let name = || outgoing.pool.name.clone().unwrap_or_default();
        let holder = self.inner.use_name();
        let (provenance_code, endpoint_name) = outgoing.authoriser.place();
        let clock = &self.inner.ports.clock;
        let pick = PickCookie {
            provenance_code: provenance_code.to_owned(),
            endpoint_name: endpoint_name.to_owned(),
            name: outgoing.pool.name.clone(),
            exclude: exclude.to_vec(),
            day: self.inner.options.cookies.day_of(clock.now()),
            check: outgoing.pool.check,
            holder: holder.clone(),
            lease: COOKIE_LEASE,
        };
        match store.run(pick).await.map_err(NoCookie::Store)? {
            CookiePicked::Picked { credential, now, leased } => {
                let used = UsedCookie {
                    name: credential.binding.alias.clone(),
                    id: credential.id,
                    seen: credential.state.version,
                    started: now,
                    blemished: credential.state.last_error.is_some(),
                };
                let _ = TAKEN.try_with(|taken| *lock(taken) = Some(used.name.clone()));
                let usage = CookieUse { store: Arc::clone(store), holder: leased.then_some(holder) };
                Ok((*credential, used, usage))
            }
            CookiePicked::Unknown => Err(NoCookie::Unknown(name())),
            CookiePicked::Unusable { obstacle: CookieObstacle::InUse(_), .. } => Err(NoCookie::InUse),
            CookiePicked::Unusable { obstacle, .. } => Err(NoCookie::Unusable(name(), obstacle)),
            CookiePicked::Exhausted { in_use: true, .. } => Err(NoCookie::InUse),
            CookiePicked::Exhausted { counts, .. } if counts == CookieCounts::default() => Err(NoCookie::Empty),
            CookiePicked::Exhausted { counts, next_active_at, .. } => {
                Err(NoCookie::Exhausted { counts, next_active_at })
            }
        }
    }

    /// The refusal for a request without a cookie: transient with a time where waiting helps, fatal otherwise.
    fn none_left(&self, outgoing: &OutgoingRequest, none: NoCookie) -> TokenRefused {
        let (platform, _) = outgoing.authoriser.place();
        match none {
            NoCookie::Empty => self.inner.missing(outgoing).into(),
            NoCookie::Unknown(name) => {
                let message = format!("there is no cookie `{name}` for {platform}");
                Fault::new(Code::InvalidInput, Level::L2, message).into()
            }
            NoCookie::Unusable(name, obstacle) => {
                let reason = match obstacle {
                    CookieObstacle::Status(status) => format!("is {status}"),
                    CookieObstacle::Expired(at) => format!("expired at {at}"),
                    CookieObstacle::Paused => "is paused".to_owned(),
                    CookieObstacle::InUse(most) => format!("has {most} requests in progress, its max_parallel"),
                    CookieObstacle::Used(limit) => format!("has been used {limit} times today, its limit"),
                };
                Fault::new(Code::CookieInvalid, Level::L1, format!("the cookie `{name}` {reason}")).into()
            }
            NoCookie::Exhausted { counts, next_active_at } => {
                exhausted(platform, counts, next_active_at, &*self.inner.ports.clock)
            }
            NoCookie::InUse => {
                let message =
                    format!("every cookie for {platform} has as many requests in progress as its max_parallel");
                Fault::transient(Code::RateLimited, message).into()
            }
            NoCookie::Store(error) => {
                Fault::transient(Code::InternalError, format!("no cookie could be taken: {error}")).into()
            }
        }
    }

    /// Records the outcome of a request for its cookie.
    pub async fn record_outcome(&self, used: Option<UsedCookie>, result: &Result<Box<FetchedPage>, Box<PageFailure>>) {
        let Some(used) = used else { return };
        match result {
            Ok(_) if used.blemished => self.store_outcome(&used, None).await,
            Err(refusal) if is_cookies_fault(refusal.fault.code) => {
                self.store_outcome(&used, Some(&refusal.fault.message)).await;
            }
            _ => {}
        }
    }

    /// Stores an outcome. A failure of the store is only logged.
    async fn store_outcome(&self, used: &UsedCookie, error: Option<&str>) {
        let outcome = RecordCookieOutcome {
            credential: used.id,
            seen_version: used.seen,
            started: used.started,
            error: error.map(str::to_owned),
            rules: self.inner.options.cookies.wear,
        };
        match self.inner.ports.store.run(outcome).await {
            Ok(CookieOutcomeRecorded { before, after }) => events::cookie_judged(&used.name, error, before, after),
            Err(error) => events::store_failed("credentials", "RecordCookieOutcome", &error),
        }
    }
}

/// Whether an error is about the account: login lost, challenged or blocked (CRAWL-21).
fn is_cookies_fault(code: Code) -> bool {
    matches!(code, Code::CookieInvalid | Code::UpstreamAuthFailed)
}

fn exhausted(platform: &str, counts: CookieCounts, next_active_at: Option<Ts>, clock: &dyn Clock) -> TokenRefused {
    let CookieCounts { active, cooling, .. } = counts;
    let states = counts.named().into_iter().filter(|(_, count)| *count > 0).map(|(word, count)| match word {
        "active" => format!("{count} at the limit of the day or excluded"),
        word => format!("{count} {word}"),
    });
    let states: Vec<_> = states.collect();
    let message = format!("no usable cookie for platform {platform}: {}", states.join(", "));
    // Cooling cookies and those at their daily limit become usable again.
    let waiting = active + cooling > 0;
    let retry_after = next_active_at.map(|at| at.since(clock.now())).filter(|wait| !wait.is_zero());
    let level = if waiting { Level::L1 } else { Level::L4 };
    TokenRefused {
        fault: Fault::new(Code::CookieExhausted, level, message),
        retry_after: retry_after.filter(|_| waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // covers: CRAWL-GAP-12
    #[test]
    fn day_begins_in_the_configured_time_zone() {
        let now: Ts = "2026-02-26T17:30:00Z".parse().unwrap();
        assert_eq!(CookieRules::default().day_of(now).to_short_text(), "2026-02-26T00:00:00Z");
        let shanghai = TimeZone::fixed(jiff::tz::offset(8));
        let rules = CookieRules { day: shanghai, ..CookieRules::default() };
        assert_eq!(rules.day_of(now).to_short_text(), "2026-02-26T16:00:00Z");
    }
}
