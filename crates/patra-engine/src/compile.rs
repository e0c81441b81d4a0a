//! Compiles a trigger with the registry into a draft for the planner, or into the next partitions of a trigger that
//! fans out. Reads the store, never the network (ING-8.0-01).

mod fan;
mod value;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::paging::PagingKind;
use patra_core::params::{self, Params};
use patra_core::port::{Queries, Store};
use patra_core::protocol::planner::{
    CompileError, CompiledJob, PlanDraft, PlanQuota, PlanSpan, RefreshSpec, job_component,
};
use patra_core::state::Operation;
use patra_core::tx::ClaimedJob;
use patra_core::{CredentialId, cursor, hash};
use patra_spec::{Manifest, Overrides, RobotsRule, Snapshot};

use crate::credentials::credential_for;
use crate::registry;
use crate::slice_context::{depth, narrowest, slice_context, stream};
use crate::sources::{self, PollTarget, TweetUpstream};

pub(crate) use fan::check_params;

/// Compiled specs in the cache: the partitions of one trigger share theirs.
const MAX_ENTRIES: usize = 100;

/// Compiles triggers, with a cache. The key of an entry covers all its inputs, so it never goes stale.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    known: HashMap<CompileKey, Arc<FrozenSpec>>,
    /// The upstream of tweets, where it differs from the settings.
    tweets: TweetUpstream,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct CompileKey {
    document_hash: String,
    endpoint_name: String,
    operation: Operation,
    overrides: String,
    entries: Option<&'static str>,
    allow_net: Vec<String>,
    robots: Option<RobotsRule>,
}

/// A compiled spec with the attributes of its plan.
#[derive(Debug)]
pub(crate) struct FrozenSpec {
    /// The project that its manifest is for; `None`: for all.
    project: Option<String>,
    pub(crate) snapshot: Snapshot,
    pub(crate) body: String,
    labels: Value,
    warnings: Vec<String>,
}

impl FrozenSpec {
    /// A spec of one project is not visible to the others.
    pub(crate) fn check_project(&self, code: &str, asking: &str) -> Result<(), CompileError> {
        match registry::is_for(self.project.as_deref(), Some(asking)) {
            true => Ok(()),
            false => Err(missing(code)),
        }
    }
}

fn missing(code: &str) -> CompileError {
    format!("no manifest is applied for `{code}`").into()
}

/// The origin of a manifest.
enum ManifestOrigin<'a> {
    Rows(Vec<patra_core::registry::RegistryRow>),
    Manifest(&'a Manifest),
    Changed(Box<Manifest>),
}

impl<'a> ManifestOrigin<'a> {
    fn manifest(self, code: &str) -> Result<Cow<'a, Manifest>, CompileError> {
        match self {
            ManifestOrigin::Manifest(manifest) => Ok(Cow::Borrowed(manifest)),
            ManifestOrigin::Changed(manifest) => Ok(Cow::Owned(*manifest)),
            ManifestOrigin::Rows(rows) => {
                let read = patra_spec::registry::manifest(code, &rows);
                Ok(Cow::Owned(read.map_err(|problems| problems.to_string())?))
            }
        }
    }
}

/// Options for compiling an endpoint.
struct EndpointOptions<'a> {
    operation: Operation,
    overrides: &'a str,
    /// Replaces the endpoint's own `items_path`: see [`Target`].
    entries: Option<&'static str>,
    /// Added to the networks that the endpoint may reach.
    allow_net: &'a [String],
    /// Replaces the endpoint's own rule.
    robots: Option<RobotsRule>,
}

impl Compiler {
    /// Compiles the registry for a new trigger; a trigger whose plan is open goes on with that plan's own snapshot
    /// (C-10). The error is a sentence for the person who asked.
    pub(crate) async fn compile(
        &mut self,
        store: &dyn Store,
        trigger: &ClaimedJob,
    ) -> Result<CompiledJob, CompileError> {
        let frozen = match &trigger.plan {
            Some(plan) => stored(store, &plan.snapshot_hash).await?,
            None => self.frozen(store, trigger).await?,
        };
        let snapshot = &frozen.snapshot;
        if snapshot.polled {
            let hint = "the endpoint is for sources, which poll it: see `patra source add`";
            return Err(hint.into());
        }
        let given = params::from_text(&trigger.params).map_err(|error| format!("the params are damaged: {error}"))?;
        let open = |param: &String| !given.contains_key(param);
        // Stored records belong to all partitions: an UPDATE does not fan out.
        let fans = trigger.plan.is_none() && trigger.operation != Operation::Update;
        if fans && snapshot.partitions.iter().any(|dimension| open(&dimension.param)) {
            return fan::next(store, trigger, snapshot, &given).await.map(CompiledJob::Fan);
        }
        let params = snapshot.resolve_params(&given).map_err(|fault| fault.message)?;
        let credential =
            credential_for(store, &trigger.provenance_code, &trigger.endpoint_name, &snapshot.auth).await?;
        draft(trigger, &frozen, params, credential).map(CompiledJob::Plan)
    }

