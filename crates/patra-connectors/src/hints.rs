//! The upstream's own request quota, from the headers of a response (G-24).

use std::time::Duration;

use patra_core::Ts;
use patra_core::port::transport::HttpResponse;
use patra_core::protocol::run::UpstreamQuota;
use patra_spec::Snapshot;
use patra_spec::manifest::HeaderAdaptive;

use crate::classify::MAX_RETRY_AFTER;

/// Prefixes of the header names.
const FAMILIES: [&str; 3] = ["x-ratelimit", "x-rate-limit", "ratelimit"];

/// Numbers from here on are points in time, not spans.
const EPOCH: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(crate) struct RateLimitHeaders {
    heeded: HeaderAdaptive,
}

impl RateLimitHeaders {
    pub(crate) fn new(spec: &Snapshot) -> RateLimitHeaders {
        RateLimitHeaders { heeded: spec.rate_limit.header_adaptive.clone().unwrap_or(HeaderAdaptive::All(true)) }
    }

    /// `None` without a hint, or for a window that is over; an error for an unreadable hint.
    pub(crate) fn read(&self, response: &HttpResponse, now: Ts) -> Result<Option<UpstreamQuota>, String> {
        self.left(response, now).map(|left| left.filter(|left| !left.resets_in.is_zero()))
    }

    fn left(&self, response: &HttpResponse, now: Ts) -> Result<Option<UpstreamQuota>, String> {
        if let Some(value) = self.header(response, "ratelimit") {
            return combined(value).map(Some).ok_or_else(|| unreadable("RateLimit", value));
        }
        for family in FAMILIES {
            let get = |what: &str| {
                let name = format!("{family}-{what}");
                self.header(response, &name).map(|value| (name, value.trim()))
            };
            let (Some((left_name, left)), Some((reset_name, reset))) = (get("remaining"), get("reset")) else {
                continue;
            };
            let remaining = left.parse().map_err(|_| unreadable(&left_name, left))?;
            let resets_in = resets_in(reset, now).ok_or_else(|| unreadable(&reset_name, reset))?;
            // "100, 100;w=60" names the windows behind the number.
            let limit = get("limit").and_then(|(_, limit)| limit.split([',', ';']).next()?.trim().parse().ok());
            return Ok(Some(UpstreamQuota { remaining, limit, resets_in }));
        }
        Ok(None)
    }

    fn header<'a>(&self, response: &'a HttpResponse, name: &str) -> Option<&'a str> {
        let heeded = match &self.heeded {
            HeaderAdaptive::All(all) => *all,
            HeaderAdaptive::Named(names) => names.iter().any(|pattern| fits(&pattern.to_ascii_lowercase(), name)),
        };
        response.header(name).filter(|_| heeded)
    }
}

/// A name, or the beginning of names with `*` behind it.
fn fits(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

fn unreadable(name: &str, value: &str) -> String {
    format!("the header {name} cannot be understood: {}", value.chars().take(60).collect::<String>())
}

/// Seconds, seconds or milliseconds since 1970, or a date.
fn resets_in(value: &str, now: Ts) -> Option<Duration> {
    let span = match value.parse::<f64>() {
        Ok(number) if !(0.0..1e15).contains(&number) => return None,
        Ok(number) => {
            let whole = number as u64;
            match whole {
                0..EPOCH => Duration::from_secs_f64(number),
                EPOCH..1_000_000_000_000 => Ts::from_secs(whole as i64).since(now),
                _ => Ts::from_micros(whole as i64 * 1_000).since(now),
            }
        }
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok();
            let date = date.or_else(|| value.parse().ok())?;
            Ts::from_secs(date.as_second()).since(now)
        }
    };
    Some(span.min(MAX_RETRY_AFTER))
}

