//! The Robots Exclusion Protocol (RFC 9309): the robots.txt of a host decides which of its pages are requested, and how
//! often.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use robotxt::Robots;
use url::{Position, Url};

use patra_core::port::transport::{self, HttpMethod, HttpRequest, HttpResponse, TransferLimits};
use patra_core::port::{Clock, Transport};
use patra_core::protocol::token::TokenRefused;
use patra_core::{Code, Fault, Level, Ts};

use crate::credentials::{PermitSource, admit};
use crate::shared::lock;

/// How long a robots.txt applies before it is read again.
const MAX_AGE: Duration = Duration::from_secs(24 * 3_600);
/// How long a known robots.txt applies while the host does not return a new one.
const MAX_STALE: Duration = Duration::from_secs(30 * 24 * 3_600);
/// How long no page of a host is requested after it failed to return its robots.txt.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Bytes of a robots.txt that are read; the rest does not apply.
const MAX_BYTES: usize = 512 << 10;
/// Redirects from a robots.txt that are followed.
const MAX_REDIRECTS: u8 = 5;
/// Longest crawl-delay that is kept; a longer one counts as this long.
const MAX_CRAWL_DELAY: Duration = Duration::from_secs(60);
/// Most hosts whose rules a process remembers.
const MAX_HOSTS: usize = 10_000;
/// Most memory for these rules, in bytes.
const MAX_MEMORY: usize = 32 << 20;
/// Estimated memory of a host without rules, and of a rule or a sitemap besides its text.
const HOST_BYTES: usize = 512;
const RULE_BYTES: usize = 128;
/// Name of this program in a robots.txt, where a request does not name another in its User-Agent.
const PRODUCT: &str = "patra";

/// The rules of the hosts that a process collects from.
#[derive(Debug, Default)]
pub(crate) struct RobotsCache {
    hosts: Mutex<Hosts>,
}

#[derive(Debug, Default)]
struct Hosts {
    /// By the URL of the robots.txt and the name in the User-Agent.
    known: HashMap<String, KnownHost>,
    bytes: usize,
    /// Counts uses, so that the host that was used longest ago is known.
    uses: u64,
}

#[derive(Debug)]
struct KnownHost {
    rules: Arc<HostRules>,
    bytes: usize,
    used: u64,
}

/// The rules of one host. The lock is held while they are read, so that they are read once.
type HostRules = tokio::sync::Mutex<Option<CachedRules>>;

#[derive(Clone, Debug)]
struct CachedRules {
    rules: Arc<Rules>,
    read_at: Ts,
    fresh_until: Ts,
}

#[derive(Debug)]
enum Rules {
    Read(Robots),
    /// The host failed to return them: the reason.
    Failed(String),
}

impl Rules {
    fn bytes(&self) -> usize {
        match self {
            Rules::Read(robots) => {
                let rules = robots.rules().iter().map(|rule| rule.pattern().len());
                let sitemaps = robots.sitemaps().iter().map(|url| url.as_str().len());
                rules.chain(sitemaps).map(|text| text + RULE_BYTES).sum()
            }
            Rules::Failed(reason) => reason.len(),
        }
    }

    fn crawl_delay(&self) -> Option<Duration> {
        match self {
            Rules::Read(robots) => robots.crawl_delay().map(|delay| delay.min(MAX_CRAWL_DELAY)),
            Rules::Failed(_) => None,
        }
    }
}

/// What requests for robots.txt are sent with.
#[derive(Clone, Copy)]
pub(crate) struct RobotsClient<'a> {
    pub(crate) transport: &'a dyn Transport,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) permits: &'a dyn PermitSource,
}

impl RobotsCache {
    /// Sends a request as soon as it has a permit, if robots.txt allows it. `shown` is the request without its secrets.
    pub(crate) async fn send(
        &self,
        client: RobotsClient<'_>,
        shown: &HttpRequest,
        request: HttpRequest,
    ) -> Result<Result<HttpResponse, transport::Error>, TokenRefused> {
        if shown.respect_robots
            && let Err(error) = self.check(shown, client).await?
        {
            return Ok(Err(error));
        }
        admit(client.permits, client.clock).await?;
        let response = client.transport.send(request).await;
        // The page of another address is not used if the address is disallowed.
        if shown.respect_robots
            && let Ok(HttpResponse { redirected: Some(redirect), .. }) = &response
        {
            let origin = Some(shown.origin.clone().unwrap_or_else(|| shown.url.clone()));
            let target = HttpRequest { url: redirect.url.clone(), origin, ..shown.clone() };
            if let Err(error) = self.check(&target, client).await? {
                return Ok(Err(error));
            }
        }
        Ok(response)
    }