    pub(crate) fn with_tweets(tweets: TweetUpstream) -> Compiler {
        Compiler { tweets, ..Compiler::default() }
    }

    /// The endpoint that a source polls.
    pub(crate) async fn endpoint(
        &mut self,
        store: &dyn Store,
        target: &PollTarget,
    ) -> Result<Arc<FrozenSpec>, CompileError> {
        let registered = self.of_target(store, target).await?;
        let (operation, overrides) = (Operation::Harvest, "{}");
        let PollTarget { entries, robots, .. } = *target;
        let asked = EndpointOptions { operation, overrides, entries, allow_net: &target.allow_net, robots };
        self.of(registered, &target.provenance_code, &target.endpoint_name, asked)
    }

    /// An endpoint that is requested directly, without a plan.
    pub(crate) async fn question(&self, store: &dyn Store, target: &PollTarget) -> Result<Snapshot, CompileError> {
        let (_, registered) = self.of_target(store, target).await?;
        let manifest = registered.manifest(&target.provenance_code)?;
        let (endpoint, none) = (&target.endpoint_name, Overrides::default());
        let compiled = patra_spec::inspect(&manifest, endpoint, Operation::Harvest, &none);
        Ok(compiled.map_err(|problems| problems.to_string())?.snapshot)
    }

