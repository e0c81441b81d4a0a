//! A user without tweets may be one who does not exist: the provider answers both alike. Before a user is called empty for the
//! first time, it is asked whether there is one (TWEET-168).

use std::sync::Arc;

use patra_connectors::Pager;
use patra_core::paging::Position;
use patra_core::params::Params;
use patra_core::port::Store;
use patra_core::protocol::planner::NotCompiled;
use patra_core::protocol::run::{Evidence, Fetch, Page, Refusal};
use patra_core::tx::Lease;
use patra_core::{Code, CredentialId, Fault, Level, SourceId};

use crate::compile::Compiler;
use crate::prepared::Spec;
use crate::runner::{Leave, read};
use crate::shared::Shared;
use crate::sources::{TWITTER, TWITTER_FEED, Target};

const ENDPOINT: &str = "user_info";
const USERNAME: &str = "username";

/// The source whose poll this is, if it is one of a user's tweets.
pub(crate) fn feed(lease: &Lease) -> Option<SourceId> {
    lease.source.filter(|_| lease.provenance_code == TWITTER && lease.endpoint_name == TWITTER_FEED)
}

/// Passes a page on, unless it is an empty first one and its user turns out not to exist.
pub(crate) async fn check(
    shared: &Arc<Shared>,
    source: SourceId,
    fetch: &Fetch,
    params: &Params,
    credential: Option<CredentialId>,
    result: Result<Box<Page>, Box<Refusal>>,
) -> Result<Box<Page>, Box<Refusal>> {
    let page = result?;
    let is_empty = page.facts.items == 0 && fetch.position == Position::Token(None);
    if !is_empty || is_known(&*shared.ports.store, source).await? {
        return Ok(page);
    }
    let Some(username) = params.get(USERNAME) else { return Ok(page) };
    let params = Params::from([(USERNAME.to_owned(), username.clone())]);
    let spec = Arc::new(spec(&*shared.ports.store, &params).await?);
    let leave = Leave { token: None, lane: spec.lane.clone(), first: true, credential };
    let fetch = Fetch { known: None, ..fetch.clone() };
    let answer = read(shared, &spec, &fetch, None, &params, leave).await?;
    match answer.records.is_empty() && answer.rejected.is_empty() {
        false => Ok(page),
        true => Err(refusal(Code::NotFound, Level::L2, format!("there is no user {username}"), answer.evidence)),
    }
}

/// Somebody who was fetched once, with tweets or without, exists.
async fn is_known(store: &dyn Store, source: SourceId) -> Result<bool, Box<Refusal>> {
    let stats = store.fetch_stats(&[source]).await.map_err(|error| {
        let message = format!("the statistics cannot be read: {error}");
        refusal(Code::InternalError, Level::L1, message, Evidence::default())
    })?;
    Ok(stats.iter().any(|(_, stats)| stats.total_fetches > 0))
}

async fn spec(store: &dyn Store, params: &Params) -> Result<Spec, Box<Refusal>> {
    let target = Target {
        provenance_code: TWITTER.to_owned(),
        endpoint_name: ENDPOINT.to_owned(),
        params: params.clone(),
        manifest: None,
        entries: None,
    };
    let snapshot = Compiler::default().question(store, &target).await.map_err(|error| {
        let (level, reason) = match error {
            NotCompiled::Refused(reason) => (Level::L4, reason),
            NotCompiled::Away(error) => (Level::L1, error.to_string()),
        };
        refusal(Code::ConfigError, level, format!("{TWITTER}/{ENDPOINT}: {reason}"), Evidence::default())
    })?;
    let broken = |fault: Fault| refusal(fault.code, fault.level, fault.message, Evidence::default());
    let pager = Pager::alone(&snapshot).map_err(broken)?;
    Ok(Spec::new(snapshot, pager))
}

fn refusal(code: Code, level: Level, message: String, evidence: Evidence) -> Box<Refusal> {
    let fault = Fault::new(code, level, message);
    Box::new(Refusal { fault, throttled: false, retry_after: None, evidence, offline: false })
}
