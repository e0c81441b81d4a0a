//! The partitions of a trigger: the product of its open dimensions, page by page.
//!
//! One parent dimension drives: its records are read in key order, so that a page knows where it stopped, and a crash
//! costs a page at most. Params of a parent record are passed on: comments of a post that was read for user 7 are read
//! for user 7 too, whether `user` is a dimension of its own or a parameter that nothing else binds. So parents nest to
//! any depth.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use patra_core::params::{self, Params};
use patra_core::port::{CommandsExt, Store};
use patra_core::protocol::planner::{CompileError, PartitionBatch};
use patra_core::tx::{ClaimedJob, MAX_CHILDREN, MAX_PARENTS, MAX_PARTITIONS, ParentRecord, ReadParents};
use patra_core::{Fault, hash};
use patra_spec::{Selector, Snapshot};

use super::value;

/// Parents that are read at once when their payload is needed, because payloads may be large.
const MAX_PAYLOADS: u32 = 100;

/// Progress of a trigger that fans out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct FanProgress {
    /// All records of the driving parent up to this key are done.
    done: Option<String>,
    /// The record in progress, and its last partition.
    item: Option<String>,
    key: Option<String>,
    skipped: u32,
    /// The dimensions when the fan-out began.
    dimensions: String,
}

/// The next partitions of a trigger.
pub(super) async fn next(
    store: &dyn Store,
    trigger: &ClaimedJob,
    snapshot: &Snapshot,
    given: &Params,
) -> Result<PartitionBatch, CompileError> {
    check_params(snapshot, given).map_err(|fault| fault.message)?;
    let place = trigger.position.as_deref().map(serde_json::from_str).transpose();
    let place: Option<FanProgress> = place.map_err(|error| format!("the place of the fan-out is damaged: {error}"))?;
    let dimensions = dimensions(snapshot);
    if place.as_ref().is_some_and(|place| place.dimensions != dimensions) {
        // The dimensions have changed: going on would mix the old product with the new one.
        return Err("the partitions of the endpoint were changed while they were being made: run it again".into());
    }
    let mut product = UnboundDimensions::new(trigger, snapshot, given, place.is_none())?;
    let place = place.unwrap_or_else(|| FanProgress { dimensions, ..FanProgress::default() });
    let mut page = PartitionPage { partitions: Vec::new(), place };
    let complete = match product.driving.take() {
        None => page.fill(&product, None, given.clone())?,
        Some(driving) => page.walk(store, &mut product, &driving).await?,
    };
    page.place.skipped += product.skipped;
    let place = serde_json::to_value(&page.place).unwrap_or_default();
    Ok(PartitionBatch {
        partitions: page.partitions,
        position: hash::canonical(&place),
        skipped: page.place.skipped,
        complete,
    })
}

fn dimensions(snapshot: &Snapshot) -> String {
    hash::digest(&[&hash::canonical(&serde_json::to_value(&snapshot.partitions).unwrap_or_default())])
}

/// Checks that the given params are known and valid, and that no required param is missing that nothing else can bind.
pub(crate) fn check_params(snapshot: &Snapshot, given: &Params) -> Result<(), Fault> {
    let inherits = snapshot.partitions.iter().any(|dimension| dimension.parent.is_some());
    if !inherits {
        return snapshot.resolve_params(given).map(|_| ());
    }
    without_required(snapshot).resolve_params(given).map(|_| ())
}

/// A parent may bind required params, which shows only with its records.
fn without_required(snapshot: &Snapshot) -> Snapshot {
    let mut lenient = snapshot.clone();
    lenient.params.values_mut().for_each(|param| param.required = false);
    lenient
}

/// The dimensions that are not bound yet.
struct UnboundDimensions<'t> {
    trigger: &'t ClaimedJob,
    given: &'t Params,
    /// Schema for checking single values.
    lenient: Snapshot,
    lists: Vec<(String, BTreeSet<String>)>,
    driving: Option<RecordDimension>,
    /// The other parents, and their values once they are needed.
    others: Vec<(RecordDimension, Option<Vec<Params>>)>,
    /// The first page also counts the values that the other parents leave out.
    first: bool,
    skipped: u32,
}

/// A dimension whose values are records.
struct RecordDimension {
    param: String,
    endpoint: String,
    path: Option<Selector>,
}