    async fn of_target<'a>(
        &self,
        store: &dyn Store,
        target: &'a PollTarget,
    ) -> Result<(String, ManifestOrigin<'a>), CompileError> {
        let registered = match &target.manifest {
            Some(own) => (own.version(), ManifestOrigin::Manifest(own)),
            None => self.registered(store, &target.provenance_code).await?,
        };
        let is_built_in = matches!(registered, (_, ManifestOrigin::Manifest(_)));
        let changed = match &*target.provenance_code {
            sources::TWITTER if is_built_in => self.tweets_from(store).await?,
            sources::PROVENANCE if is_built_in => sources_from(store).await?,
            _ => None,
        };
        Ok(match changed {
            Some(manifest) => (manifest.version(), ManifestOrigin::Changed(Box::new(manifest))),
            None => registered,
        })
    }

    /// The built-in manifest of tweets, changed by settings.
    async fn tweets_from(&self, store: &dyn Store) -> Result<Option<Manifest>, CompileError> {
        let settings = store.settings().await?;
        let of = |name: &str| settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let TweetUpstream { api, base_url, rate } = &self.tweets;
        let (api, base_url) = (api.as_deref().or(of(sources::TWITTER_API)), base_url.as_deref());
        let base_url = base_url.or(of(sources::TWITTER_BASE_URL));
        match (api, base_url, rate.as_deref().or(of(sources::TWITTER_RATE))) {
            (None, None, None) => Ok(None),
            (api, base_url, rate) => Ok(Some(sources::tweets_from(api, base_url, rate)?)),
        }
    }

    async fn frozen(&mut self, queries: &dyn Queries, trigger: &ClaimedJob) -> Result<Arc<FrozenSpec>, CompileError> {
        let code = &trigger.provenance_code;
        let registered = self.registered(queries, code).await?;
        let (operation, overrides) = (trigger.operation, &trigger.overrides);
        let asked = EndpointOptions { operation, overrides, entries: None, allow_net: &[], robots: None };
        let frozen = self.of(registered, code, &trigger.endpoint_name, asked)?;
        frozen.check_project(code, &trigger.project_key)?;
        Ok(frozen)
    }

    /// The applied manifest of a code, or else the built-in one.
    async fn registered(
        &self,
        queries: &dyn Queries,
        code: &str,
    ) -> Result<(String, ManifestOrigin<'static>), CompileError> {
        match queries.registry(code).await? {
            Some(stored) => Ok((stored.document_hash, ManifestOrigin::Rows(stored.rows))),
            None => match sources::built_in(code) {
                Some(manifest) => {
                    let manifest = manifest?;
                    Ok((manifest.version(), ManifestOrigin::Manifest(manifest)))
                }
                None => Err(missing(code)),
            },
        }
    }

    fn of(
        &mut self,
        (version, registered): (String, ManifestOrigin<'_>),
        code: &str,
        endpoint: &str,
        EndpointOptions { operation, overrides: asked, entries, allow_net, robots }: EndpointOptions<'_>,
    ) -> Result<Arc<FrozenSpec>, CompileError> {
        let key = CompileKey {
            document_hash: format!("{code}:{version}"),
            endpoint_name: endpoint.to_owned(),
            operation,
            overrides: asked.to_owned(),
            entries,
            allow_net: allow_net.to_vec(),
            robots,
        };
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let mut manifest = registered.manifest(code)?;
        if let Some(path) = entries
            && let Some(known) = manifest.to_mut().endpoints.get_mut(endpoint)
        {
            known.response.items_path = Some(path.to_owned());
        }
        if !allow_net.is_empty()
            && let Some(known) = manifest.to_mut().endpoints.get_mut(endpoint)
        {
            known.http.allow_net.get_or_insert_default().extend_from_slice(allow_net);
        }
        if robots.is_some()
            && let Some(known) = manifest.to_mut().endpoints.get_mut(endpoint)
        {
            known.http.robots = robots;
        }
        let overrides = overrides(asked)?;
        let compiled = patra_spec::compile_with(&manifest, endpoint, operation, &overrides);
        let compiled = compiled.map_err(|problems| problems.to_string())?;
        let labels = json!({
            "provenance": compiled.labels.provenance,
            "endpoint": compiled.labels.endpoint,
            "operation": compiled.labels.operation,
            "version": compiled.labels.version,
            "hash": compiled.labels.hash,
            "overrides": overrides.to_json(),
        });
        let body = compiled.snapshot.body();
        let project = manifest.project.clone();
        let frozen = FrozenSpec { project, snapshot: compiled.snapshot, body, labels, warnings: compiled.warnings };
        let frozen = Arc::new(frozen);
        if self.known.len() >= MAX_ENTRIES {
            self.known.clear();
        }
        self.known.insert(key, Arc::clone(&frozen));
        Ok(frozen)
    }
}

fn overrides(text: &str) -> Result<Overrides, CompileError> {
    let json = serde_json::from_str(text).map_err(|error| format!("the overrides are damaged: {error}"))?;
    Overrides::from_json(&json).map_err(|problems| problems.to_string().into())
}

async fn stored(queries: &dyn Queries, hash: &str) -> Result<Arc<FrozenSpec>, CompileError> {
    let body = queries.snapshot(hash).await?;
    let body = body.ok_or_else(|| format!("there is no snapshot {hash}"))?;
    let snapshot = Snapshot::from_body(&body).map_err(|error| format!("snapshot {hash} is unreadable: {error}"))?;
    // Warnings were reported when the plan was made.
    Ok(Arc::new(FrozenSpec { project: None, snapshot, body, labels: Value::Null, warnings: Vec::new() }))
}

/// The built-in manifest of sources, changed by settings.
async fn sources_from(store: &dyn Store) -> Result<Option<Manifest>, CompileError> {
    let settings = store.settings().await?;
    let contact = settings.iter().find(|(key, _)| key == sources::COLLECTOR_CONTACT);
    Ok(contact.map(|(_, contact)| sources::sources_from(contact)).transpose()?)
}

