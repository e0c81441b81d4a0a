//! What a request may read: the store, bound to the projects of its key. Routes and pages read rows only through it, so
//! none of them can forget the filter. A test of the repository holds them to that.

use axum::http::StatusCode;

use patra_core::port::Store;
use patra_core::port::query::{BatchEvidence, BatchPage, JobProgress, PlanLineage, View, ViewFilter, ViewRow};
use patra_core::port::source::{ItemFilter, RawItem, SourceFilter, StoredSource};
use patra_core::{Code, PlanId, RunId};

use crate::Api;
use crate::auth::Tenant;
use crate::envelope::Failure;

/// Read access to the rows of a request's projects. Rows of other projects look as if they did not exist.
#[derive(Clone, Copy)]
pub(crate) struct ProjectStore<'a> {
    store: &'a dyn Store,
    tenant: &'a Tenant,
}

impl Tenant {
    /// The store, bound to the projects that the request may see.
    pub(crate) fn store<'a>(&'a self, api: &'a Api) -> ProjectStore<'a> {
        ProjectStore { store: &*api.store, tenant: self }
    }
}

impl ProjectStore<'_> {
    /// The filter with the project of the request. Rows without a project are for keys that are bound to no project.
    pub(crate) fn bound(&self, view: View, filter: ViewFilter) -> Result<ViewFilter, Failure> {
        let mut project_key = self.tenant.sight()?.map(str::to_owned);
        if view.owner().is_none() {
            self.tenant.is_operator()?;
            project_key = None;
        }
        Ok(ViewFilter { project_key, ..filter })
    }

    pub(crate) async fn list(&self, view: View, filter: ViewFilter) -> Result<Vec<ViewRow>, Failure> {
        Ok(self.store.list(view, self.bound(view, filter)?).await?)
    }

    /// Whether a row is visible.
    pub(crate) async fn sees(&self, view: View, id: i64) -> Result<bool, Failure> {
        if self.tenant.sight()?.is_none() {
            return Ok(true);
        }
        let filter = ViewFilter { id: Some(id), limit: 1, ..ViewFilter::default() };
        Ok(!self.list(view, filter).await?.is_empty())
    }

    /// Sources of the named project, else of all that the request may see; without a key only public ones.
    pub(crate) async fn sources(&self, filter: SourceFilter) -> Result<Vec<StoredSource>, Failure> {
        let project_key = match filter.project_key {
            Some(key) => Some(self.visible(key)?),
            None => self.tenant.sight()?.map(str::to_owned),
        };
        let public_only = filter.public_only || self.tenant.sees_public_only();
        Ok(self.store.sources(SourceFilter { project_key, public_only, ..filter }).await?)
    }

    /// Articles of the named project.
    pub(crate) async fn raw_items(&self, filter: ItemFilter) -> Result<Vec<RawItem>, Failure> {
        let project_key = self.visible(filter.project_key)?;
        Ok(self.store.raw_items(ItemFilter { project_key, ..filter }).await?)
    }

    pub(crate) async fn progress(&self, public_id: &str) -> Result<Option<JobProgress>, Failure> {
        let progress = self.store.progress(public_id).await?;
        Ok(progress.filter(|progress| self.tenant.is_seen(&progress.project_key)))
    }

    pub(crate) async fn lineage(&self, plan: PlanId, batches: BatchPage) -> Result<Option<PlanLineage>, Failure> {
        match self.sees(View::Plans, plan.0).await? {
            true => Ok(self.store.lineage(plan, batches).await?),
            false => Ok(None),
        }
    }

    pub(crate) async fn evidence(&self, run: RunId, batch_no: u32) -> Result<Option<BatchEvidence>, Failure> {
        match self.sees(View::Runs, run.0).await? {
            true => Ok(self.store.evidence(run, batch_no).await?),
            false => Ok(None),
        }
    }

    fn visible(&self, key: String) -> Result<String, Failure> {
        if self.tenant.is_seen(&key) {
            return Ok(key);
        }
        Err(Failure::new(StatusCode::NOT_FOUND, Code::NotFound, "there is no such project"))
    }
}
