//! Resources that can be collected from: connectors and sources, shared ones and those of a project (POOL-91..95).

use std::collections::{BTreeMap, HashSet};

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

/// Resources of a project by code. A source that names its `resource_id` hides a shared connector of that code; no other
/// two resources have the same code.
pub async fn news_resources(
    store: &dyn Store,
    project_key: &str,
    sight: LibraryScope,
) -> Result<Vec<RegistryResource>, TxError> {
    let mut found = resources(store).await?;
    found.retain(|resource| resource.project_key.is_empty() || resource.project_key == project_key);
    let filter = SourceFilter { project_key: Some(project_key.to_owned()), ..SourceFilter::default() };
    let sources = of_sources(&store.sources(filter).await?, &found);
    found.extend(sources);
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

/// Sources as resources. The oldest source of a name has the code of that name, and each later one has its number added,
/// so that a code never moves to another source.
fn of_sources(sources: &[StoredSource], connectors: &[RegistryResource]) -> Vec<RegistryResource> {
    let mut sources: Vec<_> = sources.iter().map(|source| (source, given_code(source))).collect();
    // Given codes come first: a name must not take one.
    sources.sort_by_key(|(source, given)| (given.is_none(), source.id));
    let own = connectors.iter().filter(|connector| connector.library == Library::Project);
    let mut taken: HashSet<String> = own.map(|connector| connector.code.clone()).collect();
    let shared: HashSet<&str> = connectors.iter().map(|connector| connector.code.as_str()).collect();
    let mut found = Vec::new();
    for (source, given) in sources {
        let hides = given.is_some();
        let mut code = given.unwrap_or_else(|| slug(&source.name));
        if code.is_empty() {
            code = format!("source_{}", source.id.0);
        }
        while taken.contains(&code) || (!hides && shared.contains(code.as_str())) {
            code = format!("{code}_{}", source.id.0);
        }
        taken.insert(code.clone());
        let (library, project_key) = (Library::Project, source.project_key.clone());
        found.push(RegistryResource { code, name: source.name.clone(), library, project_key });
    }
    found
}

/// The code that the source's configuration gives it.
fn given_code(source: &StoredSource) -> Option<String> {
    let config: Value = serde_json::from_str(&source.config).unwrap_or_default();
    config["resource_id"].as_str().filter(|code| !code.trim().is_empty()).map(str::to_owned)
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