    /// Refuses a request that the robots.txt of its host disallows, and keeps the host's crawl-delay. Reads the
    /// robots.txt first if it is not known; the inner error says that the host does not respond.
    async fn check(
        &self,
        request: &HttpRequest,
        client: RobotsClient<'_>,
    ) -> Result<Result<(), transport::Error>, TokenRefused> {
        // The transport refuses other URLs.
        let Ok(url) = Url::parse(&request.url) else { return Ok(Ok(())) };
        let Ok(robots_url) = robotxt::robots_url(&url) else { return Ok(Ok(())) };
        let agent = product(&request.headers);
        let key = format!("{robots_url} {}", agent.to_ascii_lowercase());
        let host_rules = self.host(&key);
        let rules = {
            let mut cached = host_rules.lock().await;
            let now = client.clock.steady();
            match &*cached {
                Some(known) if now < known.fresh_until => Arc::clone(&known.rules),
                known => {
                    admit(client.permits, client.clock).await?;
                    let fresh = match read(request, &robots_url, agent, client.transport).await {
                        Ok(rules) => renewed(known.as_ref(), rules, client.clock.steady()),
                        Err(error) => match stale(known.as_ref(), client.clock.steady()) {
                            Some(known) => known,
                            None => return Ok(Err(error)),
                        },
                    };
                    self.measure(&key, fresh.rules.bytes());
                    Arc::clone(&cached.insert(fresh).rules)
                }
            }
        };
        client.permits.space(rules.crawl_delay());
        verdict(&rules, &url, &robots_url, agent).map(Ok)
    }

    fn host(&self, key: &str) -> Arc<HostRules> {
        let mut hosts = lock(&self.hosts);
        hosts.uses += 1;
        let used = hosts.uses;
        if let Some(known) = hosts.known.get_mut(key) {
            known.used = used;
            return Arc::clone(&known.rules);
        }
        let rules = Arc::<HostRules>::default();
        let bytes = HOST_BYTES + key.len();
        hosts.known.insert(key.to_owned(), KnownHost { rules: Arc::clone(&rules), bytes, used });
        hosts.bytes += bytes;
        hosts.forget();
        rules
    }

    /// Records how much memory the rules of a host need.
    fn measure(&self, key: &str, rules: usize) {
        let mut hosts = lock(&self.hosts);
        let bytes = HOST_BYTES + key.len() + rules;
        let Some(known) = hosts.known.get_mut(key) else { return };
        let before = std::mem::replace(&mut known.bytes, bytes);
        hosts.bytes = hosts.bytes - before + bytes;
        hosts.forget();
    }
}

impl Hosts {
    /// Forgets the hosts that were used longest ago, if there are too many. An eighth at once, so that this is rare.
    fn forget(&mut self) {
        if self.known.len() <= MAX_HOSTS && self.bytes <= MAX_MEMORY {
            return;
        }
        let mut by_use: Vec<_> = self.known.iter().map(|(key, host)| (host.used, key.clone())).collect();
        by_use.sort_unstable();
        for (_, key) in by_use {
            if self.known.len() <= MAX_HOSTS / 8 * 7 && self.bytes <= MAX_MEMORY / 8 * 7 {
                return;
            }
            self.bytes -= self.known.remove(&key).map_or(0, |host| host.bytes);
        }
    }
}

