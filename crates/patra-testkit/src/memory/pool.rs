//! The URL pool, capture rules, and documents.

use patra_core::port::pool::{CaptureRule, PoolUrl, ProjectRow};
use patra_core::project::{DEFAULT, Library};
use patra_core::record::{RecordStream, RecordVersion};
use patra_core::tx::{
    AddUrls, Capture, CaptureConfigured, Captured, ConfigureCapture, CreateProject, DocumentPut, FoundUrl,
    MAX_JOB_TYPES, MAX_URLS, ProjectCreated, PutDocument, TxError, UrlSource, UrlsAdded,
};
use patra_core::{JobId, RunId, Ts};

use super::{Item, MemStore, next_id, place, refused};

/// The longest domain that the column takes.
const MAX_DOMAIN: usize = 255;

#[derive(Clone, Debug)]
pub struct UrlRow {
    /// Project of the entry; empty in the shared library.
    pub project_key: String,
    pub what: PoolUrl,
}

impl MemStore {
    pub(super) fn create_project(&mut self, now: Ts, op: &CreateProject) -> ProjectCreated {
        let existed = op.project_key == DEFAULT || self.projects.contains_key(&op.project_key);
        if !existed {
            let (project_key, name) = (op.project_key.clone(), op.name.clone());
            self.projects.insert(op.project_key.clone(), ProjectRow { project_key, name, created_at: now });
        }
        ProjectCreated { existed }
    }

    pub(super) fn add_urls(&mut self, now: Ts, op: &AddUrls) -> Result<UrlsAdded, TxError> {
        if op.urls.len() > MAX_URLS {
            return refused(format!("{} URLs in one request: at most {MAX_URLS}", op.urls.len()));
        }
        let owner = op.library.key(&op.project_key);
        if (op.library == Library::Shared) != owner.is_empty() {
            return refused("a project's URL without a project");
        }
        if op.urls.iter().any(|found| found.domain.chars().count() > MAX_DOMAIN) {
            return refused("a domain that is too long");
        }
        let mut new = 0;
        for found in &op.urls {
            let same =
                |row: &UrlRow| row.what.library == op.library && row.project_key == owner && row.what.url == found.url;
            if self.urls.iter().any(same) {
                continue;
            }
            let what = PoolUrl {
                id: next_id(&self.urls),
                url: found.url.clone(),
                domain: found.domain.clone(),
                source: op.source,
                source_ref: found.source_ref.clone(),
                library: op.library,
                created_at: now,
            };
            self.urls.push(UrlRow { project_key: owner.to_owned(), what });
            new += 1;
        }
        Ok(UrlsAdded { new })
    }

    /// A failed capture does not fail the commit.
    pub(super) fn capture(
        &mut self,
        now: Ts,
        capture: Option<&Capture>,
        project_key: &str,
        instance: Option<JobId>,
    ) -> Captured {
        let Some(capture) = capture else { return Captured::None };
        let there = instance.filter(|id| !self.forgotten.instances.contains(id));
        let part = there.and_then(|id| self.instances.get(place(id.0)));
        let job = part.and_then(|row| self.instances.get(place(row.root.unwrap_or(row.id).0)));
        let task_id = job.map(|row| &*row.public_id);
        let source_ref = capture.source_ref(task_id);
        let found = |(url, domain): &(String, String)| FoundUrl {
            url: url.clone(),
            domain: domain.clone(),
            source_ref: source_ref.clone(),
        };
        let add = AddUrls {
            library: capture.library,
            project_key: project_key.to_owned(),
            source: UrlSource::Task,
            urls: capture.urls.iter().map(found).collect(),
        };
        self.add_urls(now, &add).map_or(Captured::Failed, |added| Captured::Stored { new: added.new })
    }

    pub(super) fn configure_capture(&mut self, now: Ts, op: &ConfigureCapture) -> Result<CaptureConfigured, TxError> {
        if op.job_types.len() > MAX_JOB_TYPES {
            return refused(format!("{} job types in one request: at most {MAX_JOB_TYPES}", op.job_types.len()));
        }
        for job_type in &op.job_types {
            let rule = CaptureRule {
                project_key: op.project_key.clone(),
                job_type: job_type.clone(),
                library: op.library,
                enabled: op.enabled,
                updated_at: now,
            };
            self.capture_rules.insert((op.project_key.clone(), job_type.clone()), rule);
        }
        Ok(CaptureConfigured)
    }

    pub(super) fn put_document(&mut self, now: Ts, op: &PutDocument) -> DocumentPut {
        let stream = self.stream(&RecordStream {
            project_key: op.project_key.clone(),
            provenance_code: "documents".into(),
            endpoint_name: "documents".into(),
            dedup_scope: "document".into(),
            kind: "document".into(),
        });
        if let Some(at) = self.index.items[stream].get(&op.uri).copied() {
            let item = &mut self.items[at];
            let changed = item.content_hash != op.content_hash || item.emptied_at.is_some();
            if changed {
                (item.content_hash, item.fields) = (op.content_hash, op.fields.clone());
                (item.payload, item.emptied_at) = (op.payload.clone().into(), None);
                (item.version.updated_at, item.stored_at, item.checked_at) = (now, now, now);
            }
            return DocumentPut { id: item.id, created: false, changed };
        }
        let id = next_id(&self.items);
        self.index.items[stream].insert(op.uri.clone(), self.items.len());
        self.items.push(Item {
            id,
            stream,
            key: op.uri.clone(),
            endpoint_name: "documents".into(),
            kind: "document".into(),
            version: RecordVersion { updated_at: now, source_version: 0 },
            generation: "".into(),
            checked_at: now,
            content_hash: op.content_hash,
            fields: op.fields.clone(),
            payload: op.payload.clone().into(),
            run: RunId(0),
            batch_no: 0,
            created_at: now,
            stored_at: now,
            emptied_at: None,
            missing_since: None,
        });
        DocumentPut { id, created: true, changed: false }
    }
}
