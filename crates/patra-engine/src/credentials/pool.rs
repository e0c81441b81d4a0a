//! Cookies: each request takes one from the pool (MAP-X-19), and what the upstream says of it wears it out or not
//! (CRAWL-14..24). Only the upstream's word about the account counts, never a broken line.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::tz::TimeZone;

use patra_core::cookie::{CookieCounts, CookieLimits, CookieUsage};
use patra_core::credential::Credential;
use patra_core::port::{Clock, CommandsExt as _};
use patra_core::protocol::run::{FetchedPage, PageFailure};
use patra_core::protocol::token::TokenRefused;
use patra_core::state::CookieStatus;
use patra_core::tx::{CookieOutcomeRecorded, CookiePicked, PickCookie, RecordCookieOutcome, TxError};
use patra_core::{Code, CredentialId, Fault, Level, Ts};

use super::{CredentialFailure, Credentials, MAX_TRIED, OutgoingRequest, SentRequest};
use crate::events;
use crate::shared::lock;

/// Cookies that one errand passes over, at most.
const MAX_EXCLUDED: usize = 1_000;

/// Which cookies an errand may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CookieChoice {
    /// Only this one.
    pub name: Option<String>,
    /// None of these.
    pub exclude: Vec<String>,
    /// How many are tried, one after another, when the upstream rejects them.
    pub tries: usize,
}

impl Default for CookieChoice {
    fn default() -> CookieChoice {
        CookieChoice { name: None, exclude: Vec::new(), tries: MAX_TRIED }
    }
}

/// How cookies wear out, and where a day begins.
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

/// The cookie that a request went out with.
#[derive(Clone, Debug)]
pub struct UsedCookie {
    pub name: String,
    id: CredentialId,
    /// Which value of it.
    seen: i64,
    started: Ts,
    /// It had failed before.
    blemished: bool,
}

/// No request left, and why.
#[derive(Debug)]
pub(super) enum NoCookie {
    /// There is none at all.
    Empty,
    Unknown(String),
    Unusable(String, Box<CookieUsage>),
    Exhausted {
        counts: CookieCounts,
        next_active_at: Option<Ts>,
    },
    Store(TxError),
}

tokio::task_local! {
    /// Where an errand notes its cookie, for whoever asks: also one that was refused, or ran out of time, used one.
    static TAKEN: Arc<Mutex<Option<String>>>;
}

/// Does some work, and tells which cookie it took last.
pub(crate) async fn noting<T>(work: impl Future<Output = T>) -> (T, Option<String>) {
    let taken = Arc::new(Mutex::new(None));
    let done = TAKEN.scope(Arc::clone(&taken), work).await;
    let name = lock(&taken).take();
    (done, name)
}

impl Credentials {
    /// Sends a request with a cookie of the pool; with the next one when the upstream rejects it.
    pub(super) async fn send_from_pool(&self, errand: &OutgoingRequest) -> Result<SentRequest, TokenRefused> {
        let mut exclude = errand.pool.exclude.clone();
        let mut rejected: Option<Fault> = None;
        let mut tries = errand.pool.tries.max(1);
        while tries > 0 && exclude.len() < MAX_EXCLUDED {
            let (credential, used) = match self.pick(errand, &exclude).await {
                Ok(picked) => picked,
                Err(_) if rejected.is_some() => break,
                Err(NoCookie::Empty) => return self.without(errand).await,
                Err(none) => return Err(self.none_left(errand, none)),
            };
            // One that is sealed with a key we do not have is nobody's fault, and holds up no other.
            let secrets = match self.inner.open(&credential) {
                Ok(secrets) => secrets,
                Err(fault) if errand.pool.name.is_some() => return Err(fault.into()),
                Err(fault) => {
                    exclude.push(used.name);
                    rejected = rejected.or(Some(fault));
                    continue;
                }
            };
            tries -= 1;
            let answer = match self.exchange(errand, &credential, &secrets, None).await {
                Ok(answer) => answer,
                Err(CredentialFailure::Failed(refused)) => return Err(refused),
                Err(CredentialFailure::Rejected(fault)) => return Err(fault.into()),
            };
            let rejection = answer.as_ref().ok().filter(|response| errand.authoriser.is_rejection(response));
            let Some(status) = rejection.map(|response| response.status) else {
                return Ok(SentRequest { answer, credential: Some(credential.id), cookie: Some(used) });
            };
            let message = format!("the upstream answered {status} to the cookie `{}`", used.name);
            self.judge(&used, Some(&message)).await;
            exclude.push(used.name);
            rejected = Some(Fault::new(Code::CookieInvalid, Level::L4, message));
        }
        Err(rejected.unwrap_or_else(|| self.inner.missing(errand)).into())
    }