/// `limit=100, remaining=50, reset=30`, or `"name";r=50;t=30`; of several, the one with the least remaining counts.
fn combined(value: &str) -> Option<UpstreamQuota> {
    let policy = |text: &str| {
        let number = |names: [&str; 2]| {
            text.split([',', ';']).find_map(|part| {
                let (name, value) = part.split_once('=')?;
                names.contains(&name.trim()).then(|| value.trim().parse::<u64>().ok()).flatten()
            })
        };
        let (remaining, reset) = (number(["remaining", "r"])?, number(["reset", "t"])?);
        let resets_in = Duration::from_secs(reset).min(MAX_RETRY_AFTER);
        Some(UpstreamQuota { remaining, limit: number(["limit", "q"]), resets_in })
    };
    match value.contains("remaining") {
        true => policy(value),
        false => value.split(',').filter_map(policy).min_by_key(|left| left.remaining),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Ts = Ts::from_secs(1_800_000_000);

    fn answer(headers: &[(&str, &str)]) -> HttpResponse {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        HttpResponse { status: 200, headers, body: Vec::new().into(), redirected: None }
    }

    fn read(headers: &[(&str, &str)]) -> Result<Option<UpstreamQuota>, String> {
        RateLimitHeaders { heeded: HeaderAdaptive::All(true) }.read(&answer(headers), NOW)
    }

    #[expect(clippy::unnecessary_wraps, reason = "as it is compared")]
    fn left(remaining: u64, limit: Option<u64>, secs: u64) -> Result<Option<UpstreamQuota>, String> {
        Ok(Some(UpstreamQuota { remaining, limit, resets_in: Duration::from_secs(secs) }))
    }

    // covers: ING-4.10-08, ING-4.10-18, ING-1.2-03
    #[test]
    fn the_usual_spellings_are_understood() {
        let x = |remaining, reset| read(&[("x-ratelimit-remaining", remaining), ("x-ratelimit-reset", reset)]);
        assert_eq!(x("3", "60"), left(3, None, 60));
        assert_eq!(x("3", "1800000090"), left(3, None, 90));
        assert_eq!(x("3", "1800000090000"), left(3, None, 90));
        assert_eq!(x(" 0 ", "Fri, 15 Jan 2027 08:01:00 GMT"), left(0, None, 60));
        assert_eq!(x("3", "1799999999"), Ok(None), "a window that is over");
        assert_eq!(x("0", "0"), Ok(None), "the same");
        let draft = [("ratelimit-limit", "100, 100;w=60"), ("ratelimit-remaining", "7"), ("ratelimit-reset", "30")];
        assert_eq!(read(&draft), left(7, Some(100), 30));
        assert_eq!(read(&[("ratelimit", "limit=10, remaining=2, reset=5")]), left(2, Some(10), 5));
        assert_eq!(read(&[("ratelimit", r#""day";r=900;t=80000, "minute";r=4;t=12"#)]), left(4, None, 12));
        assert_eq!(read(&[("x-rate-limit-limit", "50"), ("x-rate-limit-interval", "1s")]), Ok(None));
        assert_eq!(read(&[("x-ratelimit-remaining", "3")]), Ok(None), "without its end it says nothing");
    }

    #[test]
    fn unreadable_header_is_an_error() {
        for reset in ["soon", "-5", "1e300", "NaN", ""] {
            let problem = read(&[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", reset)]).unwrap_err();
            assert!(problem.contains("x-ratelimit-reset"), "{problem}");
        }
        assert!(read(&[("ratelimit", "much")]).is_err());
        assert!(read(&[("x-ratelimit-remaining", "many"), ("x-ratelimit-reset", "1")]).is_err());
    }

    #[test]
    fn only_the_headers_that_were_named_are_heeded() {
        let headers = [("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "60")];
        let named = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            RateLimitHeaders { heeded: HeaderAdaptive::Named(names) }.read(&answer(&headers), NOW)
        };
        assert_eq!(named(&["X-RateLimit-*"]), left(3, None, 60));
        assert_eq!(named(&["Retry-After"]), Ok(None));
        assert_eq!(RateLimitHeaders { heeded: HeaderAdaptive::All(false) }.read(&answer(&headers), NOW), Ok(None));
    }
}