fn draft(
    trigger: &ClaimedJob,
    frozen: &FrozenSpec,
    params: Params,
    credential: Option<CredentialId>,
) -> Result<Box<PlanDraft>, CompileError> {
    let snapshot = &frozen.snapshot;
    let namespace_key = namespace_key(trigger, snapshot, &params);
    let mut context = slice_context(snapshot, &trigger.project_key, params, job_component(trigger));
    context.priority = trigger.operation.priority().saturating_add(trigger.priority);
    Ok(Box::new(PlanDraft {
        snapshot_body: frozen.body.clone(),
        cursor: cursor::CursorName {
            project_key: trigger.project_key.clone(),
            provenance_code: trigger.provenance_code.clone(),
            endpoint_name: trigger.endpoint_name.clone(),
            operation: trigger.operation,
            cursor_key: match trigger.operation {
                Operation::Update => "item_id".to_owned(),
                Operation::Harvest | Operation::Backfill => context.watermark_key.clone(),
            },
            scope: match trigger.operation {
                Operation::Harvest => cursor::CursorScope::Expr,
                // BACKFILL and UPDATE never move the harvest's watermark (C-16).
                Operation::Backfill | Operation::Update => cursor::CursorScope::Custom,
            },
            namespace_key,
        },
        span: span(trigger, snapshot)?,
        context,
        c_max: snapshot.limits.concurrency,
        inventory: Some(snapshot.limits.inventory),
        quota: quota(snapshot),
        qps: snapshot.rate_limit.qps,
        per_request: snapshot.pagination.as_ref().and_then(|paging| paging.page_size).unwrap_or(0),
        credential,
        labels: frozen.labels.clone(),
        degradations: degradations(snapshot),
        warnings: frozen.warnings.clone(),
    }))
}

/// The span of time or ids that the plan is cut along.
fn span(trigger: &ClaimedJob, snapshot: &Snapshot) -> Result<PlanSpan, CompileError> {
    if trigger.operation == Operation::Update {
        let reason = trigger.reason.ok_or("an UPDATE must say why: STALENESS, EXPR_CHANGE or SIGNALS")?;
        let update =
            snapshot.update.as_ref().ok_or("the endpoint declares no detail endpoint to fetch records from")?;
        return Ok(PlanSpan::Ids {
            stream: stream(snapshot, &trigger.project_key),
            refresh: RefreshSpec {
                reason,
                stale_after: update.stale_after.0,
                generation: snapshot.mapping_generation(),
                size: update.segment_size,
            },
        });
    }
    if snapshot.reads_whole_list() {
        let bounded = trigger.window_from.is_some() || trigger.window_to.is_some();
        return match bounded {
            true => {
                Err("the endpoint has `window.mode: snapshot`: a pass reads the whole list and has no `from` and `to`"
                    .into())
            }
            false => Ok(PlanSpan::Whole),
        };
    }
    Ok(PlanSpan::Time {
        cut: snapshot.cut(),
        initial: snapshot.initial().ok_or("the endpoint declares no window.initial, so there is no place to begin")?,
        narrowest: narrowest(snapshot),
        depth: depth(snapshot),
    })
}

/// Features that the upstream lacks and that are emulated (ING-12.4-02).
fn degradations(snapshot: &Snapshot) -> Vec<&'static str> {
    let mut degradations = Vec::new();
    let numbered = matches!(snapshot.paging().kind, PagingKind::Offset | PagingKind::Page { .. });
    let response = &snapshot.response;
    if response.total_path.is_none() {
        degradations.push("noCount");
    }
    if numbered && response.has_more_path.is_none() {
        degradations.push("hasNextByPageSize");
    }
    if !snapshot.window.supports_updated_since && !snapshot.reads_whole_list() {
        degradations.push("clientSideTimeScan");
    }
    degradations
}

/// The scope of a cursor. For a HARVEST: the endpoint and the params that select its records (G-03). For a BACKFILL or
/// UPDATE: the activity, or the trigger itself, which makes one plan (C-63). Projects do not share cursors.
fn namespace_key(trigger: &ClaimedJob, snapshot: &Snapshot, params: &Params) -> String {
    let mut key = match trigger.operation {
        Operation::Harvest => format!("{}:{}", trigger.endpoint_name, snapshot.selection_hash()),
        Operation::Backfill | Operation::Update => {
            let activity = match &trigger.activity {
                Some(activity) => hash::digest(&["activity", activity]),
                None => hash::digest(&["trigger", &trigger.public_id]),
            };
            format!("{}:{activity}", trigger.endpoint_name)
        }
    };
    if !params.is_empty() {
        key = format!("{key}:{}", hash::digest(&["params", &params::to_text(params)]));
    }
    key
}

/// Plans are limited by the remaining quota, where one is declared.
fn quota(snapshot: &Snapshot) -> Option<PlanQuota> {
    let limits = snapshot.gate_limits();
    let declared = limits.quotas.hourly.is_some() || limits.quotas.daily.is_some();
    declared.then(|| PlanQuota { key: snapshot.gate_key(), limits })
}

#[cfg(test)]
mod tests;
