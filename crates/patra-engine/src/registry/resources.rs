//! Resources that can be collected from: connectors and sources, shared ones and those of a project (POOL-91..95).

use std::collections::BTreeMap;

use serde_json::Value;

use patra_core::port::query::{Cell, View, ViewFilter, ViewRow};
use patra_core::port::source::{SourceFilter, StoredSource};
use patra_core::port::{Queries, Store};
use patra_core::project::{Library, LibraryScope};
use patra_core::tx::TxError;

/// A connector or a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistryResource {
    /// `resource_id`.
    pub code: String,
    pub name: String,
    pub library: Library,
    /// Project of the resource; empty for shared ones.
    pub project_key: String,
}

impl RegistryResource {
    /// The project that it is for; `None`: for all.
    pub fn project(&self) -> Option<&str> {
        Some(self.project_key.as_str()).filter(|key| !key.is_empty())
    }
}

/// All applied connectors.
pub async fn resources(queries: &dyn Queries) -> Result<Vec<RegistryResource>, TxError> {
    let mut found = Vec::new();
    let mut filter = ViewFilter { limit: ViewFilter::MAX_LIMIT, ..ViewFilter::default() };
    loop {
        let rows = queries.list(View::Provenances, filter.clone()).await?;
        found.extend(rows.iter().map(connector));
        match rows.last().and_then(|row| View::Provenances.cell(row, "id")).and_then(|id| id.as_int()) {
            Some(last) if rows.len() == ViewFilter::MAX_LIMIT as usize => filter.before_id = Some(last),
            _ => return Ok(found),
        }
    }
}

fn connector(row: &ViewRow) -> RegistryResource {
    let text = |column| match View::Provenances.cell(row, column) {
        Some(Cell::Text(text)) => text,
        _ => String::new(),
    };
    let project_key = text("project_key");
    let library = if project_key.is_empty() { Library::Shared } else { Library::Project };
    RegistryResource { code: text("provenance_code"), name: text("name"), library, project_key }
}

/// Resources of a project by code. A resource of the project hides a shared one of the same code.
pub async fn news_resources(
    store: &dyn Store,
    project_key: &str,
    sight: LibraryScope,
) -> Result<Vec<RegistryResource>, TxError> {
    let mut found = resources(store).await?;
    found.retain(|resource| resource.project_key.is_empty() || resource.project_key == project_key);
    let filter = SourceFilter { project_key: Some(project_key.to_owned()), ..SourceFilter::default() };
    found.extend(store.sources(filter).await?.iter().map(of_source));
    // Resources of the project come last, and win.
    found.sort_by_key(|resource| resource.library);
    let mut by_code = BTreeMap::new();
    for resource in found {
        let seen = match sight {
            LibraryScope::Effective => true,
            LibraryScope::Shared => resource.library == Library::Shared,
            LibraryScope::Project => resource.library == Library::Project,
        };
        if seen {
            by_code.insert(resource.code.clone(), resource);
        }
    }
    Ok(by_code.into_values().collect())
}

fn of_source(source: &StoredSource) -> RegistryResource {
    let config: Value = serde_json::from_str(&source.config).unwrap_or_default();
    let code = config["resource_id"].as_str().map_or_else(|| slug(&source.name), str::to_owned);
    let (library, project_key) = (Library::Project, source.project_key.clone());
    RegistryResource { code, name: source.name.clone(), library, project_key }
}

/// A name as a code: `CA Lottery News` is `ca_lottery_news`.
fn slug(name: &str) -> String {
    let words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_a_code() {
        assert_eq!(slug("CA Lottery News"), "ca_lottery_news");
        assert_eq!(slug("https://example.org/feed?x=1"), "https_example_org_feed_x_1");
    }
}
