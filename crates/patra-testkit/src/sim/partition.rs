//! The second endpoint of the world, read once per partition: per value of a list, or per record of the first endpoint.
//! Replaces the engine's compiler of partitions, and checks the partitions in the end.

use std::collections::BTreeSet;

use patra_core::Ts;
use patra_core::cursor::CursorName;
use patra_core::params::{self, Params};
use patra_core::protocol::planner::{CompileError, CompiledJob, PartitionBatch, PlanDraft, SliceContext};
use patra_core::rng::Rng;
use patra_core::state::Operation;
use patra_core::tx::{ClaimedJob, Done, Lease, ReadParents, Tx, TxError};
use serde_json::{Value, json};

use super::Mutant;
use super::api::{MockApi, number};
use super::check::Broken;
use super::passes;
use super::profile::Profile;
use super::scene::{self, Planned};
use super::world::World;
use crate::memory::{Instance, MemStore};

/// The partitioned endpoint.
pub(super) const ENDPOINT: &str = "c";
const PARAM: &str = "part";

/// The list of values, with one value twice, which is still one partition.
const LIST: [usize; 6] = [0, 1, 1, 2, 3, 0];

/// Number of values per page of a fan-out.
const PAGE: usize = 2;

#[derive(Clone, Copy, Debug)]
pub(super) struct Partitions {
    source: Source,
    /// Larger values of the list, and records of the first endpoint beyond these, name no partition.
    count: usize,
}

/// The origin of the partitions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    List,
    Parents,
}

impl Partitions {
    pub(super) fn draw(rng: &mut Rng) -> Partitions {
        let source = if rng.chance(500) { Source::List } else { Source::Parents };
        Partitions { source, count: 2 + rng.below(3) as usize }
    }

    fn has(&self, number: usize) -> bool {
        number < self.count
    }
}

impl MockApi {
    /// Records of the partitions, numbered behind the others.
    pub(super) fn add_partitions(&mut self, rng: &mut Rng, profile: &Profile, start: Ts, partitions: Partitions) {
        let first = self.records.len();
        self.add(rng, profile, start, profile.records.min(12));
        for record in &mut self.records[first..] {
            record.partition = Some(rng.below(partitions.count as u64) as usize);
        }
    }
}

/// The partition that a task reads.
pub(super) fn of(lease: &Lease) -> Option<usize> {
    (lease.endpoint_name == ENDPOINT).then(|| bound(&params::of_task(&lease.params).unwrap_or_default())).flatten()
}

/// The partition that a cursor is kept for.
pub(super) fn of_cursor(name: &CursorName) -> Option<usize> {
    name.namespace_key.strip_prefix("c:")?.parse().ok()
}

fn bound(params: &Params) -> Option<usize> {
    params.get(PARAM)?.parse().ok()
}

fn partition(number: usize) -> Params {
    Params::from([(PARAM.into(), number.to_string())])
}

/// The draft of one partition.
pub(super) fn draft(trigger: &ClaimedJob, draft: PlanDraft, mutant: Option<Mutant>) -> PlanDraft {
    let params = params::from_text(&trigger.params).unwrap_or_default();
    let number = if mutant == Some(Mutant::PartitionsShareCursor) { Some(0) } else { bound(&params) };
    let namespace_key = format!("c:{}", number.unwrap_or_default());
    PlanDraft {
        cursor: CursorName { endpoint_name: ENDPOINT.into(), namespace_key, ..draft.cursor },
        context: SliceContext { endpoint_name: ENDPOINT.into(), partition: params.clone(), params, ..draft.context },
        ..draft
    }
}

impl World {
    /// The fan-out that the compiler makes of a trigger.
    pub(super) fn compile(&mut self, trigger: &ClaimedJob) -> Result<CompiledJob, CompileError> {
        let draft = scene::draft(trigger, &self.profile, self.start, self.mutant);
        if let (Operation::Update, Some(update)) = (trigger.operation, self.profile.update) {
            return Ok(CompiledJob::Plan(Box::new(update.draft(trigger, draft))));
        }
        if trigger.endpoint_name != ENDPOINT {
            return Ok(CompiledJob::Plan(Box::new(draft)));
        }
        if bound(&params::from_text(&trigger.params).unwrap_or_default()).is_some() {
            let draft = self::draft(trigger, draft, self.mutant);
            return Ok(CompiledJob::Plan(Box::new(passes::draft(trigger, draft, self.profile.passes)?)));
        }
        if self.rng.chance(self.profile.faults.busy) {
            return Err(TxError::Busy.into());
        }
        let place: Value =
            trigger.position.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let skipped = place["skipped"].as_u64().unwrap_or(0) as u32;
        let Some(partitions) = self.profile.partitions else { return Err("there are no partitions".into()) };
        Ok(CompiledJob::Fan(match partitions.source {
            Source::Parents => self.parents(partitions, place["item"].as_str(), skipped)?,
            Source::List => partitions.list(place["key"].as_u64().unwrap_or(0) as usize),
        }))
    }

