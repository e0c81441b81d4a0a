//! The command line, parsed by hand. Faults are the knobs of the script, so a new knob needs no code here.

use std::net::SocketAddr;

use patra_upstream::Script;

pub(crate) const HELP: &str = "\
patra-upstream: a mock API, a paged JSON API with scripted faults

Usage: patra-upstream [--NAME VALUE]...

  --listen ADDR:PORT     (127.0.0.1:18080; port 0 picks one)
  --records N            (10000)
  --seed N               the same seed gives the same bytes (1)
  --step-secs N          seconds between two updated_at (60)
  --tie-every N          every n-th record has the updated_at of the one before, 0 for none (7)
  --threads N            (1)

Behaviour; can also be changed while serving with GET /knobs?name=value, with _ for -:
  --visible N            only the first N records exist
  --page-size N          if the request has none (100)
  --page-size-max N      (1000)
  --latency-ms N         delay before each response
  --e429 K, --at-e429 N,N...      429 on every K-th data request, or on these requests
  --retry-after S        seconds, date:S for an HTTP date, or none (1)
  --rate-per-sec N       429 above N requests in a second
  --e500 K, --at-e500 N,N...      500
  --reset K, --at-reset N,N...    the connection is reset
  --truncate K, --at-truncate N,N...
  --truncate-mode M      close: connection closed halfway; cut: truncated JSON with matching length (close)
  --oversize K, --at-oversize N,N...
  --oversize-mib N       (16)
  --slow K, --at-slow N,N...      the body in chunks
  --slow-chunk-bytes N --slow-pause-ms N          (64, 10)
  --repeat-token-after N          /cursor and /link loop after page N
  --total-delta N --total-drift true              totals that are wrong, or change
  --late INDEX:AFTER,... records hidden up to the AFTER-th data request
  --require-header NAME:VALUE --require-query NAME:VALUE    401 without it
  --log-limit N          data requests kept in the log (10000)
  --ceiling N --ceiling-mode refuse|clamp         a query serves its first N records: 400 beyond, or a silent end

Authentication (of everything but the auth and control routes):
  --auth open|oauth|session|signed, bearer:TOKEN, basic:USER:PASSWORD, or header|query|body|cookie:NAME:VALUE (open)
  --auth-status 401|403                           status if authentication fails
  --oauth-client-id, --oauth-client-secret        (client, client-secret)
  --oauth-refresh-token T                         the initial refresh token (refresh-0)
  --oauth-expires-in-secs N --oauth-max-uses N    lifetime of access tokens (3600, 0 for unlimited uses)
  --oauth-rotate true|false                       each refresh token works once; reuse revokes its family (true)
  --oauth-issue-refresh true                      client_credentials returns a refresh token too
  --login-user, --login-password                  (user, password)
  --login-location body|header|cookie             where the session is: token, X-Session-Token, session=
  --login-expires-in-secs N --login-max-uses N    (3600, 0 for unlimited uses)
  --signing-key-id, --signing-secret              (key-1, signing-secret)
  --signing-tolerance-secs N                      largest age of a signature (300)
  --signing-location headers|query                where /sign puts the signature
  --signing-token T                               the bearer token that /sign requires
  --auth-e500 K, --at-auth-e500 N,N... --auth-latency-ms N      at /oauth/token, /login and /sign

Content:
  --detail-max-ids N                              most ids in one request to /details (100)
  --detail-unknown omit|404|400                   how an unknown id is handled
  --detail-gone INDEX,...                         listed by /ids, missing in /details
  --detail-poison INDEX:STATUS,...                fails every request for it
  --users N              record n is a post of user n % N (10)
  --users-closed INDEX:STATUS,...
  --graphql-error K, --at-graphql-error N,N... --graphql-code CODE      errors in a 200 (RATE_LIMITED)
  --export-key KEY       (export-key)
  --notes N              notes that each keyword finds on the notes platform (45)
  --notes-gone N,... --notes-broken N,... --notes-slow N,... --notes-slow-ms N     notes that are deleted, fail, or are slow

Tweet provider:
  --tweets-key KEY --tweets-key-status 401|403    X-API-Key, and the status without it (tweets-key, 403)
  --tweets-per-user N --tweets-counts USER:N,...  tweets per user, with exceptions (45)
  --tweets-unknown USER,...                       users who do not exist
  --tweets-lists ID:USER+USER,...                 members of a list
  --tweets-page-size N                            (20)
  --tweets-envelope wire|documented               data.tweets or tweets (wire)
  --tweets-pinned true                            the oldest tweet is on every page
  --tweets-always-more true --tweets-repeat-cursor true         has_next_page stays true: empty pages, or the last page again
  --tweets-faults USER:FAULT:TIMES,...            FAULT is a status, error, no_list or late_MILLIS; without TIMES always