impl<'t> UnboundDimensions<'t> {
    fn new(
        trigger: &'t ClaimedJob,
        snapshot: &Snapshot,
        given: &'t Params,
        first: bool,
    ) -> Result<UnboundDimensions<'t>, CompileError> {
        let lenient = without_required(snapshot);
        let (mut lists, mut parents) = (Vec::new(), Vec::new());
        for partition in snapshot.partitions.iter().filter(|partition| !given.contains_key(&partition.param)) {
            let param = partition.param.clone();
            match &partition.parent {
                None => lists.push((param, partition.values.iter().cloned().collect())),
                Some(parent) => {
                    let path = parent.path.as_deref().map(Selector::parse).transpose();
                    let path = path.map_err(|flaw| format!("the path of the parent of `{param}`: {flaw}"))?;
                    parents.push((RecordDimension { param, endpoint: parent.endpoint.clone(), path }, None));
                }
            }
        }
        let driving = parents.pop().map(|(driving, _)| driving);
        Ok(UnboundDimensions { trigger, given, lenient, lists, driving, others: parents, first, skipped: 0 })
    }

    /// Reads all values of the other parents that the driving parent does not bind: each of its records is combined
    /// with them.
    async fn load_others(&mut self, store: &dyn Store, bound: &[Params]) -> Result<(), CompileError> {
        for at in 0..self.others.len() {
            let (dimension, known) = &self.others[at];
            if known.is_none() && bound.iter().any(|one| !one.contains_key(&dimension.param)) {
                let (values, skipped) = self.load(store, dimension).await?;
                self.others[at].1 = Some(values);
                self.skipped += if self.first { skipped } else { 0 };
            }
        }
        Ok(())
    }

    async fn load(&self, store: &dyn Store, dimension: &RecordDimension) -> Result<(Vec<Params>, u32), CompileError> {
        let (mut bindings, mut skipped, mut after) = (Vec::new(), 0, None);
        loop {
            let rows = self.read(store, dimension, after.take()).await?;
            for row in &rows {
                match self.binding(dimension, row) {
                    Some(binding) => bindings.push(binding),
                    None => skipped += 1,
                }
            }
            if bindings.len() > MAX_PARTITIONS as usize {
                return Err(too_many(&format!(" of `{}`", dimension.param)));
            }
            match rows.last() {
                Some(last) if rows.len() == dimension.page() as usize => after = Some(last.key.clone()),
                _ => return Ok((bindings, skipped)),
            }
        }
    }

    async fn read(
        &self,
        store: &dyn Store,
        dimension: &RecordDimension,
        after: Option<String>,
    ) -> Result<Vec<ParentRecord>, CompileError> {
        let read = ReadParents {
            project_key: self.trigger.project_key.clone(),
            provenance_code: self.trigger.provenance_code.clone(),
            endpoint_name: dimension.endpoint.clone(),
            dedup_scope: dimension.endpoint.clone(),
            after,
            limit: dimension.page(),
            payload: dimension.path.is_some(),
        };
        Ok(store.run(read).await?)
    }

    /// The params that a record binds: its own value, and the params that it was collected with where this endpoint has
    /// them too. `None` when its value cannot name a partition.
    fn binding(&self, dimension: &RecordDimension, parent: &ParentRecord) -> Option<Params> {
        let value = value::of(parent, dimension.path.as_ref())?;
        let own = Params::from([(dimension.param.clone(), value)]);
        self.lenient.resolve_params(&own).ok()?;
        let mut binding = parent.task_params.as_deref().and_then(|text| params::of_task(text).ok()).unwrap_or_default();
        binding.retain(|name, _| self.asks_for(name));
        binding.extend(own);
        Some(binding)
    }

    /// Whether partitions bind the param of this name: as a dimension, or because nothing else would bind it. A param
    /// with a default is not bound by a parent.
    fn asks_for(&self, name: &str) -> bool {
        let dimension = self.lenient.partitions.iter().any(|partition| partition.param == name);
        dimension || self.lenient.params.get(name).is_some_and(|param| param.default.is_none())
    }

    /// All partitions of `bound`, in a fixed order.
    fn combinations(&self, bound: Params) -> Result<Vec<(String, Params)>, CompileError> {
        let mut found = vec![bound];
        for (dimension, bindings) in &self.others {
            let mut next = Vec::new();
            for one in found {
                if one.contains_key(&dimension.param) {
                    next.push(one);
                    continue;
                }
                next.extend(bindings.iter().flatten().filter_map(|binding| merged(&one, binding)));
                limit(next.len())?;
            }
            found = next;
        }
        for (param, values) in &self.lists {
            let mut next = Vec::new();
            for one in found {
                match one.get(param) {
                    Some(value) if values.contains(value) => next.push(one),
                    Some(_) => {}
                    None => next.extend(values.iter().map(|value| with(&one, param, value))),
                }
                limit(next.len())?;
            }
            found = next;
        }
        let mut keyed: Vec<_> = found.into_iter().map(|one| (params::to_text(&one), one)).collect();
        keyed.sort();
        keyed.dedup();
        Ok(keyed)
    }
}

impl RecordDimension {
    fn page(&self) -> u32 {
        if self.path.is_some() { MAX_PAYLOADS } else { MAX_PARENTS }
    }
}

/// One page of partitions, and its limit.
struct PartitionPage {
    partitions: Vec<Params>,
    place: FanProgress,
}