    fn parents(
        &mut self,
        all: Partitions,
        after: Option<&str>,
        mut skipped: u32,
    ) -> Result<PartitionBatch, CompileError> {
        let read = ReadParents {
            project_key: "default".into(),
            provenance_code: "p".into(),
            endpoint_name: "e".into(),
            dedup_scope: "e".into(),
            after: after.map(str::to_owned),
            limit: PAGE as u32,
            payload: false,
        };
        let Done::ReadParents(rows) = self.store.apply(self.store_now(), self.store_now(), &Tx::ReadParents(read))?
        else {
            return Err("the store answered something else".into());
        };
        let mut partitions = Vec::new();
        for row in &rows {
            match number(&row.key).filter(|number| all.has(*number)) {
                Some(number) => partitions.push(partition(number)),
                None => skipped += 1,
            }
        }
        let item = rows.last().map(|row| row.key.as_str()).or(after);
        let place = json!({ "item": item, "skipped": skipped }).to_string();
        Ok(PartitionBatch { partitions, position: place, skipped, complete: rows.len() < PAGE })
    }

    /// Every partition has been read to the end of the last window that was planned for it.
    pub(super) fn check_partitions(&self) -> Result<(), Broken> {
        let mem = &self.store.mem;
        for trigger in mem.instances.iter().filter(|row| row.origin.endpoint_name == ENDPOINT && row.parent.is_none()) {
            // Triggers of the calm phase, when all parents are stored.
            if trigger.public_id.starts_with("t20") {
                self.check_children(trigger)?;
            }
        }
        for number in self.expected() {
            let own = |row: &&crate::memory::Cursor| {
                row.name.operation == Operation::Harvest && of_cursor(&row.name) == Some(number)
            };
            let Some(cursor) = mem.cursors.iter().find(own) else {
                return Err(format!("no gap: partition {number} was never planned"));
            };
            let Planned { began, end, gaps } = scene::planned(mem, cursor);
            if let Some(gap) = gaps.first() {
                return Err(format!("no gap: {gap:?} of partition {number} was never read"));
            }
            if cursor.start() != Some(end) {
                return Err(format!(
                    "every task ends: partition {number} stands at {:?} instead of {end:?}",
                    cursor.value
                ));
            }
            self.check.check_no_gap(mem, &self.api, self.now, Some(number), (began, end), false)?;
        }
        let expected = self.expected();
        self.check_marks(|partition| expected.contains(&partition))
    }

    /// One trigger for each partition, no more, no less.
    fn check_children(&self, trigger: &Instance) -> Result<(), Broken> {
        let children = children(&self.store.mem, trigger);
        let expected = self.expected();
        if children != expected {
            return Err(format!(
                "no gap: {} has the partitions {children:?} instead of {expected:?}",
                trigger.public_id
            ));
        }
        Ok(())
    }

    fn expected(&self) -> BTreeSet<usize> {
        match self.profile.partitions {
            None => BTreeSet::new(),
            Some(Partitions { source: Source::List, count }) => (0..count).collect(),
            Some(partitions) => {
                let items = self.store.mem.items.iter().filter(|item| item.endpoint_name == "e");
                items.filter_map(|item| number(&item.key)).filter(|number| partitions.has(*number)).collect()
            }
        }
    }
}

impl Partitions {
    fn list(&self, from: usize) -> PartitionBatch {
        let to = (from + PAGE).min(LIST.len());
        let values: BTreeSet<_> = LIST[from.min(to)..to].iter().copied().filter(|value| self.has(*value)).collect();
        let place = json!({ "key": to }).to_string();
        PartitionBatch {
            partitions: values.into_iter().map(partition).collect(),
            position: place,
            skipped: 0,
            complete: to == LIST.len(),
        }
    }
}

fn children(mem: &MemStore, trigger: &Instance) -> BTreeSet<usize> {
    let rows = mem.instances.iter().filter(|row| row.parent == Some(trigger.id));
    rows.filter_map(|row| bound(&params::from_text(&row.params).unwrap_or_default())).collect()
}
