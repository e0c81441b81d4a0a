//! Checks whether a user without tweets exists: the provider's responses do not differ. The check is made once, before
//! the first empty result of a user is accepted (TWEET-168).

use std::sync::Arc;

use patra_connectors::Pager;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::Store;
use patra_core::protocol::planner::CompileError;
use patra_core::protocol::run::{ExchangeEvidence, FetchedPage, PageFailure, PageFetch};
use patra_core::tx::Lease;
use patra_core::{Code, CredentialId, Fault, Level, SourceId};
use patra_spec::Snapshot;

use crate::compile::Compiler;
use crate::prepared::CompiledSpec;
use crate::runner::{RequestContext, read};
use crate::shared::Shared;
use crate::sources::{self, PollTarget, TWITTER, TWITTER_FEED, TweetUpstream};

const ENDPOINT: &str = "user_info";
const USERNAME: &str = "username";

/// The source of a poll of a user's tweets; `None` for other leases.
pub(crate) fn feed(lease: &Lease) -> Option<SourceId> {
    lease.source.filter(|_| lease.provenance_code == TWITTER && lease.endpoint_name == TWITTER_FEED)
}

/// Returns the page, or an error when it is an empty first page of a user who does not exist.
pub(crate) async fn check(
    shared: &Arc<Shared>,
    source: SourceId,
    poll: &CompiledSpec,
    fetch: &PageFetch,
    params: &Params,
    credential: Option<CredentialId>,
    result: Result<Box<FetchedPage>, Box<PageFailure>>,
) -> Result<Box<FetchedPage>, Box<PageFailure>> {
    let page = result?;
    let is_empty = page.facts.items == 0 && fetch.position == Position::Token(None);
    if !is_empty || is_known(&*shared.ports.store, source).await? {
        return Ok(page);
    }
    let Some(username) = params.get(USERNAME) else { return Ok(page) };
    let params = Params::from([(USERNAME.to_owned(), username.clone())]);
    let spec = Arc::new(spec(&*shared.ports.store, &poll.snapshot, &params).await?);
    let leave = RequestContext { token: None, lane: spec.lane.clone(), first: true, credential };
    let fetch = PageFetch { validators: None, ..fetch.clone() };
    let answer = read(shared, &spec, &fetch, None, &params, leave).await?;
    match answer.records.is_empty() && answer.rejected.is_empty() {
        false => Ok(page),
        true => Err(refusal(Code::NotFound, Level::L2, format!("there is no user {username}"), answer.evidence)),
    }
}

/// A user with a successful fetch, with tweets or without, exists.
async fn is_known(store: &dyn Store, source: SourceId) -> Result<bool, Box<PageFailure>> {
    let stats = store.fetch_stats(&[source]).await.map_err(|error| {
        let message = format!("the statistics cannot be read: {error}");
        refusal(Code::InternalError, Level::L1, message, ExchangeEvidence::default())
    })?;
    Ok(stats.iter().any(|(_, stats)| stats.total_fetches > 0))
}

/// The question goes where the poll went, which may be elsewhere than the settings say.
async fn spec(store: &dyn Store, poll: &Snapshot, params: &Params) -> Result<CompiledSpec, Box<PageFailure>> {
    let target = PollTarget {
        provenance_code: TWITTER.to_owned(),
        endpoint_name: ENDPOINT.to_owned(),
        params: params.clone(),
        ..PollTarget::default()
    };
    let base_url = Some(poll.http.base_url.clone());
    let upstream = TweetUpstream { api: sources::api_of(poll), base_url, rate: None };
    let snapshot = Compiler::with_tweets(upstream).question(store, &target).await.map_err(|error| {
        let (level, reason) = match error {
            CompileError::Refused(reason) => (Level::L4, reason),
            CompileError::Away(error) => (Level::L1, error.to_string()),
        };
        refusal(Code::ConfigError, level, format!("{TWITTER}/{ENDPOINT}: {reason}"), ExchangeEvidence::default())
    })?;
    let broken = |fault: Fault| refusal(fault.code, fault.level, fault.message, ExchangeEvidence::default());
    let pager = Pager::alone(&snapshot).map_err(broken)?;
    Ok(CompiledSpec::new(snapshot, pager))
}

fn refusal(code: Code, level: Level, message: String, evidence: ExchangeEvidence) -> Box<PageFailure> {
    let fault = Fault::new(code, level, message);
    Box::new(PageFailure { fault, throttled: false, retry_after: None, evidence, offline: false })
}
