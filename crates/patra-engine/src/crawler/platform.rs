//! A platform is a provenance with a search whose `update.detail` names the endpoint that gives single notes
//! (CRAWL-186).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value};

use patra_connectors::Pager;
use patra_core::port::Queries;
use patra_core::protocol::run::FetchedPage;
use patra_core::record::Record;
use patra_core::state::AuthType;
use patra_core::{Code, Ts};
use patra_spec::{EndpointRole, Manifest, Operation, Overrides, Snapshot};

use super::CrawlFailure;
use crate::gate::RateLane;
use crate::registry;
use crate::shared::lock;

/// How long a read of the registry is cached.
const BELIEVED: Duration = Duration::from_secs(2);
const MAX_ENTRIES: usize = 100;
/// Most platforms that an error names.
const MAX_NAMED: usize = 20;

#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) code: String,
    project: Option<String>,
    pub(super) search: PlatformEndpoint,
    pub(super) detail: PlatformEndpoint,
    pub(super) check: Option<PlatformEndpoint>,
}

/// One endpoint, ready for requests.
#[derive(Debug)]
pub(super) struct PlatformEndpoint {
    pub(super) spec: Snapshot,
    pub(super) pager: Pager,
    pub(super) lane: RateLane,
}

impl Platform {
    fn new(code: &str, manifest: &Manifest) -> Result<Platform, CrawlFailure> {
        let searches =
            manifest.endpoints.iter().filter(|(_, endpoint)| endpoint.role.unwrap_or_default() == EndpointRole::Search);
        let detailed = searches.filter_map(|(name, endpoint)| {
            Some((name, endpoint.update.as_ref().and_then(|update| update.detail.clone())?))
        });
        let Some((search, detail)) = detailed.min_by_key(|(name, _)| *name != "search") else {
            let message =
                format!("`{code}` cannot be crawled: its manifest has no search with `update: {{ detail: … }}`");
            return Err(CrawlFailure::new(Code::InvalidInput, message));
        };
        let check =
            manifest.endpoints.contains_key("check").then(|| PlatformEndpoint::new(manifest, "check")).transpose()?;
        Ok(Platform {
            code: code.to_owned(),
            project: manifest.project.clone(),
            search: PlatformEndpoint::new(manifest, search)?,
            detail: PlatformEndpoint::new(manifest, &detail)?,
            check,
        })
    }

    /// A note of a search result: its fields, and separately the tokens for its details.
    pub(super) fn found(&self, record: &Record) -> super::FoundNote {
        let mut fields = fields(record);
        let mut tokens = BTreeMap::new();
        for name in self.detail.spec.params.keys() {
            if let Some(value) = fields.remove(name) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                tokens.insert(name.clone(), text);
            }
        }
        super::FoundNote { note_id: record.key.clone(), fields, tokens }
    }

    /// The requested note in a response.
    pub(super) fn note(&self, page: &FetchedPage, note_id: &str) -> Result<Value, CrawlFailure> {
        if let Some(rejected) = page.rejected.first() {
            let message = format!("the note came in a form that cannot be used: {}", rejected.reason);
            return Err(CrawlFailure::new(Code::PlatformError, message));
        }
        match page.records.iter().find(|record| record.key == note_id) {
            Some(record) => {
                let mut note = fields(record);
                note.insert("note_id".to_owned(), note_id.into());
                let raw = serde_json::from_str(&record.payload).map_err(|_| {
                    CrawlFailure::new(Code::PlatformError, "the note is nested too deeply to be handed on")
                })?;
                note.insert("raw".to_owned(), raw);
                Ok(Value::Object(note))
            }
            None if page.records.is_empty() => {
                Err(CrawlFailure::new(Code::NotFound, format!("the platform has no note {note_id}")))
            }
            None => Err(CrawlFailure::new(Code::PlatformError, "the platform returned another note")),
        }
    }
}

fn fields(record: &Record) -> Map<String, Value> {
    serde_json::from_str(&record.fields).unwrap_or_default()
}

impl PlatformEndpoint {
    fn new(manifest: &Manifest, endpoint: &str) -> Result<PlatformEndpoint, CrawlFailure> {
        let compiled = patra_spec::inspect(manifest, endpoint, Operation::Harvest, &Overrides::default());
        let spec = compiled.map_err(|problems| CrawlFailure::new(Code::InternalError, problems.to_string()))?.snapshot;
        let pager = Pager::alone(&spec).map_err(CrawlFailure::from)?;
        Ok(PlatformEndpoint { pager, lane: RateLane::of(&spec), spec })
    }
}

impl PlatformEndpoint {
    pub(super) fn wants_cookie(&self) -> bool {
        self.pager.first_authoriser().kind() == Some(AuthType::Cookie)
    }
}

/// Time of the read, version, and platform.
type CachedPlatform = (Ts, String, Arc<Platform>);

/// Cache of platforms.
#[derive(Debug, Default)]
pub(super) struct Platforms {
    known: Mutex<HashMap<String, CachedPlatform>>,
}

impl Platforms {
    /// A platform of another project is reported as unknown.
    pub(super) async fn get(
        &self,
        queries: &dyn Queries,
        code: &str,
        project: Option<&str>,
        now: Ts,
    ) -> Result<Arc<Platform>, CrawlFailure> {
        match self.read(queries, code, project, now).await? {
            Some(platform) if registry::is_for(platform.project.as_deref(), project) => Ok(platform),
            _ => Err(unknown(queries, code, project).await),
        }
    }

    /// Reads a platform. Problems of a manifest are reported only to the projects that it is for.
    async fn read(
        &self,
        queries: &dyn Queries,
        code: &str,
        project: Option<&str>,
        now: Ts,
    ) -> Result<Option<Arc<Platform>>, CrawlFailure> {
        let known = lock(&self.known).get(code).cloned();
        if let Some((_, _, platform)) = known.as_ref().filter(|(read, _, _)| now.since(*read) < BELIEVED) {
            return Ok(Some(Arc::clone(platform)));
        }
        let unreadable =
            |error| CrawlFailure::new(Code::InternalError, format!("the registry cannot be read: {error}"));
        let Some(stored) = queries.registry(code).await.map_err(unreadable)? else { return Ok(None) };
        let platform = match known.filter(|(_, version, _)| *version == stored.document_hash) {
            Some((_, _, platform)) => platform,
            None => {
                let manifest = patra_spec::registry::manifest(code, &stored.rows)
                    .map_err(|problems| CrawlFailure::new(Code::InternalError, problems.to_string()))?;
                if !registry::is_for(manifest.project.as_deref(), project) {
                    return Ok(None);
                }
                Arc::new(Platform::new(code, &manifest)?)
            }
        };
        let mut known = lock(&self.known);
        if known.len() >= MAX_ENTRIES {
            known.clear();
        }
        known.insert(code.to_owned(), (now, stored.document_hash, Arc::clone(&platform)));
        Ok(Some(platform))
    }
}

async fn unknown(queries: &dyn Queries, code: &str, project: Option<&str>) -> CrawlFailure {
    let found = registry::resources(queries).await.unwrap_or_default().into_iter();
    let mut codes: Vec<_> =
        found.filter(|found| registry::is_for(found.project(), project)).map(|found| found.code).collect();
    codes.sort();
    codes.truncate(MAX_NAMED);
    let known =
        if codes.is_empty() { "none is applied yet".to_owned() } else { format!("known: {}", codes.join(", ")) };
    let shown: String = code.chars().filter(|c| !c.is_control()).take(64).collect();
    CrawlFailure::new(Code::InvalidInput, format!("there is no platform `{shown}` ({known})"))
}
