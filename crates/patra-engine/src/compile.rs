//! From a trigger and the registry to a draft that the planner can cut.

use patra_core::cursor;
use patra_core::port::Queries;
use patra_core::protocol::planner::{Draft, NotCompiled};
use patra_core::tx::TriggerTaken;
use patra_spec::{Manifest, Snapshot};

/// Compiles the registry for a new trigger; a trigger whose plan is open goes on with that plan's own snapshot (C-10).
/// The error is a sentence for the person who asked.
pub(crate) async fn draft(queries: &dyn Queries, trigger: &TriggerTaken) -> Result<Box<Draft>, NotCompiled> {
    let (snapshot, warnings) = match &trigger.plan {
        Some(plan) => (stored(queries, &plan.snapshot_hash).await?, Vec::new()),
        None => compiled(queries, trigger).await?,
    };
    let initial =
        snapshot.initial().ok_or("the endpoint declares no window.initial, so a harvest has no place to begin")?;
    let watermark = snapshot.window.watermark_key.clone().unwrap_or_else(|| "updated_at".to_owned());
    let pagination = serde_json::to_value(&snapshot.pagination).unwrap_or_default();
    Ok(Box::new(Draft {
        snapshot_hash: snapshot.fingerprint(),
        snapshot_body: snapshot.body(),
        cursor: cursor::Name {
            provenance_code: trigger.provenance_code.clone(),
            endpoint_name: trigger.endpoint_name.clone(),
            operation: trigger.operation,
            cursor_key: watermark,
            scope: cursor::Scope::Expr,
            namespace_key: namespace_key(trigger, &snapshot),
        },
        cut: snapshot.cut(),
        safety_lag: snapshot.safety_lag(),
        initial,
        priority: trigger.operation.priority(),
        pagination,
        warnings,
    }))
}

/// The endpoint and what selects its records (G-03). Projects do not share progress.
fn namespace_key(trigger: &TriggerTaken, snapshot: &Snapshot) -> String {
    let key = format!("{}:{}", trigger.endpoint_name, snapshot.meaning_hash());
    if trigger.project_key == "default" { key } else { format!("{}/{key}", trigger.project_key) }
}

async fn stored(queries: &dyn Queries, hash: &str) -> Result<Snapshot, NotCompiled> {
    let body = queries.snapshot(hash).await?;
    let body = body.ok_or_else(|| format!("there is no snapshot {hash}"))?;
    Snapshot::from_body(&body).map_err(|error| format!("snapshot {hash} is unreadable: {error}").into())
}

async fn compiled(queries: &dyn Queries, trigger: &TriggerTaken) -> Result<(Snapshot, Vec<String>), NotCompiled> {
    let code = &trigger.provenance_code;
    let document = queries.manifest(code).await?;
    let document = document.ok_or_else(|| format!("no manifest is applied for `{code}`"))?;
    let document =
        serde_json::from_str(&document).map_err(|error| format!("the manifest of `{code}` is damaged: {error}"))?;
    let manifest = Manifest::from_document(&document).map_err(|problems| problems.to_string())?;
    let compiled = patra_spec::compile(&manifest, &trigger.endpoint_name, trigger.operation);
    compiled.map(|compiled| (compiled.snapshot, compiled.warnings)).map_err(|problems| problems.to_string().into())
}
