//! From a trigger and the registry to what the planner works with: a draft that it can cut, or the next partitions of a
//! trigger that stands for many. Reads the store, never the network (ING-8.0-01).

mod fan;
mod value;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use patra_core::params::{self, Params};
use patra_core::port::{Queries, Store};
use patra_core::protocol::planner::{Compiled, Draft, NotCompiled, trigger_component};
use patra_core::state::Operation;
use patra_core::tx::TriggerTaken;
use patra_core::{CredentialId, cursor, hash};
use patra_spec::{Overrides, Snapshot};

use crate::credentials::credential_for;
use crate::shape::shape;

pub(crate) use fan::check_params;

/// Compiled specs that are kept: the partitions of one trigger share theirs.
const MAX_ENTRIES: usize = 100;

/// Compiles triggers, and remembers what it compiled. An entry is known by all that went into it, so it never goes stale.
#[derive(Debug, Default)]
pub(crate) struct Compiler {
    known: HashMap<Key, Arc<Frozen>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Key {
    document_hash: String,
    endpoint_name: String,
    operation: Operation,
    overrides: String,
}

/// A spec with what a plan says about it.
#[derive(Debug)]
struct Frozen {
    snapshot: Snapshot,
    body: String,
    labels: Value,
    warnings: Vec<String>,
}

impl Compiler {
    /// Compiles the registry for a new trigger; a trigger whose plan is open goes on with that plan's own snapshot (C-10).
    /// The error is a sentence for the person who asked.
    pub(crate) async fn compile(&mut self, store: &dyn Store, trigger: &TriggerTaken) -> Result<Compiled, NotCompiled> {
        let frozen = match &trigger.plan {
            Some(plan) => stored(store, &plan.snapshot_hash).await?,
            None => self.frozen(store, trigger).await?,
        };
        let snapshot = &frozen.snapshot;
        let given = params::from_text(&trigger.params).map_err(|error| format!("the params are damaged: {error}"))?;
        let open = |param: &String| !given.contains_key(param);
        if trigger.plan.is_none() && snapshot.partitions.iter().any(|dimension| open(&dimension.param)) {
            return fan::next(store, trigger, snapshot, &given).await.map(Compiled::Fan);
        }
        let params = snapshot.resolve_params(&given).map_err(|fault| fault.message)?;
        let credential =
            credential_for(store, &trigger.provenance_code, &trigger.endpoint_name, &snapshot.auth).await?;
        draft(trigger, &frozen, params, credential).map(Compiled::Plan)
    }

    async fn frozen(&mut self, queries: &dyn Queries, trigger: &TriggerTaken) -> Result<Arc<Frozen>, NotCompiled> {
        let code = &trigger.provenance_code;
        let stored = queries.registry(code).await?;
        let stored = stored.ok_or_else(|| format!("no manifest is applied for `{code}`"))?;
        let key = Key {
            document_hash: format!("{code}:{}", stored.document_hash),
            endpoint_name: trigger.endpoint_name.clone(),
            operation: trigger.operation,
            overrides: trigger.overrides.clone(),
        };
        if let Some(known) = self.known.get(&key) {
            return Ok(Arc::clone(known));
        }
        let manifest = patra_spec::registry::manifest(code, &stored.rows).map_err(|problems| problems.to_string())?;
        let overrides = overrides(&trigger.overrides)?;
        let compiled = patra_spec::compile_with(&manifest, &trigger.endpoint_name, trigger.operation, &overrides);
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
        let frozen = Frozen { snapshot: compiled.snapshot, body, labels, warnings: compiled.warnings };
        let frozen = Arc::new(frozen);
        if self.known.len() >= MAX_ENTRIES {
            self.known.clear();
        }
        self.known.insert(key, Arc::clone(&frozen));
        Ok(frozen)
    }
}

fn overrides(text: &str) -> Result<Overrides, NotCompiled> {
    let json = serde_json::from_str(text).map_err(|error| format!("the overrides are damaged: {error}"))?;
    Overrides::from_json(&json).map_err(|problems| problems.to_string().into())
}

async fn stored(queries: &dyn Queries, hash: &str) -> Result<Arc<Frozen>, NotCompiled> {
    let body = queries.snapshot(hash).await?;
    let body = body.ok_or_else(|| format!("there is no snapshot {hash}"))?;
    let snapshot = Snapshot::from_body(&body).map_err(|error| format!("snapshot {hash} is unreadable: {error}"))?;
    // The plan has said all about it when it was made.
    Ok(Arc::new(Frozen { snapshot, body, labels: Value::Null, warnings: Vec::new() }))
}

fn draft(
    trigger: &TriggerTaken,
    frozen: &Frozen,
    params: Params,
    credential: Option<CredentialId>,
) -> Result<Box<Draft>, NotCompiled> {
    let snapshot = &frozen.snapshot;
    let initial =
        snapshot.initial().ok_or("the endpoint declares no window.initial, so a harvest has no place to begin")?;
    let namespace_key = namespace_key(trigger, snapshot, &params);
    let mut shape = shape(snapshot, &trigger.project_key, params, trigger_component(trigger));
    shape.priority = trigger.operation.priority().saturating_add(trigger.priority);
    Ok(Box::new(Draft {
        snapshot_body: frozen.body.clone(),
        cursor: cursor::Name {
            provenance_code: trigger.provenance_code.clone(),
            endpoint_name: trigger.endpoint_name.clone(),
            operation: trigger.operation,
            cursor_key: shape.watermark_key.clone(),
            scope: cursor::Scope::Expr,
            namespace_key,
        },
        cut: snapshot.cut(),
        initial,
        shape,
        credential,
        labels: frozen.labels.clone(),
        warnings: frozen.warnings.clone(),
    }))
}

/// The endpoint and what selects its records, params included (G-03). Projects do not share progress.
fn namespace_key(trigger: &TriggerTaken, snapshot: &Snapshot, params: &Params) -> String {
    let mut key = format!("{}:{}", trigger.endpoint_name, snapshot.meaning_hash());
    if !params.is_empty() {
        key = format!("{key}:{}", hash::digest(&["params", &params::to_text(params)]));
    }
    if trigger.project_key == "default" { key } else { format!("{}/{key}", trigger.project_key) }
}

#[cfg(test)]
mod tests;