GET  /offset?offset=&limit=  /page?page=&size=&base=  /cursor?cursor=*&rows=&endcursor=keep
     /link?page=&size=  /window?limit=  each with from= to= order=asc|desc
     /ids?version=1  the same listings of ids: /ids/offset /ids/page /ids/cursor /ids/link /ids/window
     /details?ids=a,b,c (or POST {\"ids\": [...]})  /detail/ID
     /users?page=&size=  /users/ID/posts?from=&to=&page=&size=  /users/ID/posts/ID/comments?page=&size=
     /rest/issues?state=&since=&direction=&per_page=&page=       a list with Link headers
     /export?date=2024-01-01&format=csv|atom&api_key=            one day
     /twitter/user/last_tweets?userName=&cursor=  /twitter/list/tweets?listId=&cursor=  /twitter/user/info?userName=
POST /twitter/bookmarks_v2 {\"login_cookies\", \"proxy\", \"cursor\"}
     /graphql {\"query\": \"{ works(first: 10, after: $cursor) {...} }\", \"variables\": {...}}
     /oauth/token  /login  /sign {\"method\", \"url\", \"body_sha256\"}
GET  /stats /reset /visible?n= /knobs?... /revoke?what=tokens|sessions /health
";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Args {
    pub(crate) listen: SocketAddr,
    pub(crate) records: usize,
    pub(crate) seed: u64,
    pub(crate) step_secs: u32,
    pub(crate) tie_every: usize,
    pub(crate) threads: usize,
    pub(crate) script: Script,
}

/// Most records; each takes about a kilobyte of memory.
const MAX_RECORDS: usize = 10_000_000;

impl Args {
    /// Parses the arguments; `None` if help was requested.
    pub(crate) fn parse(args: impl IntoIterator<Item = String>) -> Result<Option<Self>, String> {
        let mut parsed = Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 18080)),
            records: 10_000,
            seed: 1,
            step_secs: 60,
            tie_every: 7,
            threads: 1,
            script: Script::default(),
        };
        let mut args = args.into_iter();
        while let Some(arg) = args.next() {
            if arg == "--help" || arg == "-h" {
                return Ok(None);
            }
            let name = arg.strip_prefix("--").ok_or_else(|| format!("unexpected argument {arg:?}"))?;
            let (name, value) = match name.split_once('=') {
                Some((name, value)) => (name, value.to_owned()),
                None => (name, args.next().ok_or_else(|| format!("--{name} needs a value"))?),
            };
            parsed.set(name, &value)?;
        }
        Ok(Some(parsed))
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let bad = |error: &dyn std::fmt::Display| format!("--{name} cannot be {value:?}: {error}");
        match name {
            "listen" => self.listen = value.parse().map_err(|e| bad(&e))?,
            "records" => self.records = value.parse().map_err(|e| bad(&e))?,
            "seed" => self.seed = value.parse().map_err(|e| bad(&e))?,
            "step-secs" => self.step_secs = value.parse().map_err(|e| bad(&e))?,
            "tie-every" => self.tie_every = value.parse().map_err(|e| bad(&e))?,
            "threads" => self.threads = value.parse().map_err(|e| bad(&e))?,
            _ => self.script.set(&name.replace('-', "_"), value)?,
        }
        if self.records > MAX_RECORDS || !(1..=64).contains(&self.threads) {
            return Err(bad(&format!("at most {MAX_RECORDS} records, 1 to 64 threads")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Args>, String> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn reads_its_own_arguments_and_the_knobs() {
        let args =
            parse("--listen 127.0.0.1:0 --records=5 --e429 7 --at-e500 3,4 --retry-after date:2").unwrap().unwrap();
        assert_eq!((args.listen.port(), args.records), (0, 5));
        assert_eq!((args.script.e429.every, &args.script.e500.at[..]), (7, &[3, 4][..]));
        assert_eq!(parse("--seed 4 -h"), Ok(None));
    }

    #[test]
    fn unknown_arguments_are_rejected() {
        for line in ["x", "--bogus 1", "--records", "--records many", "--threads 0", "--records 99999999999"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    /// The help is written by hand; this test keeps it complete.
    #[test]
    fn every_knob_is_in_the_help() {
        let script = serde_json::to_value(Script::default()).unwrap();
        for (name, value) in script.as_object().unwrap() {
            let group = ["oauth", "login", "signing", "detail", "tweets"].contains(&name.as_str());
            let fields = value.as_object().filter(|_| group).into_iter().flatten();
            let knobs: Vec<String> = fields.map(|(field, _)| format!("{name}-{field}")).collect();
            for knob in if group { knobs } else { vec![name.clone()] } {
                let knob = format!("--{}", knob.replace('_', "-"));
                // Compares whole words: one knob's name may be a prefix of another's.
                assert!(HELP.split([' ', '\n', ',']).any(|word| word == knob), "{knob}");
            }
        }
    }
}