/// Reads a robots.txt. An error says that the host does not respond: a request to it would fail too.
async fn read(
    request: &HttpRequest,
    robots_url: &Url,
    agent: &str,
    transport: &dyn Transport,
) -> Result<Rules, transport::Error> {
    let is_agent = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("user-agent");
    let robots_request = HttpRequest {
        headers: request.headers.iter().filter(is_agent).cloned().collect(),
        limits: TransferLimits { max_body: MAX_BYTES, max_redirects: MAX_REDIRECTS, cut: true, ..request.limits },
        proxy: request.proxy.clone(),
        // Only a plain body can be cut.
        compression: false,
        origin: request.origin.clone(),
        allow_net: Arc::clone(&request.allow_net),
        ..HttpRequest::new(HttpMethod::Get, robots_url.as_str())
    };
    let response = match transport.send(robots_request).await {
        Ok(response) => response,
        // RFC 9309, 2.3.1.2: a file behind too many redirects does not exist.
        Err(transport::Error::Redirect { .. }) => return Ok(Rules::Read(Robots::allow_all())),
        Err(error @ (transport::Error::TooLarge { .. } | transport::Error::Encoding { .. })) => {
            return Ok(Rules::Failed(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    Ok(match response.status {
        200..=299 => Rules::Read(Robots::parse(&response.body, agent)),
        // RFC 9309, 2.3.1.3: the file does not exist, so everything is allowed.
        300..=499 => Rules::Read(Robots::allow_all()),
        // RFC 9309, 2.3.1.4: nothing is allowed for now.
        status => Rules::Failed(format!("the host returned {status}")),
    })
}

/// The rules to keep after a response.
fn renewed(known: Option<&CachedRules>, rules: Rules, now: Ts) -> CachedRules {
    let keep = match &rules {
        Rules::Read(_) => MAX_AGE,
        Rules::Failed(_) => match stale(known, now) {
            Some(known) => return known,
            None => RETRY_AFTER,
        },
    };
    CachedRules { rules: Arc::new(rules), read_at: now, fresh_until: now + keep }
}

/// The known rules, for another while, if they are not too old.
fn stale(known: Option<&CachedRules>, now: Ts) -> Option<CachedRules> {
    let known = known.filter(|known| matches!(*known.rules, Rules::Read(_)))?;
    let until = now + RETRY_AFTER;
    (until < known.read_at + MAX_STALE).then(|| CachedRules { fresh_until: until, ..known.clone() })
}

fn verdict(rules: &Rules, url: &Url, robots_url: &Url, agent: &str) -> Result<(), TokenRefused> {
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let robots = match rules {
        Rules::Read(robots) if robots.is_allowed(path) => return Ok(()),
        Rules::Read(robots) => robots,
        Rules::Failed(reason) => {
            let message = format!("{robots_url} cannot be read ({reason}): no page of this host is requested for now");
            return Err(Fault::transient(Code::PlatformError, message).into());
        }
    };
    let rule = robots.matching_rule(path).map_or_else(|| "/".to_owned(), |rule| rule.pattern().to_owned());
    let message = format!(
        "{robots_url} disallows this page for `{agent}` (`Disallow: {}`): ask the site, or set `robots: ignore` if it \
         lets you",
        patra_core::text::beginning(&rule, 200)
    );
    Err(Fault::new(Code::RobotsDisallowed, Level::L2, message).into())
}

/// The name in the User-Agent, as a robots.txt names it: what stands before the version.
fn product(headers: &[(String, String)]) -> &str {
    let agent = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("user-agent"));
    let name = agent.map_or("", |(_, agent)| agent.trim_start());
    let end = name.find(|c: char| !(c.is_ascii_alphabetic() || matches!(c, '_' | '-'))).unwrap_or(name.len());
    if end == 0 { PRODUCT } else { &name[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(agent: &str) -> Vec<(String, String)> {
        vec![("Accept".into(), "*/*".into()), ("user-agent".into(), agent.into())]
    }

    #[test]
    fn product_token_is_what_stands_before_the_version() {
        assert_eq!(product(&headers("Patra/0.1 (+https://x.test)")), "Patra");
        assert_eq!(product(&headers("My_Own-Bot (me@x.test)")), "My_Own-Bot");
        assert_eq!(product(&headers("7bot")), PRODUCT);
        assert_eq!(product(&[]), PRODUCT);
    }

    #[test]
    fn known_rules_outlive_a_failing_host_for_a_month() {
        let at = |hours: i64| Ts::from_secs(hours * 3_600);
        let read = Rules::Read(Robots::parse(b"User-agent: patra\nDisallow: /a\nCrawl-delay: 500", "Patra"));
        assert_eq!(read.crawl_delay(), Some(MAX_CRAWL_DELAY));
        let known = renewed(None, read, at(0));
        assert_eq!(known.fresh_until, at(24));
        let failed = || Rules::Failed("the host returned 503".into());
        let after = renewed(Some(&known), failed(), at(24));
        assert!(Arc::ptr_eq(&after.rules, &known.rules));
        assert_eq!(after.fresh_until, at(24) + RETRY_AFTER);
        let month = renewed(Some(&after), failed(), at(30 * 24));
        assert!(matches!(&*month.rules, Rules::Failed(_)));
        let again = renewed(Some(&month), failed(), at(31 * 24));
        assert!(matches!(&*again.rules, Rules::Failed(_)), "a failure is not kept instead of a newer one");
    }

    #[test]
    fn rules_of_hosts_have_a_bound_in_memory() {
        let cache = RobotsCache::default();
        for host in 0..MAX_HOSTS + 5 {
            cache.host(&format!("http://{host}.test/robots.txt patra"));
        }
        let first = "http://0.test/robots.txt patra";
        {
            let hosts = lock(&cache.hosts);
            assert!(hosts.known.len() <= MAX_HOSTS && !hosts.known.contains_key(first));
            assert_eq!(hosts.bytes, hosts.known.values().map(|host| host.bytes).sum::<usize>());
        }
        for host in 0..MAX_HOSTS + 5 {
            cache.measure(&format!("http://{host}.test/robots.txt patra"), MAX_BYTES);
            assert!(lock(&cache.hosts).bytes <= MAX_MEMORY);
        }
    }
}