    async fn pick(&self, errand: &OutgoingRequest, exclude: &[String]) -> Result<(Credential, UsedCookie), NoCookie> {
        let (provenance_code, endpoint_name) = errand.authoriser.place();
        let clock = &self.inner.ports.clock;
        let pick = PickCookie {
            provenance_code: provenance_code.to_owned(),
            endpoint_name: endpoint_name.to_owned(),
            name: errand.pool.name.clone(),
            exclude: exclude.to_vec(),
            day: self.inner.options.cookies.day_of(clock.now()),
        };
        match self.inner.ports.store.run(pick).await.map_err(NoCookie::Store)? {
            CookiePicked::Picked { credential, now } => {
                let used = UsedCookie {
                    name: credential.binding.alias.clone(),
                    id: credential.id,
                    seen: credential.state.version,
                    started: now,
                    blemished: credential.state.last_error.is_some(),
                };
                let _ = TAKEN.try_with(|taken| *lock(taken) = Some(used.name.clone()));
                Ok((*credential, used))
            }
            CookiePicked::Unknown => Err(NoCookie::Unknown(errand.pool.name.clone().unwrap_or_default())),
            CookiePicked::Unusable { usage: wear } => {
                Err(NoCookie::Unusable(errand.pool.name.clone().unwrap_or_default(), wear))
            }
            CookiePicked::Exhausted { counts, .. } if counts == CookieCounts::default() => Err(NoCookie::Empty),
            CookiePicked::Exhausted { counts, next_active_at } => Err(NoCookie::Exhausted { counts, next_active_at }),
        }
    }

    /// Whoever waits is told until when; where waiting does not help, a person is needed.
    fn none_left(&self, errand: &OutgoingRequest, none: NoCookie) -> TokenRefused {
        let (platform, _) = errand.authoriser.place();
        match none {
            NoCookie::Empty => self.inner.missing(errand).into(),
            NoCookie::Unknown(name) => {
                let message = format!("there is no cookie `{name}` for {platform}");
                Fault::new(Code::InvalidInput, Level::L2, message).into()
            }
            NoCookie::Unusable(name, wear) => {
                let reason = match wear.status {
                    CookieStatus::Active => format!("has been used {} times today, its limit", wear.daily_limit),
                    status => format!("is {status}"),
                };
                Fault::new(Code::CookieInvalid, Level::L1, format!("the cookie `{name}` {reason}")).into()
            }
            NoCookie::Exhausted { counts, next_active_at } => {
                exhausted(platform, counts, next_active_at, &*self.inner.ports.clock)
            }
            NoCookie::Store(error) => {
                Fault::transient(Code::InternalError, format!("no cookie could be taken: {error}")).into()
            }
        }
    }

    /// What came of a request says what its cookie is worth.
    pub async fn seen(&self, used: Option<UsedCookie>, result: &Result<Box<FetchedPage>, Box<PageFailure>>) {
        let Some(used) = used else { return };
        match result {
            Ok(_) if used.blemished => self.judge(&used, None).await,
            Err(refusal) if is_cookies_fault(refusal.fault.code) => {
                self.judge(&used, Some(&refusal.fault.message)).await;
            }
            _ => {}
        }
    }

    /// When the store is away it is not worth stopping for.
    async fn judge(&self, used: &UsedCookie, error: Option<&str>) {
        let judge = RecordCookieOutcome {
            credential: used.id,
            seen_version: used.seen,
            started: used.started,
            error: error.map(str::to_owned),
            rules: self.inner.options.cookies.wear,
        };
        match self.inner.ports.store.run(judge).await {
            Ok(CookieOutcomeRecorded { before, after }) => events::cookie_judged(&used.name, error, before, after),
            Err(error) => events::store_failed("credentials", "RecordCookieOutcome", &error),
        }
    }
}

/// Login lost, account challenged, account blocked (CRAWL-21).
fn is_cookies_fault(code: Code) -> bool {
    matches!(code, Code::CookieInvalid | Code::UpstreamAuthFailed)
}

fn exhausted(platform: &str, counts: CookieCounts, next_active_at: Option<Ts>, clock: &dyn Clock) -> TokenRefused {
    let CookieCounts { active, cooling, invalid, banned } = counts;
    let mut states = Vec::new();
    for (count, word) in [
        (active, "at the limit of the day or excluded"),
        (cooling, "cooling"),
        (invalid, "invalid"),
        (banned, "banned"),
    ] {
        if count > 0 {
            states.push(format!("{count} {word}"));
        }
    }
    let message = format!("no usable cookie for platform {platform}: {}", states.join(", "));
    // Whoever cools or has had enough for today comes back by itself.
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
    fn a_day_begins_where_the_operator_says() {
        let now: Ts = "2026-02-26T17:30:00Z".parse().unwrap();
        assert_eq!(CookieRules::default().day_of(now).to_short_text(), "2026-02-26T00:00:00Z");
        let shanghai = TimeZone::fixed(jiff::tz::offset(8));
        let rules = CookieRules { day: shanghai, ..CookieRules::default() };
        assert_eq!(rules.day_of(now).to_short_text(), "2026-02-26T16:00:00Z");
    }
}