impl PartitionPage {
    /// Goes through the records of the driving parent; true at their end.
    async fn walk(
        &mut self,
        store: &dyn Store,
        product: &mut UnboundDimensions<'_>,
        driving: &RecordDimension,
    ) -> Result<bool, CompileError> {
        loop {
            let rows = product.read(store, driving, self.place.done.clone()).await?;
            let bindings: Vec<_> = rows.iter().map(|row| product.binding(driving, row)).collect();
            // Skips records that were collected with other params.
            let ours = |binding: &Option<Params>| merged(product.given, binding.as_ref()?);
            let bound: Vec<_> = bindings.iter().map(ours).collect();
            product.load_others(store, &bound.iter().flatten().cloned().collect::<Vec<_>>()).await?;
            for ((row, binding), bound) in rows.iter().zip(&bindings).zip(bound) {
                let fresh = self.place.item.as_ref() != Some(&row.key);
                self.place.skipped += u32::from(binding.is_none() && fresh);
                if let Some(bound) = bound
                    && !self.fill(product, Some(&row.key), bound)?
                {
                    return Ok(false);
                }
                (self.place.item, self.place.key) = (None, None);
                self.place.done = Some(row.key.clone());
                if self.partitions.len() >= MAX_CHILDREN {
                    return Ok(false);
                }
            }
            if rows.len() < driving.page() as usize {
                return Ok(true);
            }
        }
    }

    /// Adds the partitions of `bound` after the position; false when there are more than a page holds.
    fn fill(
        &mut self,
        product: &UnboundDimensions<'_>,
        item: Option<&str>,
        bound: Params,
    ) -> Result<bool, CompileError> {
        let here = self.place.item.as_deref() == item;
        let behind = self.place.key.clone().filter(|_| here);
        let combinations = product.combinations(bound)?;
        let mut rest = combinations.into_iter().filter(|(key, _)| behind.as_ref().is_none_or(|behind| key > behind));
        for (key, partition) in rest.by_ref() {
            self.partitions.push(partition);
            if self.partitions.len() >= MAX_CHILDREN {
                (self.place.item, self.place.key) = (item.map(str::to_owned), Some(key));
                break;
            }
        }
        Ok(rest.next().is_none())
    }
}

/// Merges both, unless they have different values for one param.
fn merged(one: &Params, other: &Params) -> Option<Params> {
    let agree = other.iter().all(|(name, value)| one.get(name).is_none_or(|known| known == value));
    agree.then(|| one.iter().chain(other).map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn with(one: &Params, param: &str, value: &str) -> Params {
    let mut one = one.clone();
    one.insert(param.to_owned(), value.to_owned());
    one
}

fn limit(found: usize) -> Result<(), CompileError> {
    if found > MAX_PARTITIONS as usize { Err(too_many("")) } else { Ok(()) }
}

fn too_many(of: &str) -> CompileError {
    CompileError::Refused(format!(
        "more than {MAX_PARTITIONS} partitions{of}: bind some of them with params, or narrow the list"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use patra_core::state::{Operation, TriggerType};
    use patra_core::{Fence, JobId, Ts};
    use patra_testkit::ManualClock;
    use patra_testkit::memory::SharedMem;

    use super::*;

    fn snapshot(values: &str) -> Snapshot {
        let yaml = format!(
            "provenance: far\nendpoints:\n  list:\n    http: {{ base_url: \"https://x.org\", path: /list }}\n    params: {{ p: {{}} }}\n    partitions: [{{ param: p, values: [{values}] }}]\n    query: {{ p: \"${{ params.p }}\" }}\n    window: {{ watermark_key: u, initial: 2024-01-01 }}\n    response: {{ items_path: $, id_path: $.id, updated_at_path: $.u }}\n"
        );
        let manifest = patra_spec::read("t.yaml", &yaml).unwrap();
        patra_spec::compile(&manifest, "list", Operation::Harvest).unwrap().snapshot
    }

    #[tokio::test]
    async fn a_product_that_was_changed_is_not_gone_on_with() {
        let store = SharedMem::new(Arc::new(ManualClock::default()));
        let mut trigger = ClaimedJob {
            job: JobId(1),
            fence: Fence(1),
            public_id: "t".into(),
            trigger_type: TriggerType::Manual,
            project_key: "default".into(),
            provenance_code: "far".into(),
            endpoint_name: "list".into(),
            operation: Operation::Harvest,
            reason: None,
            activity: None,
            window_from: None,
            window_to: None,
            priority: 0,
            params: "{}".into(),
            overrides: "{}".into(),
            position: None,
            plan: None,
            now: Ts::from_secs(0),
        };
        let fan = next(&store, &trigger, &snapshot("a, b"), &Params::new()).await.unwrap();
        assert_eq!(fan.partitions.len(), 2);
        trigger.position = Some(fan.position);
        assert!(next(&store, &trigger, &snapshot("a, b"), &Params::new()).await.is_ok());
        let changed = next(&store, &trigger, &snapshot("a, c"), &Params::new()).await.unwrap_err();
        assert!(matches!(&changed, CompileError::Refused(why) if why.contains("run it again")), "{changed:?}");
    }
}
